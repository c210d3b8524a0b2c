//! How the turn of a node ends that was not let go, and what is given back.

use super::pass::Pass;
use crate::{
    action::{Action, Change, NodePatch, NodePurpose},
    let_go, mark,
    observed::{ChangeView, NodeView},
    owner::OwnerKind,
    turn::{directive, journal::Journal, lease, machine, shield},
    why::Why,
};
use numo_api::{Reason, Step, marks};
use std::collections::BTreeSet;

/// Puts back what numo has put on a node: its cordon, unless one was there before, and its shield.
fn restoring(node: &NodeView, owner_uid: &str) -> Option<NodePatch> {
    let mut patch = NodePatch::of(node, NodePurpose::Uncordon);
    if let Some(mark) = mark::cordoned_by(node).filter(|mark| mark.owner == owner_uid) {
        let unmark = Change::of(&node.annotations, marks::CORDONED_BY, None);
        patch.annotations.push(unmark);
        if !mark.prior {
            patch.while_unschedulable = Some(node.unschedulable);
            patch.unschedulable = node.unschedulable.then_some(false);
        }
    }
    if let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == owner_uid)
        && let Action::PatchNode(shield) = shield::unshield(node, &mark)
    {
        patch.labels.extend(shield.labels);
        patch.annotations.extend(shield.annotations);
    }
    (!patch.annotations.is_empty()).then_some(patch)
}

impl<'a> Pass<'a> {
    /// Ends the turn of a node that was not let go, once nobody wants it any more; true if so.
    pub(super) fn gives_up(&mut self, donor: &'a NodeView, change: &'a ChangeView) -> bool {
        let is_behind = self
            .sets
            .class_of(donor)
            .is_some_and(super::sets::Class::is_behind);
        let (step, why) = if let Some(why) = directive::skipped(change) {
            (Step::Skipped, why)
        } else if let Some(why) = &self.leaving {
            (Step::Failed, Why::new(Reason::RunGivenUp, why.message.clone()))
        } else if change.spec.target.run_id != self.run_id && self.intent.problem.is_none() {
            let message = format!("NodeVersion {} asks for another version by now", self.view.name);
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else if !is_behind {
            let message = format!("Node {} needs no other machine any more", donor.name);
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else {
            return false;
        };
        self.end(donor, change, step, &why);
        true
    }

    /// Gives everything of a node back and ends its turn. A machine that was made for it is left to others of its group.
    pub(super) fn end(&mut self, donor: &NodeView, change: &'a ChangeView, step: Step, why: &Why) {
        if let Some(patch) = restoring(donor, &self.view.uid) {
            self.act(&donor.name, Action::PatchNode(patch), None);
        }
        let mut journal = Journal::open(change, self.now);
        journal.obey();
        journal.enter(step, Some(why));
        self.write(journal);
        let holder = lease::holder_of(OwnerKind::NodeVersion, &self.view.uid);
        if let Some(action) = lease::release(self.observed, &donor.name, &holder) {
            self.act(&donor.name, action, None);
        }
        self.say(&donor.name, step, why.clone(), Some(change));
    }

    /// Takes our marks off nodes that have no turn any more.
    pub(super) fn give_back(&mut self) {
        let flying = self.flying.iter();
        let in_flight: BTreeSet<&str> = flying.map(|change| change.spec.node_name.as_str()).collect();
        let (observed, uid) = (self.observed, &self.view.uid);
        // Journals may be gone, or in a namespace that nobody named, where no operator is left.
        let is_let_go = |name: &str| {
            let node = observed.nodes.get(name).filter(|_| observed.fleet.abandoned);
            node.is_some_and(|node| let_go::machine(observed, node).is_some())
        };
        let stays = |name: &str| in_flight.contains(name) || is_let_go(name);
        let before = self.out.actions.len();
        for node in observed.nodes.values() {
            if stays(&node.name) {
                self.kept = true;
            } else if let Some(patch) = restoring(node, uid) {
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
        self.gives_back = self.out.actions.len() > before;
        self.kept |= !in_flight.is_empty() || self.gives_back;
    }
}
