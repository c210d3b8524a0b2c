//! The names of the kinds that are watched. What numo knows of each stands in its file in `watched/`: this one says nothing of them.

use numo_core::{MaintenanceGroup, Owner, OwnerKind};

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the kinds")]
pub enum Kind {
    Node,
    MachineConfigPool,
    MachineConfig,
    ClusterVersion,
    Infrastructure,
    MachineOSConfig,
    OpenShiftMachine,
    OpenShiftHealthCheck,
    ClusterApiMachine,
    ClusterApiHealthCheck,
    Kured,
    MutexRunConfig,
    MutexRule,
    MutexTarget,
    NodeChange,
    MutexBudget,
    MutexWindow,
    MutexNotifier,
    MutexApproval,
    NodeMaintenance,
    KubeVirtMaintenance,
    MutexBinding,
    Namespace,
    Lease,
    Job,
    Pod,
    JobEvent,
    NodeVersion,
    ScalingGroup,
    PendingNode,
    JoiningNode,
    AutoscalingStrategy,
    /// The Deployment of the cluster autoscaler.
    Autoscaler,
    Plan,
    PlanJob,
    PlanPod,
    /// Secrets of a namespace with Plans that use some: only their hashes are kept.
    Secret,
    /// Pods of one node that is being drained; the scope of its watch is the node.
    NodePod,
    DisruptionBudget,
    EtcdPod,
    /// Whether they exist.
    DaemonSet,
    /// Deployments of the operators that numo replaces, by their names.
    NodeMaintenanceOperator,
    NodeMaintenanceOperatorOld,
    NodeMaintenanceOperatorBundled,
    SystemUpgradeController,
    NodeUpgradeMutexOperator,
    ConstellationOperator,
}

/// Namespaces that rules may run Jobs in, at most: each costs three watches.
pub const MAX_JOB_NAMESPACES: usize = 64;
/// Of these so many may be of owners that are not watched and say that they have something to give back: whoever may write
/// those takes no more of the others.
pub const MAX_GIVING_BACK: usize = 16;

/// The kind an owner is watched as.
pub const fn kind_of(owner: &Owner) -> Kind {
    match owner.kind {
        OwnerKind::MutexRunConfig => Kind::MutexRunConfig,
        OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s) => Kind::NodeMaintenance,
        OwnerKind::NodeMaintenance(MaintenanceGroup::KubeVirt) => Kind::KubeVirtMaintenance,
        OwnerKind::Plan => Kind::Plan,
        OwnerKind::NodeVersion => Kind::NodeVersion,
    }
}
