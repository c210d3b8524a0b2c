//! NodeChange: the journal of one node for one owner, and its reservation.

use crate::{
    conditions::Condition,
    mutex_rule::{FailurePolicy, Phase},
    strategy::Strategy,
};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens to one node for one owner. numo creates it when the node is admitted: it is the node's turn until its step is Done, Failed or
/// Skipped, and its journal after that. A node that merely waits has none, unless a person skips or holds it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "NodeChange",
    plural = "nodechanges",
    namespaced,
    status = "NodeChangeStatus",
    shortname = "nc",
    category = "numo",
    selectable = ".spec.nodeName",
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".spec.nodeName","description":"The node"}"#,
    printcolumn = r#"{"name":"Owner","type":"string","jsonPath":".spec.ownerRef.name","description":"Name of the owner"}"#,
    printcolumn = r#"{"name":"To","type":"string","jsonPath":".spec.target.version","description":"Version the node goes to"}"#,
    printcolumn = r#"{"name":"Step","type":"string","jsonPath":".status.step","description":"The step the node is in"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.reason","description":"Why it is there"}"#,
    printcolumn = r#"{"name":"Attempt","type":"integer","jsonPath":".status.attempt","description":"How often the node was tried"}"#,
    printcolumn = r#"{"name":"Since","type":"date","jsonPath":".status.since","description":"Time in this step"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since admission"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "What happens to one node for one owner. numo creates it when the node is admitted: it is the node's turn until its step is Done, Failed or Skipped, and its journal after that. A node that merely waits has none, unless a person skips or holds it."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeChangeSpec {
    /// The object that asks for the change.
    pub owner_ref: OwnerRef,
    /// Name of the node.
    #[schemars(length(max = 253))]
    pub node_name: String,
    /// UID of the node: a node that is created again under its name starts over.
    #[serde(rename = "nodeUID")]
    #[schemars(length(max = 64))]
    pub node_uid: String,
    /// What the node changes to.
    pub target: Target,
    /// Whether the node stays in service while it changes: it then counts against no budget, and holds no lease.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_service: bool,
    /// What a person wants done with this node. `by` is what the client says, not proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directive: Option<Directive>,
}

/// The object that asks for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerRef {
    /// `group/version` of the owner.
    #[schemars(length(max = 317))]
    pub api_version: String,
    /// Kind of the owner.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the owner; absent for cluster-scoped owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the owner.
    #[schemars(length(max = 253))]
    pub name: String,
    /// UID of the owner.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// What a node changes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Id of the run.
    #[serde(rename = "runID")]
    #[schemars(length(max = 63))]
    pub run_id: String,
    /// Version the node goes to.
    #[schemars(length(max = 128))]
    pub version: String,
    /// Pool that is the node's home.
    #[schemars(length(max = 253))]
    pub pool: String,
}

/// What a person wants done with a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Directive {
    /// Skip leaves the node out; Retry runs its rules again; Hold keeps it where it is; Abort gives the
    /// whole run up.
    pub action: DirectiveAction,
    /// Why, for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,
    /// Who gave the directive, as its author wrote it. It is no proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub by: Option<String>,
}

/// What a person can want done with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum DirectiveAction {
    Skip,
    Retry,
    Hold,
    Abort,
}

/// The journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeChangeStatus {
    /// Version of the journal's format, for operators of another version. Now 1.
    #[serde(default)]
    pub journal_version: i32,
    /// `metadata.uid` of the NodeChange that this is the status of: numo does nothing to a node on the word of a status that was copied from
    /// another NodeChange. Absent where an earlier numo wrote it.
    #[serde(rename = "nodeChangeUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_change_uid: Option<String>,
    /// The generation of the directive that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The step the node is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// CamelCase reason of a step that ends or holds the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// When the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How often the node was tried, from 1. A new attempt runs its rules again.
    #[serde(default)]
    pub attempt: i32,
    /// Since when the turn is closed before its first disruption: it ends after a minute. Of a node without a
    /// turn: when its last one ended so, and it stands behind the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub closed_since: Option<String>,
    /// What the node was pinned to in this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
    /// The rules of the wave that the node was in when this attempt began, as `namespace/name`: it must pass them beside those of all
    /// nodes, whichever wave it is in by now. Absent where no wave has rules. (Plan, NodeVersion, NodeMaintenance)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    pub wave_rules: Option<Vec<String>>,
    /// The rules' verdicts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub verdicts: Vec<VerdictRecord>,
    /// Since when rules make the node wait: their timeouts count from then, whoever leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub rule_waits: Vec<RuleWait>,
    /// How often numo has put back of late what somebody took off the node in its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<PutBack>,
    /// The steps the node went through, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub entries: Vec<Entry>,
    /// The end of the last rule's log, without control characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub log_tail: Option<String>,
    /// Conditions, for tools that wait for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A rule that is evaluated and has not passed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWait {
    /// Namespace and name of the MutexRule.
    #[schemars(length(max = 317))]
    pub rule: String,
    /// The phase.
    pub phase: Phase,
    /// Attempt of the rule in this phase, as its verdict will have it.
    pub attempt: i32,
    /// The attempt of the node it belongs to.
    pub round: i32,
    /// UID of the rule. A rule that is edited (`generation`) or created again has its whole time.
    #[serde(rename = "ruleUID", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub rule_uid: String,
    /// Deprecated: `ruleUID` under its name before 0.1.0. It is written for an earlier numo that takes over in mid-run.
    #[serde(rename = "ruleUid", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub earlier_rule_uid: String,
    /// Generation of the rule that makes the node or run wait.
    pub generation: i64,
    /// When it was evaluated first.
    pub since: String,
}

