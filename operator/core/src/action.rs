//! Actions: one write each, with the precondition under which it is right.
//!
//! A change of a foreign object names for each field what was read and what is to be written; the shell
//! turns it into a JSON Patch that tests the former. Nothing here knows how to write.

use crate::{
    key::{Key, Map},
    observed::{MachineApi, NodeView, PoolView},
    owner::Owner,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, NodeChangeStatus, Phase, Placement, Reason, RunStatus, Step};
use serde_json::Value;

/// A field: what was read, and what it shall be. `None` is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Label or annotation key.
    pub key: String,
    /// What was read.
    pub from: Option<String>,
    /// What it shall be.
    pub to: Option<String>,
}

impl Change {
    /// A change of what these labels or annotations have now.
    pub fn of(map: &Map, key: &str, to: Option<String>) -> Self {
        Self {
            key: key.to_owned(),
            from: map.get(key).cloned(),
            to,
        }
    }
}

/// Why a node is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePurpose {
    /// Keep remediation and autoscalers off.
    Shield,
    /// Take the shield away and restore what was there.
    Unshield,
    /// Put the rule labels on.
    Label,
    /// Take the rule labels off.
    Unlabel,
    /// Let the node go to its pin.
    Release,
    /// Bring the node home from the canary pool.
    BringHome,
    /// Put back a cordon that the MCO took away.
    Recordon,
    /// Cordon it, with the taints of a maintenance.
    Cordon,
    /// Put it back as it was before the cordon.
    Uncordon,
    /// Remember, or forget, a cordon that the MCO is going to take away.
    MindCordon,
    /// Keep new pods off a node that failed.
    Quarantine,
    /// Take that taint off.
    Unquarantine,
}

/// Why a pool is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolPurpose {
    /// Pause it, or pause it again.
    Pause,
    /// Give it back.
    Unpause,
    /// Leave it paused and say how many nodes would roll.
    Hold,
    /// Set the selector the strategy needs.
    Select,
    /// Restore the selector.
    Unselect,
}

/// A patch of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePatch {
    /// Name.
    pub node: String,
    /// uid: a node created again under its name is another node.
    pub uid: String,
    /// Why.
    pub purpose: NodePurpose,
    /// Labels.
    pub labels: Vec<Change>,
    /// Annotations. One whose `from` equals its `to` is only tested.
    pub annotations: Vec<Change>,
    /// Whether the node has labels already; a node may have none.
    pub has_labels: bool,
    /// Whether the node has annotations already; a node may have none.
    pub has_annotations: bool,
    /// `spec.unschedulable`: what it shall be.
    pub unschedulable: Option<bool>,
    /// Tests that `spec.unschedulable` is still this: a cordon that came or went meanwhile is not taken for another's.
    pub while_unschedulable: Option<bool>,
    /// `spec.taints`: what was read and what they shall be; null is absent. One list that others write too.
    pub taints: Option<(Value, Value)>,
}

impl NodePatch {
    /// A patch that changes nothing yet.
    pub fn of(node: &NodeView, purpose: NodePurpose) -> Self {
        Self {
            node: node.name.clone(),
            uid: node.uid.clone(),
            purpose,
            labels: Vec::new(),
            annotations: Vec::new(),
            has_labels: !node.labels.is_empty(),
            has_annotations: node.has_annotations,
            unschedulable: None,
            while_unschedulable: None,
            taints: None,
        }
    }
}

/// A patch of a MachineConfigPool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolPatch {
    /// Name.
    pub pool: String,
    /// uid.
    pub uid: String,
    /// Why.
    pub purpose: PoolPurpose,
    /// `spec.paused`: read and wanted.
    pub paused: Option<(bool, bool)>,
    /// `spec.nodeSelector`: read and wanted.
    pub selector: Option<(Value, Value)>,
    /// Tests that `spec.configuration.name` is still this one.
    pub config: Option<String>,
    /// The mark.
    pub annotation: Change,
    /// Whether the pool has annotations already.
    pub has_annotations: bool,
}

