//! The operator that numo replaces is back in mid-run, or is not quite gone: numo begins nothing beside it, says so wherever
//! people look, and what it had cordoned has a way back.

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use numo_api::{PlanStatus, Step};
use numo_e2e::Stage;
use serde_json::{Value, json};

use crate::{
    apply,
    left::metrics,
    maintenance::{budget, deployment, is_cordoned, leases, node, on, running},
    plans::{PLANS, changes, complete, is_restored, plan, said, stage, status, step, until, waits},
};

/// Name of the Deployment, and of the Lease of its leader.
const THEIRS: &str = "system-upgrade-controller";

/// system-upgrade-controller, with the right that it has; what its pod runs.
fn rival(command: &str, grace: i64) -> Vec<Value> {
    let labels = json!({"upgrade.cattle.io/controller": THEIRS});
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "suc", "namespace": PLANS}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "suc"},
            "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans/status"], "verbs": ["update"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "suc"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "suc"},
            "subjects": [{"kind": "ServiceAccount", "name": "suc", "namespace": PLANS}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": THEIRS, "namespace": PLANS},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "terminationGracePeriodSeconds": grace, "serviceAccountName": "suc",
                    "containers": [{"name": "suc", "image": "suc", "command": ["/bin/sh", "-c", command]}],
                }},
            },
        }),
    ]
}

/// Waits until a command of the command line says all of this.
async fn says(stage: &Stage, arguments: &[&str], wanted: &[&str]) -> Result<String> {
    let what = format!("numo {} says {wanted:?}", arguments.join(" "));
    stage
        .until(&what, 60, || async {
            let text = stage.call(arguments).await?.out;
            Ok(wanted.iter().all(|one| text.contains(one)).then_some(text))
        })
        .await
}

