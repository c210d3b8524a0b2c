//! How a phase of rules comes along, from its Jobs and the verdicts in a journal. Pure observation: it
//! says what to do next and does nothing.

use crate::{
    action::JobRequest,
    names::{self, JobIdentity},
    observed::{JobEnd, JobView, Key, Observed, RuleView},
    report::Why,
    verdict::{Answers, Question},
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, Reason, VerdictRecord};

/// How long after its deadline a Job may take to be marked Failed by the Job controller (seconds),
/// before numo records the timeout itself.
const DEADLINE_GRACE_SECONDS: i64 = 60;
/// Longest message of a verdict (characters), as the NodeChange schema bounds it.
const MESSAGE_MAX: usize = 512;

/// What the rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
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
}

/// How a phase of rules comes along.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Every rule of the phase has passed (or its failure was passed over).
    Passed,
    /// The next Job is to be created.
    Start(Box<JobRequest>),
    /// A rule runs, or cannot start.
    Wait(Why, Option<Timestamp>),
    /// Something must be read first.
    Ask(Question),
    /// A verdict is to be journaled, with the end of the log.
    Record(Box<VerdictRecord>, Option<String>),
    /// A rule failed for good.
    Failed(FailurePolicy, Why),
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

fn one(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    subject: &Subject<'_>,
    observed: &Observed,
    answers: &Answers,
    now: Timestamp,
) -> Progress {
    let name = rule.key.to_string();
    let of_rule = || {
        verdicts
            .iter()
            .filter(|verdict| verdict.rule == name && verdict.phase == phase)
    };
    let this_round = || of_rule().filter(|verdict| verdict.round == subject.round);
    if this_round().any(|verdict| verdict.outcome != Outcome::Failure) {
        return Progress::Passed;
    }
    if let Some((policy, why)) = failed_for_good(rule, phase, verdicts, subject.round) {
        return Progress::Failed(policy, why);
    }
    let failures = i32::try_from(this_round().count()).unwrap_or(i32::MAX);
    let (attempt, job) = next_job(rule, phase, verdicts, subject);
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
            job: Some(job.to_string()),
            exit_code,
            started_at: started.map(|at| at.to_string()),
            at: now.to_string(),
        };
    let failed = if effective_policy(rule, phase) == FailurePolicy::Continue && failures >= rule.retries {
        Outcome::ContinuedAfterFailure
    } else {
        Outcome::Failure
    };
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
        if verdict.outcome != Outcome::Failure {
            return None;
        }
        failures += 1;
        last = Some(verdict);
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
    let attempt = of_rule.map(|verdict| verdict.attempt).max().unwrap_or(0) + 1;
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

/// So many seconds later; at most the last moment there is. Times come from objects that anyone may have
/// written.
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// The first `max` characters, without control characters.
pub fn clip(text: &str, max: usize) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(max)
        .collect()
}