impl PoolPatch {
    /// A patch of a mark on the pool, and of nothing else yet.
    pub fn of(pool: &PoolView, purpose: PoolPurpose, key: &str, mark: Option<String>) -> Self {
        Self {
            pool: pool.name.clone(),
            uid: pool.uid.clone(),
            purpose,
            paused: None,
            selector: None,
            config: None,
            annotation: Change::of(&pool.annotations, key, mark),
            has_annotations: pool.has_annotations,
        }
    }
}

/// Why a Machine or a MachineHealthCheck is patched; this tells which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachinePurpose {
    /// Keep remediation off the Machine of a node in flight.
    Shield,
    /// Take that shield away and restore what was there.
    Unshield,
    /// Pause a MachineHealthCheck while nodes are in flight.
    PauseHealthCheck,
    /// Resume it.
    ResumeHealthCheck,
    /// Leave the pause to another owner, whose turn needs it.
    HandOverHealthCheck,
}

impl MachinePurpose {
    /// Whether it is about a MachineHealthCheck.
    pub const fn is_of_health_check(self) -> bool {
        matches!(
            self,
            Self::PauseHealthCheck | Self::ResumeHealthCheck | Self::HandOverHealthCheck
        )
    }

    /// Whether the mark of the owner that writes is taken off.
    pub const fn gives_back(self) -> bool {
        matches!(
            self,
            Self::Unshield | Self::ResumeHealthCheck | Self::HandOverHealthCheck
        )
    }
}

/// A patch of the annotations of a Machine or MachineHealthCheck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePatch {
    /// Whose it is.
    pub api: MachineApi,
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// Why.
    pub purpose: MachinePurpose,
    /// Annotations.
    pub annotations: Vec<Change>,
    /// Whether the object has annotations already.
    pub has_annotations: bool,
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

