//! Operations of the API, which go on after the answer, and the token that they are found by in the next call. A token is a memory and no
//! authority: one that does not fit is as good as none.

use crate::{
    answer::{Kind, Refusal, errors, odd, text},
    api::Api,
};
use numo_provider_sdk::{
    Failure, Pending,
    host::Host,
    serde_json::{self, Value, json},
};

/// Bytes of a token that are read, as the contract bounds it.
const TOKEN_BYTES: usize = 4096;

/// How far an operation is.
#[derive(Clone, Debug)]
pub enum Progress {
    /// It goes on.
    Running,
    /// It ended as it should.
    Done,
    /// It ended otherwise.
    Failed(Refusal),
}

/// Reads an operation, as an answer to a request or as itself.
pub fn progress(what: &str, operation: &Value) -> Progress {
    if text(operation, "status") != "DONE" {
        return Progress::Running;
    }
    let status = operation.get("httpErrorStatusCode").and_then(Value::as_u64);
    match errors(what, operation.get("error"), status) {
        Some(refusal) => Progress::Failed(refusal),
        None => Progress::Done,
    }
}

/// Path of an operation that was begun in a scope, `projects/P/zones/Z`, `projects/P/global`.
pub fn path(scope: &str, operation: &Value) -> Result<String, Failure> {
    let name = text(operation, "name");
    if is_name(name) {
        return Ok(format!("{scope}/operations/{name}"));
    }
    Err(odd(scope, "an operation without a name"))
}

/// Asks how far an operation is. One that the cloud has forgotten is over; what came of it is seen by what is there.
pub fn ask<H: Host>(api: &Api<'_, H>, path: &str) -> Result<Progress, Failure> {
    match api.get(path) {
        Ok(operation) => Ok(progress(path, &operation)),
        Err(refusal) if refusal.kind == Kind::Absent => Ok(Progress::Done),
        Err(refusal) => Err(refusal.failure),
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// What the next call is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is for: the request, or the image.
    pub purpose: String,
    /// What was begun: a machine's name, or a template's path.
    pub thing: String,
    /// Path of the operation.
    pub operation: String,
    /// How often the thing was not there though the operation had ended.
    pub unseen: u64,
}

impl Token {
    /// Reads one that is for this purpose, of an operation in this project.
    pub fn read(token: Option<&str>, purpose: &str, project: &str) -> Option<Self> {
        let token = token.filter(|token| token.len() <= TOKEN_BYTES)?;
        let value: Value = serde_json::from_str(token).ok()?;
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let found = Self {
            purpose: field("for")?,
            thing: field("thing")?,
            operation: field("operation")?,
            unseen: value.get("unseen").and_then(Value::as_u64).unwrap_or_default(),
        };
        let (scope, name) = found.operation.rsplit_once("/operations/")?;
        let is_own = scope.starts_with(&format!("projects/{project}/"))
            && scope.split('/').all(crate::ids::is_project)
            && is_name(name);
        (is_own && found.purpose == purpose).then_some(found)
    }

    /// The answer that it goes with.
    pub fn pending(&self, seconds: u32, message: String) -> Pending {
        let token = json!({
            "for": self.purpose,
            "thing": self.thing,
            "operation": self.operation,
            "unseen": self.unseen,
        });
        Pending {
            token: token.to_string(),
            retry_after_seconds: seconds,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_one_that_does_not_fit_is_none() {
        let token = Token {
            purpose: "numo-1".to_owned(),
            thing: "node-numo-1".to_owned(),
            operation: "projects/p/zones/z/operations/operation-1".to_owned(),
            unseen: 2,
        };
        let text = token.pending(5, String::new()).token;
        assert_eq!(Token::read(Some(&text), "numo-1", "p"), Some(token));
        assert_eq!(Token::read(Some(&text), "numo-2", "p"), None);
        assert_eq!(Token::read(Some(&text), "numo-1", "q"), None);
        let elsewhere = text.replace("projects/p/zones/z", "projects/p/../../x");
        for wrong in [elsewhere.as_str(), "", "[]", "{}", &"x".repeat(5000)] {
            assert_eq!(Token::read(Some(wrong), "numo-1", "p"), None, "{wrong}");
        }
    }
}
