//! Nodes that somebody else takes away: no owner begins one. Nothing here is written.

use crate::{
    observed::{Leaving, NodeView},
    time::{STUCK_SECONDS, later},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};
use std::collections::BTreeMap;

/// Why the node is not begun, if somebody takes it away, and when that is a person's to look at, if it is not over by then.
/// `taken` are those that other objects than the Node tell of (`Observed::taken`).
pub(crate) fn leaving(
    node: &NodeView,
    taken: &BTreeMap<&str, Leaving>,
    now: Timestamp,
) -> Option<(Why, Option<Timestamp>)> {
    let name = &node.name;
    let leaving = node.leaving.as_ref().or_else(|| taken.get(name.as_str()))?;
    let message = format!("Node {name} is going away: {}", leaving.why);
    let why = |message| Why::new(Reason::NodeLeaving, message);
    Some(
        match leaving.since.map(|since| (since, later(since, STUCK_SECONDS))) {
            Some((since, at)) if at <= now => {
                let message = format!("{message}; it has been so since {since}");
                (why(message).ended_by(Actor::ClusterAdmin), None)
            }
            overdue => (why(message), overdue.map(|(_, at)| at)),
        },
    )
}
