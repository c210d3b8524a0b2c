//! Calls to Azure Resource Manager, and what its answers mean. Sends each request once, and never waits. Whatever comes back is a stranger's
//! bytes: nothing in it is believed to be there.

use crate::{config::Config, time};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::{failure, of_host, of_status, retry_after},
    host::{Authorization, Cloud, Method, Request, Response},
    serde_json::{self, Value},
};

/// The version of the API: the first years of it have no `etag` for scale sets.
const API_VERSION: &str = "2024-07-01";
/// Pages of one list that are read; Azure's largest scale set has ten.
const PAGES: usize = 50;
/// Longest URL that is followed.
const URL_BYTES: usize = 2048;
/// Seconds between questions about an operation for which Azure names none, and the most.
const POLL_SECONDS: u32 = 10;
const LONGEST_POLL_SECONDS: u32 = 120;

/// What Azure says when a resource is not there, as against a wrong path, a wrong subscription or another server.
const GONE: [&str; 4] = [
    "ResourceNotFound",
    "NotFound",
    "ResourceGroupNotFound",
    "ParentResourceNotFound",
];
/// What it says of quota and capacity.
const EXHAUSTED: [&str; 9] = [
    "QuotaExceeded",
    "OperationNotAllowed",
    "SkuNotAvailable",
    "AllocationFailed",
    "ZonalAllocationFailed",
    "OverconstrainedAllocationRequest",
    "OverconstrainedZonalAllocationRequest",
    "SubnetIsFull",
    "PublicIPCountLimitReached",
];
/// What it says of a request that may well do later.
const UNAVAILABLE: [&str; 6] = [
    "Conflict",
    "AnotherOperationInProgress",
    "OperationPreempted",
    "RetryableError",
    "InternalExecutionError",
    "ServerTimeout",
];
/// What it says of a request that will never do.
const INVALID: [&str; 5] = [
    "InvalidParameter",
    "InvalidRequestContent",
    "InvalidRequestFormat",
    "PropertyChangeNotAllowed",
    "InvalidImageReference",
];

/// An answer that was not a refusal.
#[derive(Debug)]
pub struct Answer {
    /// The body; null if there is none.
    pub body: Value,
    /// Where the operation is asked after that goes on; none if all is done.
    pub operation: Option<String>,
    /// When to ask.
    pub retry_after_seconds: u32,
}

/// Why a call came to nothing.
#[derive(Debug)]
pub enum Refusal {
    /// The resource is not there, and Azure says so in as many words.
    Gone(Failure),
    /// It was changed since it was read.
    Changed(Failure),
    /// Anything else.
    Failed(Failure),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Gone(failure) | Refusal::Changed(failure) | Refusal::Failed(failure) => failure,
        }
    }
}

/// What became of an operation.
#[derive(Debug)]
pub enum Progress {
    /// It goes on; ask again after so many seconds.
    Running(u32),
    /// It is over, or nobody can say.
    Over,
    /// It failed.
    Failed(Failure),
}

/// A change to a resource.
pub struct Change<'a> {
    /// How.
    pub method: Method,
    /// Of what, as a path.
    pub path: &'a str,
    /// What people call it.
    pub what: &'a str,
    /// What it says.
    pub body: &'a Value,
    /// The version that was read.
    pub etag: Option<&'a str>,
}

/// The API, as one call of the provider sees it.
#[derive(Debug)]
pub struct Arm<'a, H> {
    host: &'a H,
    config: &'a Config,
}

impl<'a, H: Cloud> Arm<'a, H> {
    /// Reaches the API through a host.
    pub fn new(host: &'a H, config: &'a Config) -> Self {
        Self { host, config }
    }

    /// Reads one resource.
    pub fn get(&self, path: &str, what: &str) -> Result<Value, Refusal> {
        self.read(&self.url(path), what)
    }

    /// Reads one resource, and when that was by Azure's clock.
    pub fn get_dated(&self, path: &str, what: &str) -> Result<(Value, Option<u64>), Refusal> {
        let response = self.send(Method::Get, self.url(path), Vec::new(), Vec::new())?;
        let date = header(&response, "date").and_then(time::of_header);
        Ok((an_object(&response, what)?, date))
    }

