//! MutexApprovals: the words of people that something may begin.

use jiff::Timestamp;
use numo_api::{MutexApprovalSpec, MutexApprovalStatus};

/// A MutexApproval.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// When it was made.
    pub created: Timestamp,
    /// It is being deleted: the word is taken back, whatever finalizer keeps the object.
    pub deleting: bool,
    /// `spec`.
    pub spec: MutexApprovalSpec,
    /// `metadata.generation`.
    pub generation: i64,
    /// The status last written: no decision reads it.
    pub status: MutexApprovalStatus,
}
