//! `quarantine: Taint`: a node that failed after it was let go takes no new pods until it is mended or the run
//! is over. The taint is the mark; no other taint is ever touched.

use super::{gates::written::NEW_SECONDS, run_decision::RunDecision};
use crate::{
    action::{Action, Event, EventAction, NodePatch, NodePurpose},
    observed::{ChangeView, NodeView},
    time::later,
    turn::{
        journal, put_back,
        quarantine::{is_ours, owner_value, taints},
    },
};
use numo_api::{Reason, Step, marks};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Taints the nodes that failed and takes the taint off all others. Nothing is `wanted` once a run is over or
/// being left. While nobody knows the version that is asked for, no journal is known to be of this run, and every taint stays.
pub fn tend(decision: &mut RunDecision<'_>, wanted: bool) {
    let view = decision.view;
    if view.desired.is_err() && view.intent.quarantine && view.leaving().is_none() {
        return;
    }
    let observed = decision.view.observed;
    let value = owner_value(&decision.view.run.uid);
    let members = decision.view.members.iter();
    let failed: BTreeMap<&str, &ChangeView> = members
        .filter(|_| wanted && decision.view.intent.quarantine)
        .filter(|member| !decision.view.at_target(member) || member.in_flight().is_some())
        .filter(|member| member.superseded.is_none())
        .filter_map(|member| Some((member.node.name.as_str(), member.change?)))
        .filter(|(_, change)| failed_after_release(change))
        .collect();
    for node in observed.nodes.values() {
        let name = node.name.as_str();
        let found = taints(node).iter().any(|taint| is_ours(taint, &value));
        match (failed.get(name), found) {
            (Some(change), false) => {
                // Somebody has taken it off: it is put on as soon as the node has failed.
                let now = decision.view.now;
                let is_again = later(journal::written_at(change, now), NEW_SECONDS) <= now;
                let told = put_back::told(change, now).filter(|(_, at)| is_again && *at > now);
                if let Some((_, at)) = told {
                    decision.wake(at);
                    continue;
                }
                let mut list = taints(node).to_vec();
                list.push(json!({"key": marks::QUARANTINE, "value": value, "effect": "NoSchedule"}));
                let note = format!(
                    "quarantined: taint {} is on until the node is repaired",
                    marks::QUARANTINE
                );
                let event = Event::warning("Quarantined", EventAction::Hold, note);
                patch(decision, node, NodePurpose::Quarantine, list, event);
                let counted = is_again.then(|| put_back::counted(change, now)).flatten();
                decision.out.actions.extend(counted);
            }
            (None, true) => {
                let mut list = taints(node).to_vec();
                list.retain(|taint| !is_ours(taint, &value));
                let note = format!("no longer quarantined: taint {} is off", marks::QUARANTINE);
                let event = Event::normal("QuarantineEnded", EventAction::Restore, note);
                patch(decision, node, NodePurpose::Unquarantine, list, event);
            }
            (Some(_), true) | (None, false) => {}
        }
    }
}

/// The node did not come back in time, or failed a rule after it had: not what failed before it was let go, for
/// such a node is as it was.
fn failed_after_release(change: &ChangeView) -> bool {
    let status = &change.status;
    let failed = match (status.step, status.reason.as_deref()) {
        (Some(Step::Held), Some(reason)) => {
            [Reason::RuleFailed.name(), Reason::ChangeTimeout.name()].contains(&reason)
        }
        (Some(Step::Skipped), Some(reason)) => reason == Reason::SkippedByPolicy.name(),
        _ => false,
    };
    let mut entries = status.entries.iter();
    let admitted = entries.rposition(|entry| entry.step == Step::Admitted);
    let mut entries = status.entries.iter();
    let released = entries.rposition(|entry| entry.step == Step::Released);
    failed && released.is_some() && released > admitted
}

fn patch(
    decision: &mut RunDecision<'_>,
    node: &NodeView,
    purpose: NodePurpose,
    taints: Vec<Value>,
    event: Event,
) {
    let to = if taints.is_empty() {
        Value::Null
    } else {
        Value::Array(taints)
    };
    let patch = NodePatch {
        taints: Some((node.taints.clone(), to)),
        ..NodePatch::of(node, purpose)
    };
    decision.act(&node.name, Action::PatchNode(patch), Some(event.on(&node.name)));
}
