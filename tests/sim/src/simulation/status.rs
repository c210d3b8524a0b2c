//! The statuses of owners, as the shell writes them after a pass, as far as a later decision or a person reads them.

use super::{Simulation, silence::is_stalled};
use crate::world::object;
use numo_api::{NodeMaintenanceStatus, PlanCondition, PlanStatus, RunStatus, Step, conditions::types};
use numo_core::{
    Owner, OwnerKind,
    observed::Key,
    report::{MaintenancePhase, Report, RunPhase},
};

impl Simulation {
    /// The one status write of a pass. A refusal is tried again.
    pub(super) fn write_status(&mut self, owner: &Owner, report: &Report) {
        let differs = match owner.kind {
            OwnerKind::MutexRunConfig => self.settle_run(&owner.key, report),
            OwnerKind::Plan => self.settle_plan(&owner.key, report),
            OwnerKind::NodeMaintenance(_) => self.settle_maintenance(owner, report),
            // No decision reads the status of a NodeVersion.
            OwnerKind::NodeVersion => false,
        };
        if differs {
            self.own(&object(owner));
            self.dirty = true;
        }
    }

    /// Whether the server has a bad day at this status write.
    fn status_is_refused(&mut self, owner: &Owner) -> bool {
        if !self.often(self.faults.refuse) {
            return false;
        }
        self.story.refused += 1;
        self.retry_soon(owner);
        true
    }

    fn settle_run(&mut self, owner: &Key, report: &Report) -> bool {
        let Some(run) = self.world.truth.runs.get(owner) else {
            return false;
        };
        if report.run_id.is_empty() {
            return false;
        }
        let now = self.world.time().to_string();
        let mut status = run.status.run.clone().unwrap_or_default();
        let active = report.phase == RunPhase::Active;
        if status.id != report.run_id {
            if !active {
                return false;
            }
            status = RunStatus {
                id: report.run_id.clone(),
                target: report.target.clone().unwrap_or_default(),
                started_at: Some(now.clone()),
                ..RunStatus::default()
            };
        }
        if active {
            status.finished_at = None;
            status.result = None;
        }
        let over = matches!(report.phase, RunPhase::Idle | RunPhase::Held) && report.result.is_some();
        if over && status.finished_at.is_none() {
            status.finished_at = Some(now);
            status.result = report.result;
        }
        if run.status.run.as_ref() == Some(&status) || self.status_is_refused(&Owner::run(owner.clone())) {
            return false;
        }
        if let Some(run) = self.world.truth.runs.get_mut(owner) {
            run.status.run = Some(status);
        }
        true
    }

    fn settle_plan(&mut self, key: &Key, report: &Report) -> bool {
        let (Some(plan), Some(said)) = (self.world.truth.plans.get(key), &report.plan) else {
            return false;
        };
        let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let condition = |type_: &str, is: bool, reason: &str| PlanCondition {
            type_: type_.to_owned(),
            status: if is { "True" } else { "False" }.to_owned(),
            reason: some(&reason.to_owned()),
            ..PlanCondition::default()
        };
        let stalled = is_stalled(OwnerKind::Plan, report);
        let mut conditions = vec![condition(types::COMPLETE, said.complete, said.reason)];
        conditions.extend(stalled.then(|| condition(types::STALLED, true, "Stalled")));
        let status = PlanStatus {
            conditions: Some(conditions),
            approval: None,
            latest_version: some(&said.version),
            latest_hash: some(&said.hash),
            applying: Some(said.applying.clone()).filter(|applying| !applying.is_empty()),
        };
        if plan.status == status || self.status_is_refused(&Owner::plan(key.clone())) {
            return false;
        }
        if let Some(plan) = self.world.truth.plans.get_mut(key) {
            plan.status = status;
        }
        true
    }

    fn settle_maintenance(&mut self, owner: &Owner, report: &Report) -> bool {
        let (Some(view), Some(said)) = (self.world.truth.maintenances.get(owner), &report.maintenance) else {
            return false;
        };
        let mut status = NodeMaintenanceStatus {
            phase: Some(said.phase.name().to_owned()),
            last_error: said.error.clone(),
            error_on_lease_count: Some(said.lease_errors).filter(|count| *count > 0),
            ..view.status.clone()
        };
        let node = report.nodes.get(&view.spec.node_name);
        let begins = |step| matches!(step, Step::Selected | Step::Admitted | Step::PreRules);
        if said.phase == MaintenancePhase::Running && node.is_some_and(|node| begins(node.step)) {
            status.eviction_pods = None;
            status.total_pods = None;
        }
        if let Some((pending, total)) = &said.pods
            && status.eviction_pods.is_none()
        {
            let number = |count: usize| i64::try_from(count).ok().filter(|count| *count > 0);
            status.eviction_pods = number(pending.len());
            status.total_pods = number(*total);
        }
        if view.status == status || self.status_is_refused(owner) {
            return false;
        }
        status.last_update = Some(self.world.time().to_string());
        if let Some(view) = self.world.truth.maintenances.get_mut(owner) {
            view.status = status;
        }
        true
    }
}
