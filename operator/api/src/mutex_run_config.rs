//! MutexRunConfig: which rules guard the upgrade of which targets, and how.

use crate::{
    approval::{ApprovalSettings, ApprovalStatus},
    awaited_workloads::AwaitedWorkloads,
    conditions::Condition,
    domains::Domains,
    hours::Hours,
    mutex_rule::{InlineRule, InlineRuleStatus},
    node_change::{PutBack, RuleWait, VerdictRecord},
    object_ref::ObjectRef,
    wave::{Wave, WaveStatus},
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::strategy::Strategy;

/// Which rules guard the upgrade of which MachineConfigPools. This resource does modify existing
/// resources: it pauses pools, and releases one node after the other once its rules have passed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexRunConfig",
    plural = "mutexrunconfigs",
    namespaced,
    status = "MutexRunConfigStatus",
    shortname = "mrc",
    category = "numo",
    printcolumn = r#"{"name":"Canary","type":"string","jsonPath":".spec.canary.name","priority":1,"description":"Pool that nodes are released into"}"#,
    printcolumn = r#"{"name":"Rules","type":"string","jsonPath":".status.rulesSummary","priority":1,"description":"The rules"}"#,
    printcolumn = r#"{"name":"Targets","type":"string","jsonPath":".status.targetsSummary","priority":1,"description":"The targets"}"#,
    printcolumn = r#"{"name":"Pools","type":"string","jsonPath":".status.poolsSummary","priority":1,"description":"The target pools that are named without a target"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"What the run is doing"}"#,
    printcolumn = r#"{"name":"Done","type":"string","jsonPath":".status.run.progress","description":"Nodes done of all nodes"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".status.run.target","description":"Version the run goes to"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".status.conditions[?(@.type=='Ready')].lastTransitionTime","description":"Time since it became Ready, or ceased to be"}"#,
    printcolumn = r#"{"name":"Result","type":"string","jsonPath":".status.run.result","priority":1,"description":"How the last run ended"}"#,
    printcolumn = r#"{"name":"Incomplete","type":"string","jsonPath":".status.conditions[?(@.type=='Incomplete')].message","description":"Nodes that were left out or changed without rules, and why"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Which rules guard the upgrade of which MachineConfigPools. This resource does modify existing resources: it pauses pools, and releases one node after the other once its rules have passed."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexRunConfigSpec {
    /// The MachineConfigPool that nodes are released into. Given, it makes `strategy: CanaryPool` the
    /// default. The pool must be unpaused, empty, and not part of any target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// The rules every node must pass, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub mutex_rules: Option<Vec<ObjectRef>>,
    /// Rules that stand here instead of in MutexRules of their own; every node must pass those of `mutexRules` first. Who
    /// writes them needs the right to create MutexRules in this namespace. Components (type wasm) are MutexRules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub rules: Option<Vec<InlineRule>>,
    /// The targets, in the order in which they are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutex_targets: Option<Vec<TargetRef>>,
    /// Names of existing MachineConfigPools, in the order in which their nodes are upgraded: the short form of one MutexTarget
    /// with these pools. Beside it there are no `mutexTargets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub pools: Option<Vec<String>>,
    /// Accepted for compatibility and without effect: numo never opens release images.
    #[serde(default, rename = "skipTLSVerify")]
    pub skip_tls_verify: bool,
    /// How a node is released. DesiredConfig sets the desired configuration of that node while its pool
    /// stays paused; CanaryPool moves it into the canary pool by labels. Default: CanaryPool if
    /// `canary` is given, else DesiredConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// How many nodes of all targets may be in flight at once: a number or a percentage, rounded down, at least 1. 0 (or
    /// `0%`) lets no node begin, until whoever owns the object raises it. Default: 1. MutexBudgets only lower it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// The order of nodes within a pool. Zone: by zone, then oldest first. Default: Zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Nodes that go before all others: these begin only once every one of them is done and has soaked. A node that is left
    /// out is not waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<LabelSelector>,
    /// In what order the nodes go: those of a wave begin once those of the wave before are done and have soaked. Nodes in no
    /// wave come last. `first` is the short form of one wave; beside it there are no waves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub waves: Option<Vec<Wave>>,
    /// Finish the nodes of one value of a label, such as a zone, before those of the next begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<Domains>,
    /// What a person must approve before nodes begin (`numo approve`). `approval` of a wave says it of that wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSettings>,
    /// Label keys: nodes with the same value of one of them are never in flight together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 317)))]
    pub mutex_keys: Option<Vec<String>>,
    /// When nodes may begin. The turn of a node that has changed nothing ends when the hours close; a node that was released
    /// is brought to its end. The pools of an upgrade stay paused meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Hours>,
    /// No node begins before this time (RFC 3339). The pools of an upgrade stay paused until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub start_after: Option<String>,
    /// How long a node that has passed its Post rules keeps its turn, in seconds. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub soak_seconds: Option<i64>,
    /// How long a released node may take to come back, in seconds, before it counts as failed and is
    /// held. Default: 6000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub change_timeout_seconds: Option<i64>,
    /// How many nodes may fail before no further node begins: a number, or a percentage of the nodes of the run,
    /// rounded down, at least 1. Nodes that were deleted once released count. Default: 1, unless `approval.afterFailure` is
    /// Manual; `100%` is no bound. A run begins by itself with each upgrade, and nobody may be there to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub failure_budget: Option<IntOrString>,
    /// What becomes of a node that is not Ready before its turn. Wait (default): it waits until it is Ready, and the
    /// others go on. LeaveOutAfter: after `leaveOutAfterSeconds` the run goes on without it, and names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready_policy: Option<NotReadyPolicy>,
    /// How long a node may be not Ready before `notReadyPolicy: LeaveOutAfter` leaves it out, in seconds. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub leave_out_after_seconds: Option<i64>,
    /// What happens to the target pools when an upgrade begins and this run is refused, for example because a rule does
    /// not exist. Hold (default) pauses them and keeps every node until the run is fixed. Roll lets the MCO roll every
    /// node without rules, as it would without numo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_refusal: Option<OnRefusal>,
    /// Begin nothing new: no admission and no release. numo still restores what it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Decide and report, but change nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// What happens to a pool with outdated nodes when the run is left. KeepPaused (default) leaves it
    /// paused and says so; Unpause lets the MCO roll the rest without rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_exit: Option<OnExit>,
    /// Work on pools that someone else paused, and leave them paused at the end. Default: false, a pool that
    /// someone else paused is a veto.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_paused: Option<bool>,
    /// What starts a run: a new Version (default), or AnyConfig, every change of a target pool's rendered
    /// configuration. Between runs the MCO may be faster than numo, unless `hold` is Always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// Always keeps the target pools paused between runs, so that no configuration reaches a node without its
    /// rules. It needs `trigger: AnyConfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldPools>,
    /// What marks a node that failed after it was released: it did not come back in time, or failed a rule after
    /// that. None (default), or a Taint `numo.openshift-optional.skrzypek.io/quarantine` (NoSchedule) that goes
    /// when the node is repaired or retried, or the run ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
    /// While nodes of this run are in flight, pause MachineHealthChecks: OpenShift's know no other way to leave a node
    /// alone that takes long to come back. They are resumed as soon as no node is in flight. `true` pauses every one
    /// of the cluster, `false` none. Default: those of OpenShift that select the Machine of a node of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_health_checks: Option<bool>,
    /// Before a node is released, check by dry run that each of its pods could be evicted. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_probe: Option<bool>,
    /// After a node has changed, wait until the Deployments, StatefulSets and ReplicaSets that had ready pods on it are
    /// as ready as they were. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub await_workloads: Option<bool>,
    /// Which workloads `awaitWorkloads` waits for, for how long, and what follows when they are not ready in time.
    /// Default: all of them, for 600 seconds; then the run goes on with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_workloads: Option<AwaitedWorkloads>,
}

