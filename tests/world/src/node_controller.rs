//! Simulates the machine-config controller's node controller (spec 4.3, 4.4, 4.7, Appendix A `sync`).
//!
//! [`decide`] is pure and follows the spec letter by letter; the rest applies what it says. May not
//! cordon, drain or reboot: that is asked by the daemon.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::context::{Context, manager, on_changes, write};
use crate::membership::{Labels, primary_pool};
use crate::openshift::{
    CURRENT_CONFIG, CUSTOM_POOL_LABELS_APPLIED, Condition, DESIRED_CONFIG, FIRST_PIVOT_CONFIG,
    MACHINE_CONFIG_CONTROLLER, MachineConfigPool, MachineConfigPoolStatus, STATE, UPDATE_IN_PROGRESS, ZONE,
    annotation, is_ready, is_unschedulable, set_condition,
};
use crate::render::sources;

/// Syncs all pools after each burst of changes.
pub(crate) async fn run(ctx: Arc<Context>) {
    let changed = tokio::sync::watch::Sender::new(0);
    let changes = changed.subscribe();
    let (mut pools, mut nodes) = (ctx.pools.changes(), ctx.nodes.changes());
    let notice = async {
        loop {
            let alive = tokio::select! {
                r = pools.changed() => r.is_ok(),
                r = nodes.changed() => r.is_ok(),
            };
            if !alive {
                return;
            }
            changed.send_modify(|v| *v += 1);
        }
    };
    let settle = ctx.time().of(ctx.timings().pool_sync);
    let passes = on_changes(changes, settle, "node controller", || sync_all(&ctx));
    tokio::join!(notice, passes);
}

async fn sync_all(ctx: &Context) -> Result<()> {
    let pools = ctx.pools.all();
    let nodes = ctx.nodes.all();
    for pool in &pools {
        let members: Vec<&Node> = members(pool, &pools, &nodes);
        let rendered = !sources(pool, &ctx.configs.all()).is_empty();
        let decision = decide(pool, &members, rendered);
        apply(ctx, pool, &decision).await?;
    }
    Ok(())
}

fn members<'a>(
    pool: &MachineConfigPool,
    pools: &[Arc<MachineConfigPool>],
    nodes: &'a [Arc<Node>],
) -> Vec<&'a Node> {
    let name = pool.name_any();
    let empty = Labels::new();
    nodes
        .iter()
        .map(AsRef::as_ref)
        .filter(|n| {
            let labels = n.metadata.labels.as_ref().unwrap_or(&empty);
            primary_pool(labels, pools.iter().map(AsRef::as_ref)).is(&name)
        })
        .collect()
}

/// What one sync of a pool comes to.
#[derive(Debug, PartialEq)]
struct Decision {
    /// Nodes whose taint must come (true) or go.
    taints: Vec<(String, bool)>,
    /// Nodes that are told to update now.
    release: Vec<String>,
    status: MachineConfigPoolStatus,
}

fn decide(pool: &MachineConfigPool, nodes: &[&Node], rendered: bool) -> Decision {
    let config = &pool.spec.configuration.name;
    let status = status(pool, nodes, rendered);
    let mut decision = Decision {
        taints: Vec::new(),
        release: Vec::new(),
        status,
    };
    if config.is_empty() || pool.metadata.deletion_timestamp.is_some() || pool.spec.paused {
        return decision;
    }
    for node in nodes {
        let behind = annotation(node, DESIRED_CONFIG) != config;
        if behind != has_taint(node) {
            decision.taints.push((node.name_any(), behind));
        }
    }
    decision.release = candidates(pool, nodes);
    decision
}

/// The nodes to update now, within maxUnavailable.
fn candidates(pool: &MachineConfigPool, nodes: &[&Node]) -> Vec<String> {
    let config = &pool.spec.configuration.name;
    let unavailable = nodes.iter().filter(|n| is_unavailable(n)).count();
    let mut capacity =
        max_unavailable(pool.spec.max_unavailable.as_ref(), nodes.len()).saturating_sub(unavailable);
    let failing = nodes
        .iter()
        .filter(|n| annotation(n, DESIRED_CONFIG) == config && is_failing(n))
        .count();
    if failing >= capacity {
        return Vec::new();
    }
    capacity -= failing;
    let mut behind: Vec<&&Node> = nodes
        .iter()
        .filter(|n| annotation(n, DESIRED_CONFIG) != config && is_ready(n) && !is_unschedulable(n))
        .collect();
    if behind.len() > capacity {
        behind.sort_by_key(|n| {
            let zone = n.labels().get(ZONE).cloned();
            (
                zone.is_none(),
                zone,
                n.metadata.creation_timestamp.as_ref().map(|t| t.0),
            )
        });
        behind.truncate(capacity);
    }
    behind.into_iter().map(|n| n.name_any()).collect()
}

