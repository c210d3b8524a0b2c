//! A phase of rules of a node that has its turn, whoever the owner is: what is asked, journaled and waited for. Nothing here decides
//! what follows.

use crate::{
    action::{Action, Event, EventAction, JobRequest, Planned},
    decision::Decision,
    key::Key,
    observed::{ChangeView, NodeView, Observed, RuleView},
    owner::Owner,
    rules::{self, Inquiry, Progress, Subject},
    text::clip,
    turn::{
        closed, job,
        journal::{self, Journal},
    },
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, Reason, Step, VerdictRecord};

/// Whose rules they are, and what is known.
#[derive(Clone, Copy, Debug)]
pub struct Phases<'a> {
    /// The owner, by name.
    pub owner: &'a Owner,
    /// uid of the owner.
    pub owner_uid: &'a str,
    /// The rules, in order; none of a rule that was not seen.
    pub rules: &'a [(Key, Option<&'a RuleView>)],
    /// The node's home pool, if the owner has pools.
    pub pool: &'a str,
    /// Version that the node goes to, if the owner has one.
    pub to_version: &'a str,
    /// What was seen.
    pub observed: &'a Observed,
    /// What was asked and answered.
    pub answers: &'a Answers,
    /// The API server's time.
    pub now: Timestamp,
}

/// A phase, and the steps that its verdicts are journaled with.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// The phase.
    pub phase: Phase,
    /// The step of a node that has a verdict of the phase, if its journal is to say so.
    pub step: Option<Step>,
    /// The step that begins with the last Pass, so that it needs no write of its own.
    pub then: Option<Step>,
}

impl At {
    /// A phase whose verdicts are journaled in whatever step the node is; with the last Pass this one begins, if any.
    pub const fn then(phase: Phase, then: Option<Step>) -> Self {
        Self {
            phase,
            step: None,
            then,
        }
    }
}

