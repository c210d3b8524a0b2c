//! Jobs of rules: what keeps their pods off nodes in flight, and how they are let go.

use crate::{
    action::{Action, JOB_CHAIN, Planned},
    decision::Decision,
    key::Key,
    observed::{JobView, Observed},
};
use numo_api::marks::openshift;
use std::collections::BTreeSet;

/// How long a finished Job stays when its author did not say (seconds).
const DEFAULT_JOB_TTL_SECONDS: i64 = 24 * 3600;

/// Lets these Jobs go, those that nobody has let go yet: as late as their authors asked for.
pub(crate) fn free<'a>(out: &mut Decision, jobs: impl IntoIterator<Item = (&'a Key, &'a JobView)>) {
    for (key, view) in jobs {
        let frees =
            |planned: &Planned| matches!(&planned.action, Action::SetJobTtl { job, .. } if job == key);
        if view.ttl_seconds.is_some() || view.deleting || out.actions.iter().any(frees) {
            continue;
        }
        out.actions.push(Planned {
            chain: format!("{JOB_CHAIN}{key}"),
            action: Action::SetJobTtl {
                job: key.clone(),
                uid: view.uid.clone(),
                seconds: view.wanted_ttl_seconds.unwrap_or(DEFAULT_JOB_TTL_SECONDS),
            },
            event: None,
        });
    }
}

/// Host names of the nodes in flight, whoever let them fly: rule pods keep away from them.
pub fn hosts_in_flight(observed: &Observed) -> Vec<&str> {
    let changes = observed.changes.values();
    let nodes: BTreeSet<&str> = changes
        .filter(|change| change.in_flight())
        .map(|change| change.spec.node_name.as_str())
        .collect();
    nodes
        .into_iter()
        .filter_map(|name| observed.nodes.get(name))
        .map(|node| node.label(openshift::HOSTNAME))
        .filter(|hostname| !hostname.is_empty())
        .collect()
}
