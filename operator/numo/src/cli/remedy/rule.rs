//! Commands on rules.

use super::name::{mentioned, placed};
use super::wait::Wait;
use numo_core::observed::Key;

impl Wait<'_> {
    /// Rules that stand in the run.
    fn of_own_rules(&self) -> Vec<String> {
        let Key { namespace, name } = &self.owner.key;
        vec![
            format!("numo explain mutexrunconfig/{name} -n {namespace}"),
            format!("kubectl -n {namespace} edit mutexrunconfig {name}"),
        ]
    }

    /// The Job that the sentence names: it may be gone, while its pods are not.
    pub(super) fn of_job(&self) -> Vec<String> {
        let namespace = &self.owner.key.namespace;
        let jobs = mentioned(self.message, "Job").into_iter().take(1);
        let commands = jobs.flat_map(|job| {
            let (place, name) = job.split_once('/').unwrap_or((namespace, job));
            let pods = format!("kubectl -n {place} describe pods -l batch.kubernetes.io/job-name={name}");
            [placed("describe", "job", job, namespace), pods]
        });
        commands.collect()
    }

    /// Rules: those that the sentence names, else all of the owner's namespace.
    pub(super) fn of_rules(&self) -> Vec<String> {
        let namespace = &self.owner.key.namespace;
        let mut names = mentioned(self.message, "MutexRule");
        if names.is_empty() {
            names = mentioned(self.message, "rule");
        }
        let of_run = mentioned(self.message, "rule")
            .iter()
            .any(|name| self.message.contains(&format!("rule {name} of MutexRunConfig")));
        if of_run || names.iter().any(|name| name.contains('_')) {
            return self.of_own_rules();
        }
        let known = |name: &&str| {
            let rules = &self.look.store.observed.rules;
            let (place, name) = name.split_once('/').unwrap_or((namespace, name));
            rules.contains_key(&Key::new(place, name))
        };
        let mut all: Vec<String> = Vec::new();
        for name in names.into_iter().filter(known) {
            let (place, name) = name.split_once('/').unwrap_or((namespace, name));
            all.push(format!("numo explain mutexrule/{name} -n {place}"));
            all.push(format!("kubectl -n {place} edit mutexrule {name}"));
        }
        if all.is_empty() {
            all.push(format!("kubectl -n {namespace} get mutexrules"));
        }
        all
    }
}
