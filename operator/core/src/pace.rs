//! What a turn of a node of an owner takes, by the journals that are kept. Says nothing where they tell nothing; reads no clock.
//!
//! The journals of the present run count. Before one of its nodes is done, those of the earlier runs of the same owner do: numo keeps
//! the last three targets of each node, thirty days at most (`turn/journal.rs`).

use crate::{
    observed::{ChangeView, Observed},
    report::Report,
    text::counted,
    time::words,
};
use jiff::Timestamp;
use numo_api::{Entry, Step};
use std::collections::BTreeMap;

/// Journals that are looked at, the latest: a run of a thousand nodes speeds up and slows down.
const LOOKED_AT: usize = 20;

/// Whose journals count: the owner by its uid, and its present run.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    /// uid of the owner.
    pub owner_uid: &'a str,
    /// Id of its present run; journals of others are of earlier runs.
    pub run_id: &'a str,
}

/// What nodes took from their admission to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Took {
    /// In the middle (seconds).
    pub median_seconds: i64,
    /// Four of five of them took no more and no less than so much beside that (seconds).
    pub spread_seconds: i64,
    /// How many nodes, at least 1.
    pub of: usize,
    /// How many of them had their turn at one time, at least 1.
    pub at_once: usize,
    /// Whether no node of the present run is done, and these are of earlier ones.
    pub is_earlier: bool,
}

impl Took {
    /// What nine of ten nodes take at most, if the spread is the same on both sides (seconds).
    pub const fn at_most_seconds(&self) -> i64 {
        self.median_seconds.saturating_add(self.spread_seconds)
    }

    /// What it is known by, for people: `median of 7`, `median of 7 of earlier runs`.
    pub fn basis(&self) -> String {
        let earlier = if self.is_earlier { " of earlier runs" } else { "" };
        format!("median of {}{earlier}", self.of)
    }
}

impl std::fmt::Display for Took {
    /// For people: `20m00s per node, median of 7 nodes of earlier runs`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let earlier = if self.is_earlier { " of earlier runs" } else { "" };
        let nodes = counted(self.of, "node");
        write!(
            f,
            "{} per node, median of {nodes}{earlier}",
            words(self.median_seconds)
        )
    }
}

/// What the nodes of an owner took; none before one is done.
pub fn took(observed: &Observed, whose: Whose<'_>, now: Timestamp) -> Option<Took> {
    // One that ends later was written by a clock that was put back: it tells nothing, and would be the latest for long.
    let turn = |change| turn(change).filter(|(_, end)| *end <= now);
    let present = journals(observed, whose.run_id).filter_map(turn).collect();
    of_turns(present, false).or_else(|| {
        let changes = observed.journals();
        let is_its_own = |change: &&ChangeView| change.spec.owner_ref.uid == whose.owner_uid;
        // An owner that nobody has seen has no uid.
        let earlier = changes.filter(|change| !whose.owner_uid.is_empty() && is_its_own(change));
        of_turns(earlier.filter_map(turn).collect(), true)
    })
}

/// Of turns that are over: from when to when.
fn of_turns(mut turns: Vec<(Timestamp, Timestamp)>, is_earlier: bool) -> Option<Took> {
    turns.sort_unstable_by_key(|(_, end)| std::cmp::Reverse(*end));
    turns.truncate(LOOKED_AT);
    let length = |(from, to): &(Timestamp, Timestamp)| (to.as_second() - from.as_second()).max(0);
    let mut lengths: Vec<i64> = turns.iter().map(length).collect();
    lengths.sort_unstable();
    let median_seconds = lengths.get(lengths.len() / 2).copied()?;
    let beside = lengths.iter().map(|length| (length - median_seconds).abs());
    let mut beside: Vec<i64> = beside.collect();
    beside.sort_unstable();
    let four_of_five = (beside.len() * 4).div_ceil(5).saturating_sub(1);
    let together = |at: Timestamp| turns.iter().filter(|(from, to)| *from <= at && at < *to).count();
    let at_once = turns.iter().map(|(from, _)| together(*from)).max();
    Some(Took {
        median_seconds,
        spread_seconds: beside.get(four_of_five).copied().unwrap_or(0),
        of: turns.len(),
        at_once: at_once.unwrap_or(1).max(1),
        is_earlier,
    })
}

