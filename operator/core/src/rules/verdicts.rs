//! What the verdicts in a journal come to: a Pass that may still let a node go, or a failure for good.

use crate::{key::Key, observed::RuleView, text::counted, time::later, why::Why};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, Reason, VerdictRecord};

/// Default of `passSeconds` of a rule that runs a Job (seconds).
pub const JOB_PASS_SECONDS: i64 = 600;
/// How far ahead of the API server's time a verdict may be (seconds): API servers may differ by so much. What is of a later time was not
/// given yet.
const AHEAD_SECONDS: i64 = 60;

/// What a rule said in a phase of this attempt of the node.
pub(super) fn said<'v>(
    verdicts: &'v [VerdictRecord],
    rule: &Key,
    phase: Phase,
    round: i32,
) -> impl DoubleEndedIterator<Item = &'v VerdictRecord> + use<'v> {
    let name = rule.to_string();
    let verdicts = verdicts.iter();
    verdicts.filter(move |verdict| verdict.rule == name && verdict.phase == phase && verdict.round == round)
}

/// What counts of all that a rule said in a phase of this attempt of the node: a component may be asked again after
/// its Pass.
pub fn last_word<'v>(
    verdicts: &'v [VerdictRecord],
    rule: &Key,
    phase: Phase,
    round: i32,
) -> Option<&'v VerdictRecord> {
    said(verdicts, rule, phase, round).next_back()
}

/// What a rule's failures of one round come to, once no retry is left.
pub fn failed_for_good(
    rule: &RuleView,
    phase: Phase,
    verdicts: &[VerdictRecord],
    round: i32,
) -> Option<(FailurePolicy, Why)> {
    // A component that passed may be asked again, with all its retries.
    let since_pass = said(verdicts, &rule.key, phase, round).rev();
    let mut failures = since_pass.take_while(|verdict| verdict.outcome == Outcome::Failure);
    let last = failures.next()?;
    let failures = failures.fold(1, |all, _| all + 1);
    if failures <= rule.retries {
        return None;
    }
    let words = last.message.as_deref().unwrap_or(&last.reason);
    let message = format!(
        "rule {} failed in phase {} after {}: {words}",
        rule.key,
        phase.name(),
        counted(usize::try_from(failures).unwrap_or(0), "attempt")
    );
    Some((
        effective_policy(rule, phase),
        Why::new(Reason::RuleFailed, message),
    ))
}

/// Continue is for phases after the release only; before it, it means Hold.
pub(super) fn effective_policy(rule: &RuleView, phase: Phase) -> FailurePolicy {
    match rule.failure_policy {
        FailurePolicy::Continue if !phase.is_after_release() => FailurePolicy::Hold,
        policy => policy,
    }
}

/// Whether a rule's Pass may still let a node go: it is no older than `passSeconds`, names the Job that it is of, and is of the
/// rule as it is now. What a journal of an earlier numo has no edition of is asked for again.
/// A Pass without a Job names no node. In a status of an earlier numo, which names no NodeChange either, one of another node is believed for
/// `passSeconds`: times tell nothing, as both had their turns, and to ask again would never end where the API server drops whose a status is.
pub fn is_fresh(rule: &RuleView, verdict: &VerdictRecord, now: Timestamp) -> bool {
    verdict.outcome == Outcome::Pass
        && (rule.is_evaluated || verdict.job.is_some())
        && verdict.edition.as_deref() == Some(rule.edition().as_str())
        && given_at(verdict).is_some_and(|at| is_recent(rule, at, now))
}

/// When a verdict was given: when its Job ended or the rule answered, which may be long before it was written down, and is never after
/// that.
fn given_at(verdict: &VerdictRecord) -> Option<Timestamp> {
    let written: Timestamp = verdict.at.parse().ok()?;
    let ended = verdict.ended_at.as_deref().map(str::parse::<Timestamp>);
    ended.map_or(Some(written), |ended| Some(ended.ok()?.min(written)))
}

/// Whether a Pass that was given then may still let a node go. One of a time that has not come yet does not: the clock went back, and
/// nobody knows how old it is.
pub(super) fn is_recent(rule: &RuleView, at: Timestamp, now: Timestamp) -> bool {
    at <= later(now, AHEAD_SECONDS) && now <= later(at, rule.pass_seconds)
}

/// How long the Job of a verdict ran (seconds), where the journal tells.
pub(super) fn took_seconds(verdict: &VerdictRecord) -> Option<i64> {
    let started: Timestamp = verdict.started_at.as_deref()?.parse().ok()?;
    Some(given_at(verdict)?.duration_since(started).as_secs().max(0))
}
