//! What journals and status say of a NodeMaintenance.

use crate::{
    key::Key,
    names,
    observed::{ChangeView, MaintenanceView, NodeView, Observed},
    report::MaintenancePhase,
    turn::{
        directive,
        reservation::{self, of_owner},
    },
    why::Why,
};
use numo_api::{NodeChangeSpec, Reason, Target};

/// How often a lease that was ours may be found with another before the maintenance is given up
/// (`spec/node-maintenance.md` §2).
pub(super) const MAX_LEASE_ERRORS: i64 = 3;

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

/// The place of a maintenance among those of its node: who has a turn is first.
pub(super) fn place(one: &MaintenanceView, has_turn: bool) -> impl Ord + use<> {
    (!has_turn, one.deleting, one.created, one.owner.clone())
}

/// Whether node-maintenance-operator lost the lease of the node and gave the node back: it stays so.
pub(super) fn was_given_up(view: &MaintenanceView) -> bool {
    last_phase(view) == MaintenancePhase::Failed
        && view.status.error_on_lease_count.unwrap_or(0) > MAX_LEASE_ERRORS
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

/// That a person leaves the only node of its owner out: to give the owner up is the same.
pub(super) fn only_one_skipped(change: &ChangeView) -> Option<Why> {
    directive::skipped(change).or_else(|| {
        let why = directive::given_up(change)?;
        Some(Why::new(Reason::SkippedByPerson, why.message))
    })
}

/// The same, if it is not journaled yet.
pub(super) fn only_one_newly_skipped(change: &ChangeView) -> Option<Why> {
    only_one_skipped(change).filter(|_| directive::is_new(change))
}
