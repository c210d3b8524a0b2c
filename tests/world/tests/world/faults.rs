//! Faults.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use numo_world::{Event, Fault};

use super::{NEW, OLD, SOON, happened, start, stop, workers};

#[tokio::test(flavor = "multi_thread")]
async fn faults_hold_nodes_and_healing_lets_them_go_on() -> Result<()> {
    let mut spec = workers(3);
    spec.pools[0].max_unavailable = Some(IntOrString::Int(3));
    let (cluster, world) = start(spec).await?;
    let name = |n: &str| n.to_owned();
    world.inject(Fault::NeverBack {
        node: name("worker-0"),
    });
    world.inject(Fault::DrainStuck {
        node: name("worker-1"),
    });
    world.inject(Fault::Degraded {
        node: name("worker-2"),
    });
    world.upgrade_to(NEW).await?;
    world
        .until("faults show", SOON, |w| {
            let nodes = w.state().nodes;
            let (zero, one, two) = (&nodes["worker-0"], &nodes["worker-1"], &nodes["worker-2"]);
            !zero.ready
                && zero.rebooting
                && one.unschedulable
                && one.state == "Degraded"
                && two.state == "Degraded"
        })
        .await?;
    assert!(
        !world.is_completed(NEW),
        "a degraded pool blocks the cluster version"
    );
    for node in ["worker-0", "worker-1", "worker-2"] {
        world.heal(node);
    }
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_may_change_names_only_or_nothing_at_all() -> Result<()> {
    let (cluster, world) = start(workers(2)).await?;
    let before = world.state();
    world.inject(Fault::ZeroDiff);
    world.upgrade_to(NEW).await?;
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    let renamed = world.state();
    for (name, node) in &renamed.nodes {
        assert_ne!(node.current, before.nodes[name].current, "{name}");
        assert_eq!(node.boot_id, before.nodes[name].boot_id, "{name}");
        assert!(!happened(&world, name, |e| *e == Event::DrainStarted), "{name}");
        assert!(
            node.last_applied_drain.starts_with("uncordon-"),
            "an uncordon is asked for all the same"
        );
    }
    world
        .until("control plane completes", SOON, |w| w.is_completed(NEW))
        .await?;

    world.heal_cluster();
    world.inject(Fault::EqualRelease);
    let newest = "4.16.6";
    world.upgrade_to(newest).await?;
    world
        .until("control plane completes", SOON, |w| w.is_completed(newest))
        .await?;
    assert!(world.is_updated("worker", newest));
    assert_eq!(
        world.state().nodes["worker-0"].current,
        renamed.nodes["worker-0"].current
    );
    stop(cluster, world).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreconcilable_node_fails_until_healed_and_a_silent_one_is_unknown() -> Result<()> {
    let (cluster, world) = start(workers(2)).await?;
    world.inject(Fault::Unreconcilable {
        node: "worker-0".into(),
    });
    world.inject(Fault::NotReady {
        node: "worker-1".into(),
    });
    world
        .until("it is silent", SOON, |w| !w.state().nodes["worker-1"].ready)
        .await?;
    world.heal("worker-1");
    world
        .until("it is back", SOON, |w| w.state().nodes["worker-1"].ready)
        .await?;
    world.upgrade_to(NEW).await?;
    let failing = |e: &Event| matches!(e, Event::Failing { state, .. } if state == "Unreconcilable");
    world
        .until("it fails", SOON, |w| happened(w, "worker-0", failing))
        .await?;
    assert_eq!(
        world.version_of("worker-1"),
        OLD,
        "a failing node uses up maxUnavailable"
    );
    world.heal("worker-0");
    world
        .until("workers are updated", SOON, |w| w.is_updated("worker", NEW))
        .await?;
    stop(cluster, world).await;
    Ok(())
}
