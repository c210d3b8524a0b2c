//! Why something waits, is held or is refused.

use crate::key::Key;
use jiff::Timestamp;
use numo_api::{Reason, conditions::Actor};
use std::sync::Arc;

/// What gave an owner up, so that whoever takes it up again need not read the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// The annotation of a person on the owner.
    Annotation,
    /// The directive of a person on this NodeChange.
    Directive(Key),
    /// A rule that failed in the turn of this node.
    RuleOfTurn(String),
    /// A rule that the run evaluates for itself failed.
    RuleOfRun,
}

/// A reason, and the sentence that names object, field, found and wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// Stable identifier.
    pub reason: Reason,
    /// The sentence. Shared, as thousands of nodes may wait for one thing.
    pub message: Arc<str>,
    /// When time alone ends it, where it does.
    pub until: Option<Timestamp>,
    /// Who can end it here, where that is not who can end the reason as a rule.
    pub ended_by: Option<Actor>,
    /// What gave the owner up, where the reason is `Aborted`. Shared, as it is passed on with each clone.
    pub given_up: Option<Arc<GivenUp>>,
}

impl Why {
    /// A reason with its sentence. Where there is none, as a journal that is read back has lost it, the reason's own meaning.
    pub fn new(reason: Reason, message: impl Into<Arc<str>>) -> Self {
        let message: Arc<str> = message.into();
        let message = if message.is_empty() {
            reason.meaning().into()
        } else {
            message
        };
        Self {
            reason,
            message,
            until: None,
            ended_by: None,
            given_up: None,
        }
    }

    /// That the owner is given up by this, with the sentence that says so.
    pub(crate) fn aborted(by: GivenUp, message: impl Into<Arc<str>>) -> Self {
        Self {
            given_up: Some(Arc::new(by)),
            ..Self::new(Reason::Aborted, message)
        }
    }

    /// Who can end it.
    pub fn who(&self) -> Actor {
        self.ended_by.unwrap_or(self.reason.who())
    }

    /// The same, to be ended by somebody else than the reason's own.
    #[must_use]
    pub fn ended_by(self, who: Actor) -> Self {
        Self {
            ended_by: Some(who),
            ..self
        }
    }

    /// The same, with the time that ends it, where there is one.
    #[must_use]
    pub fn until(self, at: impl Into<Option<Timestamp>>) -> Self {
        Self {
            until: at.into(),
            ..self
        }
    }
}
