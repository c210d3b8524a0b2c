//! Others who act on the cluster beside the operator under test: GitOps, remediation, an autoscaler.
//!
//! Each looks only at what the watches show, and writes under its own field manager. May not know of
//! the operator under test, but for the public keys by which anyone may ask it to keep off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cache::uid;
use crate::cloud;
use crate::context::Context;
use crate::drain::to_evict;
use crate::kubelet::is_terminal;
use crate::machine_api::{self, MachineApi};
use crate::membership::{is_windows, replacement, tidy};
use crate::openshift::{
    ARBITER, AUTOSCALER, EXCLUDE_FROM_REMEDIATION, GITOPS, MASTER, MachineConfigPool, SCALE_DOWN_DISABLED,
    TO_BE_DELETED, WORKER, condition_status,
};
use crate::world::World;

/// Seconds from a difference until GitOps heals it.
const SELF_HEAL: f64 = 5.0;
/// Seconds from the autoscaler's taint to the deletion.
const TAINTED: f64 = 5.0;
/// Nobody reacts faster than this for real: a person must be able to see what was reacted to.
const SHORTEST_REACTION: Duration = Duration::from_millis(50);
/// Nobody calls a state lasting before this for real: a boot takes requests that do not scale with time.
const SHORTEST_VIGIL: Duration = Duration::from_secs(1);
/// Before what failed is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Someone at work on the cluster, until dropped.
#[derive(Debug)]
#[must_use = "it ends when dropped"]
pub struct Actor {
    task: AbortHandle,
    acts: watch::Receiver<u64>,
}

impl Actor {
    /// How often it has acted: reverts of GitOps, machines that remediation replaced or the autoscaler
    /// deleted.
    pub fn acts(&self) -> u64 {
        *self.acts.borrow()
    }

