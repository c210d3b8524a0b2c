//! Every condition type and every reason a user can see, in one place.
//!
//! Reasons are stable CamelCase identifiers: status, events, metrics, command line and docs all render
//! this one value. Removing or renaming one breaks someone's alert.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition. Unlike `metav1.Condition` nothing but the type is required and the time is a plain
/// string, because objects written by the replaced operator must stay readable and writable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,
    /// True, False or Unknown.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub status: String,
    /// Stable CamelCase reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32_768))]
    pub message: Option<String>,
    /// When the status last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_transition_time: Option<String>,
    /// The generation of the spec that the condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Condition types.
pub mod types {
    /// The spec is good: all it refers to exists and is valid. (MutexRunConfig)
    pub const CONFIG_VALIDATED: &str = "ConfigValidated";
    /// An upgrade is available and may begin. (MutexRunConfig)
    pub const UPGRADE_READY: &str = "UpgradeReady";
    /// It could be found out whether an upgrade is available. (MutexRunConfig)
    pub const UPGRADE_CHECKED: &str = "UpgradeChecked";
    /// All target pools are paused. (MutexRunConfig)
    pub const TARGET_POOLS_PAUSED: &str = "TargetPoolsPaused";
    /// The nodes carry the rule labels. (MutexRunConfig, CanaryPool)
    pub const MUTEX_RULES_APPLIED: &str = "MutexRulesApplied";
    /// The pools' selectors are as the strategy needs them. (MutexRunConfig, CanaryPool)
    pub const MCP_UPDATED: &str = "MCPUpdated";
    /// The rules of the node that came last have passed. (MutexRunConfig)
    pub const JOB_RUN: &str = "JobRun";
    /// The node that came last has changed. (MutexRunConfig)
    pub const NODE_UPGRADE: &str = "NodeUpgrade";
    /// Only ever False, after the last node. (MutexRunConfig)
    pub const UPGRADE_AVAILABLE: &str = "UpgradeAvailable";
    /// A pool stays paused although the run was left. (MutexRunConfig)
    pub const POOL_HELD: &str = "PoolHeld";
    /// The rule or target is valid. (MutexRule, MutexTarget)
    pub const VALID_CONFIG: &str = "ValidConfig";
    /// The nodes of the pools are known. (MutexTarget)
    pub const NODE_LIST_GATHERED: &str = "NodeListGathered";
    /// kstatus: the object is as it should be.
    pub const READY: &str = "Ready";
    /// kstatus: work goes on; present only while true.
    pub const RECONCILING: &str = "Reconciling";
    /// kstatus: a person is needed; present only while true.
    pub const STALLED: &str = "Stalled";
}

/// Who can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Nothing is waited for.
    Nobody,
    /// numo itself, in its next steps.
    Numo,
    /// A person who administers the cluster.
    ClusterAdmin,
    /// Whoever wrote the rule.
    RuleAuthor,
    /// The node and OpenShift's machine-config daemon on it.
    Node,
    /// The cluster's own operators.
    ClusterItself,
    /// A node that is in flight now.
    OtherNode,
    /// Another MutexRunConfig.
    OtherRun,
    /// A controller that is not numo.
    OtherController,
}

impl Who {
    /// The answer to "who can end this?".
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Nobody => "nobody needs to",
            Self::Numo => "numo, by itself",
            Self::ClusterAdmin => "a cluster administrator",
            Self::RuleAuthor => "whoever owns the rule",
            Self::Node => "the node, when it comes back",
            Self::ClusterItself => "the cluster's own operators, by themselves",
            Self::OtherNode => "the nodes in flight, when they are done",
            Self::OtherRun => "the other run, when it is done",
            Self::OtherController => "the controller that holds it",
        }
    }
}

