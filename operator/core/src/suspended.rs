//! That a person has paused an owner: by the annotation that `numo pause` sets, or in its spec. One place for all kinds of owners.

use crate::{
    observed::{MaintenanceView, NodeVersionView, Observed, PlanView, RunConfigView},
    owner::{Owner, OwnerKind},
    said,
    why::Why,
};
use numo_api::{Reason, marks::SUSPEND};

/// Why the owner begins nothing new, if a person has paused it.
pub fn suspended(observed: &Observed, owner: &Owner) -> Option<Why> {
    match owner.kind {
        OwnerKind::MutexRunConfig => of_run(observed.runs.get(&owner.key)?),
        OwnerKind::Plan => of_plan(observed.plans.get(&owner.key)?),
        OwnerKind::NodeVersion => of_version(observed.fleet.versions.get(&owner.key.name)?),
        OwnerKind::NodeMaintenance(_) => of_maintenance(observed.maintenances.get(owner)?),
    }
}

/// The same of a MutexRunConfig.
pub(crate) fn of_run(run: &RunConfigView) -> Option<Why> {
    let message = if run.spec.suspend == Some(true) {
        format!("MutexRunConfig {} has spec.suspend: true", run.key)
    } else {
        let by = run.annotations.get(SUSPEND)?;
        format!("MutexRunConfig {} {}", run.key, said::paused(by))
    };
    Some(Why::new(Reason::Suspended, message))
}

/// The same of a Plan.
pub(crate) fn of_plan(view: &PlanView) -> Option<Why> {
    let by = view.annotations.get(SUSPEND)?;
    let message = format!("Plan {} {}", view.key, said::paused(by));
    Some(Why::new(Reason::Suspended, message))
}

/// The same of a NodeVersion.
pub(crate) fn of_version(view: &NodeVersionView) -> Option<Why> {
    let by = view.annotations.get(SUSPEND)?;
    let message = format!("NodeVersion {} {}", view.name, said::paused(by));
    Some(Why::new(Reason::Suspended, message))
}

/// The same of a NodeMaintenance.
pub(crate) fn of_maintenance(view: &MaintenanceView) -> Option<Why> {
    let by = view.annotations.get(SUSPEND)?;
    let message = format!("NodeMaintenance {} {}", view.owner.key, said::paused(by));
    Some(Why::new(Reason::Suspended, message))
}
