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

/// What a wait comes of, as far as a command ends it: so nobody need read the sentence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Where the reason is `Aborted`.
    GivenUp(GivenUp),
    /// Where the reason is `FailureBudgetSpent`.
    Failures {
        /// The node that a person decides on first.
        node: String,
        /// Whether that node is gone, so that nothing can be tried again on it.
        is_gone: bool,
        /// The field that has the budget, with the MutexBinding in front if it is of one.
        field: String,
    },
    /// Where the reason is `ForeignWriter`: somebody unpauses this MachineConfigPool again and again.
    Unpaused(String),
    /// The same: somebody changes the node selector of this MachineConfigPool.
    Selector(String),
    /// The same: somebody takes labels off this Node.
    Labels(String),
    /// The command that approves it, where the reason is `WaitsForApproval` or `ApprovalExpired`.
    Approval(String),
    /// The command that a person begins with, where the reason is `MarkUnreadable`, or `ForeignWriter` of what is on an owner itself.
    Command(String),
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
    /// What it comes of, for some reasons. Shared, as it is passed on with each clone.
    pub cause: Option<Arc<Cause>>,
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
            cause: None,
        }
    }

    /// That the owner is given up by this, with the sentence that says so.
    pub(crate) fn aborted(by: GivenUp, message: impl Into<Arc<str>>) -> Self {
        Self::new(Reason::Aborted, message).of(Cause::GivenUp(by))
    }

    /// The same, with what it comes of.
    #[must_use]
    pub fn of(mut self, cause: Cause) -> Self {
        self.cause = Some(Arc::new(cause));
        self
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
