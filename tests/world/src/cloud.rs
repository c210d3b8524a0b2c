//! What a cloud does to machines: it adds, destroys and replaces them.
//!
//! May not decide when: people and other actors ask for it.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::DeleteParams;

use crate::context::{Context, lock, write};
use crate::machine::{Machine, NodePlan, join};
use crate::setup::plan_late;

/// The machine's Node joins, not yet Ready.
pub(crate) async fn add(ctx: &Arc<Context>, plan: &NodePlan) -> Result<()> {
    join(ctx, plan).await?;
    // Those that were bound before the machine was known here.
    let on_node = |p: &Pod| p.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(&plan.name);
    for pod in ctx.pods.all().into_iter().filter(|p| on_node(p)) {
        ctx.offer(pod);
    }
    Ok(())
}

/// The machine is destroyed, its Node deleted, its faults forgotten.
pub(crate) async fn destroy(ctx: &Context, name: &str) -> Result<Arc<Machine>> {
    let machine = lock(&ctx.machines)
        .remove(name)
        .with_context(|| format!("no machine {name}"))?;
    machine.destroy();
    ctx.faults.heal(Some(name));
    let api: Api<Node> = Api::all(ctx.client.clone());
    write(|| async { api.delete(name, &DeleteParams::default()).await }).await?;
    ctx.nodes.until(|nodes| nodes.get(name).is_none()).await;
    Ok(machine)
}

/// A machine like the one that was destroyed joins: same name, pool and zone.
pub(crate) async fn replace(ctx: &Arc<Context>, old: &Machine) -> Result<()> {
    add(ctx, &plan_late(ctx, &old.pool, &old.name, old.zone)?).await
}
