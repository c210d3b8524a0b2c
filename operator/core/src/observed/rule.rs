//! MutexRules, and what those answer that numo itself asks.

use crate::key::Key;
use jiff::Timestamp;
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
    pub is_evaluated: bool,
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
    /// Why its Jobs cannot be seen now, where that is so: which namespace, and the API server's words.
    pub unseen: Option<String>,
}

impl RuleView {
    /// What tells this edition of the rule from any other: its uid and generation.
    pub fn edition(&self) -> String {
        format!("{}/{}", self.uid, self.generation)
    }

    /// Whether the rule has something to run in this phase.
    pub fn runs_in(&self, phase: Phase) -> bool {
        ((self.has_job || self.is_evaluated) && self.phases.contains(&phase))
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

/// One attempt of a rule that is asked, which may be asked many times until it passes or blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluationView {
    /// The rule.
    pub rule: Key,
    /// The rule's generation that was asked last.
    pub generation: i64,
    /// When it was asked for the first time, or anew: a Pass that nobody could go on did not make the node wait.
    pub first_asked: Timestamp,
    /// Whether its time began anew with `first_asked`, whatever is written down.
    pub anew: bool,
    /// When it was asked last.
    pub asked: Timestamp,
    /// Whether an answer is under way.
    pub under_way: bool,
    /// What it said last, and when.
    pub answer: Option<(Timestamp, RuleAnswer)>,
    /// The last Wait of this attempt, and when it was said.
    pub waited: Option<(Timestamp, RuleWords)>,
    /// How often in a row it gave no verdict.
    pub failures: u32,
    /// Whether something that it read has changed since it was asked.
    pub stirred: bool,
    /// How often that has happened in this attempt.
    pub stirs: u32,
}

/// What came of asking a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleAnswer {
    /// The step may be taken.
    Pass(RuleWords),
    /// Not now; ask again after so many seconds.
    Wait(RuleWords, i64),
    /// The step must not be taken.
    Block(RuleWords),
    /// It gave no verdict, and why; never a pass.
    NoVerdict(Reason, String),
}

impl RuleAnswer {
    /// Which of the four.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass(_) => "pass",
            Self::Wait(..) => "wait",
            Self::Block(_) => "block",
            Self::NoVerdict(..) => "none",
        }
    }
}

/// The rule's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleWords {
    /// CamelCase.
    pub reason: String,
    /// One sentence.
    pub summary: String,
    /// What it reads back in later phases: JSON, 16 KiB at most.
    pub data: Option<String>,
    /// What it found, each with its object, and how far it is, for people; empty if it says nothing of that.
    pub found: String,
}

impl RuleWords {
    /// Reason, sentence, and what was found.
    pub fn shown(&self) -> String {
        let Self {
            reason,
            summary,
            found,
            ..
        } = self;
        if found.is_empty() {
            format!("{reason}: {summary}")
        } else {
            format!("{reason}: {summary} [{found}]")
        }
    }
}
