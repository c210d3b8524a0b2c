//! The API server's audit log: who asked for what, request by request.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// Every request once: a watch when it has begun (it may never end), all others
/// when they are answered.
pub(crate) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
    verbs: [watch]
    omitStages: [RequestReceived, ResponseComplete]
  - level: Metadata
    omitStages: [RequestReceived, ResponseStarted]
";

/// One request to the API server. Absent parts are empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The user's name, e.g. `world` or `system:serviceaccount:numo:numo`.
    pub user: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The verb as RBAC knows it: `get`, `list`, `watch`, `create`, `patch`, …
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource's plural name; empty for paths outside the API, e.g. `/readyz`.
    pub resource: String,
    /// E.g. `status` or `eviction`.
    pub subresource: String,
    /// The namespace of the request; empty when cluster-wide.
    pub namespace: String,
    /// The object's name; empty for lists and for creates with a generated name.
    pub name: String,
    /// The path and query.
    pub uri: String,
    /// The HTTP status code of the answer, 0 if there was none.
    pub code: u16,
    /// Whether the user had the right to ask; what an admission plugin refuses is another matter.
    pub allowed: bool,
    /// When the request arrived, by the server's clock.
    pub time: Timestamp,
}

impl AuditEvent {
    /// Whether the request was meant to change something.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }
}

/// Reads the log, oldest answer first.
pub(crate) fn read(log: &Path) -> Result<Vec<AuditEvent>> {
    let content = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
    parse(&content)
}

fn parse(log: &str) -> Result<Vec<AuditEvent>> {
    // The server may be writing: what follows the last line break is not a whole event yet.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole
        .lines()
        .map(|line| {
            let raw: Raw = serde_json::from_str(line).with_context(|| format!("audit event {line}"))?;
            Ok(raw.into())
        })
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    user: RawUser,
    #[serde(default)]
    user_agent: String,
    verb: String,
    #[serde(default, rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: RawObject,
    #[serde(default)]
    response_status: RawStatus,
    #[serde(default)]
    annotations: RawAnnotations,
    request_received_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct RawUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawObject {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAnnotations {
    #[serde(rename = "authorization.k8s.io/decision")]
    decision: String,
}

impl From<Raw> for AuditEvent {
    fn from(raw: Raw) -> Self {
        Self {
            user: raw.user.username,
            user_agent: raw.user_agent,
            verb: raw.verb,
            group: raw.object_ref.api_group,
            resource: raw.object_ref.resource,
            subresource: raw.object_ref.subresource,
            namespace: raw.object_ref.namespace,
            name: raw.object_ref.name,
            uri: raw.request_uri,
            code: raw.response_status.code,
            allowed: raw.annotations.decision != "forbid",
            time: raw.request_received_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_being_written_is_left_for_later() {
        let whole = r#"{"verb":"patch","user":{"username":"world"},"userAgent":"world","requestURI":"/x",
            "objectRef":{"resource":"nodes","name":"a","subresource":"status"},
            "responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T02:47:19.000001Z"}"#
            .replace('\n', "");
        let log = format!("{whole}\n{}", &whole[..40]);
        let events = parse(&log).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].resource.as_str(), events[0].code), ("nodes", 200));
        assert!(events[0].is_write());
        assert!(parse("").unwrap().is_empty());
    }
}
