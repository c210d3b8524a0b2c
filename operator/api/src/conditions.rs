//! Every condition type and every reason a user can see, in one place.
//!
//! Reasons are stable CamelCase identifiers: status, events, metrics, command line and docs all render
//! this one value. Removing or renaming one breaks someone's alert.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition: one thing about the object that is true, false or unknown.
// It is read as the replaced operator may have written it: nothing but the type is required, and the time is a plain string. What the API
// server takes of MutexRule, MutexTarget, MutexRunConfig and Plan is as loose; of every other kind it takes `metav1.Condition`
// (`condition_schema`).
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
    /// Nodes were left out of a run, or changed without their rules; only present while so.
    pub const INCOMPLETE: &str = "Incomplete";
    /// The rule or target is valid. (MutexRule, MutexTarget)
    pub const VALID_CONFIG: &str = "ValidConfig";
    /// The component could be fetched. (MutexRule of type wasm)
    pub const FETCHED: &str = "Fetched";
    /// Somebody whom the policies name has signed the component. (MutexRule of type wasm)
    pub const VERIFIED: &str = "Verified";
    /// The component could be compiled, and is a rule. (MutexRule of type wasm)
    pub const COMPILED: &str = "Compiled";
    /// The component is of a lower version than one before it; only present while so. (MutexRule of type wasm)
    pub const DOWNGRADED: &str = "Downgraded";
    /// The nodes of the pools are known. (MutexTarget)
    pub const NODE_LIST_GATHERED: &str = "NodeListGathered";
    /// The version is known. (Plan)
    pub const LATEST_RESOLVED: &str = "LatestResolved";
    /// The spec is good. (Plan)
    pub const VALIDATED: &str = "Validated";
    /// No node is left to change: each is at the version, or was left out. (Plan, NodeVersion)
    pub const COMPLETE: &str = "Complete";
    /// The owner goes on by it, or went on. (MutexApproval)
    pub const HOLDS: &str = "Holds";
    /// kstatus: the object is as it should be.
    pub const READY: &str = "Ready";
    /// kstatus: work goes on; present only while true.
    pub const RECONCILING: &str = "Reconciling";
    /// kstatus: a person is needed; present only while true.
    pub const STALLED: &str = "Stalled";
}

/// Who can end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// Nothing is waited for.
    Nobody,
    /// numo itself, in its next steps.
    Numo,
    /// A person who administers the cluster.
    ClusterAdmin,
    /// A person who may approve.
    Approver,
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
    /// Another Plan.
    OtherPlan,
    /// A controller that is not numo.
    OtherController,
}

impl Actor {
    /// Whether it is a person of the cluster.
    pub const fn is_person(self) -> bool {
        matches!(self, Self::ClusterAdmin | Self::Approver)
    }

    /// The answer to "who can end this?".
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Nobody => "nobody needs to",
            Self::Numo => "numo, by itself",
            Self::ClusterAdmin => "a cluster administrator",
            Self::Approver => "whoever may approve it",
            Self::RuleAuthor => "the owners of the rule's namespace",
            Self::Node => "the node, when it comes back",
            Self::ClusterItself => "the cluster's own operators, by themselves",
            Self::OtherNode => "the nodes in flight, when they are done",
            Self::OtherRun => "the other run, when it is done",
            Self::OtherPlan => "the other Plan, when it is complete",
            Self::OtherController => "the controller that holds it",
        }
    }
}

/// Declares every reason once: name, who can end it, meaning.
macro_rules! reasons {
    ($($name:ident: $who:ident, $meaning:literal;)*) => {
        /// Why something waits, was refused, or is over.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The stable identifier.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What it means, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                }
            }

            /// Who can end it.
            pub const fn who(self) -> Actor {
                match self {
                    $(Self::$name => Actor::$who,)*
                }
            }
        }
    };
}

