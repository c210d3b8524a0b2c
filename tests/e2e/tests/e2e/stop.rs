//! Stop: nothing new begins; what gives back goes on.

use anyhow::Result;
use numo_api::{Outcome, Phase, Step};
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
async fn a_canary_run_suspended_or_stopped_begins_nothing_new_and_goes_on_later() -> Result<()> {
    suspended_and_stopped(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
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
