//! What of an owner a person must approve, and what waits for that. Data only; what it means is decided in the core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a person must approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the fields document them"
)]
pub enum ApprovalPolicy {
    #[default]
    None,
    Manual,
}

/// What of an owner waits for a MutexApproval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalSettings {
    /// Manual: no node begins before somebody approved the change as a whole. It holds for all nodes, also those of later
    /// waves. Default: None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<ApprovalPolicy>,
    /// Manual: once a node has failed, no further node begins before somebody approved that; each further failure waits for
    /// an approval of its own. Default: None.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_failure: Option<ApprovalPolicy>,
    /// How long an approval lets nodes begin, in seconds from its creation. Default: as long as what was approved stays the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60, max = 31_536_000))]
    pub ttl_seconds: Option<i64>,
}

/// What waits for a MutexApproval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalStatus {
    /// What it is, in words: the beginning, a wave with its number, or the next node after a failure.
    #[schemars(length(max = 253))]
    pub waits: String,
    /// CamelCase reason: WaitsForApproval or ApprovalExpired.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// The digest of what is to be approved: spec, target, nodes and rules.
    #[schemars(length(max = 253))]
    pub digest: String,
    /// Since when it waits, RFC 3339.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub since: String,
}
