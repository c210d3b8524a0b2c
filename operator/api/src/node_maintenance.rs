//! NodeMaintenance: keeps one node cordoned and drained for as long as it exists. Two groups serve it, the older one
//! (`nodemaintenance.kubevirt.io`) with the very same fields; no conversion between them exists.
//!
//! Names of fields, also those of the status, are those of node-maintenance-operator
//! (`spec/node-maintenance.md` §1), `totalpods` in lower case included.

use crate::{conditions::Condition, drain::DrainSettings, object_ref::ObjectRef};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Group of the newer kind.
pub const MEDIK8S_GROUP: &str = "nodemaintenance.medik8s.io";
/// Group of the older kind.
pub const KUBEVIRT_GROUP: &str = "nodemaintenance.kubevirt.io";
/// The one version that both groups serve.
pub const MAINTENANCE_VERSION: &str = "v1beta1";

/// Keeps a node cordoned and drained for as long as it exists.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "nodemaintenance.medik8s.io",
    version = "v1beta1",
    kind = "NodeMaintenance",
    plural = "nodemaintenances",
    shortname = "nm",
    status = "NodeMaintenanceStatus",
    category = "numo",
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".spec.nodeName","description":"The node"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase","description":"Running, Succeeded or Failed"}"#,
    printcolumn = r#"{"name":"Drained %","type":"integer","jsonPath":".status.drainProgress","description":"Percent of the pods that are gone"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"What it waits for"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].message","priority":1,"description":"What it waits for, in a sentence"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Keeps a node cordoned and drained for as long as it exists: created, the node is cordoned and its pods are evicted; deleted, the node is put back as it was."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceSpec {
    /// Name of the node. It cannot be changed.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub node_name: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// MutexRules that the node must pass, in order: those of phase Pre before it is cordoned, BeforeUncordon before it
    /// is put back, Post after that. Their namespace is the operator's if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub mutex_rules: Option<Vec<ObjectRef>>,
    /// How the node is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSettings>,
}

/// What became of a maintenance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMaintenanceStatus {
    /// Running, Succeeded or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What keeps it from going on, in a sentence; empty once nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Names of the pods that are yet to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_pods: Option<Vec<String>>,
    /// Names and namespaces of the pods that are yet to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_pods_refs: Option<Vec<PodRef>>,
    /// How many pods were on the node at the start.
    #[serde(rename = "totalpods", default, skip_serializing_if = "Option::is_none")]
    pub total_pods: Option<i64>,
    /// How many pods of the node were to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_pods: Option<i64>,
    /// Percent of the pods of `evictionPods` that are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_progress: Option<i64>,
    /// How often in a row the node's lease could not be renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_on_lease_count: Option<i64>,
    /// When this status was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_update: Option<String>,
    /// node-maintenance-operator had drained the node for this object when numo saw it first: nobody is asked for that again, until the
    /// node is put back. Absent: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<bool>,
    /// What waits for a MutexApproval; absent while nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<crate::approval::ApprovalStatus>,
    /// Ready, and Reconciling or Stalled while true: what it waits for and who can end it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A pod by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodRef {
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

/// The CRDs of both groups.
pub fn crds() -> [CustomResourceDefinition; 2] {
    let newer = with_requirements(NodeMaintenance::crd());
    let mut older = newer.clone();
    older.metadata.name = Some(format!("{}.{KUBEVIRT_GROUP}", older.spec.names.plural));
    KUBEVIRT_GROUP.clone_into(&mut older.spec.group);
    // Two kinds of one short name are told apart by nobody.
    older.spec.names.short_names = None;
    [newer, older]
}

/// `nodeName` is required, as the reference's schema has it. Its `spec` itself is not required.
fn with_requirements(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let Some(schema) = schema else { continue };
        schema.required = None;
        let spec = schema
            .properties
            .as_mut()
            .and_then(|properties| properties.get_mut("spec"));
        if let Some(spec) = spec {
            spec.required = Some(vec!["nodeName".to_owned()]);
            // One would be filled in where the name is missing, which is to be refused.
            let name = spec
                .properties
                .as_mut()
                .and_then(|fields| fields.get_mut("nodeName"));
            if let Some(name) = name {
                name.default = None;
            }
        }
    }
    crd
}
