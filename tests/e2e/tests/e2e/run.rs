//! A run on the paths where nothing goes wrong.

use anyhow::Result;
use numo_world::Judgement;
use serde_json::json;

use crate::{
    Gate, NEW, explained, finish, job, judgement, prepare, quick, released, rule, seen, set, with_canary,
    workers,
};

#[tokio::test(flavor = "multi_thread")]
async fn desired_config_upgrades_every_node_between_its_rules() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn canary_pool_upgrades_every_node_between_its_rules() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({"canary": {"name": "canary"}})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_go_first_are_done_before_any_other_begins() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"cleanUpJobSpec": job(&gate.wait())}));
    stage
        .patch_node(
            "worker-2",
            json!({"metadata": {"labels": {"example.com/canary": "true"}}}),
        )
        .await?;
    let first = json!({"matchLabels": {"example.com/canary": "true"}});
    prepare(&stage, &[gated], json!({"maxUnavailable": 2, "first": first})).await?;
    stage.world.upgrade_to(NEW).await?;
    // By name it would be the last; the others have room beside it, and wait for its rules after.
    seen(&stage, "the rule after of the first node", |w| {
        crate::rule_began(w, "gated", "worker-2")
    })
    .await?;
    explained(
        &stage,
        "worker-0",
        "FirstNodes: Node worker-2 goes first (spec.first)",
        30,
    )
    .await?;
    assert_eq!(released(&stage.world), ["worker-2"]);
    gate.open_for_all()?;
    finish(&stage).await?;
    assert_eq!(
        released(&stage.world).first().map(String::as_str),
        Some("worker-2")
    );
    let expected = Judgement {
        max_in_flight: 2,
        ..judgement(&[], &["gated"])
    };
    stage.judge(&expected).await?;
    stage.strike().await
}
