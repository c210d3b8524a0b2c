//! An evaluation on file: the question, every read with its answer, and the verdict. What is replayed reaches nobody.
//!
//! Recorded is what the host was asked after the grants were checked, before field masks: a changed rule that reads
//! other fields of the same objects replays too. Headers that the host attaches (credentials) are never recorded,
//! nor is where Prometheus is.

use super::{
    fixtures::{Gaps, prometheus, promql},
    outcome::EvaluationOutcome,
    trial::{self, Trial},
};
use async_trait::async_trait;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::Timestamp;
use numo_cli::CliError;
use numo_plugin::{
    Grants, Input, ObjectRef, Rule, RuleLimits, Services, Terms,
    services::{
        ErrorCode, Fetch, FetchRequest, FetchResponse, HistoryEntry, HostError, ListQuery, Object,
        ObjectPage, Prometheus, Reader,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// The version of the file's format.
const FORMAT: u32 = 1;
/// What stands at its beginning, for whoever opens it.
const ABOUT: &str = "A recording of `numo plugin run`. It holds the objects that the rule read, whole, and its configuration: share it as you would share those.";
/// Headers of answers that are secrets of a session.
const LEFT_OUT: [&str; 3] = ["set-cookie", "set-cookie2", "authentication-info"];

/// What the rule said before, as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Earlier {
    /// In which phase.
    phase: String,
    /// pass, wait, block or error.
    verdict: EarlierWord,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    summary: String,
    /// Of its report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// Default: the moment of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// Default: the run of the evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<String>,
}

/// The words of the contract's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum EarlierWord {
    #[serde(alias = "pass")]
    Pass,
    #[serde(alias = "wait")]
    Wait,
    #[serde(alias = "block")]
    Block,
    #[serde(alias = "error")]
    Error,
}

/// As the component reads it.
pub(crate) fn history(entries: &[Earlier], run: &str, now: Timestamp) -> Arc<[HistoryEntry]> {
    let entries = entries.iter().map(|earlier| HistoryEntry {
        run: earlier.run.clone().unwrap_or_else(|| run.to_owned()),
        phase: trial::phase(&earlier.phase).unwrap_or_else(|_| earlier.phase.clone()),
        attempt: earlier.attempt.unwrap_or(1),
        at: earlier.at.unwrap_or(now),
        verdict: format!("{:?}", earlier.verdict).to_lowercase(),
        reason: earlier.reason.clone(),
        summary: earlier.summary.clone(),
        data_json: earlier.data.as_ref().map(Value::to_string),
    });
    entries.collect()
}

fn earlier(entry: &HistoryEntry) -> Earlier {
    Earlier {
        phase: entry.phase.clone(),
        verdict: match entry.verdict.as_str() {
            "pass" => EarlierWord::Pass,
            "wait" => EarlierWord::Wait,
            "block" => EarlierWord::Block,
            _ => EarlierWord::Error,
        },
        reason: entry.reason.clone(),
        summary: entry.summary.clone(),
        data: entry
            .data_json
            .as_deref()
            .and_then(|data| serde_json::from_str(data).ok()),
        at: Some(entry.at),
        attempt: Some(entry.attempt),
        run: Some(entry.run.clone()),
    }
}

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Recording {
    about: String,
    format: u32,
    pub(crate) component: Component,
    now: Timestamp,
    input: Question,
    grants: Grants,
    limits: RuleLimits,
    /// Whether there was a Prometheus to be asked.
    prometheus: bool,
    history: Vec<Earlier>,
    pub(crate) calls: Vec<Call>,
    pub(crate) said: EvaluationOutcome,
}

/// What was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Component {
    name: String,
    version: String,
    pub(crate) digest: String,
}

/// The input, with objects instead of texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Question {
    run: String,
    owner: ObjectRef,
    phase: String,
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to_version: Option<String>,
    config: Value,
}

/// One read and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) asked: Asked,
    pub(crate) answer: Answered,
}

