//! What nodes still hold that have no turn any more, and Jobs that nobody waits for.

use super::{member::Member, run_decision::RunDecision, run_rules::awaited_run_jobs, run_view::RunView};
use crate::{
    key::Index,
    key::Key,
    mark,
    observed::JobView,
    turn::{job, journal, lease, shield::unshield},
};
use std::collections::{BTreeMap, BTreeSet};

/// Gives back what a node that no longer has its turn still holds: shield and lease.
pub fn restore(decision: &mut RunDecision<'_>, member: &Member<'_>) {
    let node = member.node;
    if member.shielded
        && let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == decision.view.run.uid)
    {
        decision.act(&node.name, unshield(node, &mark), None);
    }
    if let Some(lease) = member.lease
        && let Some(action) = lease::released(&node.name, lease, &decision.view.holder)
    {
        decision.act(&node.name, action, None);
    }
}

/// Whether the list of pools is not to be believed. A cluster that has MachineConfigPools is never without any. A run that is being
/// deleted gives back what it has all the same.
fn is_blind(view: &RunView<'_>) -> bool {
    view.observed.pools.is_empty() && !view.run.deleting
}

/// Ends the turns of nodes that are gone, or whose pool is.
pub fn end_turns(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    for change in &view.orphans {
        let (name, uid) = (&change.spec.node_name, &change.spec.node_uid);
        let node = view.observed.nodes.get(name);
        let message = match node.filter(|node| node.uid == *uid) {
            None => journal::gone(change),
            Some(_) if is_blind(view) => continue,
            Some(_) => format!("pool {} of Node {name} no longer exists", change.spec.target.pool),
        };
        let ended = journal::end_gone(change, message, view.observed, view.now);
        decision.out.actions.extend(ended);
    }
}

/// Takes back what is left on nodes that are in the run no more: shields and leases.
pub fn settle(decision: &mut RunDecision<'_>) {
    if is_blind(decision.view) {
        return;
    }
    let view = decision.view;
    let others = view.others.iter();
    let marked = others.filter_map(|node| mark::shielded(node).map(|mark| (node, mark)));
    for (node, mark) in marked.filter(|(_, mark)| mark.owner == view.run.uid) {
        decision.act(&node.name, unshield(node, &mark), None);
    }
    let members = view.members.iter().filter(|member| member.lease.is_some());
    let members: BTreeSet<&str> = members.map(|member| member.node.name.as_str()).collect();
    for (node, lease) in &view.observed.leases {
        let is_left = !members.contains(node.as_str());
        if let Some(action) = lease::released(node, lease, &view.holder).filter(|_| is_left) {
            decision.act(node, action, None);
        }
    }
}

/// Lets Jobs go whose verdict is journaled; when the run is left, all of its Jobs.
pub fn free_jobs(decision: &mut RunDecision<'_>, all: bool) {
    let view = decision.view;
    // Those that have their TTL are free already: what is left is what runs, and little more.
    let jobs = view.observed.jobs.iter();
    let kept: Index<String, (&Key, &JobView)> = jobs
        .filter(|(_, job)| job.ttl_seconds.is_none() && job.deleting.is_none())
        .map(|(key, job)| (key.to_string(), (key, job)))
        .collect();
    if kept.is_empty() {
        return;
    }
    let mut freed: BTreeMap<&Key, &JobView> = view
        .changes()
        .flat_map(|change| change.status.verdicts.iter())
        .chain(view.run_verdicts)
        .filter_map(|verdict| kept.get(verdict.job.as_deref()?).copied())
        .collect();
    if all {
        let awaited: BTreeSet<Key> = if view.run.deleting {
            BTreeSet::new()
        } else {
            awaited_run_jobs(view).collect()
        };
        freed.extend(view.jobs().filter(|(key, _)| !awaited.contains(*key)));
    }
    job::free(&mut decision.out, freed);
}
