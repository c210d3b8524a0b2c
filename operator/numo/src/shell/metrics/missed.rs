//! Openings of hours that went by: nodes of an owner had waited for them, and none of the owner began. What is known of an opening is kept
//! here alone: a numo that leads since then knows of the next ones only.

use super::{
    described::WINDOW_MISSED,
    owners::OwnerLabels,
    series::{Series, register},
};
use jiff::Timestamp;
use numo_api::{Reason, Step};
use numo_core::{Owner, report::Report};
use prometheus_client::registry::Registry;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

/// Nodes of an owner that wait for their hours.
#[derive(Debug, Default)]
struct Waiting {
    /// When each may begin by its hours, and how many nodes of the owner had begun when that was seen last.
    nodes: BTreeMap<String, (Timestamp, u64)>,
    /// Those among them whose opening went by.
    missed: BTreeSet<String>,
    /// Those that had their turn in the last report.
    in_flight: BTreeSet<String>,
    /// How many nodes of the owner have begun since it is known.
    begun: u64,
}

impl Waiting {
    /// Learns from the next report. A node that begins ends what was missed, for its owner comes along.
    fn learn(&mut self, report: &Report, now: Timestamp) {
        let flying = report.nodes.iter().filter(|(_, node)| node.in_flight());
        let flying: BTreeSet<String> = flying.map(|(name, _)| name.clone()).collect();
        let is_done = |name: &String| report.nodes.get(name).is_some_and(|node| node.step == Step::Done);
        let is_any_new = flying.iter().any(|name| !self.in_flight.contains(name));
        if is_any_new || self.nodes.keys().any(is_done) {
            self.begun += 1;
            self.missed.clear();
        }
        self.in_flight = flying;
        let waits = |name: &String| {
            report
                .nodes
                .get(name)
                .is_some_and(|node| node.step == Step::Selected)
        };
        self.nodes.retain(|name, _| waits(name));
        self.missed.retain(waits);
        for (name, node) in &report.nodes {
            let is_shut = node.step == Step::Selected && is_of_openings(node.why.reason);
            let Some(opens) = node.why.until.filter(|_| is_shut) else {
                continue;
            };
            let known = self.nodes.insert(name.clone(), (opens, self.begun));
            let went_by = known.is_some_and(|(at, begun)| at <= now && at < opens && begun == self.begun);
            if went_by {
                self.missed.insert(name.clone());
            }
        }
    }
}

/// Whether a node with this reason waits for an opening, and not for a start or for somebody who makes one.
const fn is_of_openings(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::OutsideWindow | Reason::WindowEndsSoon | Reason::Frozen
    )
}

/// How many nodes of each owner missed their opening.
#[derive(Clone, Debug)]
pub(super) struct Missed {
    nodes: Series<OwnerLabels>,
    known: Arc<Mutex<BTreeMap<Owner, Waiting>>>,
}