/// What the host asked for the component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum Asked {
    Get {
        object: ObjectRef,
        live: bool,
    },
    List {
        api_version: String,
        kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label_selector: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field_selector: Option<String>,
        live: bool,
        limit: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continue_token: Option<String>,
    },
    Fetch {
        method: String,
        url: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        headers: Vec<(String, String)>,
    },
    Query {
        promql: String,
    },
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub(crate) enum Answered {
    /// None: it does not exist.
    Object(Option<Value>),
    Page {
        items: Vec<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continue_token: Option<String>,
    },
    Response {
        status: u16,
        headers: Vec<(String, String)>,
        /// Where it is text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
        /// Where it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body_base64: Option<String>,
    },
    Error {
        code: String,
        message: String,
        details: Vec<(String, String)>,
    },
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get { object, live } => write!(f, "get {object}{}", fresh(*live)),
            Self::List {
                api_version,
                kind,
                namespace,
                label_selector,
                field_selector,
                live,
                continue_token,
                ..
            } => {
                write!(f, "list {api_version} {kind}")?;
                match namespace {
                    Some(namespace) => write!(f, " in {namespace}")?,
                    None => write!(f, " everywhere")?,
                }
                for selector in [label_selector, field_selector].into_iter().flatten() {
                    write!(f, ", {selector}")?;
                }
                if continue_token.is_some() {
                    write!(f, ", next page")?;
                }
                write!(f, "{}", fresh(*live))
            }
            Self::Fetch { method, url, .. } => write!(f, "{method} {url}"),
            Self::Query { promql } => write!(f, "query {promql}"),
        }
    }
}

fn fresh(live: bool) -> &'static str {
    if live { ", live" } else { "" }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(Some(_)) => write!(f, "found"),
            Self::Object(None) => write!(f, "does not exist"),
            Self::Page {
                items,
                continue_token,
            } => {
                let more = if continue_token.is_some() {
                    ", and more"
                } else {
                    ""
                };
                write!(f, "{} found{more}", items.len())
            }
            Self::Response { status, .. } => write!(f, "status {status}"),
            Self::Error { code, message, .. } => write!(f, "{code}: {message}"),
        }
    }
}

impl Asked {
    fn list(query: &ListQuery) -> Self {
        Self::List {
            api_version: query.api_version.clone(),
            kind: query.kind.clone(),
            namespace: query.namespace.clone(),
            label_selector: query.label_selector.clone(),
            field_selector: query.field_selector.clone(),
            live: query.live,
            limit: query.limit,
            continue_token: query.continue_token.clone(),
        }
    }

    fn fetch(request: &FetchRequest) -> Self {
        let headers = request.headers.iter().filter(|(_, value)| !value.is_sensitive());
        let mut headers: Vec<_> = headers
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into_owned(),
                )
            })
            .collect();
        headers.sort();
        Self::Fetch {
            method: if request.head { "HEAD" } else { "GET" }.to_owned(),
            url: request.url.to_string(),
            headers,
        }
    }

    fn query(request: &FetchRequest) -> Self {
        Self::Query {
            promql: promql(request),
        }
    }
}

const CODES: [(ErrorCode, &str); 9] = [
    (ErrorCode::Denied, "denied"),
    (ErrorCode::Forbidden, "forbidden"),
    (ErrorCode::Invalid, "invalid"),
    (ErrorCode::Unsupported, "unsupported"),
    (ErrorCode::Expired, "expired"),
    (ErrorCode::TooLarge, "too-large"),
    (ErrorCode::OverBudget, "over-budget"),
    (ErrorCode::Unavailable, "unavailable"),
    (ErrorCode::Other, "other"),
];

impl Answered {
    fn of<T>(answer: &Result<T, HostError>, given: impl FnOnce(&T) -> Self) -> Self {
        match answer {
            Ok(answer) => given(answer),
            Err(error) => {
                let code = CODES.iter().find(|(code, _)| *code == error.code);
                Self::Error {
                    code: code.map_or("other", |(_, word)| *word).to_owned(),
                    message: error.message.clone(),
                    details: error.details.clone(),
                }
            }
        }
    }

    fn response(response: &FetchResponse) -> Self {
        let headers = response
            .headers
            .iter()
            .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
        let text = std::str::from_utf8(&response.body).ok().map(str::to_owned);
        Self::Response {
            status: response.status,
            headers: headers.cloned().collect(),
            body_base64: text.is_none().then(|| BASE64_STANDARD.encode(&response.body)),
            body: text,
        }
    }

    fn error(&self) -> HostError {
        match self {
            Self::Error {
                code,
                message,
                details,
            } => {
                let found = CODES.iter().find(|(_, word)| word == code);
                let mut error = HostError::new(found.map_or(ErrorCode::Other, |(code, _)| *code), message);
                error.details.clone_from(details);
                error
            }
            _ => HostError::new(ErrorCode::Other, "the recorded answer is of another kind"),
        }
    }
}

