//! When an owner will be done, as far as its own journals tell. Says nothing where they tell nothing.

use crate::{
    observed::{ChangeView, Observed},
    report::{Report, RunPhase},
    text::counted,
    time::{later, words},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Entry, Reason, RunResult, Step, conditions::Actor};
use std::collections::BTreeMap;

/// Journals that are looked at, the latest: a run of a thousand nodes speeds up and slows down.
const LOOKED_AT: usize = 20;

/// How long it will take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eta {
    /// Every node is at the target.
    Done,
    /// Nothing further happens, and not every node is at the target.
    Over {
        /// Nodes that are.
        done: usize,
        /// Of how many.
        of: usize,
    },
    /// Nodes begin again then; before that the hours are closed.
    Opens {
        /// Seconds from now.
        seconds: i64,
        /// The clock time.
        at: Timestamp,
    },
    /// No node of it is done yet: nobody knows how long one takes.
    NoneDone,
    /// A person, or another controller, must end something first: no time can be told.
    Held(Reason, Actor),
    /// So many seconds, on this basis.
    In {
        /// Seconds from now.
        seconds: i64,
        /// The clock time.
        at: Timestamp,
        /// Nodes that are yet to change, those in flight included.
        left: usize,
        /// Nodes in flight now, at least 1.
        at_once: usize,
        /// What a node took from its admission to its end, in the middle (seconds).
        median_seconds: i64,
        /// Of how many nodes.
        of: usize,
    },
}

impl std::fmt::Display for Eta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Over { done, of } => {
                write!(
                    f,
                    "none: {done} of {} at the target, and nothing further begins",
                    counted(*of, "node")
                )
            }
            Self::Opens { seconds, at } => write!(
                f,
                "not known: nodes begin again in {} ({})",
                words(*seconds),
                clock(*at, *seconds)
            ),
            Self::NoneDone => f.write_str("not known: no node of it is done yet"),
            Self::Held(reason, who) => write!(f, "none: {reason} must be ended by {}", who.phrase()),
            Self::In {
                seconds,
                at,
                left,
                at_once,
                median_seconds,
                of,
            } => write!(
                f,
                "in about {} ({}): {} left, {at_once} at once, {} per node (median of {of})",
                words(*seconds),
                clock(*at, *seconds),
                counted(*left, "node"),
                words(*median_seconds)
            ),
        }
    }
}

/// The clock time, with its day where that is not plain.
fn clock(at: Timestamp, seconds: i64) -> String {
    let form = if seconds < 12 * 3600 {
        "%H:%M UTC"
    } else {
        "%Y-%m-%d %H:%M UTC"
    };
    at.strftime(form).to_string()
}

/// When the owner of this report is done, by the journals of its run.
pub fn eta(report: &Report, observed: &Observed, now: Timestamp) -> Eta {
    let nodes = report.nodes.iter();
    let left: Vec<_> = nodes.filter(|(_, node)| !node.step.is_terminal()).collect();
    let hold = report.hold.as_ref();
    if report.nodes.is_empty()
        && let Some(why) = hold.filter(|why| has_no_end(why, true))
    {
        // Which nodes it means is not even known.
        return Eta::Held(why.reason, why.who());
    }
    if left.is_empty() {
        return ended(report);
    }
    let in_flight: Vec<_> = left.iter().filter(|(_, node)| node.in_flight()).collect();
    // The last node is done when each is: one that waits without end holds up the end of all.
    let whys = || {
        let nodes = left.iter().map(|(_, node)| &node.why);
        in_flight
            .iter()
            .map(|(_, node)| &node.why)
            .chain(hold)
            .chain(nodes)
    };
    let alone = in_flight.is_empty();
    if let Some(why) = whys().find(|why| has_no_end(why, alone)) {
        return Eta::Held(why.reason, why.who());
    }
    // A wave that soaks ends by the clock too.
    let opens = whys().filter(|why| why.reason.is_of_hours() || why.reason == Reason::WaitsForWave);
    if let Some(at) = opens.filter_map(|why| why.until).min() {
        let seconds = (at.as_second() - now.as_second()).max(0);
        return Eta::Opens { seconds, at };
    }
    if let Some(why) = whys().find(|why| why.reason.is_of_hours()) {
        return Eta::Held(why.reason, why.who());
    }
    let Some(pace) = pace(report, observed, now) else {
        return Eta::NoneDone;
    };
    let at_once = in_flight.len().max(1);
    let seconds = pace.seconds_for(left.len() - in_flight.len(), at_once);
    Eta::In {
        seconds,
        at: later(now, seconds),
        left: left.len(),
        at_once,
        median_seconds: pace.median_seconds,
        of: pace.of,
    }
}

