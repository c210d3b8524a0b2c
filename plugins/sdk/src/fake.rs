//! A host in memory, for native tests of rules. It applies field masks, pages and budgets as the contract
//! says, so that a rule that forgets a field, a page or an error fails its tests. Never part of a component.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a fixture that is wrong is the test's failure"
)]

use crate::{
    ConfigProblem, Description, Error, ErrorCode, Input, Node, ObjectRef, RuleError, Verdict,
    host::{
        Answer, Clock, Entry, Freshness, History, Http, Instant, Kubernetes, ListQuery, Page, Projection,
        Prometheus, Request, Response, Sample,
    },
    object::text,
};
use serde_json::{Value, json};
use std::cell::RefCell;

/// The moment at which every fake evaluation begins unless a test moves it.
pub const NOW: u64 = 1_800_000_000;

/// What the fake host knows, and how it misbehaves.
#[derive(Debug, Default)]
pub struct World {
    objects: Vec<Value>,
    /// Most objects on a page.
    pub page_size: usize,
    /// How many continue tokens are answered with `expired`.
    pub expire_tokens: u32,
    /// What the cache holds instead, if it lags behind.
    pub cache: Option<Box<World>>,
    /// Kinds that answer with an error.
    pub errors: Vec<(&'static str, ErrorCode)>,
    /// What the rule said before, the newest first.
    pub history: Vec<Entry>,
    /// Whether history can be read.
    pub history_error: Option<ErrorCode>,
    /// Seconds of the clock.
    pub now: u64,
    /// What Prometheus answers.
    pub prometheus: Option<Result<Answer, ErrorCode>>,
    /// What the HTTP server answers.
    pub http: Option<Result<Response, ErrorCode>>,
    fail_after: Option<(usize, ErrorCode)>,
    expired: RefCell<u32>,
    calls: RefCell<Vec<String>>,
    requests: RefCell<Vec<Request>>,
}

impl World {
    /// A world of the objects in a YAML text of many documents.
    pub fn new(yaml: &str) -> World {
        let mut world = World {
            page_size: 3,
            now: NOW,
            ..World::default()
        };
        for document in documents(yaml) {
            world.objects.push(document);
        }
        world
    }

    /// Adds one object, as YAML.
    pub fn add(&mut self, yaml: &str) {
        self.objects.extend(documents(yaml));
    }

    /// Lets every call after the first `calls` fail.
    pub fn fail_after(&mut self, calls: usize, code: ErrorCode) {
        self.fail_after = Some((calls, code));
    }

    /// What was asked so far.
    pub fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }

    /// The HTTP requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.borrow().clone()
    }

    /// What was said in a phase of the run, as the newest entry of the history.
    pub fn remember(&mut self, phase: &str, at: u64, verdict: &Verdict) {
        let (word, report) = match verdict {
            Verdict::Pass(report) => ("pass", report),
            Verdict::Wait(wait) => ("wait", &wait.report),
            Verdict::Block(report) => ("block", report),
        };
        let entry = Entry {
            run: "run-1".into(),
            phase: phase.into(),
            attempt: 1,
            at: Instant {
                seconds: at,
                nanoseconds: 0,
            },
            verdict: word.into(),
            reason: report.reason.clone(),
            summary: report.summary.clone(),
            data_json: report.data_json.clone(),
        };
        self.history.insert(0, entry);
    }

    fn call(&self, what: String, kind: &str) -> Result<(), Error> {
        let mut calls = self.calls.borrow_mut();
        calls.push(what);
        if let Some((allowed, code)) = self.fail_after
            && calls.len() > allowed
        {
            return Err(error(code));
        }
        match self.errors.iter().find(|(failing, _)| *failing == kind) {
            Some((_, code)) => Err(error(*code)),
            None => Ok(()),
        }
    }

    fn seen(&self, freshness: Freshness) -> &[Value] {
        match (&self.cache, freshness) {
            (Some(cache), Freshness::Cached) => &cache.objects,
            _ => &self.objects,
        }
    }
}

