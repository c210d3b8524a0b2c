//! The rules that are asked once per run, before its first node and after its last.

use super::{
    draft::{Draft, asks},
    frame::Frame,
};
use crate::{
    action::{Action, Event, EventAction, JobRequest},
    key::Key,
    observed::RuleView,
    rules::{self, Progress, Subject},
    turn::{job, journal},
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Outcome, Phase, Reason, RunStatus, Step, VerdictRecord};

/// Asks the rules that are asked once per run: what holds the run until they have passed. A PostRun
/// rule's failure is recorded and holds nothing.
pub(super) fn run_rules_hold(draft: &mut Draft<'_>, phase: Phase) -> Option<Why> {
    let frame = draft.frame;
    let asked = frame
        .intent
        .rules
        .iter()
        .any(|(_, rule)| rule.is_some_and(|rule| rule.runs_in(phase)));
    if !asked {
        return None;
    }
    let asked_with = (draft.answers, has_begun(frame));
    match progress(frame, &frame.intent.rules, phase, asked_with) {
        Progress::Passed => None,
        Progress::Failed(_, why) if phase == Phase::PostRun => {
            draft.out.report.hold = Some(Why::new(Reason::RuleContinuedAfterFailure, why.message));
            None
        }
        Progress::Failed(_, why) => {
            let ways = format!("{}; {}", why.message, draft.frame.ways_to_ask_again());
            Some(Why::new(why.reason, ways))
        }
        Progress::Wait(why, wake) => {
            if let Some(at) = wake {
                draft.wake(at);
            }
            Some(why)
        }
        Progress::Ask(question) => {
            draft.out.questions.push(question);
            let why = Why::new(Reason::RuleRunning, "the result of a rule is being read");
            Some(why)
        }
        Progress::Start(job) => Some(start(draft, job)),
        Progress::Evaluate(request) => Some(asks(draft, request)),
        Progress::Note(wait, why) => {
            let mut status = run_status(draft.frame);
            journal::note(&mut status.rule_waits, wait);
            record_run(draft, status, None);
            Some(why)
        }
        Progress::Record(verdict, _) => {
            let why = Why::new(
                Reason::RuleRunning,
                format!(
                    "rule {} ended in phase {}: {}",
                    verdict.rule,
                    phase.name(),
                    verdict.reason
                ),
            );
            record_run_verdict(draft, *verdict);
            Some(why)
        }
    }
}

/// Starts the Job of a rule. Nodes of other owners may be in flight, and those of this run when a rule is asked again: its pods keep off
/// them.
fn start(draft: &mut Draft<'_>, mut job: Box<JobRequest>) -> Why {
    let hosts = job::hosts_in_flight(draft.frame.observed);
    job.avoid = hosts.into_iter().map(ToOwned::to_owned).collect();
    let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
    draft.act("run", Action::CreateJob(job), None);
    why
}

/// How the rules that are asked once per run come along.
fn progress(
    frame: &Frame<'_>,
    all: &[(Key, Option<&RuleView>)],
    phase: Phase,
    (answers, begun): (&Answers, bool),
) -> Progress {
    let subject = run_subject(frame);
    let (verdicts, observed, now) = (frame.run_verdicts, frame.observed, frame.now);
    match rules::progress(all, phase, verdicts, &subject, observed, answers, now) {
        Progress::Passed if phase == Phase::PreRun => aged(frame, &subject, answers, begun),
        other => other,
    }
}

/// What keeps nodes that have their turn from their release: a PreRun rule that this run has asked no longer stands by its
/// Pass. It was edited, a person has it asked again, or it failed since. One that came later counts for nodes that are admitted
/// later (ADR 6).
pub(super) fn no_longer_passed(frame: &Frame<'_>, answers: &Answers) -> Option<Why> {
    let asked = |key: &Key| {
        let name = key.to_string();
        let mut verdicts = frame.run_verdicts.iter();
        verdicts.any(|verdict| verdict.phase == Phase::PreRun && verdict.rule == name)
    };
    let rules = frame.intent.rules.iter();
    let known: Vec<_> = rules.filter(|(key, _)| asked(key)).cloned().collect();
    let again = |rule: &Key| {
        let message = format!("rule {rule} of phase PreRun is asked again before any node is released");
        Some(Why::new(Reason::RuleRunning, message))
    };
    // Nobody's age counts for those that have their turn: it would send them back again and again.
    match progress(frame, &known, Phase::PreRun, (answers, true)) {
        Progress::Passed => None,
        Progress::Failed(_, why) | Progress::Wait(why, _) | Progress::Note(_, why) => Some(why),
        Progress::Start(job) => again(&job.rule),
        Progress::Evaluate(request) => again(&request.rule),
        Progress::Record(..) | Progress::Ask(_) => Some(Why::new(
            Reason::RuleRunning,
            "the result of a rule of phase PreRun is being read",
        )),
    }
}

