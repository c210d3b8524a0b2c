//! Others who act on the cluster.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_pod_running;
use kube::{Api, ResourceExt};
use numo_cluster::User;
use numo_world::openshift::{EXCLUDE_FROM_REMEDIATION, MachineConfigPool, SCALE_DOWN_DISABLED};
use numo_world::{Event, Fault, McoVersion, PoolInGit, World, WorldSpec};
use serde_json::json;

use super::{SOON, happened, patch_node, start, stop, workers};

/// Long enough for someone who must not act to have acted.
const A_WHILE: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn gitops_puts_a_pool_back_until_it_ends() -> Result<()> {
    let spec = WorldSpec {
        mco: McoVersion::V4_22,
        ..workers(1)
    };
    let (cluster, world) = start(spec).await?;
    let pools: Api<MachineConfigPool> = Api::all(cluster.client(User::Person).await?);
    let selector = world.pool("worker").unwrap().spec.node_selector.clone();
    let git = PoolInGit {
        paused: Some(false),
        node_selector: selector.clone(),
    };
    let gitops = world.gitops("worker", git);

    world.pause_as("sriov-operator", "worker", true).await?;
    tokio::time::timeout(SOON, gitops.until_acts(1)).await?;
    let by = |who: &'static str| move |e: &Event| matches!(e, Event::PoolUnpaused { by } if by == who);
    world
        .until("it is seen", SOON, |w| {
            happened(w, "worker", by("argocd-controller"))
        })
        .await?;
    let mine = json!({ "spec": { "nodeSelector": {
        "matchLabels": { "mine": "" },
        "matchExpressions": [{ "key": "mine", "operator": "Exists" }],
    }}});
    pools
        .patch("worker", &PatchParams::default(), &Patch::Merge(&mine))
        .await?;
    tokio::time::timeout(SOON, gitops.until_acts(2)).await?;
    let now = pools.get("worker").await?.spec;
    assert_eq!((now.node_selector, now.paused), (selector, false));

    drop(gitops);
    world.pause_as("sriov-operator", "worker", true).await?;
    tokio::time::sleep(A_WHILE).await;
    let pool = pools.get("worker").await?;
    assert!(pool.spec.paused, "who has ended reverts nothing");
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn remediation_replaces_who_is_silent_unless_excluded() -> Result<()> {
    let (cluster, world) = start(workers(3)).await?;
    let client = cluster.client(User::Person).await?;
    let exclude =
        |value: Option<&str>| json!({ "metadata": { "labels": { EXCLUDE_FROM_REMEDIATION: value } } });
    patch_node(&client, "worker-1", exclude(Some("true"))).await?;
    let before = world.state().nodes;
    let renewed = |w: &World, node: &str| {
        w.state()
            .nodes
            .get(node)
            .is_some_and(|n| n.uid != before[node].uid && n.ready)
    };

    let remediation = world.remediation(300.0);
    for node in ["worker-0", "worker-1"] {
        world.inject(Fault::NotReady { node: node.into() });
    }
    world
        .until("the first is replaced", SOON, |w| renewed(w, "worker-0"))
        .await?;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(remediation.acts(), 1);
    let (old, new) = (&before["worker-0"], &world.state().nodes["worker-0"]);
    assert_eq!((&new.labels, &new.current), (&old.labels, &old.current));
    let excluded = &world.state().nodes["worker-1"];
    assert!(excluded.uid == before["worker-1"].uid && !excluded.ready);

    patch_node(&client, "worker-1", exclude(None)).await?;
    world
        .until("so is the other", SOON, |w| renewed(w, "worker-1"))
        .await?;
    assert_eq!(world.state().nodes["worker-2"].uid, before["worker-2"].uid);
    assert_eq!(remediation.acts(), 2);
    drop(remediation);

    // Not an actor, but it wants no cluster of its own.
    an_hour_ahead(&world, "worker-2").await?;
    stop(cluster, world).await;
    Ok(())
}

/// What a kubelet whose clock is off writes.
async fn an_hour_ahead(world: &World, node: &str) -> Result<()> {
    let is_ahead = |time: Timestamp| time.duration_since(Timestamp::now()) > SignedDuration::from_mins(50);
    world.inject(Fault::ClockOff {
        node: node.into(),
        seconds: 3600,
    });
    let beats_ahead = |w: &World| {
        let status = w.node(node).and_then(|n| n.status.clone()).unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.into_iter().find(|c| c.type_ == "Ready");
        ready.is_some_and(|c| c.last_heartbeat_time.is_some_and(|t| is_ahead(t.0)))
    };
    world.until("its heartbeat is ahead", SOON, beats_ahead).await?;
    let leases: Api<Lease> = Api::namespaced(world.client().clone(), "kube-node-lease");
    let renews_ahead = |l: Option<&Lease>| {
        let renewed = l.and_then(|l| l.spec.as_ref()?.renew_time.clone());
        renewed.is_some_and(|t| is_ahead(t.0))
    };
    tokio::time::timeout(SOON, await_condition(leases, node, renews_ahead)).await??;
    assert!(world.state().nodes[node].ready);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_autoscaler_deletes_empty_workers_down_to_a_minimum() -> Result<()> {
    let (cluster, world) = start(workers(5)).await?;
    let client = cluster.client(User::Person).await?;
    let disabled = json!({ "metadata": { "annotations": { SCALE_DOWN_DISABLED: "true" } } });
    patch_node(&client, "worker-0", disabled).await?;
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "busy" },
        "spec": { "nodeName": "worker-1", "containers": [{ "name": "c", "image": "any" }] },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    tokio::time::timeout(SOON, await_condition(pods, "busy", is_pod_running())).await??;

    let autoscaler = world.autoscaler(3, 600.0);
    tokio::time::timeout(SOON, autoscaler.until_acts(2)).await?;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(autoscaler.acts(), 2, "three are left");
    drop(autoscaler);
    let autoscaler = world.autoscaler(0, 600.0);
    tokio::time::timeout(SOON, autoscaler.until_acts(1)).await?;
    tokio::time::sleep(A_WHILE).await;
    let left: Vec<String> = world.nodes().iter().map(|n| n.name_any()).collect();
    assert_eq!(left, ["master-0", "worker-0", "worker-1"]);
    for node in world.nodes() {
        let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
        assert!(!taints.iter().any(|t| t.key.starts_with("ToBeDeleted")));
    }
    stop(cluster, world).await;
    Ok(())
}
