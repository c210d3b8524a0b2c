//! Version and hash of a Plan. The hash is system-upgrade-controller's own, digit for digit: nodes that it finished stay
//! finished (`spec/system-upgrade-controller.md` §2, B4–B6).

use crate::{
    names,
    observed::{Map, Observed, PlanView},
    owner::OwnerKind,
    text::clip,
    time::later,
};
use jiff::Timestamp;
use numo_api::Reason;
use serde_json::Value;
use sha2::{Digest, Sha224, Sha256};
use std::fmt::Write as _;

/// What a Plan goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The version, munged; empty while none is known.
    pub version: String,
    /// Whether it is the channel's word.
    pub by_channel: bool,
    /// Why the version is not known, or no longer sure.
    pub problem: Option<(Reason, String)>,
    /// When the channel is asked next.
    pub ask_at: Option<Timestamp>,
    /// Whether it is to be asked now.
    pub asks: bool,
}

/// First and longest pause before a channel that gave no version is asked again (seconds).
const CHANNEL_AGAIN_SECONDS: (i64, i64) = (5, 15 * 60);

/// Every `+` as `-`: no label and no image tag may have one.
pub fn munged(version: &str) -> String {
    version.replace('+', "-")
}

/// What keeps a version from being a label value.
fn unfit(version: &str) -> Option<String> {
    let fits = !version.is_empty() && names::wrong_label_value(version).is_none();
    (!fits).then(|| {
        format!(
            "found version {:?}, wanted a label value: at most {} letters, digits, '-', '_' and '.'",
            clip(version, 100),
            names::LABEL_MAX
        )
    })
}

/// Version of the Plan, as far as it is known now.
pub fn resolve(view: &PlanView, observed: &Observed, now: Timestamp) -> Resolved {
    let last = view.status.latest_version.clone().unwrap_or_default();
    let mut out = Resolved {
        version: String::new(),
        by_channel: false,
        problem: None,
        ask_at: None,
        asks: false,
    };
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(version) = given(&view.spec.version) {
        out.version = munged(&version);
        if let Some(problem) = unfit(&out.version) {
            out.version.clear();
            out.problem = Some((Reason::VersionUnresolved, format!("spec.version: {problem}")));
        }
        return out;
    }
    let Some(url) = given(&view.spec.channel) else {
        let message = "cannot resolve plan: missing channel and version".to_owned();
        out.problem = Some((Reason::VersionUnresolved, message));
        return out;
    };
    out.by_channel = true;
    let known = observed.channels.get(&view.key).filter(|known| known.url == url);
    let resolved = view.resolved_by_channel();
    let Some(known) = known else {
        // After a restart, what was resolved a moment ago is not asked for again.
        let fresh = resolved
            .map(|at| later(at, observed.settings.plan_jobs.polling_seconds))
            .filter(|due| now < *due);
        out.version = if resolved.is_some() { last } else { String::new() };
        if let Some(due) = fresh {
            out.ask_at = Some(due);
            return out;
        }
        out.asks = true;
        if out.version.is_empty() {
            let message = format!("spec.channel {url}: it is being asked");
            out.problem = Some((Reason::ChannelAsked, message));
        }
        return out;
    };
    let (first, longest) = CHANNEL_AGAIN_SECONDS;
    let pause = if known.failures == 0 {
        observed.settings.plan_jobs.polling_seconds
    } else {
        (first << (known.failures - 1).min(16)).min(longest)
    };
    let due = later(known.at, pause);
    out.asks = !known.under_way && now >= due;
    if !known.under_way && !out.asks {
        out.ask_at = Some(due);
    }
    let answered = match &known.answer {
        Some(Ok(version)) => {
            let version = munged(version);
            match unfit(&version) {
                None => Ok(version),
                Some(problem) => Err(problem),
            }
        }
        Some(Err(problem)) => Err(problem.clone()),
        None if resolved.is_some() => Ok(last.clone()),
        None => {
            let message = format!("spec.channel {url}: it is being asked");
            out.problem = Some((Reason::ChannelAsked, message));
            return out;
        }
    };
    match answered {
        Ok(version) => out.version = version,
        Err(problem) => {
            // What it said before holds on.
            out.version = if resolved.is_some() { last } else { String::new() };
            let message = format!("spec.channel {url}: {problem}");
            out.problem = Some((Reason::VersionUnresolved, message));
        }
    }
    out
}

