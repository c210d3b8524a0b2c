//! The world against a real control plane: does it behave as OpenShift does?
//!
//! `RUST_LOG=numo_world=debug cargo test -p numo-world -- --nocapture` tells what its controllers do.

#![allow(clippy::unwrap_used, reason = "tests")]

mod actors;
mod faults;
mod judge;
mod kubelet;
mod pools;
mod topologies;
mod versions;

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use numo_cluster::{Cluster, User};
use numo_world::openshift::{DESIRED_CONFIG, MachineConfigPool};
use numo_world::{Event, PoolSpec, TimeFactor, World, WorldSpec};
use serde_json::{Value, json};

pub(crate) const OLD: &str = "4.16.4";
pub(crate) const NEW: &str = "4.16.5";
/// Bounds what only a broken world would wait for.
pub(crate) const SOON: Duration = Duration::from_mins(1);

pub(crate) async fn start(spec: WorldSpec) -> Result<(Cluster, World)> {
    let _ = tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::builder()
                .parse_lossy(std::env::var("RUST_LOG").unwrap_or_else(|_| "numo_world=warn".into())),
        )
        .with_test_writer()
        .try_init();
    let began = std::time::Instant::now();
    let cluster = Cluster::prepared("a world", async |cluster| {
        World::install_kinds(&cluster.client(User::World).await?).await
    })
    .await?;
    let cluster_ready = began.elapsed();
    let world = World::create(cluster.client(User::World).await?, spec).await?;
    println!("cluster {cluster_ready:?}, with world {:?}", began.elapsed());
    Ok((cluster, world))
}

pub(crate) async fn stop(cluster: Cluster, world: World) {
    world.stop().await;
    cluster.give_back().await;
}

pub(crate) fn workers(n: usize) -> WorldSpec {
    WorldSpec {
        pools: vec![PoolSpec::new("worker", n)],
        time_factor: TimeFactor(0.002),
        ..WorldSpec::default()
    }
}

pub(crate) async fn pause(client: &Client, pool: &str, paused: bool) -> Result<()> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let patch = json!({ "spec": { "paused": paused } });
    pools
        .patch(pool, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

pub(crate) async fn patch_node(client: &Client, node: &str, patch: Value) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes
        .patch(node, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

/// What a person does to let one node of a paused pool update.
pub(crate) async fn release(client: &Client, world: &World, node: &str, pool: &str) -> Result<()> {
    let config = world.state().pools[pool].config.clone();
    patch_node(
        client,
        node,
        json!({ "metadata": { "annotations": { DESIRED_CONFIG: config } } }),
    )
    .await
}

pub(crate) fn happened(world: &World, subject: &str, is: impl Fn(&Event) -> bool) -> bool {
    world.log().iter().any(|e| e.subject == subject && is(&e.event))
}
