//! The rule labels that the nodes of a run carry.

use super::{run_decision::RunDecision, run_view::Member};
use crate::{action::Change, names, observed::NodeView};
use numo_api::marks;

/// All rule labels of the node go.
pub(super) fn rule_labels_off(node: &NodeView) -> Vec<Change> {
    node.labels
        .iter()
        .filter(|(key, _)| key.starts_with(marks::RULE_LABEL_PREFIX))
        .map(|(key, value)| Change {
            key: key.clone(),
            from: Some(value.clone()),
            to: None,
        })
        .collect()
}

/// The run's rule labels that the node does not carry yet.
pub(super) fn rule_labels_on(decision: &RunDecision<'_>, node: &NodeView) -> Vec<Change> {
    decision
        .view
        .intent
        .rules
        .iter()
        .map(|(key, _)| names::rule_label(&key.namespace, &key.name))
        .filter(|key| !node.labels.contains_key(key))
        .map(|key| Change {
            key,
            from: None,
            to: Some(String::new()),
        })
        .collect()
}

/// The rule labels without which the node would not be in its custom pool: those of the run, and those that the
/// pool's selector still asks for from before an edit.
pub(super) fn labels_to_stay(decision: &RunDecision<'_>, member: &Member<'_>) -> Vec<Change> {
    let mut labels = rule_labels_on(decision, member.node);
    let expressions = member.pool.selector.get("matchExpressions");
    let asked = expressions
        .and_then(serde_json::Value::as_array)
        .into_iter()
        .flatten()
        .filter(|expression| expression.get("operator").and_then(serde_json::Value::as_str) == Some("Exists"))
        .filter_map(|expression| expression.get("key")?.as_str())
        .filter(|key| key.starts_with(marks::RULE_LABEL_PREFIX) && !member.node.labels.contains_key(*key));
    for key in asked {
        if !labels.iter().any(|label| label.key == key) {
            labels.push(Change {
                key: key.to_owned(),
                from: None,
                to: Some(String::new()),
            });
        }
    }
    labels
}
