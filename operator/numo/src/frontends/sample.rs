//! A NodeChange for the tests of what is told of turns.

use jiff::Timestamp;
use numo_core::{
    Owner,
    observed::{ChangeView, Key},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The NodeChange of a node's turn in a run of this owner: its name, the node, and the run; when it was made, and its status.
pub fn change(
    owner: &Owner,
    (key, node, run): (Key, &str, &str),
    created: Timestamp,
    status: Value,
) -> ChangeView {
    let of = &owner.key;
    let spec = json!({
        "ownerRef": {
            "apiVersion": owner.kind.api_version(), "kind": owner.kind.name(), "namespace": of.namespace, "name": of.name,
            "uid": "uid",
        },
        "nodeName": node, "nodeUID": format!("{node}-uid"), "target": {"runID": run, "version": "2", "pool": ""},
    });
    ChangeView {
        uid: format!("change-{}", key.name),
        key,
        resource_version: "1".to_owned(),
        generation: 1,
        created,
        deleting: false,
        annotations: BTreeMap::new(),
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(status).unwrap(),
        misread: None,
    }
}
