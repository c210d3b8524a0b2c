//! What is put on the node and taken off again: cordon, taints and shield, each with what was there before.

use crate::{
    action::{Action, NodePatch, NodePurpose},
    mark::{self, CordonedBy},
    observed::{MaintenanceView, NodeView, Observed},
    owner::MaintenanceGroup,
    turn::{cordon, shield},
};
use numo_api::marks;
use serde_json::{Value, json};

/// The taints of a node in maintenance, all NoSchedule.
pub(super) fn taints(group: MaintenanceGroup) -> [&'static str; 2] {
    [group.taint(), marks::UNSCHEDULABLE]
}

pub(super) fn is_taint(taint: &Value, key: &str) -> bool {
    taint.get("key").and_then(Value::as_str) == Some(key)
        && taint.get("effect").and_then(Value::as_str) == Some("NoSchedule")
}

pub(super) fn has_taint(taints: &Value, key: &str) -> bool {
    let mut taints = taints.as_array().into_iter().flatten();
    taints.any(|taint| is_taint(taint, key))
}

/// The node as node-maintenance-operator leaves it when it stops: its taint is there, and no mark of numo's.
///
/// A taint alone is anybody's: the object must be as that operator wrote it when numo saw it first. numo writes conditions, and that
/// operator has none.
pub(super) fn is_references(
    node: &NodeView,
    group: MaintenanceGroup,
    view: &MaintenanceView,
    observed: &Observed,
) -> bool {
    let mut maintenances = observed.maintenances.values();
    // Last of all: it goes through all of them.
    let mut others = || {
        maintenances
            .any(|other| other.owner != view.owner && other.spec.node_name == node.name && !other.deleting)
    };
    let is_its = view.status.conditions.is_empty() || view.status.adopted == Some(true);
    view.status.phase.is_some()
        && is_its
        && has_taint(&node.taints, taints(group)[0])
        && mark::cordoned_by(node).is_none()
        && !others()
}

/// The shield. On a node that node-maintenance-operator shielded for this very object its label was not there before.
pub(super) fn shielding(node: &NodeView, view: &MaintenanceView, group: MaintenanceGroup) -> Action {
    let adopted = view.status.phase.is_some()
        && mark::cordoned_by(node).is_none()
        && has_taint(&node.taints, taints(group)[0]);
    let found = node
        .labels
        .get(marks::EXCLUDE_FROM_REMEDIATION)
        .filter(|_| adopted);
    let Some(found) = found else {
        return shield::shield(node, &view.uid);
    };
    let mut before = node.clone();
    before.labels.remove(marks::EXCLUDE_FROM_REMEDIATION);
    let mut action = shield::shield(&before, &view.uid);
    if let Action::PatchNode(patch) = &mut action {
        for label in &mut patch.labels {
            label.from = Some(found.clone());
        }
    }
    action
}

/// Cordon and taints, with what was there before. A node that node-maintenance-operator cordoned for this very
/// object was not cordoned before.
pub(super) fn cordoning(
    node: &NodeView,
    view: &MaintenanceView,
    group: MaintenanceGroup,
    corrections: u32,
) -> NodePatch {
    // Over the mark of an owner that is gone, what was there before it is what counts.
    let known = mark::cordoned_by(node).map(|mark| CordonedBy {
        owner: view.uid.clone(),
        prior: cordon::was_before(&mark, node),
        taints: mark
            .taints
            .into_iter()
            .filter(|key| has_taint(&node.taints, key))
            .collect(),
        ..mark
    });
    let adopted = view.status.phase.is_some() && has_taint(&node.taints, taints(group)[0]);
    let fresh = || CordonedBy {
        owner: view.uid.clone(),
        prior: node.unschedulable && !adopted,
        taints: taints(group)
            .into_iter()
            .filter(|key| !adopted && has_taint(&node.taints, key))
            .map(ToOwned::to_owned)
            .collect(),
        corrections: 0,
        done: false,
    };
    let mark = CordonedBy {
        corrections,
        ..known.unwrap_or_else(fresh)
    };
    let mut wanted = node.taints.as_array().cloned().unwrap_or_default();
    for key in taints(group) {
        if !has_taint(&node.taints, key) {
            wanted.push(json!({"key": key, "effect": "NoSchedule"}));
        }
    }
    let wanted = Value::Array(wanted);
    NodePatch {
        taints: (wanted != node.taints).then(|| (node.taints.clone(), wanted)),
        ..cordon::cordoning(node, &mark)
    }
}

/// Takes cordon and taints off again, but for those that were there before. Without a mark everything was ours.
pub(super) fn uncordoning(node: &NodeView, mark: Option<&CordonedBy>, group: MaintenanceGroup) -> NodePatch {
    let prior = mark.is_some_and(|mark| mark.prior);
    let kept = |key: &str| mark.is_some_and(|mark| mark.taints.iter().any(|one| one == key));
    let ours: Vec<&str> = taints(group)
        .into_iter()
        .filter(|key| !(kept(key) || prior && *key == marks::UNSCHEDULABLE))
        .collect();
    let found = node.taints.as_array().cloned().unwrap_or_default();
    let left: Vec<Value> = found
        .iter()
        .filter(|taint| !ours.iter().any(|key| is_taint(taint, key)))
        .cloned()
        .collect();
    let changed = left.len() != found.len();
    let left = if left.is_empty() {
        Value::Null
    } else {
        Value::Array(left)
    };
    let mut patch = NodePatch::of(node, NodePurpose::Uncordon);
    cordon::uncordon(&mut patch, node, prior);
    // A node that is open already is as it is to be.
    patch.while_unschedulable = None;
    patch.taints = changed.then(|| (node.taints.clone(), left));
    patch
}
