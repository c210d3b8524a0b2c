//! NodeVersion: the image and the Kubernetes components that every node of the cluster is to have. Nodes that have others are replaced.

use crate::{conditions::Condition, drain::DrainSettings, mutex_settings::MutexSettings};
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::util::intstr::IntOrString};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The image and the Kubernetes components that nodes are to have.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "update.edgeless.systems",
    version = "v1alpha1",
    kind = "NodeVersion",
    plural = "nodeversions",
    status = "NodeVersionStatus",
    category = "numo",
    printcolumn = r#"{"name":"Image","type":"string","jsonPath":".spec.image","description":"Image that nodes are to have"}"#,
    printcolumn = r#"{"name":"Complete","type":"string","jsonPath":".status.conditions[?(@.type=='Complete')].status","description":"Whether no node is left to change"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"What it is doing"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].message","priority":1,"description":"The same in a sentence"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "The image and the Kubernetes components that nodes are to have: a node with others is replaced by a new machine."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersionSpec {
    /// The image, as the provider of the machines names it. Compared without regard to case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub image: Option<String>,
    /// Version of the image, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub image_version: Option<String>,
    /// Name of the ConfigMap in `kube-system` that has the Kubernetes components of nodes. Without one the components of nodes are not
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kubernetes_components_reference: Option<String>,
    /// Version of Kubernetes that the control plane is to have. numo replaces nodes and leaves the version of the control plane alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub kubernetes_cluster_version: Option<String>,
    /// How many machines there may be beyond those that are replaced: a number, or a percentage of the nodes, rounded down, at least 1.
    /// 0 (or `0%`) makes no new machine. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub surge: Option<IntOrString>,
    /// How long a new machine has to join, in seconds; after it the machine is deleted. Default: 1800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 604_800))]
    pub join_timeout_seconds: Option<i64>,
    /// How often a machine that did not join is made again for one node. After that the old node stays and is held. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub join_retries: Option<i32>,
    /// Annotations of the old node that the new one gets, by key, or by prefix with a trailing `*`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 317)))]
    pub copied_annotations: Option<Vec<String>>,
    /// Whether the new node gets the taints of the old one, but for those of Kubernetes and of numo. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_taints: Option<bool>,
    /// The rules, limits and hours of the nodes that are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutex: Option<MutexSettings>,
    /// How the old nodes are drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSettings>,
}

/// Which nodes are where on the way to the version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersionStatus {
    /// Nodes with another image or other components that no new node takes the place of yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub outdated: Option<Vec<ObjectReference>>,
    /// Nodes that are as they are to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub up_to_date: Option<Vec<ObjectReference>>,
    /// Nodes whose place is taken by a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub donors: Option<Vec<ObjectReference>>,
    /// New nodes that take the place of an old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub heirs: Option<Vec<ObjectReference>>,
    /// New nodes that take the place of no old one yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub mints: Option<Vec<ObjectReference>>,
    /// Nodes whose image or components are not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub awaiting_annotation: Option<Vec<ObjectReference>>,
    /// PendingNodes: machines that are to join or to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub pending: Option<Vec<ObjectReference>>,
    /// Nodes that are to go, and whose place nothing takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub obsolete: Option<Vec<ObjectReference>>,
    /// Nodes of which the provider knows no machine, or cannot say its image or group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20_000))]
    pub invalid: Option<Vec<ObjectReference>>,
    /// How many machines may be made now.
    #[serde(default)]
    pub budget: i32,
    /// Whether the version of the control plane is being changed. numo does not: always false.
    #[serde(rename = "activeclusterversionupgrade", default)]
    pub active_cluster_version_upgrade: bool,
    /// What waits for a MutexApproval; absent while nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<crate::approval::ApprovalStatus>,
    /// `Outdated`, `Complete` once no node is left to change, and Ready, Reconciling or Stalled while true.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
