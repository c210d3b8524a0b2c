//! The attempt of a rule whose verdict is next.

use super::{
    inquiry::Subject,
    verdicts::{effective_policy, said},
};
use crate::{
    key::Key,
    names::{self, JobIdentity},
    observed::RuleView,
    text::clip,
};
use jiff::Timestamp;
use numo_api::{FailurePolicy, Outcome, Phase, VerdictRecord};

/// Longest message of a verdict (characters), as the NodeChange schema bounds it.
pub(super) const MESSAGE_MAX: usize = 512;
/// How long after its deadline an attempt may take to end (seconds), before numo records the timeout itself: the Job
/// controller marks a Job as failed in its own time.
pub(super) const DEADLINE_GRACE_SECONDS: i64 = 60;

/// The attempt of a rule whose verdict is next.
#[derive(Clone, Debug)]
pub(super) struct Attempt<'a> {
    pub rule: &'a RuleView,
    /// Its name as journals have it.
    pub name: String,
    pub phase: Phase,
    /// From 1, over all attempts of the node.
    pub number: i32,
    pub subject: &'a Subject<'a>,
    pub verdicts: &'a [VerdictRecord],
}

impl<'a> Attempt<'a> {
    pub(super) fn next(
        rule: &'a RuleView,
        phase: Phase,
        verdicts: &'a [VerdictRecord],
        subject: &'a Subject<'a>,
    ) -> Self {
        let name = rule.key.to_string();
        let of_rule = verdicts
            .iter()
            .filter(|verdict| verdict.rule == name && verdict.phase == phase);
        let last = of_rule.map(|verdict| verdict.attempt).max().unwrap_or(0);
        Self {
            rule,
            name,
            phase,
            number: last.saturating_add(1),
            subject,
            verdicts,
        }
    }

    pub(super) fn identity(&self) -> JobIdentity<'_> {
        JobIdentity {
            owner_uid: self.subject.owner_uid,
            node_uid: self.subject.node_uid,
            run: self.subject.run,
            rule: &self.name,
            phase: self.phase,
            round: self.subject.round,
            attempt: self.number,
        }
    }

    /// Its Job.
    pub(super) fn job(&self) -> Key {
        let name = names::job_name(&self.rule.job_name, &self.identity());
        Key::new(&self.rule.job_namespace, name)
    }

    /// Which it is, in words.
    pub(super) fn words(&self) -> String {
        let (rule, phase) = (&self.name, self.phase.name());
        format!("rule {rule}, phase {phase}, attempt {}", self.number)
    }

    /// What it comes to if it fails.
    pub(super) fn failed(&self) -> Outcome {
        let earlier = said(self.verdicts, &self.rule.key, self.phase, self.subject.round);
        let failures = earlier
            .filter(|verdict| verdict.outcome == Outcome::Failure)
            .count();
        let is_last = i32::try_from(failures).unwrap_or(i32::MAX) >= self.rule.retries;
        if is_last && effective_policy(self.rule, self.phase) == FailurePolicy::Continue {
            Outcome::ContinuedAfterFailure
        } else {
            Outcome::Failure
        }
    }

    /// Its verdict as it is journaled.
    pub(super) fn verdict(
        &self,
        outcome: Outcome,
        (reason, message): (&str, &str),
        started: Option<Timestamp>,
        now: Timestamp,
    ) -> VerdictRecord {
        let rule = self.rule;
        VerdictRecord {
            rule: self.name.clone(),
            phase: self.phase,
            attempt: self.number,
            round: self.subject.round,
            outcome,
            policy: (outcome != Outcome::Pass).then(|| effective_policy(rule, self.phase)),
            reason: clip(reason, 64),
            message: (!message.is_empty()).then(|| clip(message, MESSAGE_MAX)),
            job: (!rule.is_evaluated).then(|| self.job().to_string()),
            exit_code: None,
            data: None,
            started_at: started.map(|at| at.to_string()),
            at: now.to_string(),
            ended_at: None,
            edition: Some(rule.edition()),
        }
    }
}

/// The Job whose end is the next verdict of a rule.
pub fn next_job(rule: &RuleView, phase: Phase, verdicts: &[VerdictRecord], subject: &Subject<'_>) -> Key {
    Attempt::next(rule, phase, verdicts, subject).job()
}
