//! Who asks for node changes. Names only; nothing here decides.

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
        let group = |api_version: &str| api_version.split('/').next().map(ToOwned::to_owned);
        let is_meant = |kind: &Self| {
            kind.name() == owner.kind && group(&kind.api_version()) == group(&owner.api_version)
        };
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

    /// Group and version.
    pub fn api_version(self) -> String {
        match self {
            Self::MutexRunConfig => format!("{}/{}", numo_api::GROUP, numo_api::VERSION),
            Self::NodeMaintenance(group) => format!("{}/{MAINTENANCE_VERSION}", group.name()),
            Self::Plan => format!("{PLAN_GROUP}/{PLAN_VERSION}"),
            Self::NodeVersion => format!("{UPDATE_GROUP}/{UPDATE_VERSION}"),
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
