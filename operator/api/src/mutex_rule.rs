//! MutexRule: one operation that must pass before, or run after, a node changes.

use crate::{
    cel_rule::CelRule,
    conditions::Condition,
    prometheus_rule::PrometheusRule,
    wasm_rule::{WasmRule, WasmStatus},
};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A single rule: a template for a Kubernetes Job that is run for every node, or a component, expressions or a query
/// that are evaluated for every node. A MutexRule modifies nothing by itself; a MutexRunConfig refers to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexRule",
    plural = "mutexrules",
    namespaced,
    status = "MutexRuleStatus",
    shortname = "mr",
    category = "numo",
    printcolumn = r#"{"name":"Job Name","type":"string","jsonPath":".spec.jobName","priority":1,"description":"Prefix of the names of the Jobs"}"#,
    printcolumn = r#"{"name":"Job Namespace","type":"string","jsonPath":".spec.jobNamespace","priority":1,"description":"Namespace the Jobs run in"}"#,
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".status.type","description":"Kind of the rule"}"#,
    printcolumn = r#"{"name":"Phases","type":"string","jsonPath":".status.phasesSummary","description":"When it is evaluated"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether the rule can be evaluated"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"Why it is Ready or not"}"#,
    printcolumn = r#"{"name":"Valid","type":"string","jsonPath":".status.conditions[?(@.type=='ValidConfig')].status","priority":1,"description":"Whether the API server accepts the Job"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "A single rule: a template for a Kubernetes Job that is run for every node, or a component, expressions or a query that are evaluated for every node. A MutexRule modifies nothing by itself; a MutexRunConfig refers to it."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexRuleSpec {
    /// Prefix of the names of the Jobs. Default: the name of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub job_name: Option<String>,
    /// Namespace the Jobs run in. Default: the namespace of the rule. numo needs the right to create them there, by a
    /// RoleBinding to the ClusterRole `numo-rule-jobs`; it does not create RBAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub job_namespace: Option<String>,
    /// A `batch/v1` JobSpec that runs in `phases` (by default before the node changes). It is kept as
    /// given and judged by the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub job_spec: Option<serde_json::Value>,
    /// A `batch/v1` JobSpec that runs after the node has changed and is ready again (phase Post).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub clean_up_job_spec: Option<serde_json::Value>,
    /// Kind of the rule: kubernetes runs Jobs, wasm evaluates a component, cel evaluates expressions, prometheus compares
    /// the answer to a query. Default: kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub rule_type: Option<RuleType>,
    /// The component, for a rule of type wasm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmRule>,
    /// The expressions, for a rule of type cel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelRule>,
    /// The query, for a rule of type prometheus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusRule>,
    /// How long one attempt may take, in seconds; for an evaluated rule (wasm, cel, prometheus), how long it may
    /// make a node wait.
    /// Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: Option<i64>,
    /// How old a Pass of this rule may be when a node is released on it, in seconds. With an older one it is
    /// evaluated again. Default: 600 for a Job, counted from its end, and 60 for an evaluated rule (wasm, cel, prometheus).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 604_800))]
    pub pass_seconds: Option<i64>,
    /// How often a failed attempt is tried again before `failurePolicy` applies. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<i32>,
    /// What a failed rule does: Hold the node until a person decides (default), Abort the run (no new
    /// nodes), Skip this node, or Continue (only in phases after the release).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The phases in which `jobSpec` runs, or the rule is evaluated. Default: Pre. `cleanUpJobSpec` always runs
    /// in Post. Admit is for evaluated rules: a node that has to wait there lets the next one have its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub phases: Option<Vec<Phase>>,
    /// Where the pods of the Job may run relative to the node that is to change. Default: NotOnTarget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// How many bytes of the log's end are kept in the journal. 0 keeps none. Default: 2048.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2048))]
    pub log_tail_bytes: Option<i32>,
}

/// A rule that stands in the object that it gates, instead of in a MutexRule of its own. Its Jobs and questions are those of a MutexRule
/// in the namespace of that object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = without_component)]
pub struct InlineRule {
    /// Name of the rule, once in the object.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The rule.
    #[serde(flatten)]
    pub rule: MutexRuleSpec,
}

/// A component has a MutexRule of its own: the digest that was resolved and the highest version that was seen are kept in its status.
fn without_component(schema: &mut schemars::Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(|all| all.as_object_mut()) else {
        return;
    };
    properties.remove("wasm");
}

/// What numo found out about a rule that stands in the object that it gates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineRuleStatus {
    /// Name of the rule.
    #[schemars(length(max = 63))]
    pub name: String,
    /// What tells this edition of the rule from any other.
    #[schemars(length(max = 320))]
    pub edition: String,
    /// Whether the rule can be evaluated.
    pub ready: bool,
    /// Why it is not ready, in CamelCase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
    /// Why it is not ready, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

/// What numo found out about a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexRuleStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `ValidConfig`, for type wasm also `Fetched` and `Compiled`, and `Ready`/`Stalled` for tools that know
    /// kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Kind of the rule, with its default.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    pub rule_type: Option<RuleType>,
    /// When the rule is evaluated, with defaults: a clean-up Job runs in Post.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub phases: Vec<Phase>,
    /// The names of the phases, for people: a column of `kubectl get` shows a list as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub phases_summary: Option<String>,
    /// What the component of a rule of type wasm is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmStatus>,
}

/// Kind of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RuleType {
    #[default]
    #[allow(
        missing_docs,
        reason = "a doc comment would turn the schema's enum into a oneOf"
    )]
    Kubernetes,
    #[allow(
        missing_docs,
        reason = "a doc comment would turn the schema's enum into a oneOf"
    )]
    Wasm,
    #[allow(
        missing_docs,
        reason = "a doc comment would turn the schema's enum into a oneOf"
    )]
    Cel,
    #[allow(
        missing_docs,
        reason = "a doc comment would turn the schema's enum into a oneOf"
    )]
    Prometheus,
}

/// What a failed rule does to its node or run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum FailurePolicy {
    #[default]
    Hold,
    Abort,
    Skip,
    Continue,
}

/// When a rule is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Phase {
    PreRun,
    Admit,
    Pre,
    PreRelease,
    BeforeUncordon,
    Post,
    OnFailure,
    PostRun,
}

impl Phase {
    /// Every phase, in the order of a run.
    pub const ALL: [Self; 8] = [
        Self::PreRun,
        Self::Admit,
        Self::Pre,
        Self::PreRelease,
        Self::BeforeUncordon,
        Self::Post,
        Self::OnFailure,
        Self::PostRun,
    ];

    /// The phase's name as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreRun => "PreRun",
            Self::Admit => "Admit",
            Self::Pre => "Pre",
            Self::PreRelease => "PreRelease",
            Self::BeforeUncordon => "BeforeUncordon",
            Self::Post => "Post",
            Self::OnFailure => "OnFailure",
            Self::PostRun => "PostRun",
        }
    }

    /// Whether the node has been released by the time this phase runs; only then may a failure be
    /// passed over with `failurePolicy: Continue`.
    pub const fn is_after_release(self) -> bool {
        matches!(
            self,
            Self::BeforeUncordon | Self::Post | Self::OnFailure | Self::PostRun
        )
    }
}

/// Where a rule's pods may run relative to the node that is to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Placement {
    #[default]
    NotOnTarget,
    OnTarget,
    Anywhere,
}
