//! When an owner will be done, as far as journals tell. Says nothing where they tell nothing.
//!
//! The forecast gives each node that waits a turn as soon as a place is free and the hours are open, with enough of them left for it. A
//! turn that has begun goes on past the end of its opening. Budgets, waves to come and rules are not foreseen.

use crate::{
    admit::ahead::{Ahead, Opening},
    calendar::Calendar,
    observed::Observed,
    owner::Owner,
    pace::{Pace, Took, pace},
    report::{NodeReport, Report, RunPhase},
    text::counted,
    time::{later, words},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, RunResult, Step, conditions::Actor};
use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

/// Openings that are walked through, at most: a forecast of months is none.
const OPENINGS: usize = 128;

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
    /// Nodes begin again then; before that the hours are closed, or a wave soaks. How long a node takes is not known.
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
    /// The openings that are in sight end before the last node begins.
    NotInSight {
        /// Nodes that are yet to change, those in flight included.
        left: usize,
        /// When nodes begin again, where the hours are closed to one.
        opens: Option<Until>,
    },
    /// So many seconds, on this basis.
    In {
        /// Seconds from now.
        seconds: i64,
        /// The clock time.
        at: Timestamp,
        /// Nodes that are yet to change, those in flight included.
        left: usize,
        /// Nodes that have their turn at one time, at least 1: those in flight now; where none is, as many as had before.
        at_once: usize,
        /// What a node took from its admission to its end, in the middle (seconds).
        median_seconds: i64,
        /// Of how many nodes.
        of: usize,
        /// Whether these are of earlier runs of the owner: none of this one is done.
        is_earlier: bool,
        /// In how many openings nodes begin until then; 0 where no hours end before it.
        openings: usize,
        /// When nodes begin again, where the hours are closed to one.
        opens: Option<Until>,
    },
}

/// A time to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Seconds from now.
    pub seconds: i64,
    /// The clock time.
    pub at: Timestamp,
}

impl Eta {
    /// When nodes begin again, where the hours are closed to one.
    pub const fn opens(&self) -> Option<Timestamp> {
        match self {
            Self::Opens { at, .. } => Some(*at),
            Self::In {
                opens: Some(opens), ..
            }
            | Self::NotInSight {
                opens: Some(opens), ..
            } => Some(opens.at),
            _ => None,
        }
    }

    /// Whether nodes are left that begin by themselves, now or later.
    pub const fn goes_on(&self) -> bool {
        !matches!(self, Self::Done | Self::Over { .. } | Self::Held(..))
    }
}

impl std::fmt::Display for Eta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Over { done, of } => {
                write!(
                    f,
                    "no end in sight: {done} of {} at the target, and nothing further begins",
                    counted(*of, "node")
                )
            }
            Self::Opens { seconds, at } => {
                let (seconds, at) = (*seconds, *at);
                write!(f, "not known: nodes begin again in {}", Until { seconds, at })
            }
            Self::NoneDone => f.write_str("not known: no node of it is done yet"),
            Self::Held(reason, who) => {
                write!(f, "no end in sight: {reason} must be ended by {}", who.phrase())
            }
            Self::NotInSight { left, opens } => {
                let left = counted(*left, "node");
                write!(
                    f,
                    "not known: {left} left, more than begin in the openings in sight"
                )?;
                write_opens(f, opens.as_ref())
            }
            Self::In {
                seconds,
                at,
                left,
                at_once,
                median_seconds,
                of,
                is_earlier,
                openings,
                opens,
            } => {
                let (seconds, at) = (*seconds, *at);
                write!(
                    f,
                    "in about {}: {} left, {at_once} at once, {} per node (median of {of}{})",
                    Until { seconds, at },
                    counted(*left, "node"),
                    words(*median_seconds),
                    if *is_earlier { " of earlier runs" } else { "" }
                )?;
                if *openings > 0 {
                    write!(f, ", over {}", counted(*openings, "opening"))?;
                }
                write_opens(f, opens.as_ref())
            }
        }
    }
}

fn write_opens(f: &mut std::fmt::Formatter<'_>, opens: Option<&Until>) -> std::fmt::Result {
    opens.map_or(Ok(()), |opens| write!(f, "; nodes begin again in {opens}"))
}

impl std::fmt::Display for Until {
    /// How long it is, and the clock time, with its day where that is not plain: `3m10s (00:19 UTC)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let form = if self.seconds < 12 * 3600 {
            "%H:%M UTC"
        } else {
            "%Y-%m-%d %H:%M UTC"
        };
        write!(f, "{} ({})", words(self.seconds), self.at.strftime(form))
    }
}

