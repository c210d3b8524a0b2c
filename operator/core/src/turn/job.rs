//! Jobs of rules: what keeps their pods off nodes in flight, and how they are let go.

use crate::{
    action::{Action, JOB_CHAIN, Planned},
    decision::Decision,
    key::Key,
    observed::{ChangeView, JobView, NodeView, Observed},
};
use numo_api::{Step, marks::openshift};
use std::collections::{BTreeMap, BTreeSet};

/// How long a finished Job stays when its author did not say (seconds).
const DEFAULT_JOB_TTL_SECONDS: i64 = 24 * 3600;

/// The turns of an owner.
pub(crate) struct Turns<'a> {
    /// Journals of those under way.
    pub flying: &'a [&'a ChangeView],
    /// Journals of those that are over.
    pub over: &'a [&'a ChangeView],
    /// Its present run.
    pub run_id: &'a str,
    /// Whether it begins no further node.
    pub is_leaving: bool,
}

/// Lets Jobs of rules go whose verdict is journaled, and those of runs of which no node has its turn or waits for it.
pub(crate) fn free_of(out: &mut Decision, observed: &Observed, turns: &Turns<'_>) {
    let all = || turns.flying.iter().chain(turns.over);
    let verdicts = all().flat_map(|change| &change.status.verdicts);
    let judged: BTreeSet<&str> = verdicts.filter_map(|verdict| verdict.job.as_deref()).collect();
    let flying = turns.flying.iter();
    let busy: BTreeSet<&str> = flying.map(|change| change.spec.target.run_id.as_str()).collect();
    let mut nodes = out.report.nodes.values();
    let waits = nodes.any(|node| node.step == Step::Selected) && !turns.is_leaving;
    let mut ended: BTreeSet<&str> = all().map(|change| change.spec.target.run_id.as_str()).collect();
    ended.insert(turns.run_id);
    ended.retain(|run| !(busy.contains(run) || *run == turns.run_id && waits));
    let is_due = |key: &Key, job: &JobView| {
        ended.contains(job.run.as_str()) || judged.contains(key.to_string().as_str())
    };
    let due = observed.jobs.iter().filter(|(key, job)| is_due(key, job));
    free(out, due);
}

/// Lets these Jobs go, those that nobody has let go yet: as late as their authors asked for.
pub(crate) fn free<'a>(out: &mut Decision, jobs: impl IntoIterator<Item = (&'a Key, &'a JobView)>) {
    for (key, view) in jobs {
        let frees =
            |planned: &Planned| matches!(&planned.action, Action::SetJobTtl { job, .. } if job == key);
        if view.ttl_seconds.is_some() || view.deleting.is_some() || out.actions.iter().any(frees) {
            continue;
        }
        let action = Action::SetJobTtl {
            job: key.clone(),
            uid: view.uid.clone(),
            seconds: view.wanted_ttl_seconds.unwrap_or(DEFAULT_JOB_TTL_SECONDS),
        };
        out.actions.push(Planned::of(format!("{JOB_CHAIN}{key}"), action));
    }
}

/// Host names of the nodes in flight, whoever let them fly: rule pods keep away from them.
pub fn hosts_in_flight(observed: &Observed) -> Vec<&str> {
    let nodes = observed.changing().filter_map(|change| observed.node_of(change));
    let nodes: BTreeMap<&str, &NodeView> = nodes.map(|node| (node.name.as_str(), node)).collect();
    let hosts = nodes.into_values().map(|node| node.label(openshift::HOSTNAME));
    hosts.filter(|hostname| !hostname.is_empty()).collect()
}