/// The hash: SHA-224 over version, ServiceAccount, digest fields, and the hashes of Secrets in order. `secrets` are those
/// that are not ignored.
pub fn digest<'s>(view: &PlanView, version: &str, secrets: impl Iterator<Item = &'s str>) -> String {
    let mut digest = Sha224::new();
    digest.update(version.as_bytes());
    digest.update(
        view.spec
            .service_account_name
            .as_deref()
            .unwrap_or_default()
            .as_bytes(),
    );
    if !view.digest.is_empty() {
        let annotations: Map = view
            .copied_annotations
            .iter()
            .chain(&view.annotations)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let created = view.created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        // Of the status only the version counts: what else stands there changes with each pass, and the hash would too.
        let mut whole = serde_json::json!({
            "apiVersion": OwnerKind::Plan.api_version(),
            "kind": OwnerKind::Plan.name(),
            "metadata": {
                "name": view.key.name, "namespace": view.key.namespace,
                "uid": view.uid, "generation": view.generation, "creationTimestamp": created,
                "labels": view.labels, "annotations": annotations,
            },
            "spec": view.spec,
            "status": {"latestVersion": version},
        });
        prune(&mut whole);
        normalise(&mut whole);
        for path in view.digest.split(',') {
            digest.update(field(&whole, path).as_bytes());
        }
    }
    for secret in secrets {
        digest.update(secret.as_bytes());
    }
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Takes out what Go's encoder leaves out of a Plan: empty strings, lists and maps, `false` and 0, except where the
/// field is a pointer there.
fn prune(value: &mut Value) {
    const POINTERS: [&str; 9] = [
        "jobActiveDeadlineSecs",
        "gracePeriod",
        "deleteLocalData",
        "deleteEmptydirData",
        "ignoreDaemonSets",
        "timeout",
        "defaultMode",
        "tolerationSeconds",
        "optional",
    ];
    const MAPS: [&str; 4] = ["matchLabels", "postCompleteLabels", "labels", "annotations"];
    match value {
        Value::Array(list) => list.iter_mut().for_each(prune),
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                // Of a security context every field is a pointer; what stands in a map of texts stays.
                if key != "securityContext" && !MAPS.contains(&key.as_str()) {
                    prune(inner);
                }
            }
            map.retain(|key, inner| match inner {
                _ if POINTERS.contains(&key.as_str()) => !inner.is_null(),
                Value::Null | Value::Bool(false) => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(list) => !list.is_empty(),
                Value::Number(number) => number.as_f64() != Some(0.0),
                Value::Object(map) => !map.is_empty() || !MAPS.contains(&key.as_str()),
                Value::Bool(true) => true,
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Writes what has a type of its own in Go as that writes itself: durations, and the divisor of a resource.
fn normalise(whole: &mut Value) {
    let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    // What only numo knows is no part of the other's hash.
    spec.remove("mutex");
    if let Some(Value::String(delay)) = spec.get_mut("postCompleteDelay")
        && let Some(nanos) = duration_nanos(delay)
    {
        *delay = duration_text(nanos);
    }
    for container in ["prepare", "upgrade"] {
        let envs = spec.get_mut(container).and_then(|one| one.get_mut("envs"));
        for env in envs.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Object(field)) = env.pointer_mut("/valueFrom/resourceFieldRef") {
                field.entry("divisor").or_insert_with(|| "0".into());
            }
        }
    }
}

/// The value at a path, as a string: of a list its first element counts, as Go prints it.
fn field(whole: &Value, path: &str) -> String {
    let mut value = whole;
    for key in path.split('.') {
        match value.get(key) {
            Some(inner) => value = inner,
            None => return String::new(),
        }
    }
    let one = match value {
        Value::Array(list) => list.first().unwrap_or(&Value::Null),
        other => other,
    };
    match one {
        Value::Null => String::new(),
        other => printed(other).trim().to_owned(),
    }
}

/// As Go's `fmt.Sprint` prints a decoded JSON value.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(is) => is.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(printed).collect();
            format!("[{}]", parts.join(" "))
        }
        Value::Object(map) => {
            let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
            let parts: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)))
                .collect();
            format!("map[{}]", parts.join(" "))
        }
    }
}

