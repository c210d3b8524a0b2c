//! MutexNotifier: who is told when an owner begins, waits for a person, or is done.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who is told what owners do: one sink, a filter, and the text. A sink that does not answer changes nothing but the status of its
/// MutexNotifier.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "numo.openshift-optional.skrzypek.io",
    version = "v1alpha1",
    kind = "MutexNotifier",
    plural = "mutexnotifiers",
    status = "MutexNotifierStatus",
    shortname = "mnot",
    category = "numo",
    printcolumn = r#"{"name":"Sink","type":"string","jsonPath":".status.sink","description":"What kind of sink it has"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status","description":"Whether the sink takes notifications"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","description":"Why it is Ready or not"}"#,
    printcolumn = r#"{"name":"Last Sent","type":"date","jsonPath":".status.lastSentAt","description":"Time since the last notification was delivered"}"#,
    printcolumn = r#"{"name":"Sent","type":"integer","jsonPath":".status.sent","description":"Notifications that were delivered"}"#,
    printcolumn = r#"{"name":"Failed","type":"integer","jsonPath":".status.failed","description":"Notifications that were given up: refused, or too old"}"#,
    printcolumn = r#"{"name":"Dropped","type":"integer","jsonPath":".status.dropped","description":"Notifications that were dropped, as too many waited"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    derive = "Default",
    derive = "PartialEq",
    doc = "Who is told what owners do: one sink, a filter, and the text. A sink that does not answer changes nothing but the status of its MutexNotifier."
)]
#[serde(rename_all = "camelCase")]
pub struct MutexNotifierSpec {
    /// A sink that takes CloudEvents (1.0, structured, JSON) by HTTP POST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_events: Option<HttpSink>,
    /// A webhook of Slack, or of another chat that takes the same (`{"text": …}`). Who knows its URL may post: the URL is key `url` of
    /// the Secret of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<SlackSink>,
    /// An Alertmanager: what waits for a person is an alert for as long as it waits, and anything else one for five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alertmanager: Option<AlertmanagerSink>,
    /// A Secret in numo's own namespace. Key `url` is the URL, where the spec has none. Key `token` is sent as bearer token; the
    /// annotation `numo.openshift-optional.skrzypek.io/notifier-hosts` of the Secret names the servers that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretName>,
    /// How the sink shows who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<NotifierTls>,
    /// Kinds of the owners that are told of. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub owner_kinds: Option<Vec<NotifiedKind>>,
    /// Namespaces of the owners that are told of. Default: all, and NodeMaintenances and NodeVersions, which are in no namespace; given,
    /// owners without a namespace are not told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Option<Vec<String>>,
    /// What is told. Default: all.
    /// - RunBegan: the first node of a run has its turn, or the pools of a run are paused.
    /// - WaveDone: the nodes of a wave are done, and it has soaked.
    /// - WaitsForApproval: a person must approve.
    /// - Held: a node waits for a person.
    /// - Failed: a node has failed, and the owner goes on without it; or a maintenance has failed.
    /// - Stalled: an owner waits for a person. One that a person has paused is not told of.
    /// - Finished: a run is over, all nodes of a Plan are at its version, or a node is drained for its maintenance.
    /// - PoolLeftPaused: a run was left, and a pool stays paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub transitions: Option<Vec<Transition>>,
    /// The text for people. Names in braces are replaced: `{owner}`, `{what}` (what has happened, in words), `{transition}`, `{kind}`,
    /// `{namespace}`, `{name}`, `{node}`, `{reason}`, `{message}`, `{target}`, `{time}`, `{id}`,
    /// `{explanation}` (JSON of `numo explain`); `{{` and `}}` are braces.
    /// Default: `{owner} {what}: {message}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    pub template: Option<String>,
    /// Notifications a minute, at most; more wait, 256 of them. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 600))]
    pub max_per_minute: Option<i32>,
}

/// A sink that is reached by HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSink {
    /// Where it is: http or https, without a user. Absent, it is key `url` of the Secret of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^https?://[^/?#@\\s]+([/?][^#\\s]*)?$"))]
    pub url: Option<String>,
}

/// An Alertmanager, which is reached by its API v2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertmanagerSink {
    /// The URL under which its API is found: http or https, without a user; `/api/v2/alerts` is put behind it. Absent, it is key `url` of
    /// the Secret of `secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = "^https?://[^/?#@\\s]+([/?][^#\\s]*)?$"))]
    pub url: Option<String>,
    /// Silences the alerts of each node that an owner has taken out of service, until the turn of the node ends. Needs Alertmanager
    /// 0.22. Absent, no alert is silenced. Alerts whose name begins with Numo are never silenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silences: Option<Silences>,
}

