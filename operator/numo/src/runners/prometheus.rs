//! The prometheus runner: from a MutexRule's query to PromQL, and from what it is answered to an answer of the rule. It
//! asks nobody. How long something has been so it knows only from what it said before, and a time in which it was not
//! asked does not count.

use super::{facts, wasm::Fault};
use jiff::Timestamp;
use numo_api::{
    AlertMatch, Comparison, Matching, NoData, NotANumber, PrometheusRule, Reason, Unmet, Warnings,
};
use numo_core::{
    action::{Earlier, EvaluationRequest},
    names,
    observed::{RuleAnswer, RuleWords},
    text::first_of,
};
use numo_plugin::prometheus::{Answer, Sample};
use serde_json::{Value, json};

/// Longest sentence (characters).
const SUMMARY: usize = 512;
/// Names in one sentence.
const NAMED: usize = 3;
const RETRY_AFTER_SECONDS: i32 = 30;
const MAX_GAP_SECONDS: i32 = 300;
/// The label that tells which question a sample answers, and its value for the alert that always fires.
const MARK: &str = "numo_question";
const WATCHDOG: &str = "watchdog";

/// What is wrong with a rule, whatever Prometheus says.
pub fn shape(rule: &PrometheusRule) -> Result<(), Fault> {
    let invalid = |message: String| Err((Reason::InvalidConfig, format!("spec.prometheus{message}")));
    match (&rule.query, &rule.alerts) {
        (Some(_), Some(_)) => invalid(": found query and alerts, wanted one of them".to_owned()),
        (None, None) => invalid(": found neither query nor alerts, wanted one of them".to_owned()),
        (Some(query), None) => {
            if let Some(fault) = facts::fault(query) {
                return invalid(format!(".query: {fault}"));
            }
            match (rule.operator, rule.threshold) {
                (None, _) => invalid(".operator: found nothing, wanted one beside query".to_owned()),
                (_, None) => invalid(".threshold: found nothing, wanted a number beside query".to_owned()),
                (Some(_), Some(_)) => Ok(()),
            }
        }
        (None, Some(alerts)) => {
            let of_query = [
                ("operator", rule.operator.is_some()),
                ("threshold", rule.threshold.is_some()),
                ("match", rule.matching.is_some()),
                ("noData", rule.no_data.is_some()),
                ("nan", rule.nan.is_some()),
            ];
            if let Some((field, _)) = of_query.iter().find(|(_, given)| *given) {
                return invalid(format!(
                    ".{field}: found it beside alerts, wanted it with query only"
                ));
            }
            let watchdog = alerts.watchdog.as_ref().map(|watchdog| ("watchdog", watchdog));
            for (field, matchers) in [("matchers", &alerts.matchers)].into_iter().chain(watchdog) {
                if matchers.is_empty() {
                    return invalid(format!(".alerts.{field}: found none, wanted one at least"));
                }
                for (index, matcher) in matchers.iter().enumerate() {
                    if let Some(fault) = fault_of_matcher(matcher) {
                        return invalid(format!(".alerts.{field}[{index}]: {fault}"));
                    }
                }
            }
            Ok(())
        }
    }
}

/// A label, `=`, `!=`, `=~` or `!~`, and a text in double quotes that ends where the matcher does: nothing else may
/// reach the query.
fn fault_of_matcher(matcher: &str) -> Option<String> {
    let wanted = || {
        Some(format!(
            "found {matcher:?}, wanted for example severity=\"critical\""
        ))
    };
    if let Some(fault) = facts::fault(matcher) {
        return Some(fault);
    }
    let end = matcher.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let Some(end) = end else { return wanted() };
    let (label, rest) = matcher.split_at(end);
    if matches!(label, "alertstate" | "__name__") {
        return Some(format!("found {label}, which every query of alerts has already"));
    }
    if label.is_empty() || label.starts_with(|c: char| c.is_ascii_digit()) {
        return wanted();
    }
    let operators = ["=~", "!~", "!=", "="];
    let text = operators.iter().find_map(|operator| rest.strip_prefix(operator));
    let Some(text) = text.and_then(|text| text.strip_prefix('"')) else {
        return wanted();
    };
    let mut escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return wanted(),
            '"' => return if index + 1 == text.len() { None } else { wanted() },
            _ => {}
        }
    }
    wanted()
}

