//! Simulates the machine-config controller's drain controller for one node (spec 4.6, Appendix A
//! `drain`): cordons and evicts, or uncordons, when the daemon asks, and acknowledges.
//!
//! May not touch a node that nothing was asked for. Does not look at whether the pool is paused.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::EvictParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::context::Context;
use crate::daemon::{ANOTHER_LOOK, in_two_pools};
use crate::fault::Fault;
use crate::machine::Machine;
use crate::openshift::{
    DESIRED_DRAIN, LAST_APPLIED_DRAIN, MACHINE_CONFIG_CONTROLLER, annotation, is_unschedulable,
};

/// A try of a drain needs at least this long for real: requests do not scale with time.
const SHORTEST_TRY: Duration = Duration::from_secs(2);
/// Evictions under way at once on one node.
const EVICTIONS: usize = 10;

/// Serves the requests of one node until its machine is destroyed.
pub(crate) async fn run(ctx: Arc<Context>, machine: Arc<Machine>) {
    let mut node = ctx.nodes.follow(&machine.name);
    loop {
        let asks = |n: &Option<Arc<Node>>| n.as_ref().is_some_and(|n| request(n).is_some());
        let Ok(seen) = node.wait_for(asks).await.map(|n| n.clone()) else {
            return;
        };
        let Some(seen) = seen else { continue };
        ctx.pass(ctx.timings().drain_sync).await;
        if ctx.spec.mco.stops_in_two_pools() && in_two_pools(&ctx, &seen) {
            tokio::time::sleep(ANOTHER_LOOK).await;
            continue;
        }
        if let Err(error) = serve(&ctx, &seen).await {
            tracing::debug!(
                error = format!("{error:#}"),
                node = machine.name,
                "drain request is tried again"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn request(node: &Node) -> Option<&str> {
    let desired = annotation(node, DESIRED_DRAIN);
    (!desired.is_empty() && desired != annotation(node, LAST_APPLIED_DRAIN)).then_some(desired)
}

async fn serve(ctx: &Context, node: &Node) -> Result<()> {
    let (name, Some(request)) = (node.name_any(), request(node)) else {
        return Ok(());
    };
    let cordon = !request.starts_with("uncordon-");
    ctx.patch_node(
        &name,
        MACHINE_CONFIG_CONTROLLER,
        json!({ "spec": { "unschedulable": cordon } }),
    )
    .await?;
    if cordon {
        if !drain(ctx, &name).await {
            ctx.pass(ctx.timings().drain_retry).await;
            return Ok(());
        }
        // Someone may have uncordoned it meanwhile: then it is not drained.
        if !ctx.nodes.get(&name).is_some_and(|n| is_unschedulable(&n)) {
            return Ok(());
        }
    }
    ctx.annotate(
        &name,
        MACHINE_CONFIG_CONTROLLER,
        json!({ LAST_APPLIED_DRAIN: request }),
    )
    .await
}

/// One try: evicts all, waits until they are gone. Says whether they are.
async fn drain(ctx: &Context, node: &str) -> bool {
    let stuck = |f: &Fault| matches!(f, Fault::DrainStuck { node: n } if n == node);
    if ctx.faults.any(stuck) {
        ctx.faults.until_none(stuck).await;
    }
    let time = ctx.time().of(ctx.timings().drain_try).max(SHORTEST_TRY);
    let evictions = stream::iter(to_evict(ctx, node)).for_each_concurrent(EVICTIONS, |pod| async move {
        if let Err(error) = evict(ctx, &pod).await {
            tracing::debug!(%error, pod = pod.name_any(), node, "not evicted");
        }
    });
    let gone = async {
        evictions.await;
        ctx.pods.until(|_| to_evict(ctx, node).is_empty()).await;
    };
    tokio::time::timeout(time, gone).await.is_ok()
}

/// Repeated by the client itself while a budget refuses it, until the try is over.
async fn evict(ctx: &Context, pod: &Pod) -> kube::Result<()> {
    let api: Api<Pod> = Api::namespaced(ctx.client.clone(), &pod.namespace().unwrap_or_default());
    match api.evict(&pod.name_any(), &EvictParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// All pods of a node but those of DaemonSets and mirrors of static ones.
pub(crate) fn to_evict(ctx: &Context, node: &str) -> Vec<Arc<Pod>> {
    let on_node = |p: &Pod| p.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node);
    let stays = |p: &Pod| {
        p.owner_references().iter().any(|o| o.kind == "DaemonSet")
            || p.annotations().contains_key("kubernetes.io/config.mirror")
    };
    ctx.pods
        .all()
        .into_iter()
        .filter(|p| on_node(p) && !stays(p))
        .collect()
}
