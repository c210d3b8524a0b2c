//! What a provider says, checked and bounded: ids, names and sentences of a stranger. Whether it can be so is judged where machines are
//! decided over.

use std::fmt;

use super::bindings::exports::numo::provider::machines as wit;
use crate::{
    reason::{Reason, Refused},
    text::clean,
    verdict::SENTENCE,
};

/// Bytes of an id, an image or a name.
const ID_BYTES: usize = 1024;
/// Bytes of what a provider wants to be given with its next call.
const TOKEN_BYTES: usize = 4096;
/// Groups of one cluster.
const GROUPS: usize = 1000;
/// Longest time a provider may ask to be left alone for (seconds).
const MOST_SECONDS: u32 = 3600;

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The provider says so.
    Said(Failure),
    /// The host did not let it answer, or could not use what it answered.
    Refused(Refused),
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(failure) => write!(f, "{}: {}", failure.code.as_str(), failure.message),
            Self::Refused(refused) => write!(f, "{refused}"),
        }
    }
}

/// A failure in the provider's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is to be done about it.
    pub code: FailureCode,
    /// One sentence.
    pub message: String,
    /// When it is worth another try (seconds), if the cloud has said so.
    pub retry_after_seconds: Option<u32>,
}

/// What is to be done about a failure. `wit/provider`, enum `failure-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCode {
    /// An id or an image has not the form of this cloud.
    Invalid,
    /// The group or image does not exist.
    NotFound,
    /// The cloud refused the credentials, or the host the call.
    Denied,
    /// Quota or capacity.
    Exhausted,
    /// Too many requests.
    Throttled,
    /// No answer or a failure.
    Unavailable,
    /// Anything else.
    Other,
}

impl FailureCode {
    /// Its name, as reasons are written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::NotFound => "NotFound",
            Self::Denied => "Denied",
            Self::Exhausted => "Exhausted",
            Self::Throttled => "Throttled",
            Self::Unavailable => "Unavailable",
            Self::Other => "Failed",
        }
    }
}

/// State of a machine. `wit/provider`, enum `node-state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of PendingNode's status.cspState")]
pub enum MachineState {
    Unknown,
    Creating,
    Ready,
    Stopped,
    Terminating,
    Terminated,
    Failed,
}

/// A machine that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Name of its Node.
    pub node: String,
    /// Its id.
    pub provider_id: String,
}

/// Work under way in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// To be given with the next call.
    pub token: String,
    /// When that is worth it (seconds).
    pub retry_after_seconds: u32,
    /// What is awaited.
    pub message: String,
}

/// What came of making a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// It is there.
    Created(Made),
    /// Not yet.
    Pending(Pending),
}

/// A group of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name for the ScalingGroup.
    pub name: String,
    /// Name for people.
    pub node_group_name: String,
    /// Its id.
    pub group_id: String,
    /// Name that the cluster autoscaler knows it by.
    pub autoscaling_group_name: String,
    /// Whether its machines run the control plane.
    pub is_control_plane: bool,
}

/// What a provider says to one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// An image, a group or a name.
    Text(String),
    /// What came of making a machine.
    Creation(Creation),
    /// The machine of a request, if there is one.
    Found(Option<Made>),
    /// It is done, or is under way.
    Done(Option<Pending>),
    /// State of a machine.
    State(MachineState),
    /// All groups.
    Groups(Vec<Group>),
}

fn wrong(message: String) -> Failed {
    Failed::Refused(Refused::new(Reason::RuleError, message))
}

/// An id or a name, not empty and as it is: what is cut or cleaned would be another one.
pub(super) fn id(field: &str, text: String) -> Result<String, Failed> {
    if text.is_empty() || text.len() > ID_BYTES || clean(&text, ID_BYTES) != text {
        let found = clean(&text, 128);
        return Err(wrong(format!(
            "the provider answered {field} {found:?}, wanted 1 to {ID_BYTES} bytes without control characters"
        )));
    }
    Ok(text)
}

