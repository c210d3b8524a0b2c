//! The namespaces that are watched because Plans are in them, or because rules run Jobs there. A namespace stays watched until the
//! process ends. Nothing here decides whose Plans and Jobs count.

use super::context::Context;
use crate::{
    frontends,
    shell::{
        kind::{Kind, MAX_GIVING_BACK, MAX_JOB_NAMESPACES},
        watched::{self, Place},
    },
};
use numo_api::marks;
use numo_core::{
    observed::{ChangeView, Observed, RuleView},
    owners::plan::not_watched,
    place,
    referred::{self, Referral},
};
use std::collections::{BTreeMap, BTreeSet};

/// The namespaces that are watched.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Those with Jobs of rules; each with whether it was taken for an owner that is not watched.
    jobs: BTreeMap<String, bool>,
    /// Those with Plans.
    plans: BTreeSet<String>,
    /// Those whose Secrets Plans use.
    secrets: BTreeSet<String>,
}

impl Namespaces {
    /// Begins to watch the namespaces that are wanted now. Those of Plans come first: their Events are wanted too.
    pub fn follow(&mut self, context: &mut Context) {
        self.watch_plans(context);
        self.watch_jobs(context);
    }

    /// Begins to watch the namespaces that have Plans which are watched, and their Secrets where Plans use some.
    fn watch_plans(&mut self, context: &mut Context) {
        for (namespace, uses_secrets) in with_plans(&context.store.observed) {
            if self.plans.insert(namespace.clone()) {
                for kind in watched::at(Place::PlanJobs) {
                    context.watch(kind, &namespace);
                }
            }
            if uses_secrets && self.secrets.insert(namespace.clone()) {
                let unseen = &mut context.store.observed.unseen_secrets;
                unseen.insert(namespace.clone(), None);
                context.watch(Kind::Secret, &namespace);
            }
        }
    }

    /// Begins to watch the namespaces that rules run Jobs in.
    fn watch_jobs(&mut self, context: &mut Context) {
        for (namespace, restores) in self.with_jobs(&context.store.observed) {
            if let Some(of_others) = self.jobs.get_mut(&namespace) {
                *of_others &= restores;
                continue;
            }
            if self.is_full(restores) {
                if !of_rules(&context.store.observed, Referral::GivesBack).contains(&namespace) && restores {
                    // No rule is there now. One of many may have been.
                    continue;
                }
                tracing::error!(
                    namespace,
                    limit = MAX_JOB_NAMESPACES,
                    "too many namespaces with rule Jobs: not watched"
                );
                context.store.leave_unwatched(&namespace);
                continue;
            }
            for kind in watched::at(Place::RuleJobs) {
                context.watch(kind, &namespace);
            }
            context.store.watch_again(&namespace);
            self.jobs.insert(namespace, restores);
        }
        let observed = &context.store.observed;
        let places = |rule: &RuleView| {
            let mut places: BTreeSet<String> = may_have_run(observed, &[rule]).into_iter().collect();
            places.retain(|namespace| self.jobs.contains_key(namespace));
            (rule.key.clone(), places)
        };
        // Each rule waits for its own alone: a namespace that cannot be listed keeps no other rule from being judged.
        let earlier = edited(observed).into_iter().map(places).collect();
        context.store.await_jobs_of(earlier);
    }

    /// Whether no further namespace with Jobs is watched; of owners that are not watched there are fewer.
    fn is_full(&self, restores: bool) -> bool {
        let of_others = self.jobs.values().filter(|restores| **restores);
        restores && of_others.count() >= MAX_GIVING_BACK || self.jobs.len() >= MAX_JOB_NAMESPACES
    }

    /// The namespaces that rules run Jobs in, those of rules that watched owners refer to first; each with whether it is of another rank:
    /// only an owner refers to it that is not watched, and says that it has something to give back, or a rule ran Jobs there before.
    fn with_jobs(&self, observed: &Observed) -> Vec<(String, bool)> {
        let mut watched = of_rules(observed, Referral::Watched);
        // Events tell why the Job of a Plan gets no pod.
        watched.extend(self.plans.iter().cloned());
        let others = of_rules(observed, Referral::GivesBack).into_iter();
        let others = others.chain(of_edited(observed));
        let others: Vec<_> = others
            .filter(|one| !watched.contains(one))
            .map(|one| (one, true))
            .collect();
        let first = watched.into_iter().map(|one| (one, false));
        first.chain(others).collect()
    }
}

/// The namespaces that rules of such a referral run Jobs in.
fn of_rules(observed: &Observed, wanted: Referral) -> BTreeSet<String> {
    let referred = referred::rules(observed);
    let rules = referred.iter().filter(|(_, referral)| **referral == wanted);
    let rules = rules.filter_map(|(key, _)| observed.rules.get(key));
    rules
        // Where a rule may not run nothing of it is to be seen.
        .filter(|rule| place::refusal(rule, observed).is_none())
        .filter(|rule| !rule.is_evaluated)
        .filter(|rule| frontends::mutex_rule::is_namespace(&rule.job_namespace))
        .map(|rule| rule.job_namespace.clone())
        .collect()
}