/// What was asked so far, with its answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<Mutex<Vec<Call>>>);

impl Tape {
    /// The same services, with everything that passes kept.
    pub(crate) fn over(&self, services: &Services) -> Services {
        let with = |fetch: &Arc<dyn Fetch>, of_queries| -> Arc<dyn Fetch> {
            Arc::new(Taped {
                inner: fetch.clone(),
                tape: self.clone(),
                of_queries,
            })
        };
        Services {
            reader: services.reader.clone().map(|inner| -> Arc<dyn Reader> {
                Arc::new(Taped {
                    inner,
                    tape: self.clone(),
                    of_queries: false,
                })
            }),
            fetch: services.fetch.as_ref().map(|fetch| with(fetch, false)),
            prometheus: services.prometheus.as_ref().map(|prometheus| Prometheus {
                fetch: with(&prometheus.fetch, true),
                ..prometheus.clone()
            }),
            ..services.clone()
        }
    }

    /// All calls, each once.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, asked: Asked, answer: Answered) {
        let call = Call { asked, answer };
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !calls.contains(&call) {
            calls.push(call);
        }
    }
}

/// Somebody who answers, with what passes kept.
struct Taped<T: ?Sized> {
    tape: Tape,
    of_queries: bool,
    inner: Arc<T>,
}

/// The text of an object as a recording keeps it.
fn kept(found: &Object) -> Result<Object, HostError> {
    let value = found.value();
    let value = value.map_err(|error| HostError::new(ErrorCode::Other, error.to_string()))?;
    Ok(Object::from(&value))
}

#[async_trait]
impl Reader for Taped<dyn Reader> {
    async fn get(&self, object: &ObjectRef, live: bool) -> Result<Option<Object>, HostError> {
        // The component sees the same text now as when this is replayed.
        let answer = match self.inner.get(object, live).await {
            Ok(Some(found)) => kept(&found).map(Some),
            other => other,
        };
        let asked = Asked::Get {
            object: object.clone(),
            live,
        };
        let given =
            |found: &Option<Object>| Answered::Object(found.as_ref().and_then(|found| found.value().ok()));
        self.tape.note(asked, Answered::of(&answer, given));
        answer
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        let mut answer = self.inner.list(query).await;
        if let Ok(page) = &mut answer {
            let items: Result<_, _> = page.items.iter().map(kept).collect();
            page.items = items?;
        }
        let given = |page: &ObjectPage| Answered::Page {
            items: page.items.iter().filter_map(|item| item.value().ok()).collect(),
            continue_token: page.continue_token.clone(),
        };
        self.tape.note(Asked::list(query), Answered::of(&answer, given));
        answer
    }
}

#[async_trait]
impl Fetch for Taped<dyn Fetch> {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let asked = if self.of_queries {
            Asked::query(&request)
        } else {
            Asked::fetch(&request)
        };
        let answer = self.inner.fetch(request).await;
        self.tape.note(asked, Answered::of(&answer, Answered::response));
        answer
    }
}

impl Recording {
    /// Of an evaluation that is over.
    pub(crate) fn new(rule: &Rule, trial: &Trial, tape: &Tape, said: EvaluationOutcome) -> Self {
        let json = |text: &str| serde_json::from_str(text).unwrap_or_default();
        let about = rule.description();
        let (input, services) = (&trial.input, &trial.services);
        Self {
            about: ABOUT.to_owned(),
            format: FORMAT,
            component: Component {
                name: about.name.clone(),
                version: about.version.clone(),
                digest: rule.digest().to_owned(),
            },
            now: services.now,
            input: Question {
                run: input.run.clone(),
                owner: input.owner.clone(),
                phase: input.phase.clone(),
                attempt: input.attempt,
                node: input.node.as_ref().map(|node| json(&node.object_json)),
                pool: input.pool.clone(),
                from_version: input.from_version.clone(),
                to_version: input.to_version.clone(),
                config: json(&input.config_json),
            },
            grants: trial.terms.grants.as_ref().clone(),
            limits: trial.terms.limits.clone(),
            prometheus: services.prometheus.is_some(),
            history: services.history.iter().map(earlier).collect(),
            calls: tape.calls(),
            said,
        }
    }

