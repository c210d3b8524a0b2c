//! A wait in a turn that the cluster should end by itself, and does not: after a while a person has to look. Since when it
//! is waited for is read off the journal's step. Nothing here decides what follows.

use crate::{
    decision::Decision,
    report::NodeReport,
    time::{STUCK_SECONDS, later},
    turn::journal,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Who};

/// How long machines may move and volumes be detached (seconds).
const DRAIN_SECONDS: i64 = 3600;

/// How long the node may wait so in this step (seconds); none where that says nothing.
fn limit(node: &NodeReport) -> Option<i64> {
    let is_plain = node.in_flight() && node.why.ended_by.is_none() && node.why.until.is_none();
    match node.why.reason {
        _ if !is_plain => None,
        Reason::MigrationInProgress | Reason::VolumesAttached => Some(DRAIN_SECONDS),
        // Its Job of the attempt before, which a finalizer keeps.
        Reason::JobBeingDeleted if node.step == Step::Admitted => Some(STUCK_SECONDS),
        _ => None,
    }
}

/// Has waits that have stood for too long be ended by a person.
pub(crate) fn tell(out: &mut Decision, now: Timestamp) {
    let mut first: Option<Timestamp> = None;
    for node in out.report.nodes.values_mut() {
        let since = limit(node).zip(journal::time(node.since.as_deref()));
        let Some((limit, since)) = since else { continue };
        let at = later(since, limit);
        if at > now {
            first = Some(first.map_or(at, |first| first.min(at)));
            continue;
        }
        let message = format!("{}; its step began at {since}", node.why.message);
        let why = Why::new(node.why.reason, message).ended_by(Who::ClusterAdmin);
        let before = std::mem::replace(&mut node.why, why.clone());
        if out.report.hold.as_ref() == Some(&before) {
            out.report.hold = Some(why);
        }
    }
    if let Some(at) = first {
        out.wake(at);
    }
}