async fn pods(stage: &Stage, namespace: &str, labels: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    Ok(api.list(&ListParams::default().labels(labels)).await?.items)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_in_mid_run_is_said_everywhere_and_a_cordon_of_numo_has_a_way_back() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    apply(
        &stage,
        &[
            deployment("web", 2, on("worker-0")),
            budget("web", json!(0)),
            json!({
                "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
                "metadata": {"name": "plans"},
                "spec": {
                    "ownerSelector": {"kind": "Plan"}, "drainBy": "Numo", "order": "Name",
                    "drain": {"probe": false},
                },
            }),
        ],
    )
    .await?;
    running(&stage, "web", "worker-0", 2).await?;
    apply(&stage, &[plan("k3s", "true", json!({"drain": {}}))]).await?;
    says(&stage, &["explain", "worker-0"], &["EvictionBlocked"]).await?;
    assert!(is_cordoned(&node(&stage, "worker-0").await?));
    let version = status(&stage, "k3s").await?.latest_version;
    // It is installed anew while worker-0 is being drained.
    apply(&stage, &rival("sleep 36000", 1)).await?;
    let event = said(&stage, "k3s", "ForeignController").await?;
    assert!(
        event.contains(THEIRS) && event.contains("worker-0 (Cordoned)"),
        "{event}"
    );
    // Ready and Stalled are numo's own; the rest of the status is theirs.
    let (found, message) = until(&stage, "k3s", "Ready", "False", "ForeignController").await?;
    assert!(message.contains("numo explain NODE"), "{message}");
    assert_eq!(found.latest_version, version);
    waits(&stage, "k3s", "ForeignController").await?;
    let change = stage
        .until("the journal says so", 30, || async {
            let change = changes(&stage).await?.pop();
            let is_told = |status: &numo_api::NodeChangeStatus| {
                status.reason.as_deref() == Some("ForeignController") && status.closed_since.is_some()
            };
            Ok(change.filter(|change| change.status.as_ref().is_some_and(is_told)))
        })
        .await?;
    let words = change
        .status
        .and_then(|status| status.message)
        .unwrap_or_default();
    assert!(words.contains("`numo skip worker-0`"), "{words}");
    let scale = format!("kubectl -n {PLANS} scale deployment {THEIRS} --replicas 0");
    says(
        &stage,
        &["explain", "worker-0"],
        &["ForeignController", "numo skip worker-0", &scale],
    )
    .await?;
    says(&stage, &["status", "-A"], &["ForeignController"]).await?;
    says(
        &stage,
        &["doctor"],
        &["Node worker-0 stands still", "numo skip worker-0", &scale],
    )
    .await?;
    stage
        .until("the metrics say so", 30, || async {
            let text = metrics(&stage).await?;
            Ok(text
                .lines()
                .any(|line| {
                    line.contains("k3s") && line.contains("ForeignController") && line.ends_with(" 1")
                })
                .then_some(()))
        })
        .await?;
    // The lease, where there are leases, keeps others off the node. No pod goes, although the budget lets it.
    let held = leases(&stage).list(&ListParams::default()).await?.items.len();
    assert_eq!(held, usize::from(numo_e2e::has_leases()));
    let before: Vec<String> = pods(&stage, "default", "app=web")
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    apply(&stage, &[budget("web", json!(2))]).await?;
    // The way back: numo takes back what it did, and forgets the node.
    stage.say(&["skip", "worker-0"]).await?;
    stage
        .until("the cordon is taken back", 60, || async {
            let node = node(&stage, "worker-0").await?;
            let mut marks = node.annotations().keys();
            let marked = marks.any(|key| key.starts_with(numo_api::marks::PREFIX));
            Ok((!is_cordoned(&node) && !marked).then_some(()))
        })
        .await?;
    step(&stage, "worker-0", Step::Skipped).await?;
    stage
        .until("the lease is given back", 30, || async {
            let held = leases(&stage).list(&ListParams::default()).await?.items.len();
            Ok((held == 0).then_some(()))
        })
        .await?;
    let after: Vec<String> = pods(&stage, "default", "app=web")
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(before, after, "nothing was evicted beside the rival");
    assert!(!is_cordoned(&node(&stage, "worker-1").await?));
    // It goes: numo goes on, and the node is taken in again.
    let api: Api<Deployment> = Api::namespaced(stage.client.clone(), PLANS);
    api.delete(THEIRS, &DeleteParams::default()).await?;
    step(&stage, "worker-1", Step::Done).await?;
    stage.say(&["retry", "worker-0"]).await?;
    step(&stage, "worker-0", Step::Done).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

/// A Lease of a leader that has just renewed it.
fn lease(namespace: &str) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": THEIRS, "namespace": namespace},
        "spec": {"holderIdentity": "suc-1_x", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rival_is_live_until_its_pod_and_its_lease_are_gone() -> Result<()> {
    let stage = stage(1, Vec::new()).await?;
    // Whoever may not do the work stops nobody by a name.
    let mut stranger = rival("sleep 36000", 1).pop().unwrap_or_default();
    stranger["metadata"]["namespace"] = json!("default");
    stranger["spec"]["replicas"] = json!(0);
    stranger["spec"]["template"]["spec"]["serviceAccountName"] = json!("default");
    apply(&stage, &[stranger, lease("default")]).await?;
    apply(&stage, &rival("trap '' TERM; while true; do sleep 1; done", 3600)).await?;
    let labels = format!("upgrade.cattle.io/controller={THEIRS}");
    stage
        .until("its pod runs", 60, || async {
            let pods = pods(&stage, PLANS, &labels).await?;
            let runs =
                |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
            Ok(pods.iter().any(runs).then_some(()))
        })
        .await?;
    apply(&stage, &[plan("k3s", "true", json!({"cordon": true}))]).await?;
    said(&stage, "k3s", "ForeignController").await?;
    let api: Api<Deployment> = Api::namespaced(stage.client.clone(), PLANS);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    api.patch(THEIRS, &PatchParams::default(), &none).await?;
    let explain = ["explain", "plan/k3s", "-n", PLANS];
    says(&stage, &explain, &["ForeignController", "still terminates"]).await?;
    says(&stage, &["doctor"], &["is at 0, but Pod", "still terminates"]).await?;
    assert_eq!(status(&stage, "k3s").await?, PlanStatus::default());
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));
    // Its pod is gone: somebody still leads by its Lease.
    apply(&stage, &[lease(PLANS)]).await?;
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), PLANS);
    for pod in pods(&stage, PLANS, &labels).await? {
        api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
            .await?;
    }
    says(&stage, &explain, &["ForeignController", "is held by suc-1_x"]).await?;
    assert_eq!(status(&stage, "k3s").await?, PlanStatus::default());
    let api: Api<Lease> = Api::namespaced(stage.client.clone(), PLANS);
    let given_up = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
    api.patch(THEIRS, &PatchParams::default(), &given_up).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}