    /// Reads one.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = super::yaml::text(path)?;
        let wrong = |what: &dyn fmt::Display| CliError::Wrong(format!("{}: {what}", path.display()));
        let recording: Self = serde_json::from_str(&text).map_err(|error| {
            CliError::Wrong(format!(
                "{}:{}:{}: no recording: {error}",
                path.display(),
                error.line(),
                error.column()
            ))
        })?;
        if recording.format != FORMAT {
            return Err(wrong(&format!(
                "format: found {}, wanted {FORMAT}",
                recording.format
            )));
        }
        Ok(recording)
    }

    /// Writes it, for its owner alone: it holds what the rule read.
    pub(crate) fn write(&self, path: &Path) -> Result<(), CliError> {
        use std::io::Write as _;
        let file = |source| CliError::File {
            path: path.to_owned(),
            source,
        };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| file(error.into()))?;
        text.push('\n');
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut open = options.open(path).map_err(file)?;
        open.write_all(text.as_bytes()).map_err(file)
    }

    /// The same question again, with the recorded answers.
    pub(crate) fn trial(&self, gaps: &Gaps) -> Result<Trial, CliError> {
        let replay = Arc::new(Replay::new(&self.calls, gaps));
        let question = &self.input;
        let node = question.node.clone().map(trial::node).transpose();
        Ok(Trial {
            input: Input {
                run: question.run.clone(),
                owner: question.owner.clone(),
                phase: question.phase.clone(),
                attempt: question.attempt,
                node: node.map_err(|why| CliError::Wrong(format!("input.node of the recording: {why}")))?,
                pool: question.pool.clone(),
                from_version: question.from_version.clone(),
                to_version: question.to_version.clone(),
                config_json: question.config.to_string(),
                attributes: Vec::new(),
            },
            terms: Terms {
                tenant: String::new(),
                grants: Arc::new(self.grants.clone()),
                limits: self.limits.clone(),
            },
            services: Services {
                reader: Some(replay.clone()),
                prometheus: if self.prometheus {
                    Some(prometheus(Arc::new(ReplayQueries(replay.clone())))?)
                } else {
                    None
                },
                fetch: Some(replay),
                history: history(&self.history, &question.run, self.now),
                ..Services::none(self.now)
            },
        })
    }
}

/// Answers what was recorded, in any order. A question that was asked more often gets its last answer again.
struct Replay {
    answers: Mutex<BTreeMap<String, VecDeque<Answered>>>,
    gaps: Gaps,
}

impl Replay {
    fn new(calls: &[Call], gaps: &Gaps) -> Self {
        let mut answers: BTreeMap<String, VecDeque<Answered>> = BTreeMap::new();
        for call in calls {
            answers
                .entry(key(&call.asked))
                .or_default()
                .push_back(call.answer.clone());
        }
        Self {
            answers: Mutex::new(answers),
            gaps: gaps.clone(),
        }
    }

    fn answer(&self, asked: &Asked) -> Result<Answered, HostError> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = answers.get_mut(&key(asked));
        let answer = queue.and_then(|queue| match queue.len() {
            0 | 1 => queue.front().cloned(),
            _ => queue.pop_front(),
        });
        answer.ok_or_else(|| {
            self.gaps.note(&asked.to_string());
            HostError::new(ErrorCode::Unavailable, format!("not recorded: {asked}"))
        })
    }

    fn response(&self, asked: &Asked) -> Result<FetchResponse, HostError> {
        match self.answer(asked)? {
            Answered::Response {
                status,
                headers,
                body,
                body_base64,
            } => {
                let decoded = body_base64.map(|text| BASE64_STANDARD.decode(text)).transpose();
                let decoded = decoded.map_err(|error| {
                    HostError::new(ErrorCode::Other, format!("bodyBase64 of the recording: {error}"))
                })?;
                Ok(FetchResponse {
                    status,
                    headers,
                    body: decoded.or(body.map(String::into_bytes)).unwrap_or_default(),
                })
            }
            other => Err(other.error()),
        }
    }
}

fn key(asked: &Asked) -> String {
    serde_json::to_string(asked).unwrap_or_default()
}

