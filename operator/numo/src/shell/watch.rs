//! Watches: one task for each kind (and namespace), which projects what it sees and sends it to the
//! planner. No polling: a watch that breaks lists anew and goes on.

use super::{
    item::Item,
    store::Seen,
    wire::{self, Kind, SlimNode},
};
use futures::{Stream, StreamExt};
use kube::{
    Api, Client,
    api::ListParams,
    core::{DynamicObject, DynamicResourceScope, GroupVersionKind},
    discovery::ApiResource,
    runtime::{WatchStreamExt, watcher},
};
use numo_core::observed::Key;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How long a watch whose kind is not served, or not allowed, waits before it asks again.
const RETRY_REFUSED: Duration = Duration::from_secs(10);
/// The same for a kind that older releases of OpenShift do not have.
const RETRY_ABSENT: Duration = Duration::from_mins(5);

/// Namespace of the static pods of kubeadm's clusters.
pub const KUBE_SYSTEM: &str = "kube-system";

/// kured's DaemonSet, wherever it is installed.
pub const KURED: &str = "metadata.name=kured";

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

/// How many objects are asked for at once: each may have 1.5 MiB where anybody but administrators may write it.
pub const fn page(kind: Kind) -> u32 {
    match kind {
        Kind::MutexRule => 8,
        // Only administrators write them, or Kubernetes and OpenShift themselves, and they are small.
        Kind::Node
        | Kind::Namespace
        | Kind::MachineConfigPool
        | Kind::MachineOSConfig
        | Kind::ClusterVersion
        | Kind::Infrastructure
        | Kind::OpenShiftMachine
        | Kind::OpenShiftHealthCheck
        | Kind::MutexBudget
        | Kind::MutexBinding => 500,
        Kind::NodePod
        | Kind::EtcdPod
        | Kind::Pod
        | Kind::PlanPod
        | Kind::Job
        | Kind::PlanJob
        | Kind::JobEvent
        | Kind::DisruptionBudget
        | Kind::Lease
        | Kind::ClusterApiMachine
        | Kind::NodeChange => 50,
        Kind::MutexRunConfig
        | Kind::MutexTarget
        | Kind::Plan
        | Kind::NodeMaintenance
        | Kind::KubeVirtMaintenance
        | Kind::Secret
        | Kind::ClusterApiHealthCheck
        | Kind::DaemonSet
        | Kind::MachineConfig
        | Kind::Kured
        | Kind::NodeMaintenanceOperator
        | Kind::NodeMaintenanceOperatorOld
        | Kind::NodeMaintenanceOperatorBundled
        | Kind::SystemUpgradeController
        | Kind::NodeUpgradeMutexOperator => 16,
    }
}

/// What of a kind is watched.
fn selection(kind: Kind, scope: &str) -> watcher::Config {
    let config = watcher::Config::default();
    match kind {
        Kind::Job | Kind::Pod => config.labels(numo_api::marks::JOB_RUN),
        Kind::PlanJob | Kind::PlanPod => config.labels(numo_api::marks::PLAN_CONTROLLER),
        Kind::JobEvent => config.fields("involvedObject.kind=Job,reason=FailedCreate"),
        Kind::NodePod => config.fields(&format!("spec.nodeName={scope}")),
        Kind::EtcdPod if scope == KUBE_SYSTEM => config.labels("component=etcd"),
        Kind::Kured => config.fields(KURED),
        _ => match kind.replaced() {
            Some((name, _)) => config.fields(&format!("metadata.name={name}")),
            None => config,
        },
    }
}

