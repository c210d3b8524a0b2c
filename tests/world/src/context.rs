//! What all controllers of a world share: the client, what was last seen, faults, tasks.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use rand::rngs::SmallRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::cache::Cache;
use crate::content::Release;
use crate::fault::Faults;
use crate::kubelet::Containers;
use crate::machine::Machine;
use crate::openshift::{ClusterVersion, KUBELET, MachineConfig, MachineConfigPool};
use crate::record::Records;
use crate::spec::{TimeFactor, Timings, WorldSpec};

/// Annotation of every node a world made; its value is the world's id. A kubelet of this world
/// runs no pod elsewhere: it may be pointed at a cluster that has other nodes.
pub const MADE_BY: &str = "world.numo.dev/made-by";

/// How often a write is tried that met a conflict or a busy server.
const WRITE_TRIES: u32 = 8;

/// See the module.
pub(crate) struct Context {
    pub client: Client,
    pub id: String,
    pub spec: WorldSpec,
    pub nodes: Cache<Node>,
    pub pods: Cache<Pod>,
    pub pools: Cache<MachineConfigPool>,
    pub configs: Cache<MachineConfig>,
    pub versions: Cache<ClusterVersion>,
    pub faults: Faults,
    pub records: Records,
    pub containers: Arc<Containers>,
    /// What the machine-config operator's running version renders with.
    pub release: watch::Sender<Release>,
    pub machines: Mutex<BTreeMap<String, Arc<Machine>>>,
    pub kubelet_port: u16,
    pub random: Mutex<SmallRng>,
    bound: mpsc::UnboundedSender<Arc<Pod>>,
    tasks: Mutex<JoinSet<()>>,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        id: String,
        spec: WorldSpec,
        containers: Arc<Containers>,
        kubelet_port: u16,
        random: SmallRng,
        bound: mpsc::UnboundedSender<Arc<Pod>>,
    ) -> Self {
        let release = watch::Sender::new(Release::new(&spec.version));
        Self {
            client,
            id,
            spec,
            nodes: Cache::new(),
            pods: Cache::new(),
            pools: Cache::new(),
            configs: Cache::new(),
            versions: Cache::new(),
            faults: Faults::new(),
            records: Records::new(),
            containers,
            release,
            machines: Mutex::default(),
            kubelet_port,
            random: Mutex::new(random),
            bound,
            tasks: Mutex::default(),
        }
    }

    pub(crate) fn timings(&self) -> &Timings {
        &self.spec.timings
    }

    pub(crate) fn time(&self) -> TimeFactor {
        self.spec.time_factor
    }

    /// What the clock of a node says.
    pub(crate) fn clock(&self, node: &str) -> Timestamp {
        let now = Timestamp::now();
        let off = SignedDuration::from_secs(self.faults.clock_off(node));
        now.checked_add(off).unwrap_or(now)
    }

    /// Sleeps for some seconds of the world's time.
    pub(crate) async fn pass(&self, seconds: f64) {
        tokio::time::sleep(self.time().of(seconds)).await;
    }

    /// Runs a task that ends with the world at the latest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    pub(crate) fn abort_tasks(&self) {
        lock(&self.tasks).abort_all();
    }

    /// Shows the kubelet a pod that was bound to a node.
    pub(crate) fn offer(&self, pod: Arc<Pod>) {
        // An error says that the kubelet has ended, and so has the world.
        let _ = self.bound.send(pod);
    }

    pub(crate) fn machine(&self, node: &str) -> Option<Arc<Machine>> {
        lock(&self.machines).get(node).cloned()
    }

    pub(crate) fn is_ours(&self, node: &Node) -> bool {
        node.metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(MADE_BY))
            .is_some_and(|by| *by == self.id)
    }

    /// Sets annotations of a node.
    pub(crate) async fn annotate(&self, node: &str, by: &str, annotations: Value) -> Result<()> {
        self.patch_node(node, by, json!({ "metadata": { "annotations": annotations } }))
            .await
    }

    /// Merges into a node; its absence is no error.
    pub(crate) async fn patch_node(&self, name: &str, by: &str, patch: Value) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let patched = write(|| async { api.patch(name, &manager(by), &Patch::Merge(&patch)).await });
        if let Some(node) = patched.await.with_context(|| format!("patching node {name}"))? {
            self.nodes.learn(node);
        }
        Ok(())
    }

    /// Sets or removes a node's taint of this key. Taints are one atomic list that others write too, so
    /// the write names the version it read, and is left to the next look when that is outdated.
    pub(crate) async fn taint(&self, name: &str, by: &str, key: &str, taint: Option<Value>) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let Some(node) = self.nodes.get(name) else {
            return Ok(());
        };
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
        let others = taints.into_iter().flatten().filter(|t| t.key != key);
        let mut taints: Vec<Value> = others.map(serde_json::to_value).collect::<Result<_, _>>()?;
        taints.extend(taint);
        let patch = json!({
            "metadata": { "resourceVersion": node.metadata.resource_version },
            "spec": { "taints": taints },
        });
        match api.patch(name, &manager(by), &Patch::Merge(&patch)).await {
            Ok(node) => self.nodes.learn(node),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Merges into a node's status; conditions by their type.
    pub(crate) async fn patch_node_status(&self, name: &str, patch: Value) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let patched = write(|| async {
            api.patch_status(name, &manager(KUBELET), &Patch::Strategic(&patch))
                .await
        });
        if let Some(node) = patched
            .await
            .with_context(|| format!("patching status of node {name}"))?
        {
            self.nodes.learn(node);
        }
        Ok(())
    }

    /// Merges into a pool; its absence is no error.
    pub(crate) async fn patch_pool(&self, name: &str, by: &str, patch: Value) -> Result<()> {
        let api: Api<MachineConfigPool> = Api::all(self.client.clone());
        let patched = write(|| async { api.patch(name, &manager(by), &Patch::Merge(&patch)).await });
        if let Some(pool) = patched.await.with_context(|| format!("patching pool {name}"))? {
            self.pools.learn(pool);
        }
        Ok(())
    }
}