impl RuleWait {
    /// UID of the rule, whichever version wrote it.
    pub fn rule_uid(&self) -> &str {
        match self.rule_uid.as_str() {
            "" => &self.earlier_rule_uid,
            uid => uid,
        }
    }
}

/// What somebody takes off a node that has its turn, as numo has put it back: shield, marks or lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PutBack {
    /// How often, since it was left alone for ten minutes.
    pub times: i32,
    /// When it was put back last.
    #[schemars(length(max = 64))]
    pub at: String,
}

/// What a node was pinned to when it was admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pin {
    /// Rendered MachineConfig of the home pool the node goes to.
    #[schemars(length(max = 253))]
    pub rendered_config: String,
    /// Rendered MachineConfig the node came from.
    #[schemars(length(max = 253))]
    pub from_config: String,
    /// Version the node came from.
    #[schemars(length(max = 128))]
    pub from_version: String,
    /// Boot of the node before its change, as `status.nodeInfo.bootID` has it. (Plan)
    #[serde(rename = "bootID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub boot_id: Option<String>,
    /// Deprecated: `bootID` under its name before 0.1.0. It is written for an earlier numo that takes over in mid-run. (Plan)
    #[serde(rename = "bootId", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub earlier_boot_id: Option<String>,
    /// The owner's generation that the node's Job was made from. (Plan)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// UID of the Job of the attempt before, which is deleted before this one goes on. (Plan)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub failed_job: Option<String>,
    /// The machine of the node that is replaced, as `spec.providerID` has it. (NodeVersion)
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub provider_id: Option<String>,
    /// Name of the node that takes its place. (NodeVersion)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub heir: Option<String>,
    /// Machine of a new node of the control plane. (NodeVersion)
    #[serde(rename = "heirProviderID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub heir_provider_id: Option<String>,
    /// Address of the member of etcd of that new node. (NodeVersion)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub heir_member: Option<String>,
    /// Address of the node's member of etcd, if it was one of the control plane: it is taken out also where the Node is gone before. (NodeVersion)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub member: Option<String>,
    /// What the owner's spec said then: edits hold for nodes that are admitted after them. A retry takes
    /// the spec as it is by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

impl Pin {
    /// Boot of the node before its change, whichever version wrote it.
    pub fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref().or(self.earlier_boot_id.as_deref())
    }
}

/// What an owner's spec said when a node was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// How the node is released.
    pub strategy: Strategy,
    /// The rules it must pass, in order, as `namespace/name`.
    #[serde(default)]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    pub rules: Vec<String>,
    /// How long it keeps its turn after its Post rules, in seconds.
    pub soak_seconds: i64,
    /// How long it may be away, in seconds.
    pub change_timeout_seconds: i64,
    /// Whether its evictions are tried by dry run before it is released.
    pub drain_probe: bool,
    /// Whether the workloads that leave it must be ready again.
    #[serde(default)]
    pub await_workloads: bool,
}

/// The steps of a node, in order; the last five end or hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; ARCHITECTURE.md has them"
)]
pub enum Step {
    Selected,
    Admitted,
    PreRules,
    Cordoned,
    Drained,
    PreRelease,
    Released,
    Changed,
    Ready,
    Uncordoned,
    PostRules,
    Soaked,
    Done,
    Held,
    Failed,
    Skipped,
}

impl Step {
    /// Whether the turn of the node is over: nothing more happens to it in this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Skipped)
    }

    /// The step's name as users see it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Selected => "Selected",
            Self::Admitted => "Admitted",
            Self::PreRules => "PreRules",
            Self::Cordoned => "Cordoned",
            Self::Drained => "Drained",
            Self::PreRelease => "PreRelease",
            Self::Released => "Released",
            Self::Changed => "Changed",
            Self::Ready => "Ready",
            Self::Uncordoned => "Uncordoned",
            Self::PostRules => "PostRules",
            Self::Soaked => "Soaked",
            Self::Done => "Done",
            Self::Held => "Held",
            Self::Failed => "Failed",
            Self::Skipped => "Skipped",
        }
    }
}

/// What a rule said in one attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerdictRecord {
    /// `namespace/name` of the rule.
    #[schemars(length(max = 317))]
    pub rule: String,
    /// The phase that it was evaluated in.
    pub phase: Phase,
    /// The number of the Job, from 1, over all attempts of the node.
    pub attempt: i32,
    /// The attempt of the node it belongs to.
    pub round: i32,
    /// Pass, Failure, or ContinuedAfterFailure.
    pub outcome: Outcome,
    /// What applies if it failed and no retry is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<FailurePolicy>,
    /// CamelCase reason.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The reason in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
    /// `namespace/name` of the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub job: Option<String>,
    /// Exit code of the Job's last failed or only container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What a component left for itself to read in later phases, JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16_384))]
    pub data: Option<String>,
    /// When the Job was created, or the component evaluated first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When the verdict was written.
    pub at: String,
    /// When the Job ended: the age of its Pass counts from then. Absent where that is when it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub ended_at: Option<String>,
    /// UID and generation of the rule that this is the verdict of, as `uid/generation`. A Pass of another edition of the
    /// rule releases no node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 96))]
    pub edition: Option<String>,
}

/// How a rule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Outcome {
    Pass,
    Failure,
    ContinuedAfterFailure,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// When.
    pub at: String,
    /// The step that began.
    pub step: Step,
    /// Attempt of the node, from 1.
    #[serde(default)]
    pub attempt: i32,
    /// Why, where it is not plain from the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}
