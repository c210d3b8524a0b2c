//! Whether a definition takes every object that an earlier release of it took, and gives it the same meaning: what OLM and Helm
//! may put over what is there (`preflight` of OLM v1 asks the same). It reads schemas and applies nothing.

use serde_json::Value;

/// What of `new` refuses, drops or changes what `old` took, in sentences that name version and field.
pub fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for field in ["group", "scope"] {
        if old["spec"][field] != new["spec"][field] {
            found.push(format!("{name}: spec.{field} is another"));
        }
    }
    let stored = |one: &Value| one["storage"] == true;
    for version in list(&old["spec"]["versions"]) {
        let label = format!("{name} {}", version["name"].as_str().unwrap_or_default());
        let Some(now) = list(&new["spec"]["versions"]).find(|now| now["name"] == version["name"]) else {
            found.push(format!("{label}: the version is gone"));
            continue;
        };
        if version["served"] == true && now["served"] != true {
            found.push(format!("{label}: it is served no more"));
        }
        if stored(version) && !stored(now) {
            found.push(format!("{label}: it is stored no more"));
        }
        let status = |one: &Value| !one["subresources"]["status"].is_null();
        if status(version) != status(now) {
            found.push(format!("{label}: its status is written otherwise"));
        }
        let schema = |one: &'_ Value| one["schema"]["openAPIV3Schema"].clone();
        compare(&schema(version), &schema(now), &label, &mut found);
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Bounds by which fewer values pass where they are raised, and where they are lowered.
const LEAST: [&str; 4] = ["minimum", "minLength", "minItems", "minProperties"];
const MOST: [&str; 4] = ["maximum", "maxLength", "maxItems", "maxProperties"];

fn compare(old: &Value, new: &Value, at: &str, found: &mut Vec<String>) {
    for field in [
        "type",
        "pattern",
        "format",
        "default",
        "x-kubernetes-list-type",
        "x-kubernetes-int-or-string",
    ] {
        // What bounds no more is taken; what is another, or is new, may be refused.
        let loosened = matches!(field, "pattern" | "format") && new[field].is_null();
        if old[field] != new[field] && !loosened {
            found.push(format!("{at}: {field} was {}, is {}", old[field], new[field]));
        }
    }
    for field in LEAST {
        let (before, now) = (old[field].as_f64(), new[field].as_f64());
        if now.is_some_and(|now| before.is_none_or(|before| now > before)) {
            found.push(format!("{at}: {field} was {}, is {}", old[field], new[field]));
        }
    }
    for field in MOST {
        let (before, now) = (old[field].as_f64(), new[field].as_f64());
        if now.is_some_and(|now| before.is_none_or(|before| now < before)) {
            found.push(format!("{at}: {field} was {}, is {}", old[field], new[field]));
        }
    }
    if !new["enum"].is_null() {
        let allows = |value: &Value| list(&new["enum"]).any(|one| one == value);
        if old["enum"].is_null() || !list(&old["enum"]).all(allows) {
            found.push(format!("{at}: enum was {}, is {}", old["enum"], new["enum"]));
        }
    }
    for field in list(&new["required"]) {
        if !list(&old["required"]).any(|one| one == field) {
            found.push(format!("{at}: {field} is required"));
        }
    }
    let rules = |schema: &Value| {
        let all = list(&schema["x-kubernetes-validations"]);
        all.map(|one| one["rule"].clone()).collect::<Vec<_>>()
    };
    let before = rules(old);
    for rule in rules(new).iter().filter(|rule| !before.contains(rule)) {
        found.push(format!("{at}: a rule is new: {rule}"));
    }
    let kept = old["x-kubernetes-preserve-unknown-fields"] == true;
    if kept && new["x-kubernetes-preserve-unknown-fields"] != true {
        found.push(format!("{at}: unknown fields are kept no more"));
    }
    for (name, schema) in old["properties"].as_object().into_iter().flatten() {
        let place = format!("{at}.{name}");
        match new["properties"].get(name) {
            Some(now) => compare(schema, now, &place, found),
            None => found.push(format!("{place}: the field is gone")),
        }
    }
    for part in ["items", "additionalProperties"] {
        if old[part].is_object() {
            compare(&old[part], &new[part], &format!("{at}[]"), found);
        }
    }
}
