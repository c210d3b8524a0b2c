//! How a phase of rules comes along, from its Jobs, its evaluations and the verdicts in a journal. Pure observation: it
//! says what to do next and does nothing.

pub use crate::observed::EVALUATED_PASS_SECONDS;
use crate::{
    action::{Earlier, EarlierWord, EvaluationRequest, JobRequest},
    key::Key,
    names::{self, JobIdentity},
    observed::{EvaluationView, JobEnd, JobView, Observed, RuleAnswer, RuleView, RuleWords, Validity},
    owner::Owner,
    ready,
    verdict::{Answers, Question},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, Reason, RuleWait, VerdictRecord, conditions::Actor};

pub use crate::{
    text::clip,
    time::{STUCK_SECONDS, later},
};

/// How long after its deadline a Job may take to be marked Failed by the Job controller (seconds),
/// before numo records the timeout itself.
const DEADLINE_GRACE_SECONDS: i64 = 60;
/// Bounds of what a rule asks to wait before it is asked again (seconds).
const RETRY_AFTER_SECONDS: (i64, i64) = (5, 3600);
/// Nodes that rules of phase Admit are asked about at once: a rule that is against all of 7,500 nodes is not to be asked
/// about all of them in one moment.
const ASKED_AT_ONCE: usize = 32;
/// Least pause before a rule is asked again because what it read has changed (seconds).
const STIRRED_SECONDS: i64 = 1;
/// First and longest pause before a rule is asked again that gave no verdict (seconds).
const NO_VERDICT_SECONDS: (i64, i64) = (5, 300);
/// How old what a rule has read may be when its Pass is taken.
pub const PASS: std::time::Duration = std::time::Duration::from_mins(1);
/// Default of `passSeconds` of a rule that runs a Job (seconds).
pub const JOB_PASS_SECONDS: i64 = 600;
/// How far ahead of the API server's time a verdict may be (seconds): API servers may differ by so much. What is of a later time was not
/// given yet.
const AHEAD_SECONDS: i64 = 60;
/// Longest message of a verdict (characters), as the NodeChange schema bounds it.
const MESSAGE_MAX: usize = 512;

/// What the rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// uid of the owner.
    pub owner_uid: &'a str,
    /// The node; name and uid are empty for rules that are asked once per run.
    pub node: &'a str,
    /// uid of the node.
    pub node_uid: &'a str,
    /// Host name label of the node.
    pub hostname: &'a str,
    /// Home pool.
    pub pool: &'a str,
    /// Version the node comes from.
    pub from_version: &'a str,
    /// Version the node goes to.
    pub to_version: &'a str,
    /// Id of the run.
    pub run: &'a str,
    /// Attempt of the node, from 1.
    pub round: i32,
    /// Since when the node waits for the next rule: since its step began, or since the last verdict.
    pub since: Option<Timestamp>,
    /// Since when rules have made it wait, as it is written down: no restart begins their timeouts anew.
    pub waits: &'a [RuleWait],
}

/// Phases in which a rule can still keep a node from being disrupted.
const BEFORE_DISRUPTION: [Phase; 4] = [Phase::Admit, Phase::PreRun, Phase::Pre, Phase::PreRelease];

/// What is wrong with a rule that a field names, for an owner of a kind that asks rules in these phases.
pub fn wrong(
    field: &str,
    key: &Key,
    rule: Option<&RuleView>,
    (phases, kind): (&[Phase], &str),
) -> Option<Why> {
    let (reason, message) = match rule.map(|rule| &rule.validity) {
        None => (
            Reason::RuleNotFound,
            format!("{field}: found no MutexRule {key}, wanted an existing one"),
        ),
        Some(Validity::Invalid(_, message)) => (
            Reason::RuleInvalid,
            format!("{field}: MutexRule {key} is not valid: {message}"),
        ),
        Some(Validity::Unknown) => (
            Reason::Validating,
            format!("{field}: MutexRule {key} has not been judged by the API server yet"),
        ),
        Some(Validity::Valid) => {
            let runs_in = |phase: &Phase| rule.is_some_and(|rule| rule.runs_in(*phase));
            // A gate that only looks back once the node was disrupted is none.
            let gates = BEFORE_DISRUPTION.iter().any(runs_in);
            let mut served = phases
                .iter()
                .filter(|phase| !gates || BEFORE_DISRUPTION.contains(phase));
            if served.any(runs_in) {
                return None;
            }
            let which = if gates {
                "none before the disruption"
            } else {
                "none"
            };
            (
                Reason::FieldNotServed,
                format!(
                    "{field}: MutexRule {key} spec.phases: found {which} that a {kind} asks, wanted one such as Pre"
                ),
            )
        }
    };
    Some(Why::new(reason, message))
}

