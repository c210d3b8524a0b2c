//! A Plan as Go's encoder writes it, and its fields as Go prints them: what the hash of a Plan is made of. Nothing here
//! decides anything.

use super::duration::{duration_nanos, duration_text};
use serde_json::Value;

/// Takes out what Go's encoder leaves out of a Plan: empty strings, lists and maps, `false` and 0, except where the
/// field is a pointer there, and writes the texts that it always writes.
pub(super) fn prune(whole: &mut Value) {
    prune_of("", whole);
}

/// Texts that Go writes even if they are empty: of the object under this key, or in the list under it.
const ALWAYS: [(&str, &[&str]); 11] = [
    ("prepare", &["image"]),
    ("upgrade", &["image"]),
    ("secrets", &["name", "path"]),
    ("volumes", &["name", "source", "destination"]),
    ("envs", &["name"]),
    ("fieldRef", &["fieldPath"]),
    ("resourceFieldRef", &["resource"]),
    ("secretKeyRef", &["key"]),
    ("configMapKeyRef", &["key"]),
    ("fileKeyRef", &["volumeName", "path", "key"]),
    ("matchExpressions", &["key", "operator"]),
];

fn prune_of(parent: &str, value: &mut Value) {
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
        Value::Array(list) => list.iter_mut().for_each(|one| prune_of(parent, one)),
        Value::Object(map) => {
            for (key, inner) in map.iter_mut() {
                // What stands in a map of texts stays.
                if key == "securityContext" {
                    prune_security_context(inner);
                } else if !MAPS.contains(&key.as_str()) {
                    prune_of(key, inner);
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
            let of_parent = ALWAYS.iter().find(|(of, _)| *of == parent);
            for key in of_parent.into_iter().flat_map(|(_, keys)| *keys) {
                map.entry(*key).or_insert_with(|| "".into());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Of a security context every field is a pointer, but for the lists of capabilities and the texts of SELinux.
fn prune_security_context(context: &mut Value) {
    for part in ["capabilities", "seLinuxOptions"] {
        if let Some(Value::Object(fields)) = context.get_mut(part) {
            fields.retain(|_, inner| match inner {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(list) => !list.is_empty(),
                _ => true,
            });
        }
    }
}

/// Writes what has a type of its own in Go as that writes itself: durations, and the divisor of a resource.
pub(super) fn normalise(whole: &mut Value) {
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
                let divisor = field.entry("divisor").or_insert_with(|| "0".into());
                if let Some(written) = divisor.as_str().and_then(quantity) {
                    *divisor = written.into();
                }
            }
        }
    }
}

/// The value at a path, as a string: of a list its first element counts, as Go prints it.
pub(super) fn field(whole: &Value, path: &str) -> String {
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

/// A quantity as Kubernetes writes it: with the largest unit of its kind whose number is whole. None where it stays as it
/// stands (an exponent, a sign) or is none.
fn quantity(text: &str) -> Option<String> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() > 18 || whole.is_empty() || fraction.contains('.') {
        return None;
    }
    let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let decimal = |mantissa: i128, thousands: usize| {
        let (mut mantissa, mut thousands) = (mantissa, thousands);
        while mantissa != 0 && mantissa % 1000 == 0 && thousands + 1 < DECIMAL.len() {
            (mantissa, thousands) = (mantissa / 1000, thousands + 1);
        }
        let unit = DECIMAL.get(thousands).filter(|_| mantissa != 0).unwrap_or(&"");
        format!("{mantissa}{unit}")
    };
    if let Some(thousands) = DECIMAL.iter().position(|one| *one == unit) {
        // In thousandths of thousandths, until it is whole; finer than the finest unit is not told apart here.
        let (mut mantissa, mut thousands) = (mantissa, thousands);
        while mantissa % scale != 0 {
            thousands = thousands.checked_sub(1)?;
            mantissa *= 1000;
        }
        return Some(decimal(mantissa / scale, thousands));
    }
    let power = BINARY.iter().position(|one| *one == unit)?;
    let bytes = mantissa.checked_mul(1024_i128.pow(u32::try_from(power).ok()?))?;
    if bytes % scale != 0 {
        return None;
    }
    let mut bytes = bytes / scale;
    if bytes < 1024 {
        return Some(decimal(bytes, 3));
    }
    let mut power = 0;
    while bytes % 1024 == 0 && power + 1 < BINARY.len() {
        (bytes, power) = (bytes / 1024, power + 1);
    }
    Some(format!("{bytes}{}", BINARY[power]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn quantities_are_kubernetes_own() {
        for (text, written) in [
            ("1000m", Some("1")),
            ("0.5", Some("500m")),
            ("1024Ki", Some("1Mi")),
            ("1000k", Some("1M")),
            ("1.5Gi", Some("1536Mi")),
            ("0.5Ki", Some("512")),
            ("1.5Ki", Some("1536")),
            ("0m", Some("0")),
            ("0", Some("0")),
            ("1.0", Some("1")),
            ("1n", Some("1n")),
            ("100Mi", Some("100Mi")),
            ("0.0000000001", None),
            ("1e3", None),
            ("+1", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("Mi", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(quantity(text).as_deref(), written, "{text}");
        }
    }
}
