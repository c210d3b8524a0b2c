//! The decision for one owner: what to do next, and why for every node. The page to read first. It is made in `owners/`, by
//! the module of the owner's kind. Nothing here reads or writes anything.

pub use crate::{
    action::{FORGET_CHAIN, JOB_CHAIN},
    decision::{Decision, Snapshot},
    owners::mutex_run_config::{
        Frame, Member,
        gates::written::{MAX_CORRECTIONS, is_of_a_run, unlabelled_by_other},
        reservation, stuck,
    },
    turn::{
        job::hosts_in_flight,
        journal::MAX_VERDICTS,
        lease::{LEASE_SECONDS, lease_holder},
        quarantine::is_quarantined,
    },
};

use crate::{
    owner::OwnerKind,
    owners::{mutex_run_config, node_maintenance, plan},
    verdict::Answers,
};

/// Decides everything this pass will do, and says why for every node.
///
/// For an owner that was not seen the decision is empty.
pub fn decide(snapshot: &Snapshot<'_>, answers: &Answers) -> Decision {
    match snapshot.owner.kind {
        OwnerKind::MutexRunConfig => match snapshot.observed.runs.get(&snapshot.owner.key) {
            Some(run) => mutex_run_config::decide(snapshot, run, answers),
            None => Decision::default(),
        },
        OwnerKind::NodeMaintenance(_) => match snapshot.observed.maintenances.get(snapshot.owner) {
            Some(view) => node_maintenance::decide(snapshot, view, answers),
            None => Decision::default(),
        },
        OwnerKind::Plan => match snapshot.observed.plans.get(&snapshot.owner.key) {
            Some(view) => plan::decide(snapshot, view, answers),
            None => Decision::default(),
        },
    }
}
