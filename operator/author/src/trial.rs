//! One evaluation outside of the operator: the same sandbox, limits and order of checks; only where the answers come
//! from differs.

use numo_api::Phase;
use numo_cli::CliError;
use numo_plugin::{
    Answer, Grants, Input, ObjectRef, Reason, Refused, Rule, RuleLimits, Services, Terms,
    description::Want,
    grants::{HttpGrant, Scheme},
    services::{LogLevel, LogLine, LogSink},
    verdict::Node,
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

/// What a component is asked, and with what.
#[derive(Clone)]
pub(crate) struct Trial {
    /// The question.
    pub(crate) input: Input,
    /// What is granted, and how much.
    pub(crate) terms: Terms,
    /// Who answers.
    pub(crate) services: Services,
}

impl Trial {
    /// Asks as the operator does: the configuration is checked first.
    pub(crate) async fn ask(self, rule: &Rule) -> Result<Answer, Refused> {
        if let Err(problems) = rule.validate_config(&self.input.config_json).await? {
            let words: Vec<_> = problems
                .iter()
                .map(|problem| format!("config{}: {}", problem.pointer, problem.message))
                .collect();
            return Err(Refused::new(Reason::InvalidConfig, words.join("; ")));
        }
        rule.evaluate(self.input, &self.terms, self.services).await
    }

    /// Asks, and gives the lines of its log beside.
    pub(crate) async fn ask_aloud(mut self, rule: &Rule) -> (Result<Answer, Refused>, Vec<String>) {
        let lines = Arc::new(Lines::default());
        self.services.log = lines.clone();
        let outcome = self.ask(rule).await;
        let lines = std::mem::take(&mut *lines.0.lock().unwrap_or_else(PoisonError::into_inner));
        (outcome, lines)
    }
}

/// Keeps what a component logs.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, line: LogLine) {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        };
        let mut text = format!("{level}: {}", line.message);
        for (key, value) in &line.fields {
            let _ = write!(text, " {key}={value}");
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// The Node as a component is given it: with its kind, without managed fields and images.
pub(crate) fn node(mut object: Value) -> Result<Node, String> {
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if name.is_empty() {
        return Err("found no metadata.name".to_owned());
    }
    for (field, wanted) in [("apiVersion", "v1"), ("kind", "Node")] {
        match object.get(field) {
            None => object[field] = wanted.into(),
            Some(found) if found != wanted => return Err(format!("{field}: found {found}, wanted {wanted}")),
            Some(_) => {}
        }
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("images");
    }
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    Ok(Node {
        uid: uid.map_or_else(|| format!("uid-of-{name}"), str::to_owned),
        object_json: object.to_string(),
        name,
    })
}

/// Every phase, in the order of a node's way.
const PHASES: [Phase; 8] = [
    Phase::PreRun,
    Phase::Admit,
    Phase::Pre,
    Phase::PreRelease,
    Phase::BeforeUncordon,
    Phase::Post,
    Phase::OnFailure,
    Phase::PostRun,
];

/// A phase in the contract's words, from those or from a MutexRule's.
pub(crate) fn phase(text: &str) -> Result<String, String> {
    let own = |phase: &Phase| numo_plugin::spec::phase(*phase);
    let found = PHASES
        .iter()
        .find(|phase| phase.name() == text || own(phase) == text);
    found.map(|phase| own(phase).to_owned()).ok_or_else(|| {
        let names: Vec<_> = PHASES.iter().map(|phase| phase.name()).collect();
        format!("found {text:?}, wanted one of {}", names.join(", "))
    })
}

/// Whether a phase is about a node.
pub(crate) fn needs_node(phase: &str) -> bool {
    !numo_plugin::description::PHASES_OF_A_RUN.contains(&phase)
}

/// The owner of an evaluation that has none.
pub(crate) fn owner(namespace: &str) -> ObjectRef {
    ObjectRef {
        api_version: format!("{}/{}", numo_api::GROUP, numo_api::VERSION),
        kind: "MutexRunConfig".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: "trial".to_owned(),
    }
}

/// Grants for all that is wanted, and nothing beside. Where the component leaves it to its configuration which server
/// it asks, these are granted.
pub(crate) fn all_wanted(wants: &[Want], servers: &[url::Url]) -> Result<Grants, CliError> {
    let named: Vec<Want> = wants
        .iter()
        .filter(|want| want.capability != "numo:host/http" || !want.target.is_empty())
        .cloned()
        .collect();
    let grants = Value::Object(super::scaffold::grants(&named));
    let mut grants: Grants = serde_json::from_value(grants)
        .map_err(|error| CliError::Wrong(format!("what the component wants cannot be granted: {error}")))?;
    if wants.iter().any(|want| want.capability == "numo:host/http") {
        for server in servers {
            let grant = HttpGrant {
                host: server
                    .host_str()
                    .unwrap_or_default()
                    .trim_matches(['[', ']'])
                    .to_owned(),
                port: server.port_or_known_default(),
                scheme: if server.scheme() == "http" {
                    Scheme::Http
                } else {
                    Scheme::Https
                },
                addresses: Vec::new(),
                credentials: Vec::new(),
            };
            if !grants.http.contains(&grant) {
                grants.http.push(grant);
            }
        }
    }
    Ok(grants)
}

/// What an evaluation took, in words.
pub(crate) fn used(rule: &Rule, limits: &RuleLimits, answer: &Answer) -> String {
    let usage = answer.usage;
    let duration = format!("{:.1} ms", usage.duration.as_secs_f64() * 1000.0);
    match rule.limits(limits) {
        Ok(most) => format!(
            "{duration} of {} s, {} of {} memory, {} of {} host calls, {} of {} read",
            most.evaluation_seconds,
            size(usage.memory_bytes),
            size(most.memory_bytes),
            usage.host_calls,
            most.all_calls,
            size(usage.host_bytes),
            size(most.host_bytes)
        ),
        Err(_) => duration,
    }
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

/// As JSON for programs.
pub(crate) fn usage_json(answer: &Answer) -> Value {
    let usage = answer.usage;
    serde_json::json!({
        "milliseconds": usage.duration.as_secs_f64() * 1000.0,
        "memoryBytes": usage.memory_bytes,
        "hostCalls": usage.host_calls,
        "hostBytes": usage.host_bytes,
    })
}
