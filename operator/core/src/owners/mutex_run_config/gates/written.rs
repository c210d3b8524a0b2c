//! What others write where numo writes: how often it is corrected, and by what it is known.

use crate::{
    mark, names, observed::NodeView, owners::mutex_run_config::member::Member,
    owners::mutex_run_config::run_view::RunView,
};
use numo_api::{Strategy, marks};
use serde_json::Value;

/// How often a foreign write is corrected before numo holds and says who writes.
pub const MAX_CORRECTIONS: u32 = 3;

/// Whether a selector is one that numo sets during a run.
pub fn is_of_a_run(selector: &Value) -> bool {
    selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|expression| expression.get("key").and_then(Value::as_str))
        .any(|key| key == marks::RELEASE || key.starts_with(marks::RULE_LABEL_PREFIX))
}

/// A node whose rule labels somebody keeps taking off.
pub fn unlabelled_by_other<'a>(view: &RunView<'a>) -> Option<&'a NodeView> {
    if view.intent.strategy != Strategy::CanaryPool {
        return None;
    }
    let worn = |node: &&NodeView| {
        let mark = mark::labelled_by(node).filter(|mark| mark.owner == view.run.uid);
        mark.is_some_and(|mark| mark.corrections >= MAX_CORRECTIONS && mark.labels == labels_hash(view))
    };
    let bare = |node: &&NodeView| {
        let rules = view.intent.rules.iter();
        node.label(marks::RELEASE).is_empty()
            && rules
                .map(|(key, _)| names::rule_label(&key.namespace, &key.name))
                .any(|key| !node.labels.contains_key(&key))
    };
    let waits = |member: &&Member<'_>| member.in_flight().is_none() && !view.at_target(member);
    let mut nodes = view.members.iter().filter(waits).map(|member| member.node);
    nodes.find(|node| worn(node) && bare(node))
}

/// What tells whether a node's rule labels are those of this run.
pub(crate) fn labels_hash(view: &RunView<'_>) -> String {
    let rules: Vec<String> = view.intent.rules.iter().map(|(key, _)| key.to_string()).collect();
    let mut parts: Vec<&str> = rules.iter().map(String::as_str).collect();
    parts.push(&view.run_id);
    names::hash(&parts, 10)
}
