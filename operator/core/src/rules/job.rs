//! How the Job of an attempt comes along.

use super::{
    attempt::{Attempt, DEADLINE_GRACE_SECONDS},
    inline,
    inquiry::{Inquiry, Progress},
};
use crate::{
    action::JobRequest,
    key::Key,
    observed::{JobEnd, JobView, Refusal},
    time::{STUCK_SECONDS, later, pause_until},
    verdict::Question,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Outcome, Reason, VerdictRecord, conditions::Actor};

/// How long a refused Job is left alone before it is tried again (seconds): a quota or an invitation may
/// come any time, and a refused request costs the API server little.
const RETRY_REFUSED_SECONDS: i64 = 5;
/// How long a refusal stands (seconds): one that follows it later begins the time of a refused Job again, as the rule waited for something
/// else meanwhile.
pub const REFUSED_SECONDS: i64 = 120;

/// How the Job of an attempt comes along.
pub(super) fn progress(attempt: &Attempt<'_>, inquiry: &Inquiry<'_>) -> Progress {
    let job = attempt.job();
    let Some(view) = inquiry.observed.jobs.get(&job) else {
        return start(attempt, inquiry, job);
    };
    if let Some(since) = view.deleting {
        // Beside it the work of the rule would be done twice at once.
        let what = format!(
            "{}, Job {job} is being deleted, or a pod of it still runs",
            attempt.words()
        );
        let (why, again) = being_deleted(what, since, inquiry.now);
        return Progress::Wait(why, again);
    }
    let Some(end) = &view.ended else {
        return running(attempt, &job, view, inquiry.now);
    };
    let Some(evidence) = inquiry.answers.evidence.get(&job) else {
        return Progress::Ask(Question::Evidence {
            job,
            log_tail_bytes: attempt.rule.log_tail_bytes,
        });
    };
    let (outcome, reason, message) = match end {
        JobEnd::Complete => (Outcome::Pass, "Completed", String::new()),
        JobEnd::Failed(reason, message) => {
            let code = evidence.exit_code.map(|code| format!("exit code {code}; "));
            let message = format!("Job {job} failed: {}{message}", code.unwrap_or_default());
            (attempt.failed(), reason.as_str(), message)
        }
    };
    let verdict = VerdictRecord {
        exit_code: evidence.exit_code,
        ..verdict(attempt, view, outcome, (reason, &message), inquiry.now)
    };
    Progress::Record(Box::new(verdict), evidence.log_tail.clone())
}

/// What is said of a Job that is being deleted, and when that changes. One that does not go is a person's after a while: a finalizer keeps
/// it, or a pod that does not end.
pub fn being_deleted(what: String, since: Timestamp, now: Timestamp) -> (Why, Option<Timestamp>) {
    let why = |words| Why::new(Reason::JobBeingDeleted, words);
    let end = later(since, STUCK_SECONDS);
    if end > now {
        return (why(what), Some(end));
    }
    let stuck = format!("{what}; it has been so since {since}: look at its finalizers and its pods");
    (why(stuck).ended_by(Actor::ClusterAdmin), None)
}

/// A verdict as it is journaled, of its Job.
fn verdict(
    attempt: &Attempt<'_>,
    job: &JobView,
    outcome: Outcome,
    words: (&str, &str),
    now: Timestamp,
) -> VerdictRecord {
    VerdictRecord {
        ended_at: job.ended_at.map(|at| at.to_string()),
        // A Job that does not say what it was made from says nothing of the rule as it is now.
        edition: Some(job.edition.clone()).filter(|edition| !edition.is_empty()),
        ..attempt.verdict(outcome, words, Some(job.created), now)
    }
}

/// Creates the Job, unless that was refused a moment ago, or for so long that it has failed.
fn start(attempt: &Attempt<'_>, inquiry: &Inquiry<'_>, job: Key) -> Progress {
    let (rule, subject, now) = (attempt.rule, attempt.subject, inquiry.now);
    if let Some(refusal) = refusal(inquiry, &job) {
        let retry_at = pause_until(refusal.at, RETRY_REFUSED_SECONDS, now);
        if refusal.code == 0 && retry_at.is_some() {
            let message = format!("Job {job} is not written yet: {}", refusal.message);
            return Progress::Wait(Why::new(Reason::RuleStarting, message), retry_at);
        }
        let reason = if is_uninvited(refusal.code, &refusal.message) {
            Reason::JobsForbidden
        } else {
            Reason::RuleJobCannotStart
        };
        let message = format!(
            "{}: Job {job} was refused ({}): {}",
            inline::named(&rule.key),
            refusal.code,
            refusal.message
        );
        let seconds = rule.timeout_seconds.saturating_add(1);
        // What it waited for before was no refusal.
        let given_up = subject
            .since
            .map(|since| later(since.max(refusal.since), seconds));
        if given_up.is_some_and(|at| now >= at) {
            let verdict = attempt.verdict(attempt.failed(), (reason.name(), &message), None, now);
            return Progress::Record(Box::new(verdict), None);
        }
        if retry_at.is_some() {
            let again = retry_at.into_iter().chain(given_up).min();
            return Progress::Wait(Why::new(reason, message), again);
        }
    }
    Progress::Start(Box::new(JobRequest {
        job,
        rule: rule.key.clone(),
        phase: attempt.phase,
        attempt: attempt.number,
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

/// The refusal of a Job that still says something: after a long wait it is tried once more, whatever was said before.
fn refusal<'a>(inquiry: &Inquiry<'a>, job: &Key) -> Option<&'a Refusal> {
    let known = inquiry.observed.refusals.get(job);
    known.filter(|refusal| inquiry.now < later(refusal.at, REFUSED_SECONDS))
}

/// Whether a Job was refused for want of the right to create it, in RBAC's words; quotas and admission
/// policies forbid with the same code and other words.
pub fn is_uninvited(code: u16, message: &str) -> bool {
    code == 403 && message.contains("cannot create resource")
}

fn running(attempt: &Attempt<'_>, job: &Key, view: &JobView, now: Timestamp) -> Progress {
    let timeout = attempt.rule.timeout_seconds;
    let deadline = later(view.created, timeout + DEADLINE_GRACE_SECONDS);
    if now >= deadline {
        let message = format!("Job {job} did not end within timeoutSeconds {timeout}");
        let words = ("DeadlineExceeded", message.as_str());
        let verdict = verdict(attempt, view, attempt.failed(), words, now);
        return Progress::Record(Box::new(verdict), None);
    }
    let what = format!("{}, Job {job}", attempt.words());
    let why = match &view.trouble {
        Some((reason, message)) => Why::new(
            Reason::RuleJobCannotStart,
            format!("{what} cannot start: {reason}: {message}"),
        ),
        None => Why::new(Reason::RuleRunning, what),
    };
    Progress::Wait(why, Some(deadline))
}
