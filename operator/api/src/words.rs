//! CamelCase words that a user can see and that are no [`Reason`](crate::Reason): reasons of events, of the conditions
//! that the replaced operators have, and of the verdicts of numo's own runners. Each has its sentence, for the reference
//! and for `numo explain reason/WORD`; a test looks for words in the code that have none.

/// Where a word is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Reason of an event.
    Event,
    /// Reason of a condition that a replaced operator has, too.
    Condition,
    /// Reason of a verdict, in a journal.
    Verdict,
}

impl Seen {
    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Condition => "condition",
            Self::Verdict => "verdict",
        }
    }
}

/// Every word: name, where it is seen, meaning.
pub const WORDS: &[(&str, Seen, &str)] = &[
    (
        "NodeVersionsOutOfDate",
        Seen::Condition,
        "Nodes have another image, or other components, than the NodeVersion asks for (condition Outdated).",
    ),
    (
        "NodeVersionsUpToDate",
        Seen::Condition,
        "Every node is as the NodeVersion asks for (condition Outdated).",
    ),
    (
        "ScalingGroupNodeImageOutOfDate",
        Seen::Condition,
        "New machines of the ScalingGroup would not get the image of its NodeVersion (condition Outdated).",
    ),
    (
        "ScalingGroupNodeImageUpToDate",
        Seen::Condition,
        "New machines of the ScalingGroup get the image of its NodeVersion (condition Outdated).",
    ),
    (
        "AbortAsked",
        Seen::Event,
        "A person gave the run up (numo abort).",
    ),
    ("AbortTakenBack", Seen::Event, "A person took an abort back."),
    (
        "Acknowledged",
        Seen::Event,
        "A person confirmed that a run left nodes out, or that nodes changed without their rules (numo acknowledge).",
    ),
    (
        "AcknowledgementTakenBack",
        Seen::Event,
        "A person took an acknowledgement back.",
    ),
    (
        "Started",
        Seen::Event,
        "A person let the nodes of a MutexBudget change again (numo start).",
    ),
    ("Resumed", Seen::Event, "A person resumed an owner (numo resume)."),
    (
        "HoldAsked",
        Seen::Event,
        "A person holds a node where it is (numo hold).",
    ),
    (
        "HoldTakenBack",
        Seen::Event,
        "A person ended the hold of a node (numo hold --undo).",
    ),
    (
        "MaintenanceAsked",
        Seen::Event,
        "A person takes a node out of service (numo maintain).",
    ),
    (
        "MaintenanceEnded",
        Seen::Event,
        "A person ends the maintenance of a node (numo maintain --end).",
    ),
    (
        "RetryAsked",
        Seen::Event,
        "A person asked for the rules to be evaluated again (numo retry).",
    ),
    (
        "OddWave",
        Seen::Event,
        "A wave has no node, a node is of two waves and goes with the first, `first` selects no node, or no node has a label of `mutexKeys`.",
    ),
    (
        "SinkReached",
        Seen::Event,
        "The sink of a MutexNotifier takes notifications again.",
    ),
    ("SkipAsked", Seen::Event, "A person left a node out (numo skip)."),
    (
        "TurnEnded",
        Seen::Event,
        "A node was closed for a minute before its first disruption: its turn ends, and other nodes go first.",
    ),
    (
        "UpgradeHeld",
        Seen::Event,
        "An upgrade has begun and its MutexRunConfig is refused: the pool is paused, and no node of it changes until that is fixed.",
    ),
    (
        "UpgradeUngated",
        Seen::Event,
        "Nodes changed to the version without their rules.",
    ),
    (
        "ApprovesNothing",
        Seen::Event,
        "A MutexApproval approves nothing: its owner is not there, waits for no approval, or waits for another.",
    ),
    ("BeginMaintenance", Seen::Event, "A NodeMaintenance begins."),
    (
        "SucceedMaintenance",
        Seen::Event,
        "The node of a NodeMaintenance is drained.",
    ),
    (
        "FailedMaintenance",
        Seen::Event,
        "A NodeMaintenance cannot continue.",
    ),
    (
        "UncordonNode",
        Seen::Event,
        "The maintenance of a node is over: numo restores the node.",
    ),
    (
        "RemovedMaintenance",
        Seen::Event,
        "A NodeMaintenance is over, and its node is restored.",
    ),
    (
        "JobMissing",
        Seen::Event,
        "The Job of a node was about to be made a while ago and is not there: it is made now, perhaps once more.",
    ),
    (
        "CordonedAgain",
        Seen::Event,
        "Somebody uncordoned a node in maintenance; numo cordoned it again.",
    ),
    (
        "BroughtHome",
        Seen::Event,
        "A node was taken out of the canary pool, back to its own.",
    ),
    (
        "HealthCheckResumed",
        Seen::Event,
        "A MachineHealthCheck that was paused for nodes in flight is resumed.",
    ),
    (
        "NodeLeasesAvailable",
        Seen::Event,
        "Node leases are available again: the namespace medik8s-leases and the right to it are there.",
    ),
    (
        "NodeHeld",
        Seen::Event,
        "A node is held where it is, until somebody says what becomes of it.",
    ),
    (
        "PausedAgain",
        Seen::Event,
        "Somebody unpaused a pool under a run; numo paused it again.",
    ),
    ("PoolPaused", Seen::Event, "A pool is paused for a run."),
    (
        "PoolUnpaused",
        Seen::Event,
        "A pool is as it was before the run: no node of it would roll.",
    ),
    (
        "Quarantined",
        Seen::Event,
        "A node that failed takes no new pods (spec.quarantine).",
    ),
    ("QuarantineEnded", Seen::Event, "A node takes new pods again."),
    ("RulePassed", Seen::Event, "A rule passed for a node."),
    (
        "SelectorSet",
        Seen::Event,
        "The node selector of a pool is set for a run through the canary pool.",
    ),
    (
        "SelectorRestored",
        Seen::Event,
        "The node selector of a pool is as it was.",
    ),
    ("Released", Seen::Event, "A node was released: it changes now."),
    ("Changed", Seen::Event, "A node came back, changed."),
    (
        "JobComplete",
        Seen::Event,
        "The Job of a Plan is complete on a node.",
    ),
    (
        "JobCompleteWaiting",
        Seen::Event,
        "The Job of a Plan is complete, and its delay runs.",
    ),
    (
        "ApplyFailed",
        Seen::Condition,
        "MutexRulesApplied: not every node that needs them carries the rule labels.",
    ),
    (
        "ApplySucceeded",
        Seen::Condition,
        "MutexRulesApplied: the nodes carry the rule labels.",
    ),
    (
        "CheckFailed",
        Seen::Condition,
        "UpgradeChecked: it could not be determined whether an upgrade is available.",
    ),
    (
        "CheckSucceeded",
        Seen::Condition,
        "UpgradeChecked: it is known whether an upgrade is available.",
    ),
    (
        "FetchFailed",
        Seen::Condition,
        "NodeListGathered: the nodes of the pools are not known.",
    ),
    (
        "FetchSucceeded",
        Seen::Condition,
        "NodeListGathered: the nodes of the pools are known.",
    ),
    (
        "MachineConfigPoolFetchFailed",
        Seen::Condition,
        "A pool of a MutexTarget does not exist.",
    ),
    (
        "MachineConfigPoolFetchSucceeded",
        Seen::Condition,
        "Every pool of a MutexTarget exists.",
    ),
    (
        "JobRunFailed",
        Seen::Condition,
        "JobRun: a rule of the node that came last has failed.",
    ),
    (
        "JobRunSucceeded",
        Seen::Condition,
        "JobRun: the rules of the node that came last have passed.",
    ),
    (
        "NodeUpgradeFailed",
        Seen::Condition,
        "NodeUpgrade: the node that came last has not come back.",
    ),
    (
        "NodeUpgradeSucceeded",
        Seen::Condition,
        "NodeUpgrade: the node that came last has changed.",
    ),
    (
        "NotPaused",
        Seen::Condition,
        "TargetPoolsPaused: not every target pool is paused.",
    ),
    (
        "UpdateFailed",
        Seen::Condition,
        "MCPUpdated: the pools' selectors are not as the strategy needs them.",
    ),
    (
        "UpdateSucceeded",
        Seen::Condition,
        "MCPUpdated: the pools' selectors are as the strategy needs them.",
    ),
    (
        "UpgradeNotReady",
        Seen::Condition,
        "UpgradeReady: no upgrade may begin now.",
    ),
    (
        "UpgradeUnavailable",
        Seen::Condition,
        "UpgradeAvailable: nothing is left to upgrade.",
    ),
    (
        "PlanIsValid",
        Seen::Condition,
        "Validated: the spec of the Plan is valid.",
    ),
    ("ValidateFailed", Seen::Event, "The spec of a Plan is not valid."),
    (
        "ValidationFailed",
        Seen::Condition,
        "Complete: the spec of the Plan is not valid.",
    ),
    (
        "ResolveFailed",
        Seen::Event,
        "The version of a Plan could not be determined.",
    ),
    (
        "SelectNodesFailed",
        Seen::Condition,
        "Complete: the nodes of the Plan could not be selected.",
    ),
    (
        "SyncJob",
        Seen::Condition,
        "Complete: Jobs of the Plan are under way.",
    ),
    (
        "NotReady",
        Seen::Condition,
        "Complete: the Plan is not valid, or its version is not known.",
    ),
    (
        "DeadlineExceeded",
        Seen::Verdict,
        "A rule took longer than its timeoutSeconds.",
    ),
    ("ExpressionsMet", Seen::Verdict, "cel: every expression holds."),
    (
        "ExpressionNotMet",
        Seen::Verdict,
        "cel: an expression does not hold.",
    ),
    (
        "ThresholdMet",
        Seen::Verdict,
        "prometheus: the query is on the right side of its threshold.",
    ),
    (
        "ThresholdNotMet",
        Seen::Verdict,
        "prometheus: the query is on the wrong side of its threshold.",
    ),
    (
        "NoThreshold",
        Seen::Verdict,
        "prometheus: the query has no threshold.",
    ),
    ("NoData", Seen::Verdict, "prometheus: the query has no data."),
    ("AlertFires", Seen::Verdict, "prometheus: an alert fires."),
    ("NoAlertFires", Seen::Verdict, "prometheus: no alert fires."),
    (
        "WatchdogSilent",
        Seen::Verdict,
        "prometheus: the alert that must always fire is silent.",
    ),
    (
        "AnswerIncomplete",
        Seen::Verdict,
        "prometheus: the answer says that it is not complete.",
    ),
    (
        "Holding",
        Seen::Verdict,
        "prometheus: it holds, and must hold for forSeconds.",
    ),
    (
        "WorkloadsReady",
        Seen::Verdict,
        "The workloads that left the node are ready again.",
    ),
    (
        "WorkloadsNotReady",
        Seen::Verdict,
        "Workloads that left the node are not ready again.",
    ),
    (
        "WorkloadsRemembered",
        Seen::Verdict,
        "The workloads of the node are noted, to be compared with afterwards.",
    ),
    (
        "WorkloadsUnknown",
        Seen::Verdict,
        "It is not known which workloads the node had.",
    ),
];

/// What a word means, be it a reason or another.
pub fn meaning(word: &str) -> Option<&'static str> {
    let reasons = crate::Reason::ALL.iter();
    reasons
        .map(|reason| (reason.name(), reason.meaning()))
        .chain(WORDS.iter().map(|(name, _, meaning)| (*name, *meaning)))
        .find(|(name, _)| *name == word)
        .map(|(_, meaning)| meaning)
}
