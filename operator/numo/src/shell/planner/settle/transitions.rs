//! What conditions say anew, as events: that an owner needs a person, that nodes were left out, or that it is done. Nothing is sent here.

use numo_api::{Condition, Reason, conditions::types};
use numo_core::action::{Event, EventAction};

/// The reason of Ready, and whether there is a Stalled.
pub fn ready_of(conditions: &[Condition]) -> (Option<&str>, bool) {
    let ready = of(conditions, types::READY);
    let stalled = of(conditions, types::STALLED).is_some();
    (ready.and_then(|one| one.reason.as_deref()), stalled)
}

/// Events on the owner for what its conditions say anew.
pub fn transitions(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    let mut events: Vec<Event> = stalled(old, new).into_iter().collect();
    let incomplete = incomplete(old, new).filter(|event| {
        let says = |said: &Event| said.reason == event.reason && said.note.contains(&event.note);
        !events.iter().any(says)
    });
    events.extend(incomplete);
    events.extend(succeeded(old, new));
    events
}

/// It needs a person, for another reason than before.
fn stalled(old: &[Condition], new: &[Condition]) -> Option<Event> {
    let stalled = of(new, types::STALLED)?;
    let same = of(old, types::STALLED).is_some_and(|before| before.reason == stalled.reason);
    if same {
        return None;
    }
    Some(event(true, named(stalled)?, EventAction::Hold, stalled))
}

/// Nodes that were left out, or that rolled without rules, are named by an event whatever the owner says of itself.
fn incomplete(old: &[Condition], new: &[Condition]) -> Option<Event> {
    let incomplete = of(new, types::INCOMPLETE)?;
    let same = of(old, types::INCOMPLETE).is_some_and(|before| before.message == incomplete.message);
    if same {
        return None;
    }
    Some(event(true, named(incomplete)?, EventAction::Complete, incomplete))
}

/// It is done, and was not before.
fn succeeded(old: &[Condition], new: &[Condition]) -> Option<Event> {
    let ready = of(new, types::READY)?;
    let is_done = ready.reason.as_deref() == Some(Reason::Succeeded.name());
    let same = of(old, types::READY).is_some_and(|before| before.reason == ready.reason);
    let is_new = is_done && !same;
    is_new.then(|| event(false, Reason::Succeeded, EventAction::Complete, ready))
}

/// The condition of a type.
fn of<'a>(list: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    list.iter().find(|one| one.type_ == type_)
}

/// The reason of a condition, if it is one that numo knows.
fn named(condition: &Condition) -> Option<Reason> {
    Reason::named(condition.reason.as_deref()?)
}

fn event(warning: bool, reason: Reason, action: EventAction, condition: &Condition) -> Event {
    Event {
        node: None,
        warning,
        reason: reason.name(),
        action,
        note: condition.message.clone().unwrap_or_default(),
    }
}
