//! The decision for one owner: what to do next, and why for every node. The page to read first: every owner goes through the same
//! parts in the same order, and says in `owners/` what each of them is for its kind. Nothing here reads or writes anything.

pub use crate::{
    action::{FORGET_CHAIN, JOB_CHAIN},
    decision::{Decision, Snapshot},
    owners::mutex_run_config::{
        Member, RunView,
        gates::written::{MAX_CORRECTIONS, is_of_a_run, unlabelled_by_other},
        reservation,
    },
    turn::{
        job::hosts_in_flight,
        journal::MAX_VERDICTS,
        lease::{LEASE_SECONDS, lease_holder},
        quarantine::is_quarantined,
    },
};

use crate::{
    observed::{ForeignController, OwnerView},
    owner::OwnerKind,
    owners::{mutex_run_config::Run, node_maintenance, node_version, plan},
    pass::Pass,
    standoff,
    turn::{overdue, reservation},
    verdict::Answers,
};
use numo_api::marks;

/// Decides everything this pass will do, and says why for every node.
///
/// For an owner that was not seen the decision is empty.
pub fn decide(snapshot: &Snapshot<'_>, answers: &Answers) -> Decision {
    let (observed, owner) = (snapshot.observed, snapshot.owner);
    let Some(view) = observed.owner(owner) else {
        return Decision::default();
    };
    match owner.kind {
        OwnerKind::MutexRunConfig => observed.runs.get(&owner.key).map(|run| {
            let run = RunView::of(snapshot, run);
            pass(snapshot, view, Run::of(&run, answers))
        }),
        OwnerKind::NodeMaintenance(group) => observed.maintenances.get(owner).map(|seen| {
            pass(
                snapshot,
                view,
                node_maintenance::Pass::of(snapshot, (seen, group), answers),
            )
        }),
        OwnerKind::NodeVersion => observed
            .fleet
            .versions
            .get(&owner.key.name)
            .map(|seen| pass(snapshot, view, node_version::Pass::of(snapshot, seen, answers))),
        OwnerKind::Plan => observed
            .plans
            .get(&owner.key)
            .map(|seen| pass(snapshot, view, plan::Pass::of(snapshot, seen, answers))),
    }
    .unwrap_or_default()
}

/// One pass over an owner, whatever its kind. What each node that has its turn goes through is in `turn/steps.rs`; what may stand
/// against a turn in `admit/gates.rs`.
pub fn pass(snapshot: &Snapshot<'_>, view: OwnerView<'_>, mut owner: impl Pass) -> Decision {
    if owner.refuse().is_break() {
        return owner.finish();
    }
    // Finish before starting.
    owner.advance_turns();
    owner.restore_rest();
    owner.go_on();
    owner.tidy();
    let mut out = owner.finish();
    overdue::tell(&mut out, view.waiting, snapshot.now);
    let word = view.annotations.get(marks::ACKNOWLEDGED);
    out.report.acknowledged = word.is_some_and(|word| out.report.is_acknowledged_by(word));
    let rival = snapshot
        .observed
        .stood_off(ForeignController::of(snapshot.owner.kind));
    let journals = reservation::of(snapshot.observed, snapshot.owner, view.uid);
    standoff::finish(&mut out, snapshot, rival.as_ref(), journals, view.uid);
    out
}