/// The hash of a Secret as kubectl makes it (`kubectl create secret --append-hash`): of kind, type, name, data and
/// whether it is immutable.
pub fn secret_hash(name: &str, type_: &str, data: Option<&Value>, immutable: Option<bool>) -> String {
    let mut whole = std::collections::BTreeMap::new();
    whole.insert("data", data.cloned().unwrap_or(Value::Null));
    whole.insert("kind", "Secret".into());
    whole.insert("name", name.into());
    whole.insert("type", type_.into());
    if let Some(immutable) = immutable {
        whole.insert("immutable", immutable.into());
    }
    // Go's encoder escapes what could end a script in a page; such letters stand in strings only.
    let text = serde_json::to_string(&whole)
        .unwrap_or_default()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    hex.chars()
        .take(10)
        .map(|digit| match digit {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        })
        .collect()
}

/// Units of a duration, as Go names them, with their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration as Go reads it (`1h30m`, `1.5s`, `-5s`, `0`), in nanoseconds; what is finer is cut off.
fn duration_nanos(text: &str) -> Option<i64> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    let mut rest = rest;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        rest = &rest[end..];
        let end = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let nanos = UNITS.iter().find(|(name, _)| *name == &rest[..end])?.1;
        rest = &rest[end..];
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // More digits than these are finer than any unit is long in nanoseconds.
        let (mut part, mut scale) = (0_u128, 1_u128);
        for digit in fraction.bytes().take(18) {
            part = part * 10 + u128::from(digit - b'0');
            scale *= 10;
        }
        let part = u64::try_from(part * u128::from(nanos) / scale).ok()?;
        total = total.checked_add(whole.checked_mul(nanos)?)?.checked_add(part)?;
    }
    let total = i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

/// A duration as Go writes it: `1m30s`, `1.5s`, `100µs`, `0s`.
fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let decimal = |unit: u64, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let digits = unit.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        match fraction.trim_end_matches('0') {
            _ if rest == 0 => format!("{sign}{whole}{name}"),
            fraction => format!("{sign}{whole}.{fraction}{name}"),
        }
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => decimal(1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
        _ => {
            const MINUTE: u64 = 60_000_000_000;
            let (minutes, seconds) = (nanos / MINUTE, nanos % MINUTE);
            let fraction = format!("{:09}", seconds % 1_000_000_000);
            let point = fraction.trim_end_matches('0');
            let point = if point.is_empty() {
                String::new()
            } else {
                format!(".{point}")
            };
            let seconds = format!("{}{point}s", seconds / 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
            }
        }
    }
}

/// A duration in seconds as Go writes it.
pub fn seconds_text(seconds: i64) -> String {
    duration_text(seconds.saturating_mul(1_000_000_000))
}

