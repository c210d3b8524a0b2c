//! The objects of one kind as last seen, fed by a watch and by the answers to our own writes.
//!
//! Because answers are learned at once, a controller never decides on what it has itself outdated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// One change, as the watch told it.
#[derive(Debug)]
pub(crate) enum Seen<'a, K> {
    /// There, as it is now.
    There(&'a Arc<K>),
    /// Gone, with its last state.
    Gone(&'a K),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    inner: Mutex<Inner<K>>,
    version: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner<K> {
    objects: BTreeMap<String, Arc<K>>,
    /// Uids seen deleted: a late answer must not bring an object back.
    gone: HashSet<String>,
    followers: HashMap<String, watch::Sender<Option<Arc<K>>>>,
    listed: bool,
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        let inner = Inner {
            objects: BTreeMap::new(),
            gone: HashSet::new(),
            followers: HashMap::new(),
            listed: false,
        };
        Self {
            inner: Mutex::new(inner),
            version: watch::Sender::new(0),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<K>> {
        self.lock().objects.get(key).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.lock().objects.values().cloned().collect()
    }

    /// Changes whenever any object does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The object of this key, now and from now on.
    pub(crate) fn follow(&self, key: &str) -> watch::Receiver<Option<Arc<K>>> {
        let mut inner = self.lock();
        let now = inner.objects.get(key).cloned();
        inner
            .followers
            .entry(key.to_owned())
            .or_insert_with(|| watch::Sender::new(now))
            .subscribe()
    }

    /// Returns once the cache is as wanted.
    pub(crate) async fn until(&self, is: impl Fn(&Self) -> bool) {
        let mut changes = self.changes();
        while !is(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) async fn until_listed(&self) {
        self.until(|c| c.lock().listed).await;
    }

    /// Takes in the answer to a write.
    pub(crate) fn learn(&self, object: K) {
        let mut inner = self.lock();
        if !inner.gone.contains(&uid(&object)) {
            self.put(&mut inner, Arc::new(object));
        }
    }

    /// Watches until dropped. `observe` is told of each change, in the order of the API server.
    pub(crate) async fn feed(&self, api: Api<K>, observe: impl Fn(Seen<'_, K>)) {
        let mut events = watcher::watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut listing = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => {
                    listing.push(key(&object));
                    self.there(object, &observe);
                }
                Ok(Event::InitDone) => self.settle(&listing, &observe),
                Ok(Event::Apply(object)) => self.there(object, &observe),
                Ok(Event::Delete(object)) => self.gone(&object, &observe),
                Err(error) => tracing::debug!(%error, kind = %K::kind(&()), "watch interrupted"),
            }
        }
    }

    fn there(&self, object: K, observe: &impl Fn(Seen<'_, K>)) {
        let object = Arc::new(object);
        {
            let mut inner = self.lock();
            self.put(&mut inner, object.clone());
        }
        // Only now: who is told must find it here.
        observe(Seen::There(&object));
    }

    fn gone(&self, object: &K, observe: &impl Fn(Seen<'_, K>)) {
        observe(Seen::Gone(object));
        let key = key(object);
        let mut inner = self.lock();
        inner.gone.insert(uid(object));
        if inner
            .objects
            .get(&key)
            .is_some_and(|known| uid(&**known) == uid(object))
        {
            inner.objects.remove(&key);
            if let Some(follower) = inner.followers.get(&key) {
                follower.send_replace(None);
            }
        }
        self.version.send_modify(|v| *v += 1);
    }

    /// After a list: what it does not name is gone.
    fn settle(&self, listing: &[String], observe: &impl Fn(Seen<'_, K>)) {
        let missing: Vec<Arc<K>> = {
            let mut inner = self.lock();
            inner.listed = true;
            inner
                .objects
                .iter()
                .filter(|(k, _)| !listing.contains(k))
                .map(|(_, o)| o.clone())
                .collect()
        };
        for object in missing {
            self.gone(&object, observe);
        }
        self.version.send_modify(|v| *v += 1);
    }

    fn put(&self, inner: &mut Inner<K>, object: Arc<K>) {
        let key = key(&*object);
        let newer = inner.objects.get(&key).is_none_or(|known| {
            uid(&**known) != uid(&*object) || resource_version(&**known) < resource_version(&*object)
        });
        if !newer {
            return;
        }
        inner.objects.insert(key.clone(), object.clone());
        if let Some(follower) = inner.followers.get(&key) {
            follower.send_replace(Some(object));
        }
        self.version.send_modify(|v| *v += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `namespace/name`, or the name alone.
pub(crate) fn key<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// The revision of etcd that wrote the object; one order over all kinds.
pub(crate) fn resource_version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|rv| rv.parse().ok())
        .unwrap_or_default()
}

pub(crate) fn uid<K: Resource>(object: &K) -> String {
    object.meta().uid.clone().unwrap_or_default()
}
