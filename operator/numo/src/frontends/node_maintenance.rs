//! NodeMaintenance: what its status says, by the exact names and meanings of node-maintenance-operator
//! (`spec/node-maintenance.md` §1). Decides nothing.

use super::conditions::{Conditions, shown};
use jiff::{SignedDuration, Timestamp};
use numo_api::{NodeMaintenanceStatus, PodRef, Reason, Step, conditions::Actor};
use numo_core::{
    observed::MaintenanceView,
    report::{MaintenancePhase, Report, Why},
};

/// How long progress alone may go unwritten.
const PROGRESS: SignedDuration = SignedDuration::from_secs(5);
/// How far progress may go without being written (percent).
const PROGRESS_PERCENT: i64 = 10;
/// Pods that are listed by name.
const LISTED: usize = 500;

/// What the maintenance waits for, or that it does not.
pub fn summary(report: &Report) -> (Reason, String) {
    // What could not be written is what it waits for.
    let refused = report
        .nodes
        .values()
        .map(|node| &node.why)
        .find(|why| why.reason == Reason::WriteRefused);
    match refused.or(report.hold.as_ref()) {
        Some(Why { reason, message, .. }) => (*reason, message.to_string()),
        None => (Reason::Progressing, Reason::Progressing.meaning().to_owned()),
    }
}

/// The status as it shall be, but for `lastUpdate`, which is the time of the write.
pub fn status(view: &MaintenanceView, report: &Report, now: Timestamp) -> NodeMaintenanceStatus {
    let old = &view.status;
    let Some(said) = &report.maintenance else {
        return old.clone();
    };
    let (reason, message) = summary(report);

    let ready = said.phase == MaintenancePhase::Succeeded && reason == Reason::InMaintenance;
    // What the summary speaks of is the node's own wait, or one that no write ends.
    let who = report.hold.as_ref().map_or(reason.who(), |why| {
        if why.reason == reason {
            why.who()
        } else {
            reason.who()
        }
    });
    let stalled = !ready && (who == Actor::ClusterAdmin || report.wedged().is_some());
    let mut conditions = Conditions::over(&old.conditions, view.generation, now);
    conditions.kstatus(ready, !ready && !stalled, stalled, reason.name(), &message);
    let mut status = NodeMaintenanceStatus {
        phase: Some(said.phase.name().to_owned()),
        last_error: if reason == Reason::WriteRefused {
            Some(shown(&message))
        } else {
            let error = said.error.as_deref().filter(|error| !error.is_empty());
            error.map(shown)
        },
        error_on_lease_count: Some(said.lease_errors).filter(|count| *count > 0),
        conditions: conditions.done(),
        adopted: Some(said.adopted).filter(|adopted| *adopted),
        approval: super::approval::status(report, old.approval.as_ref(), now),
        ..old.clone()
    };

    let begins = |step| matches!(step, Step::Selected | Step::Admitted | Step::PreRules);
    let node = report.nodes.get(&view.spec.node_name);
    // A node that was made again starts anew, and while it waits nothing has gone yet.
    if said.phase == MaintenancePhase::Running && node.is_some_and(|node| begins(node.step)) {
        status.total_pods = None;
        status.eviction_pods = None;
        status.drain_progress = None;
        status.pending_pods = None;
        status.pending_pods_refs = None;
    }
    if let Some((pending, total)) = &said.pods {
        pods(&mut status, pending, *total);
    }
    if said.phase == MaintenancePhase::Succeeded {
        status.drain_progress = Some(100);
        status.pending_pods = None;
        status.pending_pods_refs = None;
    }
    status
}

