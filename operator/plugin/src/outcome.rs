//! What an evaluation ends with.

use std::time::Duration;

use crate::verdict::Verdict;

/// A verdict, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The rule's word, checked.
    pub verdict: Verdict,
    /// What it read: when one of these changes, a wait is asked again at once.
    pub reads: Vec<Read>,
    /// For metrics.
    pub usage: Usage,
}

/// What one call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the start of its turn to its answer.
    pub duration: Duration,
    /// The highest sum of linear memory, in bytes.
    pub memory_bytes: u64,
    /// Calls of any kind.
    pub host_calls: u64,
    /// Bytes that the host handed over.
    pub host_bytes: u64,
}

/// What a component touched, so that the operator can ask it again when that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// `v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// None: all, or cluster-scoped.
    pub namespace: Option<String>,
    /// None: a list.
    pub name: Option<String>,
    /// Of a list.
    pub label_selector: Option<String>,
}
