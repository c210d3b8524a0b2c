//! Simulates what else the machine-config operator writes (head of the spec, 4.8): its
//! ClusterOperator, and, up to 4.21, the nodeSelector of the built-in pools.
//!
//! May not touch nodes or custom pools.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::context::{Context, manager, on_changes, write};
use crate::openshift::{
    ClusterOperator, Condition, MACHINE_CONFIG_OPERATOR, MASTER, MachineConfigPool, WORKER, pool_condition,
    set_condition,
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
    let now = pool.spec.node_selector.clone().unwrap_or_default();
    let is_original =
        now.match_labels == original.match_labels && now.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if is_original {
        return Ok(());
    }
    let selector = json!({ "matchLabels": original.match_labels, "matchExpressions": null });
    let patch = json!({ "spec": { "nodeSelector": selector } });
    ctx.patch_pool(&pool.name_any(), MACHINE_CONFIG_OPERATOR, patch)
        .await
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