/// What the rules of phase Admit say of a node that has no turn yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Why it may not have its turn yet; none if it may.
    pub why: Option<Why>,
    /// Whether a rule is against it, so that others go first. Else an answer is awaited: that takes moments, and its place
    /// is kept for it, as nodes are to go in their order.
    pub against: bool,
    /// What is to be asked now.
    pub asks: Vec<EvaluationRequest>,
    /// Whether an answer is under way.
    pub under_way: bool,
    /// When a rule that is against it is asked again.
    pub wake: Option<Timestamp>,
}

impl Admission {
    /// Counts the node among those that are being asked about. Past the most, one that rules are against is not asked
    /// again now, and any other has to wait: why.
    pub fn takes_place(&mut self, asking: &mut usize) -> Option<Why> {
        if !self.under_way && self.asks.is_empty() {
            return None;
        }
        if *asking < ASKED_AT_ONCE {
            *asking += 1;
        } else if self.against {
            self.asks.clear();
        } else {
            let message = format!("{ASKED_AT_ONCE} nodes are being asked about in phase Admit");
            return Some(Why::new(Reason::WaitingForTurn, message));
        }
        None
    }
}

/// How a phase of rules comes along.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Every rule of the phase has passed (or its failure was passed over).
    Passed,
    /// The next Job is to be created.
    Start(Box<JobRequest>),
    /// A rule is to be asked.
    Evaluate(Box<EvaluationRequest>),
    /// A rule runs, or cannot start.
    Wait(Why, Option<Timestamp>),
    /// A rule begins to make it wait: since when is to be journaled.
    Note(RuleWait, Why),
    /// Something must be read first.
    Ask(Question),
    /// A verdict is to be journaled, with the end of the log.
    Record(Box<VerdictRecord>, Option<String>),
    /// A rule failed for good.
    Failed(FailurePolicy, Why),
}

/// Whether one of these rules runs in the phase.
pub fn any_runs_in(rules: &[(Key, Option<&RuleView>)], phase: Phase) -> bool {
    let mut known = rules.iter().filter_map(|(_, rule)| *rule);
    known.any(|rule| rule.runs_in(phase))
}

/// How the rules of one phase come along.
pub fn progress(
    rules: &[(Key, Option<&RuleView>)],
    phase: Phase,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
    answers: &Answers,
    now: Timestamp,
) -> Progress {
    for (key, rule) in rules {
        let Some(rule) = rule else {
            let message = format!("found no MutexRule {key}, wanted the rule the run refers to");
            return Progress::Wait(Why::new(Reason::RuleNotFound, message), None);
        };
        if !rule.runs_in(phase) {
            continue;
        }
        match one(rule, phase, verdicts, subject, observed, answers, now) {
            Progress::Passed => {}
            other => return other,
        }
    }
    Progress::Passed
}

