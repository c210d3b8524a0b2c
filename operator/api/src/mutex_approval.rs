//! MutexApproval: a person permits a run, a wave, or the next node after a failure to begin.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A person permits something of an owner to begin. The approval holds while its digest is still that of the owner. It is
/// made by `numo approve`, cannot be edited, and is withdrawn by deleting it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexApproval",
    plural = "mutexapprovals",
    status = "MutexApprovalStatus",
    shortname = "mapr",
    category = "numo",
    printcolumn = r#"{"name":"Kind","type":"string","jsonPath":".spec.owner.kind","description":"Kind of the owner"}"#,
    printcolumn = r#"{"name":"Namespace","type":"string","jsonPath":".spec.owner.namespace","description":"Namespace of the owner"}"#,
    printcolumn = r#"{"name":"Owner","type":"string","jsonPath":".spec.owner.name","description":"Name of the owner"}"#,
    printcolumn = r#"{"name":"Wave","type":"string","jsonPath":".spec.wave","description":"The wave that it is about"}"#,
    printcolumn = r#"{"name":"Holds","type":"string","jsonPath":".status.conditions[?(@.type=='Holds')].status","description":"Whether its owner goes on by it, or went on"}"#,
    printcolumn = r#"{"name":"Approved By","type":"string","jsonPath":".spec.approvedBy","description":"Who approved"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".spec.reason","description":"Why"}"#,
    printcolumn = r#"{"name":"Why","type":"string","jsonPath":".status.conditions[?(@.type=='Holds')].reason","priority":1,"description":"Why it holds, or does not"}"#,
    printcolumn = r#"{"name":"After Failure","type":"boolean","jsonPath":".spec.afterFailure","priority":1,"description":"Whether it is about a failure"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "A person permits something of an owner to begin. The approval holds while its digest is still that of the owner. It is made by `numo approve`, cannot be edited, and is withdrawn by deleting it."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexApprovalSpec {
    /// The owner that it is about.
    pub owner: ApprovedOwner,
    /// The wave that it is about, by its number (from 1) or its name. Without it: the beginning, or with `afterFailure` the
    /// next node after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub wave: Option<String>,
    /// Whether it is about a failure: the next node begins all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_failure: Option<bool>,
    /// The digest of what is approved, as the owner's `status.approval` has it.
    #[schemars(length(min = 1, max = 253))]
    pub digest: String,
    /// Why it was approved, for people.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
    /// Who approved: the user name that the API server knows them by. With numo's admission policy nobody can write another.
    #[schemars(length(min = 1, max = 253))]
    pub approved_by: String,
}

/// The owner that an approval is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedOwner {
    /// API group of its kind.
    #[schemars(length(min = 1, max = 253))]
    pub api_group: String,
    /// MutexRunConfig, Plan, NodeMaintenance or NodeVersion.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Namespace of the owner: of a MutexRunConfig or a Plan. NodeMaintenances and NodeVersions are in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
    /// Name of the owner.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What became of an approval. It is for people: no decision reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexApprovalStatus {
    /// The generation of the spec that the rest speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Holds`: whether the owner goes on by it, or went on; if not, why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<crate::conditions::Condition>,
}
