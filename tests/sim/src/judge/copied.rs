//! What is judged of a node whose NodeChange has the status of another one: nothing is done to it on the word of that.

use super::{Verdict, breach};
use crate::world::World;
use numo_core::{
    Owner,
    action::{Action, FleetAction, NodePurpose},
    observed::Observed,
};

/// copied: such a node is neither let go nor given back, unless its owner goes for good.
pub(super) fn left_alone(world: &World, seen: &Observed, owner: &Owner, action: &Action) -> Verdict {
    let Some(node) = node_of(action).filter(|_| !world.people.copied.is_empty()) else {
        return Ok(());
    };
    let Some(view) = seen.owner(owner).filter(|view| !view.deleting) else {
        return Ok(());
    };
    // What it did not see yet it cannot heed.
    let mut changes = seen.changes.values();
    let found = changes.find(|change| {
        change.spec.node_name == node
            && change.spec.owner_ref.uid == view.uid
            && world.people.copied.get(&change.key) == Some(&change.status)
    });
    match found {
        None => Ok(()),
        Some(change) => breach(
            "copied",
            format!(
                "{node} is not left alone, and the status of NodeChange {} is another one's: {action:?}",
                change.key
            ),
        ),
    }
}

/// The node that is let go, disrupted or given back.
fn node_of(action: &Action) -> Option<&str> {
    match action {
        Action::PatchNode(patch) => {
            let does = matches!(
                patch.purpose,
                NodePurpose::Release
                    | NodePurpose::BringHome
                    | NodePurpose::Cordon
                    | NodePurpose::Uncordon
                    | NodePurpose::Unshield
            );
            does.then_some(&patch.node)
        }
        Action::CreatePlanJob(request) => Some(&request.node),
        Action::Evict { node, .. }
        | Action::ReleaseLease { node, .. }
        | Action::Fleet(FleetAction::DeleteNode { node, .. }) => Some(node),
        _ => None,
    }
}
