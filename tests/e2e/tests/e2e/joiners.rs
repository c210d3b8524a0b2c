//! Nodes that join: at the new version, after the run, straight into a custom pool; and what a node says of its
//! own version.

use anyhow::Result;
use numo_api::{
    RunResult, Step,
    marks::{self, openshift},
};
use numo_world::{Event, McoVersion, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, OLD, apply, canary, condition, finish, job, judgement, pool, prepare, quick, released, rule,
    rule_began, run_of, seen, set, target, with, with_canary, workers,
};

/// A machine that boots what its pool renders by now has nothing to do: no rule is asked of it.
async fn up_to_date(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    gate.open("worker-0")?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Done).await?;
    seen(&stage, "the rule of worker-1 runs", |w| {
        rule_began(w, "gated", "worker-1")
    })
    .await?;
    // From now on new machines are served the new configuration.
    seen(&stage, "the pool counts worker-0", |w| {
        w.pool("worker")
            .and_then(|pool| pool.status.clone())
            .is_some_and(|status| status.updated_machine_count > 0)
    })
    .await?;
    let joiner = stage.world.add_node("worker").await?;
    seen(&stage, "the joiner is there", |w| {
        w.state().nodes.get(&joiner).is_some_and(|node| node.ready)
    })
    .await?;
    assert_eq!(stage.world.version_of(&joiner), NEW);
    gate.open_for_all()?;
    finish(&stage).await?;
    assert!(stage.change(&joiner).await?.is_none(), "it has no turn");
    assert!(!rule_began(&stage.world, "gated", &joiner));
    assert!(!released(&stage.world).contains(&joiner));
    let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
    let run = run.unwrap_or_default();
    assert_eq!(run.nodes.map(|nodes| nodes.total), Some(4));
    assert!(run.ungated.is_empty(), "{:?}", run.ungated);
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_at_the_new_version_has_nothing_to_do() -> Result<()> {
    up_to_date(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_joins_a_canary_run_at_the_new_version_has_nothing_to_do() -> Result<()> {
    up_to_date(with_canary(workers(3)), canary()).await
}

/// A machine that boots what was rendered before the run: the run begins again for it, and for it only.
async fn after_the_run(mut world: WorldSpec, spec: Value) -> Result<()> {
    // It takes four seconds for real to become Ready, before which the MCO does not take it.
    world.timings.boot = 1000.0;
    let stage = set(world, Vec::new()).await?;
    let old = pool(&stage, "worker").await?.spec.configuration.name;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let before = stage.changes().await?.len();
    let joiner = stage.world.add_node_at("worker", &old).await?;
    seen(&stage, "the pool is paused for it", |w| {
        w.pool("worker").is_some_and(|pool| pool.spec.paused)
    })
    .await?;
    seen(&stage, "the joiner is at the new version", |w| {
        w.version_of(&joiner) == NEW
    })
    .await?;
    stage.step(&joiner, Step::Done).await?;
    finish(&stage).await?;
    assert!(rule_began(&stage.world, "quick", &joiner));
    assert_eq!(stage.changes().await?.len(), before + 1, "nobody else has a turn");
    let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
    let run = run.unwrap_or_default();
    assert_eq!(run.result, Some(RunResult::Succeeded));
    assert!(run.ungated.is_empty(), "{:?}", run.ungated);
    stage
        .until("the pool is given back", 60, || async {
            Ok((!pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    // The pool was open when it joined: from then on it was paused.
    let mut breaches = stage.world.judge(&judgement(&["quick"], &["quick"])).await?;
    breaches.retain(|breach| !(breach.invariant == "J6" && breach.message.ends_with(&format!(": {joiner}"))));
    assert!(breaches.is_empty(), "{breaches:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_after_the_run_begins_it_again_for_it_only() -> Result<()> {
    after_the_run(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_joins_after_the_canary_run_begins_it_again_for_it_only() -> Result<()> {
    after_the_run(with_canary(workers(2)), canary()).await
}

/// From 4.22 on the MCO labels a node for the pool it first booted into when it would let it go in another one: it is
/// numo's to gate like any of that pool, never goes to another pool's configuration, and nothing of the run stays.
async fn booted_into(world: WorldSpec, spec: Value) -> Result<()> {
    let mut world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)],
        mco: McoVersion::V4_22,
        ..world
    };
    // The node controller takes a second for real between two looks.
    world.timings.pool_sync = 250.0;
    let stage = set(world, Vec::new()).await?;
    let spec = with(spec, json!({"mutexTargets": [{"name": "infras"}]}));
    apply(
        &stage,
        &[quick(), target("infras", &["infra"]), run_of(&["quick"], spec)],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    stage.condition("upgrade", "Ready", "False", "Suspended").await?;
    stage.world.upgrade_to(NEW).await?;
    stage.upgraded("worker", NEW).await?;
    let joiner = stage.world.boot_into("infra").await?;
    seen(&stage, "the joiner is in its pool", |w| {
        w.membership_of(&joiner).is("infra")
    })
    .await?;
    stage
        .until("the run counts the joiner", 60, || async {
            let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
            let nodes = run.and_then(|run| run.nodes).unwrap_or_default();
            Ok((nodes.total == 2).then_some(()))
        })
        .await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    stage.upgraded("infra", NEW).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    assert!(rule_began(&stage.world, "quick", &joiner));
    assert!(stage.world.membership_of(&joiner).is("infra"));
    for entry in stage.world.log().iter().filter(|entry| entry.subject == joiner) {
        if let Event::DesiredConfigSet { config, .. } = &entry.event {
            assert!(!config.contains("-worker-"), "it was let go to {config}");
        }
    }
    let left: Vec<String> = stage.world.state().nodes[&joiner]
        .labels
        .keys()
        .filter(|key| key.contains("mutexrule") || key.as_str() == marks::RELEASE)
        .cloned()
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.targets = vec!["infra".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_first_boots_into_a_custom_pool_is_gated_like_any() -> Result<()> {
    booted_into(WorldSpec::default(), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_first_boots_into_a_custom_pool_of_a_canary_run_is_gated_like_any() -> Result<()> {
    booted_into(with_canary(WorldSpec::default()), canary()).await
}

/// A script that wrote the version onto the node as a label may never do so again: the configuration counts, and
/// the disagreement is said.
async fn label_disagrees(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    for (node, says) in [("worker-0", NEW), ("worker-1", "4.2.0")] {
        let label = json!({"metadata": {"labels": {openshift::RELEASE_VERSION: says}}});
        stage.patch_node(node, label).await?;
    }
    stage.world.remember().await?;
    prepare(&stage, &[quick()], spec).await?;
    let said = || async {
        let run = stage.run("upgrade").await?;
        let checked = condition(&run, "UpgradeChecked").cloned().unwrap_or_default();
        let message = checked.message.unwrap_or_default();
        Ok((message.contains(NEW) && message.contains("worker-0")).then_some(message))
    };
    let message = stage.until("the disagreement is said", 60, said).await?;
    assert!(
        message.contains(OLD) && message.contains(openshift::RELEASE_VERSION),
        "{message}"
    );
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-1"]);
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_label_that_disagrees_is_said_and_not_believed() -> Result<()> {
    label_disagrees(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_version_label_that_disagrees_is_not_believed_by_a_canary_run() -> Result<()> {
    label_disagrees(with_canary(workers(2)), canary()).await
}
