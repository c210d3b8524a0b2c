//! The decision for one owner: what to do next, and why for every node. The page to read first. Of a MutexRunConfig it is
//! made here, of a NodeMaintenance in `maintenance/`, of a Plan in `plan/`.
//!
//! Order of a pass: finish before starting. Nodes in flight move on; then, if the run is being left,
//! what numo changed is given back; otherwise pools are armed, and nodes are admitted while every gate
//! and budget allows. Nothing here reads or writes anything.

mod admit;
mod draft;
pub(crate) mod frame;
mod labels;
mod machine;
mod node;
mod pool;
mod quarantine;
mod run;
mod run_rules;
pub mod stuck;
mod ungated;

pub use admit::reservation;
pub use frame::{Frame, Member};

pub use crate::{
    action::{FORGET_CHAIN, JOB_CHAIN},
    decision::{Decision, Snapshot},
    gates::written::{MAX_CORRECTIONS, is_of_a_run, unlabelled_by_other},
    turn::{
        job::hosts_in_flight,
        journal::MAX_VERDICTS,
        lease::{LEASE_SECONDS, lease_holder},
        quarantine::is_quarantined,
    },
};

use crate::{maintenance, owner::OwnerKind, plan, verdict::Answers};

/// Decides everything this pass will do, and says why for every node.
///
/// For an owner that was not seen the decision is empty.
pub fn decide(snapshot: &Snapshot<'_>, answers: &Answers) -> Decision {
    match snapshot.owner.kind {
        OwnerKind::MutexRunConfig => match snapshot.observed.runs.get(&snapshot.owner.key) {
            Some(run) => run::decide(snapshot, run, answers),
            None => Decision::default(),
        },
        OwnerKind::NodeMaintenance(_) => match snapshot.observed.maintenances.get(snapshot.owner) {
            Some(view) => maintenance::decide(snapshot, view, answers),
            None => Decision::default(),
        },
        OwnerKind::Plan => match snapshot.observed.plans.get(&snapshot.owner.key) {
            Some(view) => plan::decide(snapshot, view, answers),
            None => Decision::default(),
        },
    }
}