/// maxUnavailable of so many nodes: percentages are rounded down, and it is never less than one.
fn max_unavailable(spec: Option<&IntOrString>, nodes: usize) -> usize {
    let wanted = match spec {
        None => 1,
        Some(IntOrString::Int(n)) => usize::try_from(*n).unwrap_or(0),
        Some(IntOrString::String(s)) => s
            .trim_end_matches('%')
            .parse::<usize>()
            .map_or(1, |percent| nodes * percent / 100),
    };
    wanted.max(1)
}

fn is_done(node: &Node) -> bool {
    let current = annotation(node, CURRENT_CONFIG);
    !current.is_empty() && current == annotation(node, DESIRED_CONFIG) && annotation(node, STATE) == "Done"
}

fn is_failing(node: &Node) -> bool {
    annotation(node, CURRENT_CONFIG) != annotation(node, DESIRED_CONFIG) && is_degraded(node)
}

fn is_degraded(node: &Node) -> bool {
    matches!(annotation(node, STATE), "Degraded" | "Unreconcilable")
}

fn is_unavailable(node: &Node) -> bool {
    !is_ready(node) || is_unschedulable(node) || (!is_done(node) && !is_failing(node))
}

fn has_taint(node: &Node) -> bool {
    node.spec
        .as_ref()
        .and_then(|s| s.taints.as_ref())
        .is_some_and(|t| t.iter().any(|t| t.key == UPDATE_IN_PROGRESS))
}

/// Counts and conditions (spec 4.7).
fn status(pool: &MachineConfigPool, nodes: &[&Node], rendered: bool) -> MachineConfigPoolStatus {
    let config = &pool.spec.configuration.name;
    let updated = |n: &Node| is_done(n) && annotation(n, DESIRED_CONFIG) == config;
    let count = |is: &dyn Fn(&Node) -> bool| {
        i32::try_from(nodes.iter().filter(|n| is(n)).count()).unwrap_or(i32::MAX)
    };
    let mut status = pool.status.clone().unwrap_or_default();
    status.observed_generation = pool.metadata.generation.unwrap_or_default();
    status.machine_count = count(&|_| true);
    status.updated_machine_count = count(&updated);
    status.ready_machine_count = count(&|n| updated(n) && is_ready(n));
    status.unavailable_machine_count = count(&is_unavailable);
    status.degraded_machine_count = count(&is_degraded);
    let all_updated = !config.is_empty()
        && status.updated_machine_count == status.machine_count
        && status.ready_machine_count == status.machine_count
        && status.unavailable_machine_count == 0;
    if all_updated {
        status.configuration = pool.spec.configuration.clone();
    }
    let degraded = status.degraded_machine_count;
    let (updating_reason, updating_message) = match (all_updated, pool.spec.paused) {
        (true, _) => ("", String::new()),
        (false, true) => (
            "",
            format!("Pool is paused; will not update to MachineConfig {config}"),
        ),
        (false, false) => ("", format!("All nodes are updating to MachineConfig {config}")),
    };
    let updated_message = if all_updated {
        format!("All nodes are updated with MachineConfig {config}")
    } else {
        String::new()
    };
    let node_message = if degraded > 0 {
        format!("{degraded} nodes are reporting degraded status on sync")
    } else {
        String::new()
    };
    for condition in [
        Condition::new("Updated", all_updated, "", updated_message),
        Condition::new(
            "Updating",
            !all_updated && !pool.spec.paused,
            updating_reason,
            updating_message,
        ),
        Condition::new(
            "RenderDegraded",
            !rendered,
            if rendered { "" } else { "Failed to render" },
            "",
        ),
        Condition::new("NodeDegraded", degraded > 0, &node_message, node_message.clone()),
        Condition::new("Degraded", degraded > 0 || !rendered, "", ""),
    ] {
        set_condition(&mut status.conditions, condition);
    }
    status
}

async fn apply(ctx: &Context, pool: &MachineConfigPool, decision: &Decision) -> Result<()> {
    for (node, wanted) in &decision.taints {
        let taint = wanted.then(|| json!({ "key": UPDATE_IN_PROGRESS, "effect": "PreferNoSchedule" }));
        ctx.taint(node, MACHINE_CONFIG_CONTROLLER, UPDATE_IN_PROGRESS, taint)
            .await?;
    }
    for node in &decision.release {
        if label_first_booted(ctx, node).await? {
            continue;
        }
        tracing::debug!(node, config = pool.spec.configuration.name, "desiredConfig");
        let config = &pool.spec.configuration.name;
        ctx.annotate(node, MACHINE_CONFIG_CONTROLLER, json!({ DESIRED_CONFIG: config }))
            .await?;
    }
    write_status(ctx, pool, &decision.status).await
}

