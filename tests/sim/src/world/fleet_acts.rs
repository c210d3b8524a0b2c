//! What people and machines do to Plans, NodeMaintenances and their nodes.

use super::{Event, Object, World};
use crate::reading::{cordoner, has_turn};
use numo_api::NodeMaintenanceSpec;
use numo_core::{
    Owner,
    observed::{BindingView, Key},
};
use rand::Rng;

/// Something someone does. Whom it hits is drawn when it happens.
#[derive(Clone, Debug)]
pub enum FleetAct {
    /// Someone suspends an owner, for so long.
    Suspend(i64),
    /// And resumes it.
    Resume(Owner),
    /// Someone sets another version on every Plan.
    NewVersion(String),
    /// Someone sets another version on one Plan, and after so long on every other one.
    NewVersionOfOne(String, i64),
    /// Someone deletes a Plan.
    DeletePlan,
    /// Someone gives what a Plan goes to up, for so long.
    AbortPlan(i64),
    /// And takes that back.
    UnabortPlan(Key),
    /// Someone sets the window of a Plan to these seconds of the day.
    SetWindow(i64, i64),
    /// Someone sets how many nodes of a Plan may be upgraded at once.
    SetConcurrency(i64),
    /// Someone begins the maintenance of a node, for so long.
    Maintain(i64),
    /// Someone ends it.
    EndMaintenance(Owner),
    /// Someone uncordons a node that numo has cordoned, and the operator is away for so long.
    UncordonOurs(i64),
    /// Someone takes a finalizer of numo's away.
    LoseFinalizer,
    /// No budget of pods allows anything, for so long.
    CloseBudgets(i64),
    /// And each allows one again.
    OpenBudgets,
    /// Someone deletes a Job of a Plan.
    DeletePlanJob,
    /// The operator is scaled to 0, for so long.
    StopOperator(i64),
    /// Someone edits a MutexBinding, for so long.
    EditBinding(BindingEdit, i64),
    /// And writes it as it was.
    BringBinding(String, Box<BindingView>),
    /// Someone asks for another image.
    NewImage(String),
    /// Someone asks one NodeVersion for another image, where there are two.
    NewImageOfOne(String),
    /// Someone deletes a ScalingGroup.
    DeleteGroup,
    /// The provider knows one of its groups no more, for so long.
    LoseGroup(i64),
    /// And knows all of them again.
    BringGroups,
    /// Someone deletes a NodeVersion.
    DeleteVersion,
    /// Someone gives a replacement up, for so long.
    AbortVersion(i64),
    /// And takes that back.
    UnabortVersion(String),
    /// Someone starts the cluster autoscaler.
    StartAutoscaler,
    /// Someone sets how many machines there may be beyond those that are replaced.
    SetSurge(i32),
    /// The provider refuses every call, for so long.
    LoseProvider(i64),
    /// And only some of them again.
    BringProvider(u32),
}

/// How a MutexBinding is edited.
#[derive(Clone, Copy, Debug)]
pub enum BindingEdit {
    /// It is deleted.
    Gone,
    /// Its rules are taken out.
    NoRules,
    /// It names one rule more.
    OneRuleMore,
    /// `maxUnavailable` is 1.
    OneAtOnce,
    /// Nodes of a zone exclude each other.
    ZoneByZone,
    /// Turns are kept for so long (seconds).
    Soak(i64),
    /// No node may fail.
    NoFailures,
}

impl BindingEdit {
    /// Each.
    pub const EACH: [Self; 7] = [
        Self::Gone,
        Self::NoRules,
        Self::OneRuleMore,
        Self::OneAtOnce,
        Self::ZoneByZone,
        Self::Soak(300),
        Self::NoFailures,
    ];
}

impl World {
    pub(super) fn drawn<T>(&mut self, mut among: Vec<T>) -> Option<T> {
        if among.is_empty() {
            return None;
        }
        let index = self.rng.random_range(0..among.len());
        Some(among.swap_remove(index))
    }

    fn some_plan(&mut self) -> Option<Key> {
        let plans = self.truth.plans.values().filter(|plan| !plan.deleting);
        let keys = plans.map(|plan| plan.key.clone()).collect();
        self.drawn(keys)
    }

    fn some_owner(&mut self) -> Option<Owner> {
        let truth = &self.truth;
        let runs = truth.runs.values().filter(|run| !run.deleting);
        let runs = runs.map(|run| Owner::run(run.key.clone()));
        let plans = truth.plans.values().filter(|plan| !plan.deleting);
        let plans = plans.map(|plan| Owner::plan(plan.key.clone()));
        let others = truth.maintenances.values().filter(|view| !view.deleting);
        let others = others.map(|view| view.owner.clone());
        let versions = truth.fleet.versions.values().filter(|view| !view.deleting);
        let versions = versions.map(|view| Owner::node_version(view.name.as_str()));
        let owners = runs.chain(plans).chain(others).chain(versions).collect();
        self.drawn(owners)
    }

