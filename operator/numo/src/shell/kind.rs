//! The kinds that are watched.

use numo_api::{
    node_maintenance::{KUBEVIRT_GROUP, MAINTENANCE_VERSION, MEDIK8S_GROUP},
    plan::{PLAN_GROUP, PLAN_VERSION},
};
use numo_core::{MaintenanceGroup, Owner, OwnerKind, observed::ForeignController};

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
    NodeMaintenance,
    KubeVirtMaintenance,
    MutexBinding,
    Namespace,
    Lease,
    Job,
    Pod,
    JobEvent,
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
}

impl Kind {
    /// The Deployments of operators that numo replaces.
    pub const REPLACED: [Self; 5] = [
        Self::NodeMaintenanceOperator,
        Self::NodeMaintenanceOperatorOld,
        Self::NodeMaintenanceOperatorBundled,
        Self::SystemUpgradeController,
        Self::NodeUpgradeMutexOperator,
    ];

    /// Of a Deployment of an operator that numo replaces: its name, and what it works on. Their own manifests name them
    /// so; one that was renamed is not known.
    pub const fn replaced(self) -> Option<(&'static str, ForeignController)> {
        Some(match self {
            Self::NodeMaintenanceOperator => (
                "node-maintenance-operator-controller-manager",
                ForeignController::NodeMaintenance,
            ),
            Self::NodeMaintenanceOperatorOld => {
                ("node-maintenance-operator", ForeignController::NodeMaintenance)
            }
            Self::NodeMaintenanceOperatorBundled => (
                "node-maintenance-controller-manager",
                ForeignController::NodeMaintenance,
            ),
            Self::SystemUpgradeController => ("system-upgrade-controller", ForeignController::Plan),
            Self::NodeUpgradeMutexOperator => (
                "openshift-node-upgrade-mutex-operator-controller-manager",
                ForeignController::MutexRunConfig,
            ),
            _ => return None,
        })
    }

    /// Group, version, kind, plural.
    pub const fn resource(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Node => ("", "v1", "Node", "nodes"),
            Self::MachineConfigPool => (
                "machineconfiguration.openshift.io",
                "v1",
                "MachineConfigPool",
                "machineconfigpools",
            ),
            Self::MachineConfig => (
                "machineconfiguration.openshift.io",
                "v1",
                "MachineConfig",
                "machineconfigs",
            ),
            Self::ClusterVersion => ("config.openshift.io", "v1", "ClusterVersion", "clusterversions"),
            Self::Infrastructure => ("config.openshift.io", "v1", "Infrastructure", "infrastructures"),
            Self::MachineOSConfig => (
                "machineconfiguration.openshift.io",
                "v1",
                "MachineOSConfig",
                "machineosconfigs",
            ),
            Self::OpenShiftMachine => ("machine.openshift.io", "v1beta1", "Machine", "machines"),
            Self::OpenShiftHealthCheck => (
                "machine.openshift.io",
                "v1beta1",
                "MachineHealthCheck",
                "machinehealthchecks",
            ),
            Self::ClusterApiMachine => ("cluster.x-k8s.io", "v1beta1", "Machine", "machines"),
            Self::ClusterApiHealthCheck => (
                "cluster.x-k8s.io",
                "v1beta1",
                "MachineHealthCheck",
                "machinehealthchecks",
            ),
            Self::Kured | Self::DaemonSet => ("apps", "v1", "DaemonSet", "daemonsets"),
            Self::MutexRunConfig => (
                numo_api::GROUP,
                numo_api::VERSION,
                "MutexRunConfig",
                "mutexrunconfigs",
            ),
            Self::MutexRule => (numo_api::GROUP, numo_api::VERSION, "MutexRule", "mutexrules"),
            Self::MutexTarget => (numo_api::GROUP, numo_api::VERSION, "MutexTarget", "mutextargets"),
            Self::NodeChange => (
                numo_api::NUMO_GROUP,
                numo_api::VERSION,
                "NodeChange",
                "nodechanges",
            ),
            Self::MutexBudget => (
                numo_api::NUMO_GROUP,
                numo_api::VERSION,
                "MutexBudget",
                "mutexbudgets",
            ),
            Self::MutexBinding => (
                numo_api::NUMO_GROUP,
                numo_api::VERSION,
                "MutexBinding",
                "mutexbindings",
            ),
            Self::Namespace => ("", "v1", "Namespace", "namespaces"),
            Self::Lease => ("coordination.k8s.io", "v1", "Lease", "leases"),
            Self::Job | Self::PlanJob => ("batch", "v1", "Job", "jobs"),
            Self::Plan => (PLAN_GROUP, PLAN_VERSION, "Plan", "plans"),
            Self::Secret => ("", "v1", "Secret", "secrets"),
            Self::Pod | Self::PlanPod | Self::NodePod | Self::EtcdPod => ("", "v1", "Pod", "pods"),
            Self::DisruptionBudget => ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::NodeMaintenanceOperator
            | Self::NodeMaintenanceOperatorOld
            | Self::NodeMaintenanceOperatorBundled
            | Self::NodeUpgradeMutexOperator
            | Self::SystemUpgradeController => ("apps", "v1", "Deployment", "deployments"),
            Self::NodeMaintenance => (
                MEDIK8S_GROUP,
                MAINTENANCE_VERSION,
                "NodeMaintenance",
                "nodemaintenances",
            ),
            Self::KubeVirtMaintenance => (
                KUBEVIRT_GROUP,
                MAINTENANCE_VERSION,
                "NodeMaintenance",
                "nodemaintenances",
            ),
            Self::JobEvent => ("", "v1", "Event", "events"),
        }
    }
}

