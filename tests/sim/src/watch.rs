//! What the operator sees: a copy of the cluster that comes late, object by object, as watches are late
//! and out of step with each other. Its own writes it sees at once (the shell lays them over its stores).

use crate::world::{Object, Span, World};
use numo_core::{
    drain,
    observed::{Key, Observed},
};
use rand::{Rng, rngs::SmallRng};
use std::collections::{BTreeMap, BTreeSet};

/// The operator's copy of the cluster.
#[derive(Debug, Default)]
pub struct View {
    /// What was seen.
    pub seen: Observed,
    coming: BTreeMap<(i64, u64), Object>,
    serial: u64,
}

impl View {
    /// Lists everything anew, as a fresh leader does before its first decision.
    pub fn relist(world: &mut World) -> Self {
        world.take_touched();
        Self {
            seen: world.truth.clone(),
            ..Self::default()
        }
    }

    /// Takes note of what changed; it will be seen after a while.
    pub fn watch(&mut self, world: &mut World, lag: Span, rng: &mut SmallRng) {
        for object in world.take_touched() {
            self.serial += 1;
            let late = if lag.1 > 0 {
                rng.random_range(lag.0..=lag.1)
            } else {
                0
            };
            self.coming.insert((world.now + late, self.serial), object);
        }
    }

    /// When the next change will be seen.
    pub fn next(&self) -> Option<i64> {
        self.coming.keys().next().map(|(at, _)| *at)
    }

    /// Sees what is due; whether anything differs from what was seen before.
    pub fn deliver(&mut self, world: &World) -> bool {
        let mut differs = false;
        while let Some(entry) = self.coming.first_entry() {
            if entry.key().0 > world.now {
                break;
            }
            let object = entry.remove();
            differs |= self.see(&object, &world.truth);
        }
        differs
    }

    /// Sees one object as it is now.
    pub fn see(&mut self, object: &Object, truth: &Observed) -> bool {
        let seen = &mut self.seen;
        match object {
            Object::Node(name) => {
                let host = copy(&mut seen.fleet.hosts, &truth.fleet.hosts, name);
                copy(&mut seen.nodes, &truth.nodes, name) || host
            }
            Object::Machine(place) => copy(&mut seen.machines, &truth.machines, place),
            Object::HealthCheck(place) => copy(&mut seen.health_checks, &truth.health_checks, place),
            Object::Pool(name) => copy(&mut seen.pools, &truth.pools, name),
            Object::Config(name) => copy(&mut seen.configs, &truth.configs, name),
            Object::Run(key) => copy(&mut seen.runs, &truth.runs, key),
            Object::Rule(key) => copy(&mut seen.rules, &truth.rules, key),
            Object::Target(key) => copy(&mut seen.targets, &truth.targets, key),
            Object::Job(key) => copy(&mut seen.jobs, &truth.jobs, key),
            Object::Change(key) => copy(&mut seen.changes, &truth.changes, key),
            Object::Budget(name) => copy(&mut seen.budgets, &truth.budgets, name),
            Object::Window(name) => copy(&mut seen.windows, &truth.windows, name),
            Object::Approval(name) => copy(&mut seen.approvals, &truth.approvals, name),
            Object::Lease(name) => copy(&mut seen.leases, &truth.leases, name),
            Object::Binding(name) => copy(&mut seen.bindings, &truth.bindings, name),
            Object::Plan(key) => copy(&mut seen.plans, &truth.plans, key),
            Object::Maintenance(owner) => copy(&mut seen.maintenances, &truth.maintenances, owner),
            Object::Version(name) => copy(&mut seen.fleet.versions, &truth.fleet.versions, name),
            Object::Group(name) => copy(&mut seen.fleet.groups, &truth.fleet.groups, name),
            Object::Pending(name) => copy(&mut seen.fleet.pending, &truth.fleet.pending, name),
            Object::Joining(name) => copy(&mut seen.fleet.joining, &truth.fleet.joining, name),
            Object::Strategy(name) => copy(&mut seen.fleet.strategies, &truth.fleet.strategies, name),
            Object::Autoscaler(key) => copy(&mut seen.fleet.autoscalers, &truth.fleet.autoscalers, key),
            Object::PlanJob(key) => copy(&mut seen.plan_jobs, &truth.plan_jobs, key),
            Object::Pods(node) => {
                let differs = copy(&mut seen.pods, &truth.pods, node);
                let pods = seen.pods.values().flat_map(BTreeMap::values);
                let known: BTreeSet<&str> = pods.map(|pod| pod.uid.as_str()).collect();
                seen.evictions.retain(|uid, _| known.contains(uid.as_str()));
                differs
            }
            Object::DisruptionBudget(key) => {
                let differs = copy(&mut seen.disruption_budgets, &truth.disruption_budgets, key);
                stir(seen, key);
                differs
            }
            Object::ClusterVersion => {
                let differs = seen.cluster_version != truth.cluster_version;
                seen.cluster_version.clone_from(&truth.cluster_version);
                differs
            }
        }
    }
}

/// A budget has changed: pods that wait for it are asked again, if it lets any go now.
fn stir(seen: &mut Observed, key: &Key) {
    let Some(budget) = seen
        .disruption_budgets
        .get(key)
        .filter(|budget| budget.allowed > 0)
    else {
        return;
    };
    let pods = seen.pods.values().flat_map(BTreeMap::values);
    for pod in pods.filter(|pod| pod.key.namespace == key.namespace && drain::covers(budget, &pod.labels)) {
        if let Some(known) = seen.evictions.get_mut(&pod.uid) {
            known.stirred = true;
        }
    }
}

fn copy<K: Ord + Clone, V: PartialEq + Clone>(
    seen: &mut BTreeMap<K, V>,
    truth: &BTreeMap<K, V>,
    key: &K,
) -> bool {
    match (truth.get(key), seen.get_mut(key)) {
        (None, None) => false,
        (None, Some(_)) => {
            seen.remove(key);
            true
        }
        (Some(now), Some(before)) if now == before => false,
        (Some(now), Some(before)) => {
            *before = now.clone();
            true
        }
        (Some(now), None) => {
            seen.insert(key.clone(), now.clone());
            true
        }
    }
}
