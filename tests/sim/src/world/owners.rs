//! Owners as the API server has them: finalizers, deletion, what goes with them; and what their people meant.

use super::{Object, Refused, World, timestamp};
use crate::reading::has_turn;
use numo_api::{
    NodeMaintenanceSpec, NodeMaintenanceStatus, PlanSpec, PlanStatus, machines::annotations, marks,
    plan::PlanWindow,
};
use numo_core::{
    MaintenanceGroup, Owner, OwnerKind,
    action::Change,
    observed::{Key, MaintenanceView, Map, PlanView},
    owners::plan::Window,
};

/// What people meant with a Plan.
#[derive(Clone, Debug, Default)]
pub struct MeantPlan {
    /// Label of the nodes it is for.
    pub role: String,
    /// Whether it upgrades the kubelet.
    pub of_kubelet: bool,
    /// The Plan that it waits for.
    pub after: Option<Key>,
    /// Seconds of the day, UTC, in which nodes may be begun.
    pub window: Option<(i64, i64)>,
}

/// The finalizers of an owner, its uid, and whether it is being deleted.
struct Held<'a> {
    uid: &'a str,
    deleting: bool,
    finalizers: &'a mut Vec<String>,
    annotations: &'a mut Map,
    has_annotations: &'a mut bool,
}