/// How fast the nodes of an owner change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What nodes took.
    pub took: Took,
    /// What each node in flight has left of that (seconds).
    pub under_way: Vec<i64>,
}

/// How fast the nodes of the owner of this report change; none before one of its nodes was ever done, as far as journals are kept.
pub fn pace(report: &Report, observed: &Observed, owner_uid: &str, now: Timestamp) -> Option<Pace> {
    let run_id = report.run_id.as_str();
    let took = took(observed, Whose { owner_uid, run_id }, now)?;
    let in_flight = report.nodes.iter().filter(|(_, node)| node.in_flight());
    let mut in_flight: BTreeMap<&str, Option<&ChangeView>> =
        in_flight.map(|(name, _)| (name.as_str(), None)).collect();
    // A run has thousands of journals, and few nodes in flight: one pass for all of them.
    for change in journals(observed, run_id) {
        if let Some(found) = in_flight.get_mut(change.spec.node_name.as_str()) {
            found.get_or_insert(change);
        }
    }
    let median = took.median_seconds;
    let under_way = in_flight.into_values().map(|change| {
        change.map(began).map_or(median, |begun| {
            (median - (now.as_second() - begun.as_second())).max(0)
        })
    });
    let under_way = under_way.collect();
    Some(Pace { took, under_way })
}

fn journals<'a>(observed: &'a Observed, run_id: &str) -> impl Iterator<Item = &'a ChangeView> {
    let all = observed.journals();
    all.filter(move |change| change.spec.target.run_id == run_id)
}

/// When the last turn of a node began: one that was given back before, or failed, is no part of it.
fn began(change: &ChangeView) -> Timestamp {
    let entries = &change.status.entries;
    let attempt = entries.last().map_or(1, |last| last.attempt.max(1));
    let of_turn = |entry: &&Entry| entry.attempt.max(1) == attempt && entry.step != Step::Selected;
    let first = entries.iter().find(of_turn);
    first
        .and_then(|entry| entry.at.parse().ok())
        .unwrap_or(change.created)
}

/// From when to when a node that is done had its turn.
fn turn(change: &ChangeView) -> Option<(Timestamp, Timestamp)> {
    let entries = &change.status.entries;
    let end = entries.last().filter(|entry| entry.step == Step::Done)?;
    Some((began(change), end.at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn of(turns: &[(i64, i64)]) -> Option<(i64, i64, usize, usize)> {
        let turns = turns.iter().map(|(from, to)| (at(*from), at(*to))).collect();
        let took = of_turns(turns, false)?;
        Some((took.median_seconds, took.spread_seconds, took.of, took.at_once))
    }

    #[test]
    fn the_middle_counts_and_four_of_five_lie_within_the_spread() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(0, 60)]), Some((60, 0, 1, 1)));
        // One that took for ever is one of five.
        assert_eq!(
            of(&[(0, 100), (100, 220), (220, 330), (330, 430), (430, 9_999)]),
            Some((110, 10, 5, 1))
        );
        // One that follows at once is not there at one time with the one before.
        assert_eq!(
            of(&[(0, 100), (50, 150), (100, 200), (100, 180)]),
            Some((100, 20, 4, 3))
        );
        let turns: Vec<(i64, i64)> = (0..100)
            .map(|turn| (turn * 1000, turn * 1000 + 10 + turn))
            .collect();
        assert_eq!(of(&turns), Some((100, 8, 20, 1)), "the latest twenty");
    }

    #[test]
    fn it_is_said_by_what_it_is_known() {
        let took = of_turns(vec![(at(0), at(120))], true).unwrap();
        assert_eq!(
            took.to_string(),
            "2m00s per node, median of 1 node of earlier runs"
        );
        assert_eq!(took.basis(), "median of 1 of earlier runs");
        let took = of_turns(vec![(at(0), at(120)), (at(0), at(120))], false).unwrap();
        assert_eq!(took.to_string(), "2m00s per node, median of 2 nodes");
    }
}
