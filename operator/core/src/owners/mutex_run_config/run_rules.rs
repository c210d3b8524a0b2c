//! The rules that are asked once per run, before its first node and after its last.

use super::{
    gates,
    member::Member,
    run_decision::{RunDecision, asks},
    run_view::RunView,
    waves::stand,
};
use crate::{
    action::{Action, Event, EventAction, JobRequest},
    admit::{rows::Stand, waves::Waves},
    key::Key,
    observed::RuleView,
    rules::{self, Inquiry, Progress, Subject},
    turn::{job, journal},
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Outcome, Phase, Reason, RunStatus, Step, VerdictRecord};

/// Asks the rules that are asked once per run: what holds the run until they have passed. Before the first node nothing is asked anew while
/// the run is `unapproved`. A PostRun rule's failure is recorded and holds nothing.
pub(super) fn run_rules_hold(
    decision: &mut RunDecision<'_>,
    phase: Phase,
    unapproved: Option<Why>,
) -> Option<Why> {
    let view = decision.view;
    if !rules::any_runs_in(&view.intent.rules, phase) {
        return None;
    }
    let now = match progress(view, &view.intent.rules, phase, decision.answers) {
        // Those that are due are asked by the first node that could begin.
        Progress::Passed if phase == Phase::PreRun => {
            grown_old(view, decision.answers).filter(|old| !is_asking(old))
        }
        other => Some(other),
    };
    if let Some(why) = not_yet(decision, phase, now.as_ref(), unapproved) {
        return Some(why);
    }
    match now.unwrap_or(Progress::Passed) {
        Progress::Passed => None,
        Progress::Failed(_, why) if phase == Phase::PostRun => {
            decision.out.report.hold = Some(Why::new(Reason::RuleContinuedAfterFailure, why.message));
            None
        }
        Progress::Failed(_, why) => Some(failed(view, &why)),
        Progress::Wait(why, wake) => {
            if let Some(at) = wake {
                decision.wake(at);
            }
            Some(why)
        }
        Progress::Ask(question) => {
            decision.out.questions.push(question);
            let why = Why::new(Reason::RuleRunning, "the result of a rule is being read");
            Some(why)
        }
        Progress::Start(job) => Some(start(decision, job)),
        Progress::Evaluate(request) => Some(asks(decision, request)),
        Progress::Note(wait, why) => {
            let mut status = run_status(decision.view);
            journal::note(&mut status.rule_waits, wait);
            record_run(decision, "run", status, None);
            Some(why)
        }
        Progress::Record(verdict, _) => {
            let (rule, reason) = (&verdict.rule, &verdict.reason);
            let message = format!("rule {rule} ended in phase {}: {reason}", phase.name());
            let why = Why::new(Reason::RuleRunning, message);
            record_run_verdict(decision, *verdict);
            Some(why)
        }
    }
}

fn failed(view: &RunView<'_>, why: &Why) -> Why {
    let ways = format!("{}; {}", why.message, view.ways_to_ask_again());
    Why::new(why.reason, ways)
}

/// All that keeps the run as a whole, worst first, and last what rules of phase PreRun have said: while something else holds the run they are
/// asked nothing.
pub(super) fn all_holds(view: &RunView<'_>, waves: &Waves<'_>, answers: &Answers) -> Vec<Why> {
    let said = match progress(view, &view.intent.rules, Phase::PreRun, answers) {
        Progress::Failed(_, why) => Some(failed(view, &why)),
        Progress::Wait(why, _) => Some(why),
        _ => None,
    };
    let mut all = gates::run::all_holds(view, waves);
    // That a rule is not there is said of the run itself.
    let said = said.filter(|said| all.iter().all(|why| why.reason != said.reason));
    all.extend(said);
    all
}

/// Asks rules of phase PreRun again whose Pass has grown old before the first node of the run, as a node could begin now. While none
/// can, nobody asks them: they would be asked for days, each time for nothing. Why the node is to wait, if it is.
pub(super) fn ask_again_first(decision: &mut RunDecision<'_>) -> Option<Why> {
    let why = match grown_old(decision.view, decision.answers)? {
        Progress::Start(job) => start(decision, job),
        Progress::Evaluate(request) => asks(decision, request),
        _ => return None,
    };
    decision.out.report.hold = Some(why.clone());
    Some(why)
}

