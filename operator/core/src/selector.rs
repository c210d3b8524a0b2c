//! Label selectors (`matchLabels`, `matchExpressions`): what one selects, and what keeps one from being understood.

use crate::{names, pairs::Values};
use serde::Serialize;
use serde_json::Value;

/// A selector taken apart once, for all that it is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'s> {
    labels: Option<&'s serde_json::Map<String, Value>>,
    expressions: &'s [Value],
}

impl<'s> Selector<'s> {
    /// Of a selector as given.
    pub fn of(selector: &'s Value) -> Self {
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        Self {
            labels: selector.get("matchLabels").and_then(Value::as_object),
            expressions: expressions.map_or(&[], Vec::as_slice),
        }
    }

    /// As [`selects`].
    pub fn selects(self, labels: &impl Values) -> bool {
        let is_empty = self.labels.is_none_or(serde_json::Map::is_empty) && self.expressions.is_empty();
        !is_empty && self.matches(labels)
    }

    /// As [`matches`].
    pub fn matches(self, labels: &impl Values) -> bool {
        let holds = |(key, value): (&String, &Value)| labels.value(key) == value.as_str();
        self.labels.into_iter().flatten().all(holds)
            && self
                .expressions
                .iter()
                .all(|expression| expression_holds(expression, labels))
    }
}

/// Whether a selector selects these labels. Null and `{}` select nothing, as in the machine-config operator.
pub fn selects(selector: &Value, labels: &impl Values) -> bool {
    Selector::of(selector).selects(labels)
}

/// Whether every requirement of a selector holds; one without requirements holds for all.
pub fn matches(selector: &Value, labels: &impl Values) -> bool {
    Selector::of(selector).matches(labels)
}

/// Whether a selector wants nothing: it matches every node.
pub(crate) fn is_empty(selector: &Value) -> bool {
    let mut parts = selector.as_object().into_iter().flat_map(serde_json::Map::values);
    parts.all(|part| match part {
        Value::Object(labels) => labels.is_empty(),
        Value::Array(expressions) => expressions.is_empty(),
        other => other.is_null(),
    })
}

/// The label and the value that a selector wants, if it wants nothing else.
pub(crate) fn one_label(selector: &Value) -> Option<(&str, &str)> {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut labels = selector.get("matchLabels")?.as_object()?.iter();
    let (key, value) = labels.next()?;
    let is_all = labels.next().is_none() && expressions.is_none_or(Vec::is_empty);
    Some((key.as_str(), value.as_str()?)).filter(|_| is_all)
}

/// The text in a field of a requirement.
fn text<'e>(expression: &'e Value, field: &str) -> Option<&'e str> {
    expression.get(field).and_then(Value::as_str)
}

/// The values of a requirement.
fn values(expression: &Value) -> &[Value] {
    let values = expression.get("values").and_then(Value::as_array);
    values.map_or(&[], Vec::as_slice)
}

fn expression_holds(expression: &Value, labels: &impl Values) -> bool {
    let Some(key) = text(expression, "key") else {
        return false;
    };
    let found = labels.value(key);
    let among = || values(expression).iter().any(|value| value.as_str() == found);
    match text(expression, "operator") {
        Some("In") => found.is_some() && among(),
        Some("NotIn") => found.is_none() || !among(),
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        _ => false,
    }
}

/// What keeps a label selector from being understood.
pub fn wrong(selector: &Value) -> Option<String> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let wrong = labels.into_iter().flatten().find_map(|(key, value)| {
        let value = || names::wrong_label_value(value.as_str().unwrap_or_default());
        names::wrong_label_key(key).or_else(value)
    });
    if wrong.is_some() {
        return wrong;
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    expressions.into_iter().flatten().find_map(|expression| {
        let key = text(expression, "key").unwrap_or_default();
        let operator = text(expression, "operator").unwrap_or_default();
        let has_values = !values(expression).is_empty();
        let mut each = values(expression).iter().filter_map(Value::as_str);
        let wrong = names::wrong_label_key(key).or_else(|| each.find_map(names::wrong_label_value));
        match operator {
            _ if key.is_empty() => Some("found a requirement without key".to_owned()),
            _ if wrong.is_some() => wrong,
            "In" | "NotIn" if !has_values => Some(format!("{key}: found operator {operator} without values")),
            "Exists" | "DoesNotExist" if has_values => Some(format!(
                "{key}: found operator {operator} with values, wanted none"
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
            _ => Some(format!(
                "{key}: found operator {operator:?}, wanted In, NotIn, Exists or DoesNotExist"
            )),
        }
    })
}

/// What keeps the selector in a field from being understood; the field is named.
pub fn problem(field: &str, given: Option<&impl Serialize>) -> Option<String> {
    let selector = serde_json::to_value(given?).ok()?;
    Some(format!("{field}: {}", wrong(&selector)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Map;
    use serde_json::json;

    #[test]
    fn not_in_holds_for_absent_labels() {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]});
        assert!(selects(&selector, &Map::new()));
        assert!(!selects(
            &selector,
            &Map::from([("a".to_owned(), "x".to_owned())])
        ));
    }
}
