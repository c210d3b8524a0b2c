//! The operations of a JSON Patch: each field that was read is tested before it is written. It sends nothing.

use super::error::ApplyError;
use kube::api::Patch;
use numo_core::action::Change;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[allow(
    clippy::needless_pass_by_value,
    reason = "every caller makes the value for this call"
)]
pub(super) fn test(path: &str, value: Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// A key inside a JSON Pointer (RFC 6901).
pub(super) fn pointer(parent: &str, key: &str) -> String {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Tests what was read, then writes what is wanted. A test for null holds for an absent field.
fn operations(parent: &str, change: &Change) -> Vec<Value> {
    let path = pointer(parent, &change.key);
    let mut operations = vec![test(&path, json!(change.from))];
    match (&change.from, &change.to) {
        (from, to) if from == to => {}
        (_, Some(to)) => operations.push(json!({"op": "add", "path": path, "value": to})),
        (Some(_), None) => operations.push(json!({"op": "remove", "path": path})),
        (None, None) => {}
    }
    operations
}

pub(super) fn patch(operations: Vec<Value>, about: &str) -> Result<Patch<()>, ApplyError> {
    serde_json::from_value(Value::Array(operations))
        .map(Patch::Json)
        .map_err(|error| ApplyError::Refused {
            about: about.to_owned(),
            code: 0,
            message: format!("the patch cannot be rendered: {error}"),
        })
}

/// Changes of annotations.
pub(super) fn annotations(changes: &[Change], has_annotations: bool) -> Vec<Value> {
    changes_of("/metadata/annotations", changes, has_annotations)
}

/// Changes of a map; where the object has no such map yet, the whole map is made: nothing can be added to, nor taken
/// from, what is not there. Whoever made one meanwhile is not overwritten.
pub(super) fn changes_of(parent: &str, changes: &[Change], is_there: bool) -> Vec<Value> {
    // What was read in a map that is not there is outdated: its tests fail, as they must.
    if is_there || changes.iter().any(|change| change.from.is_some()) {
        return changes
            .iter()
            .flat_map(|change| operations(parent, change))
            .collect();
    }
    if changes.is_empty() {
        return Vec::new();
    }
    let map: BTreeMap<&String, &String> = changes
        .iter()
        .filter_map(|change| Some((&change.key, change.to.as_ref()?)))
        .collect();
    let mut list = vec![test(parent, Value::Null)];
    if !map.is_empty() {
        list.push(json!({"op": "add", "path": parent, "value": map}));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_for_json_pointer() {
        assert_eq!(
            pointer("/metadata/labels", "a.b/c~d"),
            "/metadata/labels/a.b~1c~0d"
        );
    }

    #[test]
    fn a_map_that_is_not_there_is_made_unless_somebody_made_one() {
        let change = |key: &str, from: Option<&str>, to: Option<&str>| Change {
            key: key.to_owned(),
            from: from.map(ToOwned::to_owned),
            to: to.map(ToOwned::to_owned),
        };
        let (new, none) = (change("a/b", None, Some("v")), change("c", None, None));
        assert_eq!(
            changes_of("/m", &[new.clone(), none.clone()], false),
            [
                json!({"op": "test", "path": "/m", "value": null}),
                json!({"op": "add", "path": "/m", "value": {"a/b": "v"}}),
            ]
        );
        assert_eq!(
            changes_of("/m", std::slice::from_ref(&none), false),
            [json!({"op": "test", "path": "/m", "value": null})]
        );
        assert_eq!(changes_of("/m", &[], false), Vec::<Value>::new());
        assert_eq!(
            changes_of("/m", std::slice::from_ref(&new), true)[1],
            json!({"op": "add", "path": "/m/a~1b", "value": "v"})
        );
        // What was read is tested all the same.
        let old = changes_of("/m", &[change("k", Some("v"), None), new], false);
        assert_eq!(old[0], json!({"op": "test", "path": "/m/k", "value": "v"}));
    }

    #[test]
    fn an_absent_field_is_tested_as_null_and_an_equal_one_only_tested() {
        let change = |from: Option<&str>, to: Option<&str>| Change {
            key: "k".to_owned(),
            from: from.map(ToOwned::to_owned),
            to: to.map(ToOwned::to_owned),
        };
        let new = operations("/m", &change(None, Some("v")));
        assert_eq!(new[0], json!({"op": "test", "path": "/m/k", "value": null}));
        assert_eq!(new[1], json!({"op": "add", "path": "/m/k", "value": "v"}));
        assert_eq!(operations("/m", &change(Some("v"), Some("v"))).len(), 1);
        assert_eq!(
            operations("/m", &change(Some("v"), None))[1],
            json!({"op": "remove", "path": "/m/k"})
        );
    }
}