/// The pool that nodes are released into.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Canary {
    /// Name of an existing MachineConfigPool that is in no target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
}

/// A reference to a MutexTarget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"))]
    pub name: Option<String>,
    /// Namespace of the object. Default: that of the MutexRunConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub namespace: Option<String>,
    /// How many nodes of the pools of this target may be in flight at once: a number or a percentage of these nodes, rounded
    /// down, at least 1. 0 (or `0%`) lets none of them begin, until whoever owns the object raises it. The limit of the run
    /// holds beside it. Default: no bound of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
}

impl From<ObjectRef> for TargetRef {
    fn from(object: ObjectRef) -> Self {
        Self {
            name: object.name,
            namespace: object.namespace,
            max_unavailable: None,
        }
    }
}

/// The order of nodes within a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Order {
    #[default]
    Zone,
    Oldest,
    Newest,
    Name,
}

/// What happens to a pool with outdated nodes when the run is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum OnExit {
    #[default]
    KeepPaused,
    Unpause,
}

/// What happens to the pools of a run that is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum OnRefusal {
    #[default]
    Hold,
    Roll,
}

/// What becomes of a node that is not Ready before its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum NotReadyPolicy {
    #[default]
    Wait,
    LeaveOutAfter,
}

/// What starts a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Trigger {
    #[default]
    Version,
    AnyConfig,
}

