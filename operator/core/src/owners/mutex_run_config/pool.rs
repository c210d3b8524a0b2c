//! Pools: set up for the strategy CanaryPool, and given back at the end.

use super::{
    finalizer::drop_finalizer,
    gates::written::is_of_a_run,
    labels::{self, label, label_joiners, needs_labels_to_stay, unlabel},
    member::Member,
    pause::unpause,
    run_decision::RunDecision,
    selectors::{restore_selectors, restore_stale, select},
};
use crate::{
    action::{Action, Change, NodePatch, NodePurpose},
    mark,
    observed::NodeView,
    selector,
    text::counted,
    why::{Cause, Why},
};
use numo_api::{Reason, Strategy, marks};

/// CanaryPool: labels every node of the run, then sets the selectors. Returns what is still missing.
pub fn set_up(decision: &mut RunDecision<'_>) -> Option<Why> {
    if decision.view.intent.strategy != Strategy::CanaryPool {
        label_joiners(decision);
        return None;
    }
    let unlabelled = label(decision);
    decision.out.report.labels_applied = Some(unlabelled == 0);
    if unlabelled > 0 {
        decision.out.report.selectors_applied = Some(false);
        return Some(Why::new(
            Reason::PoolsPausing,
            format!("{} to get rule labels first", counted(unlabelled, "node")),
        ));
    }
    if let Some(why) = earlier_run_in_canary(decision) {
        return Some(why);
    }
    if let Some(why) = restore_stale(decision) {
        decision.out.report.selectors_applied = Some(false);
        return Some(why);
    }
    let missing = match select(decision) {
        Ok(missing) => missing,
        Err(why) => {
            decision.out.report.selectors_applied = Some(false);
            return Some(why);
        }
    };
    decision.out.report.selectors_applied = Some(missing.is_empty());
    (!missing.is_empty()).then(|| {
        Why::new(
            Reason::PoolsPausing,
            format!("the node selectors of {} are being set", missing.join(", ")),
        )
    })
}

/// Nodes that an earlier run let go are in the canary pool by that run's selector: they come home first.
fn earlier_run_in_canary(decision: &RunDecision<'_>) -> Option<Why> {
    let in_canary =
        |member: &&Member<'_>| member.superseded.is_some() && !member.node.label(marks::RELEASE).is_empty();
    let member = decision.view.members.iter().find(in_canary)?;
    let message = format!(
        "Node {} returns from the canary pool to its own before the next run begins",
        member.node.name
    );
    Some(Why::new(Reason::ConfigChanged, message))
}

/// Gives back everything this owner changed, in the order that never moves a node: who was left in the
/// canary pool, selectors, rule labels, pauses, and last the finalizer.
///
/// With `hold: Always` a run that is over leaves its pools paused for the next one.
pub fn restore(decision: &mut RunDecision<'_>, over: bool) {
    if recall(decision) || restore_selectors(decision, &|_| true) {
        return;
    }
    if let Some(why) = homed_by_labels(decision) {
        decision.out.report.hold = Some(why);
        return;
    }
    if unlabel(decision) {
        return;
    }
    unpause(decision, over);
    drop_finalizer(decision);
}

/// Why nodes keep their rule labels: their pool has the node selector of a run, and no mark tells what it had before. Without them they would
/// leave it, and roll in another one.
fn homed_by_labels(decision: &RunDecision<'_>) -> Option<Why> {
    let view = decision.view;
    let mut pools = view.observed.pools.values();
    let pool = pools.find(|pool| {
        let is_held = || {
            view.labelled_nodes()
                .any(|node| selector::matches(&pool.selector, &node.labels))
        };
        is_of_a_run(&pool.selector) && mark::prior_selector(pool).is_none() && is_held()
    })?;
    let (name, key) = (&pool.name, marks::PRIOR_NODE_SELECTOR);
    if pool.annotations.contains_key(key) {
        let (object, named) = (
            format!("MachineConfigPool {name}"),
            format!("machineconfigpool {name}"),
        );
        return Some(mark::unread_on(&object, &named, key));
    }
    let message = format!(
        "MachineConfigPool {name} spec.nodeSelector: found that of a run, and its annotation {key}, which has the one before, was taken off: put that \
         selector back; until then its nodes keep their rule labels, as they would leave the pool without them"
    );
    Some(Why::new(Reason::ForeignWriter, message).of(Cause::Selector(name.clone())))
}

/// Nodes that were left in the canary pool (their NodeChange was deleted, or they never came back) go home
/// by their labels while selectors still tell the pools apart.
fn recall(decision: &mut RunDecision<'_>) -> bool {
    let view = decision.view;
    let left: Vec<&NodeView> = view.nodes_in_canary().collect();
    for node in &left {
        let mut labels = vec![Change::of(&node.labels, marks::RELEASE, None)];
        let mut members = view.members.iter();
        let member = members.find(|member| member.node.name == node.name);
        if let Some(member) = member.filter(|member| needs_labels_to_stay(member.pool)) {
            labels.extend(labels::labels_to_stay(decision, member));
        }
        let patch = NodePatch {
            labels,
            ..NodePatch::of(node, NodePurpose::BringHome)
        };
        decision.act(&node.name, Action::PatchNode(patch), None);
    }
    !left.is_empty()
}