/// How a phase came along.
#[derive(Debug)]
pub enum Went {
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
        Subject {
            pool: self.pool,
            from_version: status.pin.as_ref().map_or("", |pin| pin.from_version.as_str()),
            to_version: self.to_version,
            run: &change.spec.target.run_id,
            round: status.attempt.max(1),
            since: journal::time(status.since.as_deref()).max(journal::last_verdict(change)),
            waits: &status.rule_waits,
            ..Subject::waiting(self.owner, self.owner_uid, node, 0)
        }
    }

    /// How a phase comes along.
    pub fn progress(&self, (node, change): (&NodeView, &ChangeView), phase: Phase) -> Progress {
        let inquiry = self.inquiry((node, change), &change.status.verdicts);
        rules::progress(self.rules, phase, &inquiry)
    }

    /// What the rules are asked about, and all that tells how they come along.
    fn inquiry<'s>(
        &'s self,
        (node, change): (&'s NodeView, &'s ChangeView),
        verdicts: &'s [VerdictRecord],
    ) -> Inquiry<'s> {
        Inquiry {
            subject: self.subject(node, change),
            verdicts,
            observed: self.observed,
            answers: self.answers,
            now: self.now,
        }
    }

    /// Why nothing begins on the node beside a Job of a rule that runs from before this attempt.
    pub fn earlier(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        is_released: bool,
    ) -> Option<Why> {
        let inquiry = self.inquiry((node, change), &change.status.verdicts);
        let (why, again) = rules::earlier(&inquiry, is_released)?;
        if let Some(at) = again {
            out.wake(at);
        }
        Some(why)
    }

    /// Why the turn stays as it is: a Job of the rule that is next may run where numo cannot see it. Another would begin beside it, or
    /// another owner have the node under it.
    pub fn unseen(&self, (node, change): (&NodeView, &ChangeView)) -> Option<Why> {
        let mut known = self.rules.iter().filter_map(|(_, rule)| *rule);
        if !known.any(|rule| rule.unseen.is_some()) {
            return None;
        }
        let all = rules::BEFORE_RELEASE.into_iter();
        let mut all = all.map(|phase| self.progress((node, change), phase));
        let next = all.find(|progress| *progress != Progress::Passed)?;
        let Progress::Start(job) = next else { return None };
        let words = self.observed.rules.get(&job.rule)?.unseen.as_ref()?;
        let message = format!("rule {}, phase {}: {words}", job.rule, job.phase.name());
        Some(Why::new(Reason::ListFailed, message))
    }

    /// Moves a phase along. While `closed` nothing is asked anew.
    pub fn pass(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        at: At,
        closed: Option<&Why>,
    ) -> Went {
        let progress = self.progress((node, change), at.phase);
        self.go_on(out, (node, change), at, closed, progress)
    }

    /// Has rules of these phases asked again whose Pass is too old to go on; verdicts are journaled in `step`.
    pub fn confirm(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        (phases, step): (&[Phase], Option<Step>),
    ) -> Went {
        let inquiry = self.inquiry((node, change), &change.status.verdicts);
        match rules::stale(self.rules, phases, &inquiry) {
            None => Went::Passed,
            Some((phase, progress)) => {
                let at = At {
                    phase,
                    step,
                    then: None,
                };
                self.go_on(out, (node, change), at, None, progress)
            }
        }
    }

    /// The same for a phase whose progress is known.
    pub fn go_on(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        at: At,
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
            Progress::Start(job) => self.start(out, node, job),
            Progress::Evaluate(request) => {
                let why = Why::new(
                    Reason::RuleStarting,
                    format!("rule {} is being evaluated", request.rule),
                );
                out.questions.push(Question::Evaluate(request));
                why
            }
            Progress::Note(wait, why) => {
                journal.note(wait);
                out.actions.extend(journal.planned(None));
                why
            }
            Progress::Record(verdict, log) => self.record(out, (node, change), at, *verdict, log),
        })
    }

    /// Starts the Job of a rule, whose pods keep off other nodes in flight. What is said of it.
    fn start(&self, out: &mut Decision, node: &NodeView, mut job: Box<JobRequest>) -> Why {
        let own = job.hostname.clone();
        let hosts = job::hosts_in_flight(self.observed);
        let others = hosts.into_iter().filter(|host| *host != own);
        job.avoid = others.map(ToOwned::to_owned).collect();
        let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
        out.actions.push(Planned::of(&node.name, Action::CreateJob(job)));
        why
    }

    /// Writes a verdict down. What is said of it.
    fn record(
        &self,
        out: &mut Decision,
        (node, change): (&NodeView, &ChangeView),
        at: At,
        verdict: VerdictRecord,
        log: Option<String>,
    ) -> Why {
        let passed = verdict.outcome == Outcome::Pass;
        let note = words(&verdict, log.as_deref());
        let why = Why::new(Reason::RuleRunning, note.as_str());
        let event = Event {
            node: Some(node.name.clone()),
            warning: !passed,
            reason: if passed { "RulePassed" } else { "RuleFailed" },
            action: EventAction::EvaluateRule,
            note,
        };
        let goes_on = verdict.outcome != Outcome::Failure;
        let mut journal = Journal::open(change, self.now);
        journal.record(verdict, log);
        if let Some(step) = at.step.filter(|step| change.status.step != Some(*step)) {
            journal.enter(step, None);
        }
        let then = at.then.filter(|_| goes_on);
        if let Some(then) = then.filter(|_| self.is_over((node, change), at.phase, &journal)) {
            journal.enter(then, None);
        }
        out.actions.extend(journal.planned(Some(event)));
        why
    }

    /// Whether every rule of the phase has passed with what the journal has by now.
    fn is_over(&self, (node, change): (&NodeView, &ChangeView), phase: Phase, journal: &Journal<'_>) -> bool {
        let inquiry = self.inquiry((node, change), &journal.status.verdicts);
        matches!(rules::progress(self.rules, phase, &inquiry), Progress::Passed)
    }
}

/// A verdict in a sentence: the rule, its phase, and the last line of what it said; of a failure the attempt and the reason too.
fn words(verdict: &VerdictRecord, log: Option<&str>) -> String {
    let (rule, phase) = (&verdict.rule, verdict.phase.name());
    let said = log
        .and_then(|log| log.lines().rfind(|line| !line.trim().is_empty()))
        .or(verdict.message.as_deref().filter(|_| verdict.job.is_none()))
        .map_or("", str::trim);
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {}", clip(said, 256))
    };
    if verdict.outcome == Outcome::Pass {
        return format!("rule {rule} passed in phase {phase}{said}");
    }
    let code = verdict
        .exit_code
        .map_or_else(String::new, |code| format!(", exit code {code}"));
    format!(
        "rule {rule} failed in phase {phase}, attempt {}, {}{code}{said}",
        verdict.attempt, verdict.reason
    )
}
