//! Commands on rules.

use super::name::mentioned;
use super::wait::Wait;
use numo_core::observed::Key;

impl Wait<'_> {
    /// Rules: those that the sentence names, else all of the owner's namespace.
    pub(super) fn of_rules(&self) -> Vec<String> {
        let namespace = &self.owner.key.namespace;
        let mut names = mentioned(self.message, "MutexRule");
        if names.is_empty() {
            names = mentioned(self.message, "rule");
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
