//! The Jobs of a Plan, as they were seen. Nothing here decides what follows.

use super::known::run_id;
use crate::{
    key::Key,
    observed::{NodeView, Observed, PlanJobView, PlanView},
};
use std::collections::BTreeMap;

/// Whether the Job of the Plan for what this run goes to has begun on the node, or has ended, whoever made it.
pub(crate) fn has_job(observed: &Observed, view: &PlanView, node: &NodeView, of_run: &str) -> bool {
    own_jobs(view, observed)
        .filter(|(_, job)| !is_stale(job, observed))
        .any(|(_, job)| {
            let begun = job.node == node.name && !job.paused && !job.prepares;
            begun && run_id(&view.uid, &job.hash) == of_run
        })
}

/// The Jobs of the Plan, whoever made them.
fn own_jobs<'a>(
    view: &'a PlanView,
    observed: &'a Observed,
) -> impl Iterator<Item = (&'a Key, &'a PlanJobView)> {
    let from = observed.plan_jobs.range(Key::new(&view.key.namespace, "")..);
    from.take_while(|(key, _)| key.namespace == view.key.namespace)
        .filter(|(_, job)| {
            // The oldest controllers, and backups that are restored, have no owner on their Jobs.
            job.plan_uid == view.uid || (job.plan_uid.is_empty() && job.plan == view.key.name)
        })
}

/// Whether the Job ended on a node that has gone since.
fn is_stale(job: &PlanJobView, observed: &Observed) -> bool {
    let node = observed.nodes.get(&job.node);
    job.ended.is_some() && node.is_some_and(|node| job.ended_at.unwrap_or(job.created) < node.created)
}

/// Ended Jobs of nodes that have gone since, and were made again under the same names.
pub(super) fn stale<'a>(view: &'a PlanView, observed: &'a Observed) -> Vec<(&'a Key, &'a PlanJobView)> {
    own_jobs(view, observed)
        .filter(|(_, job)| is_stale(job, observed))
        .collect()
}

/// The Jobs of the Plan by node and hash; those that only prepare apart.
pub(super) fn jobs<'a>(
    view: &'a PlanView,
    observed: &'a Observed,
) -> BTreeMap<(&'a str, &'a str, bool), (&'a Key, &'a PlanJobView)> {
    own_jobs(view, observed)
        .filter(|(_, job)| !is_stale(job, observed))
        .map(|(key, job)| ((job.node.as_str(), job.hash.as_str(), job.prepares), (key, job)))
        .collect()
}
