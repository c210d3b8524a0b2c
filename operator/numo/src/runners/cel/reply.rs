//! What an evaluation of expressions is given, and what comes of it, as they go from process to process. Nothing is evaluated here.

use numo_api::CelRule;
use numo_core::observed::RuleWords;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Everything that one evaluation needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The expressions.
    pub rule: CelRule,
    /// What they see: of the names that every expression knows all but `variables` and `now`.
    pub values: Map<String, Value>,
    /// The API server's time, RFC 3339.
    pub now: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Every expression is true.
    Pass(Words),
    /// One is false, and says so many seconds.
    Wait(Words, i64),
    /// One is false, and ends the attempt.
    Block(Words),
    /// One can be neither.
    Failed(String),
}

/// A reason, a sentence, and data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    pub(super) reason: String,
    pub(super) summary: String,
    pub(super) data: Option<String>,
}

impl From<Words> for RuleWords {
    fn from(words: Words) -> Self {
        Self {
            reason: words.reason,
            summary: words.summary,
            data: words.data,
            found: String::new(),
        }
    }
}
