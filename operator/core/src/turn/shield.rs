//! The shield of a Node: what keeps remediation and autoscalers off it while it has its turn.

use crate::{
    action::{Action, NodePatch, NodePurpose},
    mark::{self, Shielded},
    observed::NodeView,
};
use numo_api::marks;

/// Labels of the shield of a Node.
pub(crate) const SHIELD_LABELS: [(&str, &str); 1] = [(marks::EXCLUDE_FROM_REMEDIATION, "true")];

/// Annotations of the shield of a Node.
pub(crate) const SHIELD_ANNOTATIONS: [(&str, &str); 2] = [
    (marks::SCALE_DOWN_DISABLED, "true"),
    (marks::DO_NOT_DISRUPT, "true"),
];

/// Whether the node has the whole shield of the owner. What somebody else has set under one of its keys is theirs.
pub fn is_on(node: &NodeView, owner: &str) -> bool {
    let mut labels = SHIELD_LABELS.iter();
    let mut annotations = SHIELD_ANNOTATIONS.iter();
    mark::shielded(node).is_some_and(|mark| mark.owner == owner)
        && labels.all(|(key, _)| node.labels.get(*key).is_some())
        && annotations.all(|(key, _)| node.annotations.get(*key).is_some())
}

/// Keeps remediation and autoscalers off the node.
pub fn shield(node: &NodeView, owner: &str) -> Action {
    let found = SHIELD_LABELS.iter().map(|(key, _)| (*key, node.labels.get(*key)));
    let found = found.chain(
        SHIELD_ANNOTATIONS
            .iter()
            .map(|(key, _)| (*key, node.annotations.get(*key))),
    );
    let mut labels = mark::set(&node.labels, &SHIELD_LABELS);
    let mut annotations = mark::set(&node.annotations, &SHIELD_ANNOTATIONS);
    if mark::shielded(node).is_some_and(|mark| mark.owner == owner) {
        // Only what was taken off is put back.
        labels.retain(|change| change.from.is_none());
        annotations.retain(|change| change.from.is_none());
    }
    annotations.push(mark::shielding(&node.annotations, owner, found));
    Action::PatchNode(NodePatch {
        labels,
        annotations,
        ..NodePatch::of(node, NodePurpose::Shield)
    })
}

/// Takes the shield off, and puts back what was there.
pub fn unshield(node: &NodeView, mark: &Shielded) -> Action {
    let mut annotations = mark::restore(&node.annotations, mark, &SHIELD_ANNOTATIONS);
    annotations.push(mark::unshielding(&node.annotations));
    Action::PatchNode(NodePatch {
        labels: mark::restore(&node.labels, mark, &SHIELD_LABELS),
        annotations,
        ..NodePatch::of(node, NodePurpose::Unshield)
    })
}
