//! `added_latency_seconds_per_node`: what numo itself adds to a node-upgrade. `job_rule_vs_wasm_rule`: what a rule adds
//! with it, as a Job and as a component.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use numo_e2e::Stage;
use numo_world::{PoolSpec, WorldSpec};

use super::{Measured, POOL, QUICK, QUICK_WASM, RUN, TO, bare_stage, begin, stage};
use crate::timeline::{Part, Span, idle, median, spans};

const NODES: usize = 8;

/// Upgrades nodes one by one with each strategy; the slower one counts.
pub async fn measure() -> Result<Measured> {
    let mut value: f64 = 0.0;
    let mut notes = Vec::new();
    for (strategy, canary) in [("DesiredConfig", false), ("CanaryPool", true)] {
        let added = upgrade(canary).await?;
        let longest = added.iter().copied().fold(0.0, f64::max);
        let middle = median(added).context("no two nodes were upgraded")?;
        notes.push(format!(
            "{strategy}: median {middle:.3} s, longest {longest:.3} s"
        ));
        value = value.max(middle);
    }
    Ok(Measured { value, notes })
}

async fn upgrade(canary: bool) -> Result<Vec<f64>> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new(POOL, NODES)],
        canary,
        ..WorldSpec::default()
    };
    let spec = if canary { "  canary: {name: canary}\n" } else { "" };
    let stage = stage(world, spec).await?;
    Ok(added(&finish(stage).await?))
}

/// Upgrades all nodes, and takes the stage down.
async fn finish(stage: Stage) -> Result<Vec<Span>> {
    stage.world.upgrade_to(TO).await?;
    stage.upgraded(POOL, TO).await?;
    stage.condition(RUN, "Ready", "True", "Succeeded").await?;
    let spans = spans(&stage.world.records());
    stage.strike().await?;
    Ok(spans)
}

/// Upgrades nodes one by one with the quick rule, once as a Job and once as a component: how many times as long the first
/// takes, all that is not the machine-config operator's counted, numo's own share too.
pub async fn kinds() -> Result<Measured> {
    let (mut value, mut notes) = (Vec::new(), Vec::new());
    for (kind, rule) in [("Job", QUICK), ("component", QUICK_WASM)] {
        let world = WorldSpec {
            pools: vec![PoolSpec::new(POOL, NODES)],
            ..WorldSpec::default()
        };
        let stage = bare_stage(world).await?;
        if kind == "component" {
            store(&stage).await?;
        }
        stage.apply(rule).await?;
        begin(&stage, "").await?;
        let mut spans = finish(stage).await?;
        spans.retain(|span| span.part == Part::Change);
        let middle = median(added(&spans)).context("no two nodes were upgraded")?;
        notes.push(format!(
            "as a {kind}, in Pre and Post: median {:.0} ms of each node",
            middle * 1000.0
        ));
        value.push(middle);
    }
    Ok(Measured {
        value: value[0] / value[1],
        notes,
    })
}

/// Puts the component of the quick rule into its ConfigMap.
async fn store(stage: &Stage) -> Result<()> {
    let folder = numo_e2e::rules::components(&["node-requirement"]).await?;
    let bytes = std::fs::read(folder.join("node-requirement.wasm"))?;
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("quick".to_owned()),
            ..ObjectMeta::default()
        },
        binary_data: Some([("rule.wasm".to_owned(), ByteString(bytes))].into()),
        ..ConfigMap::default()
    };
    stage
        .api::<ConfigMap>()
        .create(&PostParams::default(), &map)
        .await?;
    Ok(())
}

/// For each node of a serial run but the first: the time from the end of the one before to its own end
/// in which neither a Job of a rule nor the machine-config operator was at work.
pub(super) fn added(spans: &[Span]) -> Vec<f64> {
    let mut ends: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for span in spans {
        if let Some(to) = span.to {
            let end = ends.entry(&span.node).or_insert(to);
            *end = to.max(*end);
        }
    }
    let mut ends: Vec<Timestamp> = ends.into_values().collect();
    ends.sort_unstable();
    let busy: Vec<(Timestamp, Timestamp)> = spans
        .iter()
        .filter_map(|span| Some((span.from, span.to?)))
        .collect();
    ends.windows(2)
        .map(|pair| idle(pair[0], pair[1], busy.iter().copied()).as_secs_f64())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_between_two_nodes_belongs_to_the_later_one() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let rule = |phase: &str| Part::Rule {
            rule: "ns/quick".into(),
            phase: phase.into(),
        };
        let span = |node: &str, part, from, to| Span {
            node: node.into(),
            part,
            from: at(from),
            to: Some(at(to)),
        };
        let spans = [
            span("a", rule("Pre"), 10, 12),
            span("a", Part::Change, 15, 20),
            span("a", rule("Post"), 20, 22),
            span("b", rule("Pre"), 25, 26),
            span("b", Part::Change, 27, 40),
            span("b", rule("Post"), 42, 43),
        ];
        // 22 to 25, 26 to 27, 40 to 42.
        assert_eq!(added(&spans), [6.0]);
    }
}
