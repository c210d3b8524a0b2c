//! A wait that a node or the cluster should end by itself, and does not: after a while a person has to look. Since when it
//! is waited for stands in `status.run.waiting`, so that another leader counts on.

use crate::{
    decision::Decision,
    observed::RunConfigView,
    time::{STUCK_SECONDS, later},
    turn::journal,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Who};
use std::sync::Arc;

/// Whether it is remembered since when nodes wait for this.
pub const fn is_remembered(reason: Reason) -> bool {
    matches!(reason, Reason::NodeNotDone | Reason::NodeLeaving)
}

/// Has waits that have stood for too long be ended by a person.
pub(super) fn tell(out: &mut Decision, run: &RunConfigView, now: Timestamp) {
    let waiting = run
        .status
        .run
        .as_ref()
        .map_or(&[][..], |run| run.waiting.as_slice());
    let mut first: Option<Timestamp> = None;
    for (name, node) in &mut out.report.nodes {
        let reason = node.why.reason;
        let known = waiting
            .iter()
            .find(|wait| is_remembered(reason) && wait.reason == reason.name());
        let Some((known, since)) = known.and_then(|wait| Some((wait, journal::time(wait.since.as_deref())?)))
        else {
            continue;
        };
        let at = later(since, STUCK_SECONDS);
        if at > now {
            first = Some(first.map_or(at, |first| first.min(at)));
            continue;
        }
        let message: Arc<str> = if known.node == *name {
            format!("{}; it has been so since {since}", node.why.message).into()
        } else {
            node.why.message.clone()
        };
        node.why = Why::new(reason, message).ended_by(Who::ClusterAdmin);
    }
    if let Some(at) = first {
        out.wake(at);
    }
}
