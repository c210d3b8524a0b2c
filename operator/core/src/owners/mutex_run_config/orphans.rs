//! What nodes still hold that have no turn any more, and Jobs that nobody waits for.

use super::{
    draft::Draft,
    frame::{Frame, Member},
    run_rules::awaited_run_jobs,
};
use crate::{
    key::Key,
    mark::{self, Shielded},
    observed::{JobView, NodeView},
    turn::{
        job, journal,
        lease::{self, lease_holder},
        shield::unshield,
    },
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Gives back what a node that no longer has its turn still holds: shield and lease.
pub fn give_back(draft: &mut Draft<'_>, member: &Member<'_>) {
    let node = member.node;
    if member.shielded
        && let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == draft.frame.run.uid)
    {
        draft.act(&node.name, unshield(node, &mark), None);
    }
    release_lease(draft, &node.name);
}

fn release_lease(draft: &mut Draft<'_>, node: &str) {
    let holder = lease_holder(&draft.frame.run.uid);
    if let Some(action) = lease::release(draft.frame.observed, node, &holder) {
        draft.act(node, action, None);
    }
}

/// Whether the list of pools is not to be believed. A cluster that has MachineConfigPools is never without any. A run that is being
/// deleted gives back what it has all the same.
fn is_blind(frame: &Frame<'_>) -> bool {
    frame.observed.pools.is_empty() && !frame.run.deleting
}

/// Ends the turns of nodes that are gone, or whose pool is.
pub fn end_turns(draft: &mut Draft<'_>) {
    let frame = draft.frame;
    for change in &frame.orphans {
        let (name, uid) = (&change.spec.node_name, &change.spec.node_uid);
        let node = frame.observed.nodes.get(name);
        let message = match node.filter(|node| node.uid == *uid) {
            None => journal::gone(change),
            Some(_) if is_blind(frame) => continue,
            Some(_) => format!("pool {} of Node {name} no longer exists", change.spec.target.pool),
        };
        let ended = journal::end_gone(change, message, frame.observed, frame.now);
        draft.out.actions.extend(ended);
    }
}

/// Takes back what is left on nodes that are in the run no more: shields and leases.
pub fn settle(draft: &mut Draft<'_>) {
    if is_blind(draft.frame) {
        return;
    }
    let observed = draft.frame.observed;
    let uid = &draft.frame.run.uid;
    let holder = lease_holder(uid);
    let members: BTreeSet<&str> = draft
        .frame
        .members
        .iter()
        .map(|member| member.node.name.as_str())
        .collect();
    let shielded: Vec<(&NodeView, Shielded)> = observed
        .nodes
        .values()
        .filter(|node| !members.contains(node.name.as_str()))
        .filter_map(|node| mark::shielded(node).map(|mark| (node, mark)))
        .filter(|(_, mark)| mark.owner == *uid)
        .collect();
    let leased: Vec<&String> = observed
        .leases
        .iter()
        .filter(|(node, lease)| lease.holder == holder && !members.contains(node.as_str()))
        .map(|(node, _)| node)
        .collect();
    for (node, mark) in shielded {
        draft.act(&node.name, unshield(node, &mark), None);
    }
    for node in leased {
        release_lease(draft, node);
    }
}

/// Lets Jobs go whose verdict is journaled; when the run is left, all of its Jobs.
pub fn free_jobs(draft: &mut Draft<'_>, all: bool) {
    let frame = draft.frame;
    // Those that have their TTL are free already: what is left is what runs, and little more.
    let kept: HashMap<String, (&Key, &JobView)> = frame
        .observed
        .jobs
        .iter()
        .filter(|(_, job)| job.ttl_seconds.is_none() && !job.deleting)
        .map(|(key, job)| (key.to_string(), (key, job)))
        .collect();
    if kept.is_empty() {
        return;
    }
    let mut freed: BTreeMap<&Key, &JobView> = frame
        .changes()
        .flat_map(|change| change.status.verdicts.iter())
        .chain(frame.run_verdicts)
        .filter_map(|verdict| kept.get(verdict.job.as_deref()?).copied())
        .collect();
    if all {
        let awaited: BTreeSet<Key> = if frame.run.deleting {
            BTreeSet::new()
        } else {
            awaited_run_jobs(frame).collect()
        };
        freed.extend(frame.jobs().filter(|(key, _)| !awaited.contains(*key)));
    }
    job::free(&mut draft.out, freed);
}
