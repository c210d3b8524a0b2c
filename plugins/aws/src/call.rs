//! One call of a Query API: made, sent, and what came of it in the contract's words. Decides nothing and repeats nothing.

use crate::{
    ids::{has, shown, shown_to},
    settings::Config,
    xml,
};
use numo_provider_sdk::{
    Failure, FailureCode,
    failure::{failure, of_host, of_status, retry_after},
    host::{Authorization, Cloud, Method, Request, Response},
    names::in_url,
};
use roxmltree::Node;

/// Bytes of an answer that are read.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Pages of a list.
const MOST_PAGES: usize = 50;
/// Seconds until a throttled call is made again, if the cloud does not say.
const THROTTLED_SECONDS: u32 = 5;
/// Characters of the cloud's own words.
const WORDS: usize = 400;

/// Which API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Instances, images, launch templates, subnets.
    Ec2,
    /// Auto scaling groups.
    AutoScaling,
}

/// A call that is to be made.
#[derive(Clone, Debug)]
pub struct Query {
    api: Api,
    action: &'static str,
    parameters: Vec<(String, String)>,
}

/// A call that brought nothing: the code that AWS gave, if any, and the failure.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// `InvalidInstanceID.NotFound`; empty if AWS said nothing readable.
    pub code: String,
    /// Its own words.
    pub words: String,
    /// What it means.
    pub failure: Failure,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.failure
    }
}

impl Refusal {
    /// Whether AWS gave this code.
    pub fn is(&self, codes: &[&str]) -> bool {
        codes.contains(&self.code.as_str())
    }

    /// Whether its own words have these in them, in any case.
    pub fn says(&self, words: &str) -> bool {
        has(&self.words.to_ascii_lowercase(), words)
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self {
            code: String::new(),
            words: String::new(),
            failure,
        }
    }
}

impl Query {
    /// A call of EC2.
    pub fn ec2(action: &'static str) -> Self {
        Self::of(Api::Ec2, action)
    }

    /// A call of Auto Scaling.
    pub fn autoscaling(action: &'static str) -> Self {
        Self::of(Api::AutoScaling, action)
    }

    fn of(api: Api, action: &'static str) -> Self {
        Self {
            api,
            action,
            parameters: Vec::new(),
        }
    }

    /// With one parameter more.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    fn body(&self) -> String {
        let version = match self.api {
            Api::Ec2 => "2016-11-15",
            Api::AutoScaling => "2011-01-01",
        };
        let mut body = format!("Action={}&Version={version}", self.action);
        for (name, value) in &self.parameters {
            body.push('&');
            body.push_str(&in_url(name));
            body.push('=');
            body.push_str(&in_url(value));
        }
        body
    }

    fn request(&self, config: &Config) -> Request {
        let (host, service) = match self.api {
            Api::Ec2 => (&config.ec2_host, "ec2"),
            Api::AutoScaling => (&config.autoscaling_host, "autoscaling"),
        };
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        Request {
            method: Method::Post,
            url: format!("https://{host}/"),
            headers: vec![("content-type".to_owned(), form.to_owned())],
            body: self.body().into_bytes(),
            authorization: Some(Authorization {
                credential: config.credential.clone(),
                scheme: "aws-sigv4".to_owned(),
                parameters: vec![
                    ("service".to_owned(), service.to_owned()),
                    ("region".to_owned(), config.region.clone()),
                ],
            }),
        }
    }

    /// The call by the names that people know.
    fn title(&self) -> String {
        let api = match self.api {
            Api::Ec2 => "EC2",
            Api::AutoScaling => "Auto Scaling",
        };
        format!("{api} {}", self.action)
    }
}

/// Makes a call about a thing, and reads the answer from its root element.
///
/// Errors: no answer, another answer than success, or one that is no XML.
pub fn ask<T>(
    host: &impl Cloud,
    config: &Config,
    about: &str,
    query: &Query,
    read: impl FnOnce(Node<'_, '_>) -> Result<T, Failure>,
) -> Result<T, Refusal> {
    // One copy of the machinery for all calls: a component is to be small.
    let mut read = Some(read);
    let mut found = None;
    ask_once(host, config, about, query, &mut |root| {
        if let Some(read) = read.take() {
            found = Some(read(root)?);
        }
        Ok(())
    })?;
    Ok(found.ok_or_else(|| unreadable(query, about))?)
}

fn ask_once(
    host: &impl Cloud,
    config: &Config,
    about: &str,
    query: &Query,
    read: &mut dyn FnMut(Node<'_, '_>) -> Result<(), Failure>,
) -> Result<(), Refusal> {
    let text = fetch(host, config, about, query)?;
    let Some(document) = xml::document(&text) else {
        return Err(unreadable(query, about).into());
    };
    let root = document.root_element();
    // A proxy's page, or the answer to something else.
    if root.tag_name().name() != format!("{}Response", query.action) {
        return Err(unreadable(query, about).into());
    }
    Ok(read(root)?)
}