/// Why something waits, was refused, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nothing to do: every node runs the version that is asked for.
    UpToDate,
    /// No node has a target pool as its primary pool.
    NoNodes,
    /// The run goes on.
    Progressing,
    /// Every node is at the target and every pool is as it was.
    Succeeded,
    /// The run was left and a pool still has outdated nodes: it stays paused so that they do not roll without rules.
    PoolHeld,
    /// The run is being left: what numo changed is put back.
    GivingBack,
    /// The run was given up: no further node is admitted.
    Aborted,
    /// The owner is being deleted: what numo changed is put back.
    Deleting,
    /// The owner asks to begin nothing new (spec.suspend or the suspend annotation).
    Suspended,
    /// A MutexBudget is paused: nothing new begins on its nodes.
    Stopped,
    /// spec.dryRun: numo decides and reports, and writes nothing.
    DryRun,
    /// As many nodes have failed as spec.failureBudget allows.
    FailureBudgetSpent,
    /// The object is in a namespace that numo does not honour for this kind.
    NamespaceNotAllowed,
    /// The namespace of the object is being deleted.
    NamespaceTerminating,
    /// A field asks for something that this version of numo does not do.
    FieldNotServed,
    /// A field has a value that cannot work.
    InvalidField,
    /// A MutexRule that is referred to does not exist.
    RuleNotFound,
    /// A MutexRule that is referred to is not valid.
    RuleInvalid,
    /// A MutexTarget that is referred to does not exist, or none is given.
    TargetNotFound,
    /// A MachineConfigPool that is referred to does not exist.
    PoolNotFound,
    /// The canary MachineConfigPool does not exist.
    CanaryNotFound,
    /// The canary pool is paused: a node released into it would never change.
    CanaryPaused,
    /// The canary pool has nodes that numo did not put there.
    CanaryPopulated,
    /// The canary pool is one of the target pools.
    CanaryIsTarget,
    /// The canary pool renders other content than the target pool: nodes would lose or gain configuration in it.
    CanaryContentDiffers,
    /// A rule's label would have more than the 63 characters that Kubernetes allows.
    LabelTooLong,
    /// A target is the master or arbiter pool: pausing it stops the cluster's own update.
    ControlPlanePool,
    /// A custom pool's node selector matches control-plane nodes.
    SelectorMatchesControlPlane,
    /// The control plane is hosted elsewhere: there are no MachineConfigPools to steer.
    ExternalControlPlane,
    /// A pool's nodes run a layered image; neither strategy can carry it over.
    LayeredPool,
    /// The version that is asked for is not a semantic version.
    InvalidVersion,
    /// This cluster has no ClusterVersion or no MachineConfigPools.
    OpenShiftMissing,
    /// Someone else paused a target pool: a veto until it is lifted or spec.adoptPaused is set.
    PoolPausedByOther,
    /// Another run holds a target pool.
    PoolHeldByRun,
    /// Someone keeps changing what numo set; numo no longer corrects it.
    ForeignWriter,
    /// The target pools are being paused.
    PoolsPausing,
    /// The control plane is not at the new version yet.
    ControlPlaneUpdating,
    /// A target pool's configuration is not rendered for the new version yet.
    PoolNotRendered,
    /// The node is not Ready.
    NodeNotReady,
    /// Someone else cordoned the node; the MCO would take that cordon away.
    CordonedByOther,
    /// The machine-config daemon is still working on an earlier change of the node.
    NodeNotDone,
    /// The machine-config daemon reports the node Degraded or Unreconcilable.
    NodeDegraded,
    /// The node matches two custom pools: the MCO does not update it.
    NodeInTwoPools,
    /// The node is being deleted or is marked for deletion by an autoscaler.
    NodeLeaving,
    /// The node was deleted or created again while it was in flight.
    NodeGone,
    /// As many nodes are in flight as spec.maxUnavailable allows.
    WaitingForTurn,
    /// A MutexBudget allows no further unavailable node.
    BudgetExhausted,
    /// A node with the same value of a label in spec.mutexKeys is in flight.
    MutexKeyBusy,
    /// Another controller holds the lease of the node.
    NodeLeaseHeld,
    /// Node leases cannot be had: the namespace medik8s-leases or the right to it is missing.
    NodeLeaseUnavailable,
    /// The node's turn has come: lease and shield are being taken.
    Admitting,
    /// The next rule is about to start.
    RuleStarting,
    /// A rule is running.
    RuleRunning,
    /// The Job of a rule cannot start a pod.
    RuleJobCannotStart,
    /// A rule failed and no retry is left.
    RuleFailed,
    /// A rule failed after the release and its policy is Continue.
    RuleContinuedAfterFailure,
    /// numo is not invited to run Jobs in the rule's namespace.
    JobsForbidden,
    /// A pod of the node could not be evicted now: a drain would not pass.
    DrainBlocked,
    /// The pool's configuration moved on: the node's rules run again.
    ConfigChanged,
    /// The node was released and is changing.
    Changing,
    /// The node has not come back within spec.changeTimeoutSeconds.
    ChangeTimeout,
    /// The node is changed and goes back from the canary pool to its own.
    ComingHome,
    /// The node is done and keeps its turn for spec.soakSeconds.
    Soaking,
    /// A directive on the NodeChange holds the node.
    HeldByPerson,
    /// A directive on the NodeChange leaves the node out.
    SkippedByPerson,
    /// A rule failed and its policy leaves the node out.
    SkippedByPolicy,
    /// The node is changing without its rules: it was rolling already, or someone else let it go.
    Ungated,
    /// The run was left before the node was released.
    RunGivenUp,
    /// The node is at the target and its rules have passed.
    Done,
    /// A decision would have broken an invariant and was not carried out; this is a fault in numo.
    InvariantBreach,
    /// The object is valid.
    ValidConfig,
    /// The object is not valid.
    InvalidConfig,
    /// The API server has not judged the object yet.
    Validating,
}