/// Reads one object by a list, which is what numo has a right to; none if it is gone.
pub async fn read_one(
    client: &Client,
    kind: Kind,
    key: &Key,
) -> Result<Option<(u64, wire::Object)>, kube::Error> {
    let one = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let list = items(client, kind, &key.namespace).list(&one).await?;
    let found = list.items.first();
    Ok(found.and_then(|item| Some((wire::version(&item.metadata), wire::item(kind, item)?))))
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
    let mut params = ListParams::default().limit(page(kind));
    loop {
        let list = api.list(&params).await?;
        for found in &list.items {
            if let Some(object) = wire::item(kind, found) {
                let seen = Seen::Applied(kind, wire::version(&found.metadata), object);
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
        // Pages bound the memory of the first list: 100 nodes of 17 KB each.
        let open = |scope: &str| {
            let config = selection(kind, scope).page_size(100);
            watcher(Api::<SlimNode>::all(client.clone()), config)
        };
        forward(kind, scope, to, open, |node| {
            let number = wire::version(kube::Resource::meta(&node));
            Some((number, wire::node_object(node)))
        })
        .await;
        return;
    }
    // The scope of a node's pods is the node, not a namespace.
    let open = |scope: &str| {
        let namespace = if kind == Kind::NodePod { "" } else { scope };
        let config = selection(kind, scope).page_size(page(kind));
        watcher(items(&client, kind, namespace), config)
    };
    forward(kind, scope, to, open, |item| {
        let number = wire::version(&item.metadata);
        wire::item(kind, &item).map(|object| (number, object))
    })
    .await;
}

async fn forward<K: kube::Resource + Send, S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send>(
    kind: Kind,
    scope: String,
    to: Sender<Seen>,
    open: impl Fn(&str) -> S + Send,
    project: impl Fn(K) -> Option<(u64, wire::Object)> + Send,
) {
    let mut stream = Box::pin(open(&scope).default_backoff());
    let mut refused = false;
    // Whether it was ever listed: only a kind that never was may be taken for empty.
    let mut listed = false;
    while let Some(event) = stream.next().await {
        let seen = match event {
            Ok(watcher::Event::Init) => Some(Seen::Listing(kind, scope.clone())),
            Ok(watcher::Event::InitDone) => {
                (refused, listed) = (false, true);
                Some(Seen::Listed(kind, scope.clone()))
            }
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                project(object).map(|(number, object)| Seen::Applied(kind, number, object))
            }
            Ok(watcher::Event::Delete(object)) => Some(Seen::Deleted(
                kind,
                wire::key(object.meta()),
                wire::version(object.meta()),
            )),
            Err(error) => {
                // What numo can do without is empty if it is not served or may not be seen. Anything else
                // is waited for: to take a Node that may not be seen for one that is not there would
                // unpause pools.
                let absent = is_refusal(&error);
                if !refused {
                    tracing::info!(?kind, scope, %error, absent, "a watch was interrupted");
                }
                let first = absent && !refused;
                refused |= absent;
                let of_list = matches!(error, watcher::Error::InitialListFailed(_));
                if listed && !is_own_business(kind) && (absent || of_list) {
                    let failed = Seen::ListFailed(kind, scope.clone(), error.to_string());
                    if to.send(failed).await.is_err() {
                        return;
                    }
                }
                if absent {
                    if first && matches!(kind, Kind::PlanJob | Kind::Secret) {
                        // Who has Plans there is told what is missing.
                        let unseen = Seen::Unseen(kind, scope.clone(), error.to_string());
                        if to.send(unseen).await.is_err() {
                            return;
                        }
                    }
                    if first && !listed && is_optional(kind, &error) {
                        let unknown = is_needed(kind).then(|| Seen::Absent(kind, error.to_string()));
                        let seen = unknown.into_iter().chain([Seen::Listed(kind, scope.clone())]);
                        for seen in seen {
                            if to.send(seen).await.is_err() {
                                return;
                            }
                        }
                    }
                    let pause = if listed { RETRY_REFUSED } else { retry_after(kind) };
                    tokio::time::sleep(pause).await;
                    // It lists once more: what was not to be seen is known again only after that.
                    stream = Box::pin(open(&scope).default_backoff());
                }
                None
            }
        };
        if let Some(seen) = seen
            && to.send(seen).await.is_err()
        {
            return;
        }
    }
}

/// Kinds whose owners are told by words of their own when they cannot be seen ([`Seen::Unseen`]), and pods of one node.
const fn is_own_business(kind: Kind) -> bool {
    matches!(kind, Kind::PlanJob | Kind::Secret | Kind::NodePod)
}

/// Kinds of OpenShift's without which a run with nodes in flight is not decided: that one is not served may be the matter of a
/// moment.
const fn is_needed(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MachineConfigPool | Kind::MachineConfig | Kind::ClusterVersion | Kind::Infrastructure
    )
}

/// A kind that comes with a release of OpenShift or not at all is asked for seldom.
const fn retry_after(kind: Kind) -> Duration {
    if may_be_absent(kind) {
        RETRY_ABSENT
    } else {
        RETRY_REFUSED
    }
}

/// Kinds that a cluster numo serves may do without.
pub const fn may_be_absent(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::MachineOSConfig
            | Kind::OpenShiftMachine
            | Kind::OpenShiftHealthCheck
            | Kind::ClusterApiMachine
            | Kind::ClusterApiHealthCheck
    )
}

/// Whether numo can do its work without seeing this kind: rule Jobs and leases where it is not invited, and
/// OpenShift's kinds where there is no OpenShift.
fn is_optional(kind: Kind, error: &watcher::Error) -> bool {
    let absent = matches!(error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404);
    match kind {
        Kind::Job
        | Kind::Pod
        | Kind::JobEvent
        | Kind::Lease
        | Kind::PlanJob
        | Kind::PlanPod
        | Kind::Secret => true,
        Kind::MachineConfigPool
        | Kind::MachineConfig
        | Kind::ClusterVersion
        | Kind::Infrastructure
        | Kind::MachineOSConfig
        | Kind::OpenShiftMachine
        | Kind::OpenShiftHealthCheck
        | Kind::ClusterApiMachine
        | Kind::ClusterApiHealthCheck
        | Kind::NodeMaintenance
        | Kind::KubeVirtMaintenance
        | Kind::Plan => absent,
        Kind::Node
        | Kind::MutexRunConfig
        | Kind::MutexRule
        | Kind::MutexTarget
        | Kind::NodeChange
        | Kind::MutexBudget
        | Kind::MutexBinding
        | Kind::Kured
        // To take pods that may not be seen for none would call a node drained that is not.
        | Kind::NodePod
        | Kind::DaemonSet
        | Kind::DisruptionBudget
        | Kind::EtcdPod
        | Kind::NodeMaintenanceOperator
        | Kind::NodeMaintenanceOperatorOld
        | Kind::NodeMaintenanceOperatorBundled
        | Kind::NodeUpgradeMutexOperator
        | Kind::SystemUpgradeController
        | Kind::Namespace => false,
    }
}

fn is_refusal(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return false;
    };
    matches!(status.code, 403 | 404)
}
