//! Shapes of clusters.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_pod_running;
use kube::{Api, ResourceExt};
use numo_cluster::User;
use numo_world::openshift::{
    ARBITER, Infrastructure, MASTER, MCO_PREFIX, MachineConfig, MachineConfigPool, MachineOSConfig, WORKER,
};
use numo_world::{Event, Judgement, Membership, PoolSpec, World, WorldSpec};
use serde_json::json;

use super::{NEW, OLD, SOON, happened, start, stop, workers};

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
    taints.into_iter().map(|t| t.key).collect()
}

fn pool(world: &World, node: &str) -> Membership {
    world.membership_of(node)
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_masters_are_workers_and_windows_is_left_alone() -> Result<()> {
    let spec = WorldSpec {
        masters: 3,
        compact: true,
        windows: 1,
        pools: vec![
            PoolSpec::new("worker", 0),
            PoolSpec::new("infra", 1),
            PoolSpec::new("empty", 0),
        ],
        ..workers(0)
    };
    let (cluster, world) = start(spec).await?;
    let client = cluster.client(User::Person).await?;
    let master = world.node("master-0").unwrap();
    assert!(master.labels().contains_key(WORKER) && master.labels().contains_key(MASTER));
    assert_eq!(taints(&master), Vec::<String>::new());
    assert_eq!(pool(&world, "master-0"), Membership::Pool("master".into()));
    assert_eq!(world.state().pools["worker"].machines, 0);

    let windows = world.node("windows-0").unwrap();
    assert!(windows.labels().contains_key(WORKER));
    assert!(!windows.annotations().keys().any(|k| k.starts_with(MCO_PREFIX)));
    assert_eq!(taints(&windows), ["os"]);
    assert_eq!(pool(&world, "windows-0"), Membership::None);
    let before = world.state().nodes["windows-0"].clone();

    world.layer("infra").await?;
    let layered: Api<MachineOSConfig> = Api::all(client.clone());
    assert_eq!(layered.get("infra").await?.spec.machine_config_pool.name, "infra");

    // Nobody but the garbage collector of Kubernetes removes them.
    let rendered = world.state().pools["empty"].config.clone();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.delete("empty", &DeleteParams::default()).await?;

    world.upgrade_to(NEW).await?;
    let all = |w: &World| w.is_completed(NEW) && w.is_updated("infra", NEW);
    world.until("all are updated", SOON, all).await?;
    assert!(happened(&world, "master-2", |e| *e == Event::Drained));
    assert_eq!(world.state().nodes["windows-0"], before, "nobody wrote on it");
    let expected = Judgement {
        targets: vec!["infra".into()],
        ungated: vec!["infra".into()],
        ..Judgement::default()
    };
    assert_eq!(world.judge(&expected).await?, []);

    let configs: Api<MachineConfig> = Api::all(client);
    let gone = |c: Option<&MachineConfig>| c.is_none();
    tokio::time::timeout(SOON * 2, await_condition(configs, &rendered, gone)).await??;
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_arbiter_is_of_the_control_plane() -> Result<()> {
    let spec = WorldSpec {
        masters: 2,
        topology: "HighlyAvailableArbiter".into(),
        ..workers(1)
    };
    let (cluster, world) = start(spec).await?;
    let client = cluster.client(User::Person).await?;
    let arbiter = world.node("arbiter-0").unwrap();
    assert!(arbiter.labels().contains_key(ARBITER) && !arbiter.labels().contains_key(WORKER));
    assert_eq!(taints(&arbiter), [ARBITER]);
    assert_eq!(pool(&world, "arbiter-0"), Membership::Pool("arbiter".into()));
    let infrastructure = Api::<Infrastructure>::all(client).get("cluster").await?;
    assert_eq!(
        infrastructure.status.unwrap().control_plane_topology,
        "HighlyAvailableArbiter"
    );

    world.pause_as("someone", "arbiter", true).await?;
    world.upgrade_to(NEW).await?;
    world
        .until("masters are updated", SOON, |w| w.is_updated("master", NEW))
        .await?;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(!world.is_completed(NEW), "a paused arbiter stops the update");
    world.pause_as("someone", "arbiter", false).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    assert_eq!(world.version_of("arbiter-0"), NEW);
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_is_never_drained() -> Result<()> {
    let spec = WorldSpec {
        topology: "SingleReplica".into(),
        ..workers(0)
    };
    let (cluster, world) = start(spec).await?;
    let client = cluster.client(User::Person).await?;
    assert_eq!(pool(&world, "master-0"), Membership::Pool("master".into()));
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let guarded = serde_json::from_value(json!({
        "metadata": { "name": "guarded", "labels": { "app": "guarded" } },
        "spec": { "containers": [{ "name": "c", "image": "any" }] },
    }))?;
    pods.create(&PostParams::default(), &guarded).await?;
    let budget = serde_json::from_value(json!({
        "metadata": { "name": "guard" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
    }))?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "default");
    budgets.create(&PostParams::default(), &budget).await?;
    tokio::time::timeout(SOON, await_condition(pods.clone(), "guarded", is_pod_running())).await??;

    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    let disturbed = |e: &Event| matches!(e, Event::DrainStarted | Event::Cordoned { .. });
    assert!(!happened(&world, "master-0", disturbed));
    assert!(happened(&world, "master-0", |e| *e == Event::Rebooting));
    assert_eq!(pods.list(&ListParams::default()).await?.items.len(), 1);
    stop(cluster, world).await;
    Ok(())
}

/// Hosted control plane, and a control-plane-only update while the workers' pool is paused.
#[tokio::test(flavor = "multi_thread")]
async fn an_external_control_plane_goes_two_minors_while_workers_wait() -> Result<()> {
    let mut spec = WorldSpec {
        masters: 0,
        topology: "External".into(),
        mco: numo_world::McoVersion::V4_16,
        ..workers(2)
    };
    spec.pools[0].paused = true;
    let (cluster, world) = start(spec).await?;
    assert!(world.pool("master").is_none());
    assert_eq!(world.nodes().len(), 2);

    tokio::time::timeout(SOON, world.upgrade_through(&["4.17.0", "4.18.0"])).await??;
    let history: Vec<String> = world.state().version.history.into_iter().map(|h| h.0).collect();
    assert_eq!(history, ["4.18.0", "4.17.0", OLD]);
    assert_eq!(world.version_of("worker-0"), OLD);
    let skew = super::versions::upgradeable("True", "KubeletSkewPresent");
    super::versions::until_operator(&cluster, skew).await?;

    world.pause_as("other-operator", "worker", false).await?;
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", "4.18.0"))
        .await?;
    for node in ["worker-0", "worker-1"] {
        let reboots = world
            .log()
            .iter()
            .filter(|e| e.subject == node && e.event == Event::Rebooting)
            .count();
        assert_eq!(reboots, 1, "{node} skips 4.17");
    }
    assert!(happened(
        &world,
        "worker",
        |e| matches!(e, Event::PoolUnpaused { by } if by == "other-operator")
    ));
    let well = super::versions::upgradeable("True", "AsExpected");
    super::versions::until_operator(&cluster, well).await?;
    stop(cluster, world).await;
    Ok(())
}
