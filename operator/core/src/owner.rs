//! Who asks for node changes: the table of kinds of owner, with what is plainly so of each. Nothing here decides; what a kind does by
//! itself is in `owners/`.

use crate::key::Key;
use numo_api::{
    ApprovedOwner, OwnerRef,
    machines::{UPDATE_GROUP, UPDATE_VERSION},
    marks,
    node_maintenance::{KUBEVIRT_GROUP, MAINTENANCE_VERSION, MEDIK8S_GROUP},
    plan::{PLAN_GROUP, PLAN_VERSION},
};

/// A kind whose objects ask for node changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnerKind {
    /// `openshift-optional.skrzypek.io` MutexRunConfig.
    MutexRunConfig,
    /// NodeMaintenance of one of its two groups.
    NodeMaintenance(MaintenanceGroup),
    /// `upgrade.cattle.io` Plan.
    Plan,
    /// `update.edgeless.systems` NodeVersion.
    NodeVersion,
}

/// What changes a node in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Means {
    /// The machine-config-operator, which cordons and drains the node itself.
    MachineConfig,
    /// A Job that may reboot the node.
    Job,
    /// A new machine takes the place of the node.
    Machine,
    /// A person, once the node is drained. It stays so until the owner is deleted.
    Person,
}

/// An operator that numo replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignController {
    /// openshift-node-upgrade-mutex-operator.
    MutexRunConfig,
    /// node-maintenance-operator.
    NodeMaintenance,
    /// system-upgrade-controller.
    Plan,
    /// The Constellation node operator.
    NodeVersion,
}

/// Objects of OpenShift without which no MutexRunConfig begins a node.
const NEEDED_BY_RUNS: [&str; 6] = [
    "mutextargets",
    "machineconfigpools",
    "machineconfigs",
    "clusterversions",
    "infrastructures",
    "machineosconfigs",
];

/// Kinds without which no NodeVersion begins a node.
const NEEDED_BY_VERSIONS: [&str; 5] = [
    "scalinggroups",
    "pendingnodes",
    "joiningnodes",
    "autoscalingstrategies",
    "deployments",
];

/// The group of a NodeMaintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MaintenanceGroup {
    /// `nodemaintenance.medik8s.io`.
    Medik8s,
    /// `nodemaintenance.kubevirt.io`.
    KubeVirt,
}

impl MaintenanceGroup {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Medik8s, Self::KubeVirt];

    /// The API group.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Medik8s => MEDIK8S_GROUP,
            Self::KubeVirt => KUBEVIRT_GROUP,
        }
    }

    /// Key of the taint of a node in maintenance.
    pub const fn taint(self) -> &'static str {
        match self {
            Self::Medik8s => marks::MEDIK8S_DRAIN,
            Self::KubeVirt => marks::KUBEVIRT_DRAIN,
        }
    }
}

impl OwnerKind {
    /// Every kind that this version knows.
    pub const ALL: [Self; 5] = [
        Self::MutexRunConfig,
        Self::NodeMaintenance(MaintenanceGroup::Medik8s),
        Self::NodeMaintenance(MaintenanceGroup::KubeVirt),
        Self::Plan,
        Self::NodeVersion,
    ];

