//! The OpenShift kinds and keys the world reads and writes, as thin types.
//!
//! Only what node updates need. Writes are patches of single fields, so a field that is missing
//! here is never lost.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube::{CustomResource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Annotation: the rendered config a node runs.
pub const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// Annotation: the rendered config a node shall run.
pub const DESIRED_CONFIG: &str = "machineconfiguration.openshift.io/desiredConfig";
/// Annotation: Working, Done, Degraded or Unreconcilable.
pub const STATE: &str = "machineconfiguration.openshift.io/state";
/// Annotation: why the state is Degraded or Unreconcilable.
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
/// Annotation: `drain-<config>` or `uncordon-<config>`, asked by the daemon.
pub const DESIRED_DRAIN: &str = "machineconfiguration.openshift.io/desiredDrain";
/// Annotation: the last `desiredDrain` that the drain controller finished.
pub const LAST_APPLIED_DRAIN: &str = "machineconfiguration.openshift.io/lastAppliedDrain";
/// Annotation: `Rebooting`, or empty.
pub const POST_CONFIG_ACTION: &str = "machineconfiguration.openshift.io/post-config-action";
/// Annotation of a MachineConfig: the OpenShift version it was rendered by.
pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// Annotation of a MachineConfig: the MCO build it was rendered by.
pub const GENERATED_BY: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// Annotation: the rendered config the node first booted into.
pub const FIRST_PIVOT_CONFIG: &str = "machineconfiguration.openshift.io/firstPivotConfig";
/// Annotation: the MCO gave the node the labels of the pool it first booted into.
pub const CUSTOM_POOL_LABELS_APPLIED: &str = "machineconfiguration.openshift.io/customPoolLabelsApplied";
/// Label of a MachineConfig: the role it is for.
pub const ROLE: &str = "machineconfiguration.openshift.io/role";
/// Prefix of the MCO's annotations.
pub const MCO_PREFIX: &str = "machineconfiguration.openshift.io/";
/// Taint of nodes that are not at their pool's config.
pub const UPDATE_IN_PROGRESS: &str = "UpdateInProgress";
/// Label of worker nodes.
pub const WORKER: &str = "node-role.kubernetes.io/worker";
/// Label of control-plane nodes, by which the pool `master` selects.
pub const MASTER: &str = "node-role.kubernetes.io/master";
/// Label of the arbiter, by which the pool `arbiter` selects.
pub const ARBITER: &str = "node-role.kubernetes.io/arbiter";
/// Label of the pools that the cluster-version operator waits for.
pub const REQUIRED_FOR_UPGRADE: &str = "operator.machineconfiguration.openshift.io/required-for-upgrade";
/// Label: operating system of a node.
pub const OS: &str = "kubernetes.io/os";
/// Label: remediation leaves the node alone while it is `true`.
pub const EXCLUDE_FROM_REMEDIATION: &str = "remediation.medik8s.io/exclude-from-remediation";
/// Annotation: the autoscaler leaves the node alone while it is `true`.
pub const SCALE_DOWN_DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// Taint of nodes that the autoscaler is about to delete.
pub const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Label: zone of a node.
pub const ZONE: &str = "topology.kubernetes.io/zone";

/// Writer of spec.configuration, desiredConfig, taints, pool status and cordons.
pub const MACHINE_CONFIG_CONTROLLER: &str = "machine-config-controller";
/// Writer of a node's state, desiredDrain and currentConfig.
pub const MACHINE_CONFIG_DAEMON: &str = "machine-config-daemon";
/// Writer of the built-in pools and of the ClusterOperator.
pub const MACHINE_CONFIG_OPERATOR: &str = "machine-config-operator";
/// Writer of the ClusterVersion's status.
pub const CLUSTER_VERSION_OPERATOR: &str = "cluster-version-operator";
/// Writer of Nodes' and Pods' status.
pub const KUBELET: &str = "kubelet";
/// Writer of what is in git.
pub const GITOPS: &str = "argocd-controller";
/// Writer of the taint [`TO_BE_DELETED`].
pub const AUTOSCALER: &str = "cluster-autoscaler";
/// Writer of what a person asks for.
pub const CLUSTER_ADMIN: &str = "kubectl-edit";

/// Which nodes are kept at which configuration.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    status = "MachineConfigPoolStatus",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolSpec {
    /// The rendered config the pool's nodes shall run.
    pub configuration: Configuration,
    /// Which MachineConfigs are rendered.
    pub machine_config_selector: Option<LabelSelector>,
    /// Which nodes belong.
    pub node_selector: Option<LabelSelector>,
    /// No new node is told to update.
    pub paused: bool,
    /// How many nodes may be unavailable.
    pub max_unavailable: Option<IntOrString>,
}

/// A rendered config and what it was made of.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct Configuration {
    /// Name of the rendered MachineConfig.
    pub name: String,
    /// References of its sources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<Value>,
}

/// Counts and conditions of a pool.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolStatus {
    /// The generation this status is about.
    pub observed_generation: i64,
    /// The last config that all nodes were at.
    pub configuration: Configuration,
    /// Nodes whose primary pool this is.
    pub machine_count: i32,
    /// Nodes at spec.configuration.
    pub updated_machine_count: i32,
    /// Nodes at spec.configuration that are ready.
    pub ready_machine_count: i32,
    /// Nodes not ready, unschedulable, or at work.
    pub unavailable_machine_count: i32,
    /// Nodes that are Degraded or Unreconcilable.
    pub degraded_machine_count: i32,
    /// Updated, Updating, Degraded, NodeDegraded, RenderDegraded.
    pub conditions: Vec<Condition>,
}

