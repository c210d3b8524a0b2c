//! AutoscalingStrategy: the Deployment of the cluster autoscaler, and whether it may run now.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Deployment of the cluster autoscaler.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "update.edgeless.systems",
    version = "v1alpha1",
    kind = "AutoscalingStrategy",
    plural = "autoscalingstrategies",
    status = "AutoscalingStrategyStatus",
    category = "numo",
    printcolumn = r#"{"name":"Namespace","type":"string","jsonPath":".spec.deploymentNamespace","description":"Namespace of the cluster autoscaler"}"#,
    printcolumn = r#"{"name":"Deployment","type":"string","jsonPath":".spec.deploymentName","description":"Its Deployment"}"#,
    printcolumn = r#"{"name":"Enabled","type":"boolean","jsonPath":".spec.enabled","description":"Whether it is to run"}"#,
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".status.replicas","description":"How many of it there are"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "The Deployment of the cluster autoscaler, which rests while nodes are replaced."
)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalingStrategySpec {
    /// Whether the cluster autoscaler is to run. numo sets it: false while nodes are replaced.
    pub enabled: bool,
    /// Name of its Deployment.
    #[schemars(length(max = 253))]
    pub deployment_name: String,
    /// Namespace of its Deployment.
    #[schemars(length(max = 63))]
    pub deployment_namespace: String,
    /// Further flags of the cluster autoscaler, by name without the dashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler_extra_args: Option<BTreeMap<String, String>>,
}

/// How the cluster autoscaler stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalingStrategyStatus {
    /// Whether it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Replicas of its Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}