/// Rules of phase PreRun whose Pass no longer counts, asked again: one that has grown old before the first node of the run
/// was begun, and one of another edition of the rule at any time.
fn aged(frame: &Frame<'_>, subject: &Subject<'_>, answers: &Answers, begun: bool) -> Progress {
    let no_longer_counts = |rule: &RuleView| {
        let last = rules::last_word(frame.run_verdicts, &rule.key, Phase::PreRun, subject.round);
        let passed = last.filter(|verdict| verdict.outcome == Outcome::Pass);
        passed.is_some_and(|verdict| {
            let is_of_now = verdict.edition.as_deref() == Some(rule.edition().as_str());
            !(begun && is_of_now)
        })
    };
    let old: Vec<_> = frame
        .intent
        .rules
        .iter()
        .filter(|(_, rule)| rule.is_some_and(no_longer_counts))
        .cloned()
        .collect();
    let stale = rules::stale(
        (&old, &[Phase::PreRun]),
        frame.run_verdicts,
        subject,
        frame.observed,
        answers,
        frame.now,
    );
    stale.map_or(Progress::Passed, |(_, progress)| progress)
}

/// Whether a node of the run was begun.
fn has_begun(frame: &Frame<'_>) -> bool {
    frame.changes().any(|change| {
        change.spec.target.run_id == frame.run_id
            && !matches!(change.status.step, None | Some(Step::Selected | Step::Admitted))
    })
}

/// What rules that are asked once per run are asked about.
fn run_subject<'a>(frame: &'a Frame<'_>) -> Subject<'a> {
    Subject {
        owner: frame.owner,
        owner_uid: &frame.run.uid,
        node: "",
        node_uid: "",
        hostname: "",
        pool: "",
        from_version: "",
        to_version: frame.desired.as_deref().unwrap_or_default(),
        run: &frame.run_id,
        round: frame.run_round,
        since: run_waits_since(frame),
        waits: frame.run_waits,
    }
}

/// Since when a rule of the run can have been waited for: since the run began, its last verdict was written
/// down, or its last node moved.
fn run_waits_since(frame: &Frame<'_>) -> Option<Timestamp> {
    let run = frame.run.status.run.as_ref().filter(|run| run.id == frame.run_id);
    let begun = run.and_then(|run| journal::time(run.started_at.as_deref()));
    let verdicts = frame
        .run_verdicts
        .iter()
        .map(|verdict| journal::time(Some(&verdict.at)));
    let moves = frame
        .changes()
        .filter(|change| change.spec.target.run_id == frame.run_id)
        .map(|change| journal::time(change.status.since.as_deref()));
    verdicts.chain(moves).chain([begun]).flatten().max()
}

/// The Jobs of the run's own rules whose ends are yet to be written down.
pub(super) fn awaited_run_jobs(frame: &Frame<'_>) -> impl Iterator<Item = Key> {
    let rules = frame.intent.rules.iter().filter_map(|(_, rule)| *rule);
    rules.flat_map(|rule| {
        [Phase::PreRun, Phase::PostRun]
            .into_iter()
            .filter(|phase| rule.runs_in(*phase))
            .map(|phase| rules::next_job(rule, phase, frame.run_verdicts, &run_subject(frame)).1)
            .collect::<Vec<_>>()
    })
}

/// The status of this run, to be added to.
fn run_status(frame: &Frame<'_>) -> RunStatus {
    let last = frame.run.status.run.clone();
    let last = last.filter(|last| last.id == frame.run_id).unwrap_or_default();
    RunStatus {
        id: frame.run_id.clone(),
        target: frame.desired.clone().unwrap_or_default(),
        ..last
    }
}

fn record_run(draft: &mut Draft<'_>, status: RunStatus, event: Option<Event>) {
    draft.out.report.run_verdicts.clone_from(&status.verdicts);
    draft.out.report.run_waits.clone_from(&status.rule_waits);
    let action = Action::RecordRun {
        owner: draft.frame.run.key.clone(),
        run: Box::new(status),
    };
    draft.act("run", action, event);
}

fn record_run_verdict(draft: &mut Draft<'_>, verdict: VerdictRecord) {
    let mut status = run_status(draft.frame);
    let note = format!(
        "rule {} ended: {:?} ({})",
        verdict.rule, verdict.outcome, verdict.reason
    );
    let event = Event {
        node: None,
        warning: verdict.outcome != numo_api::Outcome::Pass,
        reason: if verdict.outcome == numo_api::Outcome::Pass {
            "RulePassed"
        } else {
            "RuleFailed"
        },
        action: EventAction::EvaluateRule,
        note,
    };
    journal::ended(&mut status.rule_waits, &verdict.rule, verdict.phase);
    journal::keep(&mut status.verdicts, verdict);
    record_run(draft, status, Some(event));
}