impl Kubernetes for World {
    fn get_object(&self, object: &ObjectRef, projection: &Projection) -> Result<Option<String>, Error> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        self.call(
            format!("get {} {namespace}/{}", object.kind, object.name),
            &object.kind,
        )?;
        let found = self.seen(projection.freshness).iter().find(|candidate| {
            is_of(candidate, &object.api_version, &object.kind)
                && text(candidate, "/metadata/namespace") == namespace
                && text(candidate, "/metadata/name") == object.name
        });
        Ok(found.map(|found| project(found, &projection.fields).to_string()))
    }

    fn list_objects(&self, query: &ListQuery) -> Result<Page, Error> {
        let namespace = query.namespace.as_deref().unwrap_or("*");
        self.call(format!("list {} {namespace}", query.kind), &query.kind)?;
        if query.continue_token.is_some() && *self.expired.borrow() < self.expire_tokens {
            *self.expired.borrow_mut() += 1;
            return Err(error(ErrorCode::Expired));
        }
        assert!(
            query.label_selector.is_none(),
            "the fake host knows no label selectors"
        );
        let node = query.field_selector.as_deref().map(|selector| {
            selector
                .strip_prefix("spec.nodeName=")
                .expect("the fake host knows spec.nodeName only")
        });
        let matching: Vec<_> = self
            .seen(query.projection.freshness)
            .iter()
            .filter(|object| is_of(object, &query.api_version, &query.kind))
            .filter(|object| namespace == "*" || text(object, "/metadata/namespace") == namespace)
            .filter(|object| node.is_none_or(|node| text(object, "/spec/nodeName") == node))
            .collect();
        let start: usize = query
            .continue_token
            .as_deref()
            .map_or(0, |token| token.parse().expect("our own token"));
        let end = matching.len().min(start + self.page_size);
        let items = matching[start..end]
            .iter()
            .map(|object| project(object, &query.projection.fields).to_string());
        let continue_token = (end < matching.len()).then(|| end.to_string());
        Ok(Page {
            items: items.collect(),
            continue_token,
        })
    }
}

impl Http for World {
    fn fetch(&self, request: &Request) -> Result<Response, Error> {
        self.requests.borrow_mut().push(request.clone());
        self.http
            .clone()
            .expect("the test gives an HTTP response")
            .map_err(error)
    }
}

impl Prometheus for World {
    fn query(&self, promql: &str) -> Result<Answer, Error> {
        self.calls.borrow_mut().push(promql.into());
        self.prometheus
            .clone()
            .expect("the test gives an answer of Prometheus")
            .map_err(error)
    }
}

impl Clock for World {
    fn now(&self) -> Instant {
        Instant {
            seconds: self.now,
            nanoseconds: 0,
        }
    }
}

impl History for World {
    fn entries(&self, limit: u32) -> Result<Vec<Entry>, Error> {
        if let Some(code) = self.history_error {
            return Err(error(code));
        }
        let limit = if limit == 0 { 32 } else { limit.min(32) };
        Ok(self.history.iter().take(limit as usize).cloned().collect())
    }
}

/// An error of the host.
pub fn error(code: ErrorCode) -> Error {
    Error {
        code,
        message: "the fake host fails as told".into(),
        details: Vec::new(),
    }
}

/// An input for the node `w1` in the run `run-1`.
pub fn input(phase: &str, config: &str) -> Input {
    Input {
        run: "run-1".into(),
        owner: ObjectRef {
            api_version: "openshift-optional.skrzypek.io/v1alpha1".into(),
            kind: "MutexRunConfig".into(),
            namespace: Some("ops".into()),
            name: "workers".into(),
        },
        phase: phase.into(),
        attempt: 1,
        node: Some(Node {
            name: "w1".into(),
            uid: "u1".into(),
            object_json: "{}".into(),
        }),
        pool: None,
        from_version: None,
        to_version: None,
        config_json: config.into(),
        attributes: Vec::new(),
    }
}

