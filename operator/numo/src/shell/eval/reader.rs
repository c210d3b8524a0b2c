//! What a component reads of the cluster. The host has checked the grants; here the API server is asked whether the
//! rule's ServiceAccount may read it too, and only then numo reads it, with the rights of its own that
//! `numo-rule-reader` gathers. Nobody is impersonated.

use super::invalidate::Mark;
use crate::shell::{access, item::Item};
use async_trait::async_trait;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use k8s_openapi::{api::authorization::v1::ResourceAttributes, apimachinery::pkg::apis::meta::v1::ListMeta};
use kube::{
    Client, Resource as _,
    api::{GetParams, ListParams},
    client::Body,
    core::{GroupVersionKind, Request, Status},
    discovery::{ApiResource, Scope, oneshot},
};
use numo_plugin::{
    ObjectRef, check_kind, check_name,
    services::{ErrorCode, HostError, ListQuery, Object, ObjectPage, PAGE, Reader},
    shares::{Share, Shares},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::{RawValue, to_raw_value};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long the API server's word on a right is kept.
const REVIEWED: Duration = Duration::from_mins(1);
/// How long it is kept what a kind's resource is.
const DISCOVERED: Duration = Duration::from_mins(10);
/// What a page of the largest objects and the answer that it came in take together (MiB).
const LARGEST_PAGE_MIB: u64 = 2 * 2 * PAGE as u64;
/// Bytes of an answer with a page, with one object, and of one that is a fault: whoever serves a kind sends as much as it likes.
const PAGE_BYTES: usize = (2 << 20) * PAGE as usize;
pub(super) const OBJECT_BYTES: usize = 4 << 20;
const FAULT_BYTES: usize = 64 << 10;
/// What the pages of all evaluations may have together (MiB): of it each namespace has its share.
pub(super) const PAGES_MIB: u64 = 224;
/// What the largest object and the answer that it came in take together (MiB).
const LARGEST_OBJECT_MIB: u64 = 8;
/// What single objects of all evaluations may take while they are read (MiB): of it each namespace has its share. Apart from pages,
/// which an evaluation keeps: whoever waited for the one while it holds the other could wait for itself.
pub(super) const OBJECTS_MIB: u64 = 32;
/// Answers that are kept of either; beyond it all are forgotten.
const MOST_KEPT: usize = 10_000;

/// What is known for a while.
type Kept<K, V> = Mutex<BTreeMap<K, (Instant, V)>>;

/// A request, if it could be built.
type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// One right: ServiceAccount, verb, group, resource, namespace, name.
type Right = [String; 6];

/// What the API server said about kinds and rights, for all rules.
pub struct Access {
    client: Client,
    rights: Kept<Right, bool>,
    kinds: Kept<(String, String), (ApiResource, bool)>,
    pages: Shares,
    objects: Shares,
}

impl Access {
    /// Knows nothing yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            rights: Mutex::default(),
            kinds: Mutex::default(),
            pages: Shares::new(PAGES_MIB),
            objects: Shares::new(OBJECTS_MIB),
        }
    }

    /// The resource of a kind, and whether its objects are in namespaces.
    pub(super) async fn kind(&self, api_version: &str, kind: &str) -> Result<(ApiResource, bool), HostError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = recall(&self.kinds, &key, DISCOVERED) {
            return Ok(known);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) =
            oneshot::pinned_kind(&self.client, &gvk)
                .await
                .map_err(|error| match error {
                    kube::Error::Discovery(_) => unserved(api_version, kind),
                    kube::Error::Api(status) if status.code == 404 => unserved(api_version, kind),
                    error => failed(&error),
                })?;
        let found = (resource, capabilities.scope == Scope::Namespaced);
        keep(&self.kinds, key, found.clone());
        Ok(found)
    }

    /// The body of an answer, of at most so many bytes; none if there is no such thing. An API server of its own may be behind a kind,
    /// and heed no `limit`.
    pub(super) async fn answer(
        &self,
        request: Built,
        resource: &ApiResource,
        most: usize,
    ) -> Result<Option<Vec<u8>>, HostError> {
        let request = request.map_err(|error| HostError::new(ErrorCode::Invalid, error.to_string()))?;
        let sent = self.client.send(request.map(Body::from)).await;
        let (head, body) = sent.map_err(|error| failed(&error))?.into_parts();
        let is_good = !head.status.is_client_error() && !head.status.is_server_error();
        let text = collect(body, if is_good { most } else { FAULT_BYTES }).await?;
        if head.status == http::StatusCode::NOT_FOUND {
            return self.missing(&text.unwrap_or_default(), resource).map(|()| None);
        }
        match text {
            Some(text) if is_good => Ok(Some(text)),
            None if is_good => {
                let message = format!(
                    "{} {}: the answer has more than {most} bytes",
                    resource.api_version, resource.kind
                );
                Err(HostError::new(ErrorCode::TooLarge, message))
            }
            text => {
                let failed = failed(&fault(head.status, &text.unwrap_or_default()));
                Err(match retry_after(&head.headers) {
                    Some(seconds) => failed.detail("retry-after", seconds.to_string()),
                    None => failed,
                })
            }
        }
    }

    /// Whether a 404 says that an object is not there: it names the object. Where the kind is not served, nobody has looked for one.
    ///
    /// Errors: the kind is not served, or not any more. What it was is forgotten.
    fn missing(&self, text: &[u8], resource: &ApiResource) -> Result<(), HostError> {
        let said = serde_json::from_slice::<Status>(text).ok();
        let named = said.and_then(|said| said.details);
        if named.is_some_and(|named| !named.name.is_empty()) {
            return Ok(());
        }
        let (api_version, kind) = (&resource.api_version, &resource.kind);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.remove(&(api_version.clone(), kind.clone()));
        Err(unserved(api_version, kind))
    }

    /// Whether a ServiceAccount (`namespace:name`) may.
    async fn allows(&self, right: Right) -> Result<bool, HostError> {
        if let Some(known) = recall(&self.rights, &right, REVIEWED) {
            return Ok(known);
        }
        let [account, verb, group, resource, namespace, name] = right.clone();
        let (of, account) = account.split_once(':').unwrap_or_default();
        let what = ResourceAttributes {
            verb: Some(verb),
            group: Some(group),
            resource: Some(resource),
            namespace: Some(namespace),
            name: Some(name).filter(|name| !name.is_empty()),
            ..ResourceAttributes::default()
        };
        let asked = access::may(&self.client, of, account, what).await;
        let allowed = asked.map_err(|error| failed(&error))?;
        keep(&self.rights, right, allowed);
        Ok(allowed)
    }
}