    /// Reads a list to its last page.
    ///
    /// Errors: there are more than fifty pages, or a page leads to another server.
    pub fn list(
        &self,
        path: &str,
        what: &str,
        mut each: impl FnMut(&Value) -> Result<(), Failure>,
    ) -> Result<(), Refusal> {
        let mut url = self.url(path);
        for _ in 0..PAGES {
            let page = self.read(&url, what)?;
            let Some(items) = page.get("value").and_then(Value::as_array) else {
                return Err(Refusal::Failed(odd(what, "value: found no list")));
            };
            for item in items {
                each(item).map_err(Refusal::Failed)?;
            }
            match page.get("nextLink") {
                None | Some(Value::Null) => return Ok(()),
                Some(Value::String(next)) if next.is_empty() => return Ok(()),
                Some(next) => {
                    url = self
                        .own(next.as_str().unwrap_or_default(), what)
                        .map_err(Refusal::Failed)?;
                }
            }
        }
        Err(Refusal::Failed(odd(
            what,
            &format!("found more than {PAGES} pages"),
        )))
    }

    /// Changes something.
    pub fn change(&self, change: &Change<'_>) -> Result<Answer, Refusal> {
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        if let Some(etag) = change.etag {
            headers.push(("if-match".to_owned(), etag.to_owned()));
        }
        let body = change.body.to_string().into_bytes();
        let response = self.send(change.method, self.url(change.path), headers, body)?;
        let body = understood(&response, change.what)?;
        let operation = header(&response, "azure-asyncoperation").or_else(|| header(&response, "location"));
        Ok(Answer {
            body,
            operation: operation.and_then(|url| self.own(url, change.what).ok()),
            retry_after_seconds: pause(&response),
        })
    }

    /// Asks after an operation. Nobody must be able to say how it went: the resource itself tells, too.
    pub fn progress(&self, url: &str, what: &str) -> Result<Progress, Failure> {
        let Ok(url) = self.own(url, what) else {
            return Ok(Progress::Over);
        };
        let response = self.send(Method::Get, url, Vec::new(), Vec::new())?;
        if response.status == 202 {
            return Ok(Progress::Running(pause(&response)));
        }
        let body = match understood(&response, what) {
            Ok(body) => body,
            Err(Refusal::Failed(failure)) if may_end(&failure) => return Err(failure),
            Err(_) => return Ok(Progress::Over),
        };
        let Some(status) = body.get("status").and_then(Value::as_str) else {
            return Ok(Progress::Over);
        };
        if status.eq_ignore_ascii_case("Failed") || status.eq_ignore_ascii_case("Canceled") {
            let error = body.get("error").unwrap_or(&Value::Null);
            let failed = of_error(&response, error, &format!("{what} failed"));
            // One that gave way to a newer one has not failed: the newer one does what it was for.
            let gave_way = code_of(error).eq_ignore_ascii_case("OperationPreempted");
            return Ok(if gave_way {
                Progress::Over
            } else {
                Progress::Failed(failed)
            });
        }
        if status.eq_ignore_ascii_case("Succeeded") {
            return Ok(Progress::Over);
        }
        Ok(Progress::Running(pause(&response)))
    }

    fn read(&self, url: &str, what: &str) -> Result<Value, Refusal> {
        let response = self.send(Method::Get, url.to_owned(), Vec::new(), Vec::new())?;
        an_object(&response, what)
    }

    fn send(
        &self,
        method: Method,
        url: String,
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Response, Failure> {
        let request = Request {
            method,
            url,
            headers,
            body,
            authorization: Some(Authorization {
                credential: self.config.credential.clone(),
                scheme: "bearer".to_owned(),
                parameters: Vec::new(),
            }),
        };
        self.host.send(&request).map_err(|error| of_host(&error))
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}?api-version={API_VERSION}", self.config.host)
    }

