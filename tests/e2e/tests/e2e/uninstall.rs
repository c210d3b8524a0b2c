//! CRDs and the operator are deleted in mid-run, in any order: no pool with outdated nodes is unpaused, nothing
//! hangs, and a numo that comes back finds its way.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use numo_api::marks;
use numo_e2e::Stage;
use numo_world::{Fault, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, gone, job, judgement, mark, pool, prepare, quick,
    released_after_a_while, rule, rule_began, run_of, seen, set, target, with_canary, workers,
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
    delete_kinds(&stage).await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    let outdated = nothing_left(&stage).await?;
    assert_eq!(outdated, Some(2));
    reinstall(&mut stage).await?;
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

async fn delete_kinds(stage: &Stage) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(stage.person.clone());
    let names = [
        "mutexrules.openshift-optional.skrzypek.io",
        "mutextargets.openshift-optional.skrzypek.io",
        "mutexrunconfigs.openshift-optional.skrzypek.io",
        "nodechanges.numo.openshift-optional.skrzypek.io",
        "mutexbudgets.numo.openshift-optional.skrzypek.io",
        "mutexwindows.numo.openshift-optional.skrzypek.io",
        "mutexbindings.numo.openshift-optional.skrzypek.io",
        "mutexnotifiers.numo.openshift-optional.skrzypek.io",
        "mutexapprovals.numo.openshift-optional.skrzypek.io",
    ];
    for name in names {
        crds.delete(name, &DeleteParams::default()).await?;
    }
    for name in names {
        gone(stage, &crds, name).await?;
    }
    Ok(())
}

/// The pool stays paused, with a note of how many nodes would roll, which is returned; nothing of numo is on any node.
async fn nothing_left(stage: &Stage) -> Result<Option<u64>> {
    assert!(pool(stage, "worker").await?.spec.paused, "its nodes would roll");
    let left = mark(stage, "worker", marks::PAUSED_BY).await?.unwrap_or_default();
    let outdated = left["outdated"].as_u64();
    assert!(outdated > Some(0), "{left}");
    let state = stage.world.state();
    let marked: Vec<&String> = state
        .nodes
        .iter()
        .filter(|(_, node)| !node.marks.is_empty())
        .map(|(name, _)| name)
        .collect();
    assert!(marked.is_empty(), "nothing is left on nodes: {marked:?}");
    Ok(outdated)
}

/// Installed again, by the same numo or another one.
async fn reinstall(stage: &mut Stage) -> Result<()> {
    stage.kill_numo().await?;
    numo_e2e::install(&stage.client).await?;
    stage.start_numo()
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_deleted_in_mid_run_give_the_run_back_first() -> Result<()> {
    kinds_deleted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn kinds_deleted_in_mid_canary_run_give_the_run_back_first() -> Result<()> {
    kinds_deleted(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

/// The operator goes first and the run is deleted then: the pool stays paused, the run waits for an operator,
/// and the next one ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_deleted_while_no_numo_runs_is_restored_by_the_next_one() -> Result<()> {
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
#[ignore = "for the night: cargo xtask test --night"]
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
    // A list that fails is no empty list: what was seen last is kept, and nothing begins.
    let why = stage.condition("upgrade", "Ready", "False", "ListFailed").await?;
    assert!(why.contains("nodechanges"), "{why}");
    assert!(pool(&stage, "worker").await?.spec.paused);
    numo_e2e::install(&stage.client).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// Two workers and a canary, in which worker-0 reboots for longer than usual.
async fn in_the_canary() -> Result<Stage> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    prepare(&stage, &[quick()], canary()).await?;
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots in the canary", |w| {
        w.state().nodes["worker-0"].rebooting && w.membership_of("worker-0").is("canary")
    })
    .await?;
    Ok(stage)
}

/// The kinds are deleted with a node in the canary: it is out of it when all is over, and nobody else is let go.
#[tokio::test(flavor = "multi_thread")]
async fn kinds_deleted_with_a_node_in_the_canary_let_nobody_else_go() -> Result<()> {
    let mut stage = in_the_canary().await?;
    delete_kinds(&stage).await?;
    seen(&stage, "worker-0 comes home at the new version", |w| {
        w.version_of("worker-0") == NEW && w.membership_of("worker-0").is("worker")
    })
    .await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    nothing_left(&stage).await?;
    reinstall(&mut stage).await?;
    let run = run_of(&["quick"], canary());
    apply(&stage, &[quick(), target("workers", &["worker"]), run]).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The journal's kind alone is deleted with a node in the canary: nobody else is let go, and when the kind is back the
/// node comes home and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn journals_deleted_with_a_node_in_the_canary_let_nobody_else_go() -> Result<()> {
    let stage = in_the_canary().await?;
    let crds: Api<CustomResourceDefinition> = Api::all(stage.person.clone());
    let name = "nodechanges.numo.openshift-optional.skrzypek.io";
    crds.delete(name, &DeleteParams::default()).await?;
    gone(&stage, &crds, name).await?;
    seen(&stage, "worker-0 is back at the new version", |w| {
        w.version_of("worker-0") == NEW
    })
    .await?;
    assert_eq!(
        released_after_a_while(&stage).await,
        ["worker-0"],
        "without a journal nothing is proved"
    );
    assert!(pool(&stage, "worker").await?.spec.paused);
    numo_e2e::install(&stage.client).await?;
    stage.upgraded("worker", crate::NEW).await?;
    crate::ended(&stage).await?;
    let mut expected = judgement(&["quick"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}
