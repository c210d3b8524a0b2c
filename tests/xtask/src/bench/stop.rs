//! `stop_last_begin_seconds`: how long after `numo stop` was written anything still began: an admission, a release, a cordon or
//! an eviction. The worst of some stops in mid-run, and of one in mid-drain with another maintenance asked for right after it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::util::intstr::IntOrString};
use kube::{Api, api::ListParams};
use numo_cluster::AuditEvent;
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{Event, PoolSpec, WorldSpec};
use serde_json::json;

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
        let stopped = stopped_at(&audit)?;
        let numo = format!("system:serviceaccount:{NAMESPACE}:numo");
        let begun = audit.iter().filter(|event| {
            let admits = event.resource == "nodechanges" && event.verb == "create";
            event.user == numo && (admits || event.subresource == "eviction")
        });
        let log = stage.world.log();
        let released = log
            .iter()
            .filter(|entry| is_release(&entry.event))
            .map(|entry| entry.at);
        let last = begun
            .map(|event| event.time)
            .chain(released)
            .max()
            .map_or(0.0, |at| at.duration_since(stopped).as_secs_f64().max(0.0));
        notes.push(format!("stop {number}: the last began {last:.3} s after it"));
        worst = worst.max(last);
        stage.say(&["start"]).await?;
    }
    stage.strike().await?;
    let last = in_mid_drain().await?;
    notes.push(format!("stop in mid-drain: the last began {last:.3} s after it"));
    Ok(Measured {
        value: worst.max(last),
        notes,
    })
}

/// When `numo stop` was written last.
fn stopped_at(audit: &[AuditEvent]) -> Result<jiff::Timestamp> {
    let is_stop = |event: &&AuditEvent| {
        event.resource == "mutexbudgets" && event.is_write() && event.user_agent.contains(" stop")
    };
    let written = audit.iter().filter(is_stop).map(|event| event.time).max();
    written.context("the write of `numo stop`")
}

/// Pods that are drained, one at a time, as their budget says.
const PODS: usize = 60;

/// Stops a drain after some evictions, and asks for the maintenance of another node at once: seconds from the stop to the last
/// eviction or write of a node.
async fn in_mid_drain() -> Result<f64> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, 3)],
        ..WorldSpec::default()
    };
    let stage = super::bare_stage(world).await?;
    for node in 1..3 {
        stage.cordon(&format!("{POOL}-{node}"), true).await?;
    }
    stage.apply(&pods()).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    stage
        .until("every pod runs", 120, || async {
            let params = ListParams::default().fields("status.phase=Running");
            Ok((pods.list_metadata(&params).await?.items.len() == PODS).then_some(()))
        })
        .await?;
    stage.cordon(&format!("{POOL}-1"), false).await?;
    stage.apply(&maintenance(0)).await?;
    let numo = format!("system:serviceaccount:{NAMESPACE}:numo");
    let is_begin = |event: &AuditEvent| {
        event.user == numo
            && event.is_write()
            && (event.subresource == "eviction" || event.resource == "nodes")
    };
    stage
        .until("the drain has begun", 60, || async {
            let audit = stage.cluster.audit()?;
            let evictions = audit
                .iter()
                .filter(|event| is_begin(event) && event.subresource == "eviction");
            Ok((evictions.count() >= 5).then_some(()))
        })
        .await?;
    stage.say(&["stop"]).await?;
    stage.apply(&maintenance(2)).await?;
    tokio::time::sleep(LOOKED_AT).await;
    let audit = stage.cluster.audit()?;
    let stopped = stopped_at(&audit)?;
    let last = audit
        .iter()
        .filter(|event| is_begin(event))
        .map(|event| event.time)
        .max();
    let left = pods
        .list_metadata(&ListParams::default().fields(&format!("spec.nodeName={POOL}-0")))
        .await?;
    ensure!(!left.items.is_empty(), "the drain was over before the stop");
    stage.say(&["start"]).await?;
    stage.strike().await?;
    Ok(last.map_or(0.0, |at| at.duration_since(stopped).as_secs_f64().max(0.0)))
}

fn maintenance(node: usize) -> String {
    json!({
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance",
        "metadata": {"name": format!("drain-{node}")}, "spec": {"nodeName": format!("{POOL}-{node}")},
    })
    .to_string()
}

fn pods() -> String {
    let labels = json!({"app": "shop"});
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "replicas": PODS, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "app"}],
            }},
        },
    });
    format!("{budget}\n---\n{deployment}")
}

fn is_release(event: &Event) -> bool {
    matches!(event, Event::DesiredConfigSet { zero_diff: false, .. })
}

fn released(stage: &Stage) -> usize {
    let log = stage.world.log();
    log.iter().filter(|entry| is_release(&entry.event)).count()
}