/// When the API server wants to be asked again (seconds), if it says so: one that has too much to do does.
fn retry_after(headers: &http::HeaderMap) -> Option<u32> {
    let said = headers.get(http::header::RETRY_AFTER)?;
    said.to_str().ok()?.trim().parse().ok()
}

/// The API server has no such kind, in this version. An object of it is not gone: whether there is one is not known.
fn unserved(api_version: &str, kind: &str) -> HostError {
    let message = format!("the cluster does not serve {api_version} {kind}");
    HostError::new(ErrorCode::Unsupported, message)
}

fn recall<K: Ord, V: Clone>(kept: &Kept<K, V>, key: &K, age: Duration) -> Option<V> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let (at, value) = kept.get(key)?;
    (at.elapsed() < age).then(|| value.clone())
}

fn keep<K: Ord, V>(kept: &Kept<K, V>, key: K, value: V) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= MOST_KEPT {
        kept.clear();
    }
    kept.insert(key, (Instant::now(), value));
}

/// The cluster as one rule sees it in one evaluation.
pub struct RuleReader {
    access: Arc<Access>,
    /// `namespace:name` of the ServiceAccount; none is whoever asks, who needs no review.
    account: Option<String>,
    /// The page that was read last: its rest is given from it, so that nothing shifts between.
    page: Mutex<Option<(ListQuery, ObjectPage, Share)>>,
    /// What was read.
    marks: Mutex<Vec<Mark>>,
    /// When the first of it was.
    began: Mutex<Option<Instant>>,
}

impl RuleReader {
    /// Sees what this ServiceAccount may see.
    pub fn new(access: Arc<Access>, namespace: &str, service_account: &str) -> Self {
        Self {
            access,
            account: Some(format!("{namespace}:{service_account}")),
            page: Mutex::default(),
            marks: Mutex::default(),
            began: Mutex::default(),
        }
    }

    /// Sees what the client itself may see: for the command line.
    pub fn own(access: Arc<Access>) -> Self {
        Self {
            access,
            account: None,
            page: Mutex::default(),
            marks: Mutex::default(),
            began: Mutex::default(),
        }
    }

