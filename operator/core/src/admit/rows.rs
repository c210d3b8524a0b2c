//! The nodes of an owner as its waves see them. How each stands the owner says; nothing here says which wave has it.

use super::wave::{Takes, Wave};
use crate::{
    observed::{ChangeView, NodeView},
    turn::journal,
};
use jiff::Timestamp;

/// How a node of an owner stands in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It is where it shall be; since when, if it went there in this run.
    Done(Option<Timestamp>),
    /// The owner goes on without it; since when, if it had its turn in this run.
    LeftOut(Option<Timestamp>),
    /// It is yet to change, or in its turn.
    Behind {
        /// Whether it goes on without a person.
        goes_on: bool,
    },
}

/// A node of an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub node: &'a NodeView,
    /// The name that it has in the run: its own, or that of the node whose place it has.
    pub name: &'a str,
    /// Its pool, where it has one.
    pub pool: &'a str,
    /// Its journal in this run.
    pub change: Option<&'a ChangeView>,
    /// Whether it has its turn now.
    pub in_flight: bool,
    /// Whether it has failed, as a failure budget counts it.
    pub has_failed: bool,
    pub stand: Stand,
}

impl Row<'_> {
    /// Whether it counts where nodes are counted: it was up to date before the run, or left out before its turn, if not.
    pub(super) fn counts(&self) -> bool {
        matches!(self.stand, Stand::Behind { .. }) || self.begun().is_some()
    }

    /// When its first turn in this run began.
    fn begun(&self) -> Option<Timestamp> {
        self.change.and_then(journal::begun)
    }
}

/// The places of the rows that count, in the order in which waves of so many nodes take them: those that have begun first.
pub(super) fn in_turn(waves: &[Wave], rows: &[Row<'_>]) -> Vec<usize> {
    if !waves.iter().any(|wave| matches!(wave.takes, Takes::Next { .. })) {
        return Vec::new();
    }
    let (mut begun, mut waiting) = (Vec::new(), Vec::new());
    for (place, row) in rows.iter().enumerate() {
        match row.begun() {
            Some(at) => begun.push((at, row.name, place)),
            None if matches!(row.stand, Stand::Behind { .. }) => waiting.push(place),
            None => {}
        }
    }
    begun.sort_unstable();
    let begun = begun.into_iter().map(|(_, _, place)| place);
    begun.chain(waiting).collect()
}