/// Makes a call for each page of a list, until one is the last or has what was looked for.
///
/// Errors: as [`ask`], or there are too many pages.
pub fn pages(
    host: &impl Cloud,
    config: &Config,
    about: &str,
    query: &Query,
    read: &mut dyn FnMut(Node<'_, '_>) -> Result<bool, Failure>,
) -> Result<(), Refusal> {
    let names = match query.api {
        Api::Ec2 => ("NextToken", "nextToken"),
        Api::AutoScaling => ("NextToken", "NextToken"),
    };
    let mut page = query.clone();
    for _ in 0..MOST_PAGES {
        let next = ask(host, config, about, &page, |root| {
            let list = match query.api {
                Api::Ec2 => Some(root),
                Api::AutoScaling => xml::child(root, &format!("{}Result", query.action)),
            };
            let list = list.ok_or_else(|| unreadable(query, about))?;
            let found = read(list)?;
            Ok(xml::text(list, names.1).filter(|_| !found).map(str::to_owned))
        })?;
        let Some(next) = next else {
            return Ok(());
        };
        page = query.clone().with(names.0, &next);
    }
    Err(failure(
        FailureCode::Other,
        format!("{about}: {} has more than {MOST_PAGES} pages", query.title()),
    )
    .into())
}

/// An answer that cannot be read.
pub fn unreadable(query: &Query, about: &str) -> Failure {
    failure(
        FailureCode::Unavailable,
        format!(
            "{about}: {} answers with something else than the XML of this API",
            query.title()
        ),
    )
}

fn fetch(host: &impl Cloud, config: &Config, about: &str, query: &Query) -> Result<String, Refusal> {
    let sent = host.send(&query.request(config));
    let response = sent.map_err(|error| {
        let mut of_host = of_host(&error);
        of_host.message = failure(
            of_host.code,
            format!("{about}: {}: {}", query.title(), error.message),
        )
        .message;
        of_host
    })?;
    let body = response.body.get(..MOST_BYTES.min(response.body.len()));
    let is_whole = response.body.len() <= MOST_BYTES;
    let text = std::str::from_utf8(body.unwrap_or_default()).unwrap_or_default();
    if response.status != 200 {
        return Err(refusal(query, about, &response, text));
    }
    if text.is_empty() || !is_whole {
        return Err(unreadable(query, about).into());
    }
    Ok(text.to_owned())
}

fn refusal(query: &Query, about: &str, response: &Response, text: &str) -> Refusal {
    let said = xml::document(text).and_then(|document| {
        let mut nodes = document.descendants();
        let error = nodes.find(|node| xml::is_called(*node, "Error"))?;
        let message = xml::text(error, "Message").unwrap_or_default();
        Some((xml::text(error, "Code")?.to_owned(), message.to_owned()))
    });
    let status = response.status;
    let Some((code, words)) = said else {
        let sentence = format!(
            "{about}: {} answers with status {status} and no words",
            query.title()
        );
        return of_status(response, sentence).into();
    };
    let short = shown_to(&words, WORDS);
    let sentence = format!("{about}: {}: {}: {short}", query.title(), shown(&code));
    let mut failure = match meaning(&code, &words) {
        Some(meaning) => failure(meaning, sentence),
        None => of_status(response, sentence),
    };
    failure.retry_after_seconds = retry_after(response);
    if failure.code == FailureCode::Throttled {
        let again = failure.retry_after_seconds.unwrap_or(THROTTLED_SECONDS);
        failure.retry_after_seconds = Some(again);
    }
    Refusal {
        code,
        words: short,
        failure,
    }
}

/// Codes of throttling.
const THROTTLED: [&str; 8] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "EC2ThrottledException",
    "TooManyRequestsException",
    "SlowDown",
];
/// Codes of refused credentials or rights.
const DENIED: [&str; 16] = [
    "UnauthorizedOperation",
    "AuthFailure",
    "AccessDenied",
    "AccessDeniedException",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Codes of what passes by itself.
const UNAVAILABLE: [&str; 10] = [
    "InternalError",
    "InternalFailure",
    "ServiceUnavailable",
    "ServiceUnavailableException",
    "Unavailable",
    "ServerInternal",
    "ResourceContention",
    "ScalingActivityInProgress",
    "ConcurrentTagAccess",
    "RequestTimeout",
];
/// Codes of a parameter that AWS does not take.
const INVALID: [&str; 10] = [
    "IdempotentParameterMismatch",
    "InvalidParameter",
    "InvalidParameterCombination",
    "InvalidParameterValue",
    "InvalidRequest",
    "InvalidUserData",
    "MissingParameter",
    "UnknownParameter",
    "ValidationError",
    "ValidationException",
];

/// What a code of AWS means; none where only the status tells.
pub fn meaning(code: &str, words: &str) -> Option<FailureCode> {
    let words = words.to_ascii_lowercase();
    let is = |codes: &[&str]| codes.contains(&code);
    let ends = |ends: &[&str]| ends.iter().any(|end| code.ends_with(end));
    let says = |parts: &[&str]| parts.iter().any(|part| has(&words, part));
    Some(match code {
        _ if is(&THROTTLED) => FailureCode::Throttled,
        _ if is(&DENIED) => FailureCode::Denied,
        _ if is(&UNAVAILABLE) => FailureCode::Unavailable,
        _ if ends(&[
            "LimitExceeded",
            "QuotaExceeded",
            "QuotaExceededException",
            "CountExceeded",
        ]) =>
        {
            FailureCode::Exhausted
        }
        _ if code.starts_with("Insufficient") || is(&["SpotMaxPriceTooLow", "LimitExceeded"]) => {
            FailureCode::Exhausted
        }
        // Auto Scaling has one code for most of what it refuses.
        "ValidationError" if says(&["above max value", "max-size", "equals minsize", "min size"]) => {
            FailureCode::Exhausted
        }
        "ValidationError" if says(&["not found", "does not exist"]) => FailureCode::NotFound,
        _ if ends(&["NotFound", "NotFoundException", ".Unavailable"]) => FailureCode::NotFound,
        _ if ends(&[".Malformed"]) || is(&INVALID) => FailureCode::Invalid,
        _ => return None,
    })
}
