//! Which fields of an owner's own spec gate it: who remembers them can tell that one was dropped.

use crate::{MutexRunConfigSpec, MutexSettings};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Fields of a MutexRunConfig that the replaced operator does not have, and without which it would go on sooner, or with fewer rules.
pub const OF_RUN: [&str; 16] = [
    "approval",
    "domains",
    "dryRun",
    "failureBudget",
    "first",
    "hold",
    "maxUnavailable",
    "mutexKeys",
    "pools",
    "rules",
    "soakSeconds",
    "startAfter",
    "suspend",
    "trigger",
    "waves",
    "window",
];

/// Those of them that people take away to have a run go on, or to say the same by another field: without an edit they are missed all the same.
pub const TAKEN_AWAY: [&str; 9] = [
    "dryRun",
    "hold",
    "maxUnavailable",
    "pools",
    "soakSeconds",
    "startAfter",
    "suspend",
    "trigger",
    "window",
];

/// What gates an owner in its own spec.
#[derive(Clone, Copy, Debug)]
pub enum GateOf<'a> {
    /// Fields of the spec itself.
    Run(&'a MutexRunConfigSpec),
    /// `spec.mutex`.
    Settings(Option<&'a MutexSettings>),
    /// `spec.mutexRules`: whether there are any.
    Rules(bool),
    /// A later numo wrote a part of the spec that this one cannot read.
    Unread,
}

impl GateOf<'_> {
    /// The fields that gate the owner, by their paths in its spec; none where nobody knows.
    pub fn fields(self) -> Option<BTreeSet<String>> {
        Some(match self {
            Self::Unread => return None,
            Self::Run(spec) => {
                let given = given(spec);
                given
                    .into_iter()
                    .filter(|field| OF_RUN.contains(&field.as_str()))
                    .collect()
            }
            Self::Settings(None) => BTreeSet::new(),
            Self::Settings(Some(settings)) => {
                let given = given(settings);
                let paths = given.iter().map(|field| format!("mutex.{field}"));
                paths.chain(["mutex".to_owned()]).collect()
            }
            Self::Rules(given) => given.then(|| "mutexRules".to_owned()).into_iter().collect(),
        })
    }
}

/// The members that say something.
fn given(spec: &impl Serialize) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(spec) else {
        return Vec::new();
    };
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(all) => !all.is_empty(),
        _ => true,
    };
    let given = fields.into_iter().filter(|(_, value)| says(value));
    given.map(|(field, _)| field).collect()
}