/// What the rules of phase Admit say of a node before it has a turn.
///
/// Nothing of it is journaled, as the journal begins with the turn, and nothing is a failure: who waits here holds up
/// nobody, so that there is neither a timeout nor a retry, and a Block is asked again like what gave no verdict. Jobs are
/// not started in this phase: whatever a Job changes would be changed for a node that may go much later.
///
/// While a rule is against the node only that rule is asked again. The others are asked beside one another, else two that
/// each take longer than a Pass stays fresh would wait for each other for ever.
pub fn admission(
    rules: &[(Key, Option<&RuleView>)],
    subject: &Subject<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Admission {
    let asked = rules
        .iter()
        .filter_map(|(_, rule)| rule.filter(|rule| rule.is_asked && rule.runs_in(Phase::Admit)));
    let (mut open, mut against) = (Admission::default(), Admission::default());
    for rule in asked {
        let request = evaluation(rule, Phase::Admit, 1, &[], subject, observed);
        let what = format!("rule {}, phase Admit", rule.key);
        let view = observed.evaluations.get(&request.key);
        let under_way = view.is_some_and(|view| view.under_way);
        let answer = view
            .filter(|view| view.generation == rule.generation)
            .and_then(|view| Some((view, view.answer.as_ref()?)));
        let refusal = answer.and_then(|(view, (at, answer))| {
            let (why, pause) = refusal(&what, view, answer, now)?;
            Some((why, later(*at, unless_stirred(view, pause))))
        });
        if let Some((why, again)) = refusal {
            against.why.get_or_insert(why);
            against.under_way |= under_way;
            if now < again {
                against.wake = Some(against.wake.map_or(again, |wake| wake.min(again)));
            } else if !under_way {
                against.asks.push(request);
            }
            continue;
        }
        let is_fresh = answer.is_some_and(|(_, (at, _))| is_recent(rule, *at, now));
        if is_fresh && !under_way {
            continue;
        }
        open.under_way |= under_way;
        let reason = if under_way {
            Reason::RuleRunning
        } else {
            open.asks.push(request);
            Reason::RuleStarting
        };
        open.why.get_or_insert(Why::new(reason, what));
    }
    if against.why.is_some() {
        against.against = true;
        return against;
    }
    open
}

/// After how many answers in a row that are no verdict a rule of phase Admit is one that a person must mend.
const BROKEN: u32 = 3;

/// What an answer in phase Admit has against the node, and after how many seconds it is asked again.
fn refusal(what: &str, view: &EvaluationView, answer: &RuleAnswer, now: Timestamp) -> Option<(Why, i64)> {
    let (why, pause) = match answer {
        RuleAnswer::Block(words) => {
            let message = format!("{what}: it blocks: {}", words.shown());
            let why = Why::new(Reason::RuleWaits, clip(&message, MESSAGE_MAX));
            (why, NO_VERDICT_SECONDS.1)
        }
        _ => waits(what, view, answer)?,
    };
    // Before its turn nobody's patience with a rule ends: one that fails each time, or is against the node for long, keeps
    // the node out for ever.
    let is_broken = matches!(answer, RuleAnswer::NoVerdict(..)) && view.failures >= BROKEN;
    let why = if later(view.first_asked, STUCK_SECONDS) <= now {
        let message = format!("{}; it has been so since {}", why.message, view.first_asked);
        Why::new(why.reason, clip(&message, MESSAGE_MAX)).ended_by(Actor::ClusterAdmin)
    } else if is_broken {
        why.ended_by(Actor::ClusterAdmin)
    } else {
        why
    };
    Some((why, pause))
}

/// How long until it is asked again: what has changed is asked about sooner, and what changes all the time not all the
/// time.
fn unless_stirred(view: &EvaluationView, pause: i64) -> i64 {
    if view.stirred {
        pause.min(STIRRED_SECONDS << view.stirs.saturating_sub(1).min(5))
    } else {
        pause
    }
}

fn one(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
    answers: &Answers,
    now: Timestamp,
) -> Progress {
    let last = last_word(verdicts, &rule.key, phase, subject.round);
    if last.is_some_and(|verdict| verdict.outcome != Outcome::Failure) {
        return Progress::Passed;
    }
    if let Some((policy, why)) = failed_for_good(rule, phase, verdicts, subject.round) {
        return Progress::Failed(policy, why);
    }
    next(rule, phase, verdicts, subject, observed, answers, now)
}

/// How the attempt comes along whose verdict is next.
fn next(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
    answers: &Answers,
    now: Timestamp,
) -> Progress {
    let name = rule.key.to_string();
    let this_round = || {
        let of_rule = verdicts
            .iter()
            .filter(|verdict| verdict.rule == name && verdict.phase == phase);
        of_rule.filter(|verdict| verdict.round == subject.round)
    };
    let failed_before = this_round().filter(|verdict| verdict.outcome == Outcome::Failure);
    let failures = i32::try_from(failed_before.count()).unwrap_or(i32::MAX);
    let (attempt, job) = next_job(rule, phase, verdicts, subject);
    let found = observed.jobs.get(&job).filter(|_| !rule.is_asked);
    let record =
        |outcome, reason: &str, message: &str, exit_code, started: Option<Timestamp>| VerdictRecord {
            rule: name.clone(),
            phase,
            attempt,
            round: subject.round,
            outcome,
            policy: (outcome != Outcome::Pass).then(|| effective_policy(rule, phase)),
            reason: clip(reason, 64),
            message: (!message.is_empty()).then(|| clip(message, MESSAGE_MAX)),
            job: (!rule.is_asked).then(|| job.to_string()),
            exit_code,
            data: None,
            started_at: started.map(|at| at.to_string()),
            at: now.to_string(),
            ended_at: found.and_then(|job| job.ended_at).map(|at| at.to_string()),
            // A Job that does not say what it was made from says nothing of the rule as it is now.
            edition: found.map_or_else(
                || Some(rule.edition()),
                |job| Some(job.edition.clone()).filter(|edition| !edition.is_empty()),
            ),
        };
    let failed = if effective_policy(rule, phase) == FailurePolicy::Continue && failures >= rule.retries {
        Outcome::ContinuedAfterFailure
    } else {
        Outcome::Failure
    };
    if rule.is_asked {
        let request = evaluation(rule, phase, attempt, verdicts, subject, observed);
        let view = observed.evaluations.get(&request.key);
        let wait = |since: Timestamp| RuleWait {
            rule: name.clone(),
            phase,
            attempt,
            round: subject.round,
            rule_uid: rule.uid.clone(),
            generation: rule.generation,
            since: since.to_string(),
        };
        let noted = subject.waits.iter().find(|noted| {
            noted.rule == name && (noted.phase, noted.attempt, noted.round) == (phase, attempt, subject.round)
                // What was mended has its whole time.
                && (&noted.rule_uid, noted.generation) == (&rule.uid, rule.generation)
        });
        let noted = noted.and_then(|noted| noted.since.parse().ok());
        let noted = Noted {
            since: noted,
            is_lost: observed.forgets_waits,
        };
        let answered = view.and_then(|view| view.answer.as_ref());
        return evaluated(rule, request, view, noted, now, wait, |passed, words, started| {
            let outcome = if passed { Outcome::Pass } else { failed };
            VerdictRecord {
                data: words.data.clone(),
                ended_at: answered.map(|(at, _)| at.to_string()),
                ..record(outcome, &words.reason, &words.summary, None, Some(started))
            }
        });
    }
    let Some(view) = observed.jobs.get(&job).filter(|view| !view.deleting) else {
        return start(
            rule,
            phase,
            attempt,
            subject,
            observed,
            now,
            job.clone(),
            |reason, message| record(failed, reason, message, None, None),
        );
    };
    match &view.ended {
        None => running(rule, phase, &job, view, attempt, now, |message| {
            record(failed, "DeadlineExceeded", message, None, Some(view.created))
        }),
        Some(end) => {
            let Some(evidence) = answers.evidence.get(&job) else {
                return Progress::Ask(Question::Evidence {
                    job,
                    log_tail_bytes: rule.log_tail_bytes,
                });
            };
            let (outcome, reason, message) = match end {
                JobEnd::Complete => (Outcome::Pass, "Completed".to_owned(), String::new()),
                JobEnd::Failed(reason, message) => {
                    let code = evidence
                        .exit_code
                        .map_or_else(String::new, |code| format!("exit code {code}; "));
                    (
                        failed,
                        reason.clone(),
                        format!("Job {job} failed: {code}{message}"),
                    )
                }
            };
            let verdict = record(outcome, &reason, &message, evidence.exit_code, Some(view.created));
            Progress::Record(Box::new(verdict), evidence.log_tail.clone())
        }
    }
}

/// What a rule's failures of one round come to, once no retry is left.
pub fn failed_for_good(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    round: i32,
) -> Option<(FailurePolicy, Why)> {
    let name = rule.key.to_string();
    let mut failures = 0;
    let mut last = None;
    for verdict in verdicts
        .iter()
        .filter(|verdict| verdict.rule == name && verdict.phase == phase && verdict.round == round)
    {
        if verdict.outcome == Outcome::Failure {
            failures += 1;
            last = Some(verdict);
        } else {
            // A component that passed may be asked again, with all its retries.
            (failures, last) = (0, None);
        }
    }
    let verdict = last.filter(|_| failures > rule.retries)?;
    let words = verdict.message.as_deref().unwrap_or(&verdict.reason);
    let message = format!(
        "rule {name} failed in phase {} after {failures} attempt(s): {words}",
        phase.name()
    );
    Some((
        effective_policy(rule, phase),
        Why::new(Reason::RuleFailed, message),
    ))
}

/// The Job whose end is the next verdict of a rule, and the number of its attempt.
pub fn next_job(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
) -> (i32, Key) {
    let name = rule.key.to_string();
    let of_rule = verdicts
        .iter()
        .filter(|verdict| verdict.rule == name && verdict.phase == phase);
    let attempt = of_rule.map(|verdict| verdict.attempt).max().unwrap_or(0);
    let attempt = attempt.saturating_add(1);
    let identity = JobIdentity {
        owner_uid: subject.owner_uid,
        node_uid: subject.node_uid,
        run: subject.run,
        rule: &name,
        phase,
        round: subject.round,
        attempt,
    };
    let job = Key::new(&rule.job_namespace, names::job_name(&rule.job_name, &identity));
    (attempt, job)
}

/// The rules whose Pass of these phases is too old to let the node go on it: each is asked once more, as its next attempt.
/// None if every Pass is fresh. For the moment before a release, when all rules have passed.
///
/// Rules are asked beside one another and their new Pass is written only once nobody waits: were one asked after the
/// other, two that each take longer than a Pass stays fresh would wait for each other for ever. For the same reason Jobs
/// whose Pass would be too old by the time the slowest has ended run again beside that one. What is evaluated comes before
/// the Jobs, so that no Job runs again while a rule says Wait, and after them once more, which takes moments.
pub fn stale(
    (rules, phases): (&[(Key, Option<&RuleView>)], &[Phase]),
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
    answers: &Answers,
    now: Timestamp,
) -> Option<(Phase, Progress)> {
    let all = rules.iter().filter_map(|(_, rule)| *rule);
    let all = all.flat_map(|rule| phases.iter().map(move |phase| (rule, *phase)));
    let all: Vec<(&RuleView, Phase)> = all.filter(|(rule, phase)| rule.runs_in(*phase)).collect();
    let fresh_at = |(rule, phase): (&RuleView, Phase), at: Timestamp| {
        let last = last_word(verdicts, &rule.key, phase, subject.round);
        last.is_some_and(|verdict| is_fresh(rule, verdict, at))
    };
    let old = |at: Timestamp, is_asked: bool| {
        let of_type = all
            .iter()
            .copied()
            .filter(move |(rule, _)| rule.is_asked == is_asked);
        of_type.filter(|one| !fresh_at(*one, at)).collect::<Vec<_>>()
    };
    let (asked, jobs) = (old(now, true), old(now, false));
    let under_way = jobs.iter().any(|(rule, phase)| {
        let (_, job) = next_job(rule, *phase, verdicts, subject);
        observed.jobs.get(&job).is_some_and(|view| !view.deleting)
    });
    let due = if !asked.is_empty() && !under_way {
        asked
    } else {
        let ends = jobs.iter().map(|(rule, phase)| {
            let (_, job) = next_job(rule, *phase, verdicts, subject);
            let begun = observed.jobs.get(&job).map_or(now, |view| view.created);
            let last = last_word(verdicts, &rule.key, *phase, subject.round);
            later(begun, last.and_then(took_seconds).unwrap_or(0)).max(now)
        });
        ends.max().map_or_else(Vec::new, |end| old(end, false))
    };
    let mut first: Option<(Phase, Progress)> = None;
    let mut wake: Option<Timestamp> = None;
    for (rule, phase) in due {
        let progress = next(rule, phase, verdicts, subject, observed, answers, now);
        if let Progress::Wait(_, Some(at)) = progress {
            wake = Some(wake.map_or(at, |wake: Timestamp| wake.min(at)));
        }
        if first
            .as_ref()
            .is_none_or(|(_, known)| urgency(&progress) < urgency(known))
        {
            first = Some((phase, progress));
        }
    }
    if let Some((_, Progress::Wait(_, at))) = &mut first {
        *at = wake;
    }
    first
}

/// How long the Job of a verdict ran (seconds), where the journal tells.
fn took_seconds(verdict: &VerdictRecord) -> Option<i64> {
    let started: Timestamp = verdict.started_at.as_deref()?.parse().ok()?;
    Some(given_at(verdict)?.duration_since(started).as_secs().max(0))
}

/// What is done first of what several rules come to: a failure, then questions, then waiting, then a Pass.
fn urgency(progress: &Progress) -> u8 {
    match progress {
        Progress::Failed(..) => 0,
        Progress::Record(verdict, _) if verdict.outcome != Outcome::Pass => 1,
        Progress::Evaluate(_) | Progress::Ask(_) | Progress::Start(_) | Progress::Note(..) => 2,
        Progress::Wait(..) => 3,
        Progress::Record(..) => 4,
        Progress::Passed => 5,
    }
}

/// The phases that a node passes before its release.
pub const BEFORE_RELEASE: [Phase; 2] = [Phase::Pre, Phase::PreRelease];

/// What counts of all that a rule said in a phase of this attempt of the node: a component may be asked again after
/// its Pass.
pub fn last_word<'v>(
    verdicts: &'v [VerdictRecord],
    rule: &Key,
    phase: Phase,
    round: i32,
) -> Option<&'v VerdictRecord> {
    let name = rule.to_string();
    verdicts
        .iter()
        .rfind(|verdict| verdict.rule == name && verdict.phase == phase && verdict.round == round)
}

