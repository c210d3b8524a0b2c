//! Simulates the machine-config controller's render controller (spec 4.2, Appendix A `render`):
//! for every pool, paused or not, one rendered MachineConfig and `spec.configuration`.
//!
//! May not touch nodes, and decides nothing about when they change.

use std::sync::Arc;

use anyhow::Result;
use kube::ResourceExt;
use kube::api::{Patch, PostParams};
use kube::{Api, Resource};
use serde_json::json;

use crate::content::{Release, hash, merge};
use crate::context::{Context, manager, on_changes, write};
use crate::membership::matches;
use crate::openshift::{
    GENERATED_BY, MACHINE_CONFIG_CONTROLLER, MachineConfig, MachineConfigPool, RELEASE_VERSION,
};

/// Renders all pools whenever a MachineConfig, a pool or the operator's version changes.
pub(crate) async fn run(ctx: Arc<Context>) {
    let changed = tokio::sync::watch::Sender::new(0);
    let changes = changed.subscribe();
    let settle = ctx.time().of(ctx.timings().pool_sync);
    let (mut pools, mut configs) = (ctx.pools.changes(), ctx.configs.changes());
    let mut release = ctx.release.subscribe();
    let notice = async {
        loop {
            let alive = tokio::select! {
                r = pools.changed() => r.is_ok(),
                r = configs.changed() => r.is_ok(),
                r = release.changed() => r.is_ok(),
            };
            if !alive {
                return;
            }
            changed.send_modify(|v| *v += 1);
        }
    };
    let passes = on_changes(changes, settle, "render", || render_all(&ctx));
    tokio::join!(notice, passes);
}

async fn render_all(ctx: &Context) -> Result<()> {
    let release = ctx.release.borrow().clone();
    for pool in ctx.pools.all() {
        if pool.metadata.deletion_timestamp.is_none() {
            render(ctx, &pool, &release).await?;
        }
    }
    Ok(())
}

/// The MachineConfigs a pool is made of, sorted by name.
pub(crate) fn sources(pool: &MachineConfigPool, configs: &[Arc<MachineConfig>]) -> Vec<Arc<MachineConfig>> {
    let Some(selector) = &pool.spec.machine_config_selector else {
        return Vec::new();
    };
    // The cache is sorted by name already. Rendered ones carry no role.
    configs
        .iter()
        .filter(|c| matches(selector, c.labels()))
        .cloned()
        .collect()
}

async fn render(ctx: &Context, pool: &MachineConfigPool, release: &Release) -> Result<()> {
    let sources = sources(pool, &ctx.configs.all());
    if sources.is_empty() {
        // The pool's status says RenderDegraded.
        return Ok(());
    }
    let spec = merge(&sources.iter().map(AsRef::as_ref).collect::<Vec<_>>(), release);
    let name = format!("rendered-{}-{}", pool.name_any(), hash(&spec));
    write_config(ctx, pool, &name, spec, release).await?;
    if pool.spec.configuration.name != name {
        let source: Vec<_> = sources
            .iter()
            .map(|s| json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "name": s.name_any() }))
            .collect();
        let patch = json!({ "spec": { "configuration": { "name": name, "source": source } } });
        ctx.patch_pool(&pool.name_any(), MACHINE_CONFIG_CONTROLLER, patch)
            .await?;
    }
    Ok(())
}

async fn write_config(
    ctx: &Context,
    pool: &MachineConfigPool,
    name: &str,
    spec: crate::openshift::MachineConfigSpec,
    release: &Release,
) -> Result<()> {
    let api: Api<MachineConfig> = Api::all(ctx.client.clone());
    let annotations = json!({
        GENERATED_BY: format!("world-{}", release.version),
        RELEASE_VERSION: release.version,
    });
    let written = match ctx.configs.get(name) {
        Some(known) if known.annotations().get(RELEASE_VERSION) == Some(&release.version) => return Ok(()),
        Some(_) => {
            let patch = json!({ "metadata": { "annotations": annotations } });
            let by = manager(MACHINE_CONFIG_CONTROLLER);
            write(|| async { api.patch(name, &by, &Patch::Merge(&patch)).await }).await?
        }
        None => {
            let mut config = MachineConfig::new(name, spec);
            config.metadata.annotations = Some(serde_json::from_value(annotations)?);
            config.metadata.owner_references = pool.controller_owner_ref(&()).map(|owner| vec![owner]);
            let params = PostParams {
                field_manager: Some(MACHINE_CONFIG_CONTROLLER.into()),
                ..PostParams::default()
            };
            write(|| async {
                match api.create(&params, &config).await {
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => api.get(name).await,
                    other => other,
                }
            })
            .await?
        }
    };
    if let Some(config) = written {
        ctx.configs.learn(config);
    }
    Ok(())
}
