//! What a component reads of the cluster. The host has checked the grants; here the API server is asked whether the
//! rule's ServiceAccount may read it too, and only then numo reads it, with the rights of its own that
//! `numo-rule-reader` gathers. Nobody is impersonated.

use super::{access, item::Item, stir::Mark};
use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::{
    Api, Client,
    api::ListParams,
    core::GroupVersionKind,
    discovery::{ApiResource, Scope, oneshot},
};
use numo_plugin::{
    ObjectRef, check_kind, check_name,
    services::{ErrorCode, HostError, ListQuery, Object, ObjectPage, Reader},
    shares::{Share, Shares},
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
/// Objects that are read at once.
pub const PAGE: u32 = 20;
/// What a page of the largest objects and the answer that it came in take together (MiB).
const LARGEST_PAGE_MIB: u64 = 2 * 2 * PAGE as u64;
/// What the pages of all evaluations may have together (MiB): of it each namespace has its share.
pub(super) const PAGES_MIB: u64 = 224;
/// What the largest object and the answer that it came in take together (MiB).
const LARGEST_OBJECT_MIB: u64 = 4;
/// What single objects of all evaluations may take while they are read (MiB): of it each namespace has its share. Apart from pages,
/// which an evaluation keeps: whoever waited for the one while it holds the other could wait for itself.
pub(super) const OBJECTS_MIB: u64 = 32;
/// Answers that are kept of either; beyond it all are forgotten.
const MOST_KEPT: usize = 10_000;

/// What is known for a while.
type Kept<K, V> = Mutex<BTreeMap<K, (Instant, V)>>;

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
    async fn kind(&self, api_version: &str, kind: &str) -> Result<(ApiResource, bool), HostError> {
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
                    kube::Error::Discovery(_) => HostError::new(
                        ErrorCode::Unsupported,
                        format!("the cluster does not serve {api_version} {kind}"),
                    ),
                    kube::Error::Api(status) if status.code == 404 => HostError::new(
                        ErrorCode::Unsupported,
                        format!("the cluster does not serve {api_version} {kind}"),
                    ),
                    error => failed(&error),
                })?;
        let found = (resource, capabilities.scope == Scope::Namespaced);
        keep(&self.kinds, key, found.clone());
        Ok(found)
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

    /// The API of a kind, once the ServiceAccount may.
    async fn api(
        &self,
        verb: &str,
        (api_version, kind): (&str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(Api<Item>, ApiResource), HostError> {
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
        let client = self.access.client.clone();
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        Ok((api, resource))
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
        let (api, resource) = self
            .api("get", kind, object.namespace.as_deref(), &object.name)
            .await?;
        let _share = self.access.objects.take(self.tenant(), LARGEST_OBJECT_MIB).await;
        let found = api.get_opt(&object.name).await.map_err(|error| failed(&error))?;
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
        let (api, resource) = self.api("list", kind, query.namespace.as_deref(), "").await?;
        // A page is as large as its objects are, which is known once it was read.
        let mut share = self.access.pages.take(self.tenant(), LARGEST_PAGE_MIB).await;
        let params = ListParams {
            label_selector: query.label_selector.clone(),
            field_selector: query.field_selector.clone(),
            limit: Some(query.limit.min(PAGE)),
            continue_token: query.continue_token.clone(),
            ..ListParams::default()
        };
        let found = api.list(&params).await.map_err(|error| failed(&error))?;
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

/// The object with its kind, which the items of a list lack, and without its managed fields. None of it is read into values.
fn whole(item: &Item, resource: &ApiResource) -> Result<Object, HostError> {
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