reasons! {
    UpToDate: Nobody, "Nothing to do: every node runs the version that is asked for.";
    NoNodes: ClusterAdmin, "No node is selected: none has a target pool of the run as its primary pool, or matches spec.nodeSelector of the Plan.";
    Progressing: Numo, "The run is under way.";
    Succeeded: Nobody, "Every node is at the target and every pool is as it was.";
    NodesLeftOut: ClusterAdmin, "The run is over, and nodes were left out: they do not run the version.";
    NodesUngated: ClusterAdmin, "The run is over, and nodes went to the version without their rules.";
    PoolHeld: ClusterAdmin, "The run was left and a pool still has outdated nodes: it stays paused so that they do not roll without rules. A MutexRunConfig of the pool upgrades them by their rules; if somebody unpauses it, the machine-config operator changes every outdated node without rules.";
    OwnerGone: ClusterAdmin, "A mark of numo stands on an object, and the owner that it was set for is gone: it stays until a person removes it.";
    OwnerUnknown: ClusterAdmin, "A mark of numo stands on an object for an owner of a kind that this version of numo does not know: it is left to a numo that knows the kind.";
    Restoring: Numo, "The run is being left: numo restores what it changed.";
    Aborted: ClusterAdmin, "The run was given up: no further node is admitted.";
    Deleting: Numo, "The owner is being deleted: numo restores what it changed.";
    Suspended: ClusterAdmin, "The owner asks to begin nothing new (spec.suspend or the suspend annotation).";
    Stopped: ClusterAdmin, "A MutexBudget is paused: nothing new begins on its nodes.";
    DryRun: ClusterAdmin, "spec.dryRun: numo decides and reports, and changes nothing else.";
    FailureBudgetSpent: ClusterAdmin, "As many nodes have failed as failureBudget allows: one, if nothing says more.";
    NamespaceNotAllowed: ClusterAdmin, "The object is in a namespace that numo does not watch for this kind.";
    NamespaceTerminating: ClusterAdmin, "The namespace of the object is being deleted.";
    FieldNotServed: ClusterAdmin, "A field asks for something that this version of numo does not do.";
    InvalidField: ClusterAdmin, "A field has a value that cannot work.";
    RuleNotFound: RuleAuthor, "A MutexRule that is referred to does not exist.";
    RuleInvalid: RuleAuthor, "A MutexRule that is referred to is not valid.";
    TargetNotFound: ClusterAdmin, "A MutexTarget that is referred to does not exist, or none is given.";
    PoolNotFound: ClusterAdmin, "A MachineConfigPool that is referred to does not exist.";
    CanaryNotFound: ClusterAdmin, "The canary MachineConfigPool does not exist.";
    CanaryPaused: ClusterAdmin, "The canary pool is paused: a node released into it would never change.";
    CanaryPopulated: ClusterAdmin, "The canary pool has nodes that numo did not put there.";
    CanaryIsTarget: ClusterAdmin, "The canary pool is one of the target pools.";
    CanaryContentDiffers: ClusterAdmin, "The canary pool renders other content than the target pool: nodes would lose or gain configuration in it.";
    LabelTooLong: RuleAuthor, "A rule's label would have more than the 63 characters that Kubernetes allows.";
    ControlPlanePool: ClusterAdmin, "A target is the master or arbiter pool: pausing it stops the cluster's own update.";
    SelectorMatchesControlPlane: ClusterAdmin, "A custom pool's node selector matches control-plane nodes.";
    ExternalControlPlane: ClusterAdmin, "The control plane is hosted elsewhere: there are no MachineConfigPools to steer.";
    LayeredPool: ClusterAdmin, "A pool's nodes run a layered image; neither strategy can carry it over.";
    InvalidVersion: ClusterAdmin, "The version that is asked for is not a semantic version.";
    OpenShiftMissing: ClusterAdmin, "This cluster has no ClusterVersion or no MachineConfigPools.";
    PoolPausedByOther: ClusterAdmin, "Someone else paused a target pool: a veto until it is lifted or spec.adoptPaused is set.";
    PoolHeldByRun: OtherRun, "Another run holds a target pool.";
    ForeignWriter: ClusterAdmin, "Someone keeps changing what numo set; numo no longer corrects it, or only once a minute.";
    PoolsPausing: Numo, "The target pools are being paused.";
    ControlPlaneUpdating: ClusterItself, "The control plane is not at the new version yet.";
    PoolNotRendered: ClusterItself, "A target pool's configuration is not rendered for the new version yet.";
    NodeNotReady: Node, "The node is not Ready.";
    CordonedByOther: ClusterAdmin, "Someone else cordoned the node; the MCO would remove that cordon.";
    NodeNotDone: Node, "The machine-config daemon is still working on an earlier change of the node.";
    NodeDegraded: ClusterAdmin, "The machine-config daemon reports the node Degraded or Unreconcilable.";
    NodeInTwoPools: ClusterAdmin, "The node matches two custom pools: the MCO does not update it.";
    NodeInNoPool: ClusterAdmin, "The node would be in no pool: the MCO would not manage it.";
    WriteRefused: ClusterAdmin, "The API server or an admission policy refuses what numo must write.";
    NodeLeaving: ClusterItself, "The node is being deleted or is marked for deletion by an autoscaler.";
    NodeGone: Nobody, "The node was deleted or created again while it was in flight.";
    WaitingForTurn: OtherNode, "As many nodes are in flight as spec.maxUnavailable allows.";
    MaxUnavailableZero: ClusterAdmin, "maxUnavailable is 0: no node begins until it is raised.";
    BudgetExhausted: OtherNode, "A MutexBudget allows no further unavailable node.";
    MutexKeyBusy: OtherNode, "A node with the same value of a label in spec.mutexKeys is in flight.";
    NodeLeaseHeld: OtherController, "Another controller holds the lease of the node.";
    NodeNotFound: ClusterAdmin, "There is no node of that name.";
    NodeInMaintenance: ClusterAdmin, "Another NodeMaintenance keeps the node.";
    NodeBusy: OtherNode, "The node has its turn with another owner.";
    NodeLeaseLost: OtherController, "Another controller took the lease of the node while it was in maintenance.";
    EtcdQuorum: ClusterAdmin, "Without the node the control plane would lose its quorum, or one failure more would cost it.";
    QuorumUnknown: ClusterAdmin, "It is not known which control-plane nodes the cluster can do without.";
    ForeignController: ClusterAdmin, "The operator that numo replaces is live: numo begins nothing for these objects, and finishes or restores what it had begun.";
    Draining: Numo, "Pods are on their way out.";
    EvictionBlocked: ClusterAdmin, "A PodDisruptionBudget allows no further eviction now.";
    EvictionRefused: ClusterAdmin, "The API server or an admission webhook refuses the eviction of a pod.";
    DrainRefused: ClusterAdmin, "The node has pods that the drain's settings do not allow to evict; nothing is evicted.";
    DrainTimeout: ClusterAdmin, "The drain takes longer than its timeoutSeconds; it continues.";
    MigrationInProgress: ClusterItself, "A virtual machine is moving to another node.";
    NotMigratable: ClusterAdmin, "A virtual machine cannot move to another node; it is not stopped.";
    VolumesAttached: ClusterItself, "Volumes of pods that are gone are still attached to the node.";
    PodsReturn: ClusterAdmin, "Pods come back to the cordoned node, past the cordon.";
    LastPlace: ClusterAdmin, "numo itself runs on the node and could run on no other.";
    PodNeeded: Numo, "A pod is left that numo needs: a rule or an upgrade that is under way.";
    Drained: Nobody, "The node is cordoned and drained.";
    InMaintenance: Nobody, "The node is kept cordoned and drained until the object is deleted.";
    NodeLeaseUnavailable: ClusterAdmin, "Node leases are not available: the namespace medik8s-leases or the right to it is missing.";
    Admitting: Numo, "The node's turn has come: lease and shield are being taken.";
    PlanStarting: Numo, "The Plan begins soon: MutexBindings that are made together with it are waited for.";
    RuleStarting: Numo, "The next rule is about to start.";
    RuleRunning: RuleAuthor, "A rule is running.";
    RuleJobCannotStart: RuleAuthor, "The Job of a rule cannot start a pod.";
    RuleWaits: RuleAuthor, "A rule says that the node must wait; its own reason stands in the message.";
    RuleUnavailable: ClusterAdmin, "A rule could not be evaluated: its component, or what it reads, cannot be had.";
    WrongWorld: RuleAuthor, "A rule's component is no rule of a contract that numo knows.";
    HostTooOld: ClusterAdmin, "A rule's component calls a function that only a later numo has.";
    UnknownImport: RuleAuthor, "A rule's component imports what no rule gets.";
    GrantMissing: RuleAuthor, "A rule needs something that spec.wasm.grants does not grant.";
    PhaseUnsupported: RuleAuthor, "spec.phases names a phase that the rule's component does not know.";
    Denied: RuleAuthor, "A rule reached beyond its grants and could not decide without.";
    EvaluationTimeout: RuleAuthor, "A rule did not answer in time.";
    MemoryLimit: RuleAuthor, "A rule wanted more memory than it may have.";
    TransferLimit: RuleAuthor, "A rule handed over, or asked for, more bytes than it may.";
    CallLimit: RuleAuthor, "A rule called numo more often than it may.";
    HandleLimit: RuleAuthor, "A rule made more handles than it may.";
    StackOverflow: RuleAuthor, "A rule called itself too deep.";
    Trap: RuleAuthor, "A rule stopped itself by a panic or a fault of its own.";
    RuleError: RuleAuthor, "A rule said that it could not decide, or its answer was malformed.";
    CompileTimeout: RuleAuthor, "Compiling a rule's component took too long.";
    CompileFailed: RuleAuthor, "A rule's component is not valid, or compiling it failed.";
    TooLarge: RuleAuthor, "A rule's component, or something it is given or gave, is larger than allowed.";
    Unsigned: RuleAuthor, "A signature of a rule's component is asked for, and there is none.";
    SignatureMismatch: RuleAuthor, "None of the signatures of a rule's component is accepted.";
    RegistryUnavailable: ClusterAdmin, "The registry of a rule's component gave no answer.";
    ConfigMapNotFound: RuleAuthor, "The ConfigMap, or the key in it, that holds a rule's component does not exist.";
    ConfigMapForbidden: RuleAuthor, "numo has no permission to read ConfigMaps in the rule's namespace.";
    InvalidReference: RuleAuthor, "spec.wasm.image is no reference to an artifact.";
    ImageNotFound: RuleAuthor, "The registry has no such component.";
    ImageUnauthorised: RuleAuthor, "The registry wants other credentials than the rule's pull secret has.";
    WrongMediaType: RuleAuthor, "The image is an artifact of another kind than a rule's component.";
    DigestMismatch: ClusterAdmin, "The registry gave something else than its digest says.";
    MalformedImage: RuleAuthor, "The image cannot be read as what it claims to be.";
    RegistryNotAllowed: ClusterAdmin, "The registry may not be asked, or asks for what numo will not do.";
    PrometheusNotConfigured: ClusterAdmin, "A rule queries Prometheus, and numo has the address of none (--prometheus-url).";
    PullSecretNotFound: RuleAuthor, "The pull secret of a rule does not exist.";
    PullSecretForbidden: RuleAuthor, "numo has no permission to read pull secrets in the rule's namespace.";
    PullSecretInvalid: RuleAuthor, "The pull secret of a rule cannot be read.";
    Verified: Nobody, "The component is signed by somebody whom the policies name.";
    Fetched: Nobody, "The component was fetched.";
    Compiled: Nobody, "The component was compiled.";
    Downgraded: RuleAuthor, "The component of a rule is of a lower version than one that it had before; it runs anyway.";
    RuleFailed: RuleAuthor, "A rule failed and no retry is left.";
    RuleWithdrawn: ClusterAdmin, "A rule was evaluated for the node and has not passed, and nothing names it for the node any more, or its phase was taken out of it.";
    RuleContinuedAfterFailure: Nobody, "A rule failed after the release and its policy is Continue.";
    PlanJobsForbidden: ClusterAdmin, "numo has no permission for the Jobs of Plans in the namespace: a RoleBinding to ClusterRole numo-plans is missing.";
    JobsForbidden: RuleAuthor, "numo has no permission to run Jobs in the rule's namespace.";
    DrainBlocked: ClusterAdmin, "A pod of the node could not be evicted now: a drain would not pass.";
    ConfigChanged: Numo, "The pool's configuration moved on: the node's rules run again.";
    Changing: Node, "The node was released and is changing.";
    ChangeTimeout: ClusterAdmin, "The node has not come back within spec.changeTimeoutSeconds.";
    ComingHome: ClusterItself, "The node is changed and goes back from the canary pool to its own.";
    Soaking: Numo, "The node is done and keeps its turn for spec.soakSeconds.";
    HeldByPerson: ClusterAdmin, "A directive on the NodeChange holds the node.";
    SkippedByPerson: ClusterAdmin, "A directive on the NodeChange leaves the node out.";
    LeftOutNotReady: Node, "The node has not been Ready for longer than spec.leaveOutAfterSeconds: it is left out until it is Ready again.";
    SkippedByPolicy: ClusterAdmin, "A rule failed and its policy leaves the node out.";
    Ungated: Node, "The node is changing without its rules: it was rolling already, or someone else released it.";
    RunGivenUp: Nobody, "The run was left before the node was released.";
    Done: Nobody, "The node is at the target and its rules have passed.";
    OutsideWindow: Numo, "The window is closed: no further node is begun.";
    WindowEndsSoon: Numo, "The window closes before a node would be done: no further node is begun.";
    Frozen: Numo, "A freeze of the window holds: no further node is begun.";
    NeverOpens: ClusterAdmin, "The window has no opening ahead: no node is ever begun.";
    StartsLater: Numo, "spec.startAfter is not over: no node is begun.";
    WaitsForPlan: OtherPlan, "Another Plan must be complete first, and every control-plane kubelet at its version.";
    PlanNotFound: ClusterAdmin, "There is no Plan of the name that spec.prepare.args waits for.";
    PlanCycle: ClusterAdmin, "Plans wait for each other in a circle.";
    FirstNodes: OtherNode, "The nodes of spec.first (of a Plan: spec.mutex.first, or a MutexBinding's) go before all others.";
    WaitsForWave: OtherNode, "The nodes of an earlier wave (waves) go first: they are not done, or that wave soaks.";
    OtherDomain: OtherNode, "Nodes of other values of the label in spec.domains (of a Plan: spec.mutex.domains, or a MutexBinding's) have their turns before.";
    WaitsForApproval: Approver, "A person must approve first that nodes begin (approval).";
    ApprovalExpired: Approver, "What was approved has changed since, or the approval is too old: it must be approved again.";
    ApprovalHolds: Nobody, "The owner of the MutexApproval goes on by it.";
    ApprovalOver: Nobody, "The owner of the MutexApproval went on by it, and does not ask for that any more.";
    OwnerNotFound: Approver, "The owner that the MutexApproval names does not exist, or is none that numo looks after: it approves nothing.";
    NothingWaits: Approver, "The owner that the MutexApproval names waits for no approval: it approves nothing.";
    ApprovesOther: Approver, "The MutexApproval is of something else than what waits: it approves nothing.";
    NoDomain: ClusterAdmin, "The node has no label of the key in spec.domains: nobody knows when it comes.";
    ListFailed: ClusterAdmin, "Objects of a kind that decisions need are no longer listed, or one of them cannot be read: what was seen last is kept, and nothing begins.";
    NoRoom: ClusterAdmin, "The rules of all namespaces take all the memory there is for them; a rule that no owner refers to gives way first.";
    TooManyNamespaces: ClusterAdmin, "Rules name more namespaces for their Jobs than numo watches.";
    NothingGated: ClusterAdmin, "The MutexBinding has neither rules nor settings: nothing is gated by it.";
    NoOwners: ClusterAdmin, "The binding selects no owner: nothing is gated by it.";
    ConcurrencyZero: ClusterAdmin, "spec.concurrency is 0 or absent: the Plan selects no node.";
    VersionUnresolved: ClusterAdmin, "The version of the Plan could not be found out.";
    ChannelQueried: Numo, "The channel is being queried for the newest version.";
    SecretNotFound: ClusterAdmin, "A Secret that the Plan or the MutexNotifier refers to does not exist.";
    SecretInvalid: ClusterAdmin, "The Secret or the authorities of a MutexNotifier cannot be used: a key is missing, or what stands there is not what is wanted.";
    SinkFails: ClusterAdmin, "The sink of a MutexNotifier takes no notification now; nothing else waits for it.";
    SinkRefuses: ClusterAdmin, "The sink of a MutexNotifier refused the last notification; it is not sent again.";
    SecretsForbidden: ClusterAdmin, "numo may not read Secrets in the namespace of the Plan, which go into its hash, or the Secret or ConfigMap of a MutexNotifier.";
    Upgrading: Node, "The Job of the node runs.";
    UpgradeStarting: Numo, "The Job of the node is about to start.";
    Prepared: Numo, "The Job that prepares the node for numo's drain is complete.";
    UpgradeCannotStart: ClusterAdmin, "The Job of the node cannot be made, or cannot start a pod.";
    JobFailed: ClusterAdmin, "The Job of the node failed, and no retry is left.";
    Rebooted: Numo, "The node rebooted under its Job: what came of it is judged by the node, or the Job runs once more.";
    JobLost: ClusterAdmin, "The Job of the node is gone, and nothing tells how it ended.";
    JobBeingDeleted: ClusterItself, "An earlier Job of the node is being deleted.";
    CompleteDelay: Numo, "The Job of the node is complete, and spec.postCompleteDelay is not over.";
    GateLost: ClusterAdmin, "The object had a gate of its own, and somebody, or the CRD of another controller or of an older numo, has dropped it.";
    JournalContradicts: ClusterAdmin, "The NodeChange of a node contradicts itself, or a later numo wrote it: numo does nothing to the node because of it.";
    Superseded: Nobody, "The owner goes to another version by now: the node starts over.";
    MarkUnreadable: ClusterAdmin, "A mark of numo on the node cannot be read: nothing is done to the node before the mark is gone or corrected.";
    NotSelected: Nobody, "The Plan does not select the node any more.";
    InvariantBreach: Numo, "A decision would have broken an invariant and was not carried out; this is a fault in numo.";
    Joining: ClusterItself, "A new machine is to take the place of the node: it is being made, or has not joined yet.";
    JoinFailed: ClusterAdmin, "New machines did not join in time, as often as they are tried: the old node stays.";
    MachineLeaving: ClusterItself, "The machine of the node is being deleted at its provider.";
    MachineUnknown: ClusterAdmin, "The provider knows no machine of the node, or cannot say its image or group: the node is left as it is.";
    ProviderUnavailable: ClusterAdmin, "The provider of machines cannot be asked, or refuses.";
    ProviderContradicts: ClusterAdmin, "The provider, or a PendingNode, says of machines what cannot be true: numo deletes no machine because of it.";
    ScalingGroupNotFound: ClusterAdmin, "There is no ScalingGroup for the machine of the node.";
    GroupImageOutdated: Numo, "New machines of the group would not get the image yet.";
    AutoscalerRuns: Numo, "The cluster autoscaler is being stopped while nodes are replaced.";
    AwaitingAnnotation: ClusterItself, "The image or the Kubernetes components of a node are not known yet.";
    ControlPlaneFirst: OtherNode, "Nodes of the control plane are replaced before all others.";
    MaintenanceNotServed: ClusterAdmin, "Nodes are to be drained by NodeMaintenances, and no other operator was found that serves them: no node is begun.";
    MaintenanceUnanswered: ClusterAdmin, "numo made a NodeMaintenance for another operator to drain the node by, and that operator has not said anything of it.";
    MaintenanceFailed: ClusterAdmin, "The NodeMaintenance that numo made for another operator to drain the node by has failed.";
    NothingTakesItsPlace: Numo, "The node is to go, and no new machine takes its place.";
    ValidConfig: Nobody, "The object is valid.";
    InvalidConfig: RuleAuthor, "The object is not valid.";
    Validating: Numo, "The API server has not judged the object yet.";
}

