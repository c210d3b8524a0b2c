//! The finalizer of a run: it is there while a mark may be.

use super::run_decision::RunDecision;
use crate::{action::Action, finalizer};

/// Puts the finalizer back that somebody has taken off while marks are there: without it nobody would take them back when
/// the run is deleted.
pub fn keep_finalizer(decision: &mut RunDecision<'_>) {
    if decision.view.run.deleting || takes_back(decision) || !decision.view.holds_anything() {
        return;
    }
    add_finalizer(decision);
}

pub(super) fn add_finalizer(decision: &mut RunDecision<'_>) {
    let owner = (decision.view.owner, decision.view.run.into());
    finalizer::add(&mut decision.out, owner, "run");
}

/// Takes the finalizer off once nothing is left to restore. Held pools are restored by nobody, so they
/// keep a live owner's finalizer and not a deleted one's; where no pool is seen at all the list is not believed.
pub fn drop_finalizer(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let held = view.observed.pools.is_empty() || view.marked_pools().next().is_some();
    let run = view.run;
    if let Some(action) = finalizer::removal(view.owner, run.into())
        && !takes_back(decision)
        && (!held || run.deleting)
    {
        decision.act("run", action, None);
    }
}

/// Whether marks are being taken back.
fn takes_back(decision: &RunDecision<'_>) -> bool {
    let begins = |action: &Action| action.begins(decision.view.observed).is_some();
    let mut planned = decision.out.actions.iter().map(|planned| &planned.action);
    planned.any(|action| restores(action) && !begins(action))
}

/// Whether a write may be one that takes a mark back.
const fn restores(action: &Action) -> bool {
    matches!(
        action,
        Action::PatchPool(_)
            | Action::PatchNode(_)
            | Action::PatchMachine(_)
            | Action::ReleaseLease { .. }
            | Action::WriteJournal { .. }
    )
}
