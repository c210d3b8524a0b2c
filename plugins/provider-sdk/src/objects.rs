//! Kubernetes objects as providers read and patch them: lists to their last page, values by pointer, failures in the contract's words.
//! Nothing is decided here, and nothing is written.

use crate::{
    Error, ErrorCode, Failure, FailureCode, ObjectRef,
    failure::{failure, of_host},
    host::{Freshness, Kubernetes, ListQuery, Projection},
};
use serde_json::Value;

/// Pages that are read of one list.
const PAGES: usize = 50;
/// Objects on a page.
const LIMIT: u32 = 500;

/// What to read of each object.
pub fn fields(pointers: &[&str], freshness: Freshness) -> Projection {
    Projection {
        fields: pointers.iter().map(|&pointer| pointer.to_owned()).collect(),
        freshness,
    }
}

/// One object, or none if it does not exist.
///
/// Errors: the host's, and an answer that is no object of this name.
pub fn get(
    host: &impl Kubernetes,
    object: &ObjectRef,
    projection: &Projection,
) -> Result<Option<Value>, Failure> {
    let read = host.get_object(object, projection);
    let Some(json) = read.map_err(|error| of_object(&error, object))? else {
        return Ok(None);
    };
    let value = parse(&json, &object.kind)?;
    if text(&value, "/metadata/name") != object.name {
        let found = text(&value, "/metadata/name");
        return Err(odd(format!(
            "{}: found the answer about {found:?}",
            shown(object)
        )));
    }
    Ok(Some(value))
}

/// All objects of a list, to its last page.
///
/// Errors: the host's, more than 50 pages, and an item that is no object.
pub fn list(host: &impl Kubernetes, mut query: ListQuery) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    query.limit = LIMIT;
    for _ in 0..PAGES {
        let page = host.list_objects(&query).map_err(|error| {
            let place = query.namespace.as_deref().unwrap_or("all namespaces");
            of_write(&error, &format!("list of {} in {place}", query.kind))
        })?;
        for item in &page.items {
            found.push(parse(item, &query.kind)?);
        }
        match page.continue_token {
            Some(token) => query.continue_token = Some(token),
            None => return Ok(found),
        }
    }
    Err(odd(format!(
        "list of {}: found more than {PAGES} pages, wanted fewer",
        query.kind
    )))
}

/// The HTTP status that the API server answered with, if the host says so.
pub fn status(error: &Error) -> Option<u16> {
    detail(error, "http-status")?.parse().ok()
}

/// A failed call about an object: by its HTTP status where it has one that says more than the host's code.
pub fn of_object(error: &Error, object: &ObjectRef) -> Failure {
    of_write(error, &shown(object))
}

fn of_write(error: &Error, what: &str) -> Failure {
    let failed = of_host(error);
    let code = match (error.code, status(error)) {
        // A ResourceQuota of the namespace: it is a 403 as a right that lacks is one, and nobody's right is to be changed.
        (_, Some(403)) if error.message.contains("exceeded quota") => FailureCode::Exhausted,
        // Whether there is an object is not known of a kind that is not served: it is never taken for gone.
        (ErrorCode::Unsupported, _) => FailureCode::Unavailable,
        (ErrorCode::Denied | ErrorCode::Forbidden, _) | (_, Some(401 | 403)) => FailureCode::Denied,
        (_, Some(404)) => FailureCode::NotFound,
        (_, Some(429)) => FailureCode::Throttled,
        (_, Some(500..=599)) => FailureCode::Unavailable,
        _ => failed.code,
    };
    Failure {
        retry_after_seconds: retry_after(error),
        ..failure(code, format!("{what}: {}", error.message))
    }
}

/// When the API server wants to be asked again (seconds, an hour at most), if it says so.
fn retry_after(error: &Error) -> Option<u32> {
    let seconds: u32 = detail(error, "retry-after")?.parse().ok()?;
    Some(seconds.min(3600))
}

fn detail<'a>(error: &'a Error, wanted: &str) -> Option<&'a str> {
    let mut details = error.details.iter();
    details
        .find(|(key, _)| key == wanted)
        .map(|(_, value)| value.as_str())
}

/// An object for people: `MachineDeployment ns/name`.
pub fn shown(object: &ObjectRef) -> String {
    match &object.namespace {
        Some(namespace) => format!("{} {namespace}/{}", object.kind, object.name),
        None => format!("{} {}", object.kind, object.name),
    }
}

/// The text at a pointer; empty if there is none.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// A key as a token of a JSON pointer.
pub fn token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// An object of a kind, from the host's answer.
///
/// Errors: it is no object with a name.
pub fn parse(json: &str, kind: &str) -> Result<Value, Failure> {
    let value: Option<Value> = serde_json::from_str(json).ok();
    let value = value.filter(|value| !text(value, "/metadata/name").is_empty());
    value.ok_or_else(|| {
        odd(format!(
            "{kind}: found {} bytes that are no object with a name",
            json.len()
        ))
    })
}

fn odd(message: String) -> Failure {
    failure(FailureCode::Other, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_more_than_the_code() {
        let error = |code, status: &str| Error {
            code,
            message: "words".to_owned(),
            details: vec![("http-status".to_owned(), status.to_owned())],
        };
        for (code, status, wanted) in [
            (ErrorCode::Other, "404", FailureCode::NotFound),
            (ErrorCode::Unavailable, "429", FailureCode::Throttled),
            (ErrorCode::Other, "503", FailureCode::Unavailable),
            (ErrorCode::Forbidden, "403", FailureCode::Denied),
            (ErrorCode::Unsupported, "404", FailureCode::Unavailable),
            (ErrorCode::Unsupported, "", FailureCode::Unavailable),
            (ErrorCode::Invalid, "odd", FailureCode::Invalid),
        ] {
            let failed = of_write(&error(code, status), "Machine a/b");
            assert_eq!(
                (failed.code, failed.message.as_str()),
                (wanted, "Machine a/b: words")
            );
        }
    }

    #[test]
    fn haste_keeps_its_seconds_and_a_quota_is_no_right() {
        let error = |status: &str, message: &str, seconds: &str| Error {
            code: ErrorCode::Forbidden,
            message: message.to_owned(),
            details: vec![
                ("http-status".to_owned(), status.to_owned()),
                ("retry-after".to_owned(), seconds.to_owned()),
            ],
        };
        let seconds = |said: &str| of_write(&error("429", "slow", said), "a").retry_after_seconds;
        assert_eq!(
            (seconds("7"), seconds("99999"), seconds("soon")),
            (Some(7), Some(3600), None)
        );
        let quota = "configmaps \"m\" is forbidden: exceeded quota: q, requested: configmaps=1";
        assert_eq!(
            of_write(&error("403", quota, ""), "a").code,
            FailureCode::Exhausted
        );
        assert_eq!(
            of_write(&error("403", "may not", ""), "a").code,
            FailureCode::Denied
        );
    }

    #[test]
    fn keys_are_quoted_for_pointers() {
        assert_eq!(token("a.b/c~d"), "a.b~1c~0d");
        let value = serde_json::json!({"a/b": {"c": "d"}, "n": 1});
        assert_eq!(text(&value, "/a~1b/c"), "d");
        assert_eq!(text(&value, "/n"), "");
    }
}
