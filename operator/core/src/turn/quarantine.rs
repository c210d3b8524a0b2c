//! The quarantine taint, by which numo knows it again.

use crate::{names, observed::NodeView};
use numo_api::marks;
use serde_json::Value;

/// Whether the node carries the quarantine taint of an owner.
pub fn is_quarantined(node: &NodeView, owner_uid: &str) -> bool {
    let value = owner_value(owner_uid);
    taints(node).iter().any(|taint| is_ours(taint, &value))
}

/// Taint values end at 63 characters of a small alphabet: the owner's uid is hashed.
pub fn owner_value(owner_uid: &str) -> String {
    names::hash(&["owner", owner_uid], 10)
}

/// Whether a taint is the quarantine of the owner with this value.
pub(crate) fn is_ours(taint: &Value, value: &str) -> bool {
    taint.get("key").and_then(Value::as_str) == Some(marks::QUARANTINE)
        && taint.get("value").and_then(Value::as_str) == Some(value)
}

/// A node's taints.
pub(crate) fn taints(node: &NodeView) -> &[Value] {
    node.taints.as_array().map_or(&[], Vec::as_slice)
}
