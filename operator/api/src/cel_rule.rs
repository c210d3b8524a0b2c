//! `spec.cel` of a MutexRule: expressions over the node, its pool, and objects that the rule names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Expressions that must all be true. They see `node` (the Node), `pool` (its MachineConfigPool, or null), `objects`
/// (by the names below), `variables`, `config`, `run` (name, namespace, id), `phase`, `attempt`, `versions` (from, to),
/// `history` (what the rule said before, the newest first) and `now`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CelRule {
    /// Values that later expressions name `variables.<name>`, each computed once, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub variables: Option<Vec<CelVariable>>,
    /// What must hold. One that says Block and is false counts before those that say Wait.
    #[schemars(length(min = 1, max = 32))]
    pub validations: Vec<CelValidation>,
    /// Objects that the expressions read, as far as the ServiceAccount and numo may read them. Naming them here is the
    /// grant: nothing else is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub objects: Option<Vec<CelObjects>>,
    /// A value that is kept in the journal with the verdict; later evaluations find it as `history[i].data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub data_expression: Option<String>,
    /// What the expressions see as `config`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub config: Option<serde_json::Value>,
    /// ServiceAccount in the namespace of the rule; the expressions read no more of the cluster than it may.
    /// Default: default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"))]
    pub service_account_name: Option<String>,
    /// Seconds that one evaluation may take. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 60))]
    pub evaluation_seconds: Option<i32>,
}

/// A named value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CelVariable {
    /// As it is named behind `variables.`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// CEL, as Kubernetes has it.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
}

/// One thing that must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CelValidation {
    /// CEL, as Kubernetes has it; its value is a bool. What fails while it is evaluated is neither true nor false: the
    /// node waits.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
    /// What is said when it is false. Default: the expression itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
    /// CEL whose value, a string, is said instead of `message`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message_expression: Option<String>,
    /// CamelCase reason when it is false. Default: ExpressionNotMet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = "^([A-Z][A-Za-z0-9]*)?$"))]
    pub reason: Option<String>,
    /// What follows when it is false: Wait and be evaluated again, or Block, which fails the attempt. Default: Wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Unmet>,
    /// Seconds after which it is evaluated again. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 3600))]
    pub retry_after_seconds: Option<i32>,
}

/// What follows when something is not as it is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Unmet {
    #[default]
    Wait,
    Block,
}

/// Objects of one kind, read before each evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CelObjects {
    /// As they are named behind `objects.`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Such as v1 or policy/v1.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Such as PodDisruptionBudget. Secrets are read only where numo runs with --rules-read-secrets.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Only in this namespace. Default: in all, and objects without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Only this one: `objects.<name>` is the object then, or null if it does not exist. Default: a list of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub object_name: Option<String>,
    /// As for kubectl --selector. In both selectors `${node}`, `${pool}`, `${fromVersion}`, `${toVersion}` and `${run}`
    /// are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub label_selector: Option<String>,
    /// As for kubectl --field-selector, such as spec.nodeName=${node}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub field_selector: Option<String>,
}