/// Whether a rule's Pass may still let a node go: it is no older than `passSeconds`, and of the rule as it is now. What a
/// journal of an earlier numo has no edition of is asked for again.
pub fn is_fresh(rule: &RuleView, verdict: &VerdictRecord, now: Timestamp) -> bool {
    verdict.outcome == Outcome::Pass
        && verdict.edition.as_deref() == Some(rule.edition().as_str())
        && given_at(verdict).is_some_and(|at| at <= later(now, AHEAD_SECONDS) && is_recent(rule, at, now))
}

/// When a verdict was given: when its Job ended or the rule answered, which may be long before it was written down, and is never after
/// that.
fn given_at(verdict: &VerdictRecord) -> Option<Timestamp> {
    let written: Timestamp = verdict.at.parse().ok()?;
    let ended = verdict.ended_at.as_deref().map(str::parse::<Timestamp>);
    ended.map_or(Some(written), |ended| Some(ended.ok()?.min(written)))
}

/// Whether a Pass that was given then may still let a node go.
fn is_recent(rule: &RuleView, at: Timestamp, now: Timestamp) -> bool {
    now <= later(at, rule.pass_seconds)
}

/// A verdict of the journal, as the rule is told of it.
fn earlier(verdict: &VerdictRecord) -> Earlier {
    Earlier {
        phase: verdict.phase,
        attempt: verdict.attempt,
        at: verdict.at.clone(),
        word: if verdict.outcome == Outcome::Pass {
            EarlierWord::Pass
        } else {
            EarlierWord::Block
        },
        reason: verdict.reason.clone(),
        summary: verdict.message.clone().unwrap_or_default(),
        data: verdict.data.clone(),
    }
}

