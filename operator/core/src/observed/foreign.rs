//! Operators that numo replaces, where one is live.

use crate::owner::OwnerKind;

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

/// An operator that numo replaces, and that is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// What it works on.
    pub what: ForeignController,
    /// What is left of it, where its Deployment is at 0 or deleted; none where that runs.
    pub lingers: Option<String>,
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
