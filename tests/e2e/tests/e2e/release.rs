//! `numo release --offline`: the operator is gone in mid-run, and every mark of its is taken back; no node is let go by it.

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use numo_api::{MutexRunConfig, marks};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, canary, job, mark, pool, prepare, released_after_a_while, rule, rule_began, seen, set,
    with_canary, workers,
};

const RELEASE: [&str; 5] = ["release", "--offline", "--timeout-seconds", "0", "-ojson"];

/// What is left, and the exit code.
async fn release(stage: &Stage, more: &[&str]) -> Result<(Vec<(String, String)>, Option<i32>)> {
    let said = stage.call(&[&RELEASE, more].concat()).await?;
    let found: Value = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let left = found["left"].as_array().into_iter().flatten();
    let text = |left: &Value, key: &str| left[key].as_str().unwrap_or_default().to_owned();
    let left = left
        .map(|left| (text(left, "object"), text(left, "mark")))
        .collect();
    Ok((left, said.code))
}

/// Nothing of numo is on any node.
fn nodes_are_free(stage: &Stage) {
    let state = stage.world.state();
    let marked: Vec<_> = state
        .nodes
        .iter()
        .filter(|(_, node)| !node.marks.is_empty())
        .map(|(name, node)| (name, &node.marks))
        .collect();
    assert!(marked.is_empty(), "left on nodes: {marked:?}");
}

async fn in_mid_run(world: WorldSpec, spec: Value, owner_is_gone: bool) -> Result<()> {
    let mut stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    prepare(
        &stage,
        &[rule("gated", json!({"jobSpec": job(&gate.wait())}))],
        spec,
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;

    // With an operator that leads it is not done.
    let said = stage.call(&["release", "--offline"]).await?;
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.err.contains("scale deployment/numo --replicas=0"),
        "{said:?}"
    );
    let said = stage.call(&["release", "--offline", "--dry-run"]).await?;
    assert_eq!(said.code, Some(3), "it would be refused: {said:?}");
    let said = stage
        .call(&["release", "--offline", "--operator-namespace", "nowhere"])
        .await?;
    assert!(
        said.code != Some(0) && said.err.contains("--operator-namespace "),
        "{said:?}"
    );
    // -n is about objects: nobody takes it for the operator's.
    let said = stage.call(&["release", "--offline", "-n", "nowhere"]).await?;
    assert!(
        said.code == Some(2) && said.err.contains("--operator-namespace nowhere"),
        "{said:?}"
    );
    let said = stage.call(&["release"]).await?;
    assert_eq!(said.code, Some(2), "without a word that it is meant: {said:?}");

    stage.kill_numo().await?;
    if owner_is_gone {
        // Somebody forces the owner away, and its kind with it.
        let runs: Api<MutexRunConfig> = Api::namespaced(stage.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        runs.patch("upgrade", &PatchParams::default(), &patch).await?;
        runs.delete("upgrade", &DeleteParams::default()).await?;
        let crds: Api<CustomResourceDefinition> = Api::all(stage.person.clone());
        for kind in [
            "mutexrunconfigs.openshift-optional",
            "mutexbudgets.numo.openshift-optional",
        ] {
            let name = format!("{kind}.skrzypek.io");
            crds.delete(&name, &DeleteParams::default()).await?;
            crate::gone(&stage, &crds, &name).await?;
        }
    }
    // A dry run says it and writes nothing.
    let before = pool(&stage, "worker").await?.metadata.resource_version;
    let said = stage
        .say(&["release", "--offline", "--dry-run", "--timeout-seconds", "0"])
        .await?;
    assert!(said.contains("Node worker-0: Unshield (dry run)"), "{said}");
    assert_eq!(pool(&stage, "worker").await?.metadata.resource_version, before);

    let (left, code) = release(&stage, &[]).await?;
    assert_eq!(code, Some(3), "a pool stays paused: {left:?}");
    assert_eq!(
        left,
        [("MachineConfigPool worker".to_owned(), marks::PAUSED_BY.to_owned())]
    );
    assert!(pool(&stage, "worker").await?.spec.paused, "its nodes would roll");
    let held = mark(&stage, "worker", marks::PAUSED_BY)
        .await?
        .unwrap_or_default();
    assert_eq!(held["outdated"], 2, "{held}");
    nodes_are_free(&stage);
    assert!(
        mark(&stage, "worker", marks::PRIOR_NODE_SELECTOR)
            .await?
            .is_none()
    );
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "no node is let go"
    );
    assert_eq!(
        release(&stage, &["--leave-held"]).await?.1,
        Some(0),
        "as an uninstall wants it"
    );
    // Again changes nothing and says the same.
    let again = pool(&stage, "worker").await?.metadata.resource_version;
    assert_eq!(release(&stage, &[]).await?, (left, Some(3)));
    assert_eq!(pool(&stage, "worker").await?.metadata.resource_version, again);
    // A person lets them roll; then nothing is left.
    stage.pause("worker", false).await?;
    stage.upgraded("worker", NEW).await?;
    let (left, code) = release(&stage, &[]).await?;
    assert_eq!((left, code), (Vec::new(), Some(0)));
    assert!(mark(&stage, "worker", marks::PAUSED_BY).await?.is_none());
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_left_in_mid_run_is_taken_back_and_no_node_is_let_go() -> Result<()> {
    in_mid_run(workers(2), json!({}), false).await
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_whose_owner_and_kind_are_gone_are_taken_back() -> Result<()> {
    in_mid_run(with_canary(workers(2)), canary(), true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_maintenance_is_restored_and_a_running_operator_yields_to_who_takes_over() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    crate::maintenance::maintain(&stage, "fan", "worker-0", json!({})).await?;
    crate::maintenance::phase(&stage, "nodemaintenance.medik8s.io", "fan", "Succeeded").await?;
    let (left, code) = release(&stage, &["--take-over"]).await?;
    assert_eq!((left, code), (Vec::new(), Some(0)));
    let node = crate::maintenance::node(&stage, "worker-0").await?;
    assert!(!crate::maintenance::is_cordoned(&node), "{:?}", node.spec);
    nodes_are_free(&stage);
    assert!(
        crate::maintenance::leases(&stage)
            .get_opt("node-worker-0")
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_another_operators_stays_that_ones() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    stage.stop_numo().await?;
    crate::maintenance::left_by_another(&stage).await?;
    let before = crate::maintenance::node(&stage, "worker-0").await?;
    let (left, code) = release(&stage, &[]).await?;
    assert_eq!((left, code), (Vec::new(), Some(0)), "none of it is numo's");
    let after = crate::maintenance::node(&stage, "worker-0").await?;
    assert_eq!(after.spec, before.spec, "cordon and taints are as they were");
    assert_eq!(after.metadata.labels, before.metadata.labels);
    assert!(
        crate::maintenance::leases(&stage)
            .get_opt("node-worker-0")
            .await?
            .is_some()
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_says_so_is_not_unpaused_by_release() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let spec = json!({"onExit": "Unpause"});
    prepare(
        &stage,
        &[rule("gated", json!({"jobSpec": job(&gate.wait())}))],
        spec,
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.kill_numo().await?;
    let (left, _) = release(&stage, &[]).await?;
    assert_eq!(
        left,
        [("MachineConfigPool worker".to_owned(), marks::PAUSED_BY.to_owned())]
    );
    assert!(pool(&stage, "worker").await?.spec.paused, "its nodes would roll");
    assert!(released_after_a_while(&stage).await.is_empty());
    stage.pause("worker", false).await?;
    stage.upgraded("worker", NEW).await?;
    stage.strike().await
}
