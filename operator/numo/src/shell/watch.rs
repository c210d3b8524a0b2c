//! Watches: one task for each kind (and namespace), which projects what it sees and sends it to the
//! planner. No polling: a watch that breaks lists anew and goes on.

use super::{
    item::Item,
    kind::Kind,
    project,
    store::Seen,
    unserved::UNSERVED,
    watched::{
        self, Found, Missing, Object, Place,
        node::{self, SlimNode},
    },
};
use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    api::ListParams,
    core::{DynamicObject, DynamicResourceScope, GroupVersionKind, Status},
    discovery::ApiResource,
    runtime::{WatchStreamExt, watcher},
};
use numo_core::observed::Key;
use std::time::Duration;
use tokio::{sync::mpsc::Sender, time::Instant};

/// How long a watch whose kind is not served, or not allowed, waits before it asks again.
const RETRY_REFUSED: Duration = Duration::from_secs(10);
/// The same for a kind that older releases of OpenShift do not have.
const RETRY_ABSENT: Duration = Duration::from_mins(5);

/// For how long a watch may do nothing but fail before what it saw last counts as outdated. API servers that restart one after another are
/// back sooner, and a stop for each of them would stop much; what changes meanwhile nobody sees, so it may be no longer than people take
/// for a moment.
const FAILING_FOR: Duration = Duration::from_mins(1);
/// The same after what was seen was outdated, and was listed anew, and nothing was heard of the watch since.
const FAILING_AGAIN: Duration = Duration::from_secs(10);
/// Errors that are this far apart are of two outages: a watch is begun again after a minute at most, and tells nothing where nothing
/// happens.
const APART: Duration = Duration::from_mins(2);

/// The API resource of a kind.
pub fn resource(kind: Kind) -> ApiResource {
    let (group, version, name, plural) = kind.resource();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, name), plural)
}

/// The API of a kind, in one namespace or (empty) all.
pub fn api(client: &Client, kind: Kind, namespace: &str) -> Api<DynamicObject> {
    api_of(client, kind, namespace)
}

/// The same, each object read by itself.
pub fn items(client: &Client, kind: Kind, namespace: &str) -> Api<Item> {
    api_of(client, kind, namespace)
}

fn api_of<K>(client: &Client, kind: Kind, namespace: &str) -> Api<K>
where
    K: kube::Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    let resource = resource(kind);
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

/// Reads one object by a list, which is what numo has a right to; none if it is gone.
pub async fn read_one(client: &Client, kind: Kind, key: &Key) -> Result<Option<(u64, Object)>, kube::Error> {
    let one = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let list = items(client, kind, &key.namespace).list(&one).await?;
    let found = list.items.first();
    Ok(found.and_then(|item| Some((project::version(&item.metadata), watched::item(kind, item)?))))
}

