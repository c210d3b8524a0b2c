//! What a write means to people: the event that goes with it.

use numo_api::Reason;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventAction {
    /// A node's turn began.
    Admit,
    /// A rule was asked.
    EvaluateRule,
    /// A node was let go.
    Release,
    /// A node came back.
    Change,
    /// A node is done.
    Complete,
    /// A pool was paused.
    Pause,
    /// A pool was given back.
    Unpause,
    /// A pool was left paused.
    Hold,
    /// Something was put back as it was.
    Restore,
    /// A node was cordoned, or is being drained.
    Drain,
    /// People were told, or could not be.
    Notify,
}

impl EventAction {
    /// CamelCase name for `events.k8s.io`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admit => "Admit",
            Self::EvaluateRule => "EvaluateRule",
            Self::Release => "Release",
            Self::Change => "Change",
            Self::Complete => "Complete",
            Self::Pause => "Pause",
            Self::Unpause => "Unpause",
            Self::Hold => "Hold",
            Self::Restore => "Restore",
            Self::Drain => "Drain",
            Self::Notify => "Notify",
        }
    }
}

/// An event to publish once the write it belongs to has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The node it is about; the run if none.
    pub node: Option<String>,
    /// Warning instead of Normal.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: &'static str,
    /// What was done.
    pub action: EventAction,
    /// The sentence, 1,024 bytes at most.
    pub note: String,
}

impl Event {
    /// An event of type Normal.
    pub fn normal(reason: &'static str, action: EventAction, note: impl Into<String>) -> Self {
        Self {
            node: None,
            warning: false,
            reason,
            action,
            note: note.into(),
        }
    }

    /// An event of type Warning.
    pub fn warning(reason: &'static str, action: EventAction, note: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::normal(reason, action, note)
        }
    }

    /// Says that it is about this node.
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }
}

/// The event's reason for a numo reason.
pub fn event_reason(reason: Reason) -> &'static str {
    reason.name()
}
