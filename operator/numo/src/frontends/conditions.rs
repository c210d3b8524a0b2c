//! A list of conditions in the making: transition times are kept unless the status flips.

use jiff::Timestamp;
use numo_api::{Condition, Reason, conditions::types, text};
use serde_json::{Value, json};

/// Longest message of a condition (characters). The schema admits 32,768; nobody reads that.
const MESSAGE_MAX: usize = 4096;

/// The conditions of an object that numo has to leave to another operator: numo's own Ready and Stalled say so, and no other
/// condition is touched. None where numo has said nothing of the object, or has said this.
pub fn stood_off(conditions: &[Value], message: &str, now: Timestamp) -> Option<Vec<Value>> {
    let is = |one: &Value, type_: &str| one.get("type").and_then(Value::as_str) == Some(type_);
    let reason = Reason::ForeignController.name();
    let ready = conditions.iter().find(|one| is(one, types::READY))?;
    if ready.get("reason").and_then(Value::as_str) == Some(reason) {
        return None;
    }
    let own = |type_: &str, status: &str| {
        let before = conditions.iter().find(|one| is(one, type_));
        let mut one = before.unwrap_or(ready).clone();
        let same = before.is_some_and(|one| one.get("status").and_then(Value::as_str) == Some(status));
        one["type"] = json!(type_);
        one["status"] = json!(status);
        one["reason"] = json!(reason);
        one["message"] = json!(shown(message));
        if !same {
            one["lastTransitionTime"] = json!(seconds(now));
        }
        one
    };
    let others = conditions.iter().filter(|one| {
        ![types::READY, types::STALLED, types::RECONCILING]
            .iter()
            .any(|own| is(one, own))
    });
    let own = [own(types::READY, "False"), own(types::STALLED, "True")];
    Some(others.cloned().chain(own).collect())
}

/// A message as it may be read, and as long as people read.
pub(super) fn shown(message: &str) -> String {
    text::line(message).chars().take(MESSAGE_MAX).collect()
}

/// A list of conditions in the making.
#[derive(Debug)]
pub struct Conditions<'a> {
    old: &'a [Condition],
    new: Vec<Condition>,
    generation: i64,
    now: Timestamp,
}

impl<'a> Conditions<'a> {
    /// Begins with what is there; conditions of other types are kept as they are.
    pub fn over(old: &'a [Condition], generation: i64, now: Timestamp) -> Self {
        Self {
            old,
            new: old.to_vec(),
            generation,
            now,
        }
    }

    /// Sets a condition.
    pub fn set(&mut self, type_: &str, status: bool, reason: &str, message: impl Into<String>) {
        self.set_lines(type_, status, reason, &[message.into()]);
    }

    /// The same with a message of several lines, each of which is one.
    pub fn set_lines(&mut self, type_: &str, status: bool, reason: &str, lines: &[String]) {
        let lines: Vec<String> = lines.iter().map(|line| shown(line)).collect();
        let message = lines.join("\n");
        let status = if status { "True" } else { "False" }.to_owned();
        let before = self.old.iter().find(|condition| condition.type_ == type_);
        let kept = before
            .filter(|condition| condition.status == status)
            .and_then(|condition| condition.last_transition_time.clone());
        let condition = Condition {
            type_: type_.to_owned(),
            status,
            reason: Some(reason.to_owned()),
            // `metav1.Condition` wants one, and takes an empty one.
            message: Some(message),
            last_transition_time: Some(kept.unwrap_or_else(|| seconds(self.now))),
            observed_generation: Some(self.generation),
        };
        self.new.retain(|condition| condition.type_ != type_);
        self.new.push(condition);
    }

    /// Removes a condition that is present only while true.
    pub fn unset(&mut self, type_: &str) {
        self.new.retain(|condition| condition.type_ != type_);
    }

    /// kstatus: Ready, and Reconciling or Stalled while true.
    pub fn kstatus(&mut self, ready: bool, reconciling: bool, stalled: bool, reason: &str, message: &str) {
        self.set(numo_api::conditions::types::READY, ready, reason, message);
        for (type_, present) in [
            (numo_api::conditions::types::RECONCILING, reconciling),
            (numo_api::conditions::types::STALLED, stalled),
        ] {
            if present {
                self.set(type_, true, reason, message);
            } else {
                self.unset(type_);
            }
        }
    }

    /// The list, in a fixed order, so that equal lists compare equal.
    pub fn done(mut self) -> Vec<Condition> {
        self.new.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.new
    }
}

/// RFC 3339 with whole seconds.
pub fn seconds(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}

#[cfg(test)]
mod tests {
    use super::{Conditions, stood_off};
    use jiff::Timestamp;
    use serde_json::{Value, json};

    /// The API server refuses the whole status for a condition without one of them.
    #[test]
    fn a_condition_has_every_field_that_kubernetes_wants_of_one() {
        let mut conditions = Conditions::over(&[], 7, Timestamp::UNIX_EPOCH);
        conditions.kstatus(true, false, false, "ValidConfig", "");
        let found = serde_json::to_value(conditions.done()).unwrap_or_default();
        let wanted = json!([{
            "type": "Ready", "status": "True", "reason": "ValidConfig", "message": "", "observedGeneration": 7,
            "lastTransitionTime": "1970-01-01T00:00:00Z",
        }]);
        assert_eq!(found, wanted);
    }

    #[test]
    fn only_numos_own_conditions_say_that_an_object_is_left_to_another_and_they_say_it_once() {
        let theirs = json!({"type": "Complete", "status": "False", "reason": "SyncJob", "x": 1});
        let all = [
            theirs.clone(),
            json!({"type": "Ready", "status": "False", "reason": "Progressing", "message": "m", "lastTransitionTime": "t"}),
            json!({"type": "Reconciling", "status": "True", "reason": "Progressing"}),
        ];
        let found = stood_off(&all, "it runs", Timestamp::UNIX_EPOCH).unwrap_or_default();
        assert_eq!(found[0], theirs);
        let of = |index: usize, field: &str| {
            found[index]
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(found.len(), 3);
        for (index, type_, status) in [(1, "Ready", "False"), (2, "Stalled", "True")] {
            assert_eq!(of(index, "type"), type_);
            assert_eq!(of(index, "status"), status);
            assert_eq!(of(index, "reason"), "ForeignController");
            assert_eq!(of(index, "message"), "it runs");
        }
        assert_eq!(of(1, "lastTransitionTime"), "t", "its status is the same");
        assert_eq!(of(2, "lastTransitionTime"), "1970-01-01T00:00:00Z");
        assert_eq!(stood_off(&found, "it runs", Timestamp::UNIX_EPOCH), None);
        // What the rival has written whole is not corrected.
        assert_eq!(stood_off(&[theirs], "it runs", Timestamp::UNIX_EPOCH), None);
    }
}
