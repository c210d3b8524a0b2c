//! Another operator that serves NodeMaintenances, played by its rules (`spec/node-maintenance.md` §2): it takes the lease of the node, cordons
//! it, evicts its pods one after the other, and takes all of that back when the object goes.

use jiff::Timestamp;
use numo_api::{NodeMaintenanceSpec, NodeMaintenanceStatus, marks};
use numo_core::{
    MaintenanceGroup, Owner,
    action::MaintenanceRequest,
    mark,
    observed::{ForeignController, Key, LeaseView, MaintenanceView, Map, Observed, Rival},
};

/// Its name on leases.
const HOLDER: &str = "node-maintenance";

/// It is installed, and runs.
pub fn install(observed: &mut Observed) {
    let key = Key::new("operators", "node-maintenance-operator-controller-manager");
    let what = ForeignController::NodeMaintenance;
    observed
        .foreign_controllers
        .insert(key, Rival { what, lingers: None });
}

/// Creates the object that numo asks for; false if one of its name is there.
pub fn create(observed: &mut Observed, request: &MaintenanceRequest, number: usize, now: Timestamp) -> bool {
    let owner = Owner::maintenance(MaintenanceGroup::Medik8s, request.node.as_str());
    if observed.maintenances.contains_key(&owner) {
        return false;
    }
    let view = MaintenanceView {
        owner: owner.clone(),
        pruned: None,
        has_annotations: false,
        uid: format!("maintenance-{number}"),
        generation: 1,
        created: now,
        deleting: false,
        finalizers: vec![marks::MAINTENANCE_FINALIZER.to_owned()],
        annotations: Map::from([(marks::DRAINS_FOR.to_owned(), mark::render(&request.mark))]),
        labels: Map::new(),
        spec: NodeMaintenanceSpec {
            node_name: request.node.clone(),
            reason: Some(request.reason.to_owned()),
            ..NodeMaintenanceSpec::default()
        },
        status: NodeMaintenanceStatus::default(),
    };
    observed.maintenances.insert(owner, view);
    true
}

/// Deletes an object: its finalizer keeps it until the operator has seen that.
pub fn delete(observed: &mut Observed, name: &str, uid: &str) -> bool {
    let owner = Owner::maintenance(MaintenanceGroup::Medik8s, name);
    let found = observed.maintenances.get_mut(&owner);
    let Some(found) = found.filter(|found| found.uid == uid) else {
        return false;
    };
    found.deleting = true;
    true
}

/// What the operator does in a second.
pub fn act(observed: &mut Observed, now: Timestamp) {
    let owners: Vec<Owner> = observed.maintenances.keys().cloned().collect();
    for owner in owners {
        let view = observed.maintenances[&owner].clone();
        if view.deleting {
            stop(observed, &view);
        } else {
            let status = drain(observed, &view, now);
            let known = observed.maintenances.get_mut(&owner).expect("the object");
            known.status = status;
        }
    }
}

fn stop(observed: &mut Observed, view: &MaintenanceView) {
    let name = &view.spec.node_name;
    if let Some(node) = observed.nodes.get_mut(name) {
        node.unschedulable = false;
    }
    if observed
        .leases
        .get(name)
        .is_some_and(|lease| lease.holder == HOLDER)
    {
        observed.leases.remove(name);
    }
    observed.maintenances.remove(&view.owner);
}

fn drain(observed: &mut Observed, view: &MaintenanceView, now: Timestamp) -> NodeMaintenanceStatus {
    let name = &view.spec.node_name;
    let said = |phase: &str| NodeMaintenanceStatus {
        phase: Some(phase.to_owned()),
        last_update: Some(now.to_string()),
        ..NodeMaintenanceStatus::default()
    };
    let Some(node) = observed.nodes.get_mut(name) else {
        return NodeMaintenanceStatus {
            last_error: Some(format!("nodes \"{name}\" not found")),
            ..said("Failed")
        };
    };
    if observed
        .leases
        .get(name)
        .is_some_and(|lease| lease.holder != HOLDER)
    {
        return NodeMaintenanceStatus {
            last_error: Some("failed to obtain a lease that is not owned by us".to_owned()),
            ..said("Running")
        };
    }
    node.unschedulable = true;
    let lease = LeaseView {
        by_numo: false,
        holder: HOLDER.to_owned(),
        renewed: Some(now),
        duration_seconds: 3600,
        transitions: 0,
        uid: format!("lease-of-other-{name}"),
        resource_version: "1".to_owned(),
    };
    observed.leases.insert(name.clone(), lease);
    let pods = observed.pods.entry(name.clone()).or_default();
    if pods.pop_first().is_some() {
        return said("Running");
    }
    said("Succeeded")
}
