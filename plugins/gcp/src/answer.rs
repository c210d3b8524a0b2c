//! What the cloud says when it refuses, in the contract's words. No calls. Everything here comes from a stranger: nothing is trusted to be
//! there, and what is shown of it is cut.

use crate::ids::last;
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::{failure, of_status},
    host::Response,
    serde_json::{self, Value},
};

/// Characters of the cloud's own words in a message, so that what stands before them stays.
const WORDS: usize = 600;

/// What a refusal means for the caller, beyond its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The resource is not there, and the cloud itself says so.
    Absent,
    /// There is one of that name.
    Taken,
    /// Whoever asks again for the same may be granted it: what was asked for was not looked at.
    Passing,
    /// What was asked for was refused.
    Refused,
}

/// A refusal.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What it means.
    pub kind: Kind,
    /// What is said of it.
    pub failure: Failure,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            kind: Kind::Passing,
            failure,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

/// Reads the body of an answer that is no success; `path` is what was asked for.
pub fn refusal(path: &str, response: &Response) -> Refusal {
    let body: Option<Value> = serde_json::from_slice(&response.body).ok();
    let error = body.as_ref().and_then(|body| body.get("error"));
    let reason = error.map(reason).unwrap_or_default();
    let words = error.map(|error| text(error, "message")).unwrap_or_default();
    let status = response.status;
    let said = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", words_of(&reason))
    };
    let message = format!("{path}: the cloud answers {status}{said}: {}", words_of(words));
    let mut failure = of_status(response, &message);
    if let Some(code) = code_of(&reason) {
        failure.code = code;
    }
    if status == 413 {
        failure.code = FailureCode::Exhausted;
    }
    let is_own = error.is_some();
    let kind = match failure.code {
        FailureCode::NotFound if is_own && status == 404 && !is_of_another(words, path) => Kind::Absent,
        FailureCode::NotFound if !is_own => {
            // A 404 that is not the API's own says nothing of the resource.
            failure.code = FailureCode::Unavailable;
            Kind::Passing
        }
        _ if is_taken(&reason) => Kind::Taken,
        FailureCode::Denied | FailureCode::Throttled | FailureCode::Unavailable | FailureCode::Exhausted => {
            Kind::Passing
        }
        _ => Kind::Refused,
    };
    Refusal { kind, failure }
}

/// Reads the errors that an operation or an attempt to make a machine ended with, `{"errors": [{"code", "message"}]}`. None if there are none.
pub fn errors(what: &str, error: Option<&Value>, status: Option<u64>) -> Option<Refusal> {
    let list = error
        .and_then(|error| error.get("errors"))
        .and_then(Value::as_array);
    let first = list.and_then(|list| list.first());
    if first.is_none() && status.is_none_or(|status| status < 400) {
        return None;
    }
    let code = first.map(|first| text(first, "code")).unwrap_or_default();
    let words = first.map(|first| text(first, "message")).unwrap_or_default();
    let message = format!("{what}: the cloud says {}: {}", words_of(code), words_of(words));
    let status = status
        .and_then(|status| u16::try_from(status).ok())
        .unwrap_or(400);
    let mut failure = of_status(&bare(status), &message);
    if let Some(code) = code_of(code) {
        failure.code = code;
    }
    let kind = if is_taken(code) {
        Kind::Taken
    } else {
        Kind::Refused
    };
    Some(Refusal { kind, failure })
}

/// An answer that is no JSON object where one is wanted.
pub fn odd(what: &str, found: &str) -> Failure {
    failure(
        FailureCode::Unavailable,
        format!("{what}: found {found} in the cloud's answer"),
    )
}

/// Whether the cloud misses something else than what was asked for: its project, or its zone. It quotes the path.
fn is_of_another(words: &str, path: &str) -> bool {
    let quoted = words
        .split('\'')
        .nth(1)
        .filter(|quoted| quoted.starts_with("projects/"));
    quoted.is_some_and(|quoted| last(quoted) != last(path))
}

fn bare(status: u16) -> Response {
    Response {
        status,
        headers: Vec::new(),
        body: Vec::new(),
    }
}

/// The word that says why: the first reason, or the status.
fn reason(error: &Value) -> String {
    let list = error.get("errors").and_then(Value::as_array);
    let first = list.and_then(|list| list.first());
    let reason = first.map(|first| text(first, "reason")).unwrap_or_default();
    if reason.is_empty() {
        text(error, "status")
    } else {
        reason
    }
    .to_owned()
}