/// A condition of an OpenShift object.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Its name.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
    /// When the status last flipped.
    pub last_transition_time: Option<Timestamp>,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What a node is made of: a role's part, or a pool's rendered whole.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    plural = "machineconfigs",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigSpec {
    /// Image of the operating system.
    #[serde(rename = "osImageURL")]
    pub os_image_url: String,
    /// Ignition config, opaque to the API.
    pub config: Value,
    /// Arguments of the kernel.
    pub kernel_arguments: Vec<String>,
    /// `default` or `realtime`.
    pub kernel_type: String,
    /// Extensions of the operating system.
    pub extensions: Vec<String>,
}

/// A pool whose nodes run an image built on the cluster ("layered").
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineOSConfig",
    plural = "machineosconfigs",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineOSConfigSpec {
    /// Which pool.
    pub machine_config_pool: PoolReference,
}

/// A pool by its name.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct PoolReference {
    /// Name of the pool.
    pub name: String,
}

/// The version of the cluster, wanted and had.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    plural = "clusterversions",
    status = "ClusterVersionStatus",
    schema = "disabled",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterVersionSpec {
    /// Uuid of the cluster.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Where updates are offered from.
    pub channel: Option<String>,
    /// What the cluster administrator asks for.
    pub desired_update: Option<Update>,
}

/// A version asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct Update {
    /// May be absent when an image is given.
    pub version: Option<String>,
    /// Image of the release.
    pub image: Option<String>,
}

/// What the cluster-version operator says.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterVersionStatus {
    /// The version being or been brought in.
    pub desired: Update,
    /// The generation this status is about.
    pub observed_generation: i64,
    /// Newest first.
    pub history: Vec<UpdateHistory>,
    /// Available, Progressing, Failing, ReleaseAccepted, Upgradeable.
    pub conditions: Vec<Condition>,
    /// Hash of the manifests.
    pub version_hash: String,
    /// Required, nullable.
    pub available_updates: Option<Vec<Value>>,
}

/// One update in the history.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateHistory {
    /// Partial or Completed.
    pub state: String,
    /// When it began.
    pub started_time: Option<Timestamp>,
    /// When it ended.
    pub completion_time: Option<Timestamp>,
    /// Version.
    pub version: String,
    /// Image.
    pub image: String,
    /// Whether the image's signature was checked.
    pub verified: bool,
}

/// How an operator of OpenShift is.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    plural = "clusteroperators",
    status = "ClusterOperatorStatus",
    schema = "disabled",
    derive = "Default"
)]
pub struct ClusterOperatorSpec {}

/// Conditions and versions of an operator.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterOperatorStatus {
    /// Available, Progressing, Degraded, Upgradeable.
    pub conditions: Vec<Condition>,
    /// The operator's own and its operands' versions.
    pub versions: Vec<BTreeMap<String, String>>,
}

/// Facts about where the cluster runs.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "Infrastructure",
    plural = "infrastructures",
    status = "InfrastructureStatus",
    schema = "disabled",
    derive = "Default"
)]
pub struct InfrastructureSpec {}

/// Shape of the control plane.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct InfrastructureStatus {
    /// HighlyAvailable, SingleReplica, External…
    pub control_plane_topology: String,
    /// The same for workers.
    pub infrastructure_topology: String,
    /// Name of the installation.
    pub infrastructure_name: String,
    /// Cloud, or None.
    pub platform: String,
}

/// The annotation's value, empty when absent: the MCO makes no difference between the two.
pub fn annotation<'a>(node: &'a Node, key: &str) -> &'a str {
    node.metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(key))
        .map_or("", String::as_str)
}

/// Status of a node condition, empty when absent.
pub fn condition_status<'a>(node: &'a Node, type_: &str) -> &'a str {
    node.status
        .as_ref()
        .and_then(|s| s.conditions.as_ref())
        .and_then(|all| all.iter().find(|c| c.type_ == type_))
        .map_or("", |c| c.status.as_str())
}

/// Ready as the node controller sees it.
pub fn is_ready(node: &Node) -> bool {
    condition_status(node, "Ready") == "True"
        && !matches!(condition_status(node, "DiskPressure"), "True" | "Unknown")
        && !matches!(condition_status(node, "NetworkUnavailable"), "True" | "Unknown")
}

/// Cordoned.
pub fn is_unschedulable(node: &Node) -> bool {
    node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false)
}

/// Status of a pool's condition, empty when absent.
pub fn pool_condition<'a>(pool: &'a MachineConfigPool, type_: &str) -> &'a str {
    pool.status
        .as_ref()
        .and_then(|s| s.conditions.iter().find(|c| c.type_ == type_))
        .map_or("", |c| c.status.as_str())
}

/// The version a rendered config was made by, empty when it does not say.
pub fn release_version(config: &MachineConfig) -> String {
    config
        .annotations()
        .get(RELEASE_VERSION)
        .cloned()
        .unwrap_or_default()
}

/// Puts `new` into `conditions`, keeping the time of transition where the status did not flip.
pub fn set_condition(conditions: &mut Vec<Condition>, mut new: Condition) {
    let old = conditions.iter_mut().find(|c| c.type_ == new.type_);
    let keeps = old
        .as_ref()
        .is_some_and(|o| o.status == new.status && o.last_transition_time.is_some());
    if let (true, Some(o)) = (keeps, &old) {
        new.last_transition_time = o.last_transition_time;
    } else {
        new.last_transition_time = Some(Timestamp::now());
    }
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

impl Condition {
    /// A condition whose time of transition [`set_condition`] decides.
    pub fn new(type_: &str, status: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            type_: type_.into(),
            status: if status { "True" } else { "False" }.into(),
            last_transition_time: None,
            reason: reason.into(),
            message: message.into(),
        }
    }
}