impl Action {
    /// Whether something begins by it that cannot be taken back: a node is taken, cordoned, released or upgraded. What it was
    /// decided on, a Pass above all, grows old while other writes go first.
    pub fn disrupts(&self) -> bool {
        match self {
            Self::PatchNode(patch) => matches!(patch.purpose, NodePurpose::Release | NodePurpose::Cordon),
            // A turn that begins once more.
            Self::WriteJournal { status, .. } => status.step == Some(Step::Admitted),
            Self::CreateChange { .. } | Self::CreatePlanJob(_) | Self::StartPlanJob { .. } => true,
            _ => false,
        }
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the owner, before the first mark.
    AddFinalizer {
        /// The owner.
        owner: Owner,
        /// Its uid.
        uid: String,
        /// The finalizer.
        finalizer: &'static str,
    },
    /// Take our finalizer off the owner: nothing is left to restore.
    RemoveFinalizer {
        /// The owner.
        owner: Owner,
        /// Its uid.
        uid: String,
        /// The finalizer.
        finalizer: &'static str,
        /// Where in the list of finalizers it stands.
        index: usize,
    },
    /// Patch a pool.
    PatchPool(PoolPatch),
    /// Patch a node.
    PatchNode(NodePatch),
    /// Patch a Machine or a MachineHealthCheck.
    PatchMachine(MachinePatch),
    /// Admit a node: the creation is the reservation.
    CreateChange {
        /// Namespace and name.
        key: Key,
        /// The spec.
        spec: Box<NodeChangeSpec>,
    },
    /// Write the journal over the one that was read.
    WriteJournal {
        /// Namespace and name.
        key: Key,
        /// uid.
        uid: String,
        /// resourceVersion that was read.
        resource_version: String,
        /// The journal.
        status: Box<NodeChangeStatus>,
    },
    /// Forget an old journal.
    DeleteChange {
        /// Namespace and name.
        key: Key,
        /// uid.
        uid: String,
        /// resourceVersion that was read: a journal that goes on is not forgotten.
        resource_version: String,
    },
    /// Write down the verdict of a rule that is asked once per run.
    RecordRun {
        /// The owner.
        owner: Key,
        /// The run as it shall stand.
        run: Box<RunStatus>,
    },
    /// Create a rule's Job.
    CreateJob(Box<JobRequest>),
    /// Let the Job go once its verdict is journaled.
    SetJobTtl {
        /// The Job.
        job: Key,
        /// uid.
        uid: String,
        /// `ttlSecondsAfterFinished`.
        seconds: i64,
    },
    /// Create the Job of a node of a Plan.
    CreatePlanJob(Box<PlanJobRequest>),
    /// Let a Job of a Plan start that was created paused.
    StartPlanJob {
        /// The Job.
        job: Key,
        /// uid.
        uid: String,
    },
    /// Delete a Job of a Plan that ended or never began.
    DeletePlanJob {
        /// The Job.
        job: Key,
        /// uid.
        uid: String,
    },
    /// Remember on a Plan which gate it has of itself.
    MarkGate {
        /// The Plan.
        plan: Key,
        /// uid.
        uid: String,
        /// The annotation.
        change: Change,
        /// Whether the object has annotations already.
        has_annotations: bool,
    },
    /// Ask a pod of a node in a drain to go.
    Evict {
        /// The node.
        node: String,
        /// The pod, and how.
        eviction: Eviction,
    },
    /// Take the node lease, new or expired.
    AcquireLease {
        /// The node.
        node: String,
        /// uid of the node, for the owner reference.
        node_uid: String,
        /// Our name on it.
        holder: String,
        /// The expired lease that is taken over: uid and resourceVersion.
        over: Option<(String, String)>,
        /// When the node's turn began: the lease begins no earlier.
        since: Timestamp,
    },
    /// Renew the node lease.
    RenewLease {
        /// The node.
        node: String,
        /// Our name on it.
        holder: String,
        /// resourceVersion that was read.
        resource_version: String,
    },
    /// Give the node lease back.
    ReleaseLease {
        /// The node.
        node: String,
        /// uid of the Lease.
        uid: String,
    },
}

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

/// An action in its chain: if one fails, the later ones of the same chain are left for the next pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// What the chain is about: a node, a pool, or the run.
    pub chain: String,
    /// The write.
    pub action: Action,
    /// What to say about it.
    pub event: Option<Event>,
}

impl Action {
    /// Takes a finalizer off an owner, if it is there.
    pub fn remove_finalizer(
        owner: &Owner,
        uid: &str,
        finalizers: &[String],
        finalizer: &'static str,
    ) -> Option<Self> {
        let index = finalizers.iter().position(|one| one == finalizer)?;
        Some(Self::RemoveFinalizer {
            owner: owner.clone(),
            uid: uid.to_owned(),
            finalizer,
            index,
        })
    }
}

impl Planned {
    /// An eviction: each is a chain of its own.
    pub fn evict(node: &str, eviction: Eviction) -> Self {
        Self {
            chain: format!("evict {}", eviction.uid),
            action: Action::Evict {
                node: node.to_owned(),
                eviction,
            },
            event: None,
        }
    }
}

/// The event's reason for a numo reason.
pub fn event_reason(reason: Reason) -> &'static str {
    reason.name()
}

/// A pod that is asked to go now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: Key,
    /// uid: one that was made again under its name is not meant.
    pub uid: String,
    /// Grace period (seconds); none is the pod's own.
    pub grace_period_seconds: Option<i64>,
    /// Deleted instead, past its budgets.
    pub delete: bool,
    /// Its controller, if it came past the cordon.
    pub returned: Option<String>,
}

/// Chain of the writes that delete old journals.
pub const FORGET_CHAIN: &str = "forget";

/// What the chains begin with that let a Job go.
pub const JOB_CHAIN: &str = "job ";
