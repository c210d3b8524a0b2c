//! `notification_seconds`: how long after something happened to an owner the sink of a MutexNotifier has it. What happened has its time on the
//! object or in a journal, in whole seconds, and the clock of the sink is that of numo here: a value is at most a second too long, never
//! too short.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use numo_e2e::{Answers, NAMESPACE, Sink, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use super::{Measured, POOL, RUN, percentile, stage};

const NODES: usize = 4;
/// Upgrades, one after another.
const UPGRADES: [&str; 4] = ["4.17.0", "4.17.1", "4.17.2", "4.17.3"];

/// An upgrade that somebody must approve, and whose first node is held.
const HELD: &str = "4.17.4";
/// An upgrade that is left when its first node fails.
const LEFT: &str = "4.17.5";
/// The first node of each.
const FIRST: &str = "worker-0";
/// Everything that is told of a run.
const TRANSITIONS: [&str; 8] = [
    "RunBegan",
    "WaveDone",
    "WaitsForApproval",
    "Held",
    "Failed",
    "Stalled",
    "Finished",
    "PoolLeftPaused",
];

/// Upgrades some nodes in as many waves, again and again, and has a person needed in every way; the longest counts.
pub async fn measure() -> Result<Measured> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, NODES)],
        ..WorldSpec::default()
    };
    let stage = stage(world, "  waves: [{nodes: 1, growth: 1}]\n").await?;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    let notifier = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier", "metadata": {"name": "bench"},
        "spec": {"cloudEvents": {"url": url}, "maxPerMinute": 600, "transitions": TRANSITIONS},
    });
    stage.apply(&notifier.to_string()).await?;
    let mut of_objects = Vec::new();
    for (number, version) in UPGRADES.iter().enumerate() {
        stage.world.upgrade_to(version).await?;
        stage.upgraded(POOL, version).await?;
        stage.condition(RUN, "Ready", "True", "Succeeded").await?;
        let is_over = |event: &&Value| event["data"]["transition"] == "Finished";
        stage
            .until("its end is told", 60, || async {
                let over = sink.events().iter().filter(is_over).count();
                Ok((over > number).then_some(()))
            })
            .await?;
        of_objects.extend(times(&stage).await?);
    }
    want_a_person(&stage, &sink).await?;
    let arrived = sink.arrived();
    for transition in TRANSITIONS {
        let is_told = arrived
            .iter()
            .any(|(_, event)| event["data"]["transition"] == transition);
        ensure!(is_told, "{transition} was never told");
    }
    stage.strike().await?;
    measured(&arrived, &of_objects)
}

/// What a run comes to that needs a person: it waits for approval, a rule fails and its node is held, and a rule fails that ends the run.
async fn want_a_person(stage: &Stage, sink: &Sink) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let open = folder.path().join("open");
    stage.apply(&gate(&open, "Hold").to_string()).await?;
    let gated = json!({"spec": {"mutexRules": [{"name": "gate"}], "approval": {"begin": "Manual"}}});
    stage.patch_run(RUN, gated).await?;
    stage.world.upgrade_to(HELD).await?;
    sink.until(stage, "WaitsForApproval", RUN).await?;
    let run = format!("mutexrunconfig/{RUN}");
    let approve = ["approve", run.as_str(), "-n", NAMESPACE, "--reason", "bench"];
    stage.say(&approve).await?;
    sink.until(stage, "Held", FIRST).await?;
    sink.until(stage, "Stalled", RUN).await?;
    std::fs::write(&open, "")?;
    stage.say(&["retry", FIRST, "--reason", "mended"]).await?;
    stage.upgraded(POOL, HELD).await?;
    stage.condition(RUN, "Ready", "True", "Succeeded").await?;
    std::fs::remove_file(&open)?;
    stage.apply(&gate(&open, "Abort").to_string()).await?;
    let unapproved = json!({"spec": {"approval": null}});
    stage.patch_run(RUN, unapproved).await?;
    stage.world.upgrade_to(LEFT).await?;
    sink.until(stage, "Failed", FIRST).await?;
    sink.until(stage, "PoolLeftPaused", RUN).await?;
    Ok(())
}

/// A rule that passes once there is this file, and what becomes of a node where it fails.
fn gate(open: &Path, policy: &str) -> Value {
    let command = format!("test -e {}", open.display());
    let container = json!({"name": "check", "image": "tools", "command": ["/bin/sh", "-c", command]});
    let pod = json!({"restartPolicy": "Never", "containers": [container]});
    json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule", "metadata": {"name": "gate"},
        "spec": {
            "jobName": "gate", "jobNamespace": NAMESPACE, "type": "kubernetes", "timeoutSeconds": 60, "failurePolicy": policy,
            "jobSpec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
    })
}

/// When the run that is over began and ended, by its own status.
async fn times(stage: &Stage) -> Result<Vec<(&'static str, Timestamp)>> {
    let status = stage.run(RUN).await?.status.unwrap_or_default();
    let run = status.run.context("a run")?;
    let time = |at: Option<String>| anyhow::Ok(at.context("a time")?.parse()?);
    Ok(vec![
        ("RunBegan", time(run.started_at)?),
        ("Finished", time(run.finished_at)?),
    ])
}

/// The longest time from what happened to its arrival. `of_objects` has times of what happened as the objects have them.
fn measured(arrived: &[(Timestamp, Value)], of_objects: &[(&'static str, Timestamp)]) -> Result<Measured> {
    let mut waits: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut happened = Vec::new();
    for (at, event) in arrived {
        let transition = event["data"]["transition"].as_str().unwrap_or_default();
        let time: Timestamp = event["time"].as_str().context("a time")?.parse()?;
        happened.push((transition, time.as_second()));
        let wait = at.duration_since(time).as_secs_f64().max(0.0);
        waits.entry(transition).or_default().push(wait);
    }
    for (transition, at) in of_objects {
        let is_told = happened.contains(&(*transition, at.as_second()));
        ensure!(
            is_told,
            "{transition} at {at} was told with another time: {happened:?}"
        );
    }
    let mut all: Vec<f64> = waits.values().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let longest = *all.last().context("nothing was told")?;
    let mut notes = vec![format!(
        "{} notifications: median {:.3} s, longest {longest:.3} s",
        all.len(),
        percentile(&all, 0.5)
    )];
    for (transition, mut waits) in waits {
        waits.sort_by(f64::total_cmp);
        let longest = waits.last().copied().unwrap_or_default();
        notes.push(format!(
            "{transition}: median {:.3} s, longest {longest:.3} s",
            percentile(&waits, 0.5)
        ));
    }
    Ok(Measured {
        value: longest,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_counts_and_a_time_that_is_not_the_objects_is_none() {
        let at = |millisecond| Timestamp::from_millisecond(millisecond).unwrap();
        let event = |transition: &str, second: i64| json!({"time": Timestamp::from_second(second).unwrap().to_string(), "data": {"transition": transition}});
        let arrived = [
            (at(10_400), event("RunBegan", 10)),
            (at(21_500), event("Finished", 20)),
        ];
        let of_objects = [("RunBegan", at(10_000)), ("Finished", at(20_000))];
        let found = measured(&arrived, &of_objects).unwrap();
        assert!((found.value - 1.5).abs() < 1e-9, "{}", found.value);
        assert_eq!(found.notes[0], "2 notifications: median 0.400 s, longest 1.500 s");
        assert!(measured(&arrived, &[("Finished", at(21_000))]).is_err());
        assert!(measured(&[], &[]).is_err());
    }
}