/// A duration as Go reads it, in milliseconds; what is finer is rounded up.
pub fn duration_millis(text: &str) -> Option<i64> {
    let nanos = duration_nanos(text)?;
    let millis = nanos.abs().div_euclid(1_000_000) + i64::from(nanos % 1_000_000 != 0);
    Some(if nanos < 0 { -millis } else { millis })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_gos() {
        for (text, millis) in [
            ("0", Some(0)),
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1500)),
            ("-5s", Some(-5000)),
            ("1500000ns", Some(2)),
            ("", None),
            ("5", None),
            ("5x", None),
            ("h", None),
            ("1..5s", None),
            ("-", None),
            ("99999999999999h", None),
            (".", None),
            (".s", None),
            ("1.5.5s", None),
            ("1.s", Some(1000)),
            (".5s", Some(500)),
            ("9223372036854775807ns", Some(9_223_372_036_855)),
            ("9223372036854775808ns", None),
        ] {
            assert_eq!(duration_millis(text), millis, "{text}");
        }
    }

    #[test]
    fn a_duration_is_written_as_go_writes_it() {
        for (text, written) in [
            ("90s", "1m30s"),
            ("0", "0s"),
            ("60m", "1h0m0s"),
            ("1500ms", "1.5s"),
            ("100us", "100µs"),
            ("1.5us", "1.5µs"),
            ("0.5ms", "500µs"),
            ("-90s", "-1m30s"),
            ("1ns", "1ns"),
            ("3.000000001s", "3.000000001s"),
            ("2562047h47m16.854775807s", "2562047h47m16.854775807s"),
        ] {
            assert_eq!(
                duration_nanos(text).map(duration_text).as_deref(),
                Some(written),
                "{text}"
            );
        }
    }

    #[test]
    fn a_value_is_printed_as_go_does() {
        let whole = json!({"spec": {"concurrency": 2, "upgrade": {"envs": [
            {"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            "exclusive": true, "list": [[1, 2]], "empty": []}});
        for (path, text) in [
            ("spec.concurrency", "2"),
            ("spec.upgrade.envs", "map[name:A value:1]"),
            ("spec.exclusive", "true"),
            ("spec.list", "[1 2]"),
            ("spec.empty", ""),
            ("spec.none", ""),
            (
                "spec.upgrade",
                "map[envs:[map[name:A value:1] map[name:B value:2]]]",
            ),
        ] {
            assert_eq!(field(&whole, path), text, "{path}");
        }
    }

    #[test]
    fn what_go_leaves_out_is_no_part_of_a_hash() {
        let mut whole = json!({"metadata": {"labels": {}, "annotations": {"a": "b"}}, "spec": {
            "exclusive": false, "concurrency": 0, "cordon": true, "jobActiveDeadlineSecs": 0,
            "drain": {"force": false, "ignoreDaemonSets": false, "gracePeriod": 0},
            "upgrade": {"image": "i", "args": [], "envs": [{"name": "A", "value": ""}],
                "securityContext": {"privileged": false}},
        }});
        prune(&mut whole);
        for (path, text) in [
            ("spec.exclusive", ""),
            ("spec.concurrency", ""),
            ("spec.cordon", "true"),
            ("spec.jobActiveDeadlineSecs", "0"),
            ("spec.drain", "map[gracePeriod:0 ignoreDaemonSets:false]"),
            ("spec.upgrade.envs", "map[name:A]"),
            ("spec.upgrade.args", ""),
            ("spec.upgrade.securityContext", "map[privileged:false]"),
            ("metadata.annotations.a", "b"),
        ] {
            assert_eq!(field(&whole, path), text, "{path}");
        }
    }

    /// The values are those of kubectl's own tests.
    #[test]
    fn a_secret_has_kubectls_hash() {
        let of = |data: Value| secret_hash("", "my-type", Some(&data), None);
        assert_eq!(of(json!({})), "t75bgf6ctb");
        assert_eq!(of(json!({"one": ""})), "74bd68bm66");
        assert_eq!(
            of(json!({"two": "Mg==", "one": "", "three": "Mw=="})),
            "dgcb6h9tmk"
        );
    }

    #[test]
    fn versions_that_are_no_label_values_are_named() {
        for version in ["", "a/b", "-a", "a-", "ä", &"1".repeat(64)] {
            assert!(unfit(version).is_some(), "{version}");
        }
        assert_eq!(unfit(&munged("v1.30.1+k3s1")), None);
    }
}
