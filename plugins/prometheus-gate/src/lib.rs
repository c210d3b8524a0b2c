//! `prometheus-gate`: compares the answer to a PromQL query with a threshold, and passes when it held for a
//! duration.
//!
//! How long it has held is remembered through the history, for one run, phase, attempt and configuration.
//! It may not count a time in which it was not asked.

mod gate;

use gate::{Gate, Judged};
use numo_rule_sdk::{
    ConfigProblem, Description, Input, Report, RuleError, Verdict, Wait, Want, component,
    config::{self, Fields},
    host::{Clock, History, Prometheus},
    placeholder,
    serde_json::{Value, json},
    verdict::{Unmet, known_phase, wait},
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

component!(describe, parse, evaluate);

/// The configuration.
#[derive(Debug)]
pub struct Config {
    query: String,
    gate: Gate,
    for_seconds: u64,
    most_gap_seconds: u64,
    unmet: Unmet,
    retry_after_seconds: u32,
    /// Tells one configuration from another in the history.
    fingerprint: String,
}

/// Reads the configuration.
pub fn parse(json: &str) -> Result<Config, Vec<ConfigProblem>> {
    config::read(json, |fields| Config {
        query: query(fields).into(),
        gate: Gate::read(fields),
        for_seconds: fields.integer("forSeconds", 0..=86_400, 0),
        most_gap_seconds: fields.integer("maxGapSeconds", 10..=3600, 300),
        unmet: fields.choice("unmet", &Unmet::CHOICES, Unmet::Wait),
        retry_after_seconds: fields.retry_after_seconds(),
        fingerprint: fingerprint(json),
    })
}

fn query<'a>(fields: &Fields<'a>) -> &'a str {
    let query = fields.required_text("query");
    if let Some(fault) = placeholder::fault(query) {
        fields.problem("query", fault);
    }
    query
}

/// FNV-1a: not against anyone who wants two configurations to look alike, only against a change unnoticed.
fn fingerprint(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Says what the rule is.
pub fn describe() -> Description {
    Description {
        name: "prometheus-gate".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        summary: env!("CARGO_PKG_DESCRIPTION").into(),
        phases: PHASES.map(Into::into).to_vec(),
        wants: vec![Want {
            capability: "numo:host/prometheus".into(),
            target: String::new(),
            purpose: "Evaluates the query of the configuration.".into(),
            optional: false,
        }],
        config_schema_json: Some(include_str!("../config.schema.json").into()),
        attributes: Vec::new(),
    }
}

/// Decides.
pub fn evaluate(input: &Input, host: &(impl Prometheus + History + Clock)) -> Result<Verdict, RuleError> {
    known_phase(input, &PHASES)?;
    let config = parse(&input.config_json).map_err(RuleError::InvalidConfig)?;
    let query = placeholder::fill(&config.query, input, placeholder::in_promql)?;
    match config.gate.judge(&host.query(&query)?) {
        Judged::Met(report) => held(input, host, &config, report),
        Judged::Unknown(report) => Ok(wait(report, config.retry_after_seconds)),
        Judged::Unmet(report) => Ok(config.unmet.verdict(report, config.retry_after_seconds)),
        Judged::Blocked(report) => Ok(Verdict::Block(report)),
    }
}

/// The condition is met now; whether it has been for long enough.
fn held(
    input: &Input,
    host: &(impl History + Clock),
    config: &Config,
    mut report: Report,
) -> Result<Verdict, RuleError> {
    if config.for_seconds == 0 {
        return Ok(Verdict::Pass(report));
    }
    let now = host.now().seconds;
    let since = held_since(input, host, config, now)?.unwrap_or(now);
    report.data_json = Some(json!({"since": since, "seen": now, "config": config.fingerprint}).to_string());
    let held = now.saturating_sub(since);
    if held >= config.for_seconds {
        return Ok(Verdict::Pass(report));
    }
    let left = config.for_seconds - held;
    report.reason = "Holding".into();
    report.summary = format!("{} for {held} s of {} s", report.summary, config.for_seconds);
    // Asked less often than the longest gap, the duration would begin anew each time.
    let often = (config.most_gap_seconds / 2).max(5);
    let retry = u32::try_from(left.min(often))
        .unwrap_or(u32::MAX)
        .min(config.retry_after_seconds);
    Ok(Verdict::Wait(Wait {
        report,
        retry_after_seconds: retry,
        progress_percent: u8::try_from(held * 100 / config.for_seconds).ok(),
    }))
}

/// Since when the condition has held without a gap, as the newest answer in this phase says.
/// Errors in between do not count as an answer: the gap that they make is measured instead. A pass that is asked for
/// once more is another attempt, and goes on.
fn held_since(
    input: &Input,
    host: &impl History,
    config: &Config,
    now: u64,
) -> Result<Option<u64>, RuleError> {
    let entries = host.entries(0)?;
    let newest = entries.iter().find(|entry| {
        entry.run == input.run
            && entry.phase == input.phase
            && matches!(entry.verdict.as_str(), "pass" | "wait" | "block")
    });
    let Some(data) = newest.and_then(|entry| entry.data_json.as_deref()) else {
        return Ok(None);
    };
    let Ok(data) = numo_rule_sdk::serde_json::from_str::<Value>(data) else {
        return Ok(None);
    };
    let number = |name: &str| data.get(name).and_then(Value::as_u64);
    let (Some(since), Some(seen)) = (number("since"), number("seen")) else {
        return Ok(None);
    };
    let same = data.get("config").and_then(Value::as_str) == Some(&config.fingerprint);
    let unbroken = since <= seen && seen <= now && now - seen <= config.most_gap_seconds;
    Ok((same && unbroken).then_some(since))
}