    /// A URL that Azure named, if it leads to the same server: another must never see the credential.
    fn own(&self, url: &str, what: &str) -> Result<String, Failure> {
        let rest = url
            .get(.."https://".len())
            .filter(|scheme| scheme.eq_ignore_ascii_case("https://"));
        let rest = rest.and_then(|_| url.get("https://".len()..)).unwrap_or_default();
        let (server, path) = rest.split_once('/').unwrap_or_default();
        let server = server.strip_suffix(":443").unwrap_or(server);
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !server.eq_ignore_ascii_case(&self.config.host) || !plain || url.len() > URL_BYTES {
            let url: String = url.chars().take(100).collect();
            return Err(odd(
                what,
                &format!(
                    "found a link to {url:?}, wanted one to https://{}/",
                    self.config.host
                ),
            ));
        }
        Ok(format!("https://{}/{path}", self.config.host))
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An answer that is not what the documentation says.
pub fn odd(what: &str, words: &str) -> Failure {
    failure(
        FailureCode::Unavailable,
        format!("{what}: odd answer of Azure: {words}"),
    )
}

/// Whether a failure ends by itself, so that it is better to ask again than to go on without an answer.
fn may_end(failure: &Failure) -> bool {
    matches!(failure.code, FailureCode::Throttled | FailureCode::Unavailable)
}

fn header<'a>(response: &'a Response, wanted: &str) -> Option<&'a str> {
    let mut found = response
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    found.next().map(|(_, value)| value.as_str())
}

fn pause(response: &Response) -> u32 {
    retry_after(response)
        .unwrap_or(POLL_SECONDS)
        .clamp(1, LONGEST_POLL_SECONDS)
}

/// The body of a good answer, which must be an object.
fn an_object(response: &Response, what: &str) -> Result<Value, Refusal> {
    match understood(response, what)? {
        body @ Value::Object(_) => Ok(body),
        _ => Err(Refusal::Failed(odd(what, "found no JSON object"))),
    }
}

/// The body of a good answer, or what a bad one means.
fn understood(response: &Response, what: &str) -> Result<Value, Refusal> {
    let body = serde_json::from_slice::<Value>(&response.body);
    if (200..300).contains(&response.status) {
        let empty = response.body.iter().all(u8::is_ascii_whitespace);
        return match body {
            Ok(body) => Ok(body),
            Err(_) if empty => Ok(Value::Null),
            Err(error) => Err(Refusal::Failed(odd(what, &format!("no JSON: {error}")))),
        };
    }
    let body = body.unwrap_or_default();
    let error = body.get("error").unwrap_or(&Value::Null);
    let failure = of_error(
        response,
        error,
        &format!("{what}: Azure answers {}", response.status),
    );
    let code = code_of(error);
    Err(match response.status {
        404 if is_one(&GONE, code) => Refusal::Gone(failure),
        412 => Refusal::Changed(failure),
        _ => Refusal::Failed(failure),
    })
}

/// A failure in Azure's own words. Its inner errors say more than the outer one.
fn of_error(response: &Response, error: &Value, intro: &str) -> Failure {
    let code = code_of(error);
    let mut words = vec![intro.to_owned()];
    let details = error
        .get("details")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    for part in std::iter::once(error).chain(details.iter().take(3)) {
        let message = part.get("message").and_then(Value::as_str).unwrap_or_default();
        let message: String = message
            .chars()
            .take(400)
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        if !code_of(part).is_empty() || !message.is_empty() {
            words.push(format!("{}: {message}", code_of(part)));
        }
    }
    let mut failure = of_status(response, words.join("; "));
    let mut codes = std::iter::once(code).chain(details.iter().take(3).map(code_of));
    if let Some(meant) = codes.find_map(|code| meaning(response.status, code)) {
        failure.code = meant;
    }
    failure
}

fn code_of(error: &Value) -> &str {
    let code = error.get("code").and_then(Value::as_str).unwrap_or_default();
    code.get(..code.len().min(64)).unwrap_or_default()
}

/// What a code means, where the status does not say it better.
fn meaning(status: u16, code: &str) -> Option<FailureCode> {
    if matches!(status, 401 | 403 | 429) {
        return None;
    }
    if is_one(&EXHAUSTED, code) {
        return Some(FailureCode::Exhausted);
    }
    if is_one(&UNAVAILABLE, code) {
        return Some(FailureCode::Unavailable);
    }
    if is_one(&INVALID, code) {
        return Some(FailureCode::Invalid);
    }
    let missing = code.len() >= 8
        && code
            .get(code.len() - 8..)
            .is_some_and(|end| end.eq_ignore_ascii_case("NotFound"));
    missing.then_some(FailureCode::NotFound)
}

fn is_one(codes: &[&str], code: &str) -> bool {
    codes.iter().any(|known| known.eq_ignore_ascii_case(code))
}