/// An answer of Prometheus: one sample for each value, labelled `instance`.
pub fn answer(values: &[f64]) -> Answer {
    let sample = |(index, value): (usize, &f64)| Sample {
        labels: vec![("instance".into(), format!("i{index}"))],
        value: *value,
    };
    Answer {
        samples: values.iter().enumerate().map(sample).collect(),
        warnings: Vec::new(),
    }
}

/// A verdict in one line: word, reason, and the codes of the findings with the objects they point at.
pub fn line(verdict: &Result<Verdict, RuleError>) -> String {
    let (word, report) = match verdict {
        Ok(Verdict::Pass(report)) => ("pass", report),
        Ok(Verdict::Wait(wait)) => ("wait", &wait.report),
        Ok(Verdict::Block(report)) => ("block", report),
        Err(RuleError::Host(error)) => return format!("host error {:?}", error.code),
        Err(RuleError::InvalidConfig(problems)) => {
            return format!("invalid config {}", pointers(problems).join(" "));
        }
        Err(RuleError::Failed(message)) => return format!("failed: {message}"),
    };
    assert_limits(report);
    let mut line = format!("{word} {}", report.reason);
    for finding in &report.findings {
        line.push(' ');
        line.push_str(&finding.code);
        if let Some(object) = &finding.object {
            line.push('=');
            line.push_str(object.namespace.as_deref().unwrap_or_default());
            line.push('/');
            line.push_str(&object.name);
        }
    }
    line
}

fn assert_limits(report: &crate::Report) {
    let camel = |text: &str| {
        text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_alphanumeric())
    };
    assert!(camel(&report.reason), "reason {:?}", report.reason);
    assert!(report.summary.len() <= 1024 && report.findings.len() <= 64);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| camel(&finding.code) && finding.message.len() <= 1024)
    );
    assert!(
        report
            .data_json
            .as_ref()
            .is_none_or(|data| data.len() <= 16 * 1024)
    );
}

/// The pointers of some problems.
pub fn pointers(problems: &[ConfigProblem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.pointer.as_str()).collect()
}

/// Checks what every rule promises of itself: that its description is complete, that the schema and
/// `parse` agree on the configurations given, and that its example is valid and grants what it wants.
pub fn check_rule<T>(
    description: &Description,
    parse: impl Fn(&str) -> Result<T, Vec<ConfigProblem>>,
    example: &str,
    right: &[&str],
    wrong: &[(&str, &str)],
) {
    assert_eq!(
        description.name.replace('-', "").to_lowercase(),
        description.name.replace('-', "")
    );
    assert!(!description.phases.is_empty() && !description.summary.is_empty());
    let schema: Value =
        serde_json::from_str(description.config_schema_json.as_deref().expect("a schema")).unwrap();
    let schema = jsonschema::validator_for(&schema).expect("a valid JSON Schema");
    for config in right {
        let value: Value = serde_json::from_str(config).unwrap();
        let refused: Vec<_> = schema
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(refused.is_empty(), "the schema refuses {config}: {refused:?}");
        if let Err(problems) = parse(config) {
            panic!("{config} is refused: {problems:?}");
        }
    }
    for (config, pointer) in wrong {
        let problems = parse(config)
            .err()
            .unwrap_or_else(|| panic!("{config} is accepted"));
        assert!(
            pointers(&problems).contains(pointer),
            "{config}: {problems:?}, expected one at {pointer:?}"
        );
    }
    check_example(description, parse, &schema, example);
}

