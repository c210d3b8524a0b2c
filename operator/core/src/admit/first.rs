//! Nodes that go before all others of their owner. Which nodes those are, and when one of them is done, the owner says.

use crate::{ledger, why::Why};
use numo_api::Reason;
use std::collections::BTreeSet;

/// The nodes that go first and are not done.
#[derive(Debug)]
pub(crate) struct First<'a> {
    nodes: BTreeSet<&'a str>,
    /// Whether one of them goes on without a person.
    goes_on: bool,
    /// The field that names them.
    field: &'static str,
}

impl<'a> First<'a> {
    /// Of nodes that are not done, each with whether it goes on without a person.
    pub fn of(behind: impl IntoIterator<Item = (&'a str, bool)>, field: &'static str) -> Self {
        let mut first = Self {
            nodes: BTreeSet::new(),
            goes_on: false,
            field,
        };
        for (node, goes_on) in behind {
            first.nodes.insert(node);
            first.goes_on |= goes_on;
        }
        first
    }

    /// Why a node waits for those that go first, unless it is one of them.
    pub fn refusal(&self, node: &str) -> Option<Why> {
        let other = self.nodes.first().filter(|_| !self.nodes.contains(node))?;
        let message = format!("Node {other} goes first ({})", self.field);
        Some(ledger::ended_by_person(
            Why::new(Reason::FirstNodes, message),
            !self.goes_on,
        ))
    }
}
