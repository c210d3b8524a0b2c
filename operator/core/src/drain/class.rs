//! What becomes of a pod in a drain: it stays, must not go, is waited for, or goes.

use super::options::DrainOptions;
use crate::{
    key::Key,
    observed::{NodeView, Observed, PodView},
    selector,
    time::later,
};
use jiff::Timestamp;
use numo_api::marks;

/// How young a pod of a DaemonSet may be whose DaemonSet is not known yet (seconds).
const YOUNG_SECONDS: i64 = 10;

/// What becomes of a pod in a drain.
pub(crate) enum Class {
    /// It stays, and nobody waits for it.
    Stays,
    /// It must not be evicted by these settings: kubectl's words.
    Refused(&'static str),
    /// It is not evicted, but waited for.
    Needed,
    /// It goes.
    Goes,
}

/// Filters of `kubectl drain`, and what numo must not evict.
pub(crate) fn class(observed: &Observed, pod: &PodView, options: &DrainOptions, now: Timestamp) -> Class {
    if pod.mirror {
        return Class::Stays;
    }
    if !options.pod_selector.is_null() && !selector::matches(&options.pod_selector, &pod.labels) {
        return Class::Stays;
    }
    if is_given_up(pod, options, now) {
        return Class::Stays;
    }
    match daemon_set(observed, pod) {
        Some(true) if !pod.finished => {
            return if options.ignore_daemonsets {
                Class::Stays
            } else {
                Class::Refused("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
            };
        }
        // The news of its DaemonSet may come after it.
        Some(false) if now < later(pod.created, YOUNG_SECONDS) => return Class::Stays,
        Some(false) if !pod.finished && !options.force => {
            return Class::Refused("Pods whose DaemonSet is gone (use --force to override)");
        }
        _ => {}
    }
    if is_needed(observed, pod) {
        return Class::Needed;
    }
    if pod.empty_dir && !pod.finished && !options.delete_emptydir_data {
        return Class::Refused("Pods with local storage (use --delete-emptydir-data to override)");
    }
    if pod.controller.is_none() && !pod.finished && !options.force {
        return Class::Refused("Pods that declare no controller (use --force to override)");
    }
    Class::Goes
}

/// A pod that has been ending for so long that it is not waited for.
pub(super) fn is_given_up(pod: &PodView, options: &DrainOptions, now: Timestamp) -> bool {
    let over = |deadline: Timestamp| now.as_second() - deadline.as_second();
    matches!((options.skip_wait_seconds, pod.deleting), (Some(limit), Some(deadline)) if over(deadline) > limit)
}

/// Whether numo needs the pod: a Job of an upgrade, or of a rule of numo's, is under way in it (design, invariant 12).
/// A label alone is anybody's: the Job of a rule must be one that numo knows.
pub fn is_needed(observed: &Observed, pod: &PodView) -> bool {
    let Some((kind, name, uid)) = &pod.controller else {
        return false;
    };
    if pod.finished || kind != "Job" {
        return false;
    }
    let job = || observed.jobs.get(&Key::new(&pod.key.namespace, name));
    let of_rule =
        || job().is_some_and(|job| job.uid == *uid && job.ended.is_none() && job.deleting.is_none());
    pod.labels.contains_key(marks::PLAN_CONTROLLER) || pod.deleting.is_none() && of_rule()
}

/// Whether the pod is of a DaemonSet: none if it is not, else whether that exists.
fn daemon_set(observed: &Observed, pod: &PodView) -> Option<bool> {
    let (_, _, uid) = pod.controller.as_ref().filter(|(kind, ..)| kind == "DaemonSet")?;
    Some(observed.daemon_sets.contains(uid))
}

/// The pod of the operator that decides this.
pub(super) fn is_own(observed: &Observed, pod: &PodView) -> bool {
    observed.settings.own_pod.as_ref() == Some(&pod.key)
}

/// Whether another node could take what must run somewhere.
pub fn has_other_place(observed: &Observed, node: &NodeView) -> bool {
    let mut others = observed.nodes.values().filter(|other| other.name != node.name);
    others.any(|other| other.ready && !other.unschedulable && other.leaving.is_none())
}
