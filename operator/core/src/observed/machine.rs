//! Machines and MachineHealthChecks of both machine APIs.

use crate::key::Map;
use jiff::Timestamp;

/// Whose Machines: OpenShift's (`machine.openshift.io`) or Cluster API's (`cluster.x-k8s.io`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineApi {
    /// `machine.openshift.io/v1beta1`.
    OpenShift,
    /// `cluster.x-k8s.io/v1beta1`.
    ClusterApi,
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
    pub selector: serde_json::Value,
}
