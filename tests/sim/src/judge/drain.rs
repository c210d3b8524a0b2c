//! What is judged of evictions (12): pods go from closed nodes only, within their budgets, and what numo needs itself stays.

use super::{Judge, Verdict, breach};
use crate::{
    reading::has_turn,
    world::{World, goes},
};
use numo_core::{
    Owner,
    action::JobRequest,
    drain::Eviction,
    observed::{NodeView, Observed, PodView},
};

impl Judge {
    /// 1, 12: a pod is asked to go only from a node that is cordoned, past its budget never, and what runs everywhere stays.
    pub(super) fn evicted(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (name, eviction): (&str, &Eviction),
    ) -> Verdict {
        let Some(node) = seen.nodes.get(name) else {
            return breach("12", format!("{} is evicted from no node", eviction.pod));
        };
        self.may_disrupt(world, seen, owner, node)?;
        if !node.unschedulable {
            return breach(
                "12",
                format!("{} is evicted from {name}, which is open", eviction.pod),
            );
        }
        if eviction.delete {
            return breach("12", format!("{} is deleted past its budget", eviction.pod));
        }
        let pod = seen.pods.get(name).and_then(|pods| pods.get(&eviction.pod));
        let Some(pod) = pod.filter(|pod| goes(pod)) else {
            return breach("12", format!("{} is evicted and is to stay", eviction.pod));
        };
        if runs_a_rule(world, seen, pod) {
            return breach("12", format!("{} is evicted while its rule runs", pod.key));
        }
        if seen.settings.own_pod.as_ref() == Some(&pod.key) {
            return own_pod_is_last(seen, node, pod);
        }
        Ok(())
    }

    /// 12: the pods of a rule are kept off the other nodes that have a turn, as far as those were seen.
    pub(super) fn keeps_off(&self, seen: &Observed, request: &JobRequest) -> Verdict {
        for (key, turn) in &self.turns {
            let node = seen
                .nodes
                .get(&turn.node)
                .filter(|node| node.uid == turn.node_uid);
            let is_seen = seen.changes.get(key).is_some_and(has_turn);
            let Some(node) = node.filter(|_| is_seen && turn.node != request.node) else {
                continue;
            };
            if !request.avoid.contains(&node.name) {
                return breach(
                    "12",
                    format!("Job {} may run on {}, which has a turn", request.job, node.name),
                );
            }
        }
        Ok(())
    }
}

/// Whether the pod is that of a rule's Job which is under way, and was seen to be.
fn runs_a_rule(world: &World, seen: &Observed, pod: &PodView) -> bool {
    let Some((kind, name, uid)) = &pod.controller else {
        return false;
    };
    let key = numo_core::observed::Key::new(&pod.key.namespace, name);
    let runs = |all: &Observed| {
        let job = all.jobs.get(&key).filter(|job| job.uid == *uid);
        job.is_some_and(|job| job.ended.is_none() && job.deleting.is_none())
    };
    kind == "Job" && runs(&world.truth) && runs(seen)
}

/// numo's own pod goes when all others that were there are gone, and only where it finds another place.
fn own_pod_is_last(seen: &Observed, node: &NodeView, own: &PodView) -> Verdict {
    let pods = seen.pods.get(&node.name).into_iter().flatten();
    let mut others = pods.map(|(_, pod)| pod).filter(|pod| pod.key != own.key);
    // One that was made after it may have come past the cordon.
    if let Some(other) = others.find(|pod| goes(pod) && pod.created <= own.created) {
        return breach(
            "12",
            format!("numo's own pod goes from {} before {}", node.name, other.key),
        );
    }
    let mut nodes = seen.nodes.values().filter(|other| other.name != node.name);
    if !nodes.any(|other| other.ready && !other.unschedulable) {
        return breach(
            "12",
            format!("numo's own pod goes from {}, the only place", node.name),
        );
    }
    Ok(())
}