/// Nothing is left to be done.
fn ended(report: &Report) -> Eta {
    let (done, of) = (report.count(|node| node.step == Step::Done), report.nodes.len());
    let hold = report.hold.as_ref();
    let given_up = report.result == Some(RunResult::Aborted)
        || matches!(report.phase, RunPhase::Held)
        || hold.is_some_and(|why| why.reason == Reason::Aborted);
    if done == of && !given_up {
        Eta::Done
    } else {
        Eta::Over { done, of }
    }
}

/// Whether nobody can say when a wait ends: it hangs on a person, on a node that is dead, or on somebody else's work. What
/// hangs on nodes in flight has no end where none is.
fn has_no_end(why: &Why, alone: bool) -> bool {
    match why.reason {
        Reason::RuleRunning => false,
        Reason::NodeNotReady
        | Reason::NodeBusy
        | Reason::NodeLeaving
        | Reason::WaitsForPlan
        | Reason::PoolHeldByRun => true,
        Reason::BudgetExhausted | Reason::MutexKeyBusy if why.who() != Actor::ClusterAdmin => alone,
        _ => matches!(
            why.who(),
            Actor::ClusterAdmin | Actor::Approver | Actor::RuleAuthor | Actor::OtherController
        ),
    }
}

/// How fast the nodes of an owner change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// What a node took from its admission to its end, in the middle (seconds).
    pub median_seconds: i64,
    /// Of how many nodes.
    pub of: usize,
    /// What each node in flight has left of that (seconds).
    pub under_way: Vec<i64>,
}

impl Pace {
    /// How long it takes until so many more nodes, and those in flight, are done (seconds).
    fn seconds_for(&self, waiting: usize, at_once: usize) -> i64 {
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        let all = waiting
            .saturating_mul(self.median_seconds)
            .saturating_add(self.under_way.iter().sum());
        let spread = all / i64::try_from(at_once).unwrap_or(1);
        spread.max(self.under_way.iter().copied().max().unwrap_or(0))
    }
}

/// How fast the nodes of the owner of this report change, by the journals of its run; none before one is done.
pub fn pace(report: &Report, observed: &Observed, now: Timestamp) -> Option<Pace> {
    let (median_seconds, of) = median_seconds(observed, &report.run_id)?;
    let in_flight = report.nodes.iter().filter(|(_, node)| node.in_flight());
    let mut in_flight: BTreeMap<&str, Option<&ChangeView>> =
        in_flight.map(|(name, _)| (name.as_str(), None)).collect();
    // A run has thousands of journals, and few nodes in flight: one pass for all of them.
    for change in journals(observed, &report.run_id) {
        if let Some(found) = in_flight.get_mut(change.spec.node_name.as_str()) {
            found.get_or_insert(change);
        }
    }
    let under_way = in_flight.into_values().map(|change| {
        change.map(began).map_or(median_seconds, |begun| {
            (median_seconds - (now.as_second() - begun.as_second())).max(0)
        })
    });
    Some(Pace {
        median_seconds,
        of,
        under_way: under_way.collect(),
    })
}

