//! What is told of the status of an object that is no owner: that the object turned invalid, that the component of a rule is an older
//! version, and that the status itself is refused. Nothing is written here.

use crate::shell::{
    events::{Events, Published},
    kind::Kind,
    status,
};
use numo_api::{
    Condition, Reason,
    conditions::types::{DOWNGRADED, READY, VALID_CONFIG},
};
use numo_core::{
    action::{Event, EventAction},
    observed::Key,
};
use std::collections::BTreeMap;

/// Refusals of statuses that are remembered; beyond it they are forgotten, and told once more.
const REFUSED_KEPT: usize = 1000;

/// A status that was to be written, with the conditions before and after.
pub struct Changed<'a> {
    /// The kind of its object.
    pub kind: Kind,
    /// The object.
    pub key: &'a Key,
    /// Its uid.
    pub uid: &'a str,
    /// Its conditions as they were.
    pub before: &'a [Condition],
    /// Its conditions as they are written.
    pub after: &'a [Condition],
}

impl Changed<'_> {
    /// An event on the object.
    fn event(&self, event: Event) -> Published {
        let (group, version, kind, _) = self.kind.resource();
        Published {
            api_version: format!("{group}/{version}"),
            kind,
            owner: self.key.clone(),
            owner_uid: self.uid.to_owned(),
            pool: None,
            node_uid: None,
            event,
        }
    }

    /// The condition that says whether the object is right.
    const fn tells(&self) -> &'static str {
        match self.kind {
            Kind::MutexRule | Kind::MutexTarget => VALID_CONFIG,
            _ => READY,
        }
    }
}

/// Statuses that are refused, with what was told of each: it is told once.
#[derive(Debug, Default)]
pub struct Refused(BTreeMap<(Kind, Key), String>);

impl Refused {
    /// Tells what came of writing a status.
    pub fn tell(&mut self, events: &Events, changed: &Changed<'_>, written: Result<(), kube::Error>) {
        match written {
            Ok(()) => {
                self.0.remove(&(changed.kind, changed.key.clone()));
                for event in told(changed.tells(), changed.before, changed.after) {
                    events.publish(changed.event(event));
                }
            }
            Err(error) => self.tell_failed(events, changed, &error),
        }
    }

    /// A status was not written, and is tried again: one that is refused is told by an event, once in these words, as no condition can
    /// tell it.
    fn tell_failed(&mut self, events: &Events, changed: &Changed<'_>, error: &kube::Error) {
        let (key, kind) = (changed.key, changed.kind.resource().2);
        tracing::warn!(kind, %key, %error, "the status was not written");
        let Some(words) = status::refusal(error) else {
            return;
        };
        let note = format!("the status of {kind} {key} is refused {words}");
        if self.0.len() >= REFUSED_KEPT {
            self.0.clear();
        }
        let known = self.0.insert((changed.kind, key.clone()), note.clone());
        if known.as_ref() == Some(&note) {
            return;
        }
        events.publish(changed.event(Event {
            node: None,
            warning: true,
            reason: Reason::WriteRefused.name(),
            action: EventAction::Hold,
            note,
        }));
    }
}

/// The events of conditions that have changed: `tells` has turned False, and a component is of a lower version than one before. The
/// same words are not said twice.
fn told(tells: &str, before: &[Condition], after: &[Condition]) -> Vec<Event> {
    let being_judged = |now: &Condition| now.reason.as_deref() == Some(Reason::Validating.name());
    [
        (tells, "False", "InvalidConfig"),
        (DOWNGRADED, "True", Reason::Downgraded.name()),
    ]
    .into_iter()
    .filter_map(|(type_, status, reason)| {
        let of = |list: &[Condition]| {
            let found = list.iter().find(|one| one.type_ == type_ && one.status == status);
            found.cloned()
        };
        let now = of(after).filter(|now| !being_judged(now))?;
        if of(before).is_some_and(|before| before.message == now.message) {
            return None;
        }
        Some(Event {
            node: None,
            warning: true,
            reason,
            action: EventAction::EvaluateRule,
            note: now.message.unwrap_or_default(),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Condition::default()
        }
    }

    #[test]
    fn an_older_version_and_a_rule_that_turns_invalid_are_said_once() {
        let valid = condition(VALID_CONFIG, "True", "ValidConfig", "fine");
        let invalid = condition(VALID_CONFIG, "False", "ImageNotFound", "gone");
        let judged = condition(VALID_CONFIG, "False", "Validating", "not yet");
        let older = condition(DOWNGRADED, "True", "Downgraded", "version 1.9.0");
        let oldest = condition(DOWNGRADED, "True", "Downgraded", "version 1.8.0");
        for (before, after, reasons) in [
            (vec![], vec![&valid], vec![]),
            (vec![&valid], vec![&valid, &older], vec!["Downgraded"]),
            (vec![&valid, &older], vec![&valid, &older], vec![]),
            (vec![&valid, &older], vec![&valid, &oldest], vec!["Downgraded"]),
            (vec![&valid, &older], vec![&valid], vec![]),
            (vec![&valid], vec![&judged], vec![]),
            (
                vec![&valid],
                vec![&invalid, &older],
                vec!["InvalidConfig", "Downgraded"],
            ),
            (vec![&invalid], vec![&invalid], vec![]),
        ] {
            let list = |of: &[&Condition]| of.iter().map(|one| (*one).clone()).collect::<Vec<_>>();
            let events = told(VALID_CONFIG, &list(&before), &list(&after));
            let found: Vec<_> = events.iter().map(|event| event.reason).collect();
            assert_eq!(found, reasons, "{before:?} {after:?}");
            assert!(events.iter().all(|event| event.warning && !event.note.is_empty()));
        }
    }
}
