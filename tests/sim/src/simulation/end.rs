//! The end: with nothing in the way, every node of every owner is at its target, and everything is as it was.

use super::Simulation;
use crate::judge;
use numo_api::{Reason, marks};
use numo_core::report::RunPhase;

impl Simulation {
    /// In the end, with nothing in the way, every node of every run is at its target and everything is as
    /// it was.
    pub(super) fn well(&self) -> Result<(), String> {
        if self.world.people.orphaned {
            return Ok(());
        }
        self.owners_are_done()?;
        self.plans_are_true()?;
        let targets: Vec<&String> = self
            .world
            .truth
            .targets
            .values()
            .flat_map(|target| &target.pools)
            .collect();
        if (!self.people || self.world.people.broke_spec)
            && self
                .world
                .assignments
                .iter()
                .any(|made| targets.contains(&&made.pool))
        {
            // A run that waits for a pool of another one holds none of its own, or two could wait for each other.
            let alone = self.world.truth.runs.len() < 2
                && self
                    .world
                    .truth
                    .runs
                    .values()
                    .all(|run| run.spec.on_exit.is_none());
            let plain =
                alone && self.faults.lag == (0, 0) && self.story.crashes == 0 && self.story.refused == 0;
            if plain {
                return Err("the MCO let a node of a target go by itself".to_owned());
            }
        }
        for node in self.world.truth.nodes.values() {
            judge::unmarked(&self.world, node)?;
            if node.annotations.contains_key(marks::SHIELDED_BY) {
                return Err(format!("{} is still shielded", node.name));
            }
        }
        judge::leases_restored(&self.world)?;
        judge::cordons_as_meant(&self.world)?;
        judge::nothing_leaked(&self.world)?;
        self.judge.no_member_left(&self.world)?;
        if self.world.truth.runs.is_empty() {
            Ok(())
        } else {
            judge::restored(&self.world)
        }
    }

    /// No owner is left that is to go, and those that stay say that every node is done.
    fn owners_are_done(&self) -> Result<(), String> {
        let truth = &self.world.truth;
        let runs = truth.runs.values().filter(|run| run.deleting);
        let runs = runs.map(|run| run.key.to_string());
        let plans = truth.plans.values().filter(|plan| plan.deleting);
        let plans = plans.map(|plan| plan.key.to_string());
        let others = truth.maintenances.keys().map(ToString::to_string);
        let versions = truth.fleet.versions.values().filter(|view| view.deleting);
        let versions = versions.map(|view| view.name.clone());
        if let Some(owner) = runs.chain(plans).chain(others).chain(versions).next() {
            return Err(format!("{owner} is being deleted and does not go"));
        }
        for (owner, report) in &self.reports {
            if truth.uid_of(owner).is_none() {
                continue;
            }
            let nodes = report.nodes.iter();
            let behind =
                nodes.filter(|(_, node)| !matches!(node.why.reason, Reason::Done | Reason::UpToDate));
            let behind: Vec<String> = behind
                .map(|(name, node)| {
                    let (step, why) = (node.step.name(), &node.why);
                    format!("{name} of {owner} is {step} {}: {}", why.reason, why.message)
                })
                .collect();
            if !behind.is_empty() {
                return Err(format!("in the end {}", behind.join("; ")));
            }
            if report.phase != RunPhase::Idle {
                return Err(format!(
                    "in the end {owner} is {:?}: {:?}",
                    report.phase, report.hold
                ));
            }
        }
        Ok(())
    }

    /// What Plans say is done is so on their nodes: the label is there, and the kubelet is at the version.
    fn plans_are_true(&self) -> Result<(), String> {
        let truth = &self.world.truth;
        for (key, meant) in &self.world.people.plans {
            let Some(plan) = truth.plans.get(key) else {
                continue;
            };
            let version = plan.spec.version.clone().unwrap_or_default();
            let label = format!("{}{}", marks::PLAN_HASH_PREFIX, key.name);
            for node in truth
                .nodes
                .values()
                .filter(|node| node.labels.contains_key(&meant.role))
            {
                if !node.labels.contains_key(&label) {
                    return Err(format!("{} has no label of Plan {key}", node.name));
                }
                if meant.of_kubelet && node.kubelet_version != version {
                    return Err(format!(
                        "{} is done for Plan {key}, and its kubelet is at {}, not {version}",
                        node.name, node.kubelet_version
                    ));
                }
            }
            if !plan.finalizers.is_empty() {
                return Err(format!("the finalizer of Plan {key} is left"));
            }
        }
        Ok(())
    }
}