/// What a node of this run took from its admission to its end, in the middle (seconds), and of how many nodes; none before one is
/// done.
pub fn median_seconds(observed: &Observed, run_id: &str) -> Option<(i64, usize)> {
    let mut took: Vec<(Timestamp, i64)> = journals(observed, run_id).filter_map(done).collect();
    took.sort_unstable();
    let mut took: Vec<i64> = took.iter().rev().take(LOOKED_AT).map(|(_, took)| *took).collect();
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied()?;
    Some((median, took.len()))
}

fn journals<'a>(observed: &'a Observed, run_id: &str) -> impl Iterator<Item = &'a ChangeView> {
    let all = observed.changes.values();
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

/// When a node was done, and what its turn took (seconds).
fn done(change: &ChangeView) -> Option<(Timestamp, i64)> {
    let end = change
        .status
        .entries
        .last()
        .filter(|entry| entry.step == Step::Done)?;
    let end: Timestamp = end.at.parse().ok()?;
    Some((end, (end.as_second() - began(change).as_second()).max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{observed::Key, report::NodeReport, report::Why};
    use numo_api::{Entry, NodeChangeSpec, NodeChangeStatus, Target};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(report: &mut Report, name: &str, step: Step, reason: Reason) {
        let node = NodeReport {
            pool: "worker".into(),
            step,
            why: Why::new(reason, ""),
            since: None,
            change: None,
        };
        report.nodes.insert(name.to_owned(), node);
    }

    fn journal(observed: &mut Observed, name: &str, begun: i64, done: Option<i64>) {
        let entry = |second: i64, step| Entry {
            at: at(second).to_string(),
            step,
            attempt: 1,
            reason: None,
        };
        let mut entries = vec![entry(begun, Step::Admitted)];
        entries.extend(done.map(|done| entry(done, Step::Done)));
        let change = ChangeView {
            key: Key::new("ns", name),
            uid: String::new(),
            resource_version: String::new(),
            generation: 1,
            created: at(begun),
            deleting: false,
            annotations: std::collections::BTreeMap::new(),
            spec: NodeChangeSpec {
                node_name: name.to_owned(),
                target: Target {
                    run_id: "run".to_owned(),
                    ..Target::default()
                },
                ..NodeChangeSpec::default()
            },
            status: NodeChangeStatus {
                entries,
                ..NodeChangeStatus::default()
            },
        };
        observed.changes.insert(change.key.clone(), change);
    }

    #[test]
    fn what_is_left_takes_what_the_others_took() {
        let mut report = Report {
            run_id: "run".to_owned(),
            ..Report::default()
        };
        let mut observed = Observed::default();
        node(&mut report, "a", Step::Selected, Reason::WaitingForTurn);
        assert_eq!(eta(&report, &observed, at(1000)), Eta::NoneDone);
        for (name, took) in [("x", 100), ("y", 120), ("z", 900)] {
            node(&mut report, name, Step::Done, Reason::Done);
            journal(&mut observed, name, 0, Some(took));
        }
        node(&mut report, "b", Step::Released, Reason::Changing);
        journal(&mut observed, "b", 950, None);
        let found = eta(&report, &observed, at(1000));
        // One waits for its 120 seconds, one has 70 of its own left.
        let wanted = Eta::In {
            seconds: 190,
            at: at(1190),
            left: 2,
            at_once: 1,
            median_seconds: 120,
            of: 3,
        };
        assert_eq!(found, wanted);
        let pace = pace(&report, &observed, at(1000)).unwrap();
        assert_eq!((pace.under_way, pace.of), (vec![70], 3));
        assert_eq!(
            found.to_string(),
            "in about 3m10s (00:19 UTC): 2 nodes left, 1 at once, 2m00s per node (median of 3)"
        );
        node(&mut report, "b", Step::Held, Reason::RuleFailed);
        assert_eq!(
            eta(&report, &observed, at(1000)),
            Eta::Held(Reason::RuleFailed, Actor::RuleAuthor)
        );
        report.nodes.clear();
        assert_eq!(eta(&report, &observed, at(1000)), Eta::Done);
        // Nobody knows the nodes of an owner whose target is missing.
        report.hold = Some(Why::new(Reason::TargetNotFound, ""));
        let found = eta(&report, &observed, at(1000));
        assert_eq!(found, Eta::Held(Reason::TargetNotFound, Actor::ClusterAdmin));
    }

    /// One run whose first node took a minute, and one node that waits so.
    fn waits(step: Step, why: Why) -> Eta {
        let mut report = Report {
            run_id: "run".to_owned(),
            ..Report::default()
        };
        let mut observed = Observed::default();
        node(&mut report, "x", Step::Done, Reason::Done);
        journal(&mut observed, "x", 0, Some(60));
        node(&mut report, "a", step, why.reason);
        if let Some(one) = report.nodes.get_mut("a") {
            one.why = why;
        }
        eta(&report, &observed, at(1000))
    }

    #[test]
    fn no_time_is_told_where_something_waits_without_end() {
        for reason in [
            Reason::NodeNotReady,
            Reason::NodeBusy,
            Reason::NodeLeaving,
            Reason::BudgetExhausted,
            Reason::CordonedByOther,
            Reason::PoolPausedByOther,
            Reason::Stopped,
            Reason::Suspended,
            Reason::WaitsForPlan,
        ] {
            let found = waits(Step::Selected, Why::new(reason, ""));
            assert_eq!(found, Eta::Held(reason, reason.who()));
            assert!(found.to_string().starts_with("none: "), "{found}");
        }
        // Where no node in flight ends it, none is said to.
        let full = Why::new(Reason::BudgetExhausted, "").ended_by(Actor::ClusterAdmin);
        assert_eq!(
            waits(Step::Selected, full).to_string(),
            "none: BudgetExhausted must be ended by a cluster administrator"
        );
        // A budget that is full by a node in flight is free again when that one is done.
        let mut report = Report {
            run_id: "run".to_owned(),
            ..Report::default()
        };
        let mut observed = Observed::default();
        node(&mut report, "x", Step::Done, Reason::Done);
        journal(&mut observed, "x", 0, Some(60));
        node(&mut report, "a", Step::Released, Reason::Changing);
        node(&mut report, "b", Step::Selected, Reason::BudgetExhausted);
        assert!(matches!(
            eta(&report, &observed, at(1000)),
            Eta::In { left: 2, .. }
        ));
        let found = waits(Step::Released, Why::new(Reason::Changing, ""));
        assert_eq!(
            found.to_string(),
            "in about 1m00s (00:17 UTC): 1 node left, 1 at once, 1m00s per node (median of 1)"
        );
    }

    #[test]
    fn a_closed_window_says_when_it_opens() {
        let why = Why::new(Reason::OutsideWindow, "").until(at(1000 + 5 * 86_400));
        let found = waits(Step::Selected, why);
        assert_eq!(
            found.to_string(),
            "not known: nodes begin again in 5d00h (1970-01-06 00:16 UTC)"
        );
    }

    #[test]
    fn what_is_over_before_every_node_is_there_is_not_done() {
        let found = waits(Step::Skipped, Why::new(Reason::SkippedByPerson, ""));
        assert_eq!(found, Eta::Over { done: 1, of: 2 });
        assert_eq!(
            found.to_string(),
            "none: 1 of 2 nodes at the target, and nothing further begins"
        );
        let mut report = Report {
            result: Some(RunResult::Aborted),
            ..Report::default()
        };
        node(&mut report, "x", Step::Done, Reason::Done);
        let found = eta(&report, &Observed::default(), at(1000));
        assert_eq!(found, Eta::Over { done: 1, of: 1 });
    }
}
