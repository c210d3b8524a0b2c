//! Which nodes' pods are watched: those of nodes that are drained, or are to be, and no others. It reads no pod itself.

use super::context::Context;
use crate::shell::{kind::Kind, watch};
use numo_api::Step;
use numo_core::{
    observed::{ChangeView, Observed},
    owners::plan::Intent,
    report::MaintenancePhase,
    turn::journal,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinHandle;

/// Waiting maintenances whose pods are counted.
const WAITING_COUNTED: usize = 32;

/// The watches of the pods of nodes, by node.
#[derive(Debug, Default)]
pub struct PodWatches(BTreeMap<String, JoinHandle<()>>);

impl PodWatches {
    /// Begins the watches that are wanted, and ends the others.
    pub fn follow(&mut self, context: &mut Context) {
        let observed = &context.store.observed;
        let drains_nothing = observed.maintenances.is_empty() && observed.fleet.versions.is_empty();
        if drains_nothing && observed.plans.is_empty() && self.0.is_empty() {
            return;
        }
        let wanted = wanted(observed);
        self.0.retain(|node, task| {
            let keep = wanted.contains(node);
            if !keep {
                task.abort();
                context.store.forget_pods(node);
            }
            keep
        });
        for node in wanted {
            if context.store.keep_pods(&node) {
                let client = context.connection.read.clone();
                let task = watch::watch(client, Kind::NodePod, node.clone(), context.inbox.watched());
                self.0.insert(node, tokio::spawn(task));
            }
        }
    }
}

/// The nodes whose pods are to be seen.
fn wanted(observed: &Observed) -> BTreeSet<String> {
    let mut wanted = in_maintenance(observed);
    wanted.extend(drained_by_jobs(observed));
    wanted.extend(drained_for_plans(observed));
    wanted.extend(drained_for_versions(observed));
    wanted.extend(waiting(observed));
    wanted
}

/// The nodes that have their turn in a maintenance.
fn in_maintenance(observed: &Observed) -> BTreeSet<String> {
    let changes = observed.changes.values();
    let flying: BTreeSet<&str> = changes
        .filter(|change| change.in_flight() && observed.is_trusted(change))
        .map(|change| change.spec.owner_ref.uid.as_str())
        .collect();
    let maintenances = observed.maintenances.values();
    maintenances
        .filter(|view| flying.contains(view.uid.as_str()))
        .map(|view| view.spec.node_name.clone())
        .collect()
}

/// The nodes of maintenances that wait: their pods are counted; of a long queue those of the first.
fn waiting(observed: &Observed) -> impl Iterator<Item = String> {
    let waiting = observed.maintenances.values().filter(|view| {
        !view.deleting
            && view.status.phase.as_deref() == Some(MaintenancePhase::Running.name())
            && observed.nodes.contains_key(&view.spec.node_name)
    });
    waiting
        .take(WAITING_COUNTED)
        .map(|view| view.spec.node_name.clone())
}

/// The nodes that Jobs of Plans drain now.
fn drained_by_jobs(observed: &Observed) -> impl Iterator<Item = String> {
    let jobs = observed.plan_jobs.values();
    let draining = jobs
        .filter(|job| job.ended.is_none() && job.runs.as_deref() == Some("drain") && job.deleting.is_none());
    draining.map(|job| job.node.clone())
}

/// The nodes that numo drains for Plans, or looks at before a Job drains them, until they are let go: a pod may be seen late.
fn drained_for_plans(observed: &Observed) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    for view in observed.plans.values().filter(|view| view.spec.drain.is_some()) {
        let intent = Intent::parse(view, observed);
        // Where the Job drains, only the last look before it needs the pods.
        if !intent.drains && !intent.drain.is_some_and(|drain| drain.probe) {
            continue;
        }
        let turns = observed.turns();
        let turns = turns.filter(|change| change.spec.owner_ref.uid == view.uid && !is_released(change));
        nodes.extend(turns.map(|change| change.spec.node_name.clone()));
    }
    nodes
}

/// The nodes that are replaced now, until they are let go.
fn drained_for_versions(observed: &Observed) -> impl Iterator<Item = String> {
    let turns = observed.turns().filter(|change| {
        let mut versions = observed.fleet.versions.values();
        versions.any(|view| view.uid == change.spec.owner_ref.uid) && !is_released(change)
    });
    turns.map(|change| change.spec.node_name.clone())
}

/// Whether a turn has let its node go in its present attempt.
fn is_released(change: &ChangeView) -> bool {
    journal::entered(change, Step::Released).is_some()
}
