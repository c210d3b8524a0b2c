//! MutexBudget: how many nodes of a set may be unavailable, whoever made them so.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many nodes of a set may be unavailable at once, over all owners. A node counts once if it is
/// not Ready, is unschedulable, or has its turn.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexBudget",
    plural = "mutexbudgets",
    status = "MutexBudgetStatus",
    shortname = "mbud",
    category = "numo",
    printcolumn = r#"{"name":"Max Unavailable","type":"string","jsonPath":".spec.maxUnavailable","description":"Allowed unavailable nodes"}"#,
    printcolumn = r#"{"name":"Allowed","type":"integer","jsonPath":".status.allowed","description":"How many nodes may be unavailable now"}"#,
    printcolumn = r#"{"name":"In Use","type":"integer","jsonPath":".status.inUse","description":"How many nodes are unavailable"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether the spec can be understood"}"#,
    printcolumn = r#"{"name":"Group By","type":"string","jsonPath":".spec.groupBy","priority":1,"description":"Label that splits the set"}"#,
    printcolumn = r#"{"name":"Max Groups","type":"integer","jsonPath":".spec.maxGroups","priority":1,"description":"Of how many values of it nodes may be unavailable"}"#,
    printcolumn = r#"{"name":"Paused","type":"boolean","jsonPath":".spec.paused","description":"Whether everything stops"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "How many nodes of a set may be unavailable at once, over all owners. A node counts once if it is not Ready, is unschedulable, or has its turn."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexBudgetSpec {
    /// The nodes that it selects. Required; `{}` selects all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// How many may be unavailable: a number or a percentage, rounded down, at least 1. 0 (or `0%`) lets no node begin, until
    /// whoever owns the object raises it. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Label key: the limit holds for each value of it. Nodes without the label form one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub group_by: Option<String>,
    /// How many values of `groupBy` may have unavailable nodes at once, over all owners. With 1 and zones: never nodes of two
    /// zones at once. Nodes that are not Ready or cordoned count too, and a node without the label does not begin. Default: no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub max_groups: Option<i32>,
    /// Stop: no admission, cordon, eviction or release begins on these nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What numo found out about a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexBudgetStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many nodes may be unavailable now, over all groups, or over as many groups as `spec.maxGroups` allows; absent if the
    /// spec cannot be understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<i64>,
    /// How many nodes that it selects are unavailable now, over all groups and whoever made them so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_use: Option<i64>,
    /// Number of groups (values of `spec.groupBy`) of which nodes are unavailable now; only with `spec.maxGroups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_in_use: Option<i64>,
    /// `Ready`: whether the spec can be understood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<crate::conditions::Condition>,
}
