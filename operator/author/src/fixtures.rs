//! A cluster, HTTP servers and a Prometheus in memory, for `numo plugin test`. It answers as the operator's own
//! services do, page by page, and asks nobody. What a case says nothing of is never answered with a guess: it is
//! noted as a gap.

use super::select::Selector;
use async_trait::async_trait;
use jiff::Timestamp;
use numo_cli::CliError;
use numo_plugin::{
    ObjectRef,
    services::{
        ErrorCode, Fetch, FetchRequest, FetchResponse, HostError, ListQuery, Object, ObjectPage, PAGE, Reader,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// What was asked and is not answered, in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(Arc<Mutex<Vec<String>>>);

impl Gaps {
    /// Notes one, once.
    pub(crate) fn note(&self, what: &str) {
        let mut gaps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !gaps.iter().any(|gap| gap == what) {
            gaps.push(what.to_owned());
        }
    }

    /// All that were noted.
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What went wrong, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ErrorWord {
    Denied,
    Forbidden,
    Invalid,
    Unsupported,
    Expired,
    TooLarge,
    OverBudget,
    Unavailable,
    Other,
}

impl ErrorWord {
    /// The error that a component gets.
    pub(crate) fn error(self, message: Option<&str>, otherwise: &str) -> HostError {
        let code = match self {
            Self::Denied => ErrorCode::Denied,
            Self::Forbidden => ErrorCode::Forbidden,
            Self::Invalid => ErrorCode::Invalid,
            Self::Unsupported => ErrorCode::Unsupported,
            Self::Expired => ErrorCode::Expired,
            Self::TooLarge => ErrorCode::TooLarge,
            Self::OverBudget => ErrorCode::OverBudget,
            Self::Unavailable => ErrorCode::Unavailable,
            Self::Other => ErrorCode::Other,
        };
        HostError::new(code, message.unwrap_or(otherwise))
    }
}

/// Reads that fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    /// apiVersion and kind as in a want: `policy/v1/PodDisruptionBudget`.
    kind: String,
    /// Only reads in this one.
    #[serde(default)]
    namespace: Option<String>,
    /// Only reads of this one; a list is not meant then.
    #[serde(default)]
    name: Option<String>,
    /// What the component gets.
    error: ErrorWord,
    /// In these words.
    #[serde(default)]
    message: Option<String>,
}

impl Fault {
    fn strikes(
        &self,
        (api_version, kind): (&str, &str),
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> bool {
        self.kind
            .strip_suffix(kind)
            .is_some_and(|rest| rest.strip_suffix('/') == Some(api_version))
            && self.namespace.as_deref().is_none_or(|of| Some(of) == namespace)
            && self.name.as_deref().is_none_or(|of| Some(of) == name)
    }
}

/// The cluster of a case.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// In the order of namespaces and names.
    objects: Vec<Arc<Value>>,
    faults: Vec<Fault>,
}

impl Cluster {
    /// Of whole objects.
    pub(crate) fn new(mut objects: Vec<Value>, faults: Vec<Fault>) -> Self {
        let key = |object: &Value| {
            (
                text(object, "namespace").to_owned(),
                text(object, "name").to_owned(),
            )
        };
        objects.sort_by_key(key);
        Self {
            objects: objects.into_iter().map(Arc::new).collect(),
            faults,
        }
    }

    /// What the case says of a read: an error, or where to look.
    fn read(
        &self,
        kind: (&str, &str),
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<impl Iterator<Item = &Arc<Value>>, HostError> {
        if let Some(fault) = self
            .faults
            .iter()
            .find(|fault| fault.strikes(kind, namespace, name))
        {
            let otherwise = format!("the case lets reads of {} {} fail", kind.0, kind.1);
            return Err(fault.error.error(fault.message.as_deref(), &otherwise));
        }
        let of_kind = move |object: &&Arc<Value>| object["apiVersion"] == kind.0 && object["kind"] == kind.1;
        let first = self.objects.iter().find(of_kind);
        let (namespaced, cluster_wide) = (
            first.is_some_and(|object| !text(object, "namespace").is_empty()),
            first.is_some_and(|object| text(object, "namespace").is_empty()),
        );
        let invalid = |what: &str| {
            Err(HostError::new(
                ErrorCode::Invalid,
                format!("{} {} {what}", kind.0, kind.1),
            ))
        };
        if cluster_wide && let Some(namespace) = namespace {
            return invalid(&format!("is in no namespace, found {namespace}"));
        }
        if namespaced && namespace.is_none() && name.is_some() {
            return invalid("is in a namespace, found none");
        }
        Ok(self
            .objects
            .iter()
            .filter(of_kind)
            .filter(move |object| namespace.is_none_or(|namespace| text(object, "namespace") == namespace))
            .filter(move |object| name.is_none_or(|name| text(object, "name") == name)))
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

#[async_trait]
impl Reader for Cluster {
    async fn get(&self, object: &ObjectRef, _live: bool) -> Result<Option<Object>, HostError> {
        let kind = (object.api_version.as_str(), object.kind.as_str());
        let mut found = self.read(kind, object.namespace.as_deref(), Some(&object.name))?;
        Ok(found.next().map(|found| Object::from(&**found)))
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        let invalid = |message: String| HostError::new(ErrorCode::Invalid, message);
        let labels = query.label_selector.as_deref().unwrap_or_default();
        let labels = Selector::labels(labels).map_err(invalid)?;
        let fields = query.field_selector.as_deref().unwrap_or_default();
        let fields = Selector::fields(fields, &query.kind).map_err(invalid)?;
        let kind = (query.api_version.as_str(), query.kind.as_str());
        let begin = query
            .continue_token
            .as_deref()
            .map_or(Some(0), |token| token.parse::<usize>().ok());
        let begin = begin.ok_or_else(|| invalid("the continue token is not of this list".to_owned()))?;
        let all: Vec<_> = self
            .read(kind, query.namespace.as_deref(), None)?
            .filter(|object| labels.selects_labels(object) && fields.selects_fields(object))
            .collect();
        let most = usize::try_from(query.limit.min(PAGE))
            .unwrap_or(usize::MAX)
            .max(1);
        let end = all.len().min(begin.saturating_add(most));
        Ok(ObjectPage {
            items: all
                .iter()
                .take(end)
                .skip(begin)
                .map(|object| Object::from(&***object))
                .collect(),
            continue_token: (end < all.len()).then(|| end.to_string()),
        })
    }
}

/// What a server answers to one URL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpAnswer {
    /// Default: 200.
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    /// The body as text, or
    body: Option<String>,
    /// as JSON.
    json: Option<Value>,
    /// No answer.
    error: Option<ErrorWord>,
    message: Option<String>,
}

/// HTTP servers, by URL.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(crate) answers: BTreeMap<String, HttpAnswer>,
    pub(crate) gaps: Gaps,
}

#[async_trait]
impl Fetch for Servers {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let url = request.url.as_str();
        let Some(answer) = self.answers.get(url) else {
            return Err(unanswered(&self.gaps, &format!("http {url}")));
        };
        if let Some(error) = answer.error {
            let otherwise = format!("the case lets {url} fail");
            return Err(error.error(answer.message.as_deref(), &otherwise));
        }
        let mut headers: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .collect();
        let body = match (&answer.json, &answer.body) {
            (Some(json), _) => {
                if !answer
                    .headers
                    .keys()
                    .any(|name| name.eq_ignore_ascii_case("content-type"))
                {
                    headers.push(("content-type".to_owned(), "application/json".to_owned()));
                }
                json.to_string()
            }
            (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        };
        if body.len() as u64 > request.body_bytes {
            let message = format!(
                "the body has {} bytes, the limit is {}",
                body.len(),
                request.body_bytes
            );
            return Err(HostError::new(ErrorCode::TooLarge, message));
        }
        Ok(FetchResponse {
            status: answer.status.unwrap_or(200),
            headers,
            body: body.into_bytes(),
        })
    }
}

/// What Prometheus answers to one query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct QueryAnswer {
    /// One sample without labels; a number, or NaN, +Inf, -Inf.
    value: Option<Value>,
    samples: Vec<Sample>,
    warnings: Vec<String>,
    /// No answer.
    error: Option<ErrorWord>,
    message: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sample {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    value: Value,
}

impl QueryAnswer {
    /// What is wrong with its values, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut values = self
            .value
            .iter()
            .chain(self.samples.iter().map(|sample| &sample.value));
        let wrong = values.find(|value| number(value).is_none())?;
        Some(format!(
            "value: found {wrong}, wanted a number, NaN, +Inf or -Inf"
        ))
    }

    fn body(&self, at: Timestamp) -> Value {
        let at = at.as_second();
        let value = |value: &Value| json!([at, number(value).unwrap_or_default()]);
        let one = self
            .value
            .iter()
            .map(|one| json!({"metric": {}, "value": value(one)}));
        let more = self
            .samples
            .iter()
            .map(|sample| json!({"metric": sample.labels, "value": value(&sample.value)}));
        json!({
            "status": "success",
            "data": {"resultType": "vector", "result": one.chain(more).collect::<Vec<_>>()},
            "warnings": self.warnings,
        })
    }
}

/// As Prometheus writes it.
fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if matches!(text.as_str(), "NaN" | "+Inf" | "-Inf") => Some(text.clone()),
        Value::String(text) => text.parse::<f64>().ok().map(|_| text.clone()),
        _ => None,
    }
}