    /// Whether the mark of a cordon on a node is of a Plan or a NodeMaintenance.
    pub(super) fn is_cordoned_by_fleet(&self, node: &str) -> bool {
        let Some(node) = self.truth.nodes.get(node) else {
            return false;
        };
        let Some(mark) = cordoner(node) else {
            return false;
        };
        !self.truth.runs.values().any(|run| run.uid == mark)
    }

    /// Someone does something.
    pub(super) fn fleet_act(&mut self, act: &FleetAct) {
        match act {
            FleetAct::Suspend(seconds) => {
                let Some(owner) = self.some_owner() else { return };
                self.suspend_owner(&owner, true);
                self.tell("person", || format!("suspends {owner}"));
                self.plan(*seconds, Event::Fleet(FleetAct::Resume(owner)));
            }
            FleetAct::Resume(owner) => {
                self.suspend_owner(owner, false);
                self.tell("person", || format!("resumes {owner}"));
            }
            FleetAct::NewVersion(version) => self.set_versions(version),
            FleetAct::NewVersionOfOne(version, seconds) => {
                let Some(key) = self.some_plan() else { return };
                self.edit_plan(&key, |plan| plan.spec.version = Some(version.clone()));
                self.tell("person", || format!("sets version {version} on Plan {key}"));
                self.plan(*seconds, Event::Fleet(FleetAct::NewVersion(version.clone())));
            }
            FleetAct::DeletePlan => {
                let Some(key) = self.some_plan() else { return };
                self.people.gave_up = true;
                self.tell("person", || format!("deletes Plan {key}"));
                self.delete_owner(&Owner::plan(key));
            }
            FleetAct::AbortPlan(seconds) => {
                let Some(key) = self.some_plan() else { return };
                self.abort_plan(&key, *seconds);
            }
            FleetAct::UnabortPlan(key) => {
                self.edit_plan(key, |plan| {
                    plan.annotations.remove(numo_api::marks::ABORT);
                });
                self.tell("person", || format!("takes Plan {key} up again"));
            }
            FleetAct::SetWindow(from, to) => {
                let Some(key) = self.some_plan() else { return };
                self.set_window(&key, Some((*from, *to)));
                self.tell("person", || format!("sets the window of Plan {key}"));
            }
            FleetAct::SetConcurrency(concurrency) => {
                let Some(key) = self.some_plan() else { return };
                self.people.limits_edited = true;
                self.edit_plan(&key, |plan| plan.spec.concurrency = Some(*concurrency));
                self.tell("person", || {
                    format!("sets spec.concurrency of Plan {key} to {concurrency}")
                });
            }
            FleetAct::Maintain(seconds) => self.maintain(*seconds),
            FleetAct::EndMaintenance(owner) => {
                if self
                    .truth
                    .maintenances
                    .get(owner)
                    .is_some_and(|view| !view.deleting)
                {
                    self.tell("person", || format!("deletes {owner}"));
                    self.delete_owner(owner);
                }
            }
            FleetAct::UncordonOurs(seconds) => self.uncordon_ours(*seconds),
            FleetAct::LoseFinalizer => self.lose_finalizer(),
            FleetAct::CloseBudgets(seconds) => {
                self.set_disruption_budgets(|replicas| i64::try_from(replicas).unwrap_or(i64::MAX));
                self.tell("person", || "closes the budgets of pods".to_owned());
                self.plan(*seconds, Event::Fleet(FleetAct::OpenBudgets));
            }
            FleetAct::OpenBudgets => {
                self.set_disruption_budgets(|replicas| i64::try_from(replicas).unwrap_or(1) - 1);
            }
            FleetAct::DeletePlanJob => self.delete_some_plan_job(),
            FleetAct::StopOperator(seconds) => self.operator_stops = Some(*seconds),
            FleetAct::EditBinding(edit, seconds) => self.edit_binding(*edit, *seconds),
            FleetAct::BringBinding(name, view) => {
                let mut view = (**view).clone();
                view.generation += 2;
                self.truth.bindings.insert(name.clone(), view);
                self.touch(Object::Binding(name.clone()));
                self.tell("person", || format!("writes MutexBinding {name} as it was"));
            }
            FleetAct::NewImage(_)
            | FleetAct::NewImageOfOne(_)
            | FleetAct::DeleteGroup
            | FleetAct::LoseGroup(_)
            | FleetAct::BringGroups
            | FleetAct::DeleteVersion
            | FleetAct::AbortVersion(_)
            | FleetAct::UnabortVersion(_)
            | FleetAct::StartAutoscaler
            | FleetAct::SetSurge(_)
            | FleetAct::LoseProvider(_)
            | FleetAct::BringProvider(_) => self.version_act(act),
        }
    }

