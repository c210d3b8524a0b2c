//! Nodes that are not Ready: which wait, which are left out, and what is said of them. One way for every kind of owner; when an owner
//! looks at it is its own to say.

use crate::{decision::Decision, observed::NodeView, time::later, why::Why};
use jiff::Timestamp;
use numo_api::Reason;

/// What an owner has become of nodes that are not Ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Whether they have their turns all the same.
    pub takes: bool,
    /// After how long one that waits is left out (seconds); none if it is waited for.
    pub leave_out_after: Option<i64>,
}

impl Policy {
    /// Why a node that is not Ready waits, if it does.
    pub fn refusal(self, node: &NodeView) -> Option<Why> {
        if node.ready || self.takes {
            return None;
        }
        let message = format!(
            "Node {} is not Ready (takeNotReady: true takes it anyway)",
            node.name
        );
        Some(Why::new(Reason::NodeNotReady, message))
    }

    /// The same, looked at again when the node is to be left out.
    pub fn wait(self, out: &mut Decision, node: &NodeView) -> Option<Why> {
        let why = self.refusal(node)?;
        if let Some(at) = self.left_out_at(node) {
            out.wake(at);
        }
        Some(why)
    }

    /// When a node that waits is left out, if it is.
    pub fn left_out_at(self, node: &NodeView) -> Option<Timestamp> {
        left_out_at(node, self.leave_out_after.filter(|_| !self.takes)?)
    }

    /// Why a node that has no turn is left out for now, as it is not Ready for too long. It is taken up again once it is Ready.
    pub fn given_up(self, node: &NodeView, now: Timestamp) -> Option<Why> {
        let at = self.left_out_at(node)?;
        (at <= now).then(|| left_out(node))
    }
}

/// When a node that is not Ready is so for so many seconds. One that does not say since when it is so is waited for.
pub(crate) fn left_out_at(node: &NodeView, after_seconds: i64) -> Option<Timestamp> {
    let since = node.not_ready_since.filter(|_| !node.ready)?;
    Some(later(since, after_seconds))
}

fn left_out(node: &NodeView) -> Why {
    let since = node
        .not_ready_since
        .map_or_else(String::new, |at| format!(" since {at}"));
    let message = format!(
        "Node {} has not been Ready{since} and is left out (notReadyPolicy: LeaveOutAfter); it is taken up once it is Ready",
        node.name
    );
    Why::new(Reason::LeftOutNotReady, message)
}