/// A Prometheus, by query.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) answers: BTreeMap<String, QueryAnswer>,
    pub(crate) now: Timestamp,
    pub(crate) gaps: Gaps,
}

#[async_trait]
impl Fetch for Metrics {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let query = promql(&request);
        let Some(answer) = self.answers.get(query.trim()) else {
            return Err(unanswered(&self.gaps, &format!("prometheus {query}")));
        };
        if let Some(error) = answer.error {
            let otherwise = format!("the case lets the query {query} fail");
            return Err(error.error(answer.message.as_deref(), &otherwise));
        }
        Ok(FetchResponse {
            status: 200,
            headers: Vec::new(),
            body: answer.body(self.now).to_string().into_bytes(),
        })
    }
}

/// The query of a request to Prometheus.
pub(crate) fn promql(request: &FetchRequest) -> String {
    let mut pairs = request.url.query_pairs();
    pairs
        .find(|(name, _)| name == "query")
        .map_or_else(String::new, |(_, query)| query.into_owned())
}

fn unanswered(gaps: &Gaps, what: &str) -> HostError {
    gaps.note(what);
    HostError::new(
        ErrorCode::Unavailable,
        format!("the case has no answer for {what}"),
    )
}

/// A Prometheus that is somebody in memory.
pub(crate) fn prometheus(
    fetch: Arc<dyn numo_plugin::services::Fetch>,
) -> Result<numo_plugin::services::Prometheus, CliError> {
    let url = url::Url::parse("http://prometheus.invalid/")
        .map_err(|error| CliError::Wrong(format!("the address of Prometheus: {error}")))?;
    Ok(numo_plugin::services::Prometheus {
        url,
        fetch,
        credential: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(count: usize) -> Cluster {
        let pod = |index: usize| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"namespace": format!("n{}", index % 2), "name": format!("p{index:02}"), "labels": {"app": "db"}},
                "spec": {"nodeName": format!("w{}", index % 3)}})
        };
        Cluster::new((0..count).map(pod).collect(), Vec::new())
    }

    fn query(namespace: Option<&str>, fields: Option<&str>, token: Option<&str>) -> ListQuery {
        ListQuery {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: namespace.map(str::to_owned),
            label_selector: Some("app=db".to_owned()),
            field_selector: fields.map(str::to_owned),
            live: false,
            limit: 500,
            continue_token: token.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn a_list_comes_page_by_page_as_from_the_operator() {
        let cluster = pods(50);
        let (mut names, mut token, mut pages) = (Vec::new(), None::<String>, 0);
        loop {
            let page = cluster.list(&query(None, None, token.as_deref())).await.unwrap();
            names.extend(
                page.items
                    .iter()
                    .map(|pod| pod.value().unwrap()["metadata"]["name"].to_string()),
            );
            pages += 1;
            token = page.continue_token;
            if token.is_none() {
                break;
            }
        }
        assert_eq!((names.len(), pages), (50, 3));
        let one = cluster
            .list(&query(Some("n1"), Some("spec.nodeName=w0"), None))
            .await
            .unwrap();
        assert_eq!(one.items.len(), 8);
        let wrong = cluster
            .list(&query(None, Some("spec.colour=red"), None))
            .await
            .unwrap_err();
        assert_eq!(wrong.code, ErrorCode::Invalid);
    }

    #[tokio::test]
    async fn a_read_fails_as_the_case_says_and_one_without_a_namespace_as_in_a_cluster() {
        let mut cluster = pods(3);
        let pod = |namespace: Option<&str>, name: &str| ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        assert!(
            cluster
                .get(&pod(Some("n1"), "p01"), true)
                .await
                .unwrap()
                .is_some()
        );
        assert!(
            cluster
                .get(&pod(Some("n0"), "p01"), true)
                .await
                .unwrap()
                .is_none()
        );
        let code = cluster.get(&pod(None, "p01"), true).await.unwrap_err().code;
        assert_eq!(code, ErrorCode::Invalid);
        cluster.faults = vec![
            serde_json::from_value(json!({"kind": "v1/Pod", "namespace": "n1", "error": "forbidden"}))
                .unwrap(),
        ];
        let code = cluster.get(&pod(Some("n1"), "p01"), true).await.unwrap_err().code;
        assert_eq!(code, ErrorCode::Forbidden);
        assert!(
            cluster
                .get(&pod(Some("n0"), "p00"), true)
                .await
                .unwrap()
                .is_some()
        );
        assert!(cluster.list(&query(None, None, None)).await.is_ok());
        assert!(cluster.list(&query(Some("n1"), None, None)).await.is_err());
    }

    #[test]
    fn values_of_prometheus_are_numbers_in_its_own_spelling() {
        let answer = |value: Value| serde_json::from_value::<QueryAnswer>(json!({ "value": value })).unwrap();
        for right in [json!(1), json!(0.5), json!("NaN"), json!("+Inf"), json!("1e3")] {
            assert_eq!(answer(right.clone()).fault(), None, "{right}");
        }
        assert!(
            answer(json!("many"))
                .fault()
                .is_some_and(|why| why.contains("many"))
        );
    }
}
