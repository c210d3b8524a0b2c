//! The rule labels that the nodes of a run carry.

use super::{
    gates::{
        run::held_elsewhere,
        written::{MAX_CORRECTIONS, labels_hash, was_there},
    },
    member::Member,
    put_back,
    run_decision::RunDecision,
};
use crate::{
    action::{Action, Change, NodePatch, NodePurpose},
    mark::{self, LabelledBy},
    names,
    observed::{NodeView, PoolView},
    pools::BUILT_IN,
};
use numo_api::{Step, marks};

/// A custom pool's members stay in it only while they carry the rule labels, once its selector asks for
/// them; built-in pools are never patched, and a custom pool wins over `worker` anyway.
pub(super) fn needs_labels_to_stay(pool: &PoolView) -> bool {
    !BUILT_IN.contains(&pool.name.as_str())
}

/// Nodes that joined a pool whose selector numo has set must carry the labels it asks for, or they are in
/// no pool; whatever else holds the run.
pub fn label_joiners(decision: &mut RunDecision<'_>) {
    if decision.view.selected_pools().next().is_some() {
        label(decision);
    }
}

/// Labels the nodes that have yet to pass their rules, and all nodes of custom pools. Returns how many
/// were not labelled.
pub(super) fn label(decision: &mut RunDecision<'_>) -> usize {
    let members = &decision.view.members;
    let uid = decision.view.run.uid.clone();
    let wanted = labels_hash(decision.view);
    let elsewhere = held_elsewhere(decision.view);
    let stays_off = put_back::stays_off(decision);
    let (mut unlabelled, mut put_back_on) = (0, None);
    for member in members {
        let node = member.node;
        let released = !node.label(marks::RELEASE).is_empty();
        let waits =
            !decision.view.at_target(member) && member.in_flight().is_none() && member.left_out().is_none();
        let waits = waits
            && member
                .change
                .is_none_or(|change| change.status.step != Some(Step::Done));
        let ours = !elsewhere.contains_key(member.pool.name.as_str());
        if released || !ours || !(waits || needs_labels_to_stay(member.pool)) {
            continue;
        }
        let labels = labels_wanted(decision, member);
        let found = mark::labelled_by(node).filter(|mark| mark.owner == uid);
        if labels.is_empty() && found.is_some() {
            continue;
        }
        unlabelled += 1;
        let is_again = found.is_none() && was_there(decision.view, Some(node.created));
        // Labels of another run or other rules are missing by nobody's doing.
        let again = found.filter(|mark| mark.labels == wanted);
        let corrections = again.map_or(0, |mark| mark.corrections.saturating_add(1));
        if corrections > MAX_CORRECTIONS || is_again && stays_off {
            continue;
        }
        if is_again {
            put_back_on = Some(node.name.as_str());
        }
        let mark = LabelledBy {
            owner: &uid,
            labels: &wanted,
            corrections,
        };
        let patch = NodePatch {
            labels,
            annotations: vec![Change::of(
                &node.annotations,
                marks::LABELLED_BY,
                Some(mark.render()),
            )],
            ..NodePatch::of(node, NodePurpose::Label)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    if let Some(node) = put_back_on {
        put_back::count(decision, node);
    }
    unlabelled
}

/// The labels that a node of the run lacks.
fn labels_wanted(decision: &RunDecision<'_>, member: &Member<'_>) -> Vec<Change> {
    if needs_labels_to_stay(member.pool) {
        labels_to_stay(decision, member)
    } else {
        rule_labels_on(decision, member.node)
    }
}

pub(super) fn unlabel(decision: &mut RunDecision<'_>) -> bool {
    let labelled: Vec<_> = decision.view.labelled_nodes().collect();
    for node in &labelled {
        let patch = NodePatch {
            labels: rule_labels_off(node),
            annotations: vec![Change::of(&node.annotations, marks::LABELLED_BY, None)],
            ..NodePatch::of(node, NodePurpose::Unlabel)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    !labelled.is_empty()
}

/// All rule labels of the node go.
pub(super) fn rule_labels_off(node: &NodeView) -> Vec<Change> {
    node.labels
        .iter()
        .filter(|(key, _)| key.starts_with(marks::RULE_LABEL_PREFIX))
        .map(|(key, _)| Change::of(&node.labels, key, None))
        .collect()
}

/// The run's rule labels that the node does not carry yet.
pub(super) fn rule_labels_on(decision: &RunDecision<'_>, node: &NodeView) -> Vec<Change> {
    let rules = decision.view.intent.rules.iter();
    rules
        .map(|(key, _)| names::rule_label(&key.namespace, &key.name))
        .filter(|key| !node.labels.contains_key(key))
        .map(|key| Change::of(&node.labels, &key, Some(String::new())))
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
            labels.push(Change::of(&member.node.labels, key, Some(String::new())));
        }
    }
    labels
}
