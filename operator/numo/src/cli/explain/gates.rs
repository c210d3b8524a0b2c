//! What stands against a node's turn beside the reason that is told.

use super::explanation::Gate;
use crate::cli::live::Look;
use numo_api::Reason;
use numo_core::{Owner, Snapshot, decide, verdict::Answers};

/// What stands against the turn of a node beside the reason that is told.
pub(super) fn also(look: &Look, owner: &Owner, node: &str, told: Reason) -> Vec<Gate> {
    let snapshot = Snapshot {
        now: look.now,
        observed: &look.store.observed,
        owner,
        asked: Some(node),
    };
    let report = decide(&snapshot, &Answers::default()).report;
    let first = report.nodes.get(node).map(|node| node.why.clone());
    // Where the operator knows better why the node waits, a gate that only this command sees may be open by now.
    let is_first = first.is_some_and(|why| why.reason == told);
    let rest = report.also.into_iter().filter(|_| is_first);
    rest.map(Gate::from).collect()
}
