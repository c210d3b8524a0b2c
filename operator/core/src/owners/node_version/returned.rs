//! New nodes whose turn ended before they could take the place of the old one: its run was given up for a while, or its Node was gone and has
//! come again. The journal of that turn names the new node, and the next turn of the old one takes it: else the cluster would keep one more.

use super::{
    heir::is_for,
    known::request,
    pass::Pass,
    sets::{Class, is_node_of, is_older},
};
use crate::{
    observed::{ChangeView, NodeView, PendingNodeView, is_same},
    turn::journal,
    why::Why,
};
use numo_api::{Pin, Reason, Step, conditions::Actor, machines::annotations};

/// The node that a journal names as the new one.
fn heir(change: &ChangeView) -> Option<&String> {
    change.status.pin.as_ref()?.heir.as_ref()
}

impl<'a> Pass<'a> {
    /// The Node that has come again by the machine of a turn that has let it go, and has not seen it gone yet. Nothing is deleted under it: it
    /// goes in a turn of its own, as pods may run there by now, and that turn has the place of the other one.
    pub(super) fn come_again(&self, change: &ChangeView) -> Option<&'a NodeView> {
        let is_open = journal::entered(change, Step::Released).is_some()
            && journal::entered(change, Step::Changed).is_none();
        let node = self.observed.nodes.get(&change.spec.node_name)?;
        let machine = change.status.pin.as_ref()?.provider_id.as_deref()?;
        let is_its = !machine.is_empty() && is_same(self.fleet.machine_of(&node.name), machine);
        (is_open && is_its && node.uid != change.spec.node_uid).then_some(node)
    }

    /// Whether a node is one that has come again after it was let go, and is known to go.
    pub(super) fn goes_again(&self, node: &NodeView) -> bool {
        let mut flying = self.flying.iter();
        let is_it = |change: &&ChangeView| self.come_again(change).is_some_and(|again| again.uid == node.uid);
        self.sets.class_of(node) == Some(Class::Obsolete) && flying.any(is_it)
    }

    /// What a turn waits for whose node has come again.
    pub(super) fn waits_for_again(&self, change: &ChangeView, again: &NodeView) -> Why {
        let name = &again.name;
        let message = format!(
            "Node {name} has come again by machine {}, which was released: the machine is deleted once the Node is drained",
            self.fleet.machine_of(name)
        );
        let Some(leaving) = &self.leaving else {
            let why = Why::new(Reason::MachineLeaving, format!("{message} in a turn of its own"));
            return why.ended_by(Actor::Numo);
        };
        let message = format!(
            "{message}, and no turn begins any more ({}): drain it, stop its kubelet, delete the Node, and numo deletes the machine of NodeChange {}",
            leaving.message, change.key
        );
        Why::new(Reason::MachineLeaving, message).ended_by(Actor::ClusterAdmin)
    }

    /// The pin of a turn that ends before its node was let go, with the new node that has joined for it.
    pub(super) fn pin_of_joined(&self, change: &ChangeView) -> Option<Pin> {
        let known = change.status.pin.clone();
        let name = &change.spec.node_name;
        let mut heirs = self.sets.each(Class::Heir);
        let pair = heirs.find(|heir| heir.annotation(annotations::DONOR) == *name);
        let joined = || self.observed.nodes.get(self.pending_of(change)?.node());
        let Some(new) = pair.or_else(joined) else {
            return known;
        };
        let mut pin = known.unwrap_or_default();
        self.pin_heir(&mut pin, new);
        Some(pin)
    }

    /// The new node that has joined for the place of this one in an earlier turn of the run, and has no place yet.
    pub(super) fn joined_before(&self, donor: &NodeView, change: &ChangeView) -> Option<&'a NodeView> {
        let earlier = heir(change).or_else(|| self.named_by_last(donor))?;
        let new = self.observed.nodes.get(earlier)?;
        let group = donor.annotation(annotations::SCALING_GROUP_ID);
        self.is_free_for(new, &donor.name, group).then_some(new)
    }

    /// Whether a node of this group may take the place of that one, and has nobody else's.
    fn is_free_for(&self, new: &NodeView, donor: &str, group: &str) -> bool {
        let is_free = match self.sets.class_of(new) {
            Some(Class::UpToDate) => true,
            // A crash between the two halves of a pair.
            Some(Class::Heir) => new.annotation(annotations::DONOR) == donor,
            _ => false,
        };
        let mut all = self.flying.iter().chain(&self.over);
        let has_place = all
            .any(|other| heir(other) == Some(&new.name) && journal::entered(other, Step::Released).is_some());
        is_free && !has_place && is_same(group, new.annotation(annotations::SCALING_GROUP_ID))
    }

    /// Whether a node is the new one of a turn and has lost the marks that said so, with the PendingNode that is there anew: the provider names it
    /// for the very request of that turn, and it has come since the turn began.
    pub(super) fn is_found_again(&self, pending: &PendingNodeView, node: &NodeView) -> bool {
        let mut flying = self.flying.iter();
        let turn = flying.find(|change| request(change) == pending.name && node.created >= change.created);
        let is_its = !pending.leaves() && is_older(pending, node) && is_node_of(self.fleet, pending, node);
        let donor = turn.map(|change| &change.spec.node_name).filter(|_| is_its);
        donor.is_some_and(|donor| self.is_free_for(node, donor, pending.group_id()))
    }

    /// That the node of a machine which is to join for a turn has the place of another one, as of the turn of that: the provider gives one machine
    /// for two requests, and the fleet would have one less.
    pub(super) fn place_taken(&self, pending: &PendingNodeView) -> Option<String> {
        let node = self.observed.nodes.get(pending.node())?;
        if pending.leaves() || !is_node_of(self.fleet, pending, node) {
            return None;
        }
        let released = |change: &ChangeView| {
            let entry = journal::entered(change, Step::Released)?;
            // A later node may have its name.
            journal::time(Some(&entry.at)).filter(|at| *at >= node.created)
        };
        let all = self.flying.iter().chain(&self.over);
        let mut places = all
            .filter(|change| heir(change) == Some(&node.name) && released(change).is_some())
            .map(|change| change.spec.node_name.as_str());
        let donor = Some(node.annotation(annotations::DONOR)).filter(|donor| !donor.is_empty());
        let place = donor.or_else(|| places.next())?;
        let mut flying = self.flying.iter();
        let turn = flying.find(|change| is_for(pending, change))?;
        (turn.spec.node_name != place).then(|| format!("Node {} has the place of Node {place}", node.name))
    }

    /// The new node that the last turn of a node of this name has named, if that one was gone before it was let go.
    fn named_by_last(&self, donor: &NodeView) -> Option<&'a String> {
        let of_name = self.over.iter().copied().filter(|change| {
            change.spec.node_name == donor.name
                && change.spec.node_uid != donor.uid
                && change.spec.target.run_id == self.run_id
        });
        let last = of_name.max_by_key(|change| (change.created, &change.key))?;
        heir(last).filter(|_| journal::is_for(last, Reason::NodeGone))
    }

    /// Whether a turn that is to end, or that is to take it again, has this new node: it keeps its mark until then.
    pub(super) fn is_returning(&self, heir: &NodeView) -> bool {
        let name = heir.annotation(annotations::DONOR);
        let mut flying = self.flying.iter();
        flying.any(|change| {
            if change.spec.node_name != name || journal::entered(change, Step::Released).is_some() {
                return false;
            }
            match self.observed.node_of(change) {
                Some(donor) => self
                    .joined_before(donor, change)
                    .is_some_and(|new| new.uid == heir.uid),
                None => true,
            }
        })
    }
}