/// Why a rule that is to be asked before the first node waits, for the hours or for a person's word. A backup before the run is of no use
/// days before it.
fn not_yet(
    decision: &mut RunDecision<'_>,
    phase: Phase,
    next: Option<&Progress>,
    unapproved: Option<Why>,
) -> Option<Why> {
    if phase != Phase::PreRun || !next.is_some_and(is_asking) || decision.view.in_flight() > 0 {
        return None;
    }
    let why = closed_to_all(decision.view).or(unapproved)?;
    if let Some(at) = why.until {
        decision.wake(at);
    }
    Some(why)
}

/// Why no node of the run begins by the hours, those of the run or of its nodes. Nodes that the run goes on without have no say.
fn closed_to_all(view: &RunView<'_>) -> Option<Why> {
    view.intent.schedule.closed(view.now).or_else(|| {
        let elsewhere = gates::run::held_elsewhere(view);
        let is_behind = |member: &&Member<'_>| {
            let is_elsewhere = elsewhere.contains_key(member.pool.name.as_str());
            matches!(stand(view, member, is_elsewhere), Stand::Behind { .. })
        };
        let behind = view.members.iter().filter(is_behind);
        let closed: Option<Vec<Why>> = behind.map(|member| view.closed_to(member.node)).collect();
        let first = closed?.into_iter();
        first.min_by_key(|why| (why.until.is_none(), why.until))
    })
}

/// Whether a rule is to be asked now.
fn is_asking(progress: &Progress) -> bool {
    matches!(progress, Progress::Start(_) | Progress::Evaluate(_))
}

/// Starts the Job of a rule. Nodes of other owners may be in flight, and those of this run when a rule is asked again: its pods keep off
/// them.
fn start(decision: &mut RunDecision<'_>, mut job: Box<JobRequest>) -> Why {
    let hosts = job::hosts_in_flight(decision.view.observed);
    job.avoid = hosts.into_iter().map(ToOwned::to_owned).collect();
    let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
    decision.act("run", Action::CreateJob(job), None);
    why
}

/// How the rules that are asked once per run come along.
fn progress(
    view: &RunView<'_>,
    all: &[(Key, Option<&RuleView>)],
    phase: Phase,
    answers: &Answers,
) -> Progress {
    let inquiry = inquiry(view, answers);
    let next = match rules::progress(all, phase, &inquiry) {
        Progress::Passed if phase == Phase::PreRun => {
            let edited = |rule: &RuleView, verdict: &VerdictRecord| {
                verdict.edition.as_deref() != Some(rule.edition().as_str())
            };
            asked_again(view, answers, edited).unwrap_or(Progress::Passed)
        }
        other => other,
    };
    let earlier = is_asking(&next)
        .then(|| rules::earlier(&inquiry, false))
        .flatten();
    earlier.map_or(next, |(why, again)| Progress::Wait(why, again))
}

/// What keeps nodes that have their turn from their release: a PreRun rule that this run has asked no longer stands by its
/// Pass. It was edited, a person has it asked again, or it failed since. One that came later counts for nodes that are admitted
/// later (ADR 6).
pub(super) fn no_longer_passed(view: &RunView<'_>, answers: &Answers) -> Option<Why> {
    let asked = |key: &Key| {
        let name = key.to_string();
        let mut verdicts = view.run_verdicts.iter();
        verdicts.any(|verdict| verdict.phase == Phase::PreRun && verdict.rule == name)
    };
    let rules = view.intent.rules.iter();
    let known: Vec<_> = rules.filter(|(key, _)| asked(key)).cloned().collect();
    let again = |rule: &Key| {
        let message = format!("rule {rule} of phase PreRun is evaluated again before any node is released");
        Some(Why::new(Reason::RuleRunning, message))
    };
    // Nobody's age counts for those that have their turn: it would send them back again and again.
    match progress(view, &known, Phase::PreRun, answers) {
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

/// How rules of phase PreRun come along whose Pass may have grown old: until the first node of the run is begun.
fn grown_old(view: &RunView<'_>, answers: &Answers) -> Option<Progress> {
    if has_begun(view) {
        return None;
    }
    asked_again(view, answers, |_, _| true)
}

/// What is asked of rules of the run itself.
fn inquiry<'a>(view: &'a RunView<'_>, answers: &'a Answers) -> Inquiry<'a> {
    Inquiry {
        subject: run_subject(view),
        verdicts: view.run_verdicts,
        observed: view.observed,
        answers,
        now: view.now,
    }
}

