//! Machines that hold their place for longer than they should, and nodes of which nobody says of which version they are: until when the
//! cluster or its provider is waited for, and what a person is told after that.

use super::{
    pass::Pass,
    sets::{Class, is_node_of, is_noted},
};
use crate::{
    action::{Event, EventAction},
    observed::{ChangeView, Leaving, NodeView, PendingNodeView, is_same},
    time::later,
    turn::contradiction,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor, machines::CspState, marks};

/// Since when a Node is being deleted, if it is.
pub(super) fn being_deleted(node: &NodeView) -> Option<&Leaving> {
    let leaving = node.leaving.as_ref();
    leaving.filter(|how| how.why == "it is being deleted")
}

impl Pass<'_> {
    /// How the deletion of a Node comes along whose machine is gone. One that somebody's finalizer keeps is for a person, once that takes as long
    /// as a machine has to join.
    pub(super) fn node_goes(&mut self, node: &NodeView) -> Why {
        let message = "its machine is gone, and its Node goes";
        let since = being_deleted(node).and_then(|how| how.since);
        let due = since.map(|since| later(since, self.intent.join_seconds));
        if let Some(due) = due.filter(|due| *due > self.now) {
            self.out.wake(due);
        } else if due.is_some() {
            let message = format!(
                "its machine is gone, and Node {} is being deleted and not gone yet: see its metadata.finalizers for who keeps it",
                node.name
            );
            return Why::new(Reason::MachineLeaving, message).ended_by(Actor::ClusterAdmin);
        }
        Why::new(Reason::MachineLeaving, message)
    }

    /// What is said of a machine that was given up. Of one that was never made, why: no image is at fault.
    pub(super) fn words_of_failed(&self, pending: &PendingNodeView) -> String {
        let (name, id) = (&pending.name, pending.provider_id());
        if !id.is_empty() {
            return format!("{id} of PendingNode {name} did not join");
        }
        let gone = self.group_is_gone(pending.group_id(), pending.created);
        let told = self.fleet.provider.told.get(name);
        let problem = told.and_then(|told| told.problem.as_deref());
        // After a new start nothing was said yet.
        let problem = problem.or_else(|| pending.annotations.get(marks::PROVIDER_SAID).map(String::as_str));
        let words = gone.as_ref().map(|why| &*why.message).or(problem);
        words.map_or_else(
            || format!("the machine of PendingNode {name} did not join"),
            |words| format!("no machine was made for PendingNode {name} in time: {words}"),
        )
    }

    /// Tells of a machine that was just given up, unless somebody else does.
    pub(super) fn tell_given_up(&mut self, pending: &PendingNodeView, is_told: bool) {
        let note = self.words_of_failed(pending);
        let event = Event::warning(Reason::JoinFailed.name(), EventAction::Change, note);
        if let Some(written) = self.out.actions.last_mut().filter(|_| !is_told) {
            written.event = Some(event);
        }
    }

    /// That the provider does not say how a machine stands, or whether it was made, if so.
    pub(super) fn unheard(&self, pending: &PendingNodeView) -> Option<Why> {
        let (provider, id) = (&self.fleet.provider, pending.provider_id());
        let message = if id.is_empty() {
            let problem = self.found_for(pending)?.said.as_ref().err()?;
            format!(
                "PendingNode {}: whether its machine was made is not known: {problem}",
                pending.name
            )
        } else {
            let problem = provider.states.get(&id.to_lowercase())?.said.as_ref().err()?;
            format!("the state of machine {id} is not known: {problem}")
        };
        Some(Why::new(Reason::ProviderUnavailable, message))
    }

    /// That the provider refuses to delete a machine, if so.
    pub(super) fn undeleted(&self, pending: &PendingNodeView) -> Option<Why> {
        let id = pending.provider_id();
        let problem = self
            .fleet
            .provider
            .told
            .get(&id.to_lowercase())?
            .problem
            .as_ref()?;
        let message = format!("machine {id} cannot be deleted, it is tried again: {problem}");
        Some(Why::new(Reason::ProviderUnavailable, message))
    }

    /// Why a machine holds its place for longer than it should: it is to go, and the provider does not delete it or says nothing of it, or it
    /// has joined, and is no new node yet.
    pub(super) fn stuck(&self, pending: &PendingNodeView) -> Option<Why> {
        let is_late = pending.deadline().is_none_or(|until| until <= self.now);
        let has_joined = || self.observed.nodes.contains_key(pending.node());
        let is_waited_for = pending.leaves() || has_joined();
        let unsaid = || self.undeleted(pending).or_else(|| self.unheard(pending));
        let unsaid = (is_late && is_waited_for).then(unsaid).flatten();
        unsaid.or_else(|| self.overdue(pending).filter(|_| is_waited_for))
    }

    /// The same of all: as long as one is there, no other is made in its place. So it is with a new node of unknown components.
    pub(super) fn stuck_machine(&self) -> Option<Why> {
        let mut pending = self.sets.pending.iter();
        let mut awaited = self
            .sets
            .each(Class::AwaitingAnnotation)
            .map(|node| self.awaiting(node));
        pending
            .find_map(|one| self.stuck(one))
            .or_else(|| awaited.find(|why| why.who().is_person()))
    }

    /// Until when a machine may take to join or to go. To go it has as long as it has to join, from when the reference expects it gone.
    fn due(&self, pending: &PendingNodeView) -> Timestamp {
        let join_seconds = self.intent.join_seconds;
        let due = pending.deadline();
        let due = due.unwrap_or_else(|| later(pending.created, join_seconds));
        if pending.leaves() {
            later(due, join_seconds)
        } else {
            due
        }
    }

    /// That a machine has not joined or is not gone in time, and nothing but a person ends that.
    pub(super) fn overdue(&self, pending: &PendingNodeView) -> Option<Why> {
        let due = self.due(pending);
        if due > self.now || pending.provider_id().is_empty() {
            return None;
        }
        let why = if pending.leaves() {
            self.not_gone(pending, due)
        } else {
            self.not_joined(pending, due)
        };
        why.map(|why| why.ended_by(Actor::ClusterAdmin))
    }

    /// Says that a machine goes under its Node, and that no turn sees to that: somebody else deletes both, or the journal of the turn is gone. The
    /// Node is left to who deletes those of machines that are gone, and after a while to a person.
    pub(super) fn tell_left_node(&mut self, pending: &PendingNodeView, node: &NodeView) {
        let due = self.due(pending);
        let message = format!(
            "machine {} is being deleted or is gone, Node {} is there, and no turn sees to it: delete the Node once its machine is gone",
            pending.provider_id(),
            node.name
        );
        let why = Why::new(Reason::MachineLeaving, message);
        let why = if due > self.now {
            self.out.wake(due);
            why.until(due)
        } else {
            why.ended_by(Actor::ClusterAdmin)
        };
        self.out.report.problems.push(why);
    }

    fn not_gone(&self, pending: &PendingNodeView, due: Timestamp) -> Option<Why> {
        let (provider, id) = (&self.fleet.provider, pending.provider_id());
        let key = id.to_lowercase();
        let state = pending.status.csp_state.unwrap_or_default();
        let is_told = provider.did.contains_key(&key)
            || provider.told.contains_key(&key)
            || state == CspState::Terminating
            // Who only looks does not know what was said to the provider.
            || self.observed.settings.only_looks;
        if !is_told || state == CspState::Terminated {
            return None;
        }
        let message = format!(
            "machine {id} (Node {}) is not gone by {due}, and its provider says {}: see there what keeps it, or delete it there",
            pending.node(),
            state.name()
        );
        Some(Why::new(Reason::MachineLeaving, message))
    }

    fn not_joined(&self, pending: &PendingNodeView, due: Timestamp) -> Option<Why> {
        let (id, name) = (pending.provider_id(), pending.node());
        let state = pending.status.csp_state.unwrap_or_default();
        let node = self.observed.nodes.get(name);
        let found = match node.filter(|node| is_node_of(self.fleet, pending, node)) {
            // It is given up in this very pass.
            None if pending.deadline().is_some() => return None,
            None => format!("found no Node by {due}"),
            Some(_) if state != CspState::Ready => {
                format!(
                    "it has joined, and by {due} its provider says {}, wanted Ready",
                    state.name()
                )
            }
            Some(_) if self.fleet.machine_of(name).is_empty() => {
                format!("it has joined, and by {due} its Node has no spec.providerID")
            }
            Some(node) if self.is_unknown(node) || !is_noted(node) => {
                format!(
                    "it has joined, and by {due} has no annotation {}",
                    self.missing(node)
                )
            }
            Some(_) => return None,
        };
        let message = format!(
            "machine {id} (Node {name}) of PendingNode {}: {found}; fix that, or delete the machine and its Node, and another one is made",
            pending.name
        );
        Some(Why::new(Reason::Joining, message))
    }

    /// What is said of a node whose image or components are not known. The provider is asked for the image; with which components it came
    /// somebody else says, and not later than a machine has to join.
    pub(super) fn awaiting(&self, node: &NodeView) -> Why {
        let message = format!("Node {} has no annotation {}", node.name, self.missing(node));
        let why = |message: String| Why::new(Reason::AwaitingAnnotation, message);
        if !is_noted(node) {
            return why(format!("{message} yet"));
        }
        let mut pending = self.sets.pending.iter();
        let pending = pending.find(|one| !one.leaves() && one.node() == node.name);
        let due = pending.map_or_else(
            || later(node.created, self.intent.join_seconds),
            |pending| self.due(pending),
        );
        if due > self.now {
            return why(format!("{message} yet")).until(due);
        }
        let message = format!(
            "{message}, and no JoiningNode has named it by {due}: annotate it with the name of the ConfigMap of its components, or delete the \
             Node and its machine"
        );
        why(message).ended_by(Actor::ClusterAdmin)
    }

    /// That the journal of a node that was let go names no machine, or another one than the node's: none is deleted on its word. Once the Node is
    /// gone, it is the machine of no other Node.
    pub(super) fn pinned_other(&self, change: &ChangeView, donor: Option<&NodeView>) -> Option<Why> {
        let pin = change.status.pin.as_ref();
        let found = pin.and_then(|pin| pin.provider_id.as_deref()).unwrap_or_default();
        let wanted = donor.map_or("", |donor| self.fleet.machine_of(&donor.name));
        let problem = if !wanted.is_empty() {
            let problem = || format!("found {found:?}, wanted its machine {wanted:?}");
            (!is_same(found, wanted)).then(problem)?
        } else if found.is_empty() {
            "found none, wanted the machine of the Node that was released".to_owned()
        } else {
            let name = &change.spec.node_name;
            let mut others = self.observed.nodes.keys().filter(|other| *other != name);
            let other = others.find(|other| is_same(self.fleet.machine_of(other), found))?;
            format!("found {found:?}, which is the machine of Node {other}, wanted that of Node {name}")
        };
        Some(contradiction::why(
            change,
            &format!("status.pin.providerID: {problem}"),
        ))
    }

    /// How the deletion of a machine comes along.
    pub(super) fn leaving_machine(&self, pending: &PendingNodeView) -> Why {
        if let Some(why) = self.undeleted(pending).or_else(|| self.stuck(pending)) {
            return why;
        }
        let id = pending.provider_id();
        let state = pending.status.csp_state.unwrap_or_default().name();
        let message = format!("machine {id} is being deleted ({state})");
        Why::new(Reason::MachineLeaving, message)
    }
}
