//! Patches of objects that are not numo's own.

use crate::{
    key::{Key, Map},
    observed::{MachineApi, NodeView, PoolView},
};
use serde_json::Value;

/// A field: what was read, and what it shall be. `None` is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Label or annotation key.
    pub key: String,
    /// What was read.
    pub from: Option<String>,
    /// What it shall be.
    pub to: Option<String>,
}

impl Change {
    /// A change of what these labels or annotations have now.
    pub fn of(map: &Map, key: &str, to: Option<String>) -> Self {
        Self {
            key: key.to_owned(),
            from: map.get(key).cloned(),
            to,
        }
    }
}

/// Why a node is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePurpose {
    /// Keep remediation and autoscalers off.
    Shield,
    /// Take the shield away and restore what was there.
    Unshield,
    /// Put the rule labels on.
    Label,
    /// Take the rule labels off.
    Unlabel,
    /// Let the node go to its pin.
    Release,
    /// Bring the node home from the canary pool.
    BringHome,
    /// Put back a cordon that the MCO took away.
    Recordon,
    /// Cordon it, with the taints of a maintenance.
    Cordon,
    /// Put it back as it was before the cordon.
    Uncordon,
    /// Remember, or forget, a cordon that the MCO is going to take away.
    MindCordon,
    /// Keep new pods off a node that failed.
    Quarantine,
    /// Take that taint off.
    Unquarantine,
    /// Note what is known of its machine, which node takes its place, and give a new node what the old one had.
    Replace,
}

/// A patch of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePatch {
    /// Name.
    pub node: String,
    /// uid: a node created again under its name is another node.
    pub uid: String,
    /// Why.
    pub purpose: NodePurpose,
    /// Labels.
    pub labels: Vec<Change>,
    /// Annotations. One whose `from` equals its `to` is only tested.
    pub annotations: Vec<Change>,
    /// Whether the node has labels already; a node may have none.
    pub has_labels: bool,
    /// Whether the node has annotations already; a node may have none.
    pub has_annotations: bool,
    /// `spec.unschedulable`: what it shall be.
    pub unschedulable: Option<bool>,
    /// Tests that `spec.unschedulable` is still this: a cordon that came or went meanwhile is not taken for another's.
    pub while_unschedulable: Option<bool>,
    /// `spec.taints`: what was read and what they shall be; null is absent. One list that others write too.
    pub taints: Option<(Value, Value)>,
}

impl NodePatch {
    /// A patch that changes nothing yet.
    pub fn of(node: &NodeView, purpose: NodePurpose) -> Self {
        Self {
            node: node.name.clone(),
            uid: node.uid.clone(),
            purpose,
            labels: Vec::new(),
            annotations: Vec::new(),
            has_labels: !node.labels.is_empty(),
            has_annotations: node.has_annotations,
            unschedulable: None,
            while_unschedulable: None,
            taints: None,
        }
    }
}

/// Why a pool is patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolPurpose {
    /// Pause it, or pause it again.
    Pause,
    /// Give it back.
    Unpause,
    /// Leave it paused and say how many nodes would roll.
    Hold,
    /// Set the selector the strategy needs.
    Select,
    /// Restore the selector.
    Unselect,
}

/// A patch of a MachineConfigPool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolPatch {
    /// Name.
    pub pool: String,
    /// uid.
    pub uid: String,
    /// Why.
    pub purpose: PoolPurpose,
    /// `spec.paused`: read and wanted.
    pub paused: Option<(bool, bool)>,
    /// `spec.nodeSelector`: read and wanted.
    pub selector: Option<(Value, Value)>,
    /// Tests that `spec.configuration.name` is still this one.
    pub config: Option<String>,
    /// The mark.
    pub annotation: Change,
    /// Whether the pool has annotations already.
    pub has_annotations: bool,
}

impl PoolPatch {
    /// A patch of a mark on the pool, and of nothing else yet.
    pub fn of(pool: &PoolView, purpose: PoolPurpose, key: &str, mark: Option<String>) -> Self {
        Self {
            pool: pool.name.clone(),
            uid: pool.uid.clone(),
            purpose,
            paused: None,
            selector: None,
            config: None,
            annotation: Change::of(&pool.annotations, key, mark),
            has_annotations: pool.has_annotations,
        }
    }
}

/// Why a Machine or a MachineHealthCheck is patched; this tells which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachinePurpose {
    /// Keep remediation off the Machine of a node in flight.
    Shield,
    /// Take that shield away and restore what was there.
    Unshield,
    /// Pause a MachineHealthCheck while nodes are in flight.
    PauseHealthCheck,
    /// Resume it.
    ResumeHealthCheck,
    /// Leave the pause to another owner, whose turn needs it.
    HandOverHealthCheck,
}

impl MachinePurpose {
    /// Whether it is about a MachineHealthCheck.
    pub const fn is_of_health_check(self) -> bool {
        matches!(
            self,
            Self::PauseHealthCheck | Self::ResumeHealthCheck | Self::HandOverHealthCheck
        )
    }

    /// Whether the mark of the owner that writes is taken off.
    pub const fn restores(self) -> bool {
        matches!(
            self,
            Self::Unshield | Self::ResumeHealthCheck | Self::HandOverHealthCheck
        )
    }
}

/// A patch of the annotations of a Machine or MachineHealthCheck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePatch {
    /// Whose it is.
    pub api: MachineApi,
    /// Namespace and name.
    pub key: Key,
    /// uid.
    pub uid: String,
    /// Why.
    pub purpose: MachinePurpose,
    /// Annotations.
    pub annotations: Vec<Change>,
    /// Whether the object has annotations already.
    pub has_annotations: bool,
}
