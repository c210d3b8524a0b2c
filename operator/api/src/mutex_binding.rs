//! MutexBinding: how kinds that are not numo's own are gated.

use crate::{drain::DrainSettings, mutex_settings::MutexSettings};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Puts rules and limits on owners of kinds that other projects defined (Plan, NodeMaintenance and
/// others). A field of ours on their CRDs could be pruned; a binding cannot.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexBinding",
    plural = "mutexbindings",
    category = "numo",
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.ownerSelector.kind","description":"Kind of the owners"}"#,
    printcolumn = r#"{"name":"Rules","type":"string","jsonPath":".spec.rules[*].name","description":"The rules"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Puts rules and limits on owners of kinds that other projects defined (Plan, NodeMaintenance and others). A field of ours on their CRDs could be pruned; a binding cannot."
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
    /// Kind of the owners, for example `Plan`.
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespaces of the owners; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// Labels of the owners; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelSelector>,
}