impl Reason {
    /// Every reason.
    pub const ALL: &[Self] = &[
        Self::UpToDate,
        Self::NoNodes,
        Self::Progressing,
        Self::Succeeded,
        Self::PoolHeld,
        Self::GivingBack,
        Self::Aborted,
        Self::Deleting,
        Self::Suspended,
        Self::Stopped,
        Self::DryRun,
        Self::FailureBudgetSpent,
        Self::NamespaceNotAllowed,
        Self::NamespaceTerminating,
        Self::FieldNotServed,
        Self::InvalidField,
        Self::RuleNotFound,
        Self::RuleInvalid,
        Self::TargetNotFound,
        Self::PoolNotFound,
        Self::CanaryNotFound,
        Self::CanaryPaused,
        Self::CanaryPopulated,
        Self::CanaryIsTarget,
        Self::CanaryContentDiffers,
        Self::LabelTooLong,
        Self::ControlPlanePool,
        Self::SelectorMatchesControlPlane,
        Self::ExternalControlPlane,
        Self::LayeredPool,
        Self::InvalidVersion,
        Self::OpenShiftMissing,
        Self::PoolPausedByOther,
        Self::PoolHeldByRun,
        Self::ForeignWriter,
        Self::PoolsPausing,
        Self::ControlPlaneUpdating,
        Self::PoolNotRendered,
        Self::NodeNotReady,
        Self::CordonedByOther,
        Self::NodeNotDone,
        Self::NodeDegraded,
        Self::NodeInTwoPools,
        Self::NodeLeaving,
        Self::NodeGone,
        Self::WaitingForTurn,
        Self::BudgetExhausted,
        Self::MutexKeyBusy,
        Self::NodeLeaseHeld,
        Self::NodeLeaseUnavailable,
        Self::Admitting,
        Self::RuleStarting,
        Self::RuleRunning,
        Self::RuleJobCannotStart,
        Self::RuleFailed,
        Self::RuleContinuedAfterFailure,
        Self::JobsForbidden,
        Self::DrainBlocked,
        Self::ConfigChanged,
        Self::Changing,
        Self::ChangeTimeout,
        Self::ComingHome,
        Self::Soaking,
        Self::HeldByPerson,
        Self::SkippedByPerson,
        Self::SkippedByPolicy,
        Self::Ungated,
        Self::RunGivenUp,
        Self::Done,
        Self::InvariantBreach,
        Self::ValidConfig,
        Self::InvalidConfig,
        Self::Validating,
    ];

