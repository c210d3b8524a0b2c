//! MutexWindow: when nodes of a set may begin, whoever owns the change.

use crate::hours::Hours;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When nodes of a set may begin, over all owners: recurring openings and freezes. Of several MutexWindows of one node an opening
/// of any opens it, and a freeze of any shuts it. A node that was changed before the end is brought to its own end.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexWindow",
    plural = "mutexwindows",
    status = "MutexWindowStatus",
    shortname = "mwin",
    category = "numo",
    printcolumn = r#"{"name":"Open","type":"boolean","jsonPath":".status.open","description":"Whether nodes may begin now"}"#,
    printcolumn = r#"{"name":"Closes","type":"string","jsonPath":".status.closesAt","description":"When it closes, if it is open"}"#,
    printcolumn = r#"{"name":"Opens","type":"string","jsonPath":".status.opensAt","description":"When it opens, if it is closed"}"#,
    printcolumn = r#"{"name":"Freeze","type":"string","jsonPath":".status.freeze","description":"The freeze that holds"}"#,
    printcolumn = r#"{"name":"Nodes","type":"integer","jsonPath":".status.nodes","description":"How many nodes it selects"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether the spec can be understood"}"#,
    printcolumn = r#"{"name":"Time Zone","type":"string","jsonPath":".spec.timeZone","priority":1,"description":"Time zone of the openings"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "When nodes of a set may begin, over all owners: recurring openings and freezes. Of several MutexWindows of one node an opening of any opens it, and a freeze of any shuts it."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexWindowSpec {
    /// The nodes that it selects. Required; `{}` selects all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// When these nodes begin.
    #[serde(flatten)]
    pub hours: Hours,
}

/// What numo found out about a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexWindowStatus {
    /// The generation of the spec that the rest speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether nodes may begin now, as far as this window goes; absent if it cannot be understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// When it closes; absent if it is closed, or no end is in sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub closes_at: Option<String>,
    /// When it opens; absent if it is open, or never opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub opens_at: Option<String>,
    /// The name of the freeze that holds, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub freeze: Option<String>,
    /// How many nodes it selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// `Ready`: whether the spec can be understood, and the window ever opens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<crate::conditions::Condition>,
}
