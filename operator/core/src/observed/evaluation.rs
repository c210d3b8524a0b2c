//! Rules that numo itself asks, and what they answer.

use crate::key::Key;
use jiff::Timestamp;
use numo_api::Reason;

/// One attempt of a rule that is asked, which may be asked many times until it passes or blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
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
