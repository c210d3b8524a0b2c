//! What happened from one look to the next: lines for the reader, how long nodes wait for what, and
//! whether the run has come to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use numo_api::{Reason, Step};

use super::look::{Look, Row};

/// How long numo must say that it needs a person before the demo ends.
const SETTLED: Duration = Duration::from_secs(4);
/// How long nothing at all may change.
const SILENCE: Duration = Duration::from_mins(1);

/// How the run came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All nodes are at the version.
    Succeeded,
    /// The run goes nowhere, for this reason.
    Stalled {
        /// The reason, if numo gives one.
        reason: Option<Reason>,
        /// In a sentence.
        message: String,
    },
}

/// A line about something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, since the beginning.
    pub at: Duration,
    /// A node, or `run`.
    pub subject: String,
    /// The step, or the run's reason.
    pub step: String,
    /// What happened.
    pub text: String,
}

/// The course of a run.
#[derive(Debug, Default)]
pub struct Course {
    now: Duration,
    changed: Duration,
    stalled: Option<Duration>,
    said: BTreeMap<String, (String, String)>,
    logged: BTreeMap<String, String>,
    steps: BTreeMap<String, (Step, Duration)>,
    waits: BTreeMap<(String, Reason), Duration>,
    /// Everything that happened.
    pub lines: Vec<Line>,
}

impl Course {
    /// Takes in a look.
    pub fn take(&mut self, now: Duration, look: &Look) {
        let passed = now.saturating_sub(self.now);
        self.now = now;
        // A node is done before the run counts it, and before the next one begins.
        let (done, others): (Vec<&Row>, Vec<&Row>) = look.rows.iter().partition(|row| row.step == Step::Done);
        self.take_rows(now, passed, &done, look);
        if let Some(reason) = look.reason {
            self.say("run", reason.name(), &look.message);
        }
        self.take_rows(now, passed, &others, look);
        if look.stalled {
            self.stalled.get_or_insert(now);
        } else {
            self.stalled = None;
        }
    }

    fn take_rows(&mut self, now: Duration, passed: Duration, rows: &[&Row], look: &Look) {
        for row in rows {
            let step = self.steps.entry(row.node.clone()).or_insert((row.step, now));
            if step.0 != row.step {
                *step = (row.step, now);
                self.changed = now;
            }
            if row.waits() || row.is_wrong() {
                *self.waits.entry((row.node.clone(), row.reason)).or_default() += passed;
            }
            if is_worth_a_line(row, look.reason) {
                self.say(&row.node, row.step.name(), &row.doing);
            }
            if let Some(log) = &row.says
                && self.logged.get(&row.node) != Some(log)
            {
                self.logged.insert(row.node.clone(), log.clone());
                self.add(&row.node, row.step.name(), &format!("│ {log}"));
            }
        }
    }

    fn say(&mut self, subject: &str, step: &str, text: &str) {
        let new = (step.to_owned(), text.to_owned());
        if self.said.get(subject) != Some(&new) {
            self.said.insert(subject.to_owned(), new);
            self.add(subject, step, text);
        }
    }

    fn add(&mut self, subject: &str, step: &str, text: &str) {
        self.changed = self.now;
        self.lines.push(Line {
            at: self.now,
            subject: subject.to_owned(),
            step: step.to_owned(),
            text: text.to_owned(),
        });
    }

    /// How long the node has been in its step.
    pub fn in_step(&self, node: &str) -> Duration {
        self.steps
            .get(node)
            .map_or(Duration::ZERO, |(_, since)| self.now.saturating_sub(*since))
    }

    /// How long each node waited for what.
    pub fn waits(&self) -> &BTreeMap<(String, Reason), Duration> {
        &self.waits
    }

    /// Whether the run has come to its end. `upgraded`: the world has all nodes at the version.
    pub fn end(&self, look: &Look, upgraded: bool) -> Option<End> {
        if look.succeeded && upgraded {
            return Some(End::Succeeded);
        }
        if self
            .stalled
            .is_some_and(|since| self.now.saturating_sub(since) >= SETTLED)
        {
            return Some(End::Stalled {
                reason: look.reason,
                message: look.message.clone(),
            });
        }
        (self.now.saturating_sub(self.changed) >= SILENCE).then(|| End::Stalled {
            reason: None,
            message: format!(
                "nothing has changed for {} s; the run says: {}",
                SILENCE.as_secs(),
                look.message
            ),
        })
    }
}

