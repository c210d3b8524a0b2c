//! `drain_wall_ratio_to_kubectl`, `drain_requests_ratio_to_kubectl`: ten nodes with 110 pods each, drained by NodeMaintenances
//! and by as many `kubectl drain` with the same options, on one API server in one run.
//!
//! The pods have no controller, so that each drain finds the same ones; both take them with `--force`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use numo_cluster::User;
use numo_e2e::{NAMESPACE, Stage, StageOptions};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{Measured, POOL};

const NODES: usize = 10;
const PODS: usize = 110;
const SHOP: &str = "shop";
const IN_TIME: Duration = Duration::from_mins(10);

/// What one drain of all nodes cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    wall_seconds: f64,
    requests: usize,
}

static COSTS: OnceCell<(Cost, Cost)> = OnceCell::const_new();

/// Wall time: numo's as a ratio to kubectl's.
pub async fn wall() -> Result<Measured> {
    let (numo, kubectl) = COSTS.get_or_try_init(measure).await?;
    Ok(Measured {
        value: numo.wall_seconds / kubectl.wall_seconds,
        notes: notes(numo, kubectl),
    })
}

/// Requests: numo's as a ratio to kubectl's.
pub async fn requests() -> Result<Measured> {
    let (numo, kubectl) = COSTS.get_or_try_init(measure).await?;
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let value = numo.requests as f64 / kubectl.requests as f64;
    Ok(Measured {
        value,
        notes: notes(numo, kubectl),
    })
}

fn notes(numo: &Cost, kubectl: &Cost) -> Vec<String> {
    vec![
        format!("{NODES} nodes, {PODS} pods each: numo {numo:?}"),
        format!("kubectl drain {kubectl:?}"),
    ]
}

async fn measure() -> Result<(Cost, Cost)> {
    let options = StageOptions {
        world: WorldSpec {
            pools: vec![PoolSpec::new(POOL, NODES)],
            ..WorldSpec::default()
        },
        cluster: Some(numo_cluster::Options {
            scale: true,
            ..numo_cluster::Options::default()
        }),
        ..StageOptions::default()
    };
    let stage = Stage::set(options).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let shop = serde_json::from_value(json!({"metadata": {"name": SHOP}}))?;
    namespaces.create(&PostParams::default(), &shop).await?;
    let account: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(stage.client.clone(), SHOP);
    stage
        .until("the namespace has its ServiceAccount", 30, || async {
            Ok(account.get_opt("default").await?)
        })
        .await?;
    fill(&stage).await?;
    let kubectl = by_kubectl(&stage).await?;
    fill(&stage).await?;
    let numo = by_numo(&stage).await?;
    stage.strike().await?;
    Ok((numo, kubectl))
}

/// Fills every node with pods that run.
async fn fill(stage: &Stage) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), SHOP);
    for node in 0..NODES {
        for pod in 0..PODS {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": format!("pod-{node}-{pod}")},
                "spec": {
                    "nodeName": format!("{POOL}-{node}"), "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "app", "image": "app"}],
                },
            }))?;
            api.create(&PostParams::default(), &pod).await?;
        }
    }
    stage
        .until("every pod runs", IN_TIME.as_secs(), || async {
            let params = ListParams::default().fields("status.phase=Running");
            let running = api.list_metadata(&params).await?.items.len();
            Ok((running == NODES * PODS).then_some(()))
        })
        .await
}

async fn is_empty(stage: &Stage) -> Result<bool> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), SHOP);
    Ok(api.list_metadata(&ListParams::default()).await?.items.is_empty())
}

async fn by_kubectl(stage: &Stage) -> Result<Cost> {
    let (command, kubeconfig) = stage.cluster.kubectl(User::Person);
    let asked = stage.cluster.audit()?.len();
    let began = Instant::now();
    let drains = (0..NODES).map(|node| {
        let (program, first) = (command[0].clone(), command[1..].to_vec());
        let kubeconfig = kubeconfig.clone();
        async move {
            let status = tokio::process::Command::new(program)
                .args(first)
                .arg(format!("--kubeconfig={}", kubeconfig.display()))
                .args(["drain", &format!("{POOL}-{node}")])
                .args(["--force", "--delete-emptydir-data", "--ignore-daemonsets"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .await?;
            ensure!(status.success(), "kubectl drain {POOL}-{node}: {status}");
            Ok::<_, anyhow::Error>(())
        }
    });
    try_join_all(drains).await?;
    let wall_seconds = began.elapsed().as_secs_f64();
    ensure!(is_empty(stage).await?, "kubectl left pods");
    let events = stage.cluster.audit()?.split_off(asked);
    let requests = events
        .iter()
        .filter(|event| event.user_agent.starts_with("kubectl"))
        .count();
    for node in 0..NODES {
        stage.cordon(&format!("{POOL}-{node}"), false).await?;
    }
    Ok(Cost {
        wall_seconds,
        requests,
    })
}

async fn by_numo(stage: &Stage) -> Result<Cost> {
    let gvk = GroupVersionKind::gvk("nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodemaintenances");
    let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
    let asked = stage.cluster.audit()?.len();
    let began = Instant::now();
    for node in 0..NODES {
        let object = serde_json::from_value(json!({
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1", "kind": "NodeMaintenance",
            "metadata": {"name": format!("drain-{node}")},
            "spec": {"nodeName": format!("{POOL}-{node}")},
        }))?;
        api.create(&PostParams::default(), &object).await?;
    }
    while !is_done(&api).await? {
        ensure!(
            began.elapsed() < IN_TIME,
            "not within {IN_TIME:?}\n{}",
            stage.picture().await
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let wall_seconds = began.elapsed().as_secs_f64();
    ensure!(is_empty(stage).await?, "numo left pods");
    let user = format!("system:serviceaccount:{NAMESPACE}:numo");
    let events = stage.cluster.audit()?.split_off(asked);
    let requests = events
        .iter()
        .filter(|event| event.user == user && !(event.resource == "leases" && event.namespace == NAMESPACE))
        .count();
    for node in 0..NODES {
        api.delete(&format!("drain-{node}"), &DeleteParams::default())
            .await?;
    }
    Ok(Cost {
        wall_seconds,
        requests,
    })
}

async fn is_done(api: &Api<DynamicObject>) -> Result<bool> {
    let all = api.list(&ListParams::default()).await?.items;
    let phase = |object: &DynamicObject| {
        let phase = object.data.pointer("/status/phase").context("a phase");
        phase.is_ok_and(|phase| phase == "Succeeded")
    };
    Ok(all.iter().all(phase))
}
