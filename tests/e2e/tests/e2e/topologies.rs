//! Clusters that are not three masters and some workers: whose nodes are whose, and what is refused without one
//! write to nodes and pools.

use anyhow::Result;
use numo_e2e::Stage;
use numo_world::{Event, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    NEW, apply, canary, finish, judgement, quick, released, released_after_a_while, run_of, set, target,
    with_canary, workers,
};

/// What a pool must never be asked for where none of its nodes may change: the strategies, and `hold: Always`.
fn every_way() -> [(&'static str, Value); 3] {
    let always = json!({"trigger": "AnyConfig", "hold": "Always"});
    [
        ("plain", json!({})),
        ("by-canary", canary()),
        ("always-held", always),
    ]
}

/// What numo wrote to nodes and pools so far.
fn writes(stage: &Stage) -> Result<Vec<String>> {
    let requests = stage.requests()?;
    let writes = requests.iter().filter(|request| {
        request.is_write() && ["nodes", "machineconfigpools"].contains(&request.resource.as_str())
    });
    Ok(writes
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect())
}

/// A run over these pools is refused for this reason, says so, stays refused while the cluster is upgraded, and
/// not one node or pool is written.
async fn refused(
    stage: &Stage,
    name: &str,
    pools: &[&str],
    spec: Value,
    reason: &str,
    words: &[&str],
) -> Result<()> {
    let mut run = run_of(&["quick"], json!({"mutexTargets": [{"name": name}]}));
    if let (Some(all), Some(more)) = (run["spec"].as_object_mut(), spec.as_object()) {
        all.extend(more.clone());
    }
    run["metadata"]["name"] = json!(name);
    apply(stage, &[quick(), target(name, pools), run]).await?;
    for round in 0..2 {
        let message = stage
            .until(&format!("{name} is refused: {reason}"), 90, || async {
                let run = stage.run(name).await?;
                let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
                Ok((ready.reason.as_deref() == Some(reason)).then(|| ready.message.unwrap_or_default()))
            })
            .await?;
        for word in words {
            assert!(message.contains(word), "{name}: no {word} in: {message}");
        }
        if round == 0 {
            stage.world.upgrade_to(NEW).await?;
            crate::seen(stage, "the control plane is done", |w| w.is_completed(NEW)).await?;
        }
    }
    let run = stage.run(name).await?;
    assert!(run.metadata.finalizers.is_none(), "{:?}", run.metadata.finalizers);
    assert!(stage.changes().await?.is_empty());
    assert_eq!(writes(stage)?, Vec::<String>::new(), "{name}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_node_has_no_pool_of_workers_to_upgrade() -> Result<()> {
    let world = WorldSpec {
        masters: 1,
        topology: "SingleReplica".to_owned(),
        ..with_canary(workers(0))
    };
    let stage = set(world, Vec::new()).await?;
    for (name, spec) in every_way() {
        refused(&stage, name, &["worker"], spec, "NoNodes", &["primary pool"]).await?;
    }
    // The cluster upgrades itself, as it would without numo.
    stage.upgraded("master", NEW).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_control_plane_is_refused() -> Result<()> {
    let world = WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        ..with_canary(workers(2))
    };
    let stage = set(world, Vec::new()).await?;
    let words = ["status.controlPlaneTopology", "is External"];
    for (name, spec) in every_way() {
        refused(&stage, name, &["worker"], spec, "ExternalControlPlane", &words).await?;
    }
    stage.strike().await
}

/// A hosted cluster has no MachineConfigPool at all; that is no missing pool.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_hosted_control_plane_without_any_pool_is_refused_as_hosted() -> Result<()> {
    let world = WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        ..workers(1)
    };
    let stage = set(world, Vec::new()).await?;
    let pools: kube::Api<numo_world::openshift::MachineConfigPool> = kube::Api::all(stage.client.clone());
    pools
        .delete("worker", &kube::api::DeleteParams::default())
        .await?;
    crate::gone(&stage, &pools, "worker").await?;
    let words = ["status.controlPlaneTopology", "is External"];
    for (name, spec) in every_way() {
        apply(&stage, &[quick(), target("workers", &["worker"])]).await?;
        let mut run = run_of(&["quick"], spec);
        run["metadata"]["name"] = json!(name);
        apply(&stage, &[run]).await?;
        let why = stage
            .condition(name, "Ready", "False", "ExternalControlPlane")
            .await?;
        for word in words {
            assert!(why.contains(word), "{name}: no {word} in: {why}");
        }
        let run = stage.run(name).await?;
        assert!(run.metadata.finalizers.is_none(), "{:?}", run.metadata.finalizers);
    }
    assert_eq!(writes(&stage)?, Vec::<String>::new());
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arbiter_is_no_worker() -> Result<()> {
    let world = WorldSpec {
        masters: 2,
        topology: "HighlyAvailableArbiter".to_owned(),
        ..workers(0)
    };
    let stage = set(world, Vec::new()).await?;
    let words = [
        "spec.machineConfigPools",
        "found arbiter",
        "wanted a pool of workers",
    ];
    refused(
        &stage,
        "arbiter",
        &["arbiter"],
        json!({}),
        "ControlPlanePool",
        &words,
    )
    .await?;
    stage.strike().await
}

/// A MachineOSConfig refuses its pool with both strategies before any of its nodes runs its image.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_image_is_built_on_the_cluster_is_refused() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    stage.world.layer("worker").await?;
    let words = ["MachineOSConfig", "worker", "cannot steer"];
    let rolls = json!({"onRefusal": "Roll"});
    refused(&stage, "layered", &["worker"], rolls, "LayeredPool", &words).await?;
    let canary = json!({"canary": {"name": "canary"}, "onRefusal": "Roll"});
    refused(
        &stage,
        "layered-canary",
        &["worker"],
        canary,
        "LayeredPool",
        &words,
    )
    .await?;
    stage.strike().await
}

