//! MutexBinding: how kinds that are not numo's own are gated.

use crate::{
    drain::DrainSettings,
    machines::UPDATE_GROUP,
    mutex_settings::MutexSettings,
    node_maintenance::{KUBEVIRT_GROUP, MEDIK8S_GROUP},
    plan::PLAN_GROUP,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gates Plans, NodeMaintenances and NodeVersions whose manifests know nothing of numo. `spec.mutex` of a Plan does the same, but is lost
/// where another operator's definition is installed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexBinding",
    plural = "mutexbindings",
    status = "MutexBindingStatus",
    shortname = "mbind",
    category = "numo",
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.ownerSelector.kind","description":"Kind of the owners"}"#,
    printcolumn = r#"{"name":"Rules","type":"string","jsonPath":".status.rules","description":"The rules"}"#,
    printcolumn = r#"{"name":"Matched","type":"integer","jsonPath":".status.ownersMatched","description":"How many owners the binding gates"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether the binding gates what it selects"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"Why it is Ready or not"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Gates Plans, NodeMaintenances and NodeVersions whose manifests know nothing of numo. `spec.mutex` of a Plan does the same, but is lost where another operator's definition is installed."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexBindingSpec {
    /// The owners it speaks of.
    pub owner_selector: OwnerSelector,
    /// Rules, limits and order.
    #[serde(flatten)]
    pub settings: MutexSettings,
    /// Drain settings for owners that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSettings>,
}

/// Selects owners.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerSelector {
    /// API group of the owners: `upgrade.cattle.io` for Plan, `nodemaintenance.medik8s.io` or `nodemaintenance.kubevirt.io` for
    /// NodeMaintenance, `update.edgeless.systems` for NodeVersion. Default: every group of the kind. Given, the binding gates the owners
    /// of that group only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub api_group: Option<String>,
    /// Kind of the owners: `Plan`, `NodeMaintenance` or `NodeVersion`. A MutexRunConfig names its rules itself.
    #[schemars(length(max = 63), extend("enum" = GATED_KINDS))]
    pub kind: String,
    /// Namespaces of the owners; absent means all. A NodeMaintenance or a NodeVersion is in no namespace: the field cannot be set for
    /// these two kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Labels of the owners; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelSelector>,
}

/// What numo found out about a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexBindingStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The names of its rules, for people: a column of `kubectl get` shows the first element of a list only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// How many owners the binding gates now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners_matched: Option<i64>,
    /// `Ready`: whether the binding can be understood and its rules exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<crate::conditions::Condition>,
}

/// Kinds of owners that a MutexBinding can gate.
pub const GATED_KINDS: [&str; 3] = ["Plan", "NodeMaintenance", "NodeVersion"];

/// The API groups that have such a kind; none of another kind.
pub fn groups_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "Plan" => &[PLAN_GROUP],
        "NodeMaintenance" => &[MEDIK8S_GROUP, KUBEVIRT_GROUP],
        "NodeVersion" => &[UPDATE_GROUP],
        _ => &[],
    }
}
