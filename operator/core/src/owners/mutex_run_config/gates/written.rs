//! What others write where numo writes: how often it is corrected, and by what it is known.

use crate::{
    mark, names,
    observed::NodeView,
    owners::mutex_run_config::{member::Member, run_view::RunView},
    time::later,
    turn::{journal, put_back},
};
use jiff::Timestamp;
use numo_api::{RunStatus, Strategy, marks};
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

/// For how long a run, or a node, is new (seconds): what it lacks then it never had.
pub(crate) const NEW_SECONDS: i64 = 60;
/// The command that tells who takes off what numo puts on.
pub(crate) const WRITERS: &str = "kubectl get machineconfigpools,nodes -o yaml --show-managed-fields";

/// What is said of what somebody takes off with the mark that would count it.
pub(crate) fn stripped_words() -> String {
    format!(
        "someone keeps taking off what numo puts on the MachineConfigPools and Nodes of this run, with the marks of it, and numo puts it back once \
         a minute; `{WRITERS}` tells who writes"
    )
}

fn of_run<'v>(view: &'v RunView<'_>) -> Option<&'v RunStatus> {
    view.run.status.run.as_ref().filter(|run| run.id == view.run_id)
}

/// How often it is put back at once. Each pool may have been somebody else's for a while, and labels and selectors come later than pauses:
/// then nobody has taken off anything.
pub(crate) fn at_once(view: &RunView<'_>) -> u32 {
    let pools = u32::try_from(view.intent.pools.len()).unwrap_or(u32::MAX);
    put_back::AT_ONCE.saturating_mul(pools.saturating_add(1))
}

/// When it is put back next, if somebody takes it off again and again.
pub(crate) fn next(view: &RunView<'_>) -> Option<Timestamp> {
    put_back::next(of_run(view)?.put_back.as_ref(), at_once(view), view.now)
}

/// Whether what has no mark had one: the run has gone on for a while. A node must have been there as well.
pub(crate) fn was_there(view: &RunView<'_>, created: Option<Timestamp>) -> bool {
    let under_way = of_run(view).filter(|run| run.finished_at.is_none());
    let began = under_way.and_then(|run| journal::time(run.started_at.as_deref()));
    let is_old = |at| later(at, NEW_SECONDS) <= view.now;
    began.is_some_and(is_old) && created.is_none_or(is_old)
}

/// That somebody takes it off again and again, if so.
pub(crate) fn stripped(view: &RunView<'_>) -> Option<String> {
    next(view).map(|_| stripped_words())
}

/// What tells whether a node's rule labels are those of this run.
pub(crate) fn labels_hash(view: &RunView<'_>) -> String {
    let rules: Vec<String> = view.intent.rules.iter().map(|(key, _)| key.to_string()).collect();
    let mut parts: Vec<&str> = rules.iter().map(String::as_str).collect();
    parts.push(&view.run_id);
    names::hash(&parts, 10)
}
