//! ScalingGroup: a group of like machines at the provider, and the image that new ones of it get.

use crate::conditions::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group of like machines at the provider.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "update.edgeless.systems",
    version = "v1alpha1",
    kind = "ScalingGroup",
    plural = "scalinggroups",
    status = "ScalingGroupStatus",
    category = "numo",
    printcolumn = r#"{"name":"Group","type":"string","jsonPath":".spec.nodeGroupName","description":"The group, as people name it"}"#,
    printcolumn = r#"{"name":"Role","type":"string","jsonPath":".spec.role","description":"What its machines are"}"#,
    printcolumn = r#"{"name":"Node Version","type":"string","jsonPath":".spec.nodeImage","description":"NodeVersion whose image new machines get"}"#,
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".status.imageReference","description":"Image that new machines get now"}"#,
    printcolumn = r#"{"name":"Outdated","type":"string","jsonPath":".status.conditions[?(@.type=='Outdated')].status","description":"Whether that is another one than the NodeVersion's"}"#,
    printcolumn = r#"{"name":"Group ID","type":"string","jsonPath":".spec.groupId","priority":1,"description":"The group, as the provider names it"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "A group of like machines at the provider: new ones get the image of its NodeVersion."
)]
#[serde(rename_all = "camelCase")]
pub struct ScalingGroupSpec {
    /// Name of the NodeVersion whose image new machines of the group get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_image: Option<String>,
    /// The group, as the provider names it. Compared without regard to case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub group_id: Option<String>,
    /// The group, as the cluster autoscaler names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub autoscaler_group_name: Option<String>,
    /// The group, as people name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_group_name: Option<String>,
    /// Whether the cluster autoscaler may change the size of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<bool>,
    /// Fewest machines that the cluster autoscaler leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i32>,
    /// Most machines that the cluster autoscaler makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i32>,
    /// What the machines of the group are: Worker or ControlPlane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRole>,
}

/// What the machines of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum NodeRole {
    Worker,
    ControlPlane,
}

/// What is known of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingGroupStatus {
    /// The image that new machines of the group get now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub image_reference: Option<String>,
    /// `Outdated`: whether new machines of the group would get another image than that of the NodeVersion.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
