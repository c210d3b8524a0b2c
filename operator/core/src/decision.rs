//! What a decision is made from, and what it says.

use crate::{
    action::Planned, observed::Observed, owner::Owner, report::Report, time::wake_by, verdict::Question,
};
use jiff::Timestamp;

/// All that was seen, at one time, for one owner.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// What was seen.
    pub observed: &'a Observed,
    /// The owner.
    pub owner: &'a Owner,
    /// The node that a person asks about: all that stands against its turn is named, and not only the first.
    pub asked: Option<&'a str>,
}

/// What to do next, and why for every node.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The writes, in order.
    pub actions: Vec<Planned>,
    /// What must be read before more can be decided.
    pub questions: Vec<Question>,
    /// Why.
    pub report: Report,
    /// When to decide again even if nothing changes.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    /// Asks to decide again at `at`.
    pub(crate) fn wake(&mut self, at: Timestamp) {
        wake_by(&mut self.wake_at, at);
    }
}
