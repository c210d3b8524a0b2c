//! A rule of a node that has its turn failed for good, whoever the owner is: the rules of phase OnFailure have their say, and then the
//! policy of the rule decides. What a failure means for the owner is the owner's to say.

use crate::{
    action::{Event, EventAction},
    observed::ChangeView,
    turn::{
        journal::{self, Journal},
        node::{Next, ON, STAY, Turn},
        phases::{At, Went},
    },
    why::Why,
};
use numo_api::{FailurePolicy, Phase, Reason, Step};

/// Whether the node is held because a rule failed.
pub fn is_held(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Held) && journal::is_for(change, Reason::RuleFailed)
}

/// A rule of this phase failed for good, and this is what its author wants then.
pub fn fail(turn: &mut impl Turn, phase: Phase, policy: FailurePolicy, why: Why) -> Next {
    hear_of(turn, &why)?;
    if let Some(next) = turn.go_on_failed(phase, &why) {
        return next;
    }
    match policy {
        FailurePolicy::Abort => turn.abort(why),
        FailurePolicy::Skip if turn.may_leave_out() => {
            turn.leave_out(Why::new(Reason::SkippedByPolicy, why.message));
        }
        FailurePolicy::Skip | FailurePolicy::Hold | FailurePolicy::Continue => hold(turn, why),
    }
    STAY
}

/// Has the rules of phase OnFailure asked. They change nothing about what follows: one that fails too is over.
fn hear_of(turn: &mut impl Turn, why: &Why) -> Next {
    let is_released = turn.is_released();
    let parts = turn.parts();
    let at = (parts.node, parts.change);
    let earlier = parts.phases.earlier(parts.out, at, is_released);
    let phase = At::then(Phase::OnFailure, None);
    let went = parts.phases.pass(parts.out, at, phase, earlier.as_ref());
    match went {
        Went::Passed | Went::Failed(..) => return ON,
        // Beside an earlier Job they are not asked: who reads of the failure alone would not know what the node waits for.
        Went::Closed(other) => {
            let message = format!("{}; {}", other.message, why.message);
            turn.say(
                Step::Held,
                Why {
                    message: message.into(),
                    ..other
                },
            );
        }
        Went::Waits(other) => {
            let is_asked = matches!(other.reason, Reason::RuleStarting | Reason::RuleRunning);
            turn.say(Step::Held, if is_asked { why.clone() } else { other });
        }
    }
    STAY
}

/// Holds the node until a person says what is to become of it.
fn hold(turn: &mut impl Turn, why: Why) {
    let pin = turn.pin_of_held();
    let (phases, node, change, out) = turn.parts().all();
    if is_held(change) {
        return say_held(turn);
    }
    let mut journal = Journal::open(change, phases.now);
    journal.enter(Step::Held, Some(&why));
    journal.status.pin = journal.status.pin.or(pin);
    let event = Event::warning(
        "NodeHeld",
        EventAction::EvaluateRule,
        format!("held: {}", why.message),
    )
    .on(&node.name);
    out.actions.extend(journal.planned(Some(event)));
    turn.say(Step::Held, why);
}

/// Why a node is held, and what a person can do.
pub fn why_held(change: &ChangeView) -> Why {
    let message = change.status.message.as_deref().unwrap_or_default();
    // Not of the node that has its place by now, if another one has.
    let message = format!(
        "{message}; `numo retry {0}` evaluates its rules again, `numo skip {0}` leaves the node out",
        change.spec.node_name
    );
    Why::new(Reason::RuleFailed, message)
}

/// Says of a node that is held why it is.
pub fn say_held(turn: &mut impl Turn) {
    let why = why_held(turn.parts().change);
    turn.say(Step::Held, why);
}