fn check_example<T>(
    description: &Description,
    parse: impl Fn(&str) -> Result<T, Vec<ConfigProblem>>,
    schema: &jsonschema::Validator,
    example: &str,
) {
    let rules: Vec<_> = documents(example)
        .into_iter()
        .filter(|object| text(object, "/kind") == "MutexRule")
        .collect();
    assert!(!rules.is_empty(), "the example has no MutexRule");
    for rule in rules {
        assert_eq!(text(&rule, "/spec/type"), "wasm");
        let config = rule
            .pointer("/spec/wasm/config")
            .cloned()
            .unwrap_or_else(|| json!({}));
        assert!(
            schema.is_valid(&config),
            "the schema refuses the example's config"
        );
        if let Err(problems) = parse(&config.to_string()) {
            panic!("the example's config is refused: {problems:?}");
        }
        for phase in rule
            .pointer("/spec/phases")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let phase = kebab(phase.as_str().expect("a phase"));
            assert!(
                description.phases.contains(&phase),
                "the rule does not know phase {phase}"
            );
        }
        for want in description.wants.iter().filter(|want| !want.optional) {
            assert!(
                is_granted(&rule, &want.capability, &want.target),
                "the example grants no {want:?}"
            );
        }
    }
}

fn is_granted(rule: &Value, capability: &str, target: &str) -> bool {
    let interface = capability.strip_prefix("numo:host/").expect("a host interface");
    let Some(grant) = rule.pointer(&format!("/spec/wasm/grants/{interface}")) else {
        return false;
    };
    if interface != "kubernetes" {
        return true;
    }
    grant
        .as_array()
        .into_iter()
        .flatten()
        .any(|grant| format!("{}/{}", text(grant, "/apiVersion"), text(grant, "/kind")) == target)
}

fn kebab(camel: &str) -> String {
    let mut kebab = String::new();
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}

fn documents(yaml: &str) -> Vec<Value> {
    if yaml.trim().is_empty() {
        return Vec::new();
    }
    serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("the fixture is no YAML: {error}"))
}

fn is_of(object: &Value, api_version: &str, kind: &str) -> bool {
    text(object, "/apiVersion") == api_version && text(object, "/kind") == kind
}

/// Applies a field mask as the contract says.
fn project(object: &Value, fields: &[String]) -> Value {
    if fields.is_empty() {
        return object.clone();
    }
    let always = [
        "/apiVersion",
        "/kind",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid",
    ];
    let mut kept = json!({});
    for pointer in fields.iter().map(String::as_str).chain(always) {
        let tokens: Vec<_> = pointer
            .split('/')
            .skip(1)
            .map(|token| token.replace("~1", "/").replace("~0", "~"))
            .collect();
        if let Some(part) = keep(object, &tokens) {
            merge(&mut kept, part);
        }
    }
    kept
}

fn keep(value: &Value, tokens: &[String]) -> Option<Value> {
    let Some((token, rest)) = tokens.split_first() else {
        return Some(value.clone());
    };
    match value {
        Value::Object(map) if token == "*" => Some(Value::Object(
            map.iter()
                .filter_map(|(key, value)| Some((key.clone(), keep(value, rest)?)))
                .collect(),
        )),
        Value::Object(map) => Some(json!({ token: keep(map.get(token)?, rest)? })),
        Value::Array(items) if token == "*" => Some(Value::Array(
            items
                .iter()
                .map(|item| keep(item, rest).unwrap_or_else(|| json!({})))
                .collect(),
        )),
        _ => None,
    }
}

fn merge(into: &mut Value, part: Value) {
    match (into, part) {
        (Value::Object(into), Value::Object(part)) => {
            for (key, value) in part {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(part)) => {
            for (into, part) in into.iter_mut().zip(part) {
                merge(into, part);
            }
        }
        (into, part) => *into = part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_what_they_name_and_the_identity() {
        let object = json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u", "labels": {"a/b": "1", "c": "2"}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "message": "m"}, {"type": "Other"}]}});
        let fields = [
            "/metadata/labels/a~1b",
            "/status/conditions/*/type",
            "/status/conditions/*/status",
            "/none",
        ];
        let kept = project(&object, &fields.map(Into::into));
        assert_eq!(
            kept,
            json!({"kind": "Pod", "metadata": {"name": "p", "uid": "u", "labels": {"a/b": "1"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]}})
        );
    }
}