/// The namespaces where a Job of a rule may still run that began before the rule was edited, while nodes have their turns. After a restart
/// nobody else knows of that Job, and another would begin beside it.
fn of_edited(observed: &Observed) -> Vec<String> {
    may_have_run(observed, &edited(observed))
}

/// The rules that were edited, while nodes have their turns.
fn edited(observed: &Observed) -> Vec<&RuleView> {
    if !observed.journals().any(ChangeView::in_flight) {
        return Vec::new();
    }
    let referred = referred::rules(observed);
    let rules = referred
        .iter()
        .filter(|(_, referral)| **referral == Referral::Watched);
    let rules = rules.filter_map(|(key, _)| observed.rules.get(key));
    rules.filter(|rule| rule.generation > 1).collect()
}

/// The namespaces where Jobs of these rules may have run: those where they ran one by a journal, their own, and those that take their Jobs.
fn may_have_run(observed: &Observed, rules: &[&RuleView]) -> Vec<String> {
    let names: BTreeSet<String> = rules.iter().map(|rule| rule.key.to_string()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let verdicts = observed.journals().flat_map(|change| &change.status.verdicts);
    let jobs = verdicts.filter(|verdict| names.contains(&verdict.rule));
    let ran = jobs.filter_map(|verdict| Some(verdict.job.as_deref()?.split_once('/')?.0.to_owned()));
    let take = observed.rule_jobs_from.iter();
    let take = take.filter(|(_, from)| rules.iter().any(|rule| from.contains(&rule.key.namespace)));
    let take = take.map(|(namespace, _)| namespace.clone());
    let own = rules.iter().map(|rule| rule.key.namespace.clone());
    let all = ran.chain(own).chain(take);
    let mut known = BTreeSet::new();
    all.filter(|one| frontends::mutex_rule::is_namespace(one) && known.insert(one.clone()))
        .collect()
}

/// The namespaces with Plans that are watched, or have something to give back; each with whether one uses Secrets.
fn with_plans(observed: &Observed) -> Vec<(String, bool)> {
    let watched = observed.plans.values().filter(|view| {
        !view.deleting && not_watched(view, observed).is_none()
            || view.finalizers.iter().any(|one| one == marks::FINALIZER)
    });
    watched
        .map(|view| {
            let mut secrets = view.spec.secrets.iter().flatten();
            let uses = secrets.any(|secret| secret.ignore_updates != Some(true));
            (view.key.namespace.clone(), uses)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use numo_core::{observed::Key, ready};
    use serde_json::json;

    /// A journal of this namespace, with a verdict of the rule `team/backup` by this Job.
    fn journal(namespace: &str, job: &str) -> ChangeView {
        let spec = json!({
            "ownerRef": {"apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig", "namespace": "numo", "name": "run", "uid": "u"},
            "nodeName": "a", "nodeUID": "a", "target": {"runID": "r", "version": "2", "pool": ""},
        });
        let verdict = json!({
            "rule": "team/backup", "phase": "Pre", "attempt": 1, "round": 1, "outcome": "Pass", "reason": "Completed", "job": job,
            "at": "2026-01-01T00:00:00Z",
        });
        ChangeView {
            key: Key::new(namespace, "one"),
            uid: "one".to_owned(),
            resource_version: "1".to_owned(),
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            annotations: BTreeMap::new(),
            misread: None,
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(json!({"step": "PreRules", "verdicts": [verdict]})).unwrap(),
        }
    }

    /// Its Job may run where the rule had it before: one that nobody sees would have another one beside it.
    #[test]
    fn a_rule_that_was_edited_may_have_a_job_where_it_ran_before() {
        let mut observed = Observed::default();
        "numo".clone_into(&mut observed.settings.namespace);
        let from = |name: &str| BTreeSet::from([name.to_owned()]);
        observed.rule_jobs_from.insert("shared".to_owned(), from("team"));
        observed
            .rule_jobs_from
            .insert("theirs".to_owned(), from("others"));
        for change in [
            journal("numo", "before/backup-0"),
            journal("stranger", "forged/backup-0"),
        ] {
            observed.changes.insert(change.key.clone(), change);
        }
        let rule = RuleView {
            key: Key::new("team", "backup"),
            ..ready::rule(None)
        };
        let found = may_have_run(&observed, &[&rule]);
        assert_eq!(
            found,
            ["before", "team", "shared"],
            "where it ran is first: not all may be watched"
        );
        assert_eq!(may_have_run(&observed, &[]), Vec::<String>::new());
    }
}