/// The silences of nodes that have their turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Silences {
    /// The label that has the name of the node in its alerts. Default: node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub node_label: Option<String>,
    /// Labels that alerts must have too to be silenced, such as `cluster` where clusters share an Alertmanager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 8))]
    pub matchers: Option<Vec<SilenceMatcher>>,
    /// How long a silence lasts that nobody renews, in seconds. numo renews it at half of that time. If numo is gone, alerts are heard
    /// again after it. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 120, max = 3600))]
    pub duration_seconds: Option<i32>,
}

/// A label and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SilenceMatcher {
    /// Name of the label.
    #[schemars(length(min = 1, max = 128), regex(pattern = "^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub name: String,
    /// The value that it must have.
    #[schemars(length(min = 1, max = 256))]
    pub value: String,
}

/// A Slack-compatible webhook. It has no settings: its URL is secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlackSink {}

/// A Secret by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretName {
    /// Name of a Secret in numo's own namespace.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
}

/// How a sink shows who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotifierTls {
    /// Authorities that are trusted beside the system's, as PEM.
    pub ca_config_map: AuthorityKey,
}

/// A key of a ConfigMap that holds authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthorityKey {
    /// Name of a ConfigMap in numo's own namespace.
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = "^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Key in its `data`. Default: ca.crt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// A kind of owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum NotifiedKind {
    MutexRunConfig,
    Plan,
    NodeMaintenance,
    NodeVersion,
}

impl NotifiedKind {
    /// The kind as objects have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MutexRunConfig => "MutexRunConfig",
            Self::Plan => "Plan",
            Self::NodeMaintenance => "NodeMaintenance",
            Self::NodeVersion => "NodeVersion",
        }
    }
}

/// What is told of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[allow(
    missing_docs,
    reason = "doc comments would turn the schema's enum into a oneOf; the field documents them"
)]
pub enum Transition {
    RunBegan,
    WaveDone,
    WaitsForApproval,
    Held,
    Failed,
    Stalled,
    Finished,
    PoolLeftPaused,
}

impl Transition {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::RunBegan,
        Self::WaveDone,
        Self::WaitsForApproval,
        Self::Held,
        Self::Failed,
        Self::Stalled,
        Self::Finished,
        Self::PoolLeftPaused,
    ];

    /// The stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunBegan => "RunBegan",
            Self::WaveDone => "WaveDone",
            Self::WaitsForApproval => "WaitsForApproval",
            Self::Held => "Held",
            Self::Failed => "Failed",
            Self::Stalled => "Stalled",
            Self::Finished => "Finished",
            Self::PoolLeftPaused => "PoolLeftPaused",
        }
    }

    /// In words, as a text for people begins.
    pub const fn words(self) -> &'static str {
        match self {
            Self::RunBegan => "began",
            Self::WaveDone => "a wave is done",
            Self::WaitsForApproval => "waits for approval",
            Self::Held => "a node waits for a person",
            Self::Failed => "failed",
            Self::Stalled => "waits for a person",
            Self::Finished => "is done",
            Self::PoolLeftPaused => "a pool stays paused",
        }
    }

    /// Whether it goes on for a while, until somebody ends it; else it is a moment.
    pub const fn is_state(self) -> bool {
        matches!(
            self,
            Self::WaitsForApproval | Self::Held | Self::Stalled | Self::PoolLeftPaused
        )
    }
}

/// What became of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutexNotifierStatus {
    /// The generation of the spec that the rest speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// CloudEvents, Slack or Alertmanager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub sink: Option<String>,
    /// When a notification was delivered last, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_sent_at: Option<String>,
    /// Number of notifications that were delivered since the object was made, by what was written last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<i64>,
    /// Number of notifications that were given up: the sink refused them, or they were too old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i64>,
    /// Number of notifications that were dropped, as too many waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<i64>,
    /// How many silences numo keeps up in the Alertmanager now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silences: Option<i64>,
    /// Up to when all that happened has been dealt with, RFC 3339: a numo that begins to lead tells nothing that is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub dealt_with_until: Option<String>,
    /// Ids of notifications that were dealt with last, and of those whose state goes on: they are not told again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    pub recent: Vec<String>,
    /// `Ready`: whether the spec can be understood, its Secret and authorities are there, and the sink takes notifications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<crate::conditions::Condition>,
}