impl World {
    fn held(&mut self, owner: &Owner) -> Option<Held<'_>> {
        let truth = &mut self.truth;
        Some(match owner.kind {
            OwnerKind::MutexRunConfig => {
                let run = truth.runs.get_mut(&owner.key)?;
                Held {
                    uid: &run.uid,
                    deleting: run.deleting,
                    finalizers: &mut run.finalizers,
                    annotations: &mut run.annotations,
                    has_annotations: &mut run.has_annotations,
                }
            }
            OwnerKind::Plan => {
                let plan = truth.plans.get_mut(&owner.key)?;
                Held {
                    uid: &plan.uid,
                    deleting: plan.deleting,
                    finalizers: &mut plan.finalizers,
                    annotations: &mut plan.annotations,
                    has_annotations: &mut plan.has_annotations,
                }
            }
            OwnerKind::NodeVersion => {
                let view = truth.fleet.versions.get_mut(&owner.key.name)?;
                Held {
                    uid: &view.uid,
                    deleting: view.deleting,
                    finalizers: &mut view.finalizers,
                    annotations: &mut view.annotations,
                    has_annotations: &mut view.has_annotations,
                }
            }
            OwnerKind::NodeMaintenance(_) => {
                let view = truth.maintenances.get_mut(owner)?;
                Held {
                    uid: &view.uid,
                    deleting: view.deleting,
                    finalizers: &mut view.finalizers,
                    annotations: &mut view.annotations,
                    has_annotations: &mut view.has_annotations,
                }
            }
        })
    }

    pub(super) fn mark_gate(&mut self, owner: &Owner, uid: &str, change: &Change) -> Result<Object, Refused> {
        let refused = |code, message: &str| {
            Err(Refused {
                code,
                message: message.to_owned(),
            })
        };
        let Some(held) = self.held(owner).filter(|held| held.uid == uid) else {
            return refused(404, "the owner is gone");
        };
        if held.annotations.get(&change.key) != change.from.as_ref() {
            return refused(409, "metadata.annotations is not as it was read");
        }
        if let Some(to) = &change.to {
            held.annotations.insert(change.key.clone(), to.clone());
        } else {
            held.annotations.remove(&change.key);
        }
        *held.has_annotations = !held.annotations.is_empty();
        Ok(object(owner))
    }

    pub(super) fn add_finalizer(
        &mut self,
        owner: &Owner,
        uid: &str,
        finalizer: &str,
    ) -> Result<Object, Refused> {
        let refused = |code, message: &str| {
            Err(Refused {
                code,
                message: message.to_owned(),
            })
        };
        let Some(held) = self.held(owner).filter(|held| held.uid == uid) else {
            return refused(404, "the owner is gone");
        };
        if held.deleting {
            return refused(422, "no new finalizers while it is being deleted");
        }
        if held.finalizers.iter().any(|found| found == finalizer) {
            return refused(409, "metadata.finalizers is not as it was read");
        }
        held.finalizers.push(finalizer.to_owned());
        Ok(object(owner))
    }

    pub(super) fn remove_finalizer(
        &mut self,
        owner: &Owner,
        uid: &str,
        finalizer: &str,
        index: usize,
    ) -> Result<Object, Refused> {
        let refused = |code, message: &str| {
            Err(Refused {
                code,
                message: message.to_owned(),
            })
        };
        let Some(held) = self.held(owner).filter(|held| held.uid == uid) else {
            return refused(404, "the owner is gone");
        };
        if held.finalizers.get(index).map(String::as_str) != Some(finalizer) {
            return refused(409, "metadata.finalizers is not as it was read");
        }
        held.finalizers.remove(index);
        let is_over = held.deleting && held.finalizers.is_empty();
        if is_over {
            self.collect(owner);
        }
        Ok(object(owner))
    }

    /// The owner is gone, and with it what it owns.
    pub(super) fn collect(&mut self, owner: &Owner) {
        let truth = &mut self.truth;
        let uid = match owner.kind {
            OwnerKind::MutexRunConfig => truth.runs.remove(&owner.key).map(|run| run.uid),
            OwnerKind::Plan => truth.plans.remove(&owner.key).map(|plan| plan.uid),
            OwnerKind::NodeMaintenance(_) => truth.maintenances.remove(owner).map(|view| view.uid),
            OwnerKind::NodeVersion => truth.fleet.versions.remove(&owner.key.name).map(|view| view.uid),
        };
        let Some(uid) = uid else { return };
        let changes = truth.changes.values();
        let changes: Vec<Key> = changes
            .filter(|change| change.spec.owner_ref.uid == uid)
            .map(|change| change.key.clone())
            .collect();
        for key in changes {
            self.truth.changes.remove(&key);
            self.touch(Object::Change(key));
        }
        let pending = self.truth.fleet.pending.values();
        let pending: Vec<String> = pending
            .filter(|one| one.owner_uid == uid)
            .map(|one| one.name.clone())
            .collect();
        for name in pending {
            self.truth.fleet.pending.remove(&name);
            self.touch(Object::Pending(name));
        }
        let jobs = self.truth.plan_jobs.iter();
        let jobs: Vec<(Key, String)> = jobs
            .filter(|(_, job)| job.plan_uid == uid)
            .map(|(key, job)| (key.clone(), job.uid.clone()))
            .collect();
        for (key, job) in jobs {
            self.plan_job_goes(&key, &job);
        }
        self.touch(object(owner));
    }

    /// Someone deletes an owner.
    pub fn delete_owner(&mut self, owner: &Owner) {
        match owner.kind {
            OwnerKind::MutexRunConfig => {
                if let Some(run) = self.truth.runs.get_mut(&owner.key) {
                    run.deleting = true;
                }
            }
            OwnerKind::Plan => {
                if let Some(plan) = self.truth.plans.get_mut(&owner.key) {
                    plan.deleting = true;
                }
            }
            OwnerKind::NodeVersion => {
                if let Some(view) = self.truth.fleet.versions.get_mut(&owner.key.name) {
                    view.deleting = true;
                }
            }
            OwnerKind::NodeMaintenance(_) => {
                if let Some(view) = self.truth.maintenances.get_mut(owner) {
                    view.deleting = true;
                }
            }
        }
        if self.held(owner).is_some_and(|held| held.finalizers.is_empty()) {
            let uid = self.truth.uid_of(owner).unwrap_or_default();
            let mut changes = self.truth.changes.values();
            self.people.orphaned |=
                changes.any(|change| change.spec.owner_ref.uid == uid && has_turn(change));
            let mut pending = self.truth.fleet.pending.values();
            self.people.orphaned |= pending.any(|one| one.owner_uid == uid);
            let is_version = owner.kind == OwnerKind::NodeVersion;
            let marks = [annotations::HEIR, annotations::DONOR, annotations::OBSOLETE];
            let mut nodes = self.truth.nodes.values().filter(|_| is_version);
            self.people.orphaned |=
                nodes.any(|node| marks.iter().any(|key| !node.annotation(key).is_empty()));
            self.collect(owner);
        }
        self.touch(object(owner));
    }

    /// Someone creates a Plan.
    pub fn add_plan(&mut self, key: &Key, spec: PlanSpec, meant: MeantPlan) {
        let selector = serde_json::to_value(&spec.node_selector).unwrap_or_default();
        let window = spec.window.as_ref().map(|window| Window::parse(window, |_| None));
        let view = PlanView {
            key: key.clone(),
            pruned: None,
            uid: format!("plan-{}-{}", key.name, self.serial()),
            generation: 1,
            created: timestamp(self.now - 100),
            deleting: false,
            finalizers: Vec::new(),
            annotations: Map::new(),
            has_annotations: false,
            labels: Map::new(),
            copied_annotations: Map::new(),
            uncopied_annotations: Map::new(),
            digest: String::new(),
            spec,
            selector,
            window,
            hours: None,
            status: PlanStatus::default(),
        };
        self.people.plans.insert(key.clone(), meant);
        self.truth.plans.insert(key.clone(), view);
        self.touch(Object::Plan(key.clone()));
    }

    /// Someone opens a Plan's window (`None`), or sets it to these seconds of the day.
    pub fn set_window(&mut self, key: &Key, window: Option<(i64, i64)>) {
        if let Some(meant) = self.people.plans.get_mut(key) {
            meant.window = window;
        }
        let spec = window.map(|(from, to)| plan_window(from, to));
        self.edit_plan(key, |plan| {
            plan.window = spec.as_ref().map(|window| Window::parse(window, |_| None));
            plan.spec.window = spec;
        });
    }

    pub(super) fn edit_plan(&mut self, key: &Key, edit: impl FnOnce(&mut PlanView)) {
        if let Some(plan) = self.truth.plans.get_mut(key) {
            edit(plan);
            plan.generation += 1;
            plan.has_annotations = !plan.annotations.is_empty();
            self.touch(Object::Plan(key.clone()));
        }
    }

    /// Someone creates a NodeMaintenance.
    pub fn add_maintenance(&mut self, name: &str, spec: NodeMaintenanceSpec) -> Owner {
        let owner = Owner::maintenance(MaintenanceGroup::Medik8s, name);
        let view = MaintenanceView {
            owner: owner.clone(),
            pruned: None,
            has_annotations: false,
            uid: format!("maintenance-{}", self.serial()),
            generation: 1,
            created: self.time(),
            deleting: false,
            finalizers: Vec::new(),
            annotations: Map::new(),
            labels: Map::new(),
            spec,
            status: NodeMaintenanceStatus::default(),
        };
        self.truth.maintenances.insert(owner.clone(), view);
        self.touch(Object::Maintenance(owner.clone()));
        owner
    }

    pub(super) fn suspend_owner(&mut self, owner: &Owner, suspended: bool) {
        let set = |annotations: &mut Map| {
            if suspended {
                annotations.insert(marks::SUSPEND.to_owned(), "alice".to_owned());
            } else {
                annotations.remove(marks::SUSPEND);
            }
        };
        match owner.kind {
            OwnerKind::MutexRunConfig => {
                self.edit_run(&owner.key, |run| run.spec.suspend = suspended.then_some(true));
            }
            OwnerKind::Plan => self.edit_plan(&owner.key, |plan| set(&mut plan.annotations)),
            OwnerKind::NodeVersion => {
                self.edit_version(&owner.key.name, |view| set(&mut view.annotations));
            }
            OwnerKind::NodeMaintenance(_) => {
                if let Some(view) = self.truth.maintenances.get_mut(owner) {
                    set(&mut view.annotations);
                    self.touch(Object::Maintenance(owner.clone()));
                }
            }
        }
    }
}

/// A window of every day.
pub fn plan_window(from: i64, to: i64) -> PlanWindow {
    let time = |seconds: i64| Some(format!("{:02}:{:02}", seconds / 3600, seconds / 60 % 60));
    let days = ["su", "mo", "tu", "we", "th", "fr", "sa"];
    PlanWindow {
        days: Some(days.map(str::to_owned).to_vec()),
        start_time: time(from),
        end_time: time(to),
        time_zone: None,
    }
}

/// The object that an owner is.
pub fn object(owner: &Owner) -> Object {
    match owner.kind {
        OwnerKind::MutexRunConfig => Object::Run(owner.key.clone()),
        OwnerKind::Plan => Object::Plan(owner.key.clone()),
        OwnerKind::NodeVersion => Object::Version(owner.key.name.clone()),
        OwnerKind::NodeMaintenance(_) => Object::Maintenance(owner.clone()),
    }
}
