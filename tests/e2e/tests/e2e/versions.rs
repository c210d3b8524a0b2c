//! Versions that move on in mid-run, and releases that change little or nothing.

use anyhow::Result;
use numo_api::{RunResult, Step};
use numo_e2e::Stage;
use numo_world::{Event, Fault};
use serde_json::json;

use crate::{
    NEW, finish, happened, jobs, judgement, prepare, quick, released, seen, set, with_canary, workers,
};

const NEWEST: &str = "4.17.1";

/// The version asked for changes while a node is on its way to the one before.
async fn moves_on(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots", |w| {
        w.state().nodes["worker-0"].rebooting
    })
    .await?;
    stage.world.upgrade_to(NEWEST).await?;
    stage.upgraded("worker", NEWEST).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = Some(NEWEST.to_owned());
    // worker-0 went through its rules for the version before, too.
    expected.retries = true;
    stage.judge(&expected).await?;
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    assert_eq!(
        (last.target.as_str(), last.result),
        (NEWEST, Some(RunResult::Succeeded))
    );
    assert!(last.ungated.is_empty(), "{:?}", last.ungated);
    assert!(!happened(&stage.world, "worker-1", |e| {
        matches!(e, Event::Done { version, .. } if version == NEW)
    }));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_moves_on_in_mid_run_is_followed_through_the_rules() -> Result<()> {
    moves_on(set(workers(3), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_moves_on_in_mid_canary_run_is_followed_through_the_rules() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    moves_on(stage, json!({"canary": {"name": "canary"}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_changes_little_passes_its_rules_and_one_that_changes_nothing_ends_at_once()
-> Result<()> {
    changes_little(set(workers(2), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_changes_little_goes_through_the_canary_without_a_reboot() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    changes_little(stage, json!({"canary": {"name": "canary"}})).await
}

async fn changes_little(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    // Other names, and nothing that a node must reboot for.
    stage.world.inject(Fault::ZeroDiff);
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert!(!happened(&stage.world, "worker-0", |e| *e == Event::Rebooting));
    for node in ["worker-0", "worker-1"] {
        stage.step(node, Step::Done).await?;
    }
    let before = jobs(&stage).await?.len();
    assert_eq!(before, 4);

    // The very same names, annotated with another version.
    stage.world.heal_cluster();
    stage.world.inject(Fault::EqualRelease);
    stage.world.upgrade_to(NEWEST).await?;
    seen(&stage, "the control plane is done", |w| w.is_completed(NEWEST)).await?;
    stage.upgraded("worker", NEWEST).await?;
    stage
        .until("the run is over", 60, || async {
            let run = stage.run("upgrade").await?;
            let last = run.status.and_then(|status| status.run).unwrap_or_default();
            Ok((last.target == NEWEST && last.result == Some(RunResult::Succeeded)).then_some(()))
        })
        .await?;
    stage
        .until("the pool is given back", 60, || async {
            Ok((!crate::pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    assert!(released(&stage.world).is_empty());
    assert_eq!(jobs(&stage).await?.len(), before, "no node changes, no rule runs");
    let mut expected = judgement(&[], &[]);
    expected.at_version = Some(NEWEST.to_owned());
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The request is withdrawn while the control plane is on its way: pools are given back, and nobody was let go.
async fn withdrawn(stage: Stage, spec: serde_json::Value) -> Result<()> {
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage
        .until("the pool is paused", 60, || async {
            Ok(crate::pool(&stage, "worker").await?.spec.paused.then_some(()))
        })
        .await?;
    stage.world.upgrade_to(crate::OLD).await?;
    seen(&stage, "the control plane is back", |w| {
        w.is_completed(crate::OLD)
    })
    .await?;
    stage
        .until("the pool is given back", 60, || async {
            Ok((!crate::pool(&stage, "worker").await?.spec.paused).then_some(()))
        })
        .await?;
    assert!(released(&stage.world).is_empty());
    assert!(jobs(&stage).await?.is_empty(), "no rule ran");
    let mut expected = judgement(&[], &[]);
    expected.at_version = Some(crate::OLD.to_owned());
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_withdrawn_gives_the_pools_back() -> Result<()> {
    withdrawn(set(workers(2), Vec::new()).await?, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_withdrawn_gives_the_canary_back() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    withdrawn(stage, json!({"canary": {"name": "canary"}})).await
}
