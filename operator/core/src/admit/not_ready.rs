//! Nodes that are not Ready, for owners that leave them out.

use crate::{observed::NodeView, time::later, why::Why};
use jiff::Timestamp;
use numo_api::Reason;

/// When a node that is not Ready is left out, for an owner that leaves such nodes out after so many seconds. A node that
/// does not say since when it is so is waited for.
pub(crate) fn left_out_at(node: &NodeView, after_seconds: i64) -> Option<Timestamp> {
    let since = node.not_ready_since.filter(|_| !node.ready)?;
    Some(later(since, after_seconds))
}

/// What is said of a node that is left out as it is not Ready.
pub(crate) fn left_out_not_ready(node: &NodeView) -> Why {
    let since = node
        .not_ready_since
        .map_or_else(String::new, |at| format!(" since {at}"));
    let message = format!(
        "Node {} has not been Ready{since} and is left out (notReadyPolicy: LeaveOutAfter); it is taken up once it is Ready",
        node.name
    );
    Why::new(Reason::LeftOutNotReady, message)
}
