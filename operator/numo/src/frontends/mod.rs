//! One file per kind: the raw object becomes what the core reads, and a report becomes the object's
//! status. Pure; nothing here reads or writes.

pub mod approval;
pub mod conditions;
pub mod hours;
pub mod mutex_approval;
pub mod mutex_binding;
pub mod mutex_budget;
pub mod mutex_notifier;
pub mod mutex_rule;
pub mod mutex_run_config;
pub mod mutex_target;
pub mod mutex_window;
pub mod node_maintenance;
pub mod node_version;
pub mod notification;
pub mod occurrences;
pub mod plan;
#[cfg(test)]
mod sample;
pub mod shortfall;
pub mod silence;
pub mod spans;
pub mod standing;

use numo_core::text::first_of;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub use numo_api::marks::LAST_APPLIED;

/// A field of numo's own that stands in the manifest which `kubectl apply` remembers and not in the object: the definition of
/// another operator, or of an older numo, does not have it, and has pruned it. `own`: such fields of the spec, and whether they are there.
pub fn pruned(annotations: &BTreeMap<String, String>, own: &[(&'static str, bool)]) -> Option<&'static str> {
    let applied = annotations.get(LAST_APPLIED)?;
    let applied: Value = serde_json::from_str(applied).ok()?;
    let is_filled = |field: &str| {
        let found = applied.pointer("/spec").and_then(|spec| spec.get(field));
        found.is_some_and(|found| ![json!(null), json!(false), json!([]), json!({})].contains(found))
    };
    let mut lacking = own.iter().filter(|(_, is_there)| !is_there);
    lacking
        .find(|(field, _)| is_filled(field))
        .map(|(field, _)| *field)
}

/// The first names of a list and how many there are beyond them, for a column of `kubectl get`; none of an empty list.
fn first_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    const NAMED: usize = 5;
    Some(first_of(names, NAMED)).filter(|named| !named.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_names_the_first_and_counts_the_rest() {
        let said = |names: &[&str]| first_names(names.iter().copied());
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["a", "b"]).as_deref(), Some("a, b"));
        let many = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(said(&many).as_deref(), Some("a, b, c, d, e and 2 more"));
    }

    #[test]
    fn a_field_that_was_applied_and_is_not_there_was_pruned() {
        let applied = |spec: Value| {
            let manifest = json!({"kind": "NodeMaintenance", "spec": spec}).to_string();
            let key = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
            BTreeMap::from([(key, manifest)])
        };
        let own = |rules, drain| [("mutexRules", rules), ("drain", drain)];
        let given = applied(json!({"mutexRules": [{"name": "r"}], "drain": {}}));
        assert_eq!(pruned(&given, &own(false, false)), Some("mutexRules"));
        assert_eq!(pruned(&given, &own(true, false)), None, "an empty one is none");
        assert_eq!(
            pruned(&applied(json!({"nodeName": "a"})), &own(false, false)),
            None
        );
        assert_eq!(pruned(&BTreeMap::new(), &own(false, false)), None);
        let torn = BTreeMap::from([(
            "kubectl.kubernetes.io/last-applied-configuration".to_owned(),
            "{".to_owned(),
        )]);
        assert_eq!(pruned(&torn, &own(false, false)), None);
    }
}