pub(super) fn made(made: wit::CreatedNode) -> Result<Made, Failed> {
    let node = id("node-name", made.node_name)?;
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if node.len() > 253 || !node.bytes().all(fits) {
        return Err(wrong(format!(
            "the provider answered node-name {:?}, wanted the name of a Node",
            clean(&node, 128)
        )));
    }
    Ok(Made {
        node,
        provider_id: id("provider-id", made.provider_id)?,
    })
}

pub(super) fn pending(pending: wit::Pending) -> Result<Pending, Failed> {
    if pending.token.len() > TOKEN_BYTES {
        return Err(wrong(format!(
            "the provider answered a token of {} bytes, the limit is {TOKEN_BYTES}",
            pending.token.len()
        )));
    }
    Ok(Pending {
        token: pending.token,
        retry_after_seconds: pending.retry_after_seconds.clamp(1, MOST_SECONDS),
        message: clean(&pending.message, SENTENCE),
    })
}

pub(super) fn failure(failure: &wit::Failure) -> Failed {
    let code = match failure.code {
        wit::FailureCode::Invalid => FailureCode::Invalid,
        wit::FailureCode::NotFound => FailureCode::NotFound,
        wit::FailureCode::Denied => FailureCode::Denied,
        wit::FailureCode::Exhausted => FailureCode::Exhausted,
        wit::FailureCode::Throttled => FailureCode::Throttled,
        wit::FailureCode::Unavailable => FailureCode::Unavailable,
        wit::FailureCode::Other => FailureCode::Other,
    };
    Failed::Said(Failure {
        code,
        message: clean(&failure.message, SENTENCE),
        retry_after_seconds: failure
            .retry_after_seconds
            .map(|seconds| seconds.clamp(1, MOST_SECONDS)),
    })
}

pub(super) fn state(state: wit::NodeState) -> MachineState {
    match state {
        wit::NodeState::Unknown => MachineState::Unknown,
        wit::NodeState::Creating => MachineState::Creating,
        wit::NodeState::Ready => MachineState::Ready,
        wit::NodeState::Stopped => MachineState::Stopped,
        wit::NodeState::Terminating => MachineState::Terminating,
        wit::NodeState::Terminated => MachineState::Terminated,
        wit::NodeState::Failed => MachineState::Failed,
    }
}

pub(super) fn groups(groups: Vec<wit::ScalingGroup>) -> Result<Vec<Group>, Failed> {
    if groups.len() > GROUPS {
        return Err(wrong(format!(
            "the provider answered {} groups, the limit is {GROUPS}",
            groups.len()
        )));
    }
    let one = |group: wit::ScalingGroup| {
        Ok(Group {
            name: id("name of a group", group.name)?,
            node_group_name: clean(&group.node_group_name, ID_BYTES),
            group_id: id("group-id", group.group_id)?,
            autoscaling_group_name: id("autoscaling-group-name", group.autoscaling_group_name)?,
            is_control_plane: group.role == wit::NodeRole::ControlPlane,
        })
    };
    groups.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(node: &str, provider_id: &str) -> wit::CreatedNode {
        wit::CreatedNode {
            node_name: node.to_owned(),
            provider_id: provider_id.to_owned(),
            attributes: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_a_node_or_an_id_is_refused_and_not_cut() {
        assert!(made(created("w-1", "gce://p/z/w-1")).is_ok());
        for (node, provider_id) in [
            ("", "gce://p/z/w-1"),
            ("W-1", "gce://p/z/w-1"),
            ("w 1", "gce://p/z/w-1"),
            ("w-1", ""),
            ("w-1", "gce://p/z/w\n1"),
            ("w-1", &"a".repeat(ID_BYTES + 1)),
        ] {
            let refused = made(created(node, provider_id)).unwrap_err();
            assert!(
                matches!(&refused, Failed::Refused(refused) if refused.reason == Reason::RuleError),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_provider_cannot_ask_to_be_left_alone_for_ever() {
        let asked = wit::Pending {
            token: "t".to_owned(),
            retry_after_seconds: u32::MAX,
            message: "a\nb".to_owned(),
        };
        let pending = pending(asked).unwrap();
        assert_eq!(
            (pending.retry_after_seconds, pending.message.as_str()),
            (MOST_SECONDS, "a b")
        );
    }
}
