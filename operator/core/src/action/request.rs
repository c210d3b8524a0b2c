//! What is to be made or asked: Jobs of rules and of Plans, and evaluations.

use crate::{key::Key, owner::Owner};
use numo_api::{Phase, Placement};
use serde::{Deserialize, Serialize};

/// The mark on a NodeMaintenance that numo made for another operator to drain a node by ([`crate::mark`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainsFor {
    /// uid of the owner.
    pub owner: String,
    /// uid of the NodeChange.
    pub change: String,
    /// The attempt of the turn.
    pub attempt: i32,
    /// uid of the Node.
    pub node: String,
}

/// Everything that makes a NodeMaintenance by which another operator drains a node. It has the name of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaintenanceRequest {
    /// The node.
    pub node: String,
    /// Why, for people.
    pub reason: &'static str,
    /// For which turn.
    pub mark: DrainsFor,
}

/// Everything that makes a rule's Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequest {
    /// Namespace and name of the Job.
    pub job: Key,
    /// The rule.
    pub rule: Key,
    /// The phase; Post takes `cleanUpJobSpec`.
    pub phase: Phase,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// Name of the node; empty for rules that are asked once per run.
    pub node: String,
    /// The node's host name label.
    pub hostname: String,
    /// Home pool of the node.
    pub pool: String,
    /// Version the node comes from.
    pub from_version: String,
    /// Version the node goes to.
    pub to_version: String,
    /// Id of the run.
    pub run: String,
    /// Where the pods may run.
    pub placement: Placement,
    /// Host names of the other nodes in flight: the pods are placed elsewhere where there is room (ADR 7).
    pub avoid: Vec<String>,
    /// Upper bound of `activeDeadlineSeconds`.
    pub timeout_seconds: i64,
}

/// Everything that makes the Job of a node of a Plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanJobRequest {
    /// Namespace and name of the Job.
    pub job: Key,
    /// The Plan.
    pub plan: Key,
    /// Name of the node.
    pub node: String,
    /// The node's host name label.
    pub hostname: String,
    /// Whether the node runs Windows.
    pub windows: bool,
    /// `status.latestVersion`.
    pub version: String,
    /// `status.latestHash`.
    pub hash: String,
    /// What of it runs.
    pub parts: PlanParts,
}

/// What of a Plan a Job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanParts {
    /// Prepare, cordon or drain, upgrade: as system-upgrade-controller has it.
    All,
    /// Prepare alone: numo drains after it.
    Prepare,
    /// Upgrade alone: numo has drained.
    Upgrade,
}

/// Everything that a rule is asked about. Asking writes nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluationRequest {
    /// Key of its answer among the evaluations.
    pub key: String,
    /// The rule.
    pub rule: Key,
    /// uid of the rule.
    pub rule_uid: String,
    /// `metadata.generation` of the rule.
    pub generation: i64,
    /// The phase.
    pub phase: Phase,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// The owner.
    pub owner: Owner,
    /// Name of the node; empty for rules that are asked once per run.
    pub node: String,
    /// uid of the node.
    pub node_uid: String,
    /// Home pool of the node.
    pub pool: String,
    /// Version the node comes from.
    pub from_version: String,
    /// Version the node goes to.
    pub to_version: String,
    /// Id of the run.
    pub run: String,
    /// What the rule said before of this node, the newest first.
    pub history: Vec<Earlier>,
}

/// What a rule said before, as the journal and its last wait tell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Earlier {
    /// The phase.
    pub phase: Phase,
    /// Number of the attempt, from 1.
    pub attempt: i32,
    /// When, RFC 3339.
    pub at: String,
    /// What it came to.
    pub word: EarlierWord,
    /// CamelCase reason.
    pub reason: String,
    /// The reason in a sentence.
    pub summary: String,
    /// What it left for itself, JSON.
    pub data: Option<String>,
}

/// What an earlier question came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EarlierWord {
    /// It passed.
    Pass,
    /// It made the node wait; only what it said last of one attempt is known, and not after a restart.
    Wait,
    /// It ended the attempt, by its own word or by none in time.
    Block,
}