    /// The stable identifier.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UpToDate => "UpToDate",
            Self::NoNodes => "NoNodes",
            Self::Progressing => "Progressing",
            Self::Succeeded => "Succeeded",
            Self::PoolHeld => "PoolHeld",
            Self::GivingBack => "GivingBack",
            Self::Aborted => "Aborted",
            Self::Deleting => "Deleting",
            Self::Suspended => "Suspended",
            Self::Stopped => "Stopped",
            Self::DryRun => "DryRun",
            Self::FailureBudgetSpent => "FailureBudgetSpent",
            Self::NamespaceNotAllowed => "NamespaceNotAllowed",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::FieldNotServed => "FieldNotServed",
            Self::InvalidField => "InvalidField",
            Self::RuleNotFound => "RuleNotFound",
            Self::RuleInvalid => "RuleInvalid",
            Self::TargetNotFound => "TargetNotFound",
            Self::PoolNotFound => "PoolNotFound",
            Self::CanaryNotFound => "CanaryNotFound",
            Self::CanaryPaused => "CanaryPaused",
            Self::CanaryPopulated => "CanaryPopulated",
            Self::CanaryIsTarget => "CanaryIsTarget",
            Self::CanaryContentDiffers => "CanaryContentDiffers",
            Self::LabelTooLong => "LabelTooLong",
            Self::ControlPlanePool => "ControlPlanePool",
            Self::SelectorMatchesControlPlane => "SelectorMatchesControlPlane",
            Self::ExternalControlPlane => "ExternalControlPlane",
            Self::LayeredPool => "LayeredPool",
            Self::InvalidVersion => "InvalidVersion",
            Self::OpenShiftMissing => "OpenShiftMissing",
            Self::PoolPausedByOther => "PoolPausedByOther",
            Self::PoolHeldByRun => "PoolHeldByRun",
            Self::ForeignWriter => "ForeignWriter",
            Self::PoolsPausing => "PoolsPausing",
            Self::ControlPlaneUpdating => "ControlPlaneUpdating",
            Self::PoolNotRendered => "PoolNotRendered",
            Self::NodeNotReady => "NodeNotReady",
            Self::CordonedByOther => "CordonedByOther",
            Self::NodeNotDone => "NodeNotDone",
            Self::NodeDegraded => "NodeDegraded",
            Self::NodeInTwoPools => "NodeInTwoPools",
            Self::NodeLeaving => "NodeLeaving",
            Self::NodeGone => "NodeGone",
            Self::WaitingForTurn => "WaitingForTurn",
            Self::BudgetExhausted => "BudgetExhausted",
            Self::MutexKeyBusy => "MutexKeyBusy",
            Self::NodeLeaseHeld => "NodeLeaseHeld",
            Self::NodeLeaseUnavailable => "NodeLeaseUnavailable",
            Self::Admitting => "Admitting",
            Self::RuleStarting => "RuleStarting",
            Self::RuleRunning => "RuleRunning",
            Self::RuleJobCannotStart => "RuleJobCannotStart",
            Self::RuleFailed => "RuleFailed",
            Self::RuleContinuedAfterFailure => "RuleContinuedAfterFailure",
            Self::JobsForbidden => "JobsForbidden",
            Self::DrainBlocked => "DrainBlocked",
            Self::ConfigChanged => "ConfigChanged",
            Self::Changing => "Changing",
            Self::ChangeTimeout => "ChangeTimeout",
            Self::ComingHome => "ComingHome",
            Self::Soaking => "Soaking",
            Self::HeldByPerson => "HeldByPerson",
            Self::SkippedByPerson => "SkippedByPerson",
            Self::SkippedByPolicy => "SkippedByPolicy",
            Self::Ungated => "Ungated",
            Self::RunGivenUp => "RunGivenUp",
            Self::Done => "Done",
            Self::InvariantBreach => "InvariantBreach",
            Self::ValidConfig => "ValidConfig",
            Self::InvalidConfig => "InvalidConfig",
            Self::Validating => "Validating",
        }
    }

    /// What it means, in a sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::UpToDate => "Nothing to do: every node runs the version that is asked for.",
            Self::NoNodes => "No node has a target pool as its primary pool.",
            Self::Progressing => "The run goes on.",
            Self::Succeeded => "Every node is at the target and every pool is as it was.",
            Self::PoolHeld => {
                "The run was left and a pool still has outdated nodes: it stays paused so that they do not roll without rules."
            }
            Self::GivingBack => "The run is being left: what numo changed is put back.",
            Self::Aborted => "The run was given up: no further node is admitted.",
            Self::Deleting => "The owner is being deleted: what numo changed is put back.",
            Self::Suspended => {
                "The owner asks to begin nothing new (spec.suspend or the suspend annotation)."
            }
            Self::Stopped => "A MutexBudget is paused: nothing new begins on its nodes.",
            Self::DryRun => "spec.dryRun: numo decides and reports, and writes nothing.",
            Self::FailureBudgetSpent => "As many nodes have failed as spec.failureBudget allows.",
            Self::NamespaceNotAllowed => {
                "The object is in a namespace that numo does not honour for this kind."
            }
            Self::NamespaceTerminating => "The namespace of the object is being deleted.",
            Self::FieldNotServed => "A field asks for something that this version of numo does not do.",
            Self::InvalidField => "A field has a value that cannot work.",
            Self::RuleNotFound => "A MutexRule that is referred to does not exist.",
            Self::RuleInvalid => "A MutexRule that is referred to is not valid.",
            Self::TargetNotFound => "A MutexTarget that is referred to does not exist, or none is given.",
            Self::PoolNotFound => "A MachineConfigPool that is referred to does not exist.",
            Self::CanaryNotFound => "The canary MachineConfigPool does not exist.",
            Self::CanaryPaused => "The canary pool is paused: a node released into it would never change.",
            Self::CanaryPopulated => "The canary pool has nodes that numo did not put there.",
            Self::CanaryIsTarget => "The canary pool is one of the target pools.",
            Self::CanaryContentDiffers => {
                "The canary pool renders other content than the target pool: nodes would lose or gain configuration in it."
            }
            Self::LabelTooLong => {
                "A rule's label would have more than the 63 characters that Kubernetes allows."
            }
            Self::ControlPlanePool => {
                "A target is the master or arbiter pool: pausing it stops the cluster's own update."
            }
            Self::SelectorMatchesControlPlane => "A custom pool's node selector matches control-plane nodes.",
            Self::ExternalControlPlane => {
                "The control plane is hosted elsewhere: there are no MachineConfigPools to steer."
            }
            Self::LayeredPool => "A pool's nodes run a layered image; neither strategy can carry it over.",
            Self::InvalidVersion => "The version that is asked for is not a semantic version.",
            Self::OpenShiftMissing => "This cluster has no ClusterVersion or no MachineConfigPools.",
            Self::PoolPausedByOther => {
                "Someone else paused a target pool: a veto until it is lifted or spec.adoptPaused is set."
            }
            Self::PoolHeldByRun => "Another run holds a target pool.",
            Self::ForeignWriter => "Someone keeps changing what numo set; numo no longer corrects it.",
            Self::PoolsPausing => "The target pools are being paused.",
            Self::ControlPlaneUpdating => "The control plane is not at the new version yet.",
            Self::PoolNotRendered => "A target pool's configuration is not rendered for the new version yet.",
            Self::NodeNotReady => "The node is not Ready.",
            Self::CordonedByOther => "Someone else cordoned the node; the MCO would take that cordon away.",
            Self::NodeNotDone => {
                "The machine-config daemon is still working on an earlier change of the node."
            }
            Self::NodeDegraded => "The machine-config daemon reports the node Degraded or Unreconcilable.",
            Self::NodeInTwoPools => "The node matches two custom pools: the MCO does not update it.",
            Self::NodeLeaving => "The node is being deleted or is marked for deletion by an autoscaler.",
            Self::NodeGone => "The node was deleted or created again while it was in flight.",
            Self::WaitingForTurn => "As many nodes are in flight as spec.maxUnavailable allows.",
            Self::BudgetExhausted => "A MutexBudget allows no further unavailable node.",
            Self::MutexKeyBusy => "A node with the same value of a label in spec.mutexKeys is in flight.",
            Self::NodeLeaseHeld => "Another controller holds the lease of the node.",
            Self::NodeLeaseUnavailable => {
                "Node leases cannot be had: the namespace medik8s-leases or the right to it is missing."
            }
            Self::Admitting => "The node's turn has come: lease and shield are being taken.",
            Self::RuleStarting => "The next rule is about to start.",
            Self::RuleRunning => "A rule is running.",
            Self::RuleJobCannotStart => "The Job of a rule cannot start a pod.",
            Self::RuleFailed => "A rule failed and no retry is left.",
            Self::RuleContinuedAfterFailure => "A rule failed after the release and its policy is Continue.",
            Self::JobsForbidden => "numo is not invited to run Jobs in the rule's namespace.",
            Self::DrainBlocked => "A pod of the node could not be evicted now: a drain would not pass.",
            Self::ConfigChanged => "The pool's configuration moved on: the node's rules run again.",
            Self::Changing => "The node was released and is changing.",
            Self::ChangeTimeout => "The node has not come back within spec.changeTimeoutSeconds.",
            Self::ComingHome => "The node is changed and goes back from the canary pool to its own.",
            Self::Soaking => "The node is done and keeps its turn for spec.soakSeconds.",
            Self::HeldByPerson => "A directive on the NodeChange holds the node.",
            Self::SkippedByPerson => "A directive on the NodeChange leaves the node out.",
            Self::SkippedByPolicy => "A rule failed and its policy leaves the node out.",
            Self::Ungated => {
                "The node is changing without its rules: it was rolling already, or someone else let it go."
            }
            Self::RunGivenUp => "The run was left before the node was released.",
            Self::Done => "The node is at the target and its rules have passed.",
            Self::InvariantBreach => {
                "A decision would have broken an invariant and was not carried out; this is a fault in numo."
            }
            Self::ValidConfig => "The object is valid.",
            Self::InvalidConfig => "The object is not valid.",
            Self::Validating => "The API server has not judged the object yet.",
        }
    }

    /// Who can end it.
    pub const fn who(self) -> Who {
        match self {
            Self::UpToDate
            | Self::Succeeded
            | Self::NodeGone
            | Self::RuleContinuedAfterFailure
            | Self::RunGivenUp
            | Self::Done
            | Self::ValidConfig => Who::Nobody,
            Self::NoNodes
            | Self::PoolHeld
            | Self::Aborted
            | Self::Suspended
            | Self::Stopped
            | Self::DryRun
            | Self::FailureBudgetSpent
            | Self::NamespaceNotAllowed
            | Self::NamespaceTerminating
            | Self::FieldNotServed
            | Self::InvalidField
            | Self::TargetNotFound
            | Self::PoolNotFound
            | Self::CanaryNotFound
            | Self::CanaryPaused
            | Self::CanaryPopulated
            | Self::CanaryIsTarget
            | Self::CanaryContentDiffers
            | Self::ControlPlanePool
            | Self::SelectorMatchesControlPlane
            | Self::ExternalControlPlane
            | Self::LayeredPool
            | Self::InvalidVersion
            | Self::OpenShiftMissing
            | Self::PoolPausedByOther
            | Self::ForeignWriter
            | Self::CordonedByOther
            | Self::NodeDegraded
            | Self::NodeInTwoPools
            | Self::NodeLeaseUnavailable
            | Self::DrainBlocked
            | Self::ChangeTimeout
            | Self::HeldByPerson
            | Self::SkippedByPerson
            | Self::SkippedByPolicy => Who::ClusterAdmin,
            Self::Progressing
            | Self::GivingBack
            | Self::Deleting
            | Self::PoolsPausing
            | Self::Admitting
            | Self::RuleStarting
            | Self::ConfigChanged
            | Self::Soaking
            | Self::InvariantBreach
            | Self::Validating => Who::Numo,
            Self::RuleNotFound
            | Self::RuleInvalid
            | Self::LabelTooLong
            | Self::RuleRunning
            | Self::RuleJobCannotStart
            | Self::RuleFailed
            | Self::JobsForbidden
            | Self::InvalidConfig => Who::RuleAuthor,
            Self::PoolHeldByRun => Who::OtherRun,
            Self::ControlPlaneUpdating | Self::PoolNotRendered | Self::NodeLeaving | Self::ComingHome => {
                Who::ClusterItself
            }
            Self::NodeNotReady | Self::NodeNotDone | Self::Changing | Self::Ungated => Who::Node,
            Self::WaitingForTurn | Self::BudgetExhausted | Self::MutexKeyBusy => Who::OtherNode,
            Self::NodeLeaseHeld => Who::OtherController,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
