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
