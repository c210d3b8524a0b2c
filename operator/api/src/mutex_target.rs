//! MutexTarget: a set of MachineConfigPools to pause and upgrade node by node.

use crate::conditions::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A set of MachineConfigPools to pause and upgrade node by node. A MutexTarget modifies nothing by
/// itself; a MutexRunConfig refers to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexTarget",
    plural = "mutextargets",
    namespaced,
    status = "MutexTargetStatus",
    shortname = "mt",
    category = "numo",
    printcolumn = r#"{"name":"Machine Config Pools","type":"string","jsonPath":".spec.machineConfigPools","description":"The pools"}"#,
    printcolumn = r#"{"name":"Nodes","type":"string","jsonPath":".status.nodes","priority":1,"description":"Nodes whose primary pool is one of them"}"#,
    printcolumn = r#"{"name":"Count","type":"integer","jsonPath":".status.nodeCount","description":"Number of nodes whose primary pool is one of them"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether all of the pools exist"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"Why it is Ready or not"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "A set of MachineConfigPools to pause and upgrade node by node. A MutexTarget modifies nothing by itself; a MutexRunConfig refers to it."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexTargetSpec {
    /// Names of existing MachineConfigPools, in the order in which their nodes are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(length(max = 253)))]
    pub machine_config_pools: Option<Vec<String>>,
}

/// What numo found out about a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexTargetStatus {
    /// The generation of the spec that the conditions speak of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Names of the nodes whose primary pool, by the MCO's rules, is one of the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(length(max = 253)))]
    pub nodes: Option<Vec<String>>,
    /// Number of the nodes whose primary pool is one of the pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i64>,
    /// `ValidConfig`, `NodeListGathered`, and `Ready`/`Stalled` for tools that know kstatus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