/// What Prometheus is asked.
///
/// Errors: a name in the query has no value in this phase.
pub fn promql(rule: &PrometheusRule, request: &EvaluationRequest) -> Result<String, Fault> {
    let query = match (&rule.query, &rule.alerts) {
        (Some(query), _) => query.clone(),
        (None, Some(alerts)) => {
            let firing =
                |matchers: &[String]| format!("ALERTS{{alertstate=\"firing\",{}}}", matchers.join(","));
            let marked = |matchers: &[String], mark: &str| {
                format!(
                    "label_replace({},\"{MARK}\",\"{mark}\",\"\",\"\")",
                    firing(matchers)
                )
            };
            match &alerts.watchdog {
                None => firing(&alerts.matchers),
                Some(watchdog) => format!(
                    "{} or {}",
                    marked(&alerts.matchers, "match"),
                    marked(watchdog, WATCHDOG)
                ),
            }
        }
        (None, None) => String::new(),
    };
    facts::fill(&query, request, facts::in_promql)
        .map_err(|error| (Reason::RuleError, format!("spec.prometheus: {error}")))
}

/// What an answer is.
enum Judged {
    Met(String, String),
    Unmet(String, String),
    /// Nobody can tell.
    Unknown(String, String),
    Blocked(String, String),
}

/// What an answer means for the node.
pub fn judge(
    rule: &PrometheusRule,
    request: &EvaluationRequest,
    answer: &Answer,
    now: Timestamp,
) -> RuleAnswer {
    let seconds = i64::from(rule.retry_after_seconds.unwrap_or(RETRY_AFTER_SECONDS));
    let words = |reason: String, summary: &str| RuleWords {
        reason,
        summary: numo_core::rules::clip(summary, SUMMARY),
        ..RuleWords::default()
    };
    let judged = if !answer.warnings.is_empty() && rule.warnings != Some(Warnings::Ignore) {
        let warnings = named(&answer.warnings);
        Judged::Unknown(
            "AnswerIncomplete".to_owned(),
            format!("Prometheus warns of its answer: {warnings}"),
        )
    } else if let Some(alerts) = &rule.alerts {
        of_alerts(alerts, answer)
    } else {
        of_query(rule, answer)
    };
    match judged {
        Judged::Met(reason, summary) => held(rule, request, now, words(reason, &summary)),
        Judged::Unknown(reason, summary) => RuleAnswer::Wait(words(reason, &summary), seconds),
        Judged::Blocked(reason, summary) => RuleAnswer::Block(words(reason, &summary)),
        Judged::Unmet(reason, summary) => match rule.unmet.unwrap_or_default() {
            Unmet::Wait => RuleAnswer::Wait(words(reason, &summary), seconds),
            Unmet::Block => RuleAnswer::Block(words(reason, &summary)),
        },
    }
}

fn of_alerts(wanted: &AlertMatch, answer: &Answer) -> Judged {
    let is_watchdog = |sample: &&Sample| {
        let marked = |(name, value): &(String, String)| name == MARK && value == WATCHDOG;
        sample.labels.iter().any(marked)
    };
    let (watchdogs, alerts): (Vec<&Sample>, Vec<&Sample>) = answer.samples.iter().partition(is_watchdog);
    if alerts.is_empty() {
        return match &wanted.watchdog {
            Some(watchdog) if watchdogs.is_empty() => Judged::Unknown(
                "WatchdogSilent".to_owned(),
                format!(
                    "no alert fires that matches {}, so that nobody would know of others",
                    watchdog.join(", ")
                ),
            ),
            _ => Judged::Met("NoAlertFires".to_owned(), "no such alert fires".to_owned()),
        };
    }
    let mut names: Vec<String> = alerts.into_iter().map(alert).collect();
    names.sort();
    names.dedup();
    let verb = if names.len() == 1 { "fires" } else { "fire" };
    Judged::Unmet("AlertFires".to_owned(), format!("{} {verb}", named(&names)))
}

/// An alert as people call it.
fn alert(sample: &Sample) -> String {
    let label = |name: &str| {
        let found = sample.labels.iter().find(|(of, _)| of == name);
        found.map(|(_, value)| value.as_str())
    };
    let place: Vec<String> = ["severity", "namespace", "node", "instance"]
        .iter()
        .filter_map(|name| label(name).map(|value| format!("{name}={value:?}")))
        .collect();
    format!(
        "{}{{{}}}",
        label("alertname").unwrap_or("an alert"),
        place.join(",")
    )
}

