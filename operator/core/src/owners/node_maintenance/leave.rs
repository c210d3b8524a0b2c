//! A maintenance that is over: everything is given back, to exactly what it was. Nothing begins here.

use super::{
    known::changes,
    node::{has_taint, is_references, uncordoning},
    pass::Pass,
};
use crate::{
    action::{Action, Change, Event, EventAction, NodePatch},
    finalizer,
    mark::{self, CordonedBy},
    observed::{ChangeView, NodeView},
    turn::{cordon, journal, machine, shield},
    why::Why,
};
use numo_api::{Reason, RunResult, Step, marks};

/// What is said while a node is put back.
pub(super) const PUTTING_BACK: &str = "the node is being put back as it was";

/// The same, with its reason.
pub(super) fn giving_back() -> Why {
    Why::new(Reason::Restoring, PUTTING_BACK)
}

impl Pass<'_> {
    /// The mark of the cordon of the maintenance. Where somebody took it off, the journal tells of the cordon, and the taint that it is still
    /// there: both go together. Of a node that is kept (`keeps`), the journal is enough.
    pub(super) fn cordon_of(
        &self,
        node: &NodeView,
        change: Option<&ChangeView>,
        keeps: bool,
    ) -> Option<CordonedBy> {
        let uid = &self.view.uid;
        let is_told = change.is_some_and(|change| journal::entered(change, Step::Cordoned).is_some());
        let is_unmarked = is_told && mark::cordoned_by(node).is_none();
        let is_lost = is_unmarked && (keeps || has_taint(&node.taints, self.group.taint()));
        cordon::of(node, uid).or_else(|| is_lost.then(|| cordon::lost(uid, false)))
    }

    /// Puts the node back as it was, without its rules; true once nothing is left. The lease is freed with it if no turn is in flight.
    pub(super) fn put_back(&mut self, node: Option<&NodeView>) -> bool {
        let view = self.view;
        let change = changes(self.observed, &view.uid)
            .filter(|change| self.observed.is_under_way(change))
            .find(|change| node.is_some_and(|node| node.uid == change.spec.node_uid));
        if let Some(node) = node {
            let mark = self.cordon_of(node, change, false);
            let adopted =
                mark.is_none() && change.is_none() && is_references(node, self.group, view, self.observed);
            if mark.is_some() || adopted {
                self.uncordon(node, mark.as_ref());
                self.say(Step::Uncordoned, giving_back(), change);
                return false;
            }
        }
        let before = self.out.actions.len();
        self.free_node();
        self.release_lease(change.is_none());
        self.say(Step::Uncordoned, giving_back(), change);
        self.out.actions.len() == before
    }

    /// Takes cordon and taints off. Without a mark they are those of the operator that numo replaces, and so is its label.
    pub(super) fn uncordon(&mut self, node: &NodeView, mark: Option<&CordonedBy>) {
        let (patch, event) = self.uncordoning(node, mark);
        self.act(Action::PatchNode(patch), event);
    }

    /// The patch that does so, and what is told of it.
    pub(super) fn uncordoning(
        &self,
        node: &NodeView,
        mark: Option<&CordonedBy>,
    ) -> (NodePatch, Option<Event>) {
        let mut patch = uncordoning(node, mark, self.group);
        // Nothing tells what was there before of one whose marks somebody took off.
        let is_unmarked = cordon::of(node, &self.view.uid).is_none() && mark::shielded(node).is_none();
        if (mark.is_none() || is_unmarked)
            && let Some(label) = node.labels.get(marks::EXCLUDE_FROM_REMEDIATION)
        {
            patch.labels = vec![Change {
                key: marks::EXCLUDE_FROM_REMEDIATION.to_owned(),
                from: Some(label.clone()),
                to: None,
            }];
        }
        let event = patch
            .unschedulable
            .map(|_| Event::normal("UncordonNode", EventAction::Restore, "Uncordon a node").on(self.node));
        (patch, event)
    }

    /// Takes every shield off.
    pub(super) fn free_node(&mut self) {
        let shields = self.observed.nodes.values().filter_map(|node| {
            let mark = mark::shielded(node).filter(|mark| mark.owner == self.view.uid)?;
            Some(shield::unshield(node, &mark))
        });
        let shields: Vec<Action> = shields.collect();
        for action in shields {
            self.act(action, None);
        }
        self.unshield_machines();
    }

    /// Gives back what remediation through Machines is kept off by.
    pub(super) fn unshield_machines(&mut self) {
        let due = machine::remediation_unshields(self.observed, &self.view.uid, |_| true);
        self.out.actions.extend(due);
    }

    pub(super) fn remove_finalizer(&mut self) {
        if let Some(action) = finalizer::removal(&self.view.owner, self.view.into()) {
            let note = "Removed a node maintenance";
            let event = Event::normal("RemovedMaintenance", EventAction::Complete, note);
            self.act(action, Some(event));
            self.out.report.result = Some(RunResult::Succeeded);
        }
    }

    /// Ends the journals of nodes that are gone, or were made again under their name.
    pub(super) fn end_orphans(&mut self, node: Option<&NodeView>) {
        let uid = node.map(|node| node.uid.as_str());
        let orphans: Vec<&ChangeView> = changes(self.observed, &self.view.uid)
            .filter(|change| change.in_flight() && Some(change.spec.node_uid.as_str()) != uid)
            .collect();
        for change in orphans {
            let ended = journal::end_gone(change, journal::gone(change), self.observed, self.now);
            self.out.actions.extend(ended);
        }
        if node.is_none() {
            self.unshield_machines();
            self.release_lease(true);
        }
    }
}
