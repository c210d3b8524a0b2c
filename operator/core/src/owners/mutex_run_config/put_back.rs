//! What a run puts on its pools, and on nodes without a turn, and somebody takes off with the mark that would count it: the status of the
//! run counts instead, as a journal does for a turn (`turn/put_back.rs`). What it is, is not said here.

use super::{
    gates::written::{at_once, next, stripped_words},
    run_decision::RunDecision,
    run_rules::{record_run, run_status},
};
use crate::{
    action::{Action, Event, EventAction, Planned},
    turn::put_back,
};
use numo_api::Reason;

/// Whether it stays off for now.
pub(super) fn stays_off(decision: &mut RunDecision<'_>) -> bool {
    let at = next(decision.view).filter(|at| *at > decision.view.now);
    if let Some(at) = at {
        decision.wake(at);
    }
    at.is_some()
}

/// Counts that something is put back by this decision, once that is written in its chain; people are told once that was often.
pub(super) fn count(decision: &mut RunDecision<'_>, chain: &str) {
    let records = |planned: &Planned| matches!(planned.action, Action::RecordRun { .. });
    if decision.out.actions.iter().any(records) {
        return;
    }
    let view = decision.view;
    let mut status = run_status(view);
    let (noted, times) = put_back::once_more(status.put_back.as_ref(), view.now);
    status.put_back = Some(noted);
    let told = || {
        Event::warning(
            Reason::ForeignWriter.name(),
            EventAction::Restore,
            stripped_words(),
        )
    };
    record_run(decision, chain, status, (times == at_once(view)).then(told));
}