/// Lists a kind in one namespace once more, and sends what is there: for objects that were not kept when the watch told of them. Nothing
/// is taken for gone because it is not in it. It ends once it was listed to the end, however often it is tried for that.
pub async fn list_again(client: Client, kind: Kind, namespace: String, to: Sender<Seen>) {
    let mut pause = AGAIN;
    while !to.is_closed() {
        match send_all(&client, kind, &namespace, &to).await {
            Ok(()) => {
                let _ = to.send(Seen::ListedAgain(kind, namespace)).await;
                return;
            }
            Err(error) => {
                tracing::warn!(?kind, namespace, %error, "objects that were not kept are not listed again yet");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// How soon a list is tried again that failed, and at the latest.
const AGAIN: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(1);

async fn send_all(
    client: &Client,
    kind: Kind,
    namespace: &str,
    to: &Sender<Seen>,
) -> Result<(), kube::Error> {
    let api = items(client, kind, namespace);
    let mut params = ListParams::default().limit(kind.watched().page);
    loop {
        let list = api.list(&params).await?;
        for found in &list.items {
            if let Some(object) = watched::item(kind, found) {
                let seen = Seen::Applied(kind, project::version(&found.metadata), object);
                // Whoever has gone needs none of it.
                let _ = to.send(seen).await;
            }
        }
        params.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}

/// Watches a kind until the receiver is gone.
pub async fn watch(client: Client, kind: Kind, scope: String, to: Sender<Seen>) {
    if kind == Kind::Node {
        let open = |scope: &str| {
            let config = kind.select(scope).watch().page_size(node::PAGE);
            watcher(Api::<SlimNode>::all(client.clone()), config)
        };
        forward(kind, scope, to, open, |node| {
            Found::Shown(node::node_object(node))
        })
        .await;
        return;
    }
    let open = |scope: &str| {
        let selection = kind.select(scope);
        let config = selection.watch().page_size(kind.watched().page);
        watcher(items(&client, kind, &selection.namespace), config)
    };
    forward(kind, scope, to, open, |item| watched::find(kind, &item)).await;
}

/// Whether a watch that was listed does nothing but fail. kube begins it again where it was, for ever: that it goes on at last without a
/// list, nobody is told before something happens.
#[derive(Debug, Default)]
struct Outage {
    /// The first error since it was heard of last, and the last one.
    errors: Option<(Instant, Instant)>,
    /// Whether what was seen was outdated, and nothing but a list was heard of since.
    was_outdated: bool,
}

impl Outage {
    /// Notes an error; true once what was seen is outdated. From then on it counts from the next error.
    fn fails(&mut self, now: Instant) -> bool {
        let errors = self.errors.filter(|(_, last)| now.duration_since(*last) < APART);
        let (first, _) = errors.unwrap_or((now, now));
        let patience = if self.was_outdated {
            FAILING_AGAIN
        } else {
            FAILING_FOR
        };
        let is_long = now.duration_since(first) >= patience;
        self.errors = (!is_long).then_some((first, now));
        self.was_outdated |= is_long;
        is_long
    }

    /// It was heard of.
    const fn ends(&mut self) {
        self.errors = None;
        self.was_outdated = false;
    }

    /// It was listed: the list is fresh, and says nothing of the watch.
    const fn lists(&mut self) {
        self.errors = None;
    }
}

/// What a watch has come to.
struct State {
    kind: Kind,
    scope: String,
    /// Whether it is refused.
    refused: bool,
    /// Whether it was ever listed: only a kind that never was may be taken for empty.
    listed: bool,
    outage: Outage,
}

impl State {
    /// What an event tells.
    fn of_event<K: kube::Resource>(
        &mut self,
        event: watcher::Event<K>,
        find: impl Fn(K) -> Found,
    ) -> Option<Seen> {
        let kind = self.kind;
        match event {
            watcher::Event::Init | watcher::Event::InitApply(_) => {}
            watcher::Event::InitDone => self.outage.lists(),
            watcher::Event::Apply(_) | watcher::Event::Delete(_) => self.outage.ends(),
        }
        match event {
            watcher::Event::Init => Some(Seen::Listing(kind, self.scope.clone())),
            watcher::Event::InitDone => {
                (self.refused, self.listed) = (false, true);
                UNSERVED.has(kind);
                Some(Seen::Listed(kind, self.scope.clone()))
            }
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let place = (project::key(object.meta()), project::version(object.meta()));
                applied(kind, place, find(object))
            }
            watcher::Event::Delete(object) => Some(Seen::Deleted(
                kind,
                project::key(object.meta()),
                project::version(object.meta()),
            )),
        }
    }

    /// What an error tells, and after which time it is to be listed anew, if it is.
    fn of_error(&mut self, error: &watcher::Error, now: Instant) -> (Vec<Seen>, Option<Duration>) {
        let absent = is_refusal(error);
        if !self.refused {
            tell(self.kind, &self.scope, error, self.listed);
        }
        let first = absent && !self.refused;
        self.refused |= absent;
        let all = of_error(self.kind, &self.scope, error, (self.listed, first));
        if absent {
            let pause = if self.listed {
                RETRY_REFUSED
            } else {
                retry_after(self.kind.watched().missing)
            };
            return (all, Some(pause));
        }
        match error {
            // It had begun, where it was before: all that had happened was told. What stands between may break each that is quiet.
            watcher::Error::WatchFailed(_) => self.outage.ends(),
            // It is begun again by itself.
            watcher::Error::InitialListFailed(_) => {}
            _ if self.listed && self.outage.fails(now) => return self.outdated(all, error),
            _ => {}
        }
        (all, None)
    }

    /// What is told of a watch that does nothing but fail.
    fn outdated(&self, mut all: Vec<Seen>, error: &watcher::Error) -> (Vec<Seen>, Option<Duration>) {
        let words = format!("its watch only fails: {}", said(error));
        tracing::warn!(kind = ?self.kind, scope = self.scope, words, "what was seen is outdated; listing anew");
        if !self.kind.watched().missing.is_own_business() {
            all.push(Seen::ListFailed(self.kind, self.scope.clone(), words));
        }
        (all, Some(RETRY_REFUSED))
    }
}

/// What a watch says of an object that it was told of. One that is none of numo's any more is gone to it, as it would be in a list: who kept
/// what it was before would wait for its end for ever.
fn applied(kind: Kind, (key, number): (Key, u64), found: Found) -> Option<Seen> {
    match found {
        Found::Shown(object) => Some(Seen::Applied(kind, number, object)),
        Found::NotOurs => Some(Seen::Deleted(kind, key, number)),
        Found::PassedOver => None,
    }
}

async fn forward<K: kube::Resource + Send, S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send>(
    kind: Kind,
    scope: String,
    to: Sender<Seen>,
    open: impl Fn(&str) -> S + Send,
    find: impl Fn(K) -> Found + Send,
) {
    let mut stream = Box::pin(open(&scope).default_backoff());
    let mut state = State {
        kind,
        scope,
        refused: false,
        listed: false,
        outage: Outage::default(),
    };
    while let Some(event) = stream.next().await {
        let (seen, again) = match event {
            Ok(event) => (state.of_event(event, &find).into_iter().collect(), None),
            Err(error) => state.of_error(&error, Instant::now()),
        };
        for seen in seen {
            if to.send(seen).await.is_err() {
                return;
            }
        }
        if let Some(pause) = again {
            tokio::time::sleep(pause).await;
            // It lists once more: what was not to be seen is known again only after that.
            stream = Box::pin(open(&state.scope).default_backoff());
        }
    }
}

/// Tells of a watch that broke; of a kind that was never there, with the others of them.
fn tell(kind: Kind, scope: &str, error: &watcher::Error, listed: bool) {
    if !listed && is_unserved(error) {
        return UNSERVED.lacks(kind);
    }
    let (absent, error) = (is_refusal(error), said(error));
    tracing::info!(?kind, scope, error, absent, "a watch was interrupted");
}

/// What an error of a watch tells, by whether the kind was listed before and whether this is the first refusal.
///
/// What numo can do without is empty if it is not served or may not be seen. Anything else is waited for: to take a Node that may not be
/// seen for one that is not there would unpause pools.
fn of_error(kind: Kind, scope: &str, error: &watcher::Error, (listed, first): (bool, bool)) -> Vec<Seen> {
    let missing = kind.watched().missing;
    let mut all = Vec::new();
    let of_list = matches!(error, watcher::Error::InitialListFailed(_));
    let of_jobs = kind.watched().place == Place::RuleJobs;
    // Whose Jobs run there waits for the first list, and is told what keeps it.
    let is_awaited = of_jobs && of_list && !is_refusal(error);
    if (listed || is_awaited) && !missing.is_own_business() && (is_refusal(error) || of_list) {
        all.push(Seen::ListFailed(kind, scope.to_owned(), said(error)));
    }
    if first && matches!(missing, Missing::Told { .. }) {
        // Who has Plans there is told what is missing.
        all.push(Seen::Unseen(kind, scope.to_owned(), said(error)));
    }
    if first && !listed && missing.is_optional(is_unserved(error)) {
        if matches!(missing, Missing::Needed | Missing::EmptyIfUnserved) {
            all.push(Seen::Absent(kind, said(error)));
        }
        all.push(Seen::Listed(kind, scope.to_owned()));
    }
    all
}

/// What the API server says, if it does: people read it in a condition.
fn said(error: &watcher::Error) -> String {
    status_of(error).map_or_else(|| error.to_string(), |status| status.message.clone())
}

/// What the API server answered, if it did.
fn status_of(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// How soon a kind is asked for again that may not be seen or is not served, and was not listed before.
const fn retry_after(missing: Missing) -> Duration {
    match missing {
        Missing::Seldom => RETRY_ABSENT,
        _ => RETRY_REFUSED,
    }
}

/// Whether the API server does not know the kind.
fn is_unserved(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

fn is_refusal(error: &watcher::Error) -> bool {
    status_of(error).is_some_and(|status| matches!(status.code, 403 | 404))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::store::Store;
    use numo_api::marks;

    fn job(version: u64, labels: &serde_json::Value) -> Item {
        let job = serde_json::json!({
            "apiVersion": "batch/v1", "kind": "Job", "spec": {"parallelism": 1},
            "metadata": {
                "name": "apply-p-on-a-with-h", "namespace": "ns", "uid": "u", "labels": labels,
                "resourceVersion": version.to_string(),
            },
        });
        serde_json::from_str(&job.to_string()).unwrap()
    }

    /// Its later events tell nothing, its end neither, and its turn would wait for that for ever.
    #[test]
    fn a_job_of_a_plan_that_loses_a_label_is_gone_until_it_has_it_again() {
        let mut store = Store::default();
        let mut see = |version: u64, labels: serde_json::Value| {
            let item = job(version, &labels);
            let place = (project::key(&item.metadata), version);
            let seen = applied(Kind::PlanJob, place, watched::find(Kind::PlanJob, &item));
            store.see(seen.unwrap());
            store.observed.plan_jobs.len()
        };
        let whole = serde_json::json!({marks::PLAN: "p", marks::PLAN_NODE: "a"});
        assert_eq!(see(1, whole.clone()), 1);
        assert_eq!(see(2, serde_json::json!({marks::PLAN: "p"})), 0);
        assert_eq!(see(3, whole.clone()), 1);
        assert_eq!(see(4, serde_json::json!({marks::PLAN_NODE: "a"})), 0);
        assert_eq!(see(5, whole), 1);
    }

    /// What was seen of it before is kept: a pool that nobody can read is not one that is gone.
    #[test]
    fn an_object_that_cannot_be_read_is_not_gone() {
        let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let text = format!(r#"{{"metadata": {{"name": "w", "managedFields": [{{"fieldsV1": {deep}}}]}}}}"#);
        let item: Item = serde_json::from_str(&text).unwrap();
        let kind = Kind::MachineConfigPool;
        let place = (project::key(&item.metadata), 7);
        assert!(applied(kind, place, watched::find(kind, &item)).is_none());
    }

    fn too_many() -> watcher::Error {
        let mut status = Status::failure("too many requests", "TooManyRequests");
        status.code = 429;
        watcher::Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    fn state(kind: Kind) -> State {
        State {
            kind,
            scope: String::new(),
            refused: false,
            listed: true,
            outage: Outage::default(),
        }
    }

    /// kube begins it again where it was and says nothing else for ever: decisions would go on from what was seen before.
    #[test]
    fn a_watch_that_does_nothing_but_fail_is_outdated_and_listed_anew() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pools = state(Kind::MachineConfigPool);
        for seconds in [0, 20, 59] {
            let (seen, again) = pools.of_error(&too_many(), after(seconds));
            assert!(seen.is_empty() && again.is_none(), "{seconds}");
        }
        let (seen, again) = pools.of_error(&too_many(), after(61));
        let Some(Seen::ListFailed(Kind::MachineConfigPool, _, words)) = seen.first() else {
            panic!("{seen:?}");
        };
        assert!(words.contains("too many requests"), "{words}");
        assert!(again.is_some());
        // The list worked, and the watch still does not: it is outdated again much sooner.
        let done = pools.of_event(watcher::Event::<Item>::InitDone, |_| Found::NotOurs);
        assert!(matches!(done, Some(Seen::Listed(..))));
        assert!(pools.of_error(&too_many(), after(75)).1.is_none());
        assert!(pools.of_error(&too_many(), after(84)).1.is_none());
        assert!(pools.of_error(&too_many(), after(85)).1.is_some());
        // Once it is heard of, it has its whole time again.
        pools.of_event(watcher::Event::<Item>::InitDone, |_| Found::NotOurs);
        let gone: Item = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        pools.of_event(watcher::Event::Delete(gone), |_| Found::NotOurs);
        assert!(pools.of_error(&too_many(), after(100)).1.is_none());
        assert!(pools.of_error(&too_many(), after(130)).1.is_none());
    }

    #[test]
    fn a_watch_that_works_between_its_errors_is_not_outdated() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pools = state(Kind::MachineConfigPool);
        assert!(pools.of_error(&too_many(), after(0)).1.is_none());
        // Something was seen.
        let gone: Item = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        pools.of_event(watcher::Event::Delete(gone), |_| Found::NotOurs);
        assert!(pools.of_error(&too_many(), after(61)).1.is_none());
        // It was quiet: nothing happened for as long as a watch lasts.
        assert!(pools.of_error(&too_many(), after(361)).1.is_none());
        // It had begun, and broke.
        let broken = || watcher::Error::WatchFailed(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert!(pools.of_error(&broken(), after(400)).1.is_none());
        assert!(pools.of_error(&too_many(), after(430)).1.is_none());
        assert!(pools.of_error(&broken(), after(470)).1.is_none());
    }
}
