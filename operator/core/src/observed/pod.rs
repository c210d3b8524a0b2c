//! Pods, their PodDisruptionBudgets, and what came of evictions.

use crate::key::{Key, Map};
use jiff::Timestamp;

/// A pod of a node that is being drained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the pod")]
pub struct PodView {
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// All labels; none if they are too many to be kept: the API server, which evicts, knows them all.
    pub labels: Map,
    /// Kind, name and uid of its controller; the kind with its group where that is not one of Kubernetes' own.
    pub controller: Option<(String, String, String)>,
    /// A static pod's image on the API server: it cannot be evicted.
    pub mirror: bool,
    /// Phase Succeeded or Failed.
    pub finished: bool,
    /// Phase Pending: no PodDisruptionBudget counts it.
    pub pending: bool,
    /// Condition Ready.
    pub ready: bool,
    /// Condition DisruptionTarget: somebody disrupts it already.
    pub disrupted: bool,
    /// When it is to be gone at the latest, if it is being deleted.
    pub deleting: Option<Timestamp>,
    /// Whether it has an emptyDir volume.
    pub empty_dir: bool,
    /// The PersistentVolumeClaims that it mounts, by name.
    pub claims: Vec<String>,
    /// `spec.priority`.
    pub priority: i32,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct DisruptionBudgetView {
    /// `spec.selector` as given; null selects no pod, `{}` every pod of the namespace.
    pub selector: serde_json::Value,
    /// `spec.unhealthyPodEvictionPolicy: AlwaysAllow`.
    pub unhealthy_always: bool,
    /// `status.disruptionsAllowed`.
    pub allowed: i64,
    /// `status.currentHealthy`.
    pub healthy: i64,
    /// `status.desiredHealthy`.
    pub desired: i64,
    /// `status.expectedPods`.
    pub expected: i64,
}

/// What came of evicting a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionView {
    /// When it was tried last.
    pub at: Timestamp,
    /// How often in a row it was refused.
    pub refusals: u32,
    /// What was said.
    pub said: Said,
    /// Whether a budget has changed since that may let it go.
    pub stirred: bool,
}

/// What the API server said to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It has not answered yet.
    Asked,
    /// The pod is on its way out.
    Accepted,
    /// A PodDisruptionBudget is against it: the API server's words, which name it.
    Budget(String),
    /// A virtual machine is moving away instead.
    Migrating(String),
    /// A virtual machine cannot move.
    NotMigratable(String),
    /// The pod's namespace is being deleted, and the pod with it.
    NamespaceTerminating,
    /// The API server has no time, or failed.
    Busy(String),
    /// It is not allowed, or a webhook is against it.
    Refused(String),
}

/// How often a controller's pods came back to a cordoned node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// How often they were evicted after the cordon.
    pub times: u32,
    /// When the last time.
    pub at: Timestamp,
}

/// A static pod of etcd, or OpenShift's guard of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPodView {
    /// The node.
    pub node: String,
    /// Condition Ready; none where it is missing.
    pub ready: Option<bool>,
    /// All labels.
    pub labels: Map,
}
