//! JoiningNode: with which Kubernetes components a node joins. The join service writes it before the Node is there.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// With which Kubernetes components a node joins.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "update.edgeless.systems",
    version = "v1alpha1",
    kind = "JoiningNode",
    plural = "joiningnodes",
    status = "JoiningNodeStatus",
    category = "numo",
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".spec.name","description":"The Node"}"#,
    printcolumn = r#"{"name":"Components","type":"string","jsonPath":".spec.componentsreference","description":"ConfigMap of its Kubernetes components"}"#,
    printcolumn = r#"{"name":"Control Plane","type":"boolean","jsonPath":".spec.iscontrolplane","description":"Whether it is one of the control plane"}"#,
    printcolumn = r#"{"name":"Deadline","type":"string","jsonPath":".spec.deadline","description":"Until when the Node is waited for"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "With which Kubernetes components a node joins: numo notes it on the Node once that is there, and deletes this object."
)]
pub struct JoiningNodeSpec {
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Name of the ConfigMap of its Kubernetes components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub componentsreference: Option<String>,
    /// Whether the node is one of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iscontrolplane: Option<bool>,
    /// Until when the Node is waited for; after it this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub deadline: Option<String>,
}

/// Nothing is said of a JoiningNode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoiningNodeStatus {}