impl Reason {
    /// The reason of this name, if numo has one; also by the name that a numo before 0.1.0 wrote to journals and conditions.
    pub fn named(name: &str) -> Option<Self> {
        let name = match name {
            "GivingBack" => Self::Restoring.name(),
            "NothingAsked" => Self::NothingGated.name(),
            "ChannelAsked" => Self::ChannelQueried.name(),
            name => name,
        };
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }

    /// Whether it is a matter of order: other nodes of the owner come before, and what keeps those keeps this one.
    pub const fn is_of_order(self) -> bool {
        matches!(self, Self::FirstNodes | Self::WaitsForWave | Self::OtherDomain)
    }

    /// Whether a MutexApproval is waited for.
    pub const fn is_of_approval(self) -> bool {
        matches!(self, Self::WaitsForApproval | Self::ApprovalExpired)
    }

    /// Whether it is a matter of the calendar: nodes begin again when the hours of their owner open.
    pub const fn is_of_hours(self) -> bool {
        matches!(
            self,
            Self::OutsideWindow | Self::WindowEndsSoon | Self::Frozen | Self::NeverOpens | Self::StartsLater
        )
    }

    /// Whether it is what asking a rule came to: only the operator itself knows it.
    pub const fn is_of_evaluation(self) -> bool {
        matches!(
            self,
            Self::RuleWaits
                | Self::RuleUnavailable
                | Self::WrongWorld
                | Self::HostTooOld
                | Self::UnknownImport
                | Self::GrantMissing
                | Self::PhaseUnsupported
                | Self::Denied
                | Self::EvaluationTimeout
                | Self::MemoryLimit
                | Self::TransferLimit
                | Self::CallLimit
                | Self::HandleLimit
                | Self::StackOverflow
                | Self::Trap
                | Self::RuleError
                | Self::CompileTimeout
                | Self::CompileFailed
                | Self::TooLarge
                | Self::Unsigned
                | Self::SignatureMismatch
                | Self::RegistryUnavailable
        )
    }
}

impl Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
