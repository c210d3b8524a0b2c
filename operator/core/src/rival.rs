//! What is left of an operator that numo replaces once its Deployment is at 0 or deleted: its pods until they are gone, and
//! its leader's Lease until that runs out. Whose they may be is the caller's to know: pods and Leases of others are not given.

use crate::time::later;
use jiff::Timestamp;

/// How long after the end of its grace a pod that terminates is believed to run (seconds): one on a node that is dead would
/// else stop numo for ever.
pub const TERMINATING_SECONDS: i64 = 600;
/// The longest that a Lease is believed without being renewed (seconds), whatever duration it names. The references' are 15 s
/// to 137 s.
pub const LEASE_SECONDS: i64 = 300;
/// How far ahead of the API server's clock a renewal may be (seconds); one that is further ahead was no clock's.
const SKEW_SECONDS: i64 = 60;

/// A pod that runs as the operator's ServiceAccount and that its Deployment selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSeen {
    /// Name.
    pub name: String,
    /// Whether its containers have ended for good (phase Succeeded or Failed).
    pub has_ended: bool,
    /// `metadata.deletionTimestamp`: the end of its grace.
    pub deleting: Option<Timestamp>,
}

/// A Lease with the name of the operator's leader election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Name.
    pub name: String,
    /// Who holds it; empty if nobody.
    pub holder: String,
    /// When it was renewed.
    pub renewed: Option<Timestamp>,
    /// For how long a renewal holds (seconds).
    pub seconds: i64,
}

/// What is left of the operator, in words; none once it is gone.
pub fn lingers(pods: &[PodSeen], leases: &[LeaseSeen], now: Timestamp) -> Option<String> {
    let runs = |pod: &&PodSeen| {
        let over = pod.deleting.map(|at| later(at, TERMINATING_SECONDS));
        !pod.has_ended && over.is_none_or(|over| now < over)
    };
    let pod = pods.iter().find(runs).map(|pod| {
        let does = if pod.deleting.is_some() {
            "still terminates"
        } else {
            "still runs"
        };
        format!("Pod {} {does}", pod.name)
    });
    pod.or_else(|| {
        let lease = leases.iter().find(|lease| is_held(lease, now))?;
        Some(format!("Lease {} is held by {}", lease.name, lease.holder))
    })
}

/// Whether somebody leads by a Lease.
fn is_held(lease: &LeaseSeen, now: Timestamp) -> bool {
    let Some(renewed) = lease.renewed.filter(|_| !lease.holder.is_empty()) else {
        return false;
    };
    let holds = lease.seconds.clamp(0, LEASE_SECONDS);
    renewed <= later(now, SKEW_SECONDS) && now < later(renewed, holds)
}

#[cfg(test)]
mod tests {
    use super::{LeaseSeen, PodSeen, lingers};
    use crate::time::later;
    use jiff::Timestamp;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn pod(has_ended: bool, deleting: Option<i64>) -> PodSeen {
        PodSeen {
            name: "suc-1".to_owned(),
            has_ended,
            deleting: deleting.map(|seconds| later(now(), seconds)),
        }
    }

    fn lease(holder: &str, renewed: Option<i64>, seconds: i64) -> LeaseSeen {
        LeaseSeen {
            name: "suc".to_owned(),
            holder: holder.to_owned(),
            renewed: renewed.map(|seconds| later(now(), seconds)),
            seconds,
        }
    }

    #[test]
    fn a_pod_that_runs_or_terminates_is_the_operator_until_ten_minutes_after_its_grace() {
        let of = |pod: PodSeen| lingers(&[pod], &[], now());
        assert_eq!(of(pod(false, None)).as_deref(), Some("Pod suc-1 still runs"));
        assert_eq!(
            of(pod(false, Some(30))).as_deref(),
            Some("Pod suc-1 still terminates")
        );
        assert_eq!(
            of(pod(false, Some(-599))).as_deref(),
            Some("Pod suc-1 still terminates")
        );
        assert_eq!(of(pod(false, Some(-600))), None);
        assert_eq!(of(pod(true, None)), None);
        assert_eq!(lingers(&[], &[], now()), None);
    }

    #[test]
    fn a_lease_is_the_operator_until_it_runs_out_and_never_for_longer_than_five_minutes() {
        let of = |lease: LeaseSeen| lingers(&[], &[lease], now());
        assert_eq!(
            of(lease("suc-1_x", Some(-10), 45)).as_deref(),
            Some("Lease suc is held by suc-1_x")
        );
        assert_eq!(of(lease("suc-1_x", Some(-45), 45)), None);
        assert_eq!(of(lease("", Some(-10), 45)), None, "it was given up");
        assert_eq!(of(lease("suc-1_x", None, 45)), None);
        // What nobody's clock has written stops nobody.
        assert_eq!(of(lease("suc-1_x", Some(-300), i64::MAX)), None);
        assert_eq!(of(lease("suc-1_x", Some(3600), 45)), None);
        assert!(of(lease("suc-1_x", Some(59), 45)).is_some());
    }
}
