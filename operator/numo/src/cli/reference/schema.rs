//! What the schema of a definition says of its fields, in words and as a manifest.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Fields deeper than this are Kubernetes' own: a jobSpec, a pod's affinity.
pub(super) const DEEPEST: usize = 6;

/// Comments of a manifest that would end beyond this stand above their field.
const WIDTH: usize = 110;

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn texts(value: Option<&Value>) -> Vec<String> {
    let all = value.and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// The description, on one line; outside of code nothing of it is HTML.
pub(super) fn described(field: &Value) -> String {
    let plain = text(field, "description")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let parts = plain.split('`').enumerate();
    let safe = parts.map(|(at, part)| {
        if at % 2 == 0 {
            part.replace('<', "&lt;").replace('*', "\\*")
        } else {
            part.to_owned()
        }
    });
    safe.collect::<Vec<_>>().join("`")
}

/// The description without the sentence that repeats a default of the schema.
pub(super) fn without_default(description: &str, default: Option<&Value>) -> String {
    let Some(default) = default else {
        return description.to_owned();
    };
    let said = default
        .as_str()
        .map_or_else(|| default.to_string(), str::to_owned);
    description
        .replace(&format!(" Default: {said}."), "")
        .replace(&format!("Default: {said}."), "")
}

/// The schema of a list's items, or the field's own.
pub(super) fn inner(field: &Value) -> &Value {
    field.get("items").unwrap_or(field)
}

pub(super) fn is_list(field: &Value) -> bool {
    field.get("items").is_some()
}

fn properties(field: &Value) -> Option<&Map<String, Value>> {
    field
        .get("properties")
        .and_then(Value::as_object)
        .filter(|all| !all.is_empty())
}

pub(super) fn has_children(field: &Value) -> bool {
    properties(inner(field)).is_some()
}

/// The fields of an object and whether each is required; those that are required come first.
pub(super) fn children(field: &Value) -> Vec<(&str, &Value, bool)> {
    let required = texts(field.get("required"));
    let mut found: Vec<(&str, &Value, bool)> = properties(field)
        .into_iter()
        .flatten()
        .map(|(name, child)| (name.as_str(), child, required.contains(name)))
        .collect();
    found.sort_by_key(|(_, _, is_required)| !is_required);
    found
}

/// The type, or the values that there are.
pub(super) fn kind_of(field: &Value) -> String {
    if field.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return "integer or string".to_owned();
    }
    let values = texts(field.get("enum"));
    if !values.is_empty() {
        let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
        return format!("one of {}", values.join(", "));
    }
    if let Some(items) = field.get("items") {
        return format!("list of {}", kind_of(items));
    }
    if let Some(values) = field
        .get("additionalProperties")
        .filter(|values| values.is_object())
    {
        return format!("map of {}", kind_of(values));
    }
    match (text(field, "type"), text(field, "format")) {
        ("string", "date-time") => "time, RFC 3339".to_owned(),
        ("", _) => "anything".to_owned(),
        (kind, _) => kind.to_owned(),
    }
}

/// A number without a fraction that says nothing.
fn number(value: &Value) -> Option<String> {
    let number = value.as_f64()?;
    Some(if number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        number.to_string()
    })
}

