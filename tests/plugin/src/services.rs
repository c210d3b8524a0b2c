//! Services that answer from memory, and note what they were asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use numo_plugin::{
    Input, ObjectRef, Services,
    services::{
        Fetch, FetchRequest, FetchResponse, HostError, ListQuery, LogLine, LogSink, Object, ObjectPage,
        Reader,
    },
    verdict::Node,
};
use serde_json::Value;

/// The moment of every evaluation in the tests.
pub const NOW: &str = "2026-11-21T12:00:00Z";

/// Without anything granted.
pub fn nothing() -> Services {
    Services::none(NOW.parse().unwrap_or_default())
}

/// About one node, with this configuration.
pub fn input(config: &str) -> Input {
    Input {
        run: "run-1".into(),
        owner: ObjectRef {
            api_version: "openshift-optional.skrzypek.io/v1alpha1".into(),
            kind: "MutexRunConfig".into(),
            namespace: Some("openshift".into()),
            name: "roll".into(),
        },
        phase: "pre".into(),
        attempt: 1,
        node: Some(Node {
            name: "node-1".into(),
            uid: "1".into(),
            object_json: "{}".into(),
        }),
        config_json: config.into(),
        ..Input::default()
    }
}

/// Objects in memory.
#[derive(Debug, Default)]
pub struct Objects {
    /// In the order of lists.
    pub objects: Vec<Arc<Value>>,
    /// How long each answer takes.
    pub delay: Duration,
    /// How often it was asked.
    pub asked: Mutex<Vec<String>>,
}

impl Objects {
    fn note(&self, what: String) {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(what);
    }
}

fn is(object: &Value, api_version: &str, kind: &str) -> bool {
    object["apiVersion"] == api_version && object["kind"] == kind
}

#[async_trait]
impl Reader for Objects {
    async fn get(&self, asked: &ObjectRef, _live: bool) -> Result<Option<Object>, HostError> {
        self.note(format!("get {asked}"));
        tokio::time::sleep(self.delay).await;
        let found = self.objects.iter().find(|object| {
            is(object, &asked.api_version, &asked.kind)
                && object["metadata"]["name"] == asked.name
                && object["metadata"]["namespace"].as_str() == asked.namespace.as_deref()
        });
        Ok(found.map(|found| Object::from(&**found)))
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        self.note(format!(
            "list {} {} {:?}",
            query.api_version, query.kind, query.namespace
        ));
        tokio::time::sleep(self.delay).await;
        let of_query = |object: &&Arc<Value>| {
            is(object, &query.api_version, &query.kind)
                && (query.namespace.is_none()
                    || object["metadata"]["namespace"].as_str() == query.namespace.as_deref())
        };
        let begin = query
            .continue_token
            .as_deref()
            .and_then(|token| token.parse().ok())
            .unwrap_or(0_usize);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let all: Vec<_> = self.objects.iter().filter(of_query).cloned().collect();
        let end = (begin + limit).min(all.len());
        let continue_token = (end < all.len()).then(|| end.to_string());
        Ok(ObjectPage {
            items: all[begin.min(end)..end]
                .iter()
                .map(|found| Object::from(&**found))
                .collect(),
            continue_token,
        })
    }
}

/// Answers each URL with a body.
#[derive(Debug, Default)]
pub struct Pages {
    /// By URL.
    pub pages: BTreeMap<String, (u16, Vec<u8>)>,
    /// URL and headers of what was asked.
    pub asked: Mutex<Vec<(String, Vec<String>)>>,
}

#[async_trait]
impl Fetch for Pages {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, HostError> {
        let headers = request.headers.iter().map(|(name, _)| name.to_string()).collect();
        let url = request.url.to_string();
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((url.clone(), headers));
        let (status, body) = self.pages.get(&url).cloned().unwrap_or((404, Vec::new()));
        Ok(FetchResponse {
            status,
            headers: Vec::new(),
            body,
        })
    }
}

/// Keeps the lines.
#[derive(Debug, Default)]
pub struct Lines(pub Mutex<Vec<LogLine>>);

impl LogSink for Lines {
    fn line(&self, line: LogLine) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}
