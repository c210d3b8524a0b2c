//! How the turn of a node ends that was not let go, and what is given back.

use super::{heir::no_group, known::owner_of, pass::Pass, sets::Class};
use crate::{
    action::{Action, Event, EventAction},
    observed::{ChangeView, NodeView, PendingNodeView},
    owner::OwnerKind,
    released,
    turn::{contradiction, cordon, directive, journal::Journal, lease, machine},
    why::Why,
};
use numo_api::{Reason, Step, conditions::Actor, machines::annotations};
use std::collections::BTreeSet;

impl<'a> Pass<'a> {
    /// Ends the turn of a node that was not let go, once nobody wants it any more; true if so.
    pub(super) fn gives_up(&mut self, donor: &'a NodeView, change: &'a ChangeView) -> bool {
        // Of one that is not known it is not known either whether it needs another machine.
        let is_needed = self.is_unknown(donor) || self.sets.class_of(donor).is_some_and(Class::is_behind);
        let (step, why) = if let Some(why) = directive::skipped(change) {
            (Step::Skipped, why)
        } else if let Some(why) = &self.leaving {
            (Step::Failed, Why::new(Reason::RunGivenUp, why.message.clone()))
        } else if change.spec.target.run_id != self.run_id && self.intent.problem.is_none() {
            let message = format!("NodeVersion {} asks for another version by now", self.view.name);
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else if !is_needed {
            let message = match self.other_of(donor) {
                Some(other) => format!("Node {} is of NodeVersion {other} by now", donor.name),
                None => format!("Node {} needs no other machine any more", donor.name),
            };
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else {
            return false;
        };
        if let Some(machine) = released::machine(self.observed, donor) {
            let (name, what) = (&donor.name, why.message);
            let message = format!(
                "{what}; but machine {machine} of Node {name} is to be deleted, as its PendingNode says: `numo retry {name}` goes on with that, or \
                 delete the machine at its provider and then the Node"
            );
            let why = Why::new(Reason::MachineLeaving, message).ended_by(Actor::ClusterAdmin);
            self.say(name, Step::Held, why, Some(change));
            return true;
        }
        // After the turn nobody would take the member of a lost new node out.
        if why.reason == Reason::Superseded && self.await_lost(change) {
            return true;
        }
        let lost = self.words_of_lost(change);
        let message = format!("{}{lost}", why.message).into();
        let why = Why { message, ..why };
        self.end(donor, change, step, &why);
        true
    }

    /// The other NodeVersion that has the group of a node.
    fn other_of(&self, node: &NodeView) -> Option<&'a str> {
        let group = self.fleet.group(node.annotation(annotations::SCALING_GROUP_ID))?;
        let owner = owner_of(self.fleet, group)?;
        (owner.name != self.view.name).then_some(owner.name.as_str())
    }

    /// Whether nobody can say now of which version a node is that has its turn: its annotations, or the id of its machine, were taken off, or
    /// its group is of no NodeVersion.
    pub(super) fn is_unknown(&self, node: &NodeView) -> bool {
        match self.sets.class_of(node) {
            Some(class) => class.is_unknown(),
            // Without its group it is of no NodeVersion but the first.
            None => self.other_of(node).is_none(),
        }
    }

    /// That the group of a node is of no NodeVersion.
    fn of_nobody(&self, node: &NodeView) -> Option<Why> {
        let id = node.annotation(annotations::SCALING_GROUP_ID);
        if id.is_empty() || self.sets.class_of(node).is_some() {
            return None;
        }
        Some(match self.fleet.group(id) {
            Some(group) => Why::new(Reason::InvalidField, self.unowned(group)?),
            None => no_group(id, &node.name),
        })
    }

    /// Why a turn goes no further: of which version the old node or the new one is, nobody can say now. Both keep what they have.
    pub(super) fn unknown_in_turn(&self, donor: &NodeView) -> Option<Why> {
        let pair = [Some(donor), self.heir_of(donor)];
        let node = pair.into_iter().flatten().find(|node| self.is_unknown(node))?;
        if self.sets.class_of(node) == Some(Class::AwaitingAnnotation) {
            return Some(self.awaiting(node));
        }
        if let Some(why) = self.of_nobody(node) {
            return Some(why);
        }
        let name = &node.name;
        let message = match self.fleet.machine_of(name) {
            "" => format!("Node {name} spec.providerID: found none, wanted the id of its machine"),
            machine => format!(
                "Node {name} has no annotation {}, and the provider does not say it of machine {machine}",
                self.missing(node)
            ),
        };
        let message = format!("{message}: its turn goes on once that is known");
        Some(Why::new(Reason::MachineUnknown, message))
    }

    /// Gives everything of a node back and ends its turn. A machine that was made for it is left to others of its group.
    pub(super) fn end(&mut self, donor: &NodeView, change: &'a ChangeView, step: Step, why: &Why) {
        if let Some(patch) = cordon::restored(donor, &self.view.uid) {
            self.act(&donor.name, Action::PatchNode(patch), None);
        }
        let mut journal = Journal::open(change, self.now);
        journal.obey();
        journal.enter(step, Some(why));
        if self.leaving.is_some() {
            journal.status.pin = self.pin_of_joined(change);
        }
        let event = Event::normal(why.reason.name(), EventAction::Restore, &*why.message);
        self.tell(journal, event.on(&donor.name));
        let holder = lease::holder_of(OwnerKind::NodeVersion, &self.view.uid);
        if let Some(action) = lease::release(self.observed, &donor.name, &holder) {
            self.act(&donor.name, action, None);
        }
        self.say(&donor.name, step, why.clone(), Some(change));
    }

    /// Nodes that were let go, also where the journal is gone: somebody has deleted it, or no operator is left and nobody has named its namespace.
    fn released_nodes(&self) -> BTreeSet<&'a str> {
        let observed = self.observed;
        let pending = self.fleet.pending.values().filter(|one| one.leaves());
        let turns = observed.changes.values().filter(|change| change.in_flight());
        let turns = turns.map(|change| change.spec.node_name.as_str());
        let mut names: BTreeSet<&str> = pending.map(PendingNodeView::node).chain(turns).collect();
        names.retain(|name| {
            let node = observed.nodes.get(*name);
            node.is_some_and(|node| released::machine(observed, node).is_some())
        });
        names
    }