    /// Notes that something was read. What was read twice counts as it was the first time.
    pub(super) fn note(&self, mark: Mark) {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if !marks.iter().any(|known| known.is_at(&mark)) {
            marks.push(mark);
        }
    }

    /// The page that was read last makes room: nobody asks for its rest.
    pub(super) fn release(&self) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What was read does not count: it is read again.
    pub(super) fn forget(&self) {
        self.release();
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Something is about to be read.
    pub(super) fn begin(&self) {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.get_or_insert_with(Instant::now);
    }

    /// How old the oldest is that was read.
    pub(super) fn age(&self) -> Duration {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// What was read.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where a kind is served, once the ServiceAccount may.
    async fn request(
        &self,
        verb: &str,
        (api_version, kind): (&str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(Request, ApiResource), HostError> {
        self.begin();
        // The one boundary that every rule crosses: these become a path, and must lead nowhere else than where the
        // review is about.
        check_kind(api_version, kind)?;
        namespace.map_or(Ok(()), |namespace| check_name("namespace", namespace))?;
        if verb == "get" {
            check_name("name", name)?;
        }
        let (resource, namespaced) = self.access.kind(api_version, kind).await?;
        if let Some(namespace) = namespace.filter(|_| !namespaced) {
            let message = format!("{api_version} {kind} is in no namespace, found {namespace}");
            return Err(HostError::new(ErrorCode::Invalid, message));
        }
        if namespaced && namespace.is_none() && verb == "get" {
            let message = format!("{api_version} {kind} is in a namespace, found none");
            return Err(HostError::new(ErrorCode::Invalid, message));
        }
        if let Some(account) = &self.account {
            let right = [
                account.clone(),
                verb.to_owned(),
                resource.group.clone(),
                resource.plural.clone(),
                namespace.unwrap_or_default().to_owned(),
                name.to_owned(),
            ];
            if !self.access.allows(right).await? {
                let place =
                    namespace.map_or_else(|| "the cluster".to_owned(), |of| format!("namespace {of}"));
                let message = format!(
                    "ServiceAccount {} may not {verb} {} in {place}",
                    account.replace(':', "/"),
                    resource.plural
                );
                return Err(HostError::new(ErrorCode::Forbidden, message));
            }
        }
        let url = Item::url_path(&resource, namespace);
        Ok((Request::new(url), resource))
    }

    /// A page of at most so many objects as `params` ask for.
    async fn listed(
        &self,
        request: &Request,
        params: &ListParams,
        resource: &ApiResource,
    ) -> Result<Listed, HostError> {
        let answer = self
            .access
            .answer(request.list(params), resource, PAGE_BYTES)
            .await?;
        let answer = answer.ok_or_else(|| unserved(&resource.api_version, &resource.kind))?;
        let found: Listed = parsed(&answer, resource)?;
        let limit = params.limit.unwrap_or(PAGE);
        if found.items.len() > limit as usize {
            let message = format!(
                "{} {}: found more objects on a page than the {limit} that were asked for: who serves the kind heeds no limit; narrow \
                 the list by selectors",
                resource.api_version, resource.kind
            );
            return Err(HostError::new(ErrorCode::TooLarge, message));
        }
        Ok(found)
    }
}

impl RuleReader {
    /// The namespace whose share its reads are of.
    fn tenant(&self) -> &str {
        let account = self.account.as_deref().unwrap_or_default();
        account
            .split_once(':')
            .map_or(account, |(namespace, _)| namespace)
    }
}

#[async_trait]
impl Reader for RuleReader {
    async fn get(&self, object: &ObjectRef, _live: bool) -> Result<Option<Object>, HostError> {
        let kind = (object.api_version.as_str(), object.kind.as_str());
        let (request, resource) = self
            .request("get", kind, object.namespace.as_deref(), &object.name)
            .await?;
        let _share = self.access.objects.take(self.tenant(), LARGEST_OBJECT_MIB).await;
        let request = request.get(&object.name, &GetParams::default());
        let found = self.access.answer(request, &resource, OBJECT_BYTES).await?;
        let found: Option<Item> = found.map(|text| parsed(&text, &resource)).transpose()?;
        let version = found
            .as_ref()
            .and_then(|found| found.metadata.resource_version.as_deref());
        self.note(Mark::object(
            &resource,
            object.namespace.as_deref(),
            &object.name,
            version,
        ));
        found.map(|found| whole(&found, &resource)).transpose()
    }

    async fn list(&self, query: &ListQuery) -> Result<ObjectPage, HostError> {
        {
            let mut last = self.page.lock().unwrap_or_else(PoisonError::into_inner);
            match &*last {
                Some((asked, page, _))
                    if asked == query && (!query.live || query.continue_token.is_some()) =>
                {
                    return Ok(page.clone());
                }
                // It makes room for the next one.
                _ => *last = None,
            }
        }
        let kind = (query.api_version.as_str(), query.kind.as_str());
        let (request, resource) = self.request("list", kind, query.namespace.as_deref(), "").await?;
        // A page is as large as its objects are, which is known once it was read.
        let mut share = self.access.pages.take(self.tenant(), LARGEST_PAGE_MIB).await;
        let params = ListParams {
            label_selector: query.label_selector.clone(),
            field_selector: query.field_selector.clone(),
            limit: Some(query.limit.min(PAGE)),
            continue_token: query.continue_token.clone(),
            ..ListParams::default()
        };
        let found = self.listed(&request, &params, &resource).await?;
        if query.continue_token.is_none() {
            let selectors = (query.label_selector.as_deref(), query.field_selector.as_deref());
            let version = found.metadata.resource_version.as_deref();
            self.note(Mark::list(
                &resource,
                query.namespace.as_deref(),
                selectors,
                version,
            ));
        }
        let token = found.metadata.continue_.filter(|token| !token.is_empty());
        let items: Result<Vec<_>, _> = found
            .items
            .into_iter()
            .map(|item| whole(&item, &resource))
            .collect();
        let page = ObjectPage {
            items: items?,
            continue_token: token,
        };
        let bytes: usize = page.items.iter().map(|item| item.text().len()).sum();
        share.keep(u64::try_from(bytes >> 20).unwrap_or(u64::MAX).saturating_add(1));
        let mut last = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((query.clone(), page.clone(), share));
        Ok(page)
    }
}

/// A page of a list. Of more objects than a page may have one is read, and the others are passed over: the smallest of them take hundreds
/// of times their text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Listed {
    metadata: ListMeta,
    #[serde(deserialize_with = "few")]
    items: Vec<Item>,
}

fn few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Item>, D::Error> {
    struct Few;

    impl<'de> Visitor<'de> for Few {
        type Value = Vec<Item>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a list of objects")
        }

        // A list of Go that has no items is null.
        fn visit_unit<E: serde::de::Error>(self) -> Result<Vec<Item>, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<Item>, A::Error> {
            let mut items = Vec::new();
            while items.len() <= PAGE as usize {
                match sequence.next_element()? {
                    Some(item) => items.push(item),
                    None => return Ok(items),
                }
            }
            while sequence.next_element::<IgnoredAny>()?.is_some() {}
            Ok(items)
        }
    }

    deserializer.deserialize_any(Few)
}

/// What an answer says.
pub(super) fn parsed<T: DeserializeOwned>(text: &[u8], resource: &ApiResource) -> Result<T, HostError> {
    serde_json::from_slice(text).map_err(|error| {
        let message = format!(
            "{} {}: the answer cannot be read: {error}",
            resource.api_version, resource.kind
        );
        HostError::new(ErrorCode::Unavailable, message)
    })
}

/// A body, none if it has more than so many bytes.
async fn collect(body: Body, most: usize) -> Result<Option<Vec<u8>>, HostError> {
    let mut body = body.into_data_stream();
    let mut text = Vec::new();
    while let Some(more) = body.next().await {
        let more = more.map_err(|error| HostError::new(ErrorCode::Unavailable, error.to_string()))?;
        if more.len() > most - text.len() {
            return Ok(None);
        }
        text.extend_from_slice(&more);
    }
    Ok(Some(text))
}

/// What an answer that is a fault says.
fn fault(status: http::StatusCode, text: &[u8]) -> kube::Error {
    let said = serde_json::from_slice::<Status>(text).unwrap_or_else(|_| {
        let words = status.canonical_reason().unwrap_or("a fault");
        Status::failure(words, "").with_code(status.as_u16())
    });
    kube::Error::Api(said.boxed())
}

/// The object with its kind, which the items of a list lack, and without its managed fields. None of it is read into values.
pub(super) fn whole(item: &Item, resource: &ApiResource) -> Result<Object, HostError> {
    type Fields<'t> = BTreeMap<String, Cow<'t, RawValue>>;
    let object = || -> serde_json::Result<Box<RawValue>> {
        let mut object: Fields<'_> = BTreeMap::new();
        for (key, value) in fields(item.text())? {
            object.insert(key, Cow::Borrowed(value));
        }
        for (key, word) in [("apiVersion", &resource.api_version), ("kind", &resource.kind)] {
            object.insert(key.to_owned(), Cow::Owned(to_raw_value(word)?));
        }
        if let Some(metadata) = object.get("metadata") {
            let mut metadata = fields(metadata.get())?;
            metadata.remove("managedFields");
            let metadata = to_raw_value(&metadata)?;
            object.insert("metadata".to_owned(), Cow::Owned(metadata));
        }
        to_raw_value(&object)
    };
    let object = object().map_err(|error| HostError::new(ErrorCode::Other, error.to_string()))?;
    Ok(object.into())
}

fn fields(text: &str) -> serde_json::Result<BTreeMap<String, &RawValue>> {
    serde_json::from_str(text)
}

fn failed(error: &kube::Error) -> HostError {
    let kube::Error::Api(status) = error else {
        return HostError::new(ErrorCode::Unavailable, error.to_string());
    };
    let code = match status.code {
        403 => ErrorCode::Forbidden,
        410 => ErrorCode::Expired,
        400 | 422 => ErrorCode::Invalid,
        404 | 405 => ErrorCode::Unsupported,
        _ => ErrorCode::Unavailable,
    };
    HostError::new(code, status.message.clone()).detail("http-status", status.code.to_string())
}

/// A client of an API server that answers so, and never where there is nothing; no connection is made.
#[cfg(test)]
pub(super) fn answering(
    answer: impl Fn(&http::Uri) -> Option<serde_json::Value> + Send + Sync + 'static,
) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let answer = answer(request.uri());
        async move {
            match answer {
                Some(answer) => {
                    Ok::<_, http::Error>(http::Response::new(Body::from(answer.to_string().into_bytes())))
                }
                None => std::future::pending().await,
            }
        }
    });
    Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::{Body as Any, Bytes};
    use serde_json::json;

    const PODS: &str = "/api/v1/namespaces/team/pods";
    /// What an API server says of an object that is not there.
    const GONE: &str = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "pods \"p0\" not found", "reason": "NotFound", "details": {"name": "p0", "kind": "pods"}, "code": 404}"#;
    /// What API servers say of a path that they do not serve.
    const UNSERVED: [&str; 4] = [
        "404 page not found\n",
        "",
        "<html>not here</html>",
        r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "details": {}, "code": 404,
            "message": "the server could not find the requested resource"}"#,
    ];

    /// What a reader sees of an API server that answers so.
    fn reader(answer: impl Fn(&http::Uri) -> (u16, Any) + Send + Sync + 'static) -> RuleReader {
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (code, body) = match request.uri().path() {
                "/api/v1" => {
                    let pods = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                        {"name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": true, "verbs": ["get", "list"]},
                    ]});
                    (200, Any::from(pods.to_string()))
                }
                _ => answer(request.uri()),
            };
            let answer = http::Response::builder().status(code);
            let answer = if code == 429 {
                answer.header("retry-after", "7")
            } else {
                answer
            };
            std::future::ready(answer.body(body))
        });
        RuleReader::own(Arc::new(Access::new(Client::new(service, "default"))))
    }

    fn list(items: usize) -> Any {
        let items: Vec<_> = (0..items)
            .map(|number| json!({"metadata": {"name": format!("p{number}")}}))
            .collect();
        json!({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "next"}, "items": items})
            .to_string()
            .into()
    }

    /// A body without an end.
    fn endless() -> Any {
        let more = Bytes::from(vec![b' '; 1 << 16]);
        Any::from_stream(futures::stream::repeat_with(move || {
            Ok::<_, std::convert::Infallible>(more.clone())
        }))
    }

    fn query(limit: u32) -> ListQuery {
        ListQuery {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("team".to_owned()),
            label_selector: Some("a=b".to_owned()),
            field_selector: None,
            live: false,
            limit,
            continue_token: None,
        }
    }

    fn pod() -> ObjectRef {
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some("team".to_owned()),
            name: "p0".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_page_is_read_and_asked_for_as_it_is_wanted() {
        let reader = reader(|uri| {
            assert_eq!(uri.path(), PODS);
            let query = uri.query().unwrap_or_default();
            assert!(
                query.contains("limit=20") && query.contains("labelSelector=a%3Db"),
                "{query}"
            );
            (200, list(20))
        });
        let page = reader.list(&query(100)).await.unwrap();
        assert_eq!(
            (page.items.len(), page.continue_token.as_deref()),
            (20, Some("next"))
        );
        let first = page.items[0].value().unwrap();
        assert_eq!(
            first,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p0"}})
        );
    }

    #[tokio::test]
    async fn who_heeds_no_limit_is_refused_by_the_name_of_the_kind() {
        for (limit, items) in [(20, 1000), (20, 21), (5, 6)] {
            let reader = reader(move |_| (200, list(items)));
            let error = reader.list(&query(limit)).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::TooLarge, "{error}");
            assert!(error.message.contains("v1 Pod"), "{error}");
            assert!(
                reader.access.pages.try_take("other", PAGES_MIB).is_some(),
                "it holds nothing"
            );
        }
        let empty = reader(|_| (200, r#"{"metadata": {}, "items": null}"#.into()));
        assert_eq!(empty.list(&query(5)).await.unwrap().items, Vec::new());
    }

    #[tokio::test]
    async fn an_answer_without_an_end_has_one() {
        let good = reader(|_| (200, endless()));
        let errors = [
            good.list(&query(20)).await.unwrap_err(),
            good.get(&pod(), false).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code, ErrorCode::TooLarge, "{error}");
            assert!(error.message.contains("v1 Pod"), "{error}");
        }
        let bad = reader(|_| (500, endless()));
        let errors = [
            bad.list(&query(20)).await.unwrap_err(),
            bad.get(&pod(), false).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code, ErrorCode::Unavailable, "{error}");
        }
    }

    #[tokio::test]
    async fn what_the_api_server_says_is_told() {
        let status = |code: u16| {
            json!({"kind": "Status", "status": "Failure", "message": "its words", "code": code}).to_string()
        };
        for (code, wanted) in [
            (403, ErrorCode::Forbidden),
            (410, ErrorCode::Expired),
            (503, ErrorCode::Unavailable),
        ] {
            let reader = reader(move |_| (code, status(code).into()));
            let error = reader.list(&query(20)).await.unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (wanted, "its words"));
            assert_eq!(reader.get(&pod(), false).await.unwrap_err().code, wanted);
        }
        let none = reader(|_| (404, GONE.into()));
        assert_eq!(none.get(&pod(), false).await.unwrap(), None);
        assert_eq!(
            none.list(&query(20)).await.unwrap_err().code,
            ErrorCode::Unsupported
        );
        let found = reader(|_| (200, r#"{"metadata": {"name": "p0"}}"#.into()));
        let found = found.get(&pod(), false).await.unwrap().unwrap();
        assert_eq!(found.value().unwrap()["kind"], "Pod");
    }

    /// One that has too much to do says in a header when it wants to be asked again, and nothing else that a program could read.
    #[tokio::test]
    async fn when_the_api_server_wants_to_be_asked_again_is_heard() {
        let busy = reader(|_| (429, "Too many requests, please try again later.".into()));
        let errors = [
            busy.get(&pod(), false).await.unwrap_err(),
            busy.list(&query(20)).await.unwrap_err(),
        ];
        for error in errors {
            let seconds = error.details.iter().find(|(key, _)| key == "retry-after");
            assert_eq!(seconds.map(|(_, value)| value.as_str()), Some("7"), "{error:?}");
        }
        let down = reader(|_| (503, "down".into()));
        let error = down.get(&pod(), false).await.unwrap_err();
        assert!(
            !error.details.iter().any(|(key, _)| key == "retry-after"),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn an_object_of_a_kind_that_is_not_served_is_not_gone() {
        for body in UNSERVED {
            let reader = reader(move |_| (404, body.into()));
            let errors = [
                reader.get(&pod(), false).await.unwrap_err(),
                reader.list(&query(20)).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.code, ErrorCode::Unsupported, "{body}: {error}");
                assert_eq!(error.message, "the cluster does not serve v1 Pod", "{body}");
            }
            let kinds = reader.access.kinds.lock().unwrap();
            assert!(kinds.is_empty(), "{body}: what the kind was is asked anew");
        }
    }
}
