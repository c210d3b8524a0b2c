//! `notification_seconds`: how long after something happened to an owner the sink of a MutexNotifier has it. What happened has its time on the
//! object or in a journal, in whole seconds, and the clock of the sink is that of numo here: a value is at most a second too long, never
//! too short.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use numo_e2e::{Answers, Sink, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use super::{Measured, POOL, RUN, percentile, stage};

const NODES: usize = 4;
/// Upgrades, one after another.
const UPGRADES: [&str; 4] = ["4.17.0", "4.17.1", "4.17.2", "4.17.3"];

/// Upgrades some nodes in as many waves, again and again; the longest counts.
pub async fn measure() -> Result<Measured> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, NODES)],
        ..WorldSpec::default()
    };
    let stage = stage(world, "  waves: [{nodes: 1, growth: 1}]\n").await?;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    let notifier = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier", "metadata": {"name": "bench"},
        "spec": {"cloudEvents": {"url": url}, "maxPerMinute": 600, "transitions": ["RunBegan", "WaveDone", "Finished"]},
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
    stage.strike().await?;
    measured(&sink.arrived(), &of_objects)
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