#[async_trait]
impl Reader for Replay {
    async fn get(&self, object: &ObjectRef, live: bool) -> Result<Option<Object>, HostError> {
        let asked = Asked::Get {
            object: object.clone(),
            live,
        };
        match self.answer(&asked)? {
            Answered::Object(found) => Ok(found.as_ref().map(Object::from)),
            other => Err(other.error()),
        }
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        match self.answer(&Asked::list(query))? {
            Answered::Page {
                items,
                continue_token,
            } => Ok(ObjectPage {
                items: items.iter().map(Object::from).collect(),
                continue_token,
            }),
            other => Err(other.error()),
        }
    }
}

#[async_trait]
impl Fetch for Replay {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        self.response(&Asked::fetch(&request))
    }
}

/// The same for queries.
struct ReplayQueries(Arc<Replay>);

#[async_trait]
impl Fetch for ReplayQueries {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        self.0.response(&Asked::query(&request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Cluster;
    use numo_plugin::services::Addresses;
    use serde_json::json;
    use std::time::Duration;

    fn pod(name: &str) -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    fn services(fetch: Arc<dyn Fetch>) -> Services {
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "a"}});
        Services {
            reader: Some(Arc::new(Cluster::new(vec![object], Vec::new()))),
            prometheus: Some(prometheus(fetch.clone()).unwrap()),
            fetch: Some(fetch),
            ..Services::none(Timestamp::UNIX_EPOCH)
        }
    }

    fn request(url: &str) -> FetchRequest {
        let mut secret = http::HeaderValue::from_static("Bearer xyzzy");
        secret.set_sensitive(true);
        FetchRequest {
            head: false,
            url: url.parse().unwrap(),
            headers: vec![
                (http::header::ACCEPT, http::HeaderValue::from_static("text/plain")),
                (http::header::AUTHORIZATION, secret),
            ],
            addresses: Addresses::Anywhere,
            timeout: Duration::from_secs(1),
            body_bytes: 1000,
        }
    }

    /// Answers with bytes that are no text, and a cookie.
    struct Bytes;

    #[async_trait]
    impl Fetch for Bytes {
        async fn fetch(&self, _: FetchRequest) -> Result<FetchResponse, HostError> {
            Ok(FetchResponse {
                status: 200,
                headers: vec![
                    ("set-cookie".to_owned(), "xyzzy".to_owned()),
                    ("a".to_owned(), "b".to_owned()),
                ],
                body: vec![0xff, 0],
            })
        }
    }

    #[tokio::test]
    async fn what_was_recorded_is_answered_again_in_any_order_and_nothing_else() {
        let tape = Tape::default();
        let recorded = tape.over(&services(Arc::new(Bytes)));
        let reader = recorded.reader.unwrap();
        assert!(reader.get(&pod("a"), true).await.unwrap().is_some());
        assert!(reader.get(&pod("b"), true).await.unwrap().is_none());
        reader.get(&pod("a"), true).await.unwrap();
        recorded
            .fetch
            .unwrap()
            .fetch(request("https://a.example.com/x"))
            .await
            .unwrap();
        let asked = request("http://prometheus.invalid/api/v1/query?query=up&time=1");
        recorded.prometheus.unwrap().fetch.fetch(asked).await.unwrap();
        let calls = tape.calls();
        assert_eq!(calls.len(), 4, "the same call with the same answer is kept once");
        let text = serde_json::to_string(&calls).unwrap();
        assert!(
            !text.contains("xyzzy") && !text.contains("prometheus.invalid"),
            "{text}"
        );

        let calls: Vec<Call> = serde_json::from_str(&text).unwrap();
        let gaps = Gaps::default();
        let replay = Arc::new(Replay::new(&calls, &gaps));
        let later = request("http://other.invalid/api/v1/query?query=up&time=2");
        let queries = ReplayQueries(replay.clone());
        assert_eq!(queries.fetch(later).await.unwrap().body, [0xff, 0]);
        assert!(replay.get(&pod("b"), true).await.unwrap().is_none());
        assert!(replay.get(&pod("a"), true).await.unwrap().is_some());
        assert!(replay.get(&pod("a"), true).await.unwrap().is_some());
        assert_eq!(
            replay
                .fetch(request("https://a.example.com/x"))
                .await
                .unwrap()
                .body,
            [0xff, 0]
        );
        assert!(gaps.all().is_empty());
        let why = replay.get(&pod("c"), true).await.unwrap_err();
        assert!(why.message.contains("v1 Pod shop/c"), "{why}");
        assert!(replay.get(&pod("a"), false).await.is_err());
        assert_eq!(gaps.all().len(), 2);
    }
}
