//! Configurations that are rendered anew at the same version: gated with `trigger: AnyConfig`, followed in
//! mid-run by every run.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use numo_api::{RunResult, Step, marks};
use numo_e2e::Stage;
use numo_world::{Fault, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, canary, delete_run, finish, job, judgement, mark, pool, prepare, quick, released, rule,
    rule_began, seen, set, verdicts, with, with_canary, workers,
};

/// Waits until every worker runs what its pool renders now, and that is not `old`.
async fn settled(stage: &Stage, old: &str) -> Result<()> {
    seen(stage, "every worker runs the new configuration", |world| {
        let Some(config) = world
            .pool("worker")
            .map(|pool| pool.spec.configuration.name.clone())
        else {
            return false;
        };
        let state = world.state();
        let mut nodes = state.nodes.values().filter(|node| world_worker(node));
        config != old && nodes.all(|node| node.current == config && node.desired == config)
    })
    .await
}

fn world_worker(node: &numo_world::NodeView) -> bool {
    node.labels.contains_key("node-role.kubernetes.io/worker")
}

async fn config_of(stage: &Stage) -> Result<String> {
    Ok(pool(stage, "worker").await?.spec.configuration.name)
}

/// Every configuration of a pool that never opens goes through the rules, at the same version too.
async fn always_held(world: WorldSpec, mut spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    spec["trigger"] = json!("AnyConfig");
    spec["hold"] = json!("Always");
    prepare(&stage, &[quick()], spec).await?;
    stage
        .until("the pool is held before there is anything to do", 60, || async {
            let paused = pool(&stage, "worker").await?.spec.paused;
            let marked = mark(&stage, "worker", marks::PAUSED_BY).await?.is_some();
            Ok((paused && marked).then_some(()))
        })
        .await?;
    let mut ids = Vec::new();
    for round in 1..=2 {
        let before = config_of(&stage).await?;
        stage.world.rerender("worker").await?;
        settled(&stage, &before).await?;
        let id = stage
            .until("the run is over", 60, || async {
                let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
                let run = run.unwrap_or_default();
                let done = run.result == Some(RunResult::Succeeded) && !ids.contains(&run.id);
                Ok(done.then_some(run.id))
            })
            .await?;
        ids.push(id);
        stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
        assert!(pool(&stage, "worker").await?.spec.paused, "it stays paused");
        for node in ["worker-0", "worker-1"] {
            let changes = stage.changes().await?;
            let mine = changes.iter().filter(|change| change.spec.node_name == node);
            let passed: usize = mine
                .map(|change| verdicts(change, "quick", numo_api::Phase::Pre).len())
                .sum();
            assert_eq!(passed, round, "{node}: its rules are asked in each run, once");
        }
    }
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = None;
    expected.retries = true;
    expected.restored = false;
    stage.judge(&expected).await?;
    delete_run(&stage, "upgrade").await?;
    expected.restored = true;
    stage.judge(&expected).await?;
    assert!(
        !pool(&stage, "worker").await?.spec.paused,
        "given back when the run is deleted"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_always_held_takes_every_configuration_through_the_rules() -> Result<()> {
    always_held(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_that_is_always_held_takes_every_configuration_through_the_canary() -> Result<()> {
    always_held(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

/// Without `hold: Always` the MCO may be faster: what it took is named.
async fn any_config(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], with(spec, json!({"trigger": "AnyConfig"}))).await?;
    let before = config_of(&stage).await?;
    stage.world.rerender("worker").await?;
    settled(&stage, &before).await?;
    crate::ended(&stage).await?;
    stage
        .until("the pool is given back", 60, || async {
            Ok((!pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
    let ungated = run.unwrap_or_default().ungated;
    for node in released(&stage.world) {
        assert!(
            rule_began(&stage.world, "quick", &node) || ungated.contains(&node),
            "{node} changed unseen: {ungated:?}"
        );
    }
    assert!(ungated.len() < 3, "numo came to its turn: {ungated:?}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn any_configuration_begins_a_run_and_what_the_mco_took_first_is_ungated() -> Result<()> {
    any_config(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn any_configuration_begins_a_canary_run_and_what_the_mco_took_first_is_ungated() -> Result<()> {
    any_config(with_canary(workers(3)), canary()).await
}

/// A configuration that is rendered anew in mid-run: who waits goes to the new one only, who is done passes
/// its rules again.
async fn rendered_again(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, spec).await?;
    gate.open("worker-0")?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Done).await?;
    seen(&stage, "the rule of worker-1 runs", |w| {
        rule_began(w, "gated", "worker-1")
    })
    .await?;
    let before = config_of(&stage).await?;
    stage.world.rerender("worker").await?;
    seen(&stage, "the pool is rendered anew", |w| {
        w.pool("worker")
            .is_some_and(|pool| pool.spec.configuration.name != before)
    })
    .await?;
    gate.open_for_all()?;
    settled(&stage, &before).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    // Nobody but worker-0 ever went to the configuration that is wanted no more.
    let suffix = before.rsplit('-').next().unwrap_or_default().to_owned();
    for entry in stage.world.log() {
        if let numo_world::Event::DesiredConfigSet { config, .. } = &entry.event {
            assert!(
                !config.ends_with(&suffix) || ["worker-0"].contains(&entry.subject.as_str()),
                "{} was let go to {config}",
                entry.subject
            );
        }
    }
    let journal = stage.change("worker-0").await?.and_then(|change| change.status);
    let attempt = journal.map_or(0, |status| status.attempt);
    assert!(
        attempt >= 2,
        "worker-0 had its rules asked again: attempt {attempt}"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_rendered_anew_in_mid_run_is_followed_through_the_rules() -> Result<()> {
    rendered_again(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_configuration_rendered_anew_in_mid_canary_run_is_followed_through_the_rules() -> Result<()> {
    rendered_again(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

/// `quarantine: Taint`: a node that does not come back takes no new pods, and the taint goes with its fault.
async fn quarantined(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(
        &stage,
        &[quick()],
        with(spec, json!({"changeTimeoutSeconds": 8, "quarantine": "Taint"})),
    )
    .await?;
    stage.world.inject(Fault::NeverBack {
        node: "worker-0".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Held).await?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let tainted = || async {
        let taints = nodes.get("worker-0").await?.spec.and_then(|spec| spec.taints);
        let taint = taints
            .into_iter()
            .flatten()
            .find(|taint| taint.key == marks::QUARANTINE);
        anyhow::Ok(taint.map(|taint| taint.effect))
    };
    let effect = stage.until("worker-0 is tainted", 60, tainted).await?;
    assert_eq!(effect, "NoSchedule");
    stage.event("Node", "worker-0", "Quarantined").await?;
    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage
        .until("the taint is gone", 60, || async {
            Ok(tainted().await?.is_none().then_some(()))
        })
        .await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_failed_is_tainted_until_it_is_mended() -> Result<()> {
    quarantined(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_failed_in_the_canary_is_tainted_until_it_is_mended() -> Result<()> {
    quarantined(with_canary(workers(2)), canary()).await
}

/// The pools are rendered anew between the release into the canary and the moment the MCO takes the node up: it is
/// taken back, passes its rules for what is wanted now, and never goes from newer to older content.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_the_canary_never_goes_back_to_an_older_configuration() -> Result<()> {
    let mut world = with_canary(workers(2));
    // The node controller takes a second for real.
    world.timings.pool_sync = 250.0;
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], json!({"canary": {"name": "canary"}})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| {
        w.state().nodes["worker-0"].labels.contains_key(marks::RELEASE)
    })
    .await?;
    let before = config_of(&stage).await?;
    stage.world.rerender("worker").await?;
    settled(&stage, &before).await?;
    finish(&stage).await?;
    let newest = config_of(&stage).await?;
    let content = |config: &str| config.rsplit('-').next().unwrap_or_default().to_owned();
    for node in ["worker-0", "worker-1"] {
        let log = stage.world.log();
        let ways: Vec<String> = log
            .iter()
            .filter(|entry| entry.subject == node)
            .filter_map(|entry| match &entry.event {
                numo_world::Event::DesiredConfigSet { config, .. } => Some(content(config)),
                _ => None,
            })
            .collect();
        let reached = ways.iter().position(|way| *way == content(&newest));
        let reached = reached.unwrap_or(ways.len());
        assert!(
            ways[reached..].iter().all(|way| *way == content(&newest)),
            "{node} went back: {ways:?}"
        );
    }
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}
