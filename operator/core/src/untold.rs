//! A turn of which nobody can tell: a NodeChange is there of which not even the owner and the node can be read, and nothing was seen of it before.
//! One rule for every owner: what looks like something left over may be of that turn, and stays. Turns that are known go on.

use crate::{
    action::{Action, FleetAction, NodePatch, Planned},
    decision::Decision,
    observed::{ChangeView, Observed},
    release::restores,
    why::Why,
};
use std::collections::BTreeSet;

/// Ends a decision: while there is such a NodeChange, nothing is restored but by a turn that is known. `changes` are the owner's journals.
pub(crate) fn finish<'c>(
    out: &mut Decision,
    observed: &Observed,
    changes: impl IntoIterator<Item = &'c ChangeView>,
) {
    let Some(why) = untold(observed) else {
        return;
    };
    let changes = changes.into_iter().filter(|change| change.in_flight());
    let turns: BTreeSet<&str> = changes.map(|change| change.spec.node_name.as_str()).collect();
    let mut ended: BTreeSet<String> = BTreeSet::new();
    out.actions.retain(|Planned { chain, action, .. }| {
        if gives_up(action, &turns) {
            ended.insert(chain.clone());
        }
        !ended.contains(chain)
    });
    if !ended.is_empty() {
        out.report.hold = Some(why);
    }
}

/// That there is such a NodeChange.
fn untold(observed: &Observed) -> Option<Why> {
    let mut unread = observed.unread_changes();
    let (key, unread) = unread.find(|(key, _)| !observed.changes.contains_key(*key))?;
    let message = format!(
        "nodechanges {key} cannot be read, and nobody knows whose turn it tells of: {}; nothing is restored until it is corrected: upgrade numo, \
         or `kubectl -n {} delete nodechange {}`",
        unread.words, key.namespace, key.name
    );
    Some(Why::new(numo_api::Reason::ListFailed, message))
}

/// Whether something is given up by it that may be of another turn than these.
fn gives_up(action: &Action, turns: &BTreeSet<&str>) -> bool {
    match action {
        Action::PatchNode(NodePatch { node, .. }) | Action::ReleaseLease { node, .. } => {
            restores(action) && !turns.contains(node.as_str())
        }
        Action::SetJobTtl { .. } => false,
        Action::DeletePlanJob { .. }
        | Action::Fleet(
            FleetAction::WritePendingNode { .. }
            | FleetAction::DeletePendingNode { .. }
            | FleetAction::DeleteMachine { .. },
        ) => true,
        Action::Fleet(action) => action.disrupts() || action.restores(),
        _ => restores(action),
    }
}
