//! Stop: nothing new begins; what gives back goes on.

use std::time::Duration;

use anyhow::Result;
use numo_api::{Outcome, Phase, Step};
use numo_e2e::{Proxy, Slow, Stage, StageOptions};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, finish, job, judgement, prepare, released, released_after_a_while, rule, rule_began, seen,
    set, verdicts, waits, with_canary, workers,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_suspended_or_stopped_in_mid_run_begins_nothing_new_and_goes_on_later() -> Result<()> {
    suspended_and_stopped(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_canary_run_suspended_or_stopped_begins_nothing_new_and_goes_on_later() -> Result<()> {
    suspended_and_stopped(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

/// Three releases are decided at once, and the API server takes two seconds for each, less in all than
/// a decision may begin anything: what a stop finds unwritten is not
/// written any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_between_two_writes_of_a_round_holds_the_second() -> Result<()> {
    let stage = Stage::set(StageOptions {
        world: workers(3),
        without_numo: true,
        ..StageOptions::default()
    })
    .await?;
    let proxy = Proxy::open(stage.numo_kubeconfig(), None).await?;
    proxy.slow(Some(Slow {
        method: "PATCH",
        path: "/api/v1/nodes/",
        longer: Duration::from_secs(2),
    }));
    let numo = stage.numo_of(&proxy.kubeconfig(), &[])?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    prepare(&stage, &rules, json!({"maxUnavailable": 3})).await?;
    stage.world.upgrade_to(NEW).await?;
    for node in ["worker-0", "worker-1", "worker-2"] {
        seen(&stage, "the rule runs", |w| rule_began(w, "gated", node)).await?;
    }
    gate.open_for_all()?;
    seen(&stage, "a node is let go", |w| released(w).len() == 1).await?;
    stage.say(&["stop"]).await?;
    // As long as three patches take.
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen = released_after_a_while(&stage).await;
    }
    assert!(seen.len() < 3, "one was on its way, the last was not: {seen:?}");
    stage.say(&["start"]).await?;
    finish(&stage).await?;
    assert_eq!(released(&stage.world).len(), 3);
    assert_eq!(numo.stop().await?, Some(0));
    stage.strike().await
}

async fn suspended_and_stopped(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    gate.open("worker-0")?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| released(w) == ["worker-0"]).await?;

    // spec.suspend, while a node is changing: it comes back and passes its Post rules.
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    let done = stage.step("worker-0", Step::Done).await?;
    assert_eq!(
        verdicts(&done, "gated", Phase::Post),
        [(1, Outcome::Pass, Some(0))]
    );
    let why = stage.condition("upgrade", "Ready", "False", "Suspended").await?;
    assert!(why.contains("spec.suspend"), "{why}");
    waits(&stage, "Suspended").await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    assert_eq!(stage.changes().await?.len(), 1, "no node is admitted");

    // It goes on; then `numo stop` while a rule runs: its verdict is taken, its node is not let go.
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    seen(&stage, "the rule of worker-1 runs", |w| {
        rule_began(w, "gated", "worker-1")
    })
    .await?;
    let said = stage.say(&["stop"]).await?;
    assert!(said.contains("stopped"), "{said}");
    gate.open("worker-1")?;
    stage
        .until("the verdict of worker-1 is journaled", 60, || async {
            let change = stage.change("worker-1").await?;
            Ok(
                change
                    .filter(|change| verdicts(change, "gated", Phase::Pre) == [(1, Outcome::Pass, Some(0))]),
            )
        })
        .await?;
    assert_eq!(
        released_after_a_while(&stage).await,
        ["worker-0"],
        "stopped means no release either"
    );
    assert_eq!(stage.changes().await?.len(), 2, "and no admission");
    let text = stage.say(&["explain", "worker-2"]).await?;
    assert!(
        text.contains("Stopped") || text.contains("WaitingForTurn"),
        "{text}"
    );
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(text.contains("Stopped") && text.contains("MutexBudget"), "{text}");
    let text = stage.say(&["status"]).await?;
    assert!(text.contains("BUDGET") && text.contains("true"), "{text}");

    gate.open_for_all()?;
    stage.say(&["start"]).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &["gated"])).await?;
    stage.strike().await
}
