//! Pools, control plane and membership.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use numo_cluster::User;
use numo_world::openshift::MachineConfigPool;
use numo_world::{
    Event, Fault, Judgement, McoVersion, Membership, PoolSpec, State, TimeFactor, World, WorldSpec,
};
use serde_json::json;

use super::{NEW, OLD, SOON, happened, patch_node, pause, release, start, stop, workers};

/// The most nodes of a pool that were at work at once.
fn most_in_flight(world: &World, prefix: &str) -> usize {
    let mut state = State::default();
    let mut most = 0;
    for record in world.records() {
        state.step(&record);
        let busy = state
            .nodes
            .iter()
            .filter(|(n, v)| n.starts_with(prefix) && v.current != v.desired)
            .count();
        most = most.max(busy);
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn unpaused_pool_rolls_one_at_a_time_and_ends_updated() -> Result<()> {
    let (cluster, world) = start(workers(6)).await?;
    let boot_ids: Vec<String> = world.state().nodes.values().map(|n| n.boot_id.clone()).collect();

    let began = std::time::Instant::now();
    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    println!("control plane {:?}", began.elapsed());
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    println!(
        "6 workers {:?} at factor {:?}",
        began.elapsed(),
        world.spec().time_factor
    );

    assert_eq!(most_in_flight(&world, "worker-"), 1);
    let state = world.state();
    for (name, node) in &state.nodes {
        assert_eq!(node.kubelet_version, "v1.29.5", "{name}");
        assert!(!boot_ids.contains(&node.boot_id), "{name} did not boot");
        assert!(
            node.ready && !node.unschedulable && node.state == "Done",
            "{name}: {node:?}"
        );
    }
    let order: Vec<String> = world
        .log()
        .into_iter()
        .filter(|e| e.subject.starts_with("worker-") && matches!(e.event, Event::DesiredConfigSet { .. }))
        .map(|e| e.subject)
        .collect();
    assert_eq!(
        order,
        [
            "worker-0", "worker-3", "worker-1", "worker-4", "worker-2", "worker-5"
        ]
    );
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_pool_never_rolls_but_for_the_node_that_is_told_to() -> Result<()> {
    let (cluster, world) = start(workers(3)).await?;
    let client = cluster.client(User::Person).await?;
    pause(&client, "worker", true).await?;
    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;

    release(&client, &world, "worker-1", "worker").await?;
    let at_rest = |w: &World| w.version_of("worker-1") == NEW && !w.state().nodes["worker-1"].unschedulable;
    world.until("worker-1 is updated", SOON, at_rest).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;

    assert_eq!(world.version_of("worker-0"), OLD);
    assert_eq!(world.version_of("worker-2"), OLD);
    let released = world
        .log()
        .into_iter()
        .find(|e| e.subject == "worker-1" && matches!(e.event, Event::DesiredConfigSet { .. }));
    assert!(
        matches!(released.unwrap().event, Event::DesiredConfigSet { by, .. } if by == "kubernetes-admin")
    );
    let pool = world.state().pools["worker"].clone();
    assert_eq!((pool.paused, pool.machines, pool.updated_machines), (true, 3, 1));
    let breaches = world
        .judge(&Judgement {
            held: vec!["worker".into()],
            restored: false,
            ..Judgement::default()
        })
        .await?;
    assert_eq!(breaches, []);
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn node_in_two_custom_pools_is_not_updated() -> Result<()> {
    let spec = WorldSpec {
        pools: vec![
            PoolSpec::new("worker", 1),
            PoolSpec::new("infra", 2),
            PoolSpec::new("gpu", 1),
        ],
        mco: McoVersion::V4_20,
        time_factor: TimeFactor(0.002),
        ..WorldSpec::default()
    };
    let (cluster, world) = start(spec).await?;
    let label = json!({ "metadata": { "labels": { "node-role.kubernetes.io/gpu": "" } } });
    patch_node(&cluster.client(User::Person).await?, "infra-1", label).await?;
    world.upgrade_to(NEW).await?;
    let others = |w: &World| {
        ["infra-0", "gpu-0", "worker-0"]
            .iter()
            .all(|n| w.version_of(n) == NEW)
    };
    world.until("the others are updated", SOON, others).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;

    assert_eq!(world.version_of("infra-1"), OLD);
    assert_eq!(
        world.membership_of("infra-1"),
        Membership::TwoCustom(vec!["gpu".into(), "infra".into()])
    );
    assert!(
        world
            .log()
            .iter()
            .any(|e| e.subject == "infra-1" && matches!(e.event, Event::NodeInTwoPools { .. }))
    );
    assert_eq!(world.state().pools["infra"].machines, 1);

    // In mid-update too: it comes back from its reboot, and there it stays.
    let client = cluster.client(User::Person).await?;
    world.rerender("gpu").await?;
    world
        .until("gpu-0 reboots", SOON, |w| w.state().nodes["gpu-0"].rebooting)
        .await?;
    let label =
        |value: Option<&str>| json!({ "metadata": { "labels": { "node-role.kubernetes.io/infra": value } } });
    patch_node(&client, "gpu-0", label(Some(""))).await?;
    let back = |w: &World| w.state().nodes["gpu-0"].ready && !w.state().nodes["gpu-0"].rebooting;
    world.until("gpu-0 is back", SOON, back).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stuck = world.state().nodes["gpu-0"].clone();
    assert_eq!((stuck.state.as_str(), stuck.unschedulable), ("Working", true));
    patch_node(&client, "gpu-0", label(None)).await?;
    let done = |w: &World| w.state().nodes["gpu-0"].state == "Done" && w.is_updated("gpu", NEW);
    world.until("gpu-0 goes on", SOON, done).await?;
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_go_and_move_without_a_reboot() -> Result<()> {
    let spec = WorldSpec {
        canary: true,
        ..workers(2)
    };
    let (cluster, world) = start(spec).await?;
    let client = cluster.client(User::Person).await?;
    let late = world.add_node("worker").await?;
    world
        .until("the late one counts", SOON, |w| {
            w.state().pools["worker"].machines == 3
        })
        .await?;
    world
        .until("and is ready", SOON, |w| w.is_updated("worker", OLD))
        .await?;
    world.recreate_node("worker-0").await?;
    world.delete_node(&late).await?;
    world
        .until("two are left", SOON, |w| {
            w.state().pools["worker"].updated_machines == 2 && w.is_updated("worker", OLD)
        })
        .await?;

    // The canary's content is that of worker: a node that falls in must not reboot.
    let boot_id = world.state().nodes["worker-1"].boot_id.clone();
    let label = json!({ "metadata": { "labels": { "isCanary": "" } } });
    patch_node(&client, "worker-1", label).await?;
    let moved = |w: &World| {
        let node = &w.state().nodes["worker-1"];
        node.current.starts_with("rendered-canary-") && node.state == "Done"
    };
    world.until("it runs the canary's config", SOON, moved).await?;
    assert_eq!(world.state().nodes["worker-1"].boot_id, boot_id);
    assert!(
        !world
            .log()
            .iter()
            .any(|e| e.subject == "worker-1" && e.event == Event::DrainStarted)
    );
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_selectors_are_put_back_up_to_4_21() -> Result<()> {
    for (mco, reverted) in [(McoVersion::V4_18, true), (McoVersion::V4_22, false)] {
        let (cluster, world) = start(WorldSpec { mco, ..workers(1) }).await?;
        let pools: Api<MachineConfigPool> = Api::all(cluster.client(User::Person).await?);
        let selector = json!({ "matchExpressions": [{ "key": "mine", "operator": "DoesNotExist" }] });
        let patch = json!({ "spec": { "nodeSelector": selector } });
        pools
            .patch("worker", &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = pools.get("worker").await?.spec.node_selector.unwrap();
        assert_eq!(
            now.match_expressions.is_none_or(|e| e.is_empty()),
            reverted,
            "{mco:?}"
        );
        stop(cluster, world).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_joiner_boots_old_until_one_node_is_updated() -> Result<()> {
    let (cluster, world) = start(workers(2)).await?;
    let client = cluster.client(User::Person).await?;
    pause(&client, "worker", true).await?;
    world.upgrade_to(NEW).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    let early = world.add_node("worker").await?;
    release(&client, &world, "worker-0", "worker").await?;
    world
        .until("one is updated", SOON, |w| {
            w.state().pools["worker"].updated_machines == 1
        })
        .await?;
    let late = world.add_node("worker").await?;
    world
        .until("both joined", SOON, |w| {
            w.state().nodes[&late].ready && w.state().nodes[&early].ready
        })
        .await?;
    assert_eq!(world.version_of(&early), OLD);
    assert_eq!(world.version_of(&late), NEW);
    assert_eq!(
        world.node(&late).unwrap().labels()["topology.kubernetes.io/zone"],
        "zone-b"
    );
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_machine_config_rolls_a_pool_at_the_same_version() -> Result<()> {
    let (cluster, world) = start(workers(1)).await?;
    let before = world.state().nodes["worker-0"].clone();
    world.inject(Fault::SlowReboot {
        node: "worker-0".into(),
        factor: 3.0,
    });
    world.rerender("worker").await?;
    let rolled = |w: &World| {
        let node = &w.state().nodes["worker-0"];
        node.current != before.current && node.state == "Done"
    };
    world.until("it runs the new config", SOON, rolled).await?;
    assert_eq!(world.version_of("worker-0"), OLD);
    assert_ne!(world.state().nodes["worker-0"].boot_id, before.boot_id);
    assert!(!happened(&world, "master-0", |e| *e == Event::DrainStarted));
    stop(cluster, world).await;
    Ok(())
}

/// `cargo test -p numo-world -- --ignored --nocapture two_hundred`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn two_hundred_nodes_roll() -> Result<()> {
    let mut spec = workers(200);
    spec.pools[0].max_unavailable = Some(IntOrString::Int(20));
    let (cluster, world) = start(spec).await?;
    let began = std::time::Instant::now();
    world.upgrade_to(NEW).await?;
    world
        .until("workers are updated", SOON * 10, |w| w.is_updated("worker", NEW))
        .await?;
    println!(
        "200 workers {:?}, most in flight {}",
        began.elapsed(),
        most_in_flight(&world, "worker-")
    );
    let began = std::time::Instant::now();
    let breaches = world
        .judge(&Judgement {
            max_in_flight: 20,
            restored: false,
            ..Judgement::default()
        })
        .await?;
    println!(
        "judged {} records in {:?}: {breaches:.1?}",
        world.records().len(),
        began.elapsed()
    );
    stop(cluster, world).await;
    Ok(())
}
