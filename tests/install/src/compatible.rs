//! Whether a definition takes every object that an earlier release of it took, and gives it the same meaning: what OLM and Helm
//! may put over what is there (`preflight` of OLM v1 asks the same). It reads schemas and applies nothing.

use serde_json::Value;
use std::fmt;

/// Something that a definition took or gave, and does not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Version, field, what was and what is.
    pub words: String,
    /// Whether it only refuses what is written anew: what is stored is served, and may be written everywhere but there (CRD
    /// ratcheting of Kubernetes 1.30).
    pub is_ratcheted: bool,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

fn lost(words: String) -> Break {
    Break {
        words,
        is_ratcheted: false,
    }
}

fn refused(words: String) -> Break {
    Break {
        words,
        is_ratcheted: true,
    }
}

/// What of `new` refuses, drops or changes what `old` took, in sentences that name version and field.
pub fn breaks(old: &Value, new: &Value) -> Vec<Break> {
    let name = old["metadata"]["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for field in ["group", "scope"] {
        if old["spec"][field] != new["spec"][field] {
            found.push(lost(format!("{name}: spec.{field} is another")));
        }
    }
    let stored = |one: &Value| one["storage"] == true;
    for version in list(&old["spec"]["versions"]) {
        let label = format!("{name} {}", version["name"].as_str().unwrap_or_default());
        let Some(now) = list(&new["spec"]["versions"]).find(|now| now["name"] == version["name"]) else {
            found.push(lost(format!("{label}: the version is gone")));
            continue;
        };
        if version["served"] == true && now["served"] != true {
            found.push(lost(format!("{label}: it is served no more")));
        }
        if stored(version) && !stored(now) {
            found.push(lost(format!("{label}: it is stored no more")));
        }
        let status = |one: &Value| !one["subresources"]["status"].is_null();
        if status(version) != status(now) {
            found.push(lost(format!("{label}: its status is written otherwise")));
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

fn compare(old: &Value, new: &Value, at: &str, found: &mut Vec<Break>) {
    let was = |field: &str| format!("{at}: {field} was {}, is {}", old[field], new[field]);
    for field in ["type", "x-kubernetes-int-or-string"] {
        if old[field] != new[field] {
            found.push(lost(was(field)));
        }
    }
    // A list without a type is atomic.
    let list_type = |schema: &Value| {
        schema["x-kubernetes-list-type"]
            .as_str()
            .unwrap_or("atomic")
            .to_owned()
    };
    if list_type(old) != list_type(new) {
        found.push(lost(was("x-kubernetes-list-type")));
    }
    if old["default"] != new["default"] {
        found.push(lost(was("default")));
    }
    for field in ["pattern", "format"] {
        // What bounds no more is taken; what is another, or is new, may be refused.
        if old[field] != new[field] && !new[field].is_null() {
            found.push(refused(was(field)));
        }
    }
    for field in LEAST {
        let (before, now) = (old[field].as_f64(), new[field].as_f64());
        if now.is_some_and(|now| before.is_none_or(|before| now > before)) {
            found.push(refused(was(field)));
        }
    }
    for field in MOST {
        let (before, now) = (old[field].as_f64(), new[field].as_f64());
        if now.is_some_and(|now| before.is_none_or(|before| now < before)) {
            found.push(refused(was(field)));
        }
    }
    if !new["enum"].is_null() {
        // The API server takes a null out of what is stored where none may be.
        let allows = |value: &Value| value.is_null() || list(&new["enum"]).any(|one| one == value);
        if old["enum"].is_null() || !list(&old["enum"]).all(allows) {
            found.push(refused(was("enum")));
        }
    }
    for field in list(&new["required"]) {
        if !list(&old["required"]).any(|one| one == field) {
            found.push(lost(format!("{at}: {field} is required")));
        }
    }
    let rules = |schema: &Value| {
        let all = list(&schema["x-kubernetes-validations"]);
        all.cloned().collect::<Vec<_>>()
    };
    let before = rules(old);
    for rule in rules(new) {
        let (text, words) = (&rule["rule"], rule["rule"].as_str().unwrap_or_default());
        if before.iter().any(|before| before["rule"] == *text) {
            continue;
        }
        // A rule that looks back is asked at every write, also of what is broken already.
        let looks_back = words.contains("oldSelf") && rule["optionalOldSelf"] != true;
        let one = format!("{at}: a rule is new: {text}");
        found.push(if looks_back { lost(one) } else { refused(one) });
    }
    let kept = old["x-kubernetes-preserve-unknown-fields"] == true;
    if kept && new["x-kubernetes-preserve-unknown-fields"] != true {
        found.push(lost(format!("{at}: unknown fields are kept no more")));
    }
    for (name, schema) in old["properties"].as_object().into_iter().flatten() {
        let place = format!("{at}.{name}");
        match new["properties"].get(name) {
            Some(now) => compare(schema, now, &place, found),
            None => found.push(lost(format!("{place}: the field is gone"))),
        }
    }
    for part in ["items", "additionalProperties"] {
        if old[part].is_object() {
            compare(&old[part], &new[part], &format!("{at}[]"), found);
        }
    }
}
