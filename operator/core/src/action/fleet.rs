//! What is done to machines, and to the objects that stand for them.

use super::patch::Change;
use crate::key::Key;
use numo_api::machines::{CspState, PendingNodeSpec, ScalingGroupSpec};

/// One write, or one word to the provider, where machines are replaced.
#[derive(Clone, Debug, PartialEq)]
pub enum FleetAction {
    /// Create a PendingNode: what is to become of a machine is written before the provider hears of it.
    CreatePendingNode {
        /// Name.
        name: String,
        /// Name and uid of the NodeVersion.
        owner: (String, String),
        /// The spec.
        spec: Box<PendingNodeSpec>,
        /// Name of the NodeChange that it is for; none if it is for none.
        turn: Option<String>,
    },
    /// Write a PendingNode over the one that was read.
    WritePendingNode {
        /// Name.
        name: String,
        /// uid.
        uid: String,
        /// resourceVersion that was read.
        resource_version: String,
        /// The spec as it shall be.
        spec: Box<PendingNodeSpec>,
        /// Annotations.
        annotations: Vec<Change>,
    },
    /// Say how the machine of a PendingNode stands.
    WritePendingStatus {
        /// Name.
        name: String,
        /// uid.
        uid: String,
        /// State of the machine.
        state: CspState,
        /// Whether the goal is reached.
        reached: bool,
    },
    /// Delete a PendingNode: its machine has joined, or is gone.
    DeletePendingNode {
        /// Name.
        name: String,
        /// uid.
        uid: String,
    },
    /// Have the provider make the machine of a PendingNode, whose name is the id of the request: asked twice it makes one.
    CreateMachine {
        /// Name of the PendingNode, and id of the request.
        pending: String,
        /// uid of the PendingNode.
        uid: String,
        /// The group.
        group_id: String,
    },
    /// Have the provider delete a machine. One that is gone already is no failure.
    DeleteMachine {
        /// Name of the PendingNode that says so.
        pending: String,
        /// The machine.
        provider_id: String,
    },
    /// Take the member of a node out of etcd. One that is gone already is no failure.
    RemoveEtcdMember {
        /// The node.
        node: String,
        /// Address of its member.
        address: String,
        /// The node that takes its place, which must have a member of its own; none where the node went without one.
        heir: Option<String>,
    },
    /// Delete the Node of a machine that goes.
    DeleteNode {
        /// The node.
        node: String,
        /// uid.
        uid: String,
    },
    /// Have new machines of a group get this image.
    SetGroupImage {
        /// The group.
        group_id: String,
        /// The image.
        image: String,
    },
    /// Say which image new machines of a group get, and whether that is outdated.
    WriteGroupStatus {
        /// Name of the ScalingGroup.
        name: String,
        /// uid.
        uid: String,
        /// The image.
        image: String,
        /// Whether it is not the one of the NodeVersion.
        is_outdated: bool,
    },
    /// Create a ScalingGroup for a group of the provider.
    CreateGroup {
        /// Name.
        name: String,
        /// The spec.
        spec: Box<ScalingGroupSpec>,
    },
    /// Name a group as people name it.
    NameGroup {
        /// Name of the ScalingGroup.
        name: String,
        /// uid.
        uid: String,
        /// `spec.nodeGroupName`.
        node_group_name: String,
    },
    /// Delete the ScalingGroup of a group that the provider does not have any more.
    DeleteGroup {
        /// Name.
        name: String,
        /// uid.
        uid: String,
    },
    /// Say whether a cluster autoscaler is to run.
    EnableAutoscaler {
        /// Name of the AutoscalingStrategy.
        strategy: String,
        /// uid.
        uid: String,
        /// Whether it is to.
        enabled: bool,
    },
    /// Say how a cluster autoscaler stands.
    WriteStrategyStatus {
        /// Name of the AutoscalingStrategy.
        strategy: String,
        /// uid.
        uid: String,
        /// Replicas of its Deployment.
        replicas: i32,
    },
    /// Change the Deployment of a cluster autoscaler.
    SetAutoscaler {
        /// The Deployment.
        deployment: Key,
        /// uid.
        uid: String,
        /// Replicas: read and wanted.
        replicas: (i32, i32),
        /// Annotations.
        annotations: Vec<Change>,
        /// Command of the first container: read and wanted.
        command: (Vec<String>, Vec<String>),
    },
    /// Delete a JoiningNode: its Node was told, or does not come.
    DeleteJoiningNode {
        /// Name.
        name: String,
        /// uid.
        uid: String,
    },
}

impl FleetAction {
    /// Whether something begins by it that cannot be taken back.
    pub const fn disrupts(&self) -> bool {
        matches!(
            self,
            Self::CreateMachine { .. } | Self::DeleteNode { .. } | Self::RemoveEtcdMember { .. }
        )
    }

    /// Whether it lets a cluster autoscaler run again. Nothing else that is done to machines takes anything back.
    pub const fn restores(&self) -> bool {
        match self {
            Self::EnableAutoscaler { enabled, .. } => *enabled,
            Self::SetAutoscaler { replicas, .. } => replicas.0 < replicas.1,
            _ => false,
        }
    }

    /// The name that metrics and logs have for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreatePendingNode { .. } => "CreatePendingNode",
            Self::WritePendingNode { .. } => "WritePendingNode",
            Self::WritePendingStatus { .. } => "WritePendingStatus",
            Self::DeletePendingNode { .. } => "DeletePendingNode",
            Self::CreateMachine { .. } => "CreateMachine",
            Self::DeleteMachine { .. } => "DeleteMachine",
            Self::RemoveEtcdMember { .. } => "RemoveEtcdMember",
            Self::DeleteNode { .. } => "DeleteNode",
            Self::SetGroupImage { .. } => "SetGroupImage",
            Self::WriteGroupStatus { .. } => "WriteGroupStatus",
            Self::CreateGroup { .. } => "CreateGroup",
            Self::NameGroup { .. } => "NameGroup",
            Self::DeleteGroup { .. } => "DeleteGroup",
            Self::EnableAutoscaler { .. } => "EnableAutoscaler",
            Self::WriteStrategyStatus { .. } => "WriteStrategyStatus",
            Self::SetAutoscaler { .. } => "SetAutoscaler",
            Self::DeleteJoiningNode { .. } => "DeleteJoiningNode",
        }
    }
}
