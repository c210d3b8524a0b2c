//! `http-check`: compares an HTTP response's status, and values in its JSON, with what is wanted.
//!
//! One request for each evaluation; no answer is an error that is handed on, and a redirect is an answer
//! like any other. It may not send anything that changes the other side: GET and HEAD only.

mod expect;

use expect::{Expectation, Statuses};
use numo_rule_sdk::{
    ConfigProblem, Description, Finding, Input, RuleError, Severity, Verdict, Want, component,
    config::{self, Fields},
    host::{Http, Method, Request, Response},
    placeholder,
    serde_json::{self, Value},
    verdict::{Unmet, count, finding, known_phase, report, with_findings},
};

const PHASES: [&str; 7] = [
    "pre-run",
    "admit",
    "pre",
    "pre-release",
    "before-uncordon",
    "post",
    "post-run",
];
/// Headers that the host refuses; `proxy-*` too.
const REFUSED_HEADERS: [&str; 7] = [
    "authorization",
    "cookie",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
];

component!(describe, parse, evaluate);

/// The configuration.
#[derive(Debug)]
pub struct Config {
    url: String,
    method: Method,
    headers: Vec<(String, String)>,
    credential: Option<String>,
    timeout_milliseconds: Option<u32>,
    statuses: Statuses,
    json: Vec<Expectation>,
    unmet: Unmet,
    retry_after_seconds: u32,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    config::read(json, |fields| {
        let method = fields.choice(
            "method",
            &[("GET", Method::Get), ("HEAD", Method::Head)],
            Method::Get,
        );
        let timeout = fields.integer("timeoutMilliseconds", 1..=60_000, 0);
        let json: Vec<_> = fields.objects("json").iter().map(Expectation::read).collect();
        if matches!(method, Method::Head) && !json.is_empty() {
            fields.problem("json", "a response to HEAD has no body");
        }
        Config {
            url: url(fields).into(),
            method,
            headers: headers(fields),
            credential: fields.text("credential").map(Into::into),
            timeout_milliseconds: u32::try_from(timeout).ok().filter(|timeout| *timeout > 0),
            statuses: Statuses::read(fields),
            json,
            unmet: fields.choice("unmet", &Unmet::CHOICES, Unmet::Wait),
            retry_after_seconds: fields.retry_after_seconds(),
        }
    })
}

fn url<'a>(fields: &Fields<'a>) -> &'a str {
    let url = fields.required_text("url");
    if url.is_empty() {
        return url;
    }
    let Some(rest) = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
    else {
        fields.problem("url", "must start with https:// or http://");
        return url;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() || authority.starts_with(':') {
        fields.problem("url", "has no host");
    }
    if authority.contains('@') {
        fields.problem(
            "url",
            "must not carry a user; name a credential of the grant instead",
        );
    }
    if authority.contains('$') {
        fields.problem(
            "url",
            "placeholders stand in the path or query: the grant names the host",
        );
    }
    if url.contains('#')
        || url
            .chars()
            .any(|letter| letter.is_whitespace() || letter.is_control())
    {
        fields.problem("url", "must hold neither a fragment nor white space");
    }
    if let Some(fault) = placeholder::fault(url) {
        fields.problem("url", fault);
    }
    url
}

fn headers(fields: &Fields<'_>) -> Vec<(String, String)> {
    let headers = fields.text_map("headers");
    for (name, value) in &headers {
        let at = format!("/headers/{}", numo_rule_sdk::object::escape(name));
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(token) {
            fields.problem_at(&at, "is no name of a header");
        } else if REFUSED_HEADERS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
            fields.problem_at(
                &at,
                "the host refuses this header; for authorization name a credential",
            );
        }
        if value.chars().any(char::is_control) {
            fields.problem_at(&at, "must not hold control characters");
        }
    }
    headers
}

/// Says what the rule is.
pub fn describe() -> Description {
    Description {
        name: "http-check".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: vec![Want {
            capability: "numo:host/http".into(),
            target: String::new(),
            purpose: "Asks the server that the configuration's url names.".into(),
            optional: false,
        }],
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides.
pub fn evaluate(input: &Input, host: &impl Http) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let request = Request {
        method: config.method,
        url: placeholder::fill(&config.url, input, placeholder::in_url)?,
        headers: config.headers.clone(),
        credential: config.credential.clone(),
        timeout_milliseconds: config.timeout_milliseconds,
    };
    let response = host.fetch(&request)?;
    Ok(judge(&request.url, &response, &config))
}

fn judge(url: &str, response: &Response, config: &Config) -> Verdict {
    let place = url.split('?').next().unwrap_or_default();
    let unmet = |reason: &str, summary: String, findings| {
        config.unmet.verdict(
            with_findings(report(reason, summary), findings),
            config.retry_after_seconds,
        )
    };
    if !config.statuses.contains(response.status) {
        let redirect = if (300..400).contains(&response.status) {
            "; redirects are not followed"
        } else {
            ""
        };
        let message = format!("status {}, wanted {}{redirect}", response.status, config.statuses);
        let summary = format!("{place} answers with {message}");
        return unmet(
            "StatusUnexpected",
            summary,
            vec![finding(Severity::Error, "StatusUnexpected", message, None)],
        );
    }
    if config.json.is_empty() {
        return Verdict::Pass(report(
            "ResponseAsWanted",
            format!("{place} answers with status {}", response.status),
        ));
    }
    let Ok(body) = serde_json::from_slice::<Value>(&response.body) else {
        let found = count(response.body.len(), "byte");
        return unmet(
            "BodyNotJson",
            format!("{place} answers with {found} that are not JSON"),
            Vec::new(),
        );
    };
    let findings: Vec<Finding> = config
        .json
        .iter()
        .filter_map(|expectation| expectation.fault(&body))
        .map(|fault| finding(Severity::Error, "ValueUnexpected", fault, None))
        .collect();
    let total = count(config.json.len(), "value");
    match findings.first() {
        None => Verdict::Pass(report(
            "ResponseAsWanted",
            format!("{place} answers with {total} as wanted"),
        )),
        Some(first) => {
            let summary = format!(
                "{place}: {} of {total} unexpected: {}",
                findings.len(),
                first.message
            );
            unmet("ValueUnexpected", summary, findings)
        }
    }
}
