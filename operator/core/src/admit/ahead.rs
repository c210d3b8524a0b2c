//! Openings that lie ahead of a node: from when to when nodes begin, by all hours that hold for it. A forecast walks through them
//! (`eta.rs`); whether a node begins now is the schedule's own word (`schedule.rs`). Reads no clock.

use super::{
    schedule::{Schedule, Source},
    union::State,
};
use crate::time::later;
use jiff::Timestamp;
use numo_api::plan_window::Window;

/// How many times ahead are looked at for one at which a node begins.
const LOOKED_AT: usize = 64;

/// A time in which nodes begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The first moment.
    pub from: Timestamp,
    /// The last moment at which a node begins: what is left after it is too short for one. None if no end is in sight.
    pub last: Option<Timestamp>,
    /// When the first of the hours close; none if no end is in sight.
    pub until: Option<Timestamp>,
}

impl Opening {
    /// Whether a node still begins at this time, or later in this opening.
    pub fn has(&self, at: Timestamp) -> bool {
        self.last.is_none_or(|last| at <= last)
    }
}

/// Hours that all must be open.
#[derive(Clone, Debug)]
pub struct Ahead<'a> {
    /// Those of the owner, and the MutexWindows of the node.
    pub schedule: Schedule<'a>,
    /// A Plan's own `spec.window`.
    pub plan: Option<&'a Window>,
}

impl Ahead<'_> {
    /// The first opening from `at` on in which a node begins, which needs `forecast` seconds; none if there is none in
    /// sight.
    pub fn opening(&self, at: Timestamp, forecast: Option<i64>) -> Option<Opening> {
        let starts = self.schedule.starts.iter().map(|(_, start)| *start);
        let mut at = starts.chain([at]).max()?;
        for _ in 0..LOOKED_AT {
            let open = self.all_open_from(at)?;
            if open > at {
                at = open;
                continue;
            }
            let ends: Vec<(Timestamp, Timestamp)> = self.ends(at, forecast);
            let first = ends.iter().copied().min();
            match first {
                Some((last, end)) if last < at => at = end,
                _ => {
                    return Some(Opening {
                        from: at,
                        last: first.map(|(last, _)| last),
                        until: ends.iter().map(|(_, end)| *end).min(),
                    });
                }
            }
        }
        None
    }

    /// This time, if all hours are open; else one before which they are not.
    fn all_open_from(&self, at: Timestamp) -> Option<Timestamp> {
        let mut open = at;
        for source in &self.schedule.hours {
            open = open.max(source.union().opens_after(at)?);
        }
        match self.plan {
            Some(window) if !window.contains(at) => Some(open.max(window.changes_after(at)?)),
            _ => Some(open),
        }
    }

    /// Of each of the hours that is open at this time and has an end: the last moment at which a node begins, and the end.
    fn ends(&self, at: Timestamp, forecast: Option<i64>) -> Vec<(Timestamp, Timestamp)> {
        let of_source = |source: &Source<'_>| match source.union().at(at) {
            State::Open { until: Some(end) } => {
                // The end itself is outside.
                let needed = source.needed(at, forecast).unwrap_or(0).max(1);
                Some((later(end, -needed), end))
            }
            State::Open { until: None } | State::Shut { .. } => None,
        };
        let hours = self.schedule.hours.iter().filter_map(of_source);
        let plan = self.plan.and_then(|window| window.changes_after(at));
        hours.chain(plan.map(|end| (later(end, -1), end))).collect()
    }
}
