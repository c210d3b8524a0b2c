//! A person's cordon, in every moment of a node's turn: it is never undone, and nobody is let go under it.

use anyhow::Result;
use numo_api::Step;
use numo_e2e::Stage;
use numo_world::{Event, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, canary, finish, happened, job, judgement, prepare, quick, released_after_a_while, rule,
    rule_began, seen, set, with_canary, workers,
};

/// Every node is done, though the pool counts the cordoned one as unavailable; then the cordon is lifted.
async fn finish_cordoned(stage: &Stage) -> Result<()> {
    for node in ["worker-0", "worker-1", "worker-2"] {
        stage.step(node, Step::Done).await?;
    }
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    assert!(
        stage.world.state().nodes["worker-0"].unschedulable,
        "the person's cordon stays"
    );
    stage.cordon("worker-0", false).await?;
    finish(stage).await
}

/// By whoever it is, the rule included: the rule passes, the node is not let go and keeps its turn, and the others
/// wait for theirs.
async fn while_pre_rules_run(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.cordon("worker-0", true).await?;
    gate.open_for_all()?;
    let why = stage
        .condition("upgrade", "Ready", "False", "CordonedByOther")
        .await?;
    assert!(
        why.contains("Node worker-0 is cordoned, and not by numo"),
        "{why}"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(
        text.contains("CordonedByOther") && text.contains("cluster administrator"),
        "{text}"
    );
    assert!(released_after_a_while(&stage).await.is_empty());
    assert_eq!(stage.changes().await?.len(), 1, "it keeps its turn");
    assert!(stage.world.state().nodes["worker-0"].unschedulable);
    stage.cordon("worker-0", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_cordoned_while_its_pre_rules_run_is_not_let_go() -> Result<()> {
    while_pre_rules_run(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cordoned_while_its_pre_rules_run_is_not_let_go_into_the_canary() -> Result<()> {
    while_pre_rules_run(with_canary(workers(3)), canary()).await
}

/// The node is back: the cordon is no longer numo's business, and nothing takes it off.
async fn while_post_rules_run(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let after = rule("after", json!({"cleanUpJobSpec": job(&gate.wait())}));
    prepare(&stage, &[after], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the Post rule runs", |w| {
        rule_began(w, "after", "worker-0")
    })
    .await?;
    stage.cordon("worker-0", true).await?;
    gate.open_for_all()?;
    finish_cordoned(&stage).await?;
    stage.judge(&judgement(&[], &["after"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_cordoned_while_its_post_rules_run_stays_cordoned() -> Result<()> {
    while_post_rules_run(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_of_a_canary_run_cordoned_while_its_post_rules_run_stays_cordoned() -> Result<()> {
    while_post_rules_run(with_canary(workers(3)), canary()).await
}

/// The way home is a change without difference, and the MCO ends each change with an uncordon: a cordon that came
/// before it is put back. numo is away meanwhile, or the node would be on its way before a person can cordon it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_cordon_in_the_canary_after_the_mcos_own_survives_the_way_home() -> Result<()> {
    let mut stage = set(with_canary(workers(3)), Vec::new()).await?;
    prepare(&stage, &[quick()], canary()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots in the canary", |w| {
        w.state().nodes["worker-0"].rebooting
    })
    .await?;
    stage.kill_numo().await?;
    seen(&stage, "the MCO has uncordoned worker-0", |w| {
        let uncordoned = happened(w, "worker-0", |e| matches!(e, Event::Uncordoned { .. }));
        let node = &w.state().nodes["worker-0"];
        uncordoned && node.state == "Done" && w.membership_of("worker-0").is("canary")
    })
    .await?;
    stage.cordon("worker-0", true).await?;
    stage.start_numo()?;
    finish_cordoned(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}
