//! The objects an OpenShift cluster has from the start (Appendix B).

use std::sync::Arc;

use anyhow::{Context as _, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use k8s_openapi::jiff::Timestamp;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::context::{Context, create, manager, write};
use crate::cvo::{release_image, write_status};
use crate::machine::{NodePlan, WINDOWS, join, labels, uuid};
use crate::openshift::{
    ClusterOperator, ClusterOperatorSpec, ClusterVersion, ClusterVersionSpec, ClusterVersionStatus,
    Condition, Infrastructure, InfrastructureSpec, MachineConfig, MachineConfigPool, MachineConfigPoolSpec,
    MachineConfigSpec, REQUIRED_FOR_UPGRADE, ROLE, Update, UpdateHistory, set_condition,
};
use crate::operator::{NAME, built_in_selector};
use crate::spec::PoolSpec;

/// Nodes created at once.
const JOINING: usize = 16;

/// Cluster-wide objects.
pub(crate) async fn create_cluster(ctx: &Context) -> Result<()> {
    let topology = &ctx.spec.topology;
    create(
        &ctx.client,
        &Infrastructure::new("cluster", InfrastructureSpec {}),
    )
    .await?;
    let infrastructure = json!({ "status": {
        "controlPlaneTopology": topology,
        "infrastructureTopology": if topology == "SingleReplica" { "SingleReplica" } else { "HighlyAvailable" },
        "infrastructureName": "world",
        "platform": "None",
    }});
    let api: Api<Infrastructure> = Api::all(ctx.client.clone());
    patch_status(&api, "cluster", &infrastructure).await?;
    create(&ctx.client, &ClusterOperator::new(NAME, ClusterOperatorSpec {})).await?;
    create_cluster_version(ctx).await
}

async fn create_cluster_version(ctx: &Context) -> Result<()> {
    let version = &ctx.spec.version;
    let minor = version
        .rsplit_once('.')
        .map_or(version.as_str(), |(minor, _)| minor);
    let spec = ClusterVersionSpec {
        cluster_id: uuid(ctx),
        channel: Some(format!("stable-{minor}")),
        desired_update: None,
    };
    create(&ctx.client, &ClusterVersion::new("version", spec)).await?;
    let now = Timestamp::now();
    let history = UpdateHistory {
        state: "Completed".into(),
        started_time: Some(now),
        completion_time: Some(now),
        version: version.clone(),
        image: release_image(version),
        verified: false,
    };
    let mut conditions = Vec::new();
    for condition in [
        Condition::new("Available", true, "", format!("Done applying {version}")),
        Condition::new("Progressing", false, "", format!("Cluster version is {version}")),
        Condition::new("Failing", false, "", ""),
        Condition::new("Upgradeable", true, "", ""),
        Condition::new("RetrievedUpdates", true, "", ""),
        Condition::new(
            "ReleaseAccepted",
            true,
            "PayloadLoaded",
            format!("Payload loaded version=\"{version}\""),
        ),
    ] {
        set_condition(&mut conditions, condition);
    }
    let status = ClusterVersionStatus {
        desired: Update {
            version: Some(version.clone()),
            image: Some(release_image(version)),
        },
        observed_generation: 1,
        version_hash: "world".into(),
        available_updates: Some(Vec::new()),
        history: vec![history],
        conditions,
    };
    write_status(ctx, &status).await
}

async fn patch_status<K>(api: &Api<K>, name: &str, status: &Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    write(|| async {
        api.patch_status(name, &manager("world"), &Patch::Merge(status))
            .await
    })
    .await?;
    Ok(())
}

/// Source MachineConfigs and pools; the render controller does the rest.
pub(crate) async fn create_pools(ctx: &Context) -> Result<()> {
    let control_plane = ctx.spec.control_plane();
    for role in control_plane.iter().map(|(pool, _)| *pool).chain(["worker"]) {
        create(
            &ctx.client,
            &source(&format!("00-{role}"), role, "/etc/world/role", role),
        )
        .await?;
    }
    for pool in ctx.spec.pools.iter().filter(|p| p.own_config) {
        let name = format!("50-{}", pool.name);
        create(
            &ctx.client,
            &source(&name, &pool.name, "/etc/world/pool", &pool.name),
        )
        .await?;
    }
    for (pool, _) in control_plane {
        create(&ctx.client, &built_in_pool(&PoolSpec::new(pool, 0))).await?;
    }
    if !ctx.spec.pools.iter().any(|p| p.name == "worker") {
        create(&ctx.client, &built_in_pool(&PoolSpec::new("worker", 0))).await?;
    }
    for pool in &ctx.spec.pools {
        let object = if pool.name == "worker" {
            built_in_pool(pool)
        } else {
            custom_pool(pool)
        };
        create(&ctx.client, &object).await?;
    }
    if ctx.spec.canary {
        create(&ctx.client, &canary_pool()).await?;
    }
    Ok(())
}

/// A MachineConfig of a role with one file.
pub(crate) fn source(name: &str, role: &str, path: &str, text: &str) -> MachineConfig {
    let spec = MachineConfigSpec {
        config: json!({
            "ignition": { "version": "3.4.0" },
            "storage": { "files": [{ "path": path, "contents": { "source": format!("data:,{text}") } }] },
        }),
        ..MachineConfigSpec::default()
    };
    let mut config = MachineConfig::new(name, spec);
    config.labels_mut().insert(ROLE.into(), role.into());
    config
}

fn built_in_pool(spec: &PoolSpec) -> MachineConfigPool {
    let selector = LabelSelector {
        match_labels: Some([(ROLE.into(), spec.name.clone())].into()),
        match_expressions: None,
    };
    let mut pool = MachineConfigPool::new(
        &spec.name,
        MachineConfigPoolSpec {
            machine_config_selector: Some(selector),
            node_selector: built_in_selector(&spec.name),
            max_unavailable: spec.max_unavailable.clone(),
            paused: spec.paused,
            ..MachineConfigPoolSpec::default()
        },
    );
    pool.labels_mut().insert(
        "machineconfiguration.openshift.io/mco-built-in".into(),
        String::new(),
    );
    if spec.name != "worker" {
        pool.labels_mut()
            .insert(REQUIRED_FOR_UPGRADE.into(), String::new());
    }
    pool
}

fn custom_pool(spec: &PoolSpec) -> MachineConfigPool {
    let roles = LabelSelectorRequirement {
        key: ROLE.into(),
        operator: "In".into(),
        values: Some(vec!["worker".into(), spec.name.clone()]),
    };
    let role = format!("node-role.kubernetes.io/{}", spec.name);
    MachineConfigPool::new(
        &spec.name,
        MachineConfigPoolSpec {
            machine_config_selector: Some(LabelSelector {
                match_labels: None,
                match_expressions: Some(vec![roles]),
            }),
            node_selector: Some(LabelSelector {
                match_labels: Some([(role, String::new())].into()),
                match_expressions: None,
            }),
            max_unavailable: spec.max_unavailable.clone(),
            paused: spec.paused,
            ..MachineConfigPoolSpec::default()
        },
    )
}

/// The pool from the replaced operator's page: empty until someone changes its selector.
fn canary_pool() -> MachineConfigPool {
    let parked = LabelSelectorRequirement {
        key: "isCanary".into(),
        operator: "Exists".into(),
        values: None,
    };
    MachineConfigPool::new(
        "canary",
        MachineConfigPoolSpec {
            machine_config_selector: Some(LabelSelector {
                match_labels: Some([(ROLE.into(), "worker".into())].into()),
                match_expressions: None,
            }),
            node_selector: Some(LabelSelector {
                match_labels: Some([(crate::openshift::WORKER.into(), String::new())].into()),
                match_expressions: Some(vec![parked]),
            }),
            ..MachineConfigPoolSpec::default()
        },
    )
}

/// All nodes of the spec, at rest at their pools' config.
pub(crate) async fn create_nodes(ctx: &Arc<Context>) -> Result<()> {
    let control_plane = ctx.spec.control_plane();
    let workers = ctx.spec.pools.iter().map(|p| (p.name.as_str(), p.workers));
    let mut plans: Vec<NodePlan> = control_plane
        .into_iter()
        .chain(workers)
        .flat_map(|(pool, nodes)| (0..nodes).map(move |i| (pool, i)))
        .map(|(pool, i)| plan(ctx, pool, i))
        .collect::<Result<_>>()?;
    plans.extend((0..ctx.spec.windows).map(|i| plan_windows(ctx, i)));
    stream::iter(plans)
        .map(|plan| async move { join(ctx, &plan).await })
        .buffer_unordered(JOINING)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

fn plan(ctx: &Context, pool: &str, index: usize) -> Result<NodePlan> {
    let name = format!("{pool}-{index}");
    let zone = index.checked_rem(ctx.spec.zones);
    let config = ctx
        .pools
        .get(pool)
        .map(|p| p.spec.configuration.name.clone())
        .unwrap_or_default();
    let os_image = ctx
        .configs
        .get(&config)
        .with_context(|| format!("pool {pool} is not rendered"))?;
    let os_image = os_image.spec.os_image_url.clone();
    Ok(NodePlan {
        labels: labels(ctx, &name, pool, zone),
        name,
        pool: pool.to_owned(),
        zone,
        config,
        os_image,
        ready: true,
    })
}

fn plan_windows(ctx: &Context, index: usize) -> NodePlan {
    let (name, zone) = (format!("{WINDOWS}-{index}"), index.checked_rem(ctx.spec.zones));
    NodePlan {
        labels: labels(ctx, &name, WINDOWS, zone),
        name,
        pool: WINDOWS.into(),
        zone,
        config: String::new(),
        os_image: String::new(),
        ready: true,
    }
}

/// A node that joins later: the server of machine configs gives it the new config once the pool has
/// a node that is updated, else the old one (Appendix C.7).
pub(crate) fn plan_late(ctx: &Context, pool: &str, name: &str, zone: Option<usize>) -> Result<NodePlan> {
    let object = ctx.pools.get(pool).with_context(|| format!("no pool {pool}"))?;
    let status = object.status.clone().unwrap_or_default();
    let config = if status.updated_machine_count > 0 || status.configuration.name.is_empty() {
        object.spec.configuration.name.clone()
    } else {
        status.configuration.name
    };
    let os_image = ctx
        .configs
        .get(&config)
        .with_context(|| format!("no MachineConfig {config}"))?;
    let os_image = os_image.spec.os_image_url.clone();
    Ok(NodePlan {
        name: name.to_owned(),
        pool: pool.to_owned(),
        zone,
        labels: labels(ctx, name, pool, zone),
        config,
        os_image,
        ready: false,
    })
}