fn of_query(rule: &PrometheusRule, answer: &Answer) -> Judged {
    let nan = rule.nan.unwrap_or_default();
    let samples: Vec<&Sample> = answer
        .samples
        .iter()
        .filter(|sample| nan != NotANumber::Ignore || !sample.value.is_nan())
        .collect();
    if samples.is_empty() {
        let summary = match answer.samples.len() {
            0 => "the query matches nothing".to_owned(),
            ignored => format!("the query matches {ignored} samples, none with a value"),
        };
        let reason = "NoData".to_owned();
        return match rule.no_data.unwrap_or_default() {
            NoData::Wait => Judged::Unknown(reason, summary),
            NoData::Pass => Judged::Met(reason, summary),
            NoData::Block => Judged::Blocked(reason, summary),
        };
    }
    let (Some(operator), Some(threshold)) = (rule.operator, rule.threshold) else {
        let summary = "spec.prometheus has no operator or no threshold".to_owned();
        return Judged::Unknown("NoThreshold".to_owned(), summary);
    };
    let as_wanted = |sample: &&Sample| {
        if sample.value.is_nan() {
            nan == NotANumber::Met
        } else {
            holds(operator, sample.value, threshold)
        }
    };
    let unmet: Vec<&Sample> = samples
        .iter()
        .filter(|sample| !as_wanted(sample))
        .copied()
        .collect();
    let met = samples.len() - unmet.len();
    let wanted = format!("{} {threshold}", sign(operator));
    let summary = match (samples.as_slice(), unmet.first()) {
        ([only], _) => format!("{} is {}, wanted {wanted}", series(only), only.value),
        (all, None) => format!("all {} samples are {wanted}", all.len()),
        (all, Some(first)) => format!(
            "{met} of {} samples are {wanted}; {} is {}",
            all.len(),
            series(first),
            first.value
        ),
    };
    let enough = match rule.matching.unwrap_or_default() {
        Matching::All => unmet.is_empty(),
        Matching::Any => met > 0,
    };
    if enough {
        Judged::Met("ThresholdMet".to_owned(), summary)
    } else {
        Judged::Unmet("ThresholdNotMet".to_owned(), summary)
    }
}

#[allow(clippy::float_cmp, reason = "Equal and NotEqual are exact, as in PromQL")]
fn holds(operator: Comparison, value: f64, threshold: f64) -> bool {
    match operator {
        Comparison::LessThan => value < threshold,
        Comparison::LessOrEqual => value <= threshold,
        Comparison::GreaterThan => value > threshold,
        Comparison::GreaterOrEqual => value >= threshold,
        Comparison::Equal => value == threshold,
        Comparison::NotEqual => value != threshold,
    }
}

const fn sign(operator: Comparison) -> &'static str {
    match operator {
        Comparison::LessThan => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::GreaterThan => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
    }
}

/// A series as PromQL writes it.
fn series(sample: &Sample) -> String {
    if sample.labels.is_empty() {
        return "the value".to_owned();
    }
    let (names, labels): (Vec<_>, Vec<_>) = sample.labels.iter().partition(|(name, _)| name == "__name__");
    let metric = names.first().map_or("", |(_, value)| value.as_str());
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    format!("{metric}{{{}}}", labels.join(","))
}

fn named(all: &[String]) -> String {
    first_of(all, NAMED)
}

/// It is as wanted now; whether it has been for long enough.
fn held(rule: &PrometheusRule, request: &EvaluationRequest, now: Timestamp, words: RuleWords) -> RuleAnswer {
    let wanted = i64::from(rule.for_seconds.unwrap_or(0));
    if wanted == 0 {
        return RuleAnswer::Pass(words);
    }
    let question = fingerprint(rule);
    let now = now.as_second();
    let gap = i64::from(rule.max_gap_seconds.unwrap_or(MAX_GAP_SECONDS));
    let since = held_since(request, &question, now, gap).unwrap_or(now);
    let data = Some(json!({"since": since, "seen": now, "question": question}).to_string());
    let held = now - since;
    if held >= wanted {
        return RuleAnswer::Pass(RuleWords { data, ..words });
    }
    let seconds = i64::from(rule.retry_after_seconds.unwrap_or(RETRY_AFTER_SECONDS));
    // Asked later, the gap alone would begin the duration anew.
    let seconds = seconds.min(wanted - held).min(gap / 2);
    let summary = format!("{} for {held} s of {wanted} s", words.summary);
    RuleAnswer::Wait(
        RuleWords {
            reason: "Holding".to_owned(),
            summary: numo_core::rules::clip(&summary, SUMMARY),
            data,
            found: String::new(),
        },
        seconds,
    )
}

/// Tells one question from another.
fn fingerprint(rule: &PrometheusRule) -> String {
    let text = serde_json::to_string(rule).unwrap_or_default();
    names::hash(&[&text], 16)
}

/// Since when it has been so without a gap, as the newest answer in this phase says. What gave no verdict is no answer:
/// the gap that it makes is measured instead. A Pass that is asked for again is another attempt, and goes on.
fn held_since(request: &EvaluationRequest, question: &str, now: i64, gap: i64) -> Option<i64> {
    let answers =
        |earlier: &&Earlier| earlier.phase == request.phase && super::wasm::word(earlier) != "error";
    let newest = request.history.iter().find(answers)?;
    let data: Value = serde_json::from_str(newest.data.as_deref()?).ok()?;
    let number = |name: &str| data.get(name).and_then(Value::as_i64);
    let (since, seen) = (number("since")?, number("seen")?);
    let same = data.get("question").and_then(Value::as_str) == Some(question);
    let unbroken = since <= seen && seen <= now && now - seen <= gap;
    (same && unbroken).then_some(since)
}
