//! PendingNode: a machine that is to join the cluster, or to be deleted at the provider. It stands before the machine is made, and until
//! it is gone: a machine that nobody knows of is never left behind.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine that is to join the cluster, or to go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "update.edgeless.systems",
    version = "v1alpha1",
    kind = "PendingNode",
    plural = "pendingnodes",
    status = "PendingNodeStatus",
    category = "numo",
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".spec.nodeName","description":"The Node, once the machine has a name"}"#,
    printcolumn = r#"{"name":"Goal","type":"string","jsonPath":".spec.goal","description":"Join or Leave"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.cspState","description":"State of the machine at the provider"}"#,
    printcolumn = r#"{"name":"Deadline","type":"string","jsonPath":".spec.deadline","description":"Until when the goal is to be reached"}"#,
    printcolumn = r#"{"name":"Machine","type":"string","jsonPath":".spec.providerID","priority":1,"description":"The machine, as the provider names it"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "A machine that is to join the cluster, or to be deleted at the provider. numo makes and deletes these itself."
)]
#[serde(rename_all = "camelCase")]
pub struct PendingNodeSpec {
    /// The machine, as `spec.providerID` of its Node has it; empty until the provider has named it.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub provider_id: Option<String>,
    /// The group of the machine, as the provider names it.
    #[serde(rename = "groupID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub group_id: Option<String>,
    /// Name of the Node; empty until the provider has named the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,
    /// Join: the Node is waited for. Leave: the machine is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Until when the goal is to be reached. A machine that has not joined by then is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub deadline: Option<String>,
}

/// What is to become of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Goal {
    Join,
    Leave,
}

/// The state of a machine, as its provider tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum CspState {
    #[default]
    Unknown,
    Creating,
    Ready,
    Stopped,
    Terminating,
    Terminated,
    Failed,
}

impl CspState {
    /// As the status has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Creating => "Creating",
            Self::Ready => "Ready",
            Self::Stopped => "Stopped",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
            Self::Failed => "Failed",
        }
    }
}

/// How a machine comes along.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingNodeStatus {
    /// State of the machine at the provider: Unknown, Creating, Ready, Stopped, Terminating, Terminated or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csp_state: Option<CspState>,
    /// Whether the goal is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_goal: Option<bool>,
}
