//! Nodes that die under the Job of a Plan: one that nothing has come of gives its turn back, one that may be changing
//! keeps it until a person leaves it out. The others go on.

use anyhow::{Context, Result};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, ResourceQuota},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use numo_api::Step;
use numo_e2e::Stage;
use numo_world::Fault;
use serde_json::json;

use crate::{
    Gate, apply, explained,
    maintenance::{is_cordoned, node},
    plans::{PLANS, complete, is_restored, jobs, plan, stage, step},
};

/// Settings of a Plan whose nodes are begun in the order of their names.
fn in_order() -> serde_json::Value {
    json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "in-order"},
        "spec": {"ownerSelector": {"kind": "Plan"}, "order": "Name"},
    })
}

fn dies(stage: &Stage, node: &str) {
    stage.world.inject(Fault::NotReady {
        node: node.to_owned(),
    });
}

async fn jobs_of(stage: &Stage, node: &str) -> Result<Vec<Job>> {
    let mut all = jobs(stage).await?;
    all.retain(|job| job.labels().get(numo_api::marks::PLAN_NODE).map(String::as_str) == Some(node));
    Ok(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_before_its_pod_begins_does_not_stop_a_plan() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let quota: ResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}))?;
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client.clone(), PLANS);
    quotas.create(&PostParams::default(), &quota).await?;
    stage
        .until("the quota is enforced", 60, || async {
            let status = quotas.get("no-pods").await?.status.unwrap_or_default();
            Ok(status.hard.filter(|hard| !hard.is_empty()))
        })
        .await?;
    // Its pod is put on the node though that is not Ready.
    let spec = json!({"cordon": true, "tolerations": [{"operator": "Exists"}]});
    apply(&stage, &[in_order(), plan("k3s", "true", spec)]).await?;
    step(&stage, "worker-0", Step::Released).await?;
    let text = explained(&stage, "worker-0", "exceeded quota", 60).await?;
    assert!(text.contains("UpgradeCannotStart"), "{text}");
    // It dies; its pod comes too late for any kubelet.
    dies(&stage, "worker-0");
    explained(&stage, "worker-0", "NodeNotReady", 60).await?;
    quotas.delete("no-pods", &DeleteParams::default()).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), PLANS);
    stage
        .until("the pod is bound to the dead node", 60, || async {
            let all = pods.list(&ListParams::default()).await?.items;
            let bound = all.iter().any(|pod| {
                let spec = pod.spec.as_ref();
                spec.and_then(|spec| spec.node_name.as_deref()) == Some("worker-0")
            });
            Ok(bound.then_some(()))
        })
        .await?;
    let change = stage
        .until("the turn is given back", 120, || async {
            let change = step(&stage, "worker-0", Step::Selected).await;
            Ok(change.ok())
        })
        .await?;
    let status = change.status.context("a journal")?;
    assert_eq!(
        (status.attempt, status.reason.as_deref()),
        (2, Some("NodeNotReady"))
    );
    stage.event("Node", "worker-0", "TurnEnded").await?;
    // The other one goes on, and nothing is left of the dead one's turn.
    step(&stage, "worker-1", Step::Done).await?;
    assert!(jobs_of(&stage, "worker-0").await?.is_empty());
    let text = explained(&stage, "worker-0", "NodeNotReady", 60).await?;
    assert!(text.contains("is not Ready"), "{text}");
    // It comes back: it is upgraded by a Job of its own, and the pod of before never began.
    stage.world.heal("worker-0");
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    let began = stage.world.log().into_iter().filter(
        |entry| matches!(&entry.event, numo_world::Event::JobPodStarted { node, .. } if node == "worker-0"),
    );
    assert_eq!(began.count(), 1);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_under_its_job_can_be_skipped() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let gate = Gate::new()?;
    let command = gate.wait_for("$SYSTEM_UPGRADE_NODE_NAME");
    apply(
        &stage,
        &[in_order(), plan("k3s", &command, json!({"cordon": true}))],
    )
    .await?;
    gate.open("worker-1")?;
    explained(&stage, "worker-0", "runs: upgrade", 90).await?;
    dies(&stage, "worker-0");
    let text = explained(&stage, "worker-0", "is not Ready", 60).await?;
    assert!(text.contains("numo skip worker-0"), "{text}");
    let other = stage.say(&["explain", "worker-1"]).await?;
    assert!(other.contains("WaitingForTurn"), "{other}");
    stage
        .say(&["skip", "worker-0", "--reason", "its disk is dead"])
        .await?;
    step(&stage, "worker-0", Step::Skipped).await?;
    step(&stage, "worker-1", Step::Done).await?;
    // What may run is not killed, and the node that may be changing is not opened.
    assert_eq!(jobs_of(&stage, "worker-0").await?.len(), 1);
    assert!(is_cordoned(&node(&stage, "worker-0").await?));
    complete(&stage, "k3s").await?;
    // It comes back, and its Job comes to its end: what it cordoned is given back.
    stage.world.heal("worker-0");
    gate.open_for_all()?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}