/// The one attempt of a rule that is asked whose verdict is next.
fn evaluation(
    rule: &RuleView,
    phase: Phase,
    attempt: i32,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
) -> EvaluationRequest {
    let name = rule.key.to_string();
    let identity = JobIdentity {
        owner_uid: subject.owner_uid,
        node_uid: subject.node_uid,
        run: subject.run,
        rule: &name,
        phase,
        round: subject.round,
        attempt,
    };
    let of_rule = verdicts.iter().rev().filter(|verdict| verdict.rule == name);
    let journaled = of_rule.map(earlier);
    let key = names::evaluation(&identity, &rule.uid);
    let view = observed.evaluations.get(&key);
    let view = view.filter(|view| view.generation == rule.generation);
    let waited = view
        .and_then(|view| view.waited.as_ref())
        .map(|(at, words)| Earlier {
            phase,
            attempt,
            at: at.to_string(),
            word: EarlierWord::Wait,
            reason: words.reason.clone(),
            summary: words.summary.clone(),
            data: words.data.clone(),
        });
    let history = waited.into_iter().chain(journaled);
    EvaluationRequest {
        key,
        rule: rule.key.clone(),
        rule_uid: rule.uid.clone(),
        generation: rule.generation,
        phase,
        attempt,
        owner: subject.owner.clone(),
        node: subject.node.to_owned(),
        node_uid: subject.node_uid.to_owned(),
        pool: subject.pool.to_owned(),
        from_version: subject.from_version.to_owned(),
        to_version: subject.to_version.to_owned(),
        run: subject.run.to_owned(),
        history: history.collect(),
    }
}

