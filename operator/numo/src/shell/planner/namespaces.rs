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
    observed::Observed,
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
        for (namespace, gives_back) in self.with_jobs(&context.store.observed) {
            if let Some(of_others) = self.jobs.get_mut(&namespace) {
                *of_others &= gives_back;
                continue;
            }
            if self.is_full(gives_back) {
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
            self.jobs.insert(namespace, gives_back);
        }
    }

    /// Whether no further namespace with Jobs is watched; of owners that are not watched there are fewer.
    fn is_full(&self, gives_back: bool) -> bool {
        let of_others = self.jobs.values().filter(|gives_back| **gives_back);
        gives_back && of_others.count() >= MAX_GIVING_BACK || self.jobs.len() >= MAX_JOB_NAMESPACES
    }

    /// The namespaces that rules run Jobs in, those of rules that watched owners refer to first; each with whether only an
    /// owner refers to it that is not watched, and says that it has something to give back.
    fn with_jobs(&self, observed: &Observed) -> Vec<(String, bool)> {
        let mut watched = of_rules(observed, Referral::Watched);
        // Events tell why the Job of a Plan gets no pod.
        watched.extend(self.plans.iter().cloned());
        let others = of_rules(observed, Referral::GivesBack);
        let others: Vec<_> = others
            .difference(&watched)
            .map(|one| (one.clone(), true))
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
        .filter(|rule| !rule.is_asked)
        .filter(|rule| frontends::mutex_rule::is_namespace(&rule.job_namespace))
        .map(|rule| rule.job_namespace.clone())
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
