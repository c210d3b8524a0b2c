//! Spans of what is over go to an OTLP receiver, by a task of its own. No decision waits for it: a receiver that hangs costs spans, which are
//! counted, and nothing else. Off where no endpoint is given.

use super::{metrics::Metrics, notify::Pace};
use crate::frontends::spans::Span;
use http::{HeaderName, HeaderValue, header};
use jiff::Timestamp;
use numo_plugin::{
    fetch::Direct,
    services::{Addresses, FetchRequest},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span as Wire, Status, span::SpanKind, status::StatusCode},
};
use prost::Message;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use url::Url;

/// Spans that may wait.
const WAITING: usize = 16_384;
/// Spans of one request.
const AT_ONCE: usize = 512;
/// How long a request may take, with its connection and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of an answer is read (bytes).
const ANSWER: u64 = 4096;
/// How often the same spans are sent while the receiver takes none, each time later.
const TRIES: u32 = 8;
/// Longest token (bytes).
const TOKEN: usize = 16 * 1024;

/// Where spans go, and in whose name.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// Where requests are sent, with its path.
    pub url: Url,
    /// File with a bearer token, read anew for each request.
    pub token_file: Option<PathBuf>,
    /// Who connects.
    pub direct: Arc<Direct>,
    /// Name of this instance, and its namespace.
    pub instance: (String, String),
}

/// Where spans are handed on. They cease to be sent when it is dropped.
#[derive(Clone, Debug)]
pub struct Traces {
    units: mpsc::UnboundedSender<Vec<Span>>,
    /// How many spans wait: they are bounded, not the units.
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
}

impl Traces {
    /// Begins to send.
    pub fn start(options: TraceOptions, metrics: Metrics) -> Self {
        metrics.know_spans();
        let (units, seen) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(send_all(options, seen, waiting.clone(), metrics.clone()));
        Self {
            units,
            waiting,
            metrics,
        }
    }

    /// Hands on the spans of one unit. Where there is no room they are dropped, and counted.
    pub fn show(&self, spans: Vec<Span>) {
        let number = spans.len();
        let is_full = self.waiting.load(Ordering::Relaxed).saturating_add(number) > WAITING;
        if !is_full {
            self.waiting.fetch_add(number, Ordering::Relaxed);
        }
        if is_full || self.units.send(spans).is_err() {
            self.metrics.exported("dropped", number);
        }
    }
}

/// Sends what is handed on, as much at once as waits.
async fn send_all(
    options: TraceOptions,
    mut seen: mpsc::UnboundedReceiver<Vec<Span>>,
    waiting: Arc<AtomicUsize>,
    metrics: Metrics,
) {
    let mut pace = Pace::default();
    while let Some(first) = seen.recv().await {
        let mut spans = first;
        while spans.len() < AT_ONCE
            && let Ok(more) = seen.try_recv()
        {
            spans.extend(more);
        }
        let number = spans.len();
        waiting.fetch_sub(number, Ordering::Relaxed);
        let outcome = send_until_taken(&options, &request(&options, spans), &mut pace).await;
        metrics.exported(outcome, number);
    }
}

/// What became of a request that was sent again and again.
async fn send_until_taken(options: &TraceOptions, body: &[u8], pace: &mut Pace) -> &'static str {
    for _ in 0..TRIES {
        if let Some(at) = pace.next(u32::MAX) {
            sleep_until(at).await;
        }
        match send(options, body.to_vec()).await {
            Ok(status @ 200..=299) => {
                tracing::debug!(status, "spans were taken");
                pace.took();
                return "sent";
            }
            // What the protocol says is to be sent again.
            Ok(429 | 502..=504) => pace.failed(Instant::now(), None),
            Ok(status) => {
                tracing::warn!(status, "the receiver of traces refuses spans");
                pace.took();
                return "refused";
            }
            Err(problem) => {
                tracing::warn!(problem, "spans could not be sent");
                pace.failed(Instant::now(), None);
            }
        }
    }
    "failed"
}

/// Sends one request; the status of the answer.
async fn send(options: &TraceOptions, body: Vec<u8>) -> Result<u16, String> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = vec![(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-protobuf"),
    )];
    if let Some(file) = &options.token_file {
        headers.push((header::AUTHORIZATION, token(file).await?));
    }
    let request = FetchRequest {
        head: false,
        url: options.url.clone(),
        headers,
        // An administrator names the receiver. Link-local and metadata addresses are refused all the same.
        addresses: Addresses::Anywhere,
        timeout: PATIENCE,
        body_bytes: ANSWER,
    };
    let answer = options.direct.post(request, body).await;
    answer.map(|answer| answer.status).map_err(|error| error.message)
}

async fn token(file: &PathBuf) -> Result<HeaderValue, String> {
    let wrong = |problem: &str| format!("--otlp-token-file {}: {problem}", file.display());
    let text = tokio::fs::read_to_string(file).await;
    let text = text.map_err(|error| wrong(&error.to_string()))?;
    let text = text.trim();
    if text.is_empty() || text.len() > TOKEN {
        return Err(wrong("found no token"));
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {text}"));
    if let Ok(value) = &mut value {
        value.set_sensitive(true);
    }
    value.map_err(|_| wrong("found no text that a header may have"))
}

/// The body of a request: OTLP 1, binary.
fn request(options: &TraceOptions, spans: Vec<Span>) -> Vec<u8> {
    let (instance, namespace) = &options.instance;
    let resource = Resource {
        attributes: vec![
            text("service.name", "numo"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", instance),
            text("k8s.namespace.name", namespace),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "numo".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(wire).collect(),
        ..ScopeSpans::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        }],
    };
    request.encode_to_vec()
}

fn wire(span: Span) -> Wire {
    let status = span.failed.map(|message| Status {
        message,
        code: StatusCode::Error as i32,
    });
    Wire {
        trace_id: bytes(&span.trace),
        span_id: bytes(&span.id),
        parent_span_id: span.parent.as_deref().map(bytes).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end),
        attributes: span
            .attributes
            .iter()
            .map(|(key, value)| text(key, value))
            .collect(),
        status,
        ..Wire::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or(0)
}

/// What hex digits stand for; nothing for what is none.
fn bytes(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    bytes.collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bytes_of_their_digits() {
        assert_eq!(bytes("00ff10"), [0, 255, 16]);
        assert_eq!(bytes("0g"), [0_u8; 0]);
        assert_eq!(bytes("0"), [0_u8; 0]);
    }
}