/// Masters that take pods carry the worker role and are no members of the pool `worker`, whatever the strategy.
async fn compact(world: WorldSpec, spec: Value) -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        compact: true,
        windows: 1,
        ..world
    };
    let stage = set(world, Vec::new()).await?;
    crate::prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.upgraded("master", NEW).await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-1"]);
    assert_eq!(
        stage.changes().await?.len(),
        2,
        "no master and no Windows node has a turn"
    );
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    let text = stage.say(&["status"]).await?;
    assert!(text.contains("2/2"), "{text}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_that_take_pods_and_windows_nodes_are_no_workers() -> Result<()> {
    compact(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn masters_that_take_pods_and_windows_nodes_stay_out_of_the_canary() -> Result<()> {
    compact(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

/// Nodes of a pool that is no target are the MCO's: numo gates the workers and leaves the others alone.
async fn infra_beside(canary: bool) -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        canary,
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let spec = if canary {
        json!({"canary": {"name": "canary"}})
    } else {
        json!({})
    };
    crate::prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    for entry in stage.world.log() {
        if let Event::DesiredConfigSet { by, .. } = &entry.event {
            let gated = entry.subject.starts_with("worker");
            assert!(gated || by != "numo", "{} was let go by {by}", entry.subject);
        }
    }
    let touched: Vec<String> = writes(&stage)?
        .into_iter()
        .filter(|write| write.contains("infra"))
        .collect();
    assert!(touched.is_empty(), "{touched:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_no_target_is_left_to_the_mco() -> Result<()> {
    infra_beside(false).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_that_is_no_target_stays_out_of_the_canary() -> Result<()> {
    infra_beside(true).await
}

/// A target that selects nobody of its own says so and never lets anyone go.
#[tokio::test(flavor = "multi_thread")]
async fn three_masters_that_are_all_the_workers_there_are() -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        compact: true,
        ..with_canary(workers(0))
    };
    let stage = set(world, Vec::new()).await?;
    for (name, spec) in every_way() {
        refused(&stage, name, &["worker"], spec, "NoNodes", &["primary pool"]).await?;
    }
    assert!(released_after_a_while(&stage).await.is_empty());
    stage.strike().await
}
