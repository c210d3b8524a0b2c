//! A small kubelet for all nodes of the world (spec 4.11; the pods' side of it).
//!
//! It runs the commands of pods as processes of this machine, without privileges, and says of them
//! what a kubelet says. May never run a pod of a node that this world did not make. Images are not
//! pulled, volumes not mounted, probes not asked, but for programs that are at hand.

mod env;
mod pod;
mod process;
mod program;
mod server;

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

pub(crate) use process::Containers;
pub(crate) use server::Server;

use crate::cache::uid;
use crate::context::{Context, lock};

/// Starts a life for each pod that was bound to a node of this world.
pub(crate) async fn run(ctx: Arc<Context>, mut bound: mpsc::UnboundedReceiver<Arc<Pod>>) {
    let mut started = HashSet::new();
    while let Some(pod) = bound.recv().await {
        let node = pod
            .spec
            .as_ref()
            .and_then(|s| s.node_name.clone())
            .unwrap_or_default();
        // A machine that joins later sends its pods again.
        let Some(machine) = ctx.machine(&node) else {
            continue;
        };
        if !ctx.nodes.get(&node).is_some_and(|n| ctx.is_ours(&n)) {
            continue;
        }
        if is_terminal(&pod) || !started.insert(uid(&*pod)) {
            continue;
        }
        let life = ctx.spawn(pod::live(ctx.clone(), machine.clone(), pod));
        lock(&machine.tasks).push(life);
    }
}

pub(crate) fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
