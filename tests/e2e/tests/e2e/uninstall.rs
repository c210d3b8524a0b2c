//! CRDs and the operator are deleted in mid-run, in any order: no pool with outdated nodes is unpaused, nothing
//! hangs, and a numo that comes back finds its way.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use numo_api::marks;
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, finish, gone, job, judgement, mark, pool, prepare, released_after_a_while, rule,
    rule_began, run_of, seen, set, target, with_canary, workers,
};

/// The kinds are deleted while a rule runs: the runs are given back first, as their finalizers ask, and when the
/// kinds come back so does the work.
async fn kinds_deleted(world: WorldSpec, spec: Value) -> Result<()> {
    let mut stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, std::slice::from_ref(&gated), spec.clone()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.person.clone());
    let names = [
        "mutexrules.openshift-optional.skrzypek.io",
        "mutextargets.openshift-optional.skrzypek.io",
        "mutexrunconfigs.openshift-optional.skrzypek.io",
        "nodechanges.numo.openshift-optional.skrzypek.io",
        "mutexbudgets.numo.openshift-optional.skrzypek.io",
        "mutexbindings.numo.openshift-optional.skrzypek.io",
    ];
    for name in names {
        crds.delete(name, &DeleteParams::default()).await?;
    }
    for name in names {
        gone(&stage, &crds, name).await?;
    }
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(pool(&stage, "worker").await?.spec.paused, "its nodes would roll");
    let left = mark(&stage, "worker", marks::PAUSED_BY)
        .await?
        .unwrap_or_default();
    assert_eq!(left["outdated"], 2, "{left}");
    let state = stage.world.state();
    let marked: Vec<&String> = state
        .nodes
        .iter()
        .filter(|(_, node)| !node.marks.is_empty())
        .map(|(name, _)| name)
        .collect();
    assert!(marked.is_empty(), "nothing is left on nodes: {marked:?}");

    // Installed again, by the same numo or another one.
    stage.kill_numo().await?;
    numo_e2e::install(&stage.client).await?;
    stage.start_numo()?;
    gate.open_for_all()?;
    apply(
        &stage,
        &[gated, target("workers", &["worker"]), run_of(&["gated"], spec)],
    )
    .await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_deleted_in_mid_run_give_the_run_back_first() -> Result<()> {
    kinds_deleted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_deleted_in_mid_canary_run_give_the_run_back_first() -> Result<()> {
    kinds_deleted(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

/// The operator goes first and the run is deleted then: the pool stays paused, the run waits for an operator,
/// and the next one ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_deleted_while_no_numo_runs_is_given_back_by_the_next_one() -> Result<()> {
    let mut stage = set(with_canary(workers(2)), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"canary": {"name": "canary"}})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.kill_numo().await?;
    gate.open_for_all()?;
    let runs: Api<numo_api::MutexRunConfig> = stage.api();
    runs.delete("upgrade", &DeleteParams::default()).await?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nobody is let go by a dead operator"
    );
    assert!(runs.get("upgrade").await?.metadata.deletion_timestamp.is_some());
    stage.start_numo()?;
    gone(&stage, &runs, "upgrade").await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    let mut expected = judgement(&["gated"], &[]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The journal's kind alone is deleted with a node in flight: nobody else is let go, and nothing is left behind when
/// it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn journals_deleted_with_their_kind_let_nobody_go() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.person.clone());
    let name = "nodechanges.numo.openshift-optional.skrzypek.io";
    crds.delete(name, &DeleteParams::default()).await?;
    gone(&stage, &crds, name).await?;
    gate.open_for_all()?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "without a journal nothing is proved"
    );
    assert!(pool(&stage, "worker").await?.spec.paused);
    numo_e2e::install(&stage.client).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}