    /// Returns once it has acted so often. Bounding the wait is for the caller.
    pub async fn until_acts(&self, times: u64) {
        // An error says that it has ended, and with it the world.
        let _ = self.acts.clone().wait_for(|acts| *acts >= times).await;
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What git says of a pool; a field that is none is not in git.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolInGit {
    /// `spec.paused`
    pub paused: Option<bool>,
    /// `spec.nodeSelector`, whole.
    pub node_selector: Option<LabelSelector>,
}

impl PoolInGit {
    /// The merge patch of `spec` that makes the pool what git says; none if it is.
    fn patch(&self, pool: &MachineConfigPool) -> Option<Value> {
        let mut spec = Map::new();
        if let Some(paused) = self.paused.filter(|p| *p != pool.spec.paused) {
            spec.insert("paused".into(), paused.into());
        }
        let now = pool.spec.node_selector.as_ref();
        if let Some(wanted) = self.node_selector.as_ref()
            && tidy(Some(wanted)) != tidy(now)
        {
            spec.insert("nodeSelector".into(), replacement(now, wanted));
        }
        (!spec.is_empty()).then(|| json!({ "spec": spec }))
    }
}

impl World {
    /// GitOps puts a pool back to what its git says, within moments, as `argocd-controller`.
    pub fn gitops(&self, pool: &str, git: PoolInGit) -> Actor {
        let (ctx, pool) = (self.ctx.clone(), pool.to_owned());
        self.start(|acts| gitops(ctx, pool, git, acts))
    }

    /// Remediation destroys the machine and Node of a worker that has been not Ready for so many
    /// seconds of the world (300 with medik8s' defaults), and a machine like it joins; not while the
    /// node is labelled `remediation.medik8s.io/exclude-from-remediation=true`.
    pub fn remediation(&self, after_seconds: f64) -> Actor {
        let ctx = self.ctx.clone();
        self.start(|acts| remediation(ctx, after_seconds, None, acts))
    }

    /// Makes a Machine for each worker there is, of its name.
    pub async fn machines(&self, of: MachineApi) -> Result<()> {
        let nodes: Vec<String> = workers(&self.ctx).iter().map(|node| node.name_any()).collect();
        machine_api::machines_for(&self.ctx.client, of, &nodes).await
    }

    /// A MachineHealthCheck `workers`, and a Machine for each worker there is: the Machine and Node of a worker
    /// that has been not Ready for so many seconds of the world are deleted and made anew, unless the health check
    /// is paused or (Cluster API) the Machine is annotated `cluster.x-k8s.io/skip-remediation`.
    pub async fn machine_health_check(&self, of: MachineApi, after_seconds: f64) -> Result<Actor> {
        self.machines(of).await?;
        machine_api::health_check(&self.ctx.client, of).await?;
        let ctx = self.ctx.clone();
        Ok(self.start(|acts| remediation(ctx, after_seconds, Some(of), acts)))
    }

    /// The autoscaler taints and then deletes workers on which, for so many seconds of the world (600
    /// by default), nothing ran but pods of DaemonSets and mirrors; one by one, while there are more
    /// than `least` workers. Not those annotated
    /// `cluster-autoscaler.kubernetes.io/scale-down-disabled=true`.
    pub fn autoscaler(&self, least: usize, unneeded_seconds: f64) -> Actor {
        let ctx = self.ctx.clone();
        self.start(|acts| autoscaler(ctx, least, unneeded_seconds, acts))
    }

    fn start<F>(&self, act: impl FnOnce(watch::Sender<u64>) -> F) -> Actor
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (counter, acts) = watch::channel(0);
        let task = self.ctx.spawn(act(counter));
        Actor { task, acts }
    }
}

async fn gitops(ctx: Arc<Context>, name: String, git: PoolInGit, acts: watch::Sender<u64>) {
    let mut pool = ctx.pools.follow(&name);
    loop {
        let differs = |p: &Option<Arc<MachineConfigPool>>| p.as_ref().is_some_and(|p| git.patch(p).is_some());
        if pool.wait_for(differs).await.is_err() {
            return;
        }
        tokio::time::sleep(ctx.time().of(SELF_HEAL).max(SHORTEST_REACTION)).await;
        // Someone else may have put it back meanwhile.
        let Some(patch) = ctx.pools.get(&name).and_then(|p| git.patch(&p)) else {
            continue;
        };
        match ctx.patch_pool(&name, GITOPS, patch).await {
            Ok(()) => acts.send_modify(|n| *n += 1),
            Err(error) => {
                tracing::debug!(error = format!("{error:#}"), pool = name, "GitOps tries again");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Replaces nodes that have been not Ready for long: by the Node alone, or through the Machine API.
async fn remediation(
    ctx: Arc<Context>,
    after_seconds: f64,
    of: Option<MachineApi>,
    acts: watch::Sender<u64>,
) {
    let time = ctx.time().of(after_seconds).max(SHORTEST_VIGIL);
    let mut nodes = ctx.nodes.changes();
    let mut vigil = Vigil::default();
    loop {
        let unhealthy = workers(&ctx)
            .into_iter()
            .filter(|n| condition_status(n, "Ready") != "True");
        let (due, next) = vigil.look(unhealthy, time);
        let mut kept_off = false;
        for node in &due {
            let name = node.name_any();
            let is_remediated = match of {
                None => node
                    .labels()
                    .get(EXCLUDE_FROM_REMEDIATION)
                    .is_none_or(|v| v != "true"),
                Some(of) => machine_api::is_remediated(&ctx.client, of, &name)
                    .await
                    .unwrap_or(false),
            };
            if !is_remediated {
                kept_off = true;
                continue;
            }
            if let Some(of) = of
                && let Err(error) = machine_api::replace(&ctx.client, of, &name).await
            {
                tracing::debug!(error = format!("{error:#}"), "the Machine is not replaced");
                continue;
            }
            match cloud::destroy(&ctx, &node.name_any()).await {
                Ok(old) => {
                    let cloud = ctx.clone();
                    // Not this actor's task: the cloud goes on when remediation has ended.
                    ctx.spawn(async move {
                        if let Err(error) = cloud::replace(&cloud, &old).await {
                            tracing::warn!(error = format!("{error:#}"), node = old.name, "not replaced");
                        }
                    });
                    acts.send_modify(|n| *n += 1);
                }
                Err(error) => tracing::debug!(error = format!("{error:#}"), "not remediated"),
            }
        }
        // No watch tells when a pause or an annotation goes.
        let next = match of {
            Some(_) if kept_off => Some(Instant::now() + RETRY),
            Some(_) | None => next,
        };
        tokio::select! {
            r = nodes.changed() => if r.is_err() { return },
            () = until(next) => {}
        }
    }
}

async fn autoscaler(ctx: Arc<Context>, least: usize, unneeded_seconds: f64, acts: watch::Sender<u64>) {
    let time = ctx.time().of(unneeded_seconds).max(SHORTEST_VIGIL);
    let (mut nodes, mut pods) = (ctx.nodes.changes(), ctx.pods.changes());
    let mut vigil = Vigil::default();
    loop {
        let all = workers(&ctx);
        let spare = all.len().saturating_sub(least);
        let disabled = |n: &Node| {
            n.annotations()
                .get(SCALE_DOWN_DISABLED)
                .is_some_and(|v| v == "true")
        };
        let unneeded = all
            .into_iter()
            .filter(|n| !disabled(n) && is_empty(&ctx, &n.name_any()));
        let (due, next) = vigil.look(unneeded, time);
        if let Some(node) = due.first().filter(|_| spare > 0) {
            match scale_down(&ctx, &node.name_any()).await {
                Ok(true) => acts.send_modify(|n| *n += 1),
                Ok(false) => {}
                Err(error) => {
                    tracing::debug!(error = format!("{error:#}"), "not scaled down");
                    tokio::time::sleep(RETRY).await;
                }
            }
            continue;
        }
        tokio::select! {
            r = nodes.changed() => if r.is_err() { return },
            r = pods.changed() => if r.is_err() { return },
            () = until(next) => {}
        }
    }
}

/// Says whether the node is gone; if a pod came in time, it stays and loses its taint.
async fn scale_down(ctx: &Context, node: &str) -> Result<bool> {
    let since = Timestamp::now().as_second().to_string();
    let taint = json!({ "key": TO_BE_DELETED, "value": since, "effect": "NoSchedule" });
    ctx.taint(node, AUTOSCALER, TO_BE_DELETED, Some(taint)).await?;
    tokio::time::sleep(ctx.time().of(TAINTED).max(SHORTEST_REACTION)).await;
    let tainted = |n: &Node| {
        let taints = n.spec.as_ref().and_then(|s| s.taints.as_ref());
        taints.into_iter().flatten().any(|t| t.key == TO_BE_DELETED)
    };
    if ctx.nodes.get(node).is_some_and(|n| tainted(&n)) && is_empty(ctx, node) {
        cloud::destroy(ctx, node).await?;
        return Ok(true);
    }
    ctx.taint(node, AUTOSCALER, TO_BE_DELETED, None).await?;
    Ok(false)
}

fn is_empty(ctx: &Context, node: &str) -> bool {
    to_evict(ctx, node).iter().all(|p| is_terminal(p))
}

/// Workers whose machines a cloud made from a template: neither control plane nor Windows.
fn workers(ctx: &Context) -> Vec<Arc<Node>> {
    let is_worker = |n: &Node| {
        let labels = n.labels();
        let of_control_plane = labels.contains_key(MASTER) || labels.contains_key(ARBITER);
        labels.contains_key(WORKER) && !of_control_plane && !is_windows(labels) && ctx.is_ours(n)
    };
    ctx.nodes.all().into_iter().filter(|n| is_worker(n)).collect()
}

/// Since when nodes have been in some state, by uid.
#[derive(Debug, Default)]
struct Vigil(BTreeMap<String, Instant>);

impl Vigil {
    /// Takes in which nodes are so now. Says which have been for `time`, and when the next will have been.
    fn look(
        &mut self,
        nodes: impl Iterator<Item = Arc<Node>>,
        time: Duration,
    ) -> (Vec<Arc<Node>>, Option<Instant>) {
        let now = Instant::now();
        let before = std::mem::take(&mut self.0);
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        for node in nodes {
            let since = before.get(&uid(&*node)).copied().unwrap_or(now);
            self.0.insert(uid(&*node), since);
            let end = since + time;
            if end <= now {
                due.push(node);
            } else {
                next = Some(next.map_or(end, |n| n.min(end)));
            }
        }
        (due, next)
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