/// Bounds of numbers, of lengths of texts, and of lists.
pub(super) fn bounds(field: &Value) -> Vec<String> {
    let between = |least: &str, most: &str, of: &str| {
        let is_bound = |value: &&Value| value.as_i64() != Some(numo_api::crds::NO_BOUND);
        let bound = |key: &str| field.get(key).filter(is_bound).and_then(number);
        let of = if of.is_empty() {
            String::new()
        } else {
            format!(" {of}")
        };
        match (bound(least), bound(most)) {
            (Some(least), Some(most)) if least == "0" && !of.is_empty() => {
                Some(format!("at most {most}{of}"))
            }
            (Some(least), Some(most)) => Some(format!("{least} to {most}{of}")),
            (Some(least), None) => Some(format!("at least {least}{of}")),
            (None, Some(most)) => Some(format!("at most {most}{of}")),
            (None, None) => None,
        }
    };
    [
        between("minimum", "maximum", ""),
        between("minLength", "maxLength", "characters"),
        between("minItems", "maxItems", "items"),
        between("minProperties", "maxProperties", "keys"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the rules of a schema say when they refuse an object, by field. Each is said once.
pub(super) fn refusals(schema: &Value) -> Vec<(String, String)> {
    fn walk(field: &Value, path: &str, found: &mut Vec<(String, String)>) {
        for rule in field
            .get("x-kubernetes-validations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let one = (path.to_owned(), text(rule, "message").replace('<', "&lt;"));
            if !one.1.is_empty() && !found.contains(&one) {
                found.push(one);
            }
        }
        let dot = if path.is_empty() { "" } else { "." };
        for (name, child) in properties(field).into_iter().flatten() {
            walk(child, &format!("{path}{dot}{name}"), found);
        }
        if let Some(items) = field.get("items") {
            walk(items, &format!("{path}[]"), found);
        }
    }
    let mut found = Vec::new();
    walk(schema, "", &mut found);
    found
}

/// One part of an object as a manifest: each field with its default, or what stands for a value, and its bounds.
pub(super) fn yaml(page: &mut String, schema: &Value, part: &str) {
    if let Some(field) = schema.pointer(&format!("/properties/{part}")) {
        let _ = std::writeln!(page, "{part}:");
        for (name, child, is_required) in children(field) {
            yaml_field(page, name, child, is_required, 1, "  ");
        }
    }
}

fn yaml_field(page: &mut String, name: &str, field: &Value, is_required: bool, depth: usize, lead: &str) {
    let is_open = depth < DEEPEST && has_children(field);
    let value = if is_open {
        String::new()
    } else {
        format!(" {}", sample(field))
    };
    let comment = comment(field, is_required, is_open);
    let line = format!("{lead}{name}:{value}");
    if comment.is_empty() {
        let _ = std::writeln!(page, "{line}");
    } else if line.len() + comment.len() + 3 <= WIDTH {
        let _ = std::writeln!(page, "{line}  # {comment}");
    } else {
        let blank = lead.replace('-', " ");
        // Before the first field of an item a comment stands in front of its dash.
        let _ = std::writeln!(page, "{blank}# {name}: {comment}\n{line}");
    }
    if !is_open {
        return;
    }
    let blank = lead.replace('-', " ");
    let mut first = if is_list(field) {
        format!("{blank}- ")
    } else {
        format!("{blank}  ")
    };
    let rest = if is_list(field) {
        format!("{blank}  ")
    } else {
        first.clone()
    };
    for (name, child, is_required) in children(inner(field)) {
        yaml_field(page, name, child, is_required, depth + 1, &first);
        first.clone_from(&rest);
    }
}

/// The default, or what stands for a value.
fn sample(field: &Value) -> String {
    if let Some(default) = field.get("default") {
        return default.to_string();
    }
    if let Some(items) = field.get("items") {
        return format!("[{}]", stand_in(items));
    }
    stand_in(field)
}

fn stand_in(field: &Value) -> String {
    match text(field, "type") {
        "string" => "<string>".to_owned(),
        "integer" => "<integer>".to_owned(),
        "number" => "<number>".to_owned(),
        "boolean" => "<boolean>".to_owned(),
        "object" | "" if field.get("x-kubernetes-int-or-string").is_none() => "{}".to_owned(),
        _ => "<integer or percentage>".to_owned(),
    }
}

/// What stands beside a field: whether it is required, its values or bounds, a default that the schema does not have.
fn comment(field: &Value, is_required: bool, is_open: bool) -> String {
    let mut facts = Vec::new();
    if is_required {
        facts.push("required".to_owned());
    }
    let values = texts(field.get("enum").or_else(|| field.pointer("/items/enum")));
    if !values.is_empty() {
        facts.push(values.join(" | "));
    } else if text(field, "format") == "date-time" {
        facts.push("RFC 3339".to_owned());
    }
    if !is_open {
        facts.extend(bounds(field));
    }
    if field.get("default").is_some() {
        facts.push("the default".to_owned());
    } else if let Some(default) = told_default(text(field, "description")) {
        facts.push(format!("default: {default}"));
    }
    facts.join("; ")
}

/// The default that only the description tells, if it is short; the exceptions of a long one are in the description.
fn told_default(description: &str) -> Option<String> {
    let (_, rest) = description.rsplit_once("Default: ")?;
    let sentence = rest.split_once(". ").map_or(rest, |(sentence, _)| sentence);
    let plain = sentence.trim().trim_end_matches('.').replace('`', "");
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let (short, _) = plain.split_once(", unless ").unwrap_or((plain.as_str(), ""));
    [plain.as_str(), short]
        .into_iter()
        .find(|words| words.len() <= 60)
        .map(str::to_owned)
}
