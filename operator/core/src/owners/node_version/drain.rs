//! How the old node is cordoned and drained: by numo's own drain, or by another operator that serves NodeMaintenances.

use super::{pass::Pass, turn::Going};
use crate::{
    action::DrainsFor,
    observed::{ChangeView, ForeignController, MaintenanceView, NodeView, Observed},
    released,
    turn::{
        across,
        cordon::{self, Across, OwnDrain},
        journal,
    },
    why::Why,
};
use numo_api::{Reason, Step, node_maintenance::MEDIK8S_GROUP};

/// What a NodeMaintenance says to people, as the reference has it.
const WHY: &str = "node is replaced due to OS image update";

impl Going<'_, '_> {
    /// How numo cordons and drains the old node.
    pub(super) fn drains_so(&self, donor: &NodeView) -> OwnDrain {
        let intent = &self.pass.intent;
        let mark = cordon::of(donor, &self.pass.view.uid);
        OwnDrain {
            is_cordoned: mark.is_some() && donor.unschedulable,
            mark,
            options: Some(intent.drain.clone()),
            limit_field: format!("{}.timeoutSeconds", intent.drain_field),
            again: "it is being cordoned again",
        }
    }

    /// How another operator cordons and drains the old node, if one does.
    pub(super) fn drains_across(&self, donor: &NodeView) -> Option<Across> {
        let intent = &self.pass.intent;
        self.pass.is_drained_across(donor, self.change).then(|| Across {
            reason: WHY,
            options: intent.drain.clone(),
            limit_field: format!("{}.timeoutSeconds", intent.drain_field),
        })
    }
}

impl Pass<'_> {
    fn is_drained_across(&self, donor: &NodeView, change: &ChangeView) -> bool {
        let is_asked = self.intent.drains_across.is_some();
        across::is_chosen(self.observed, (donor, change), &self.view.uid, is_asked)
    }

    /// Why no node is begun: another operator is to drain nodes, and none is there.
    pub(super) fn nobody_drains(&self) -> Option<Why> {
        let field = self.intent.drains_across.as_deref()?;
        not_served(self.observed, field)
    }

    /// The same of a node that has its turn and is not drained yet.
    pub(super) fn nobody_drains_it(&self, donor: &NodeView, change: &ChangeView) -> Option<Why> {
        let is_drained = journal::entered(change, Step::Drained).is_some();
        let waits = !is_drained && self.is_drained_across(donor, change);
        let field = self.intent.drains_across.as_deref();
        waits.then(|| not_served(self.observed, field.unwrap_or("drainBy")))?
    }

    /// Why another operator cannot drain a node that waits: somebody else has a NodeMaintenance of it.
    pub(super) fn kept_by_other(&self, node: &NodeView) -> Option<Why> {
        self.intent.drains_across.as_ref()?;
        across::kept_by_other(self.observed, node)
    }

    /// Deletes the NodeMaintenances that numo made for turns that are over, and for nodes that are gone: the other operator opens the node,
    /// and a later node of its name is not drained by them.
    pub(super) fn delete_maintenances(&mut self) {
        let (observed, flying) = (self.observed, &self.flying);
        let is_needed = |view: &MaintenanceView, mark: &DrainsFor| {
            let node = observed.nodes.get(&view.owner.key.name);
            let Some(node) = node.filter(|node| node.uid == mark.node) else {
                return false;
            };
            // Its journal may be gone.
            let is_released_machine = || released::machine(observed, node).is_some();
            flying.iter().any(|change| across::is_of_turn(mark, change)) || is_released_machine()
        };
        let left = across::left(observed, &self.view.uid, is_needed);
        let due: Vec<_> = left.map(across::deletion).collect();
        self.out.actions.extend(due);
    }
}

/// Why no node is drained by another operator: its kind is not there, none is known that serves NodeMaintenances, or nobody sees what it says.
fn not_served(observed: &Observed, field: &str) -> Option<Why> {
    if let Some(words) = observed.absent.get(across::PLURAL) {
        let message = format!(
            "{field}: found NodeMaintenance, and the cluster does not serve nodemaintenances of {MEDIK8S_GROUP}: {words}; wanted {} with that \
             definition, or Numo",
            ForeignController::NodeMaintenance.name()
        );
        return Some(Why::new(Reason::MaintenanceNotServed, message));
    }
    if let Some(words) = observed.unlisted.get(across::PLURAL) {
        let message = format!("nodemaintenances cannot be listed any more: {words}");
        return Some(Why::new(Reason::ListFailed, message));
    }
    let mut rivals = observed.foreign_controllers.iter();
    let what = ForeignController::NodeMaintenance;
    if rivals.any(|(_, rival)| rival.what == what && rival.lingers.is_none()) {
        return None;
    }
    let message = format!(
        "{field}: found NodeMaintenance, and no Deployment of {} that runs: numo itself serves NodeMaintenances, or nobody does; wanted Numo, \
         or that operator",
        what.name()
    );
    Some(Why::new(Reason::MaintenanceNotServed, message))
}
