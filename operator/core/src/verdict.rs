//! Questions that only the outside can answer, and the answers.
//!
//! A question names what must be read before a decision can be made; it never writes. No answer means
//! wait: silence is never a pass.

use crate::{action::EvaluationRequest, key::Key, observed::FleetQuestion};
use std::collections::{BTreeMap, BTreeSet};

/// Something to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// Exit code and log of an ended Job, before its verdict is journaled.
    Evidence {
        /// The Job.
        job: Key,
        /// How much of the log's end to read (bytes).
        log_tail_bytes: usize,
    },
    /// Whether every pod that a drain of the node would evict could be evicted now.
    DrainProbe {
        /// The node.
        node: String,
    },
    /// Whether these pods of a node could be evicted now. Answered as a drain probe is.
    Evictions {
        /// The node.
        node: String,
        /// The pods.
        pods: Vec<Key>,
    },
    /// Which volumes that are attached to a node are those of pods that stay on it.
    Volumes {
        /// The node.
        node: String,
        /// The claims of those pods.
        claims: Vec<Key>,
    },
    /// Which version a Plan's channel names. It is answered later, among the channels that were seen.
    Channel {
        /// The Plan.
        plan: Key,
        /// The URL.
        url: String,
        /// The version that is known, for the server to know.
        latest: String,
    },
    /// What the provider of machines knows. It is answered later, among what was seen.
    Fleet(FleetQuestion),
    /// What a wasm rule says. It is answered later, among the evaluations that were seen.
    Evaluate(Box<EvaluationRequest>),
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Evidence by Job.
    pub evidence: BTreeMap<Key, Evidence>,
    /// Drain probes by node: the first pod that cannot go, and why; none if all can.
    pub drains: BTreeMap<String, Option<String>>,
    /// By node the volumes of the claims that were asked for, or why they are not known.
    pub volumes: BTreeMap<String, Result<KeptVolumes, String>>,
}

/// Attached volumes of pods that stay on their node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptVolumes {
    /// As `status.volumesAttached` of a node names them.
    pub names: BTreeSet<String>,
    /// How many more there are at most whose names cannot be told: those of plugins in the tree, which drivers attach
    /// under names of their own.
    pub unnamed: usize,
}

/// What an ended Job left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Exit code of the container that ended last, if it could be read.
    pub exit_code: Option<i32>,
    /// Cleaned end of the log, or of the termination message.
    pub log_tail: Option<String>,
}
