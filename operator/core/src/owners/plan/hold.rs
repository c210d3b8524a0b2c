//! What a Plan holds of a node that has its turn, and gives back: the lease, the shield, and the mark of the cordon with what was there
//! before it. When it does so is not said here.

use super::{pass::Pass, told::Turn};
use crate::{
    action::{Action, NodePatch, NodePurpose},
    mark::{self, CordonedBy},
    observed::NodeView,
    owner::OwnerKind,
    turn::{cordon, lease, machine, node::Holding, shield},
};
use numo_api::Step;

impl<'a> Pass<'a> {
    /// What the Plan takes of the node: its lease, unless the node stays in service, its shield, and the memory of what cordon there was.
    pub(super) fn holding(&self, turn: &Turn<'a>) -> Holding {
        let uid = &self.view.uid;
        // A node that is complete is on its way back: its marks are being taken off.
        let begins = !turn.is_changed();
        let machines = || machine::shields(self.observed, (&turn.node.name, uid));
        Holding {
            holder: (!turn.change.spec.in_service).then(|| lease::holder_of(OwnerKind::Plan, uid)),
            // Beside the operator that numo replaces nothing new is taken; the turn is closed by what comes next.
            keeps_only: self.intent.is_stood_off(),
            shield: if begins {
                self.marking(turn)
            } else {
                self.remarking(turn)
            }
            .map(Action::PatchNode),
            machines: if begins { machines() } else { Vec::new() },
        }
    }

    /// The patch that begins a turn: shield, and the mark of the cordon that is coming, with what was there before.
    fn marking(&self, turn: &Turn<'a>) -> Option<NodePatch> {
        let (node, uid) = (turn.node, &self.view.uid);
        // A mark of somebody who has the node in hand as well is his: it is ours once he has put it back.
        let is_others = |owner: &str| {
            let mut turns = self.observed.changing();
            owner != uid
                && turns
                    .any(|change| change.spec.node_name == node.name && change.spec.owner_ref.uid == owner)
        };
        let shields =
            !shield::is_on(node, uid) && mark::shielded(node).is_none_or(|mark| !is_others(&mark.owner));
        let known = mark::cordoned_by(node);
        let may_have_run = self.may_have_run(turn);
        let was_cordoned = turn.was_cordoned();
        // Until it is cordoned for us, what people make of it is what was there before.
        let is_free = !was_cordoned && !may_have_run && turn.step() != Step::Held;
        let cordons = !turn.change.spec.in_service
            && known.as_ref().is_none_or(|mark| {
                // Whoever takes the cordon of before off, takes it off for good, also before the Job puts on its own.
                let is_over = mark.prior && !node.unschedulable;
                let differs = is_over || (is_free && mark.prior != node.unschedulable);
                (mark.owner != *uid && !is_others(&mark.owner))
                    || (mark.owner == *uid && !mark.done && differs)
            });
        if !shields && !cordons {
            return None;
        }
        let mut patch = NodePatch::of(node, NodePurpose::Shield);
        if shields && let Action::PatchNode(shield) = shield::shield(node, uid) {
            patch = shield;
        }
        if cordons {
            // Of a node that numo or its Job has cordoned already, the cordon is theirs, also where somebody took the mark off.
            let prior = node.unschedulable && !was_cordoned && !may_have_run;
            let mark = match known {
                // Over the mark of an owner that is gone, what was there before it is what counts: a cordon that is there is of that owner,
                // or of before it. One that comes later, or is taken off, is a person's word.
                Some(mark) if mark.owner != *uid => CordonedBy {
                    owner: uid.clone(),
                    prior: cordon::was_before(&mark, node),
                    done: node.unschedulable && !mark.prior,
                    ..mark
                },
                _ => CordonedBy {
                    prior,
                    ..cordon::lost(uid, was_cordoned)
                },
            };
            patch.annotations.push(cordon::noted(node, &mark));
            // A person's cordon of this very moment must not be taken for the Job's.
            patch.while_unschedulable = (!node.unschedulable && !turn.has_begun()).then_some(false);
        }
        Some(patch)
    }

    /// Whether the node has the shield of the Plan, which is put on together with the mark of the cordon.
    fn is_shielded(&self, node: &NodeView) -> bool {
        mark::shielded(node).is_some_and(|mark| mark.owner == self.view.uid)
    }

    /// The patch that puts the mark of the cordon back on a node whose Job is complete, where somebody took it off: without it nobody would
    /// take the cordon off. Once the change is journaled the cordon may have been taken off, and one that is there may be a person's.
    fn remarking(&self, turn: &Turn<'a>) -> Option<NodePatch> {
        let node = turn.node;
        let is_ours = self.is_shielded(node) || turn.entered(Step::Cordoned).is_some();
        let is_lost = is_ours && node.unschedulable && mark::cordoned_by(node).is_none();
        if !is_lost || turn.change.spec.in_service || turn.tells_of_change() {
            return None;
        }
        Some(cordon::marking(node, &cordon::lost(&self.view.uid, true)))
    }

    pub(super) fn release_lease(&mut self, node: &NodeView) {
        let holder = lease::holder_of(OwnerKind::Plan, &self.view.uid);
        if let Some(action) = lease::release(self.observed, &node.name, &holder) {
            self.act(&node.name, action, None);
        }
    }
}
