//! What the operator lends to an evaluation, behind traits: this crate checks grants and limits and asks; how an
//! object is read and whether the rule's ServiceAccount may read it is the operator's side. Nothing here does IO.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, value::RawValue};

use crate::{address::AddressRange, verdict::ObjectRef};

/// Objects that a reader of numo reads at once, however many are asked for.
pub const PAGE: u32 = 20;

/// Everything beyond computing that one evaluation can reach. What is none answers `unsupported`, after the grants
/// were checked.
#[derive(Clone)]
pub struct Services {
    /// The moment of the evaluation, in the API server's time. It does not move.
    pub now: Timestamp,
    /// Reads Kubernetes objects.
    pub reader: Option<Arc<dyn Reader>>,
    /// The operator's flag: Secrets may be read where a grant names them.
    pub secrets: bool,
    /// Sends HTTP requests.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// What may be attached to a request, by its name in the grant.
    pub credentials: Arc<BTreeMap<String, Credential>>,
    /// The Prometheus server of the operator's configuration.
    pub prometheus: Option<Prometheus>,
    /// What this rule said before for the same owner and node, the newest first; only the first 32 are shown.
    pub history: Arc<[HistoryEntry]>,
    /// Where its lines go.
    pub log: Arc<dyn LogSink>,
}

impl Services {
    /// No services: each call that needs a grant is `denied` or `unsupported`, lines are dropped.
    pub fn none(now: Timestamp) -> Self {
        Self {
            now,
            reader: None,
            secrets: false,
            fetch: None,
            credentials: Arc::default(),
            prometheus: None,
            history: Arc::new([]),
            log: Arc::new(Silence),
        }
    }
}

/// What went wrong, by what the component can do about it. `wit/host`, enum `error-code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// No grant covers the request.
    Denied,
    /// The grant does, but the API server or the rule's ServiceAccount does not.
    Forbidden,
    /// The request is malformed.
    Invalid,
    /// There is no such thing here.
    Unsupported,
    /// The continue token is too old.
    Expired,
    /// One answer would be larger than its limit.
    TooLarge,
    /// The evaluation has used up its calls or bytes.
    OverBudget,
    /// No answer in time, or a failure.
    Unavailable,
    /// Anything else.
    Other,
}

/// A failed call, as the component sees it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// One sentence; cut to 1,024 bytes on its way.
    pub message: String,
    /// `grant`, `limit`, `http-status`.
    pub details: Vec<(String, String)>,
}

impl HostError {
    /// Without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Vec::new(),
        }
    }

    /// With one more detail.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<String>) -> Self {
        self.details.push((key.to_owned(), value.into()));
        self
    }
}

/// Reads objects. Grants were checked; the implementation checks what the rule's ServiceAccount may read
/// (`forbidden`).
#[async_trait]
pub trait Reader: Send + Sync {
    /// One object, or none if it does not exist. `live`: from the API server and not from a cache.
    async fn get(&self, object: &ObjectRef, live: bool) -> Result<Option<Object>, HostError>;

    /// One page, at most `query.limit` objects.
    ///
    /// The same query with the same token must give the same objects in the same order, or `expired`: a page that was
    /// too long for the component is asked for again and its rest given next.
    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError>;
}

/// A list that the grants cover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// None: all namespaces, or a cluster-scoped kind.
    pub namespace: Option<String>,
    /// As `kubectl --selector`.
    pub label_selector: Option<String>,
    /// As `kubectl --field-selector`.
    pub field_selector: Option<String>,
    /// From the API server and not from a cache.
    pub live: bool,
    /// Objects wanted; at least 1.
    pub limit: u32,
    /// The reader's own token of the page before.
    pub continue_token: Option<String>,
}

/// An object as JSON text: read into values, an array of small numbers has forty times its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object(Arc<str>);

impl Object {
    /// As its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// As values.
    ///
    /// Errors: it is nested too deep to be read.
    pub fn value(&self) -> serde_json::Result<Value> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for Object {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<Box<RawValue>> for Object {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Box::<str>::from(raw).into())
    }
}

/// One page of the reader.
#[derive(Clone, Debug, Default)]
pub struct ObjectPage {
    /// Whole objects, `apiVersion` and `kind` included.
    pub items: Vec<Object>,
    /// None on the last page. At most 8 KiB.
    pub continue_token: Option<String>,
}

/// Sends one HTTP request. Grants were checked; the implementation checks addresses at the moment it connects.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// Sends it once, follows no redirect, and answers with any status.
    ///
    /// Errors: `denied` for an address that is not allowed, `too-large` above `body_bytes`, `unavailable`.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError>;
}

/// A checked request.
#[derive(Clone)]
pub struct FetchRequest {
    /// HEAD and not GET.
    pub head: bool,
    /// Absolute, `http` or `https`, without user and fragment.
    pub url: url::Url,
    /// Valid names and values, the credential included.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// Where its name may lead.
    pub addresses: Addresses,
    /// For everything: name, connection, answer.
    pub timeout: Duration,
    /// Body bytes at most.
    pub body_bytes: u64,
}

/// Where a name may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Anywhere but the machine, its metadata service and the cluster; and to these ranges.
    Outside(Vec<AddressRange>),
    /// Anywhere but where nothing leads ([`of_nobody`](crate::address::of_nobody)): the operator's own configuration, or who is root
    /// anyway, named the server.
    Anywhere,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// Any.
    pub status: u16,
    /// Names in lower case; values that are not UTF-8 left out.
    pub headers: Vec<(String, String)>,
    /// As it came, never decompressed.
    pub body: Vec<u8>,
}

/// A header that is attached to a request without the component seeing it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// `authorization`.
    pub header: String,
    /// `Bearer …`.
    pub value: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, …)", self.header)
    }
}

/// The operator's Prometheus.
#[derive(Clone)]
pub struct Prometheus {
    /// `https://thanos-querier.openshift-monitoring.svc:9091`; a path is kept.
    pub url: url::Url,
    /// Sends the query.
    pub fetch: Arc<dyn Fetch>,
    /// Attached to each query.
    pub credential: Option<Credential>,
}

/// Takes the lines of components. Called between the component's instructions: it must not block.
pub trait LogSink: Send + Sync {
    /// One line, already bounded and clean.
    fn line(&self, line: LogLine);
}

/// One line of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Debug for standard output and error.
    pub level: LogLevel,
    /// Without control characters.
    pub message: String,
    /// 16 at most.
    pub fields: Vec<(String, String)>,
}

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For the rule's author.
    Debug,
    /// For operators.
    Info,
    /// Something is odd.
    Warn,
    /// Something is wrong.
    Error,
}

/// Drops every line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl LogSink for Silence {
    fn line(&self, _: LogLine) {}
}

/// What the rule said before. `wit/host`, record `entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The run it was said in.
    pub run: String,
    /// The phase it was said in.
    pub phase: String,
    /// From 1.
    pub attempt: u32,
    /// When.
    pub at: Timestamp,
    /// `pass`, `wait`, `block` or `error`.
    pub verdict: String,
    /// Empty for an error.
    pub reason: String,
    /// Empty for an error.
    pub summary: String,
    /// As it was given.
    pub data_json: Option<String>,
}
