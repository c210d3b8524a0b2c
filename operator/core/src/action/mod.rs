//! Actions: one write each, with the precondition under which it is right.
//!
//! A change of a foreign object names for each field what was read and what is to be written; the shell
//! turns it into a JSON Patch that tests the former. Nothing here knows how to write.

mod event;
mod fleet;
mod patch;
mod request;

pub use self::{
    event::{Event, EventAction, event_reason},
    fleet::FleetAction,
    patch::{Change, MachinePatch, MachinePurpose, NodePatch, NodePurpose, PoolPatch, PoolPurpose},
    request::{
        DrainsFor, Earlier, EarlierWord, EvaluationRequest, JobRequest, MaintenanceRequest, PlanJobRequest,
        PlanParts,
    },
};
pub use crate::observed::FleetQuestion;
use crate::{key::Key, observed::Observed, owner::Owner};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, NodeChangeStatus, RunStatus, Step};

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
    /// Remember on an owner which gate it has of itself.
    MarkGate {
        /// The owner.
        owner: Owner,
        /// uid.
        uid: String,
        /// The annotation.
        change: Change,
        /// Whether the object has annotations already.
        has_annotations: bool,
    },
    /// Create a NodeMaintenance by which another operator drains a node.
    CreateMaintenance(Box<MaintenanceRequest>),
    /// Delete a NodeMaintenance that numo made for that.
    DeleteMaintenance {
        /// Its name.
        name: String,
        /// uid.
        uid: String,
    },
    /// Do something to machines that are replaced, or to what stands for them.
    Fleet(FleetAction),
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

impl Action {
    /// The turn that begins by it, for the first time or once more: one that was over may go on with the rules after the change.
    pub(crate) fn begins<'a>(&'a self, observed: &'a Observed) -> Option<&'a NodeChangeSpec> {
        match self {
            Self::CreateChange { spec, .. } => Some(spec),
            Self::WriteJournal { key, status, .. } => {
                let begins = matches!(status.step, Some(Step::Admitted | Step::PostRules));
                let known = observed.changes.get(key);
                let known = known.filter(|change| !observed.is_under_way(change));
                known.filter(|_| begins).map(|change| &change.spec)
            }
            _ => None,
        }
    }

    /// Whether something begins by it that cannot be taken back: a node is taken, cordoned, released or upgraded. What it was
    /// decided on, a Pass above all, grows old while other writes go first.
    pub fn disrupts(&self) -> bool {
        match self {
            Self::PatchNode(patch) => matches!(patch.purpose, NodePurpose::Release | NodePurpose::Cordon),
            // A turn that begins once more.
            Self::WriteJournal { status, .. } => status.step == Some(Step::Admitted),
            Self::Fleet(action) => action.disrupts(),
            Self::CreateChange { .. }
            | Self::CreateMaintenance(_)
            | Self::CreatePlanJob(_)
            | Self::StartPlanJob { .. } => true,
            _ => false,
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

impl Planned {
    /// An action in this chain of which nothing is told.
    pub fn of(chain: impl Into<String>, action: Action) -> Self {
        Self {
            chain: chain.into(),
            action,
            event: None,
        }
    }

    /// An eviction: each is a chain of its own.
    pub fn evict(node: &str, eviction: Eviction) -> Self {
        let chain = format!("evict {}", eviction.uid);
        let node = node.to_owned();
        Self::of(chain, Action::Evict { node, eviction })
    }
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