fn pods(status: &mut NodeMaintenanceStatus, pending: &[numo_core::observed::Key], total: usize) {
    let number = |count: usize| Some(i64::try_from(count).unwrap_or(i64::MAX)).filter(|count| *count > 0);
    if status.eviction_pods.is_none() {
        status.eviction_pods = number(pending.len());
        status.total_pods = number(total);
    }
    let names = pending.iter().take(LISTED).map(|key| key.name.clone());
    status.pending_pods = Some(names.collect()).filter(|names: &Vec<String>| !names.is_empty());
    let refs = pending.iter().take(LISTED).map(|key| PodRef {
        namespace: Some(key.namespace.clone()),
        name: key.name.clone(),
    });
    status.pending_pods_refs = Some(refs.collect()).filter(|refs: &Vec<PodRef>| !refs.is_empty());
    let all = status.eviction_pods.unwrap_or(0);
    let left = number(pending.len()).unwrap_or(0);
    status.drain_progress = (all > 0)
        .then(|| ((all - left).max(0)) * 100 / all)
        .filter(|percent| *percent > 0);
}

/// When the status is to be written: at once, or later if nothing but progress differs.
pub fn due(old: &NodeMaintenanceStatus, new: &NodeMaintenanceStatus, now: Timestamp) -> Timestamp {
    let bare = |status: &NodeMaintenanceStatus| {
        let mut bare = status.clone();
        bare.pending_pods = None;
        bare.pending_pods_refs = None;
        bare.drain_progress = None;
        bare.last_update = None;
        bare.last_error = bare.last_error.map(|_| String::new());
        for condition in &mut bare.conditions {
            condition.message = None;
        }
        bare
    };
    let far = new.drain_progress.unwrap_or(0) - old.drain_progress.unwrap_or(0);
    if bare(old) != bare(new) || far.abs() >= PROGRESS_PERCENT {
        return now;
    }
    let last = old
        .last_update
        .as_deref()
        .and_then(|at| at.parse::<Timestamp>().ok());
    last.and_then(|at| at.checked_add(PROGRESS).ok())
        .map_or(now, |due| due.max(now))
}

/// The events that the change of a status stands for, as node-maintenance-operator has them: reason, sentence, and
/// whether it is a warning. Each is said once.
pub fn transition(
    old: &NodeMaintenanceStatus,
    new: &NodeMaintenanceStatus,
) -> Option<(&'static str, &'static str, bool)> {
    if old.phase == new.phase {
        return None;
    }
    match new.phase.as_deref() {
        Some("Succeeded") => Some(("SucceedMaintenance", "Node maintenance was succeeded", false)),
        Some("Failed") => Some(("FailedMaintenance", "Failed a node maintenance", true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn progress_alone_is_written_every_five_seconds_or_ten_percent() {
        let old = NodeMaintenanceStatus {
            phase: Some("Running".to_owned()),
            drain_progress: Some(20),
            last_update: Some(at(100).to_string()),
            ..NodeMaintenanceStatus::default()
        };
        let mut new = NodeMaintenanceStatus {
            drain_progress: Some(25),
            ..old.clone()
        };
        assert_eq!(due(&old, &new, at(101)), at(105));
        assert_eq!(due(&old, &new, at(107)), at(107));
        new.drain_progress = Some(30);
        assert_eq!(due(&old, &new, at(101)), at(101), "ten percent");
        new.drain_progress = Some(20);
        new.phase = Some("Succeeded".to_owned());
        assert_eq!(due(&old, &new, at(101)), at(101), "another phase");
    }

    #[test]
    fn zero_is_absent_and_the_first_count_stays() {
        let mut status = NodeMaintenanceStatus::default();
        pods(&mut status, &[], 3);
        assert_eq!((status.eviction_pods, status.drain_progress), (None, None));
        let keys: Vec<_> = ["a", "b"]
            .map(|name| numo_core::observed::Key::new("ns", name))
            .into();
        pods(&mut status, &keys, 5);
        assert_eq!((status.eviction_pods, status.drain_progress), (Some(2), None));
        pods(&mut status, &keys[1..], 4);
        assert_eq!(
            (status.eviction_pods, status.total_pods, status.drain_progress),
            (Some(2), Some(5), Some(50))
        );
        assert_eq!(status.pending_pods, Some(vec!["b".to_owned()]));
    }
}