/// What the journal has of a wait.
#[derive(Clone, Copy)]
struct Noted {
    /// Since when it goes on.
    since: Option<Timestamp>,
    /// Whether what is noted would not be kept.
    is_lost: bool,
}

/// How one attempt of a rule that is asked comes along. Whatever it waits for, it is asked a last time when its time is
/// over; what it does not pass by then has failed. Its time began when it was asked first, by whichever leader: `noted`.
fn evaluated(
    rule: &RuleView,
    request: EvaluationRequest,
    view: Option<&EvaluationView>,
    noted: Noted,
    now: Timestamp,
    wait: impl Fn(Timestamp) -> RuleWait,
    record: impl Fn(bool, &RuleWords, Timestamp) -> VerdictRecord,
) -> Progress {
    let what = format!(
        "rule {}, phase {}, attempt {}",
        rule.key,
        request.phase.name(),
        request.attempt
    );
    let Some(view) = view else {
        return Progress::Evaluate(Box::new(request));
    };
    let begun = match noted.since {
        Some(noted) if !view.anew => noted.min(view.first_asked),
        _ => view.first_asked,
    };
    let write = |passed, words: &RuleWords| Progress::Record(Box::new(record(passed, words, begun)), None);
    let own = |reason: &str, summary: String| RuleWords {
        reason: reason.to_owned(),
        summary,
        ..RuleWords::default()
    };
    // What only remembers, for a rule whose failure is a warning, holds no node: it goes on with nothing remembered.
    let only_remembers = rule.key == ready::key()
        && rule.failure_policy == FailurePolicy::Continue
        && !request.phase.is_after_release();
    let over = |reason: &str, message: String| write(only_remembers, &own(reason, message));
    let deadline = later(begun, rule.timeout_seconds);
    if view.under_way {
        // Asked after its time was over it still has its answer waited for.
        let given_up = later(deadline.max(view.asked), DEADLINE_GRACE_SECONDS);
        if now >= given_up {
            let message = format!("{what}: no answer within timeoutSeconds {}", rule.timeout_seconds);
            return over(Reason::EvaluationTimeout.name(), message);
        }
        let waits = view
            .answer
            .as_ref()
            .and_then(|(_, answer)| waits(&what, view, answer));
        let why = waits.map_or_else(|| Why::new(Reason::RuleRunning, what), |(why, _)| why);
        return Progress::Wait(why, Some(given_up));
    }
    let Some((at, answer)) = &view.answer else {
        return Progress::Evaluate(Box::new(request));
    };
    let fresh = is_recent(rule, *at, now);
    if view.generation != rule.generation {
        return Progress::Evaluate(Box::new(request));
    }
    let Some((why, pause)) = waits(&what, view, answer) else {
        return match answer {
            RuleAnswer::Block(words) => write(false, words),
            RuleAnswer::Pass(words) if fresh => write(true, words),
            _ => Progress::Evaluate(Box::new(request)),
        };
    };
    if *at >= deadline {
        let (reason, words) = match answer {
            RuleAnswer::Wait(words, _) => (words.reason.as_str(), words.summary.as_str()),
            RuleAnswer::NoVerdict(reason, message) => (reason.name(), message.as_str()),
            RuleAnswer::Pass(_) | RuleAnswer::Block(_) => ("", ""),
        };
        let message = format!(
            "not passed within timeoutSeconds {}: {words}",
            rule.timeout_seconds
        );
        return over(reason, message);
    }
    let again = later(*at, unless_stirred(view, pause)).min(deadline);
    if now >= again {
        return Progress::Evaluate(Box::new(request));
    }
    if noted.since != Some(begun) && !noted.is_lost {
        return Progress::Note(wait(begun), why);
    }
    Progress::Wait(why, Some(again))
}

