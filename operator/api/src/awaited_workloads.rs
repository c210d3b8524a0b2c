//! AwaitedWorkloads: which workloads a MutexRunConfig waits for after a node has changed, and for how long.

use crate::mutex_rule::FailurePolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which workloads must be ready again after a node has changed, for how long a node waits for them, and what follows.
/// Every selection that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedWorkloads {
    /// Labels of the namespaces whose workloads are awaited. Default: every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the pods whose workloads are awaited. Default: every pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// The lowest `spec.priority` of the pods whose workloads are awaited. A pod without a PriorityClass has 0, unless the
    /// cluster has a default. Default: every priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_priority: Option<i32>,
    /// How long a node waits for its workloads, in seconds. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub timeout_seconds: Option<i64>,
    /// What follows when they are not ready in time. Continue (default): a warning, and the run goes on. Hold, Abort and
    /// Skip as in a MutexRule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}