/// When the owner of this report is done, by the journals of its runs and by its hours.
pub fn eta(owner: &Owner, report: &Report, observed: &Observed, now: Timestamp) -> Eta {
    if let Some(found) = without_a_pace(report) {
        return found;
    }
    let until = |at: Timestamp| Until {
        seconds: (at.as_second() - now.as_second()).max(0),
        at,
    };
    let whys = || report.hold.iter().chain(left(report).map(|(_, node)| &node.why));
    let soaks = whys().filter(|why| why.reason == Reason::WaitsForWave);
    let opens = whys().filter(|why| why.reason.is_of_hours());
    let soaks = soaks.filter_map(|why| why.until).min();
    let opens = opens.filter_map(|why| why.until).min();
    let owner_uid = observed.uid_of(owner).unwrap_or_default();
    let pace = pace(report, observed, owner_uid, now);
    let begins_again = soaks.into_iter().chain(opens).min().map(until);
    let pace = match (pace, begins_again) {
        // What a wave that soaks lets begin is not foreseen.
        (Some(pace), _) if soaks.is_none() => pace,
        (_, Some(Until { seconds, at })) => return Eta::Opens { seconds, at },
        (_, None) => return Eta::NoneDone,
    };
    let (left_over, opens) = (left(report).count(), opens.map(until));
    let waiting = left(report).filter(|(_, node)| !node.in_flight());
    let calendar = Calendar::of(owner, observed);
    let groups = calendar.of_nodes(waiting.map(|(name, _)| name.as_str()));
    let slots = slots(&pace, now);
    let at_once = slots.len();
    let slots = (slots, !pace.under_way.is_empty());
    let Some((at, openings)) = walk(groups, slots, &pace.took, now) else {
        return Eta::NotInSight {
            left: left_over,
            opens,
        };
    };
    Eta::In {
        seconds: (at.as_second() - now.as_second()).max(0),
        at,
        left: left_over,
        at_once,
        median_seconds: pace.took.median_seconds,
        of: pace.took.of,
        is_earlier: pace.took.is_earlier,
        openings,
        opens,
    }
}

/// The nodes that are yet to change.
fn left(report: &Report) -> impl Iterator<Item = (&String, &NodeReport)> {
    report.nodes.iter().filter(|(_, node)| !node.step.is_terminal())
}

/// What is told of an owner that is done, or that a person or another controller holds up.
fn without_a_pace(report: &Report) -> Option<Eta> {
    let hold = report.hold.as_ref();
    if report.nodes.is_empty()
        && let Some(why) = hold.filter(|why| has_no_end(why, true))
    {
        // Which nodes it means is not even known.
        return Some(Eta::Held(why.reason, why.who()));
    }
    if left(report).next().is_none() {
        return Some(ended(report));
    }
    let in_flight = || left(report).filter(|(_, node)| node.in_flight());
    // The last node is done when each is: one that waits without end holds up the end of all.
    let nodes = left(report).map(|(_, node)| &node.why);
    let mut whys = in_flight().map(|(_, node)| &node.why).chain(hold).chain(nodes);
    let alone = in_flight().next().is_none();
    let endless = whys.find(|why| has_no_end(why, alone) || why.reason.is_of_hours() && why.until.is_none());
    endless.map(|why| Eta::Held(why.reason, why.who()))
}

/// When each of the places of an owner is free: what nodes in flight have left, or as many as had their turn at one time before.
fn slots(pace: &Pace, now: Timestamp) -> Vec<Timestamp> {
    if pace.under_way.is_empty() {
        return vec![now; pace.took.at_once];
    }
    pace.under_way
        .iter()
        .map(|seconds| later(now, *seconds))
        .collect()
}