/// Kinds that are watched in all namespaces from the start.
pub const CLUSTER_KINDS: [Kind; 21] = [
    Kind::Node,
    Kind::MachineConfigPool,
    Kind::MachineConfig,
    Kind::ClusterVersion,
    Kind::Infrastructure,
    Kind::MachineOSConfig,
    Kind::OpenShiftMachine,
    Kind::OpenShiftHealthCheck,
    Kind::ClusterApiMachine,
    Kind::ClusterApiHealthCheck,
    Kind::Kured,
    Kind::MutexRunConfig,
    Kind::MutexRule,
    Kind::MutexTarget,
    Kind::NodeChange,
    Kind::MutexBudget,
    Kind::NodeMaintenance,
    Kind::KubeVirtMaintenance,
    Kind::Plan,
    Kind::MutexBinding,
    Kind::Namespace,
];

/// Kinds that are watched in the namespaces that rules run Jobs in.
pub const JOB_KINDS: [Kind; 3] = [Kind::Job, Kind::Pod, Kind::JobEvent];

/// Kinds that are watched in namespaces with Plans.
pub const PLAN_KINDS: [Kind; 2] = [Kind::PlanJob, Kind::PlanPod];

/// Namespaces that rules may run Jobs in, at most: each costs three watches.
pub const MAX_JOB_NAMESPACES: usize = 64;
/// Of these so many may be of owners that are not honoured and say that they have something to give back: whoever may write
/// those takes no more of the others.
pub const MAX_GIVING_BACK: usize = 16;

/// Kinds that are watched in namespaces with Plans, where numo may not be invited.
pub const fn is_plans(kind: Kind) -> bool {
    matches!(kind, Kind::PlanJob | Kind::PlanPod | Kind::Secret)
}

/// The kind an owner is watched as.
pub const fn kind_of(owner: &Owner) -> Kind {
    match owner.kind {
        OwnerKind::MutexRunConfig => Kind::MutexRunConfig,
        OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s) => Kind::NodeMaintenance,
        OwnerKind::NodeMaintenance(MaintenanceGroup::KubeVirt) => Kind::KubeVirtMaintenance,
        OwnerKind::Plan => Kind::Plan,
    }
}