impl Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Patch parameters under one of the original components' names.
pub(crate) fn manager(name: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(name.into()),
        ..PatchParams::default()
    }
}

/// Repeats a write over conflicts and a busy or restarting server; none if the object is gone.
pub(crate) async fn write<T, F>(attempt: impl Fn() -> F) -> Result<Option<T>>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut delay = Duration::from_millis(50);
    for _ in 1..WRITE_TRIES {
        match attempt().await {
            Ok(done) => return Ok(Some(done)),
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Api(status)) if !matches!(status.code, 409 | 429 | 500..) => {
                return Err(kube::Error::Api(status).into());
            }
            Err(error) => tracing::debug!(%error, "write is tried again"),
        }
        tokio::time::sleep(delay).await;
        delay *= 2;
    }
    Ok(Some(attempt().await?))
}

/// Creates an object; one that is there already is left as it is.
pub(crate) async fn create<K>(client: &Client, object: &K) -> Result<Option<K>>
where
    K: Resource<Scope = k8s_openapi::ClusterResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let created = write(|| async {
        match api.create(&kube::api::PostParams::default(), object).await {
            Ok(created) => Ok(Some(created)),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(None),
            Err(error) => Err(error),
        }
    });
    Ok(created.await?.flatten())
}

/// A poisoned lock means that a task panicked; what it guards is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `pass` after each burst of changes, `settle` after its first one. Errors are tried again.
pub(crate) async fn on_changes<F>(
    mut changes: watch::Receiver<u64>,
    settle: Duration,
    what: &'static str,
    pass: impl Fn() -> F,
) where
    F: Future<Output = Result<()>>,
{
    changes.mark_changed();
    while changes.changed().await.is_ok() {
        tokio::time::sleep(settle).await;
        changes.mark_unchanged();
        if let Err(error) = pass().await {
            tracing::warn!(error = format!("{error:#}"), what, "pass failed, trying again");
            tokio::time::sleep(Duration::from_millis(200)).await;
            changes.mark_changed();
        }
    }
}
