//! Label and field selectors as the API server reads them, over objects in memory. What it does not know is an
//! error, never a selector that selects all.

use serde_json::Value;

/// Objects that a selector selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    /// All must be met.
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// As `kubectl --selector`.
    pub(crate) fn labels(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in parts(text)? {
            requirements.push(requirement(&part)?);
        }
        Ok(Self { requirements })
    }

    /// As `kubectl --field-selector`, with the fields that the API server knows of this kind.
    pub(crate) fn fields(text: &str, kind: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in parts(text)? {
            let (field, value, equal) = if let Some((field, value)) = part.split_once("!=") {
                (field, value, false)
            } else if let Some((field, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (field, value, true)
            } else {
                return Err(format!(
                    "field selector: found {part:?}, wanted FIELD=VALUE or FIELD!=VALUE"
                ));
            };
            let (field, values) = (field.trim(), vec![value.trim().to_owned()]);
            if !known_fields(kind).any(|known| known == field) {
                let known: Vec<_> = known_fields(kind).collect();
                return Err(format!(
                    "field selector: the API server knows no {field:?} of {kind}, it knows {}",
                    known.join(", ")
                ));
            }
            requirements.push(Requirement {
                key: field.to_owned(),
                test: if equal {
                    Test::In(values)
                } else {
                    Test::NotIn(values)
                },
            });
        }
        Ok(Self { requirements })
    }

    /// Whether all of it is met by the object's labels.
    pub(crate) fn selects_labels(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.requirements.iter().all(|one| {
            let found = labels
                .and_then(|labels| labels.get(&one.key))
                .and_then(Value::as_str);
            one.test.is_met(found)
        })
    }

    /// Whether all of it is met by the object's fields. A field that is not there is empty, as for the API server.
    pub(crate) fn selects_fields(&self, object: &Value) -> bool {
        self.requirements.iter().all(|one| {
            let found = object.pointer(&format!("/{}", one.key.replace('.', "/")));
            let text = match found {
                None | Some(Value::Null) if one.key == "spec.unschedulable" => "false".to_owned(),
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            one.test.is_met(Some(&text))
        })
    }
}

impl Test {
    fn is_met(&self, found: Option<&str>) -> bool {
        let is_one = |values: &[String]| found.is_some_and(|found| values.iter().any(|value| value == found));
        match self {
            Self::In(values) => is_one(values),
            Self::NotIn(values) => !is_one(values),
            Self::Exists => found.is_some(),
            Self::DoesNotExist => found.is_none(),
        }
    }
}

/// Fields by which the API server selects.
fn known_fields(kind: &str) -> impl Iterator<Item = &'static str> {
    let own: &[&str] = match kind {
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "Job" => &["status.successful"],
        "ReplicaSet" | "ReplicationController" => &["status.replicas"],
        "Event" => &[
            "type",
            "reason",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
        ],
        _ => &[],
    };
    ["metadata.name", "metadata.namespace"]
        .into_iter()
        .chain(own.iter().copied())
}

/// Splits at commas outside of brackets.
fn parts(text: &str) -> Result<Vec<String>, String> {
    let (mut parts, mut part, mut open) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '(' if !open => open = true,
            ')' if open => open = false,
            '(' | ')' => return Err(format!("selector: found an odd bracket in {text:?}")),
            ',' if !open => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    if open {
        return Err(format!("selector: found a bracket that stays open in {text:?}"));
    }
    if !part.trim().is_empty() || !parts.is_empty() {
        parts.push(part);
    }
    Ok(parts.into_iter().map(|part| part.trim().to_owned()).collect())
}

/// One requirement on a label.
fn requirement(part: &str) -> Result<Requirement, String> {
    let of = |key: &str, test: Test| {
        let key = key.trim();
        let fits = !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        if fits {
            Ok(Requirement {
                key: key.to_owned(),
                test,
            })
        } else {
            Err(format!(
                "label selector: found {part:?}, wanted a requirement such as app=db"
            ))
        }
    };
    if let Some(list) = part.strip_suffix(')') {
        let (head, values) = list.split_once('(').unwrap_or((list, ""));
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => of(key, Test::In(values)),
            (Some(key), Some("notin"), None) => of(key, Test::NotIn(values)),
            _ => of("", Test::Exists),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return of(key, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return of(key, Test::In(vec![value.trim().to_owned()]));
    }
    match part.strip_prefix('!') {
        Some(key) => of(key, Test::DoesNotExist),
        None => of(part, Test::Exists),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_selected_as_kubectl_does() {
        let object = json!({"metadata": {"labels": {"app": "db", "example.com/tier": "back"}}});
        for (text, expected) in [
            ("", true),
            ("app=db", true),
            ("app==db,example.com/tier=back", true),
            ("app=web", false),
            ("app!=web", true),
            ("other!=web", true),
            ("app in (web, db)", true),
            ("app notin (web,db)", false),
            ("other notin (web)", true),
            ("app", true),
            ("!app", false),
            ("!other , app", true),
        ] {
            let selector = Selector::labels(text).unwrap();
            assert_eq!(selector.selects_labels(&object), expected, "{text:?}");
        }
        for wrong in [
            "=db",
            "app in db)",
            "app in (db",
            "a b",
            "app,,b",
            "app within (a)",
        ] {
            assert!(Selector::labels(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fields_are_those_of_the_kind_and_no_others() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "w1"}});
        for (text, expected) in [
            ("spec.nodeName=w1", true),
            ("spec.nodeName==w1,metadata.name!=q", true),
            ("spec.nodeName!=w1", false),
            ("status.phase=", true),
        ] {
            let selector = Selector::fields(text, "Pod").unwrap();
            assert_eq!(selector.selects_fields(&pod), expected, "{text:?}");
        }
        let node = Selector::fields("spec.unschedulable=false", "Node").unwrap();
        assert!(node.selects_fields(&json!({})));
        let why = Selector::fields("spec.nodeName=w1", "ConfigMap").unwrap_err();
        assert!(
            why.contains("spec.nodeName") && why.contains("ConfigMap"),
            "{why}"
        );
        assert!(Selector::fields("spec.nodeName", "Pod").is_err());
    }
}