/// Reasons of the API and codes of operations are the same words, written in two ways.
fn plain(word: &str) -> String {
    let letters = word.chars().filter(char::is_ascii_alphanumeric).take(64);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

fn is_taken(word: &str) -> bool {
    plain(word).ends_with("alreadyexists")
}

/// What numo does about a reason; none where the status says it.
fn code_of(word: &str) -> Option<FailureCode> {
    let word = plain(word);
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    if has(&[
        "ratelimit",
        "rateexceeded",
        "toomanyrequests",
        "concurrentoperations",
    ]) {
        Some(FailureCode::Throttled)
    } else if has(&[
        "quotaexceeded",
        "limitexceeded",
        "poolexhausted",
        "stockout",
        "insufficientcapacity",
    ]) {
        Some(FailureCode::Exhausted)
    } else if has(&[
        "forbidden",
        "permission",
        "accessdenied",
        "accessnotconfigured",
        "unauthenticated",
    ]) {
        Some(FailureCode::Denied)
    } else if has(&[
        "notready",
        "backenderror",
        "internalerror",
        "unavailable",
        "timeout",
    ]) {
        Some(FailureCode::Unavailable)
    } else if has(&["notfound"]) {
        Some(FailureCode::NotFound)
    } else {
        None
    }
}

/// A text of an object, empty if there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A stranger's words for a message: the first of them, on one line.
pub fn words_of(words: &str) -> String {
    if words.is_empty() {
        return "nothing".to_owned();
    }
    let letters = words.chars().take(WORDS);
    letters
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Response {
        Response {
            status,
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn refused(status: u16, reason: &str) -> Refusal {
        let body = format!(
            r#"{{"error": {{"code": {status}, "message": "words", "errors": [{{"reason": "{reason}"}}]}}}}"#
        );
        refusal("instance i", &answer(status, &body))
    }

    #[test]
    fn a_refusal_is_told_by_what_numo_does_about_it() {
        for (status, reason, code, kind) in [
            (403, "forbidden", FailureCode::Denied, Kind::Passing),
            (401, "required", FailureCode::Denied, Kind::Passing),
            (403, "quotaExceeded", FailureCode::Exhausted, Kind::Passing),
            (403, "rateLimitExceeded", FailureCode::Throttled, Kind::Passing),
            (429, "x", FailureCode::Throttled, Kind::Passing),
            (404, "notFound", FailureCode::NotFound, Kind::Absent),
            (409, "alreadyExists", FailureCode::Other, Kind::Taken),
            (400, "invalid", FailureCode::Other, Kind::Refused),
            (400, "resourceNotReady", FailureCode::Unavailable, Kind::Passing),
            (503, "backendError", FailureCode::Unavailable, Kind::Passing),
        ] {
            let found = refused(status, reason);
            assert_eq!(
                (found.failure.code, found.kind),
                (code, kind),
                "{status} {reason}"
            );
            assert!(
                found.failure.message.contains("words"),
                "{}",
                found.failure.message
            );
        }
    }

    #[test]
    fn a_404_that_is_not_the_apis_own_says_nothing_of_the_resource() {
        for body in ["<html>Not Found</html>", "", "{}", "[]"] {
            let found = refusal("instance i", &answer(404, body));
            assert_eq!(
                (found.failure.code, found.kind),
                (FailureCode::Unavailable, Kind::Passing),
                "{body}"
            );
        }
    }

    #[test]
    fn a_project_that_is_missed_says_nothing_of_the_machine() {
        let body = |path: &str| {
            format!(r#"{{"error": {{"code": 404, "message": "The resource '{path}' was not found"}}}}"#)
        };
        let kind = |path: &str| refusal("projects/p/zones/z/instances/i", &answer(404, &body(path))).kind;
        assert_eq!(kind("projects/p/zones/z/instances/i"), Kind::Absent);
        assert_eq!(kind("projects/p"), Kind::Refused);
        assert_eq!(kind("projects/p/zones/z"), Kind::Refused);
    }

    #[test]
    fn an_operation_ends_with_the_same_words() {
        let error = serde_json::json!({"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "message": "none left"}]});
        let found = errors("op", Some(&error), None).unwrap();
        assert_eq!(found.failure.code, FailureCode::Exhausted);
        assert!(errors("op", None, None).is_none());
        assert!(errors("op", Some(&Value::Null), Some(503)).is_some());
    }
}