/// Whether pools stay paused between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum HoldPools {
    Always,
}

/// What marks a node that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Quarantine {
    #[default]
    None,
    Taint,
}

/// What numo found out and is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexRunConfigStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The names of the rules, for people: a column of `kubectl get` shows the first element of a list only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_summary: Option<String>,
    /// The names of the targets, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets_summary: Option<String>,
    /// The names of the pools of `spec.pools`, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pools_summary: Option<String>,
    /// The conditions of the replaced operator, and `Ready`, `Reconciling`, `Stalled`, `PoolHeld`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// When every target node was last seen at one version. Nodes that leave this version unseen, while numo is down or
    /// while `onRefusal` is Roll, are told from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// The wave under way; absent without waves, and when the nodes of all of them are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<WaveStatus>,
    /// What waits for a MutexApproval; absent while nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalStatus>,
    /// Whether the rules of `spec.rules` can be evaluated; one that has not been judged yet is not here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub rules: Vec<InlineRuleStatus>,
}

/// A moment at which every target node ran the version asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Settled {
    /// The version.
    #[schemars(length(max = 128))]
    pub version: String,
    /// When that was seen, RFC 3339. Nodes that are younger say nothing.
    #[schemars(length(max = 64))]
    pub at: String,
    /// The target pools then. They are still held where a MutexTarget is gone.
    #[serde(default)]
    #[schemars(inner(length(max = 253)))]
    pub pools: Vec<String>,
    /// The rendered configurations that the nodes ran then: who still runs one of them has not rolled, whatever version it
    /// is of by now.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub configs: Vec<String>,
}

/// One run: the way of all target nodes to one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Hash of the owner's uid and the version: the same run has the same id after every restart.
    pub id: String,
    /// The version the run goes to.
    pub target: String,
    /// How nodes are released in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The pools of the run with the rendered configuration each node is pinned to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<RunPool>,
    /// When the pools were asked to pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the run was left for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// How the run ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
    /// `done/all`, for the printer column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Number of nodes by step. Nodes that wait for their turn are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// Why nodes wait: the reasons with the number of nodes of each, most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub waiting: Vec<WaitCount>,
    /// Nodes that changed without their rules: they were rolling already, or someone else released them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ungated: Vec<String>,
    /// Nodes that could have their turn but for rules of phase Admit, with the rules' words. Always written, also when
    /// empty.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub not_admitted: Vec<NotAdmitted>,
    /// Verdicts of the rules that are evaluated once per run (phases PreRun and PostRun). Always written, also
    /// when empty: a list that is left out would keep the verdicts of the run before.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub verdicts: Vec<VerdictRecord>,
    /// Since when rules of the phases PreRun and PostRun make the run wait: their timeouts count from then, whoever leads. Always
    /// written, also when empty.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub rule_waits: Vec<RuleWait>,
    /// How often numo has set of late what pools and nodes of a run under way lacked, with the marks of it: it comes later than the
    /// rest, once, or somebody takes it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<PutBack>,
}

/// A pool of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPool {
    /// Name of the MachineConfigPool.
    pub name: String,
    /// Name of the rendered MachineConfig its nodes go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// Nodes that would roll without rules if the pool were unpaused now.
    #[serde(default)]
    pub outdated: i32,
}

/// Number of nodes by where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCounts {
    /// All target nodes.
    pub total: i32,
    /// At the target.
    pub done: i32,
    /// Between admission and done.
    pub in_flight: i32,
    /// Not admitted yet.
    pub waiting: i32,
    /// Held until a person decides.
    pub held: i32,
    /// Failed or skipped.
    pub left_out: i32,
    /// Changed without their rules.
    #[serde(default)]
    pub ungated: i32,
}

/// What a rule of phase Admit has against a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotAdmitted {
    /// The node.
    pub node: String,
    /// CamelCase reason.
    pub reason: String,
    /// What it waits for, in a sentence.
    pub message: String,
}

/// How many nodes wait for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitCount {
    /// CamelCase reason.
    pub reason: String,
    /// Number of nodes.
    pub count: i32,
    /// One of these nodes.
    pub node: String,
    /// What it waits for, in a sentence.
    pub message: String,
    /// Since when that node waits for it, RFC 3339, of waits that should end by themselves: after ten minutes a person is
    /// needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub since: Option<String>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum RunResult {
    Succeeded,
    SucceededWithSkips,
    SucceededUngated,
    Aborted,
}
