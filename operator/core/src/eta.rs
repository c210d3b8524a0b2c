//! When an owner will be done, as far as its own journals tell. Says nothing where they tell nothing.

use crate::{
    observed::{ChangeView, Observed},
    report::Report,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Who};

/// Journals that are looked at, the latest: a run of a thousand nodes speeds up and slows down.
const LOOKED_AT: usize = 20;

/// How long it will take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eta {
    /// Nothing is left to do.
    Done,
    /// No node of it is done yet: nobody knows how long one takes.
    NoneDone,
    /// A person, or another controller, must end something first: no time can be told.
    Held(Reason),
    /// So many seconds, on this basis.
    In {
        /// Seconds from now.
        seconds: i64,
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
            Self::NoneDone => f.write_str("not known: no node of it is done yet"),
            Self::Held(reason) => write!(f, "none: {reason} must be ended by {}", reason.who().phrase()),
            Self::In {
                seconds,
                left,
                at_once,
                median_seconds,
                of,
            } => write!(
                f,
                "about {}: {left} nodes left, {at_once} at once, {} each in the median of {of}",
                words(*seconds),
                words(*median_seconds)
            ),
        }
    }
}

/// A length of time as a person says it: the two largest units.
pub fn words(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// When the owner of this report is done, by the journals of its run.
pub fn eta(report: &Report, observed: &Observed, now: Timestamp) -> Eta {
    let left: Vec<_> = report
        .nodes
        .iter()
        .filter(|(_, node)| !node.step.is_terminal())
        .collect();
    if left.is_empty() {
        return Eta::Done;
    }
    let in_flight: Vec<_> = left.iter().filter(|(_, node)| node.in_flight()).collect();
    let hold = report.hold.as_ref().map(|why| why.reason);
    let held = in_flight
        .iter()
        .map(|(_, node)| node.why.reason)
        .chain(hold)
        .find(|reason| {
            matches!(
                reason.who(),
                Who::ClusterAdmin | Who::RuleAuthor | Who::OtherController
            ) && *reason != Reason::RuleRunning
        });
    if let Some(reason) = held {
        return Eta::Held(reason);
    }
    let Some(Pace {
        median_seconds,
        of,
        under_way,
    }) = pace(report, observed, now)
    else {
        return Eta::NoneDone;
    };
    let at_once = in_flight.len().max(1);
    let waiting = i64::try_from(left.len() - in_flight.len()).unwrap_or(i64::MAX);
    let all = waiting
        .saturating_mul(median_seconds)
        .saturating_add(under_way.iter().sum());
    let spread = all / i64::try_from(at_once).unwrap_or(1);
    Eta::In {
        seconds: spread.max(under_way.into_iter().max().unwrap_or(0)),
        left: left.len(),
        at_once,
        median_seconds,
        of,
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

/// How fast the nodes of the owner of this report change, by the journals of its run; none before one is done.
pub fn pace(report: &Report, observed: &Observed, now: Timestamp) -> Option<Pace> {
    let journals = || {
        let all = observed.changes.values();
        all.filter(|change| change.spec.target.run_id == report.run_id)
    };
    let mut took: Vec<(Timestamp, i64)> = journals().filter_map(done).collect();
    took.sort_unstable();
    let mut took: Vec<i64> = took.iter().rev().take(LOOKED_AT).map(|(_, took)| *took).collect();
    took.sort_unstable();
    let median_seconds = took.get(took.len() / 2).copied()?;
    let in_flight = report.nodes.iter().filter(|(_, node)| node.in_flight());
    let under_way = in_flight.map(|(name, _)| {
        let begun = journals()
            .find(|change| change.spec.node_name == *name)
            .map(began);
        begun.map_or(median_seconds, |begun| {
            (median_seconds - (now.as_second() - begun.as_second())).max(0)
        })
    });
    Some(Pace {
        median_seconds,
        of: took.len(),
        under_way: under_way.collect(),
    })
}

fn began(change: &ChangeView) -> Timestamp {
    let mut entries = change.status.entries.iter();
    entries
        .find_map(|entry| entry.at.parse().ok())
        .unwrap_or(change.created)
}

/// When a node was done, and what it took (seconds).
fn done(change: &ChangeView) -> Option<(Timestamp, i64)> {
    let end = change
        .status
        .entries
        .iter()
        .rfind(|entry| entry.step == Step::Done)?;
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
            "about 3m10s: 2 nodes left, 1 at once, 2m00s each in the median of 3"
        );
        node(&mut report, "b", Step::Held, Reason::RuleFailed);
        assert_eq!(eta(&report, &observed, at(1000)), Eta::Held(Reason::RuleFailed));
        report.nodes.clear();
        assert_eq!(eta(&report, &observed, at(1000)), Eta::Done);
    }
}
