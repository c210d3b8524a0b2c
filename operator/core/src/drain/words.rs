//! Pods, their controllers and a drain of them in words.

use crate::{key::Key, observed::PodView, text::first_of, time::later, why::Why};
use jiff::Timestamp;
use numo_api::Reason;

/// Names in a sentence.
const NAMED: usize = 3;
/// How long after its grace period a pod that is being deleted counts as stuck (seconds): a finalizer holds it, or its
/// kubelet does not end it, and a drain waits for it without end.
pub const STUCK_SECONDS: i64 = 600;

/// Why a pod that is being deleted keeps a drain from passing; none while it may still end by itself. `deleting` is
/// `metadata.deletionTimestamp`, in which its grace period is contained.
pub fn stuck(pod: &Key, deleting: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let deadline = deleting?;
    (now > later(deadline, STUCK_SECONDS)).then(|| {
        format!(
            "Pod {pod} is stuck in Terminating: it was to be gone at {}; look at its finalizers and at the kubelet",
            seconds(deadline)
        )
    })
}

/// What makes a pod anew, in words; the pod itself where nothing does.
pub fn controller_of(pod: &PodView) -> String {
    match &pod.controller {
        Some((kind, name, _)) => format!("{kind} {}/{name}", pod.key.namespace),
        None => format!("Pod {}", pod.key),
    }
}

/// The first few of a list, and how many more there are.
pub(crate) fn some<T: std::fmt::Display>(all: impl Iterator<Item = T>) -> String {
    first_of(all, NAMED)
}

pub(super) fn seconds(at: Timestamp) -> Timestamp {
    at.round(jiff::Unit::Second).unwrap_or(at)
}

/// That a drain takes longer than it may by this field (seconds), and what it still waits for.
pub(crate) fn timed_out(limit: i64, field: &str, why: &Why) -> Why {
    let message = format!(
        "drain did not complete within {limit} s ({field}), it continues: {}",
        why.message
    );
    Why::new(Reason::DrainTimeout, message)
}
