//! The commands by which a person puts back what numo has put on an object. Nothing here runs them.

use crate::{
    mark::{self, CordonedBy, Shielded},
    observed::{Map, NodeView},
    owner::MaintenanceGroup,
    release,
    turn::shield,
};
use numo_api::marks;
use serde_json::{Value, json};

/// What lets remediation and autoscalers have a node again, as it was before numo shielded it.
pub(crate) fn unshield(node: &NodeView, mark: &Shielded) -> Vec<String> {
    let name = &node.name;
    let labels = put_back(&node.labels, mark, &shield::SHIELD_LABELS);
    let annotations = put_back(&node.annotations, mark, &shield::SHIELD_ANNOTATIONS);
    let mut commands = Vec::new();
    if !labels.is_empty() {
        commands.push(format!(
            "kubectl label --overwrite node {name} {}",
            labels.join(" ")
        ));
    }
    commands.push(annotate(
        &format!("node {name}"),
        &annotations,
        marks::SHIELDED_BY,
    ));
    commands
}

/// What takes the labels of rules off a node.
pub(crate) fn unlabel(node: &NodeView) -> Vec<String> {
    let name = &node.name;
    let labels = node.labels.keys();
    let labels = labels.filter(|key| key.starts_with(marks::RULE_LABEL_PREFIX));
    let labels: Vec<String> = labels.map(|key| format!("{key}-")).collect();
    let mut commands = Vec::new();
    if !labels.is_empty() {
        commands.push(format!("kubectl label node {name} {}", labels.join(" ")));
    }
    commands.push(annotate(&format!("node {name}"), &[], marks::LABELLED_BY));
    commands
}

/// What opens a node as it was before numo cordoned it.
pub(crate) fn uncordon(node: &NodeView, mark: &CordonedBy) -> Vec<String> {
    let name = &node.name;
    let mut commands = Vec::new();
    let drained = release::drained_for(node).map(MaintenanceGroup::taint);
    if let Some(taint) = drained.filter(|key| !mark.taints.iter().any(|kept| kept == key)) {
        commands.push(format!("kubectl taint node {name} {taint}:NoSchedule-"));
    }
    match (mark.prior, node.unschedulable) {
        (true, false) => commands.push(format!("kubectl cordon {name}")),
        (false, true) => commands.push(format!("kubectl uncordon {name}")),
        (true, true) | (false, false) => {}
    }
    commands.push(annotate(&format!("node {name}"), &[], marks::CORDONED_BY));
    commands
}

/// What gives a pool the node selector that it had before numo.
pub(crate) fn select_again(pool: &str, prior: &Value) -> String {
    let path = marks::PRIOR_NODE_SELECTOR.replace('/', "~1");
    let patch = json!([
        {"op": "replace", "path": "/spec/nodeSelector", "value": prior},
        {"op": "remove", "path": format!("/metadata/annotations/{path}")},
    ]);
    format!(
        "kubectl patch machineconfigpool {pool} --type json -p {}",
        quoted(&patch.to_string())
    )
}

/// What kubectl is told to put each key back to what was there before numo.
pub(crate) fn put_back(found: &Map, mark: &Shielded, pairs: &[(&str, &str)]) -> Vec<String> {
    mark::restore(found, mark, pairs)
        .into_iter()
        .map(|change| match change.to {
            Some(value) => format!("{}={}", change.key, quoted(&value)),
            None => format!("{}-", change.key),
        })
        .collect()
}

pub(crate) fn annotate(object: &str, back: &[String], mark: &str) -> String {
    let mut words = back.to_vec();
    words.push(format!("{mark}-"));
    format!("kubectl annotate --overwrite {object} {}", words.join(" "))
}

/// As a shell takes it for one word, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
