//! Rules that are asked once per run, and one object that serves two upgrades.

use anyhow::Result;
use numo_api::{Outcome, Phase};
use numo_world::Judgement;
use serde_json::json;

use crate::{NEW, finish, job, judgement, prepare, quick, rule, set, workers};

/// How often the rule passed in the phase, by the run's own record of its last run.
async fn passed(stage: &numo_e2e::Stage, name: &str, phase: Phase) -> Result<usize> {
    let run = stage.run("upgrade").await?;
    let verdicts = run
        .status
        .and_then(|status| status.run)
        .map(|run| run.verdicts)
        .unwrap_or_default();
    let wanted = format!("{}/{name}", numo_e2e::NAMESPACE);
    Ok(verdicts
        .iter()
        .filter(|verdict| {
            verdict.rule == wanted && verdict.phase == phase && verdict.outcome == Outcome::Pass
        })
        .count())
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_run_are_asked_again_in_its_next_upgrade() -> Result<()> {
    const NEXT: &str = "4.18.0";
    let stage = set(workers(2), Vec::new()).await?;
    let once = rule(
        "once",
        json!({"phases": ["PreRun", "PostRun"], "jobSpec": job("true")}),
    );
    prepare(&stage, &[once, quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    assert_eq!(
        (
            passed(&stage, "once", Phase::PreRun).await?,
            passed(&stage, "once", Phase::PostRun).await?
        ),
        (1, 1)
    );
    let jobs = crate::jobs(&stage).await?.len();
    stage.world.upgrade_to(NEXT).await?;
    stage.upgraded("worker", NEXT).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let expected = Judgement {
        at_version: Some(NEXT.to_owned()),
        // The judge counts over both upgrades.
        retries: true,
        ..judgement(&["quick"], &["quick"])
    };
    stage.judge(&expected).await?;
    assert_eq!(
        crate::jobs(&stage).await?.len(),
        jobs * 2,
        "every rule ran again, those of the run too"
    );
    assert_eq!(
        (
            passed(&stage, "once", Phase::PreRun).await?,
            passed(&stage, "once", Phase::PostRun).await?
        ),
        (1, 1)
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_rule_of_the_run_holds_it_until_a_person_has_it_asked_again() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = crate::Gate::new()?;
    // It fails until the gate is open.
    let open = gate.is_open("ready");
    let open = format!("{open} || exit 7");
    let once = rule("once", json!({"phases": ["PreRun"], "jobSpec": job(&open)}));
    prepare(&stage, &[once, quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage.condition("upgrade", "Ready", "False", "RuleFailed").await?;
    for word in ["once", "exit code 7", "numo retry", "mutexrunconfig/upgrade"] {
        assert!(why.contains(word), "no {word} in: {why}");
    }
    assert_eq!(crate::released_after_a_while(&stage).await, Vec::<String>::new());

    gate.open("ready")?;
    let said = stage
        .say(&["retry", "-n", numo_e2e::NAMESPACE, "mutexrunconfig/upgrade"])
        .await?;
    assert!(said.contains("round 2"), "{said}");
    finish(&stage).await?;
    assert_eq!(passed(&stage, "once", Phase::PreRun).await?, 1);
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_spec_in_mid_run_holds_for_nodes_that_come_after_it() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = crate::Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    let late = rule("late", json!({"jobSpec": job("true")}));
    crate::apply(&stage, &[late]).await?;
    prepare(&stage, &[gated], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    crate::seen(&stage, "the rule of worker-0 runs", |w| {
        crate::rule_began(w, "gated", "worker-0")
    })
    .await?;
    // While worker-0 has its turn another rule is asked for, and then a dry run.
    let rules = json!({"spec": {"dryRun": true, "mutexRules": [{"name": "gated"}, {"name": "late"}]}});
    stage.patch_run("upgrade", rules).await?;
    let why = stage.condition("upgrade", "Ready", "False", "DryRun").await?;
    assert!(why.contains("nothing new begins"), "{why}");
    gate.open_for_all()?;
    // Its verdict is taken; it is not let go while nothing new may begin.
    stage
        .until("the verdict of worker-0 is journaled", 60, || async {
            let change = stage.change("worker-0").await?;
            Ok(change.filter(|change| {
                crate::verdicts(change, "gated", Phase::Pre) == [(1, Outcome::Pass, Some(0))]
            }))
        })
        .await?;
    assert_eq!(crate::released_after_a_while(&stage).await, Vec::<String>::new());
    stage
        .patch_run("upgrade", json!({"spec": {"dryRun": false}}))
        .await?;
    finish(&stage).await?;
    let began = |rule: &str, node: &str| crate::rule_began(&stage.world, rule, node);
    assert!(!began("late", "worker-0") && began("late", "worker-1"));
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}