    fn set_versions(&mut self, version: &str) {
        let keys: Vec<Key> = self.truth.plans.keys().cloned().collect();
        for key in keys {
            self.edit_plan(&key, |plan| plan.spec.version = Some(version.to_owned()));
        }
        self.tell("person", || format!("sets version {version} on every Plan"));
    }

    fn abort_plan(&mut self, key: &Key, seconds: i64) {
        let Some(plan) = self.truth.plans.get(key) else {
            return;
        };
        let changes = self.truth.changes.values();
        let mut runs = changes.filter(|change| change.spec.owner_ref.uid == plan.uid && has_turn(change));
        let Some(id) = runs.next().map(|change| change.spec.target.run_id.clone()) else {
            return;
        };
        self.people.gave_up = true;
        self.edit_plan(key, |plan| {
            plan.annotations.insert(numo_api::marks::ABORT.to_owned(), id);
        });
        self.tell("person", || format!("gives Plan {key} up"));
        self.plan(seconds, Event::Fleet(FleetAct::UnabortPlan(key.clone())));
    }

    fn maintain(&mut self, seconds: i64) {
        let busy: Vec<&String> = self
            .truth
            .maintenances
            .values()
            .map(|view| &view.spec.node_name)
            .collect();
        let free = self.truth.nodes.keys().filter(|name| !busy.contains(name));
        let free: Vec<String> = free.cloned().collect();
        let Some(node) = self.drawn(free) else { return };
        let name = format!("maintain-{}", self.serial());
        let probe = self.chance(40);
        let one_by_one = self.chance(30);
        let drain = numo_api::DrainSettings {
            probe: probe.then_some(true),
            max_concurrent: one_by_one.then_some(1),
            ..numo_api::DrainSettings::default()
        };
        let spec = NodeMaintenanceSpec {
            node_name: node.clone(),
            reason: Some("a new disk".to_owned()),
            drain: (probe || one_by_one).then_some(drain),
            ..NodeMaintenanceSpec::default()
        };
        let owner = self.add_maintenance(&name, spec);
        self.tell("person", || format!("begins {owner} of {node}"));
        self.plan(seconds, Event::Fleet(FleetAct::EndMaintenance(owner)));
    }

    fn edit_binding(&mut self, edit: BindingEdit, seconds: i64) {
        let names = self.truth.bindings.keys().cloned().collect();
        let Some(name) = self.drawn(names) else { return };
        let Some(whole) = self.truth.bindings.get(&name).cloned() else {
            return;
        };
        let named = |key: &Key| {
            let mut rules = whole.spec.settings.rules.iter().flatten();
            rules.any(|rule| rule.name.as_ref() == Some(&key.name))
        };
        let others = self
            .truth
            .rules
            .keys()
            .filter(|key| !named(key))
            .cloned()
            .collect();
        let other = self.drawn(others);
        self.people.limits_edited |= matches!(edit, BindingEdit::Gone | BindingEdit::OneAtOnce);
        if matches!(edit, BindingEdit::Gone) {
            self.truth.bindings.remove(&name);
        } else if let Some(binding) = self.truth.bindings.get_mut(&name) {
            binding.generation += 1;
            let settings = &mut binding.spec.settings;
            match edit {
                BindingEdit::Gone => {}
                BindingEdit::NoRules => settings.rules = None,
                BindingEdit::OneRuleMore => {
                    let reference = other.map(|key| numo_api::ObjectRef {
                        name: Some(key.name),
                        namespace: None,
                    });
                    settings.rules.get_or_insert_default().extend(reference);
                }
                BindingEdit::OneAtOnce => {
                    settings.max_unavailable = serde_json::from_value(1.into()).ok();
                }
                BindingEdit::ZoneByZone => {
                    settings.mutex_keys = Some(vec![numo_api::marks::openshift::ZONE.to_owned()]);
                }
                BindingEdit::Soak(seconds) => settings.soak_seconds = Some(seconds),
                BindingEdit::NoFailures => {
                    settings.failure_budget = serde_json::from_value(1.into()).ok();
                }
            }
        }
        self.touch(Object::Binding(name.clone()));
        self.tell("person", || format!("edits MutexBinding {name}: {edit:?}"));
        let back = FleetAct::BringBinding(name, Box::new(whole));
        self.plan(seconds, Event::Fleet(back));
    }

