//! Nodes, the Machines that they run on, and what tells that somebody takes one away.

use crate::{
    key::Map,
    pairs::{Pairs, Values},
};
use jiff::Timestamp;
use serde_json::Value;

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// All labels.
    pub labels: Pairs,
    /// The annotations in use: OpenShift's and ours.
    pub annotations: Pairs,
    /// Whether the object has any annotation at all: a patch of one that has none makes the whole map.
    pub has_annotations: bool,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `spec.taints` as given; null if there are none.
    pub taints: Value,
    /// Ready by the MCO's rule: Ready is True, no disk pressure, network available.
    pub ready: bool,
    /// Since when the condition that makes it not Ready stands, where it is not Ready and the condition says so.
    pub not_ready_since: Option<Timestamp>,
    /// Why it is being taken away, if it is: deletion timestamp or an autoscaler's taint.
    pub leaving: Option<Leaving>,
    /// `status.nodeInfo.bootID`: another one after each boot.
    pub boot_id: String,
    /// `status.nodeInfo.kubeletVersion`.
    pub kubelet_version: String,
    /// Condition `EtcdIsVoter`, as RKE2 and k3s set it; none where the node has none.
    pub etcd_voter: Option<EtcdVoter>,
}

/// Whether the member of etcd on a node holds a vote, as the condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdVoter {
    /// It does.
    Yes,
    /// It does not, or there is none.
    No,
    /// Nobody knows.
    Unknown,
}

impl NodeView {
    /// Puts at hand what every decision reads, as the operator's store does when it takes a node in. Nothing but time depends on it.
    pub fn take_in(&mut self) {
        self.labels.put_at_hand();
        self.annotations.put_at_hand();
    }

    /// An annotation, or "" where it is absent or empty.
    #[inline]
    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.value(key).unwrap_or_default()
    }

    /// The first taint with this key, of whatever effect.
    pub fn taint(&self, key: &str) -> Option<&Value> {
        let has_key = |taint: &&Value| taint.get("key").and_then(Value::as_str) == Some(key);
        self.taints.as_array()?.iter().find(has_key)
    }

    /// A label, or "" where it is absent or empty.
    #[inline]
    pub fn label(&self, key: &str) -> &str {
        self.labels.value(key).unwrap_or_default()
    }
}

/// How somebody takes a node away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// What tells of it, as a clause.
    pub why: String,
    /// Since when, where that is told.
    pub since: Option<Timestamp>,
}

/// A node that holds a reboot lock of kured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebootLock {
    /// Name of the node.
    pub node: String,
    /// When the lock ends by itself, if it does.
    pub until: Option<Timestamp>,
}

/// Whose Machines: OpenShift's (`machine.openshift.io`) or Cluster API's (`cluster.x-k8s.io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineApi {
    /// `machine.openshift.io/v1beta1`.
    OpenShift,
    /// `cluster.x-k8s.io/v1beta1`.
    ClusterApi,
}

impl MachineApi {
    /// The API group.
    pub const fn group(self) -> &'static str {
        match self {
            Self::OpenShift => "machine.openshift.io",
            Self::ClusterApi => "cluster.x-k8s.io",
        }
    }
}

/// A Machine: what a node runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineView {
    /// The object.
    pub object: Annotated,
    /// `status.nodeRef.name`; empty before a node has joined.
    pub node: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Since when it is being deleted, if it is and says so.
    pub deleting_since: Option<Timestamp>,
}

/// An object of the machine API, as far as numo may write to it: its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    /// uid.
    pub uid: String,
    /// The annotations in use: ours, and the shield's or the pause's.
    pub annotations: Map,
    /// Whether the object has any annotation at all.
    pub has_annotations: bool,
    /// The labels of a Machine: what the selectors of MachineHealthChecks speak of.
    pub labels: Map,
    /// `spec.selector` of a MachineHealthCheck; null for a Machine.
    pub selector: Value,
}
