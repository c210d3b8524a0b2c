//! What a provider of machines says. Data only.

use numo_api::machines::CspState;
use numo_core::observed::{GroupFacts, MachineFacts, MadeMachine};

/// What the provider said to a question.
#[derive(Clone, Debug)]
pub enum ProviderAnswer {
    /// Image and group of a machine.
    Facts(Result<MachineFacts, Unanswered>),
    /// State of a machine.
    State(Result<CspState, Unanswered>),
    /// Image of new machines of a group.
    Image(Result<String, Unanswered>),
    /// All groups.
    Groups(Result<Vec<GroupFacts>, Unanswered>),
    /// The machine of a request.
    Found(Result<Option<MadeMachine>, Unanswered>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// In these words.
    pub words: String,
    /// When it is worth another try (seconds), where the provider has said so.
    pub again_seconds: Option<i64>,
}

impl From<String> for Unanswered {
    fn from(words: String) -> Self {
        Self {
            words,
            again_seconds: None,
        }
    }
}

/// What became of a call that makes, changes or deletes.
#[derive(Clone, Debug)]
pub enum Called<T> {
    /// It is done.
    Done(T),
    /// It takes a while: the same call again after so many seconds.
    Pending(i64),
    /// It is refused.
    Refused {
        /// In these words.
        words: String,
        /// When it is worth another try (seconds).
        again_seconds: i64,
    },
}

/// How soon who has refused is told again, where nothing else is known (seconds).
pub const REFUSED_SECONDS: i64 = 15;

impl<T> Called<T> {
    /// It is refused, in these words, and nothing else is known.
    pub fn refused(words: String) -> Self {
        Self::Refused {
            words,
            again_seconds: REFUSED_SECONDS,
        }
    }

    /// The same with another result.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Called<U> {
        match self {
            Self::Done(result) => Called::Done(to(result)),
            Self::Pending(seconds) => Called::Pending(seconds),
            Self::Refused { words, again_seconds } => Called::Refused { words, again_seconds },
        }
    }
}
