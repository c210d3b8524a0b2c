//! numo killed and started again at any moment.

use std::time::Duration;

use anyhow::Result;
use numo_api::marks;
use numo_world::{Event, World, WorldSpec};
use serde_json::{Value, json};

use crate::{
    NEW, finish, happened, job, judgement, prepare, rule, rule_began, seen, set, with_canary, workers,
};

type Moment = (&'static str, Box<dyn Fn(&World) -> bool + Send + Sync>);

fn marked(world: &World, node: &str, mark: &str) -> bool {
    world
        .state()
        .nodes
        .get(node)
        .is_some_and(|node| node.marks.contains(mark))
}

/// Moments of one run over four nodes, in the order in which they come, each as soon as it can be seen.
fn moments() -> Vec<Moment> {
    let mut moments: Vec<Moment> = vec![
        (
            "the version is asked for",
            Box::new(|w| happened(w, "cluster", |e| matches!(e, Event::VersionDesired { .. }))),
        ),
        (
            "the pool is paused",
            Box::new(|w| w.pool("worker").is_some_and(|pool| pool.spec.paused)),
        ),
        ("the control plane is done", Box::new(|w| w.is_completed(NEW))),
        (
            "worker-0 is shielded",
            Box::new(|w| marked(w, "worker-0", marks::SHIELDED_BY)),
        ),
    ];
    let jobs = |number: usize| move |w: &World| w.state().jobs.len() >= number;
    moments.push(("the first Job is there", Box::new(jobs(1))));
    moments.push((
        "the first Job has ended",
        Box::new(|w| w.state().jobs.values().any(|job| job.complete)),
    ));
    moments.push((
        "worker-0 is let go",
        Box::new(|w| {
            happened(w, "worker-0", |e| {
                matches!(e, Event::DesiredConfigSet { zero_diff: false, .. })
            })
        }),
    ));
    moments.push((
        "worker-0 reboots",
        Box::new(|w| happened(w, "worker-0", |e| *e == Event::Rebooting)),
    ));
    moments.push((
        "worker-0 is at the target",
        Box::new(|w| w.version_of("worker-0") == NEW),
    ));
    moments.push(("the second Job is there", Box::new(jobs(2))));
    moments.push((
        "a rule of worker-1 runs",
        Box::new(|w| rule_began(w, "slow", "worker-1")),
    ));
    moments.push((
        "worker-1 works",
        Box::new(|w| happened(w, "worker-1", |e| *e == Event::Working)),
    ));
    moments.push((
        "worker-2 is drained",
        Box::new(|w| happened(w, "worker-2", |e| *e == Event::Drained)),
    ));
    moments.push(("the seventh Job is there", Box::new(jobs(7))));
    moments.push((
        "worker-3 is at the target",
        Box::new(|w| w.version_of("worker-3") == NEW),
    ));
    moments.push((
        "the last Job has ended",
        Box::new(|w| w.state().jobs.values().filter(|job| job.complete).count() == 8),
    ));
    moments
}

async fn killed_again_and_again(world: WorldSpec, spec: Value) -> Result<()> {
    // A pod keeps its name when its container is started again, and so its place as the leader.
    let mut stage = set(world, vec!["--identity", "numo-0"]).await?;
    let rules = [rule(
        "slow",
        json!({"jobSpec": job("sleep 0.3"), "cleanUpJobSpec": job("sleep 0.3")}),
    )];
    prepare(&stage, &rules, spec).await?;
    stage.world.upgrade_to(NEW).await?;
    let moments = moments();
    assert!(moments.len() >= 8);
    for (what, is) in moments {
        seen(&stage, what, is).await?;
        stage.kill_numo().await?;
        stage.start_numo()?;
        // Alive again, if only for a moment: the next kill must not meet a process that has done nothing.
        stage
            .until("it leads again", 60, || async {
                Ok(stage.numo().is_some_and(numo_e2e::Numo::leads).then_some(()))
            })
            .await?;
    }
    finish(&stage).await?;
    // Each rule ran once for each node and phase, and everything is as it was.
    stage.judge(&judgement(&["slow"], &["slow"])).await?;
    for change in stage.changes().await? {
        let status = change.status.unwrap_or_default();
        // numo's own check, which is in no namespace, may be asked again.
        let of_rules = status
            .verdicts
            .iter()
            .filter(|verdict| verdict.rule.contains('/'));
        assert_eq!(
            (status.attempt, of_rules.count()),
            (1, 2),
            "{}",
            change.spec.node_name
        );
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_many_moments_each_rule_runs_once_and_all_is_restored() -> Result<()> {
    killed_again_and_again(workers(4), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn killed_at_many_moments_of_a_canary_run_each_rule_runs_once_and_all_is_restored() -> Result<()> {
    killed_again_and_again(with_canary(workers(4)), json!({"canary": {"name": "canary"}})).await
}

/// Whatever it was doing: kills that follow no moment, only chance.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_each_rule_runs_once_and_all_is_restored() -> Result<()> {
    let mut stage = set(workers(3), vec!["--identity", "numo-0"]).await?;
    let rules = [rule(
        "slow",
        json!({"jobSpec": job("sleep 0.3"), "cleanUpJobSpec": job("sleep 0.3")}),
    )];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let began = std::time::Instant::now();
    let mut kills = 0;
    while !stage.world.is_updated("worker", NEW) {
        assert!(
            began.elapsed() < Duration::from_mins(4),
            "{}",
            stage.picture().await
        );
        // Spread by the low digits of the clock, from before it leads until well after.
        let wait = 400 + began.elapsed().subsec_nanos() % 2200;
        tokio::time::sleep(Duration::from_millis(u64::from(wait))).await;
        stage.kill_numo().await?;
        stage.start_numo()?;
        kills += 1;
    }
    assert!(kills >= 5, "{kills}");
    finish(&stage).await?;
    stage.judge(&judgement(&["slow"], &["slow"])).await?;
    stage.strike().await
}
