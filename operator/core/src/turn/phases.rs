//! A phase of rules of a node that has its turn with an owner other than a MutexRunConfig: what is asked, journaled and
//! waited for. Nothing here decides what follows.

use crate::{
    action::{Action, Event, EventAction, Planned},
    decision::Decision,
    key::Key,
    observed::{ChangeView, NodeView, Observed, RuleView},
    owner::Owner,
    rules::{self, Progress, Subject},
    text::clip,
    turn::{
        closed, job,
        journal::{self, Journal},
    },
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, Reason, Step, marks::openshift};

/// Whose rules they are, and what is known.
#[derive(Clone, Copy)]
pub(crate) struct Phases<'a> {
    pub owner: &'a Owner,
    pub owner_uid: &'a str,
    pub rules: &'a [(Key, Option<&'a RuleView>)],
    /// Version that the node goes to, if the owner has one.
    pub to_version: &'a str,
    pub observed: &'a Observed,
    pub answers: &'a Answers,
    pub now: Timestamp,
}

/// How a phase came along.
pub(crate) enum Went {
    /// All have passed.
    Passed,
    /// It is not over, and why.
    Waits(Why),
    /// A rule would be next, and nothing may begin: why.
    Closed(Why),
    /// A rule failed for good.
    Failed(FailurePolicy, Why),
}

impl Phases<'_> {
    /// What the rules are asked about.
    pub fn subject<'s>(&'s self, node: &'s NodeView, change: &'s ChangeView) -> Subject<'s> {
        let status = &change.status;
        let last = status
            .verdicts
            .last()
            .and_then(|verdict| journal::time(Some(&verdict.at)));
        Subject {
            owner: self.owner,
            owner_uid: self.owner_uid,
            node: &node.name,
            node_uid: &node.uid,
            hostname: node.label(openshift::HOSTNAME),
            pool: "",
            from_version: status.pin.as_ref().map_or("", |pin| pin.from_version.as_str()),
            to_version: self.to_version,
            run: &change.spec.target.run_id,
            round: status.attempt.max(1),
            since: journal::time(status.since.as_deref()).max(last),
            waits: &status.rule_waits,
        }
    }

    /// How a phase comes along.
    fn progress(&self, (node, change): (&NodeView, &ChangeView), phase: Phase) -> Progress {
        rules::progress(
            self.rules,
            phase,
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        )
    }

    /// Moves a phase along. While `closed` nothing is asked anew.
    pub fn pass(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        (phase, step): (Phase, Step),
        closed: Option<&Why>,
    ) -> Went {
        let progress = self.progress((node, change), phase);
        self.go_on(out, (node, change), (phase, step), closed, progress)
    }

    /// Whether a rule of the phase is to begin next.
    pub fn asks_next(&self, (node, change): (&NodeView, &ChangeView), phase: Phase) -> bool {
        let progress = self.progress((node, change), phase);
        matches!(progress, Progress::Start(_) | Progress::Evaluate(_))
    }

    /// Has rules of these phases asked again whose Pass is too old to go on.
    pub fn confirm(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        phases: &[Phase],
    ) -> Went {
        let stale = rules::stale(
            (self.rules, phases),
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        );
        match stale {
            None => Went::Passed,
            Some((phase, progress)) => {
                self.go_on(out, (node, change), (phase, Step::PreRules), None, progress)
            }
        }
    }

    fn go_on(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        (phase, step): (Phase, Step),
        closed: Option<&Why>,
        progress: Progress,
    ) -> Went {
        if let (Progress::Start(_) | Progress::Evaluate(_), Some(why)) = (&progress, closed) {
            return Went::Closed(why.clone());
        }
        if let (Progress::Wait(rule, _), Some(why)) = (&progress, closed)
            && !closed::keeps(rule)
        {
            return Went::Closed(why.clone());
        }
        let mut journal = Journal::open(change, self.now);
        Went::Waits(match progress {
            Progress::Passed => return Went::Passed,
            Progress::Failed(policy, why) => return Went::Failed(policy, why),
            Progress::Ask(question) => {
                out.questions.push(question);
                Why::new(Reason::RuleRunning, "its result is being read")
            }
            Progress::Wait(why, wake) => {
                if closed.is_none() {
                    closed::reopen(out, change, self.now);
                }
                if let Some(at) = wake {
                    out.wake(at);
                }
                why
            }
            Progress::Start(mut job) => {
                let own = job.hostname.clone();
                let hosts = job::hosts_in_flight(self.observed);
                let others = hosts.into_iter().filter(|host| *host != own);
                job.avoid = others.map(ToOwned::to_owned).collect();
                let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
                out.actions.push(Planned {
                    chain: node.name.clone(),
                    action: Action::CreateJob(job),
                    event: None,
                });
                why
            }
            Progress::Evaluate(request) => {
                let why = Why::new(
                    Reason::RuleStarting,
                    format!("rule {} is being asked", request.rule),
                );
                out.questions.push(Question::Evaluate(request));
                why
            }
            Progress::Note(wait, why) => {
                journal.note(wait);
                out.actions.extend(journal.planned(None));
                why
            }
            Progress::Record(verdict, log) => {
                let passed = verdict.outcome == Outcome::Pass;
                let said = log
                    .as_deref()
                    .and_then(|log| log.lines().rfind(|line| !line.trim().is_empty()))
                    .or(verdict.message.as_deref())
                    .unwrap_or_default();
                let word = if passed { "passed" } else { "failed" };
                let note = format!(
                    "rule {} {word} in phase {}: {}",
                    verdict.rule,
                    phase.name(),
                    clip(said.trim(), 256)
                );
                let event = Event {
                    node: Some(node.name.clone()),
                    warning: !passed,
                    reason: if passed { "RulePassed" } else { "RuleFailed" },
                    action: EventAction::EvaluateRule,
                    note: note.clone(),
                };
                journal.record(*verdict, log);
                if change.status.step != Some(step) {
                    journal.enter(step, None);
                }
                out.actions.extend(journal.planned(Some(event)));
                Why::new(Reason::RuleRunning, note)
            }
        })
    }
}
