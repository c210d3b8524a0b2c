//! Simulates what else the machine-config operator writes (head of the spec, 4.8): its
//! ClusterOperator, and, up to 4.21, the nodeSelector of the built-in pools.
//!
//! May not touch nodes or custom pools.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::content::{kubelet_version, kubernetes_minor};
use crate::context::{Context, manager, on_changes, write};
use crate::membership::{matches, replacement, tidy};
use crate::openshift::{
    ARBITER, ClusterOperator, Condition, MACHINE_CONFIG_OPERATOR, MASTER, MachineConfigPool, WORKER,
    pool_condition, set_condition,
};

/// Name of the ClusterOperator.
pub(crate) const NAME: &str = "machine-config";

/// Syncs after each burst of pool events.
pub(crate) async fn run(ctx: Arc<Context>) {
    let settle = ctx.time().of(ctx.timings().pool_sync);
    on_changes(ctx.pools.changes(), settle, "machine-config operator", || {
        sync(&ctx)
    })
    .await;
}

async fn sync(ctx: &Context) -> Result<()> {
    let pools = ctx.pools.all();
    if ctx.spec.mco.reverts_built_in_selectors() {
        for pool in &pools {
            revert_selector(ctx, pool).await?;
        }
    }
    write_cluster_operator(ctx, &pools).await
}

/// The nodeSelector of a built-in pool.
pub(crate) fn built_in_selector(pool: &str) -> Option<LabelSelector> {
    let key = match pool {
        "master" => MASTER,
        "arbiter" => ARBITER,
        "worker" => WORKER,
        _ => return None,
    };
    let match_labels = Some([(key.to_owned(), String::new())].into());
    Some(LabelSelector {
        match_labels,
        match_expressions: None,
    })
}

async fn revert_selector(ctx: &Context, pool: &MachineConfigPool) -> Result<()> {
    let Some(original) = built_in_selector(&pool.name_any()) else {
        return Ok(());
    };
    let now = pool.spec.node_selector.as_ref();
    if tidy(now) == original {
        return Ok(());
    }
    let patch = json!({ "spec": { "nodeSelector": replacement(now, &original) } });
    ctx.patch_pool(&pool.name_any(), MACHINE_CONFIG_OPERATOR, patch)
        .await
}

/// How many minors the oldest kubelet of any pool's nodes is behind the API server.
fn kubelet_skew(ctx: &Context, pools: &[Arc<MachineConfigPool>], version: &str) -> u32 {
    let of_a_pool = |n: &Node| {
        let mut selectors = pools.iter().filter_map(|p| p.spec.node_selector.as_ref());
        selectors.any(|s| matches(s, n.labels()))
    };
    let minor = |n: &Node| {
        let info = n.status.as_ref().and_then(|s| s.node_info.as_ref());
        info.and_then(|i| kubernetes_minor(&i.kubelet_version))
    };
    let nodes = ctx.nodes.all();
    let oldest = nodes
        .iter()
        .filter(|n| of_a_pool(n))
        .filter_map(|n| minor(n))
        .min();
    let served = kubernetes_minor(&kubelet_version(version)).unwrap_or_default();
    oldest.map_or(0, |oldest| served.saturating_sub(oldest))
}

fn skew_reason(minors: u32) -> &'static str {
    match minors {
        0 | 1 => "AsExpected",
        2 => "KubeletSkewPresent",
        _ => "KubeletSkewUnsupported",
    }
}

async fn write_cluster_operator(ctx: &Context, pools: &[Arc<MachineConfigPool>]) -> Result<()> {
    let api: Api<ClusterOperator> = Api::all(ctx.client.clone());
    let Some(operator) = api.get_opt(NAME).await? else {
        return Ok(());
    };
    let old = operator.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let version = ctx.release.borrow().version.clone();
    let names = |type_| {
        let such = pools.iter().filter(|p| pool_condition(p, type_) == "True");
        such.map(|p| p.name_any()).collect::<Vec<_>>().join(", ")
    };
    let (degraded, updating) = (names("Degraded"), names("Updating"));
    let (upgradeable, reason) = if !degraded.is_empty() {
        (false, "DegradedPool")
    } else if !updating.is_empty() && ctx.spec.mco.updating_blocks_upgrades() {
        (false, "PoolUpdating")
    } else if updating.is_empty() && ctx.spec.mco.tells_kubelet_skew() {
        // Only the reason says so: the condition stays True.
        (true, skew_reason(kubelet_skew(ctx, pools, &version)))
    } else {
        (true, "AsExpected")
    };
    let is_degraded = !degraded.is_empty();
    let message = if is_degraded {
        format!("Failed to resync {version} because: error MachineConfigPool {degraded} is not ready")
    } else {
        String::new()
    };
    let degraded_reason = if is_degraded { "RequiredPoolsFailed" } else { "" };
    for condition in [
        Condition::new(
            "Available",
            true,
            "AsExpected",
            format!("Cluster has deployed [{{operator {version}}}]"),
        ),
        Condition::new("Degraded", is_degraded, degraded_reason, message),
        Condition::new("Progressing", false, "", format!("Cluster version is {version}")),
        Condition::new("Upgradeable", upgradeable, reason, ""),
    ] {
        set_condition(&mut new.conditions, condition);
    }
    new.versions = vec![[("name".into(), "operator".into()), ("version".into(), version)].into()];
    if new == old {
        return Ok(());
    }
    let (by, patch) = (manager(MACHINE_CONFIG_OPERATOR), json!({ "status": new }));
    write(|| async { api.patch_status(NAME, &by, &Patch::Merge(&patch)).await })
        .await
        .context("patching status of the ClusterOperator")?;
    Ok(())
}