    /// The kind of the owner that a journal names; none of a kind that this version does not know. The version of its group does not
    /// matter.
    pub fn of(owner: &OwnerRef) -> Option<Self> {
        let group = owner.api_version.split('/').next();
        let is_meant = |kind: &Self| kind.name() == owner.kind && Some(kind.group()) == group;
        Self::ALL.into_iter().find(is_meant)
    }

    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "MutexRunConfig",
            Self::NodeMaintenance(_) => "NodeMaintenance",
            Self::Plan => "Plan",
            Self::NodeVersion => "NodeVersion",
        }
    }

    /// Whether its objects are in namespaces.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::MutexRunConfig | Self::Plan)
    }

    /// Whether this is how lists and watches call the kind: its plural, with the group where two kinds have the same.
    pub fn is_listed_as(self, plural: &str) -> bool {
        match self {
            Self::MutexRunConfig => plural == "mutexrunconfigs",
            Self::NodeMaintenance(_) => plural.starts_with("nodemaintenances"),
            Self::Plan => plural == "plans",
            Self::NodeVersion => plural == "nodeversions",
        }
    }

    /// The kinds (their plurals) without which no owner of this kind begins a node, beside those that every owner needs.
    pub const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::MutexRunConfig => &NEEDED_BY_RUNS,
            Self::NodeVersion => &NEEDED_BY_VERSIONS,
            Self::NodeMaintenance(_) | Self::Plan => &[],
        }
    }

    /// The finalizer by which an owner of this kind waits for what is given back.
    pub const fn finalizer(self) -> &'static str {
        match self.means() {
            Means::Person => marks::MAINTENANCE_FINALIZER,
            Means::MachineConfig | Means::Job | Means::Machine => marks::FINALIZER,
        }
    }

    /// What changes a node in its turn.
    pub const fn means(self) -> Means {
        match self {
            Self::MutexRunConfig => Means::MachineConfig,
            Self::NodeMaintenance(_) => Means::Person,
            Self::Plan => Means::Job,
            Self::NodeVersion => Means::Machine,
        }
    }

    /// Group and version.
    pub fn api_version(self) -> String {
        let version = match self {
            Self::MutexRunConfig => numo_api::VERSION,
            Self::NodeMaintenance(_) => MAINTENANCE_VERSION,
            Self::Plan => PLAN_VERSION,
            Self::NodeVersion => UPDATE_VERSION,
        };
        format!("{}/{version}", self.group())
    }

    const fn group(self) -> &'static str {
        match self {
            Self::MutexRunConfig => numo_api::GROUP,
            Self::NodeMaintenance(group) => group.name(),
            Self::Plan => PLAN_GROUP,
            Self::NodeVersion => UPDATE_GROUP,
        }
    }
}

impl ForeignController {
    /// The one that works on owners of a kind.
    pub const fn of(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::MutexRunConfig => Self::MutexRunConfig,
            OwnerKind::NodeMaintenance(_) => Self::NodeMaintenance,
            OwnerKind::Plan => Self::Plan,
            OwnerKind::NodeVersion => Self::NodeVersion,
        }
    }

    /// The kind that it works on.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "MutexRunConfig",
            Self::NodeMaintenance => "NodeMaintenance",
            Self::Plan => "Plan",
            Self::NodeVersion => "NodeVersion",
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "openshift-node-upgrade-mutex-operator",
            Self::NodeMaintenance => "node-maintenance-operator",
            Self::Plan => "system-upgrade-controller",
            Self::NodeVersion => "constellation-operator",
        }
    }
}

/// An object that asks for node changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Its kind.
    pub kind: OwnerKind,
    /// Namespace (empty for cluster-scoped kinds) and name.
    pub key: Key,
}

impl Owner {
    /// A MutexRunConfig.
    pub const fn run(key: Key) -> Self {
        Self {
            kind: OwnerKind::MutexRunConfig,
            key,
        }
    }

    /// A Plan.
    pub const fn plan(key: Key) -> Self {
        Self {
            kind: OwnerKind::Plan,
            key,
        }
    }

    /// A NodeVersion.
    pub fn node_version(name: impl Into<String>) -> Self {
        Self {
            kind: OwnerKind::NodeVersion,
            key: Key::new("", name),
        }
    }

    /// A NodeMaintenance.
    pub fn maintenance(group: MaintenanceGroup, name: impl Into<String>) -> Self {
        Self {
            kind: OwnerKind::NodeMaintenance(group),
            key: Key::new("", name),
        }
    }
}

impl Owner {
    /// The owner that a journal names; none of a kind that this version does not know.
    pub fn named(of: &OwnerRef) -> Option<Self> {
        let kind = OwnerKind::of(of)?;
        let namespace = of.namespace.as_deref().unwrap_or_default();
        let key = Key::new(namespace, of.name.as_str());
        Some(Self { kind, key })
    }

    /// As `kubectl <verb>` takes it. NodeMaintenances there are of two groups.
    pub fn kubectl(&self, verb: &str) -> String {
        let resource = match self.kind {
            OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s) => "nm".to_owned(),
            OwnerKind::NodeMaintenance(group) => format!("nodemaintenances.{}", group.name()),
            kind => kind.name().to_lowercase(),
        };
        match (self.key.namespace.as_str(), &self.key.name) {
            ("", name) => format!("kubectl {verb} {resource} {name}"),
            (namespace, name) => format!("kubectl -n {namespace} {verb} {resource} {name}"),
        }
    }

    /// As a MutexApproval names it.
    pub fn approved(&self) -> ApprovedOwner {
        let version = self.kind.api_version();
        let Key { namespace, name } = &self.key;
        ApprovedOwner {
            api_group: version.split('/').next().unwrap_or_default().to_owned(),
            kind: self.kind.name().to_owned(),
            namespace: Some(namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: name.clone(),
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.key)
    }
}
