//! Drain settings, as NodeMaintenance and MutexBinding have them. Data only: what they mean is decided in
//! `numo-core`'s drain.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a node is drained. What is left out is as node-maintenance-operator has it fixed: `kubectl drain --force
/// --delete-emptydir-data --ignore-daemonsets`, without a limit of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainSettings {
    /// Whether pods without a controller are evicted; nobody recreates them. Without it they are refused, and
    /// nothing is evicted. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Whether pods with an emptyDir volume are evicted, whose data is lost. Without it they are refused, and
    /// nothing is evicted. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_emptydir_data: Option<bool>,
    /// Whether pods of a DaemonSet are left where they are. Without it they are refused, and nothing is evicted.
    /// Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_daemonsets: Option<bool>,
    /// How long a pod has to end by itself, in seconds; -1 is as long as the pod itself says. Default: -1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1, max = 604_800))]
    pub grace_period_seconds: Option<i64>,
    /// How long the drain may take before it is reported as failing, in seconds; it goes on all the same. 0: no
    /// limit. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub timeout_seconds: Option<i64>,
    /// A pod that has been ending for longer than this many seconds is not waited for: its node may be down. 0 waits
    /// for every pod. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub skip_wait_for_delete_timeout_seconds: Option<i64>,
    /// Whether pods are deleted, past their PodDisruptionBudgets. Virtual machines are evicted all the same.
    /// Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_eviction: Option<bool>,
    /// Only these pods are evicted. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// In which order pods are evicted: those of one rank are gone before the next are asked to go. Default:
    /// Together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<DrainOrder>,
    /// The pods' label whose values are their ranks, whole numbers, lowest first; pods without it come first. With
    /// `order: Label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub order_label: Option<String>,
    /// How many pods of the node may be on their way out at once. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_concurrent: Option<i64>,
    /// Whether the node counts as drained only once its volumes are detached. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub await_volume_detach: Option<bool>,
    /// Whether the node is cordoned only once every eviction it needs passes a dry run. Default: false; true for a Plan,
    /// unless its drain has disableEviction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<bool>,
}

/// In which order the pods of a node are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum DrainOrder {
    #[default]
    Together,
    Priority,
    Label,
}
