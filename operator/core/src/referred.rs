//! Which rules owners refer to. One place for all kinds of owners; nothing here reads or writes anything.

use crate::{
    admit::wave,
    intent,
    observed::{Key, Observed, RunConfigView},
    owner::{Owner, OwnerKind},
    owners::mutex_run_config::gates::watched::not_watched,
    owners::{node_maintenance, node_version, plan},
};
use numo_api::marks;
use std::collections::BTreeMap;

/// How an owner refers to a rule, the stronger first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referral {
    /// An owner that is watched.
    Watched,
    /// An owner that is not watched, and says by its finalizer that it has something to give back. Whoever may write the owner may
    /// write that, too.
    GivesBack,
}

/// The rules that owners refer to, whether they exist or not, each by its strongest referral.
pub fn rules(observed: &Observed) -> BTreeMap<Key, Referral> {
    let gives_back = |finalizers: &[String]| finalizers.iter().any(|one| one == marks::FINALIZER);
    let referral = |watched: bool, finalizers: &[String]| {
        let leaves = || gives_back(finalizers).then_some(Referral::GivesBack);
        watched.then_some(Referral::Watched).or_else(leaves)
    };
    let mut all = BTreeMap::new();
    let mut refer = |referral: Referral, key: Key| {
        let strongest = all.entry(key).or_insert(referral);
        *strongest = referral.min(*strongest);
    };
    for run in observed.runs.values() {
        let watched = not_watched(run, &observed.settings).is_none();
        if let Some(referral) = referral(watched, &run.finalizers) {
            rules_of_run(run, observed).for_each(|key| refer(referral, key));
        }
    }
    for view in observed.maintenances.values() {
        let rules = node_maintenance::rules_of(view, observed).into_iter();
        rules.for_each(|(key, _)| refer(Referral::Watched, key));
    }
    for view in observed.fleet.versions.values() {
        let rules = node_version::named_by(view, observed).into_iter();
        rules.for_each(|key| refer(Referral::Watched, key));
    }
    for view in observed.plans.values() {
        let watched = plan::not_watched(view, observed).is_none();
        if let Some(referral) = referral(watched, &view.finalizers) {
            let rules = plan::named_by(view, observed).into_iter();
            rules.for_each(|key| refer(referral, key));
        }
    }
    all
}

/// The rules that this owner refers to, whether they exist or not.
pub fn of_owner(owner: &Owner, observed: &Observed) -> Vec<Key> {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = observed.runs.get(&owner.key).into_iter();
            run.flat_map(|run| rules_of_run(run, observed)).collect()
        }
        OwnerKind::Plan => {
            let plan = observed.plans.get(&owner.key).into_iter();
            plan.flat_map(|plan| plan::named_by(plan, observed)).collect()
        }
        OwnerKind::NodeVersion => {
            let view = observed.fleet.versions.get(&owner.key.name).into_iter();
            view.flat_map(|view| node_version::named_by(view, observed))
                .collect()
        }
        OwnerKind::NodeMaintenance(_) => {
            let view = observed.maintenances.get(owner).into_iter();
            let rules = view.flat_map(|view| node_maintenance::rules_of(view, observed));
            rules.map(|(key, _)| key).collect()
        }
    }
}

/// Whether an owner is in a namespace that may have such owners. Whoever may write others has nothing done before those that
/// administrators have let in.
pub fn is_watched(owner: &Owner, observed: &Observed) -> bool {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = observed.runs.get(&owner.key);
            run.is_some_and(|run| not_watched(run, &observed.settings).is_none())
        }
        OwnerKind::Plan => {
            let plan = observed.plans.get(&owner.key);
            plan.is_some_and(|plan| plan::not_watched(plan, observed).is_none())
        }
        OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => true,
    }
}

fn rules_of_run<'a>(run: &'a RunConfigView, observed: &'a Observed) -> impl Iterator<Item = Key> {
    let own = intent::Intent::parse(run, observed).rules.into_iter();
    let own = own.map(|(key, _)| key);
    own.chain(wave::rules(run.spec.waves.as_deref(), &run.key.namespace))
}
