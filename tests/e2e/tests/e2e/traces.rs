//! Traces: an OTLP receiver has a run, its waves, its nodes, their steps and their rules, with ids that outlive a process, and one that
//! hangs holds up nobody.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use anyhow::Result;
use axum::{Router, body::Bytes, http::StatusCode, routing::post};
use numo_e2e::Stage;
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value, trace::v1::Span,
};
use prost::Message as _;
use serde_json::json;

use crate::{NEW, finish, judgement, prepare, quick, set, workers};

/// What a receiver was sent.
#[derive(Clone, Default)]
struct Receiver {
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Receiver {
    /// Receives at the URL; the first request is refused for now.
    async fn serve() -> Result<(Self, String)> {
        let receiver = Self::default();
        let taking = receiver.clone();
        let first = Arc::new(Mutex::new(true));
        let take = move |body: Bytes| {
            let (taking, first) = (taking.clone(), first.clone());
            async move {
                if std::mem::take(&mut *first.lock().unwrap()) {
                    return StatusCode::SERVICE_UNAVAILABLE;
                }
                let Ok(request) = ExportTraceServiceRequest::decode(body) else {
                    return StatusCode::BAD_REQUEST;
                };
                let scopes = request.resource_spans.into_iter().flat_map(|of| of.scope_spans);
                taking
                    .spans
                    .lock()
                    .unwrap()
                    .extend(scopes.flat_map(|of| of.spans));
                StatusCode::OK
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/otlp", listener.local_addr()?);
        let router = Router::new().route("/otlp/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((receiver, url))
    }

    /// Each span once, by its id.
    fn spans(&self) -> BTreeMap<Vec<u8>, Span> {
        let spans = self.spans.lock().unwrap();
        spans
            .iter()
            .map(|span| (span.span_id.clone(), span.clone()))
            .collect()
    }

    async fn until(
        &self,
        stage: &Stage,
        what: &str,
        is: impl Fn(&BTreeMap<Vec<u8>, Span>) -> bool,
    ) -> Result<()> {
        stage
            .until(what, 60, || async { Ok(is(&self.spans()).then_some(())) })
            .await
    }
}

fn attribute<'a>(span: &'a Span, key: &str) -> &'a str {
    let found = span.attributes.iter().find(|one| one.key == key);
    match found.and_then(|one| one.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_has_the_run_its_waves_nodes_steps_and_rules() -> Result<()> {
    let (receiver, url) = Receiver::serve().await?;
    let mut stage = set(workers(2), vec!["--otlp-endpoint", url.leak()]).await?;
    prepare(&stage, &[quick()], json!({"waves": [{"nodes": 1}, {"nodes": 1}]})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    receiver
        .until(&stage, "the run and both waves are there", |all| {
            let of = |name: &str| all.values().filter(|span| span.name == name).count();
            of("run") == 1 && of("wave") == 2 && of("node") == 2
        })
        .await?;

    let all = receiver.spans();
    let named = |name: &'static str| all.values().filter(move |span| span.name == name);
    let traces: BTreeSet<&[u8]> = all.values().map(|span| span.trace_id.as_slice()).collect();
    assert_eq!(
        traces.iter().map(|id| id.len()).collect::<Vec<_>>(),
        [16],
        "one trace"
    );
    let run = named("run").next().unwrap();
    assert!(run.parent_span_id.is_empty() && run.end_time_unix_nano > run.start_time_unix_nano);
    assert_eq!(attribute(run, "numo.target"), NEW);
    for wave in named("wave") {
        assert_eq!(wave.parent_span_id, run.span_id);
        let nodes = named("node").filter(|node| node.parent_span_id == wave.span_id);
        assert_eq!(nodes.count(), 1, "{all:?}");
    }
    for node in named("node") {
        let name = attribute(node, "k8s.node.name");
        let steps: Vec<&Span> = all
            .values()
            .filter(|span| span.parent_span_id == node.span_id)
            .collect();
        let names: BTreeSet<&str> = steps.iter().map(|span| span.name.as_str()).collect();
        assert!(
            names.contains("PreRules") && names.contains("Released"),
            "{name}: {names:?}"
        );
        let is_within = |span: &&Span| {
            node.start_time_unix_nano <= span.start_time_unix_nano
                && span.end_time_unix_nano <= node.end_time_unix_nano
        };
        assert!(steps.iter().all(is_within), "{name}: {steps:?}");
        let rules = named("rule").filter(|rule| steps.iter().any(|step| step.span_id == rule.parent_span_id));
        let phases: Vec<&str> = rules.map(|rule| attribute(rule, "numo.phase")).collect();
        let of_quick: BTreeSet<&str> = phases.iter().copied().filter(|phase| !phase.is_empty()).collect();
        assert_eq!(of_quick, ["Post", "Pre"].into(), "{name}");
    }

    // The log says which trace a line is part of, and nothing has another id for the next process.
    let logs: String = std::fs::read_dir(stage.cluster.logs())?
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok())
        .collect();
    let trace = run
        .trace_id
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    // Whoever has the id of a run finds its lines, and by them its trace.
    let id = attribute(run, "numo.run.id");
    let lines = logs
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let spans: BTreeSet<(String, String)> = lines
        .filter_map(|line| {
            let of = |key: &str| line["span"][key].as_str().map(ToOwned::to_owned);
            Some((of("run")?, of("trace_id")?))
        })
        .collect();
    assert!(
        spans.contains(&(id.to_owned(), trace)),
        "the run and its trace: {spans:?}"
    );
    let before: BTreeSet<Vec<u8>> = all.keys().cloned().collect();
    stage.kill_numo().await?;
    stage.start_numo()?;
    let told = receiver.spans.lock().unwrap().len();
    receiver
        .until(
            &stage,
            "the next process tells of what ended a moment ago",
            |_| receiver.spans.lock().unwrap().len() > told,
        )
        .await?;
    let after: BTreeSet<Vec<u8>> = receiver.spans().into_keys().collect();
    assert_eq!(after, before);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_holds_up_nobody() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let hanging = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok(one) = listener.accept().await {
            open.push(one);
        }
    });
    let stage = set(workers(2), vec!["--otlp-endpoint", url.leak()]).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    hanging.abort();
    stage.strike().await
}