async fn write_status(
    ctx: &Context,
    pool: &MachineConfigPool,
    status: &MachineConfigPoolStatus,
) -> Result<()> {
    if pool.status.as_ref() == Some(status) {
        return Ok(());
    }
    let api: Api<MachineConfigPool> = Api::all(ctx.client.clone());
    let (name, patch) = (pool.name_any(), json!({ "status": status }));
    let by = manager(MACHINE_CONFIG_CONTROLLER);
    let written = write(|| async { api.patch_status(&name, &by, &Patch::Merge(&patch)).await });
    if let Some(pool) = written
        .await
        .with_context(|| format!("patching status of pool {name}"))?
    {
        ctx.pools.learn(pool);
    }
    Ok(())
}

/// From 4.22 on: a node that first booted into a custom pool, but lies in another, is not released
/// there but gets the labels its pool selects by. Says whether that was so.
async fn label_first_booted(ctx: &Context, name: &str) -> Result<bool> {
    if !ctx.spec.mco.labels_first_booted() {
        return Ok(false);
    }
    let Some(node) = ctx.nodes.get(name) else {
        return Ok(false);
    };
    let first = ctx.configs.get(annotation(&node, FIRST_PIVOT_CONFIG));
    let owner = first.and_then(|c| c.owner_references().first().map(|o| o.name.clone()));
    let pool = owner
        .filter(|pool| !matches!(pool.as_str(), "master" | "worker"))
        .and_then(|pool| ctx.pools.get(&pool));
    let labels = pool.and_then(|p| p.spec.node_selector.as_ref()?.match_labels.clone());
    let Some(labels) = labels.filter(|_| !node.annotations().contains_key(CUSTOM_POOL_LABELS_APPLIED)) else {
        return Ok(false);
    };
    let annotations = json!({ CUSTOM_POOL_LABELS_APPLIED: "" });
    let patch = json!({ "metadata": { "labels": labels, "annotations": annotations } });
    ctx.patch_node(name, MACHINE_CONFIG_CONTROLLER, patch).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openshift::{Configuration, MachineConfigPoolSpec};

    struct N(&'static str, &'static str, &'static str, &'static str, bool);

    fn node(n: &N) -> Node {
        let N(name, current, desired, state, ready) = n;
        serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "annotations": { CURRENT_CONFIG: current, DESIRED_CONFIG: desired, STATE: state },
            },
            "status": { "conditions": [{ "type": "Ready", "status": if *ready { "True" } else { "False" } }] },
        }))
        .unwrap()
    }

    fn check(max: i32, paused: bool, nodes: &[N], release: &[&str], updated: i32, unavailable: i32) {
        let pool = MachineConfigPool::new(
            "worker",
            MachineConfigPoolSpec {
                configuration: Configuration {
                    name: "new".into(),
                    source: Vec::new(),
                },
                paused,
                max_unavailable: Some(IntOrString::Int(max)),
                ..MachineConfigPoolSpec::default()
            },
        );
        let nodes: Vec<Node> = nodes.iter().map(node).collect();
        let decision = decide(&pool, &nodes.iter().collect::<Vec<_>>(), true);
        assert_eq!(decision.release, release);
        assert_eq!(decision.status.updated_machine_count, updated);
        assert_eq!(decision.status.unavailable_machine_count, unavailable);
    }

    #[test]
    fn a_pool_rolls_within_its_limit() {
        let old = |name| N(name, "old", "old", "Done", true);
        check(1, false, &[old("a"), old("b")], &["a"], 0, 0);
        check(2, false, &[old("a"), old("b")], &["a", "b"], 0, 0);
        check(1, true, &[old("a"), old("b")], &[], 0, 0);
        check(
            1,
            false,
            &[N("a", "old", "new", "Working", true), old("b")],
            &[],
            0,
            1,
        );
        check(
            1,
            false,
            &[N("a", "new", "new", "Done", true), old("b")],
            &["b"],
            1,
            0,
        );
        check(
            1,
            false,
            &[N("a", "new", "new", "Done", false), old("b")],
            &[],
            1,
            1,
        );
        check(
            1,
            false,
            &[N("a", "old", "new", "Degraded", true), old("b")],
            &[],
            0,
            0,
        );
        check(
            2,
            false,
            &[N("a", "old", "new", "Degraded", true), old("b"), old("c")],
            &["b"],
            0,
            0,
        );
    }

    #[test]
    fn percentages_round_down_to_at_least_one() {
        let percent = |s: &str, n| max_unavailable(Some(&IntOrString::String(s.into())), n);
        assert_eq!(
            (percent("10%", 5), percent("50%", 5), percent("40%", 10)),
            (1, 2, 4)
        );
        assert_eq!(
            (
                max_unavailable(Some(&IntOrString::Int(0)), 3),
                max_unavailable(None, 3)
            ),
            (1, 1)
        );
    }
}