/// When the last node is done, and in how many openings nodes have their turns; none if the openings in sight end before. Each item is the
/// hours of so many nodes.
fn walk(
    groups: Vec<(Ahead<'_>, usize)>,
    (slots, is_any_in_flight): (Vec<Timestamp>, bool),
    took: &Took,
    now: Timestamp,
) -> Option<(Timestamp, usize)> {
    let (median, forecast) = (took.median_seconds, Some(took.at_most_seconds()));
    let mut done = slots.iter().copied().max().unwrap_or(now);
    let mut free: BinaryHeap<Reverse<Timestamp>> = slots.into_iter().map(Reverse).collect();
    let mut used: BTreeSet<Option<Timestamp>> = BTreeSet::new();
    let mut queues = Vec::new();
    for (ahead, nodes) in groups {
        let opening = ahead.opening(now, forecast)?;
        if is_any_in_flight && opening.from == now && opening.until.is_some() {
            used.insert(opening.until);
        }
        queues.push((ahead, nodes, opening));
    }
    let mut asked = queues.len();
    loop {
        queues.retain(|(_, nodes, _)| *nodes > 0);
        if queues.is_empty() {
            break;
        }
        let Reverse(at) = free.pop()?;
        for (ahead, _, opening) in &mut queues {
            if !opening.has(at) {
                asked += 1;
                *opening = ahead.opening(at, forecast).filter(|_| asked <= OPENINGS)?;
            }
        }
        let begins = |opening: &Opening| opening.from.max(at);
        let first = queues.iter_mut().min_by_key(|(_, _, opening)| begins(opening));
        let (_, nodes, opening) = first?;
        *nodes -= 1;
        // What is open now and has no end is no opening that anybody waits for.
        if opening.until.is_some() || opening.from > now {
            used.insert(opening.until);
        }
        let end = later(begins(opening), median);
        done = done.max(end);
        free.push(Reverse(end));
    }
    // Hours that go on past the end of the work are no bound of it.
    let is_bound = used.len() > 1 || used.iter().flatten().any(|until| *until < done);
    Some((done, if is_bound { used.len() } else { 0 }))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        observed::{ChangeView, Key},
        report::Why,
    };
    use numo_api::{Entry, NodeChangeSpec, NodeChangeStatus, Target};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn owner() -> Owner {
        Owner::run(Key::new("ns", "upgrade"))
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
        // They are believed where the owner's journals are.
        "ns".clone_into(&mut observed.settings.namespace);
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
            misread: None,
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
        assert_eq!(eta(&owner(), &report, &observed, at(1000)), Eta::NoneDone);
        for (name, took) in [("x", 100), ("y", 120), ("z", 900)] {
            node(&mut report, name, Step::Done, Reason::Done);
            journal(&mut observed, name, 0, Some(took));
        }
        node(&mut report, "b", Step::Released, Reason::Changing);
        journal(&mut observed, "b", 950, None);
        let found = eta(&owner(), &report, &observed, at(1000));
        // One waits for its 120 seconds, one has 70 of its own left.
        let wanted = Eta::In {
            seconds: 190,
            at: at(1190),
            left: 2,
            at_once: 1,
            median_seconds: 120,
            of: 3,
            is_earlier: false,
            openings: 0,
            opens: None,
        };
        assert_eq!(found, wanted);
        let pace = pace(&report, &observed, "", at(1000)).unwrap();
        assert_eq!((pace.under_way, pace.took.of), (vec![70], 3));
        assert_eq!(
            found.to_string(),
            "in about 3m10s (00:19 UTC): 2 nodes left, 1 at once, 2m00s per node (median of 3)"
        );
        node(&mut report, "b", Step::Held, Reason::RuleFailed);
        assert_eq!(
            eta(&owner(), &report, &observed, at(1000)),
            Eta::Held(Reason::RuleFailed, Actor::RuleAuthor)
        );
        report.nodes.clear();
        assert_eq!(eta(&owner(), &report, &observed, at(1000)), Eta::Done);
        // Nobody knows the nodes of an owner whose target is missing.
        report.hold = Some(Why::new(Reason::TargetNotFound, ""));
        let found = eta(&owner(), &report, &observed, at(1000));
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
        eta(&owner(), &report, &observed, at(1000))
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
            assert!(found.to_string().starts_with("no end in sight: "), "{found}");
        }
        // Where no node in flight ends it, none is said to.
        let full = Why::new(Reason::BudgetExhausted, "").ended_by(Actor::ClusterAdmin);
        assert_eq!(
            waits(Step::Selected, full).to_string(),
            "no end in sight: BudgetExhausted must be ended by a cluster administrator"
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
            eta(&owner(), &report, &observed, at(1000)),
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
            "in about 1m00s (00:17 UTC): 1 node left, 1 at once, 1m00s per node (median of 1); \
             nodes begin again in 5d00h (1970-01-06 00:16 UTC)"
        );
    }

    #[test]
    fn what_is_over_before_every_node_is_there_is_not_done() {
        let found = waits(Step::Skipped, Why::new(Reason::SkippedByPerson, ""));
        assert_eq!(found, Eta::Over { done: 1, of: 2 });
        assert_eq!(
            found.to_string(),
            "no end in sight: 1 of 2 nodes at the target, and nothing further begins"
        );
        let mut report = Report {
            result: Some(RunResult::Aborted),
            ..Report::default()
        };
        node(&mut report, "x", Step::Done, Reason::Done);
        let found = eta(&owner(), &report, &Observed::default(), at(1000));
        assert_eq!(found, Eta::Over { done: 1, of: 1 });
    }
}