/// Rules of phase PreRun with a Pass that may no longer count, asked again if it does not.
fn asked_again(
    view: &RunView<'_>,
    answers: &Answers,
    may_be_old: impl Fn(&RuleView, &VerdictRecord) -> bool,
) -> Option<Progress> {
    let no_longer_counts = |rule: &RuleView| {
        let last = rules::last_word(view.run_verdicts, &rule.key, Phase::PreRun, view.run_round);
        let passed = last.filter(|verdict| verdict.outcome == Outcome::Pass);
        passed.is_some_and(|verdict| may_be_old(rule, verdict))
    };
    let rules = view.intent.rules.iter();
    let old: Vec<_> = rules
        .filter(|(_, rule)| rule.is_some_and(no_longer_counts))
        .cloned()
        .collect();
    let stale = rules::stale(&old, &[Phase::PreRun], &inquiry(view, answers));
    stale.map(|(_, progress)| progress)
}

/// Whether a node of the run was begun.
fn has_begun(view: &RunView<'_>) -> bool {
    view.changes().any(|change| {
        change.spec.target.run_id == view.run_id
            && !matches!(change.status.step, None | Some(Step::Selected | Step::Admitted))
    })
}

/// What rules that are asked once per run are asked about.
fn run_subject<'a>(view: &'a RunView<'_>) -> Subject<'a> {
    Subject {
        owner: view.owner,
        owner_uid: &view.run.uid,
        node: "",
        node_uid: "",
        hostname: "",
        pool: "",
        from_version: "",
        to_version: view.desired.as_deref().unwrap_or_default(),
        run: &view.run_id,
        round: view.run_round,
        since: run_waits_since(view),
        waits: view.run_waits,
    }
}

/// Since when a rule of the run can have been waited for: since the run began, its last verdict was written
/// down, or its last node moved.
fn run_waits_since(view: &RunView<'_>) -> Option<Timestamp> {
    let run = view.run.status.run.as_ref().filter(|run| run.id == view.run_id);
    let begun = run.and_then(|run| journal::time(run.started_at.as_deref()));
    let run_verdicts = view.run_verdicts.iter();
    let verdicts = run_verdicts.map(|verdict| journal::time(Some(&verdict.at)));
    let moves = view
        .changes()
        .filter(|change| change.spec.target.run_id == view.run_id)
        .map(|change| journal::time(change.status.since.as_deref()));
    verdicts.chain(moves).chain([begun]).flatten().max()
}

/// The Jobs of the run's own rules whose ends are yet to be written down.
pub(super) fn awaited_run_jobs(view: &RunView<'_>) -> impl Iterator<Item = Key> {
    let rules = view.intent.rules.iter().filter_map(|(_, rule)| *rule);
    rules.flat_map(|rule| {
        [Phase::PreRun, Phase::PostRun]
            .into_iter()
            .filter(|phase| rule.runs_in(*phase))
            .map(|phase| rules::next_job(rule, phase, view.run_verdicts, &run_subject(view)))
            .collect::<Vec<_>>()
    })
}

/// The status of this run, to be added to.
pub(super) fn run_status(view: &RunView<'_>) -> RunStatus {
    let last = view.run.status.run.clone();
    let last = last.filter(|last| last.id == view.run_id).unwrap_or_default();
    RunStatus {
        id: view.run_id.clone(),
        target: view.desired.clone().unwrap_or_default(),
        ..last
    }
}

/// Writes the status of the run, in this chain.
pub(super) fn record_run(
    decision: &mut RunDecision<'_>,
    chain: &str,
    status: RunStatus,
    event: Option<Event>,
) {
    decision.out.report.run_verdicts.clone_from(&status.verdicts);
    decision.out.report.run_waits.clone_from(&status.rule_waits);
    let action = Action::RecordRun {
        owner: decision.view.run.key.clone(),
        run: Box::new(status),
    };
    decision.act(chain, action, event);
}

fn record_run_verdict(decision: &mut RunDecision<'_>, verdict: VerdictRecord) {
    let mut status = run_status(decision.view);
    let passed = verdict.outcome == Outcome::Pass;
    let note = format!(
        "rule {} ended: {:?} ({})",
        verdict.rule, verdict.outcome, verdict.reason
    );
    let event = Event {
        node: None,
        warning: !passed,
        reason: if passed { "RulePassed" } else { "RuleFailed" },
        action: EventAction::EvaluateRule,
        note,
    };
    journal::ended(&mut status.rule_waits, &verdict.rule, verdict.phase);
    journal::keep(&mut status.verdicts, verdict);
    record_run(decision, "run", status, Some(event));
}
