//! Machines that are replaced: the five kinds of the Constellation node operator (`update.edgeless.systems/v1alpha1`). Names of
//! fields, of the status too, are that operator's, the odd cases included (`spec/constellation.md` §1). Data only; what they mean is
//! decided in `numo-core`'s node_version.
//!
//! Not part of [`crate::crds::all`]: they are installed where they are asked for.

mod autoscaling_strategy;
mod joining_node;
mod node_version;
mod pending_node;
mod scaling_group;

pub use self::{
    autoscaling_strategy::{AutoscalingStrategy, AutoscalingStrategySpec, AutoscalingStrategyStatus},
    joining_node::{JoiningNode, JoiningNodeSpec, JoiningNodeStatus},
    node_version::{NodeVersion, NodeVersionSpec, NodeVersionStatus},
    pending_node::{CspState, Goal, PendingNode, PendingNodeSpec, PendingNodeStatus},
    scaling_group::{NodeRole, ScalingGroup, ScalingGroupSpec, ScalingGroupStatus},
};

/// API group of the five kinds.
pub const UPDATE_GROUP: &str = "update.edgeless.systems";
/// The one version.
pub const UPDATE_VERSION: &str = "v1alpha1";

/// Annotations that the Constellation node operator puts on Nodes, and numo after it.
pub mod annotations {
    /// On the new node: name of the node that it takes the place of.
    pub const DONOR: &str = "constellation.edgeless.systems/donor";
    /// On the old node: name of the node that takes its place.
    pub const HEIR: &str = "constellation.edgeless.systems/heir";
    /// Scaling group of the node, as the provider names it.
    pub const SCALING_GROUP_ID: &str = "constellation.edgeless.systems/scaling-group-id";
    /// Image of the node, as the provider names it.
    pub const NODE_IMAGE: &str = "constellation.edgeless.systems/node-image";
    /// The node is to be deleted and nothing takes its place: `true`.
    pub const OBSOLETE: &str = "constellation.edgeless.systems/obsolete";
    /// ConfigMap of the Kubernetes components that the node has joined with.
    pub const KUBERNETES_COMPONENTS: &str = "constellation.edgeless.systems/kubernetes-components";
}
