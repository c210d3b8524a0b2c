//! What journals and status say of a NodeMaintenance.

use crate::{
    key::Key,
    names,
    observed::{ChangeView, MaintenanceView, NodeView, Observed},
    report::MaintenancePhase,
    turn::reservation::{self, of_owner},
};
use numo_api::{NodeChangeSpec, Target};

/// Id of what a maintenance asks of its node.
pub fn id(uid: &str) -> String {
    names::run_id(uid, "maintenance")
}

pub(super) fn run_id(view: &MaintenanceView) -> String {
    id(&view.uid)
}

pub(super) fn last_phase(view: &MaintenanceView) -> MaintenancePhase {
    match view.status.phase.as_deref() {
        Some("Succeeded") => MaintenancePhase::Succeeded,
        Some("Failed") => MaintenancePhase::Failed,
        _ => MaintenancePhase::Running,
    }
}

/// The journals of a NodeMaintenance: those of the operator's own namespace.
pub(crate) fn changes<'a>(observed: &'a Observed, uid: &'a str) -> impl Iterator<Item = &'a ChangeView> {
    of_owner(observed, &observed.settings.namespace, uid)
}

/// The NodeChange of a node in maintenance. It is in the operator's own namespace.
pub fn reservation(view: &MaintenanceView, node: &NodeView, namespace: &str) -> (Key, NodeChangeSpec) {
    let target = Target {
        run_id: run_id(view),
        version: String::new(),
        pool: String::new(),
    };
    reservation::reservation((&view.owner, &view.uid), node, target, false, namespace)
}
