//! Answers in the forms of the API: errors, pages, and the parts of an answer that `fields` asks for.

use numo_provider_sdk::serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// An answer: its status, its headers beside the usual, and its body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Seconds for `retry-after`.
    pub retry_after: Option<u32>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Success.
    pub fn of(value: &Value) -> Self {
        Self {
            status: 200,
            retry_after: None,
            body: value.to_string().into_bytes(),
        }
    }

    /// An error as the API has it.
    pub fn error(status: u16, reason: &str, message: &str) -> Self {
        let body = json!({"error": {
            "code": status,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }});
        Self {
            status,
            ..Self::of(&body)
        }
    }

    /// What is asked for is not there.
    pub fn absent(path: &str) -> Self {
        Self::error(404, "notFound", &format!("The resource '{path}' was not found"))
    }
}

/// The query of a request, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads it.
    pub fn read(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = String::from_utf8_lossy(&digits).into_owned();
        bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A page of items from where the token says, and the token of the next. A strange token has no page.
pub fn page<T: Clone>(items: &[T], query: &Query, most: usize) -> Result<(Vec<T>, Option<String>), Answer> {
    let wanted = query
        .get("maxResults")
        .and_then(|most| most.parse().ok())
        .unwrap_or(500);
    if wanted > 500 {
        return Err(Answer::error(
            400,
            "invalid",
            "Invalid value for field 'maxResults'",
        ));
    }
    let start = match query.get("pageToken") {
        None => 0,
        Some(token) => match token.strip_prefix("from=").and_then(|start| start.parse().ok()) {
            Some(start) => start,
            None => {
                return Err(Answer::error(
                    400,
                    "invalid",
                    "Invalid value for field 'pageToken'",
                ));
            }
        },
    };
    let end = (start + wanted.min(most)).min(items.len());
    let found = items.get(start..end).unwrap_or_default().to_vec();
    Ok((found, (end < items.len()).then(|| format!("from={end}"))))
}

/// The parts of an answer that `fields` names, `items(name,properties/labels),nextPageToken`. None if it has another form.
pub fn parts(value: &Value, fields: &str) -> Option<Value> {
    let mut kept = Map::new();
    for field in split(fields)? {
        let (name, below) = match field.find(['/', '(']) {
            None => (field, None),
            Some(at) if field[at..].starts_with('/') => (&field[..at], Some(&field[at + 1..])),
            Some(at) => (&field[..at], Some(field[at + 1..].strip_suffix(')')?)),
        };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return None;
        }
        let Some(found) = value.get(name) else { continue };
        let part = match (below, found) {
            (None, found) => found.clone(),
            (Some(below), Value::Array(items)) => {
                let items: Option<Vec<Value>> = items.iter().map(|item| parts(item, below)).collect();
                Value::Array(items?)
            }
            (Some(below), found) => parts(found, below)?,
        };
        kept.insert(name.to_owned(), part);
    }
    Some(Value::Object(kept))
}

/// Splits at the commas outside brackets.
fn split(fields: &str) -> Option<Vec<&str>> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in fields.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                found.push(&fields[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&fields[start..]);
    (depth == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_what_they_name() {
        let value =
            json!({"items": [{"name": "a", "properties": {"labels": {"x": "y"}, "disks": []}}], "kind": "k"});
        let kept = parts(&value, "items(name,properties/labels),nextPageToken").unwrap();
        assert_eq!(
            kept,
            json!({"items": [{"name": "a", "properties": {"labels": {"x": "y"}}}]})
        );
        assert_eq!(parts(&value, "items(name"), None);
    }
}
