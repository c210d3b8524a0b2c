//! Which machines were let go; and those that nobody goes on with where no operator is left: those of nodes that a NodeVersion has released,
//! and those that were asked for. Nothing here writes.

use crate::{
    observed::{ChangeView, NodeView, Observed, PendingNodeView, is_same},
    owner::{Means, OwnerKind},
    turn::journal,
};
use numo_api::{Pin, Step, machines::CspState, marks};

/// Those of these turns that have let their node go, each with what was pinned then.
pub(crate) fn turns<'c>(
    changes: impl Iterator<Item = &'c ChangeView>,
) -> impl Iterator<Item = (&'c ChangeView, &'c Pin)> {
    let released = changes.filter(|change| journal::entered(change, Step::Released).is_some());
    released.filter_map(|change| Some((change, change.status.pin.as_ref()?)))
}

/// Whether one of these turns has let this machine go: that was journaled before anything was deleted. What has no id was let go by none.
pub(crate) fn has_released<'c>(changes: impl Iterator<Item = &'c ChangeView>, machine: &str) -> bool {
    let is_its = |pin: &Pin| {
        pin.provider_id
            .as_deref()
            .is_some_and(|one| is_same(one, machine))
    };
    !machine.is_empty() && turns(changes).any(|(_, pin)| is_its(pin))
}

/// A node that a NodeVersion has released, to be deleted with its machine.
struct ReleasedNode<'a> {
    /// The machine.
    machine: &'a str,
    /// The uid of the NodeVersion.
    owner: &'a str,
}

/// The machine of a node that a NodeVersion has released; none of any other node. Nothing of such a node is taken back.
pub(crate) fn machine<'a>(observed: &'a Observed, node: &NodeView) -> Option<&'a str> {
    released_node(observed, node).map(|found| found.machine)
}

/// A node that a NodeVersion has released; none of any other node. Where its journal is gone, the PendingNode tells it.
fn released_node<'a>(observed: &'a Observed, node: &NodeView) -> Option<ReleasedNode<'a>> {
    let machine = observed.fleet.machine_of(&node.name);
    let mut changes = observed.journals();
    let change = changes.find(|change| {
        OwnerKind::of(&change.spec.owner_ref).map(OwnerKind::means) == Some(Means::Machine)
            && change.spec.node_uid == node.uid
            && change.spec.node_name == node.name
            && change.in_flight()
            && journal::entered(change, Step::Released).is_some()
    });
    if let Some(change) = change {
        let pin = change.status.pin.as_ref();
        return Some(ReleasedNode {
            machine: pin.and_then(|pin| pin.provider_id.as_deref()).unwrap_or(machine),
            owner: &change.spec.owner_ref.uid,
        });
    }
    let mut pending = observed.fleet.pending.values();
    let leaves = pending.find(|one| {
        one.leaves() && is_ours(one) && one.node() == node.name && is_same(one.provider_id(), machine)
    })?;
    // A node is cordoned and drained before it is released. Any other one has joined late, by a machine that was given up.
    (node.unschedulable && !machine.is_empty()).then_some(ReleasedNode {
        machine,
        owner: &leaves.owner_uid,
    })
}

/// What a person does about a node that a NodeVersion has released, and the mark of that owner on it; none of any other node, or of a mark
/// that another owner has left on it.
pub(crate) fn words(observed: &Observed, name: &str, is_of: impl Fn(&str) -> bool) -> Option<String> {
    let ReleasedNode { machine, owner } = released_node(observed, observed.nodes.get(name)?)?;
    is_of(owner).then(|| format!(
        "Node {name} was released by its NodeVersion, and machine {machine} is to be deleted: delete the machine at its provider and \
         then the Node"
    ))
}

/// What a person does about the machine of a PendingNode that numo made; none if it is gone, or has joined.
pub(crate) fn words_of_pending(observed: &Observed, pending: &PendingNodeView) -> Option<String> {
    let id = pending.provider_id();
    let is_over = match pending.status.csp_state {
        Some(CspState::Terminated) => true,
        Some(CspState::Ready) => !pending.leaves() && observed.nodes.contains_key(pending.node()),
        _ => false,
    };
    if !is_ours(pending) || is_over {
        return None;
    }
    let mut nodes = observed.nodes.values();
    let joined = nodes.find(|node| !id.is_empty() && is_same(id, observed.fleet.machine_of(&node.name)));
    let joined = joined.filter(|node| machine(observed, node).is_none());
    Some(if let Some(node) = joined.filter(|_| pending.leaves()) {
        format!(
            "machine {id} was to be deleted as it had not joined, and Node {} has joined by it since: keep both and delete this PendingNode, \
             or drain the Node before you delete the machine at its provider",
            node.name
        )
    } else if pending.leaves() {
        format!("machine {id} was to be deleted: delete it at its provider if it is still there")
    } else if id.is_empty() {
        let group = pending.group_id();
        format!("a machine of group {group} was asked for: look at its provider whether it was made")
    } else {
        format!("machine {id} was made and has not joined: delete it at its provider if it is not wanted")
    })
}

/// Whether numo made a PendingNode: another operator knows no turns.
fn is_ours(pending: &PendingNodeView) -> bool {
    pending.annotations.contains_key(marks::PENDING_FOR)
}
