//! Simulates the cluster-version operator (spec 4.8, 4.11a): takes in a desired update, brings in
//! the control plane, and says Completed when its pools are updated, however old workers are.
//!
//! May not touch pools or nodes. The new machine-config operator "runs" from 80 % of the payload on:
//! that is when the render controller begins to use the new release.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use crate::content::Release;
use crate::context::{Context, write};
use crate::fault::Fault;
use crate::openshift::{
    CLUSTER_VERSION_OPERATOR, ClusterVersion, ClusterVersionStatus, Condition, MachineConfigPool,
    REQUIRED_FOR_UPGRADE, Update, UpdateHistory, pool_condition, release_version, set_condition,
};

/// Manifests in a payload; only for the message.
const MANIFESTS: u32 = 900;

/// Serves the ClusterVersion `version` until the world ends.
pub(crate) async fn run(ctx: Arc<Context>) {
    let mut version = ctx.versions.follow("version");
    loop {
        let behind = |v: &Option<Arc<ClusterVersion>>| v.as_ref().is_some_and(|v| is_behind(v));
        let Ok(seen) = version.wait_for(behind).await.map(|v| v.clone()) else {
            return;
        };
        let Some(seen) = seen else { continue };
        if let Err(error) = serve(&ctx, &seen).await {
            tracing::warn!(error = format!("{error:#}"), "cluster version is tried again");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Whether spec was not looked at yet, or its update is not brought in.
fn is_behind(version: &ClusterVersion) -> bool {
    let Some(status) = &version.status else {
        return true;
    };
    status.observed_generation != version.metadata.generation.unwrap_or_default()
        || status.desired.version != wanted(version, status).version
        || status.history.first().is_some_and(|h| h.state != "Completed")
}

async fn serve(ctx: &Context, version: &ClusterVersion) -> Result<()> {
    let status = version.status.clone().unwrap_or_default();
    let wanted = wanted(version, &status);
    if status.desired.version != wanted.version {
        ctx.pass(1.0).await;
        if ctx.faults.any(|f| *f == Fault::ReleaseRefused) {
            return refuse(ctx, version, status, &wanted).await;
        }
        return accept(ctx, version, status, wanted).await;
    }
    let generation = version.metadata.generation.unwrap_or_default();
    if status.observed_generation != generation {
        let status = ClusterVersionStatus {
            observed_generation: generation,
            ..status
        };
        return write_status(ctx, &status).await;
    }
    bring_in(ctx, status).await
}

/// The version asked for. An update given by image alone names it after its last colon.
fn wanted(version: &ClusterVersion, status: &ClusterVersionStatus) -> Update {
    let Some(update) = &version.spec.desired_update else {
        return status.desired.clone();
    };
    let named = update.version.clone().filter(|v| !v.is_empty());
    let image = update.image.clone().filter(|i| !i.is_empty());
    let version = named.or_else(|| {
        image
            .as_ref()
            .and_then(|i| i.rsplit(':').next().map(str::to_owned))
    });
    let image = image.or_else(|| version.as_deref().map(release_image));
    Update { version, image }
}

/// Image of a release.
pub(crate) fn release_image(version: &str) -> String {
    format!("release.world.example/ocp-release:{version}")
}

/// Says why the release is not taken in, for as long as that holds or until something else is asked for.
async fn refuse(
    ctx: &Context,
    version: &ClusterVersion,
    mut status: ClusterVersionStatus,
    wanted: &Update,
) -> Result<()> {
    let name = wanted.version.clone().unwrap_or_default();
    status.observed_generation = version.metadata.generation.unwrap_or_default();
    let message = format!("Preconditions failed for payload loaded version=\"{name}\"");
    let refused = Condition::new("ReleaseAccepted", false, "PreconditionChecks", message);
    set_condition(&mut status.conditions, refused);
    write_status(ctx, &status).await?;
    tokio::select! {
        () = ctx.faults.until_none(|f| *f == Fault::ReleaseRefused) => {}
        () = ctx.versions.until(|_| is_superseded(ctx, &name)) => {}
    }
    Ok(())
}

async fn accept(
    ctx: &Context,
    version: &ClusterVersion,
    mut status: ClusterVersionStatus,
    wanted: Update,
) -> Result<()> {
    let name = wanted
        .version
        .clone()
        .context("an update without version or image")?;
    let image = wanted.image.clone().unwrap_or_default();
    let now = Some(Timestamp::now());
    if let Some(newest) = status.history.first_mut()
        && newest.completion_time.is_none()
    {
        newest.completion_time = now;
    }
    status.history.insert(
        0,
        UpdateHistory {
            state: "Partial".into(),
            started_time: now,
            completion_time: None,
            version: name.clone(),
            image: image.clone(),
            verified: true,
        },
    );
    status.desired = wanted;
    status.observed_generation = version.metadata.generation.unwrap_or_default();
    set_condition(
        &mut status.conditions,
        Condition::new(
            "ReleaseAccepted",
            true,
            "PayloadLoaded",
            format!("Payload loaded version=\"{name}\""),
        ),
    );
    set_condition(&mut status.conditions, progressing(&name, 0));
    write_status(ctx, &status).await
}

fn progressing(version: &str, done: u32) -> Condition {
    let percent = done * 100 / MANIFESTS;
    let message = format!("Working towards {version}: {done} of {MANIFESTS} done ({percent}% complete)");
    Condition::new("Progressing", true, "ClusterOperatorUpdating", message)
}

/// Control plane, then the machine-config operator, which waits for the required pools.
async fn bring_in(ctx: &Context, mut status: ClusterVersionStatus) -> Result<()> {
    let version = status.desired.version.clone().unwrap_or_default();
    if ctx.release.borrow().version != version {
        ctx.pass(ctx.timings().control_plane).await;
        if is_superseded(ctx, &version) {
            return Ok(());
        }
        set_condition(&mut status.conditions, progressing(&version, MANIFESTS * 8 / 10));
        write_status(ctx, &status).await?;
        start_machine_config_operator(ctx, &version);
    }
    tokio::select! {
        () = until_required_pools_are_updated(ctx, &version) => {}
        () = ctx.versions.until(|_| is_superseded(ctx, &version)) => return Ok(()),
    }
    if let Some(newest) = status.history.first_mut() {
        newest.state = "Completed".into();
        newest.completion_time = Some(Timestamp::now());
    }
    let message = format!("Cluster version is {version}");
    set_condition(
        &mut status.conditions,
        Condition::new("Progressing", false, "", message),
    );
    set_condition(
        &mut status.conditions,
        Condition::new("Available", true, "", format!("Done applying {version}")),
    );
    write_status(ctx, &status).await
}

/// Whether the administrator has asked for something else meanwhile.
fn is_superseded(ctx: &Context, version: &str) -> bool {
    ctx.versions.get("version").is_some_and(|v| {
        let status = v.status.clone().unwrap_or_default();
        wanted(&v, &status).version.as_deref() != Some(version)
    })
}

/// From here on the render controller uses the new release.
fn start_machine_config_operator(ctx: &Context, version: &str) {
    let old = ctx.release.borrow().clone();
    let mut new = Release {
        version: version.into(),
        os_version: version.into(),
        ..old.clone()
    };
    if ctx.faults.any(|f| *f == Fault::EqualRelease) {
        new.os_version = old.os_version;
    } else if ctx.faults.any(|f| *f == Fault::ZeroDiff) {
        new.os_version = old.os_version;
        // Content that differs in a part on which no node acts.
        new.ignition = format!("3.4.0-{version}");
    }
    ctx.release.send_replace(new);
}

/// Required pools only, but a degraded pool of any kind blocks too.
async fn until_required_pools_are_updated(ctx: &Context, version: &str) {
    let mut configs = ctx.configs.changes();
    let mut pools = ctx.pools.changes();
    loop {
        let all = ctx.pools.all();
        let degraded = all.iter().any(|p| pool_condition(p, "Degraded") == "True");
        let rendered = all.iter().all(|p| renders(ctx, p, version));
        let mut required = all
            .iter()
            .filter(|p| p.labels().contains_key(REQUIRED_FOR_UPGRADE));
        if !degraded && rendered && required.all(|p| is_updated(p)) {
            return;
        }
        let alive = tokio::select! {
            r = configs.changed() => r.is_ok(),
            r = pools.changed() => r.is_ok(),
        };
        if !alive {
            return;
        }
    }
}

fn renders(ctx: &Context, pool: &MachineConfigPool, version: &str) -> bool {
    ctx.configs
        .get(&pool.spec.configuration.name)
        .is_some_and(|c| release_version(&c) == version)
}

/// Updated, and not said of an older generation.
pub(crate) fn is_updated(pool: &MachineConfigPool) -> bool {
    let status = pool.status.as_ref();
    pool_condition(pool, "Updated") == "True"
        && status.map(|s| s.observed_generation) == pool.metadata.generation
        && status.is_some_and(|s| s.configuration.name == pool.spec.configuration.name)
}

/// Replaces the whole status: a merge patch would drop the null completion time of a history entry.
pub(crate) async fn write_status(ctx: &Context, status: &ClusterVersionStatus) -> Result<()> {
    let api: Api<ClusterVersion> = Api::all(ctx.client.clone());
    let params = PostParams {
        field_manager: Some(CLUSTER_VERSION_OPERATOR.into()),
        ..PostParams::default()
    };
    let written = write(|| async {
        let mut version = api.get("version").await?;
        version.status = Some(status.clone());
        api.replace_status("version", &params, &version).await
    });
    if let Some(version) = written.await.context("writing status of the ClusterVersion")? {
        ctx.versions.learn(version);
    }
    Ok(())
}