impl Missed {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let missed = Self {
            nodes: Series::default(),
            known: Arc::default(),
        };
        register(registry, WINDOW_MISSED, missed.nodes.family.clone());
        missed
    }

    /// Learns from the next report of an owner, and shows what it comes to; nothing of an owner whose nodes wait for no hours.
    pub(super) fn show(&self, owner: &Owner, report: &Report, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = known.entry(owner.clone()).or_default();
        waiting.learn(report, now);
        let missed = i64::try_from(waiting.missed.len()).unwrap_or(i64::MAX);
        let shown = (!waiting.nodes.is_empty()).then(|| (OwnerLabels::of(owner), missed));
        self.nodes.show(owner, shown);
    }

    pub(super) fn forget(&self, owner: &Owner) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(owner);
        self.nodes.show(owner, []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::report::{NodeReport, Why};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A report of nodes, each with its step and what it waits for; a time is when its hours open.
    fn report(nodes: &[(&str, Step, Reason, Option<i64>)]) -> Report {
        let nodes = nodes.iter().map(|(name, step, reason, opens)| {
            let why = Why::new(*reason, "");
            let node = NodeReport {
                pool: "worker".into(),
                step: *step,
                why: opens.map_or(why.clone(), |opens| why.until(at(opens))),
                since: None,
                change: None,
            };
            ((*name).to_owned(), node)
        });
        Report {
            nodes: nodes.collect(),
            ..Report::default()
        }
    }

    /// How many nodes have missed their opening after these reports, each at its time.
    fn missed(reports: &[(i64, Report)]) -> usize {
        let mut waiting = Waiting::default();
        for (now, report) in reports {
            waiting.learn(report, at(*now));
        }
        waiting.missed.len()
    }

    const SHUT: Reason = Reason::OutsideWindow;

    fn shut(opens: i64) -> Report {
        report(&[
            ("a", Step::Selected, SHUT, Some(opens)),
            ("b", Step::Selected, SHUT, Some(opens)),
        ])
    }

    fn blocked() -> Report {
        let reason = Reason::BudgetExhausted;
        report(&[
            ("a", Step::Selected, reason, None),
            ("b", Step::Selected, reason, None),
        ])
    }

    #[test]
    fn an_opening_in_which_no_node_began_was_missed() {
        assert_eq!(missed(&[(0, shut(100)), (100, blocked())]), 0, "it is open");
        assert_eq!(missed(&[(0, shut(100)), (100, blocked()), (200, shut(900))]), 2);
        // It was not even seen open: another owner's stop, or a freeze that began with it.
        assert_eq!(missed(&[(0, shut(100)), (200, shut(900))]), 2);
        // What is left of it is too short for a node.
        let ends = report(&[("a", Step::Selected, Reason::WindowEndsSoon, Some(900))]);
        assert_eq!(missed(&[(0, shut(100)), (150, ends)]), 1);
    }

    #[test]
    fn an_opening_that_is_moved_before_it_comes_was_not_missed() {
        assert_eq!(missed(&[(0, shut(100)), (50, shut(900)), (200, shut(900))]), 0);
        assert_eq!(missed(&[(0, shut(100)), (100, shut(100))]), 0, "it opens now");
        // A start is no opening.
        let starts = report(&[("a", Step::Selected, Reason::StartsLater, Some(100))]);
        assert_eq!(missed(&[(0, starts), (200, shut(900))]), 0);
    }

    #[test]
    fn an_owner_of_which_a_node_began_has_missed_nothing() {
        let begun = report(&[
            ("a", Step::PreRules, Reason::RuleRunning, None),
            ("b", Step::Selected, Reason::WaitingForTurn, None),
        ]);
        let left = report(&[
            ("a", Step::Done, Reason::Done, None),
            ("b", Step::Selected, SHUT, Some(900)),
        ]);
        assert_eq!(
            missed(&[(0, shut(100)), (100, begun.clone()), (200, left.clone())]),
            0
        );
        // It was begun and done between two reports.
        assert_eq!(missed(&[(0, shut(100)), (200, left.clone())]), 0);
        // The next opening ends what was missed; one after it may be missed again.
        let twice = [
            (0, shut(100)),
            (200, shut(900)),
            (900, begun),
            (1000, left.clone()),
        ];
        assert_eq!(missed(&twice), 0);
        let again = report(&[("b", Step::Selected, SHUT, Some(1900))]);
        let mut thrice = twice.to_vec();
        thrice.push((1800, again));
        assert_eq!(missed(&thrice), 1);
    }

    #[test]
    fn a_node_that_is_held_since_an_earlier_opening_is_no_beginning() {
        let with_held = |reason: Reason, opens: Option<i64>| {
            report(&[
                ("a", Step::Held, Reason::RuleFailed, None),
                ("b", Step::Selected, reason, opens),
            ])
        };
        let reports = [
            (0, with_held(SHUT, Some(100))),
            (100, with_held(Reason::WaitingForTurn, None)),
            (200, with_held(SHUT, Some(900))),
        ];
        assert_eq!(missed(&reports), 1);
    }
}