/// What an answer that is no verdict yet makes wait, and for how many seconds.
fn waits(what: &str, view: &EvaluationView, answer: &RuleAnswer) -> Option<(Why, i64)> {
    match answer {
        RuleAnswer::Wait(words, seconds) => {
            let message = format!("{what}: {}", words.shown());
            let (least, most) = RETRY_AFTER_SECONDS;
            Some((
                Why::new(Reason::RuleWaits, clip(&message, MESSAGE_MAX)),
                (*seconds).clamp(least, most),
            ))
        }
        RuleAnswer::NoVerdict(reason, message) => {
            let (first, longest) = NO_VERDICT_SECONDS;
            let doubled = view.failures.saturating_sub(1).min(10);
            let message = format!("{what}: {message}");
            Some((
                Why::new(*reason, clip(&message, MESSAGE_MAX)),
                (first << doubled).min(longest),
            ))
        }
        RuleAnswer::Pass(_) | RuleAnswer::Block(_) => None,
    }
}

/// Continue is for phases after the release only; before it, it means Hold.
fn effective_policy(rule: &RuleView, phase: Phase) -> FailurePolicy {
    match rule.failure_policy {
        FailurePolicy::Continue if !phase.is_after_release() => FailurePolicy::Hold,
        policy => policy,
    }
}

