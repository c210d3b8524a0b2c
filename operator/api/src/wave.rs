//! In what order the nodes of an owner change: waves. Data only; what they mean is decided in the core.

use crate::{approval::ApprovalPolicy, object_ref::ObjectRef};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Some nodes of an owner, which change before those of the waves after it. A node of two waves belongs to the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "[has(self.nodeSelector), has(self.pools), has(self.nodes)].filter(given, given).size() == 1",
        "message": "found none or several of nodeSelector, pools and nodes, wanted one of them",
    },
    {
        "rule": "!has(self.growth) || has(self.nodes)",
        "message": "found growth without nodes, wanted both",
        "fieldPath": ".growth",
    },
]))]
pub struct Wave {
    /// A name for people, such as canary: lower-case letters, digits and `-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// The nodes of the wave by their labels; `{}` is all nodes that are in no wave before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// The nodes of the wave by their MachineConfigPools. (MutexRunConfig)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub pools: Option<Vec<String>>,
    /// How many nodes the wave has, the next ones in the order of turns: a number, or a percentage of the nodes that no
    /// earlier wave has, rounded down, at least 1. Nodes that need no change, and nodes that were left out before their
    /// turn, do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub nodes: Option<IntOrString>,
    /// Repeats the wave until no node is left, each time with so many times more nodes than the time before: `nodes: 1` with
    /// `growth: 2` is 1, 2, 4, 8 and so on; with `growth: 1` each has as many. Only the last wave may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub growth: Option<i64>,
    /// How many nodes of the wave may be in flight at once: a number or a percentage of the wave, rounded down, at least 1.
    /// 0 (or `0%`) lets none of them begin, until whoever owns the object raises it. The limits of the owner hold beside it.
    /// Default: no bound of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// How long after the last node of the wave is done the next wave begins, in seconds. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub soak_seconds: Option<i64>,
    /// How many nodes of the wave may fail before no further node of the owner begins: a number or a percentage of the wave,
    /// rounded down, at least 1. The budget of the owner holds beside it. Default: no bound of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int_or_percent")]
    pub failure_budget: Option<IntOrString>,
    /// Rules that only the nodes of the wave must pass, in order, after those that every node of the owner must pass. Rules of
    /// phases PreRun and PostRun are of a whole run, and no rules of a wave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub rules: Option<Vec<ObjectRef>>,
    /// Manual: the nodes of the wave begin once somebody approved it (`numo approve`). A wave that grows is approved each time.
    /// Default: None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalPolicy>,
}

/// The wave under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaveStatus {
    /// Number of the wave under way, from 1.
    pub number: i32,
    /// Number of waves. Nodes in no wave are the last one.
    pub of: i32,
    /// Name of the wave under way, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Number of nodes of the wave under way.
    pub nodes: i32,
    /// Number of nodes of the wave under way that are done.
    pub done: i32,
    /// Until when the wave under way soaks, RFC 3339, once its nodes are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub soak_until: Option<String>,
    /// What a person should know of the waves: one that has no node, nodes that two waves select.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 1024)))]
    pub notes: Vec<String>,
}
