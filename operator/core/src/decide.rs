//! The decision for one owner: what to do next, and why for every node. The page to read first: every owner goes through the same
//! parts in the same order, and says in `owners/` what each of them is for its kind. Nothing here reads or writes anything.

pub use crate::{
    action::{FORGET_CHAIN, JOB_CHAIN},
    decision::{Decision, Snapshot},
    owners::mutex_run_config::{
        Member, RunView,
        gates::written::{MAX_CORRECTIONS, is_of_a_run, unlabelled_by_other},
        lease_holder, reservation,
    },
    turn::{job::hosts_in_flight, journal::MAX_VERDICTS, lease::LEASE_SECONDS, quarantine::is_quarantined},
};

use crate::{
    finalizer,
    observed::{ForeignController, OwnerView},
    own_gate,
    owners::{self, WithPass},
    pass::Pass,
    standoff,
    turn::{overdue, reservation},
    untold,
    verdict::Answers,
};
use numo_api::marks;

/// Decides everything this pass will do, and says why for every node.
///
/// For an owner that was not seen the decision is empty.
pub fn decide(snapshot: &Snapshot<'_>, answers: &Answers) -> Decision {
    let Some(view) = snapshot.observed.owner(snapshot.owner) else {
        return Decision::default();
    };
    owners::pass(snapshot, answers, OnePass { snapshot, view }).unwrap_or_default()
}

/// One pass over the owner of a snapshot.
struct OnePass<'s, 'a> {
    snapshot: &'s Snapshot<'a>,
    view: OwnerView<'a>,
}

impl WithPass for OnePass<'_, '_> {
    fn go(self, owner: impl Pass) -> Decision {
        pass(self.snapshot, self.view, owner)
    }
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
    own_gate::finish(&mut out, snapshot.owner, view);
    let rival = snapshot
        .observed
        .stood_off(ForeignController::of(snapshot.owner.kind));
    let journals = reservation::of(snapshot.observed, snapshot.owner, view.uid);
    untold::finish(
        &mut out,
        snapshot.observed,
        reservation::of(snapshot.observed, snapshot.owner, view.uid),
    );
    finalizer::settle(&mut out, snapshot, view);
    standoff::finish(&mut out, snapshot, rival.as_ref(), journals, view.uid);
    out
}