#[allow(
    clippy::too_many_arguments,
    reason = "one call site; the parts have nothing in common"
)]
fn start(
    rule: &RuleView,
    phase: Phase,
    attempt: i32,
    subject: &Subject<'_>,
    observed: &Observed,
    now: Timestamp,
    job: Key,
    record: impl Fn(&str, &str) -> VerdictRecord,
) -> Progress {
    if let Some(refusal) = observed.refusals.get(&job) {
        let retry_at = later(refusal.at, RETRY_REFUSED_SECONDS);
        if refusal.code == 0 && now < retry_at {
            let message = format!("Job {job} is not written yet: {}", refusal.message);
            return Progress::Wait(Why::new(Reason::RuleStarting, message), Some(retry_at));
        }
        let reason = if is_uninvited(refusal.code, &refusal.message) {
            Reason::JobsForbidden
        } else {
            Reason::RuleJobCannotStart
        };
        let message = format!(
            "MutexRule {}: Job {job} was refused ({}): {}",
            rule.key, refusal.code, refusal.message
        );
        let given_up = subject
            .since
            .is_some_and(|since| now.duration_since(since).as_secs() > rule.timeout_seconds);
        if given_up {
            return Progress::Record(Box::new(record(reason.name(), &message)), None);
        }
        if now < retry_at {
            return Progress::Wait(Why::new(reason, message), Some(retry_at));
        }
    }
    Progress::Start(Box::new(JobRequest {
        job,
        rule: rule.key.clone(),
        phase,
        attempt,
        node: subject.node.to_owned(),
        hostname: subject.hostname.to_owned(),
        pool: subject.pool.to_owned(),
        from_version: subject.from_version.to_owned(),
        to_version: subject.to_version.to_owned(),
        run: subject.run.to_owned(),
        placement: rule.placement,
        avoid: Vec::new(),
        timeout_seconds: rule.timeout_seconds,
    }))
}

/// Whether a Job was refused for want of the right to create it, in RBAC's words; quotas and admission
/// policies forbid with the same code and other words.
pub fn is_uninvited(code: u16, message: &str) -> bool {
    code == 403 && message.contains("cannot create resource")
}

/// How long a refused Job is left alone before it is tried again (seconds): a quota or an invitation may
/// come any time, and a refused request costs the API server little.
const RETRY_REFUSED_SECONDS: i64 = 5;

fn running(
    rule: &RuleView,
    phase: Phase,
    job: &Key,
    view: &JobView,
    attempt: i32,
    now: Timestamp,
    timed_out: impl Fn(&str) -> VerdictRecord,
) -> Progress {
    let deadline = later(view.created, rule.timeout_seconds + DEADLINE_GRACE_SECONDS);
    if now >= deadline {
        let message = format!(
            "Job {job} did not end within timeoutSeconds {}",
            rule.timeout_seconds
        );
        return Progress::Record(Box::new(timed_out(&message)), None);
    }
    let what = format!(
        "rule {}, phase {}, attempt {attempt}, Job {job}",
        rule.key,
        phase.name()
    );
    let why = match &view.trouble {
        Some((reason, message)) => Why::new(
            Reason::RuleJobCannotStart,
            format!("{what} cannot start: {reason}: {message}"),
        ),
        None => Why::new(Reason::RuleRunning, what),
    };
    Progress::Wait(why, Some(deadline))
}
