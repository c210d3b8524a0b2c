//! What must be so at the end: nothing of numo is left, and everything is as people meant it.

use super::{Verdict, breach, own_home, target_pools};
use crate::{
    reading::pauser,
    world::{Primary, TEAM, World},
};
use numo_api::{machines::annotations, marks, mutex_run_config::HoldPools};
use numo_core::observed::{NodeView, RunConfigView};
use std::collections::BTreeMap;

/// The end: nothing of numo is left where it is not needed, and everything is as people meant it.
pub fn restored(world: &World) -> Verdict {
    let truth = &world.truth;
    for pool in truth.pools.values() {
        let meant = world.people.selectors.get(&pool.name);
        if meant != Some(&pool.selector) || pool.annotations.contains_key(marks::PRIOR_NODE_SELECTOR) {
            return breach(
                "4",
                format!("pool {} has the selector {}", pool.name, pool.selector),
            );
        }
        let keepers = truth.runs.values().filter(|run| keeps_paused(run));
        let kept = keepers
            .clone()
            .any(|run| target_pools(truth, run).contains(&pool.name));
        // A run without a node leaves its pools alone, and has nothing to give back either.
        let lonely = kept && !truth.nodes.values().any(|node| lives_in_a_target(world, node));
        if lonely {
            continue;
        }
        let paused = world.people.paused.contains(&pool.name) || kept;
        if pool.paused != paused || (pauser(pool).is_some() && !kept) {
            return breach(
                "4",
                format!(
                    "pool {} is {}paused, meant was {paused}; its mark is {:?}",
                    pool.name,
                    if pool.paused { "" } else { "not " },
                    pool.annotations.get(marks::PAUSED_BY)
                ),
            );
        }
    }
    for node in truth.nodes.values() {
        unmarked(world, node)?;
        if world.people.cordoned.contains(&node.name) && !node.unschedulable {
            return breach("4", format!("the cordon of {} is gone", node.name));
        }
    }
    let machines = truth
        .machines
        .iter()
        .map(|((_, key), machine)| (key, &machine.object.annotations));
    let checks = truth
        .health_checks
        .iter()
        .map(|((_, key), check)| (key, &check.annotations));
    for (key, annotations) in machines.chain(checks) {
        if let Some(mark) = annotations.get(marks::SHIELDED_BY) {
            return breach(
                "4",
                format!("Machine or MachineHealthCheck {key} still carries {mark}"),
            );
        }
    }
    for run in truth.runs.values().filter(|run| !keeps_paused(run)) {
        if run
            .finalizers
            .iter()
            .any(|finalizer| finalizer == marks::FINALIZER)
        {
            return breach("4", format!("the finalizer of {} is left", run.key));
        }
    }
    leases_restored(world)
}

fn lives_in_a_target(world: &World, node: &NodeView) -> bool {
    let truth = &world.truth;
    let Primary::Pool(home) = own_home(world, node) else {
        return false;
    };
    truth
        .runs
        .values()
        .any(|run| target_pools(truth, run).contains(&home))
}

/// The pools of the run stay paused when it is over.
fn keeps_paused(run: &RunConfigView) -> bool {
    run.spec.hold == Some(HoldPools::Always)
}

/// Nothing of numo is on a node.
pub fn unmarked(world: &World, node: &NodeView) -> Verdict {
    let meant = world.people.labels.get(&node.uid);
    // A Plan labels what is done for good.
    let is_done = |key: &&String| key.starts_with(marks::PLAN_HASH_PREFIX) || key.as_str() == TEAM;
    let labels = node.labels.iter().filter(|(key, _)| !is_done(key));
    let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
    let meant = meant.map(|meant| {
        let meant = meant.iter().filter(|(key, _)| !is_done(key));
        meant.map(|(key, value)| (key.clone(), value.clone())).collect()
    });
    if meant.as_ref() != Some(&labels) {
        return breach("4", format!("{} has the labels {:?}", node.name, node.labels));
    }
    let of_cordon = serde_json::json!([{"key": marks::UNSCHEDULABLE, "effect": "NoSchedule"}]);
    if !(node.taints.is_null() || node.unschedulable && node.taints == of_cordon) {
        return breach("4", format!("{} has the taints {}", node.name, node.taints));
    }
    let found: BTreeMap<String, String> = node
        .annotations
        .iter()
        .filter(|(key, _)| !key.starts_with("machineconfiguration.openshift.io/"))
        // What is known of its machine stays.
        .filter(|(key, _)| ![annotations::NODE_IMAGE, annotations::SCALING_GROUP_ID].contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if world.people.annotations.get(&node.uid) != Some(&found) {
        return breach("4", format!("{} has the annotations {found:?}", node.name));
    }
    Ok(())
}

/// No lease is held by numo.
pub fn leases_restored(world: &World) -> Verdict {
    let ours =
        world.truth.leases.iter().find(|(_, lease)| {
            lease.holder.starts_with("numo/") || lease.holder == marks::MAINTENANCE_HOLDER
        });
    match ours {
        None => Ok(()),
        Some((node, lease)) => breach("4", format!("the lease of {node} is held by {}", lease.holder)),
    }
}

/// A node is cordoned exactly where people meant it.
pub fn cordons_as_meant(world: &World) -> Verdict {
    for node in world.truth.nodes.values() {
        let meant = world.people.cordoned.contains(&node.name);
        if node.unschedulable != meant {
            return breach(
                "4",
                format!(
                    "{} is cordoned: {}, meant was {meant}",
                    node.name, node.unschedulable
                ),
            );
        }
    }
    Ok(())
}