    fn uncordon_ours(&mut self, away: i64) {
        let nodes = self.truth.nodes.values().filter(|node| node.unschedulable);
        let ours: Vec<String> = nodes
            // Where a Job cordons, nobody sees that the cordon of before was taken back under it.
            .filter(|node| {
                self.is_cordoned_by_fleet(&node.name) && !self.people.cordoned.contains(&node.name)
            })
            .map(|node| node.name.clone())
            .collect();
        let Some(name) = self.drawn(ours) else { return };
        self.people.uncordoned.insert(name.clone());
        self.edit_node(&name, |node| node.unschedulable = false);
        self.tell("person", || format!("uncordons {name}, which numo has cordoned"));
        if away > 0 {
            self.operator_stops = Some(away);
        }
    }

    fn lose_finalizer(&mut self) {
        let plans = self.truth.plans.values_mut();
        for plan in plans.filter(|plan| !plan.deleting && !plan.finalizers.is_empty()) {
            plan.finalizers.clear();
        }
        let views = self.truth.maintenances.values_mut();
        for view in views.filter(|view| !view.deleting && !view.finalizers.is_empty()) {
            view.finalizers.clear();
        }
        let versions: Vec<String> = self.truth.fleet.versions.keys().cloned().collect();
        for name in versions {
            self.edit_version(&name, |view| {
                if !view.deleting {
                    view.finalizers.clear();
                }
            });
        }
        let plans: Vec<Key> = self.truth.plans.keys().cloned().collect();
        for key in plans {
            self.touch(Object::Plan(key));
        }
        let views: Vec<Owner> = self.truth.maintenances.keys().cloned().collect();
        for owner in views {
            self.touch(Object::Maintenance(owner));
        }
        self.tell("person", || {
            "takes the finalizers off Plans and NodeMaintenances".to_owned()
        });
    }

    fn delete_some_plan_job(&mut self) {
        let jobs = self
            .truth
            .plan_jobs
            .iter()
            .filter(|(_, job)| job.deleting.is_none());
        let jobs: Vec<(Key, String)> = jobs.map(|(key, job)| (key.clone(), job.uid.clone())).collect();
        let Some((key, uid)) = self.drawn(jobs) else {
            return;
        };
        if let Some(made) = self.plan_jobs_made.iter_mut().find(|made| made.uid == uid) {
            made.deleted_by_others = true;
        }
        self.tell("person", || format!("deletes Job {key}"));
        self.delete_plan_job(&key, &uid);
    }

    /// People mend what keeps Plans and NodeMaintenances from their ends: a maintenance is over when its person says so.
    pub(super) fn mend_fleet(&mut self) {
        let maintenances: Vec<Owner> = self.truth.maintenances.keys().cloned().collect();
        for owner in maintenances {
            self.suspend_owner(&owner, false);
            self.fleet_act(&FleetAct::EndMaintenance(owner));
        }
        let plans: Vec<Key> = self.truth.plans.keys().cloned().collect();
        for key in plans {
            self.set_window(&key, None);
            let after = self.people.plans.get(&key).and_then(|meant| meant.after.clone());
            if after.is_some_and(|after| !self.truth.plans.contains_key(&after)) {
                // The Plan that it waits for is gone.
                self.edit_plan(&key, |plan| plan.spec.prepare = None);
                if let Some(meant) = self.people.plans.get_mut(&key) {
                    meant.after = None;
                }
            }
            self.edit_plan(&key, |plan| {
                plan.annotations.remove(numo_api::marks::ABORT);
                plan.annotations.remove(numo_api::marks::SUSPEND);
                plan.spec.concurrency = plan.spec.concurrency.map(|concurrency| concurrency.max(1));
                plan.spec.mutex.iter_mut().for_each(allow_failures);
            });
        }
        self.mend_versions();
        let bindings: Vec<String> = self.truth.bindings.keys().cloned().collect();
        for name in bindings {
            if let Some(binding) = self.truth.bindings.get_mut(&name) {
                allow_failures(&mut binding.spec.settings);
            }
            self.touch(Object::Binding(name));
        }
        self.set_disruption_budgets(|_| 0);
    }
}

/// Nodes that were deleted once released have failed for good, and one is the default.
pub(super) fn allow_failures(settings: &mut numo_api::MutexSettings) {
    settings.failure_budget = serde_json::from_value("100%".into()).ok();
}
