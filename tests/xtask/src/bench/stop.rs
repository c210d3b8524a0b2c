//! `stop_last_begin_seconds`: how long after `numo stop` was written anything still began: an admission, a release or an
//! eviction. The worst of some stops in mid-run.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{Event, PoolSpec, WorldSpec};

use super::{Measured, POOL, TO, stage};

const NODES: usize = 60;
const STOPS: usize = 5;
/// How long after a stop is looked at.
const LOOKED_AT: Duration = Duration::from_secs(4);

/// Stops a run with four nodes in flight again and again.
pub async fn measure() -> Result<Measured> {
    let mut pool = PoolSpec::new(POOL, NODES);
    pool.max_unavailable = Some(IntOrString::Int(4));
    let world = WorldSpec {
        pools: vec![pool],
        ..WorldSpec::default()
    };
    let stage = stage(world, "  maxUnavailable: 4\n").await?;
    stage.world.upgrade_to(TO).await?;
    let (mut worst, mut notes) = (0.0_f64, Vec::new());
    for number in 1..=STOPS {
        let before = released(&stage);
        stage
            .world
            .until("nodes are let go", Duration::from_mins(2), |world| {
                world
                    .log()
                    .iter()
                    .filter(|entry| is_release(&entry.event))
                    .count()
                    >= before + 4
            })
            .await?;
        stage.say(&["stop"]).await?;
        tokio::time::sleep(LOOKED_AT).await;
        let audit = stage.cluster.audit()?;
        let stopped = audit
            .iter()
            .filter(|event| {
                event.resource == "mutexbudgets" && event.is_write() && event.user_agent.contains(" stop")
            })
            .map(|event| event.time)
            .max()
            .context("the write of `numo stop`")?;
        let numo = format!("system:serviceaccount:{NAMESPACE}:numo");
        let begun = audit.iter().filter(|event| {
            let admits = event.resource == "nodechanges" && event.verb == "create";
            event.user == numo && (admits || event.subresource == "eviction")
        });
        let log = stage.world.log();
        let let_go = log
            .iter()
            .filter(|entry| is_release(&entry.event))
            .map(|entry| entry.at);
        let last = begun
            .map(|event| event.time)
            .chain(let_go)
            .max()
            .map_or(0.0, |at| at.duration_since(stopped).as_secs_f64().max(0.0));
        notes.push(format!("stop {number}: the last began {last:.3} s after it"));
        worst = worst.max(last);
        stage.say(&["start"]).await?;
    }
    stage.strike().await?;
    Ok(Measured { value: worst, notes })
}

fn is_release(event: &Event) -> bool {
    matches!(event, Event::DesiredConfigSet { zero_diff: false, .. })
}

fn released(stage: &Stage) -> usize {
    let log = stage.world.log();
    log.iter().filter(|entry| is_release(&entry.event)).count()
}