/// That a node waits for its turn, or for what the whole run waits for, need not be said of each.
fn is_worth_a_line(row: &Row, of_the_run: Option<Reason>) -> bool {
    use numo_api::conditions::Actor;
    match row.step {
        Step::Selected => {
            Some(row.reason) != of_the_run
                && matches!(
                    row.reason.who(),
                    Actor::ClusterAdmin | Actor::Approver | Actor::RuleAuthor | Actor::OtherController
                )
        }
        // Over in a moment; and a look that sees a node's lease go before its journal says why takes the
        // end of a turn for its beginning.
        Step::Admitted => row.reason != Reason::Admitting,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: Step, reason: Reason) -> Row {
        Row {
            node: "a".into(),
            version: "1".into(),
            step,
            reason,
            doing: reason.name().into(),
            says: None,
        }
    }

    fn look(rows: Vec<Row>) -> Look {
        Look {
            reason: Some(Reason::Progressing),
            rows,
            ..Look::default()
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn line_comes_only_with_a_change() {
        let mut course = Course::default();
        for second in 0..5 {
            course.take(
                seconds(second),
                &look(vec![row(Step::PreRules, Reason::RuleRunning)]),
            );
        }
        let subjects: Vec<_> = course.lines.iter().map(|line| line.subject.as_str()).collect();
        assert_eq!(subjects, ["run", "a"]);
        course.take(seconds(5), &look(vec![row(Step::Done, Reason::Done)]));
        assert_eq!(course.lines.len(), 3);
        assert_eq!(course.in_step("a"), Duration::ZERO);
    }

    #[test]
    fn node_is_done_before_the_run_counts_it_and_the_next_begins() {
        let named = |node: &str, step, reason| Row {
            node: node.into(),
            ..row(step, reason)
        };
        let mut course = Course::default();
        course.take(
            seconds(0),
            &look(vec![named("b", Step::PostRules, Reason::RuleRunning)]),
        );
        let mut next = look(vec![
            named("a", Step::PreRules, Reason::RuleRunning),
            named("b", Step::Done, Reason::Done),
        ]);
        next.message = "1 of 2 nodes are done".into();
        course.take(seconds(1), &next);
        let subjects: Vec<_> = course.lines.iter().map(|line| line.subject.as_str()).collect();
        assert_eq!(subjects, ["run", "b", "b", "run", "a"]);
    }

    #[test]
    fn being_admitted_is_not_worth_a_line() {
        let mut course = Course::default();
        course.take(seconds(0), &look(vec![row(Step::Admitted, Reason::Admitting)]));
        let subjects: Vec<_> = course.lines.iter().map(|line| line.subject.as_str()).collect();
        assert_eq!(subjects, ["run"]);
    }

    #[test]
    fn waits_add_up_by_reason() {
        let mut course = Course::default();
        for (second, reason) in [(0, Reason::WaitingForTurn), (2, Reason::WaitingForTurn)] {
            course.take(seconds(second), &look(vec![row(Step::Selected, reason)]));
        }
        course.take(
            seconds(5),
            &look(vec![row(Step::Selected, Reason::CordonedByOther)]),
        );
        course.take(seconds(9), &look(vec![row(Step::Done, Reason::Done)]));
        let of = |reason| course.waits()[&("a".to_owned(), reason)];
        assert_eq!(of(Reason::WaitingForTurn), seconds(2));
        assert_eq!(of(Reason::CordonedByOther), seconds(3));
    }

    #[test]
    fn run_ends_when_a_person_is_needed_for_a_while() {
        let mut course = Course::default();
        let mut stalled = look(vec![]);
        stalled.stalled = true;
        stalled.message = "held".into();
        course.take(seconds(1), &stalled);
        assert_eq!(course.end(&stalled, false), None);
        course.take(seconds(2), &look(vec![]));
        course.take(seconds(3), &stalled);
        course.take(seconds(6), &stalled);
        assert_eq!(course.end(&stalled, false), None);
        course.take(seconds(7), &stalled);
        assert!(
            matches!(course.end(&stalled, false), Some(End::Stalled { message, .. }) if message == "held")
        );
    }

    #[test]
    fn success_is_the_worlds_word_too() {
        let mut look = look(vec![]);
        look.succeeded = true;
        let course = Course::default();
        assert_eq!(course.end(&look, false), None);
        assert_eq!(course.end(&look, true), Some(End::Succeeded));
    }
}
