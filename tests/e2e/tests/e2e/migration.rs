//! From the operator for MutexRunConfigs that numo replaces: beside it numo writes nothing, and what it leaves half done is
//! gone on with. (NodeMaintenance: `maintenance.rs`; Plan: `plans.rs`.)

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use numo_api::{Outcome, Phase};
use numo_e2e::{NAMESPACE, Stage};
use serde_json::{Value, json};

use crate::{
    NEW, apply, finish, job, pool, quick, released_after_a_while, rule, run_of, seen, set, target, verdicts,
    with, with_canary, workers,
};

const THEIRS: &str = "openshift-node-upgrade-mutex-operator-controller-manager";

/// The Deployment by its name, and a right to write the status of runs where it is meant to have one.
async fn live(stage: &Stage, has_rights: bool) -> Result<()> {
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": THEIRS, "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {"metadata": {"labels": {"app": "theirs"}}, "spec": {
                "terminationGracePeriodSeconds": 1, "serviceAccountName": "theirs",
                "containers": [{"name": "manager", "image": "theirs", "command": ["sleep", "36000"]}],
            }},
        },
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "theirs", "namespace": NAMESPACE}});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "theirs"},
        "rules": [{"apiGroups": ["openshift-optional.skrzypek.io"], "resources": ["mutexrunconfigs/status"], "verbs": ["update"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "theirs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "theirs"},
        "subjects": [{"kind": "ServiceAccount", "name": "theirs", "namespace": NAMESPACE}],
    });
    let all = [account, role, binding, theirs];
    let rights = if has_rights { &all[..] } else { &all[3..] };
    apply(stage, rights).await
}

async fn runs(stage: &Stage, rules: &[Value], spec: Value) -> Result<()> {
    apply(stage, rules).await?;
    let names: Vec<&str> = rules
        .iter()
        .filter_map(|rule| rule["metadata"]["name"].as_str())
        .collect();
    apply(stage, &[target("workers", &["worker"]), run_of(&names, spec)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_the_live_operator_numo_writes_nothing_to_runs_until_it_is_scaled_down() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    stage.stop_numo().await?;
    live(&stage, true).await?;
    runs(&stage, &[quick()], json!({})).await?;
    stage.start_numo()?;
    let event = stage
        .event("MutexRunConfig", "upgrade", "ForeignController")
        .await?;
    assert!(event.note.is_some_and(|note| note.contains(THEIRS)));
    stage.world.upgrade_to(NEW).await?;
    assert!(
        stage
            .run("upgrade")
            .await?
            .status
            .is_none_or(|status| status.conditions.is_empty())
    );
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(
        text.contains("ForeignController") && text.contains(THEIRS),
        "{text}"
    );
    assert!(!pool(&stage, "worker").await?.spec.paused);
    let found = stage.call(&["doctor"]).await?;
    assert!(
        found
            .out
            .contains(&format!("scale deployment {THEIRS} --replicas 0")),
        "{found:?}"
    );
    // Here the old operator would have paused the pools; without it they roll. It is scaled down: numo takes over.
    stage.upgraded("worker", NEW).await?;
    let deployments: kube::Api<k8s_openapi::api::apps::v1::Deployment> =
        kube::Api::namespaced(stage.client.clone(), NAMESPACE);
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    deployments.patch(THEIRS, &PatchParams::default(), &none).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_only_has_the_name_stops_nobody() -> Result<()> {
    let mut stage = set(workers(1), Vec::new()).await?;
    stage.stop_numo().await?;
    live(&stage, false).await?;
    runs(&stage, &[quick()], json!({})).await?;
    stage.start_numo()?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let found = stage.call(&["doctor"]).await?;
    assert!(found.out.contains("numo does not stand off"), "{found:?}");
    stage.strike().await
}

/// The old operator is stopped in mid-run: the pool is paused by it, one node is done and carries its label, a Job of its
/// is half done.
async fn taken_over_in_mid_run(world: numo_world::WorldSpec, spec: Value) -> Result<()> {
    let mut stage = set(world, Vec::new()).await?;
    stage.stop_numo().await?;
    stage.pause("worker", true).await?;
    stage.world.upgrade_to(NEW).await?;
    let label = json!({"metadata": {"labels": {
        format!("mutexrule.openshift-optional.skrzypek.io/checked.{NAMESPACE}"): "",
    }}});
    stage.patch_node("worker-0", label).await?;
    let half_done = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "checked-worker-0", "namespace": NAMESPACE},
        "spec": job("sleep 1"),
    });
    apply(&stage, &[half_done]).await?;
    let checked = rule(
        "checked",
        json!({"jobSpec": job("true"), "cleanUpJobSpec": job("true")}),
    );
    runs(&stage, &[checked], spec.clone()).await?;
    stage.start_numo()?;
    // Its pause is a veto, and said so, until somebody says that it may be taken over.
    let message = stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    assert!(message.contains("worker"), "{message}");
    assert!(released_after_a_while(&stage).await.is_empty());
    apply(
        &stage,
        &[run_of(&["checked"], with(spec, json!({"adoptPaused": true})))],
    )
    .await?;
    seen(&stage, "a node is let go", |w| !crate::released(w).is_empty()).await?;
    finish(&stage).await?;
    for node in ["worker-0", "worker-1"] {
        let change = stage.step(node, numo_api::Step::Done).await?;
        assert_eq!(
            verdicts(&change, "checked", Phase::Pre).first().map(|one| one.1),
            Some(Outcome::Pass)
        );
    }
    assert!(pool(&stage, "worker").await?.spec.paused, "as it was before numo");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_old_operator_left_in_mid_run_is_gone_on_with() -> Result<()> {
    taken_over_in_mid_run(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn what_the_old_operator_left_in_mid_run_goes_on_through_the_canary() -> Result<()> {
    taken_over_in_mid_run(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}
