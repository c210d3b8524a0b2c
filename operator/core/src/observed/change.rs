//! What stands for the turn of a node: its NodeChange and its lease.

use crate::{
    key::{Key, Map},
    time::later,
};
use jiff::Timestamp;
use numo_api::{DirectiveAction, NodeChangeSpec, NodeChangeStatus, Step, marks};

/// A NodeChange.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// resourceVersion the journal was read at: a journal is written only over what was read.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Creation time.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// The spec.
    pub spec: NodeChangeSpec,
    /// What of it this numo cannot read, in words: a later one wrote it. The rest tells whose turn it is, and of which node.
    pub misread: Option<String>,
    /// The journal.
    pub status: NodeChangeStatus,
}

impl ChangeView {
    /// Whether the node still has its turn. A NodeChange that a person made, to say something about a
    /// node that waits, is no turn; one of a turn goes on, whatever a person writes before its first step.
    pub fn in_flight(&self) -> bool {
        match self.status.step {
            None => !self.is_word(),
            Some(Step::Selected) => false,
            Some(step) => !step.is_terminal(),
        }
    }

    /// Whether nothing of a turn stands in it: a person made it, to say something about a node that waits. One whose word was taken back has
    /// been edited; one that numo made for a turn, and has written nothing to yet, has not.
    pub fn is_word(&self) -> bool {
        let has_begun = !matches!(self.status.step, None | Some(Step::Selected | Step::Skipped));
        let was_said = self.spec.directive.is_some() || self.generation > 1;
        !has_begun && was_said && !self.annotations.contains_key(marks::TURN)
    }

    /// Whether a person holds the node by it.
    pub fn is_held(&self) -> bool {
        let directive = self.spec.directive.as_ref();
        directive.is_some_and(|directive| directive.action == DirectiveAction::Hold)
    }

    /// Whether the status was written for another NodeChange, or for this one before it was deleted and restored.
    pub fn is_copied(&self) -> bool {
        let written_for = self.status.node_change_uid.as_ref();
        written_for.is_some_and(|uid| *uid != self.uid)
    }
}

/// A node lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Who holds it.
    pub holder: String,
    /// When it was renewed last.
    pub renewed: Option<Timestamp>,
    /// How long it holds, in seconds.
    pub duration_seconds: i64,
    /// Whether numo wrote the holder: another operator takes node leases under the same name.
    pub by_numo: bool,
    /// How often it changed hands.
    pub transitions: i64,
    /// uid of the Lease.
    pub uid: String,
    /// resourceVersion it was read at.
    pub resource_version: String,
}

impl LeaseView {
    /// When its holder is to renew it: at half of its duration.
    pub fn renewal(&self) -> Timestamp {
        let half = self.duration_seconds / 2 + 1;
        self.renewed.map_or(Timestamp::UNIX_EPOCH, |at| later(at, half))
    }
    /// Whether the lease no longer holds at `now` (the API server's time).
    pub fn expired(&self, now: Timestamp) -> bool {
        let is_over = |at: Timestamp| now.as_second() - at.as_second() > self.duration_seconds;
        self.holder.is_empty() || self.renewed.is_none_or(is_over)
    }
}
