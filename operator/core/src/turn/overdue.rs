//! A wait that a node or the cluster should end by itself, and does not: after a while a person has to look. Since when it is waited
//! for is read off the journal's step, or off the owner's status. Nothing here decides what follows.

use crate::{
    decision::Decision,
    report::NodeReport,
    time::{STUCK_SECONDS, later, wake_by},
    turn::journal,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor, mutex_run_config::WaitCount};

/// How long machines may move and volumes be detached (seconds).
const DRAIN_SECONDS: i64 = 3600;

/// How long the node may wait so in this step (seconds); none where that says nothing.
fn limit(node: &NodeReport) -> Option<i64> {
    let is_plain = node.in_flight() && node.why.ended_by.is_none() && node.why.until.is_none();
    match node.why.reason {
        _ if !is_plain => None,
        Reason::MigrationInProgress | Reason::VolumesAttached => Some(DRAIN_SECONDS),
        _ => None,
    }
}

/// Whether an owner remembers in its status since when nodes wait for this.
pub const fn is_remembered(reason: Reason) -> bool {
    matches!(reason, Reason::NodeNotDone | Reason::NodeLeaving)
}

/// Since when the node waits, how long it may (seconds), and how that is said; none where nobody knows.
fn waited(name: &str, node: &NodeReport, waiting: &[WaitCount]) -> Option<(Timestamp, i64, &'static str)> {
    if let Some(limit) = limit(node) {
        let since = journal::time(node.since.as_deref())?;
        return Some((since, limit, "its step began at"));
    }
    let reason = node.why.reason;
    let mut known = waiting.iter();
    let known = known.find(|wait| is_remembered(reason) && wait.reason == reason.name())?;
    let since = journal::time(known.since.as_deref())?;
    let words = if known.node == name {
        "it has been so since"
    } else {
        ""
    };
    Some((since, STUCK_SECONDS, words))
}

/// Has waits that have stood for too long be ended by a person. `waiting` is what the owner's status remembers, so that another leader
/// counts on.
pub(crate) fn tell(out: &mut Decision, waiting: &[WaitCount], now: Timestamp) {
    let mut first: Option<Timestamp> = None;
    for (name, node) in &mut out.report.nodes {
        let Some((since, limit, words)) = waited(name, node, waiting) else {
            continue;
        };
        let at = later(since, limit);
        if at > now {
            wake_by(&mut first, at);
            continue;
        }
        let message = if words.is_empty() {
            node.why.message.clone()
        } else {
            format!("{}; {words} {since}", node.why.message).into()
        };
        let why = Why::new(node.why.reason, message).ended_by(Actor::ClusterAdmin);
        let before = std::mem::replace(&mut node.why, why.clone());
        if out.report.hold.as_ref() == Some(&before) {
            out.report.hold = Some(why);
        }
    }
    if let Some(at) = first {
        out.wake(at);
    }
}