    /// Takes our marks off nodes that have no turn any more.
    pub(super) fn restore(&mut self) {
        let flying = self.flying.iter();
        let (observed, uid) = (self.observed, &self.view.uid);
        let misnamed = |change: &ChangeView| {
            let found = contradiction::misnamed(observed, change);
            found.map(|(node, _)| node.name.as_str())
        };
        let in_flight: BTreeSet<&str> = flying
            .flat_map(|change| {
                let named = change.spec.node_name.as_str();
                std::iter::once(named).chain(misnamed(change))
            })
            .collect();
        let released = self.released_nodes();
        let stays = |name: &str| in_flight.contains(name) || released.contains(name);
        let before = self.out.actions.len();
        for node in observed.nodes.values() {
            if stays(&node.name) {
                self.kept = true;
            } else if let Some(patch) = cordon::restored(node, uid) {
                self.act(&node.name, Action::PatchNode(patch), None);
            }
        }
        let due = machine::remediation_unshields(observed, uid, |node| !stays(node));
        self.out.actions.extend(due);
        let holder = lease::holder_of(OwnerKind::NodeVersion, uid);
        for name in observed.leases.keys() {
            if !stays(name)
                && let Some(action) = lease::release(observed, name, &holder)
            {
                self.act(name, action, None);
            }
        }
        self.delete_maintenances();
        self.restores = self.out.actions.len() > before;
        self.kept |= !in_flight.is_empty() || self.restores;
    }
}
