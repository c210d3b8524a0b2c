//! MutexRules.

use crate::key::Key;
use numo_api::{FailurePolicy, Phase, Placement, Reason};

/// Default of `passSeconds` of a rule that is evaluated (seconds).
pub const EVALUATED_PASS_SECONDS: i64 = 60;

/// A MutexRule, with what the API server said about its Jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Prefix of the Jobs' names.
    pub job_name: String,
    /// Namespace of the Jobs.
    pub job_namespace: String,
    /// ServiceAccounts that the Jobs run as, as their pods' templates name them; empty where they name none.
    pub job_accounts: Vec<String>,
    /// Whether `jobSpec` is given.
    pub has_job: bool,
    /// Whether `cleanUpJobSpec` is given.
    pub has_clean_up_job: bool,
    /// Whether it is asked by numo itself, and runs no Job.
    pub is_asked: bool,
    /// `timeoutSeconds`, with its default.
    pub timeout_seconds: i64,
    /// `passSeconds`, with its default: how old a Pass may be when a node is let go on it (seconds).
    pub pass_seconds: i64,
    /// `retries`, with its default.
    pub retries: i32,
    /// `failurePolicy`, with its default.
    pub failure_policy: FailurePolicy,
    /// `phases`, with its default.
    pub phases: Vec<Phase>,
    /// `placement`, with its default.
    pub placement: Placement,
    /// `logTailBytes`, with its default (bytes).
    pub log_tail_bytes: usize,
    /// What is known of its validity.
    pub validity: Validity,
}

impl RuleView {
    /// What tells this edition of the rule from any other: its uid and generation.
    pub fn edition(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }

    /// Whether the rule has something to run in this phase.
    pub fn runs_in(&self, phase: Phase) -> bool {
        ((self.has_job || self.is_asked) && self.phases.contains(&phase))
            || (phase == Phase::Post && self.has_clean_up_job)
    }
}

/// What is known of a rule's validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The API server has not been asked yet.
    Unknown,
    /// The API server accepts the Jobs.
    Valid,
    /// It does not, and why.
    Invalid(Reason, String),
}
