//! What a check has found, and what mends it.

use serde::Serialize;

/// Reviews of access, and images, that are asked for at once.
pub(super) const AT_ONCE: usize = 16;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Not wrong, but to be known.
    Note,
    /// Something to mend.
    Wrong,
    /// It could not be looked at.
    Unknown,
}

/// What was found, and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The check, by a stable name.
    pub check: &'static str,
    /// How it went.
    pub state: State,
    /// What was found, in a sentence that names the object.
    pub message: String,
    /// What mends it; none where there is nothing to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// What was found so far.
pub(super) struct Findings {
    pub(super) check: &'static str,
    pub(super) all: Vec<Finding>,
}

impl Findings {
    pub(super) fn say(&mut self, state: State, message: impl Into<String>, cure: Option<String>) {
        self.all.push(Finding {
            check: self.check,
            state,
            message: message.into(),
            cure,
        });
    }

    pub(super) fn ok(&mut self, message: impl Into<String>) {
        self.say(State::Ok, message, None);
    }

    pub(super) fn wrong(&mut self, message: impl Into<String>, cure: impl Into<String>) {
        self.say(State::Wrong, message, Some(cure.into()));
    }

    pub(super) fn note(&mut self, message: impl Into<String>, cure: impl Into<String>) {
        self.say(State::Note, message, Some(cure.into()));
    }

    pub(super) fn unknown(&mut self, what: &str, error: &kube::Error) {
        let words = match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        let cure = "run it as somebody who may read that, for example as cluster-admin".to_owned();
        self.say(State::Unknown, format!("{what}: {words}"), Some(cure));
    }
}

pub use numo_core::text::counted;
