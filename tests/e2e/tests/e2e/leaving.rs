//! Leaving a run never lets the MCO roll the rest ungated.

use anyhow::{Context as _, Result};
use k8s_openapi::api::{batch::v1::Job, core::v1::Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use numo_api::{NodeChange, RunResult, Step, marks};
use numo_e2e::{Answers, NAMESPACE, Sink, Stage};
use numo_world::{Fault, Timings, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, OLD, apply, canary, condition, delete_run, finish, gone, job, judgement, mark,
    notifiers::notifier, pool, prepare, prepare_gated, quick, released, released_after_a_while, rule,
    rule_began, run_of, seen, set, target, with, with_canary, workers,
};

/// The pool `worker` stays paused, and its mark says how many nodes would roll.
async fn held(stage: &Stage, outdated: u64) -> Result<()> {
    assert!(pool(stage, "worker").await?.spec.paused);
    let mark = mark(stage, "worker", marks::PAUSED_BY).await?.unwrap_or_default();
    assert_eq!(mark["outdated"], outdated, "{mark}");
    Ok(())
}

async fn deleted_again_and_again(world: WorldSpec, spec: serde_json::Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, spec.clone()).await?;
    stage.world.upgrade_to(NEW).await?;

    // Before anything was released.
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    delete_run(&stage, "upgrade").await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    held(&stage, 3).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    stage.judge(&expected).await?;

    // While a node is changing. Another run takes over the pool that the first one left paused. A node on which a Job of the first run still
    // runs would let the next one have its turn.
    gate.open("worker-0")?;
    let jobs: Api<Job> = Api::namespaced(stage.client.clone(), NAMESPACE);
    stage
        .until("the Job of the deleted run has ended", 60, || async {
            let all = jobs.list(&ListParams::default()).await?.items;
            let has_ended = |job: &Job| {
                let status = job.status.as_ref();
                status.is_some_and(|status| status.completion_time.is_some())
            };
            Ok(all.iter().all(has_ended).then_some(()))
        })
        .await?;
    apply(&stage, &[run_of(&["gated"], spec.clone())]).await?;
    seen(&stage, "worker-0 is let go", |w| released(w) == ["worker-0"]).await?;
    delete_run(&stage, "upgrade").await?;
    assert_eq!(
        stage.world.version_of("worker-0"),
        NEW,
        "what was released comes back first"
    );
    assert_eq!(
        released_after_a_while(&stage).await,
        ["worker-0"],
        "no other node rolls"
    );
    for node in ["worker-1", "worker-2"] {
        assert_eq!(stage.world.version_of(node), OLD);
    }
    held(&stage, 2).await?;
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    expected.retries = true;
    stage.judge(&expected).await?;

    // The third run does the rest, and gives the pool back as the first one found it.
    gate.open_for_all()?;
    apply(&stage, &[run_of(&["gated"], spec)]).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-1", "worker-2"]);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_run_deleted_in_mid_run_lets_no_other_node_go() -> Result<()> {
    deleted_again_and_again(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_run_deleted_in_mid_run_lets_no_other_node_go() -> Result<()> {
    deleted_again_and_again(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

/// While the control plane updates every node is at its pool's configuration, and the next one is on its way: whoever aborts the
/// run then does not have the fleet rolled.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_aborted_before_its_version_is_rendered_lets_no_node_go() -> Result<()> {
    let world = WorldSpec {
        timings: Timings {
            control_plane: 40.0,
            ..Timings::default()
        },
        ..workers(2)
    };
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    apply(
        &stage,
        &[notifier("events", json!({"cloudEvents": {"url": url}}))],
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    stage
        .until("the pool is paused", 60, || async {
            Ok(pool(&stage, "worker").await?.spec.paused.then_some(()))
        })
        .await?;
    let before = pool(&stage, "worker").await?.spec.configuration.name;
    stage.say(&["abort", "upgrade", "-n", NAMESPACE]).await?;
    stage.condition("upgrade", "PoolHeld", "True", "PoolHeld").await?;
    held(&stage, 2).await?;
    sink.until(&stage, "PoolLeftPaused", "upgrade").await?;
    stage
        .until("the next version is rendered", 120, || async {
            let now = pool(&stage, "worker").await?.spec.configuration.name;
            Ok((now != before).then_some(()))
        })
        .await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    held(&stage, 2).await?;
    for node in ["worker-0", "worker-1"] {
        assert_eq!(stage.world.version_of(node), OLD);
    }
    stage
        .say(&["abort", "upgrade", "-n", NAMESPACE, "--undo"])
        .await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_run_ends_aborted_and_goes_on_when_that_is_taken_back() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    gate.open("worker-0")?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, json!({})).await?;
    let said = stage.call(&["abort", "upgrade", "-n", NAMESPACE]).await?;
    assert_eq!(said.code, Some(2), "there is nothing to abort: {said:?}");
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| released(w) == ["worker-0"]).await?;
    stage.say(&["abort", "upgrade", "-n", NAMESPACE]).await?;

    let held_message = stage.condition("upgrade", "PoolHeld", "True", "PoolHeld").await?;
    assert!(
        held_message.contains("worker") && held_message.contains("2 of 3"),
        "{held_message}"
    );
    stage.event("MutexRunConfig", "upgrade", "PoolHeld").await?;
    let run = stage.run("upgrade").await?;
    let last = run
        .status
        .clone()
        .and_then(|status| status.run)
        .unwrap_or_default();
    assert_eq!(last.result, Some(RunResult::Aborted));
    assert!(last.finished_at.is_some());
    let ready = condition(&run, "Ready").unwrap();
    assert_eq!(ready.status, "False", "{ready:?}");
    assert!(
        ["PoolHeld", "Aborted"].contains(&ready.reason.as_deref().unwrap_or_default()),
        "{ready:?}"
    );
    stage.step("worker-0", Step::Done).await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    held(&stage, 2).await?;
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(
        text.contains("Aborted") && text.contains("`numo abort upgrade -n "),
        "{text}"
    );
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    stage.judge(&expected).await?;

    gate.open_for_all()?;
    stage
        .say(&["abort", "upgrade", "-n", NAMESPACE, "--undo"])
        .await?;
    finish(&stage).await?;
    let run = stage.run("upgrade").await?;
    assert!(condition(&run, "PoolHeld").is_none());
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    assert_eq!(last.result, Some(RunResult::Succeeded));
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// `numo abort --undo` takes an annotation off, which is not what gave this run up.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_directive_gave_up_goes_on_by_the_command_that_numo_names() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = prepare_gated(&stage).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let changes: Api<NodeChange> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let change = stage.change("worker-0").await?.context("a NodeChange")?;
    let name = change.metadata.name.context("a name")?;
    let say = |directive: serde_json::Value| {
        let (changes, name) = (changes.clone(), name.clone());
        async move {
            let patch = Patch::Merge(json!({"spec": {"directive": directive}}));
            changes.patch(&name, &PatchParams::default(), &patch).await
        }
    };
    say(json!({"action": "Abort", "reason": "a bad disk", "by": "ada"})).await?;
    let wanted = format!(
        "kubectl -n {NAMESPACE} patch nodechange {name} --type merge -p '{{\"spec\":{{\"directive\":null}}}}'"
    );
    for asked in ["mutexrunconfig/upgrade", "worker-1"] {
        stage
            .until("the way back is named", 60, || async {
                let said = stage.call(&["explain", asked, "-n", NAMESPACE]).await?;
                assert!(!said.out.contains("abort upgrade"), "{said:?}");
                Ok(said.out.contains(&wanted).then_some(()))
            })
            .await?;
    }
    let undone = stage
        .call(&["abort", "upgrade", "-n", NAMESPACE, "--undo"])
        .await?;
    assert!(
        undone.code == Some(2) && undone.err.contains("numo explain"),
        "{undone:?}"
    );
    assert!(released_after_a_while(&stage).await.is_empty());
    gate.open_for_all()?;
    say(serde_json::Value::Null).await?;
    finish(&stage).await?;
    stage.strike().await
}

/// Rules, Jobs, NodeChanges and the run are deleted in any order, and nothing can be created any more.
async fn namespace_deleted(world: WorldSpec, mut spec: serde_json::Value) -> Result<()> {
    let stage = set(world, vec!["--run-namespaces", "team"]).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let team: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}}))?;
    namespaces.create(&PostParams::default(), &team).await?;
    let in_team = |mut object: serde_json::Value| {
        object["metadata"]["namespace"] = json!("team");
        object
    };
    let invitation = |role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": "team"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": NAMESPACE}],
        })
    };
    let quick = rule(
        "quick",
        json!({"jobNamespace": "team", "jobSpec": job("true"), "cleanUpJobSpec": job("true")}),
    );
    spec["mutexRules"] = json!([{"name": "quick"}]);
    apply(
        &stage,
        &[
            invitation("numo-rule-jobs"),
            invitation("numo-runs"),
            in_team(quick),
            in_team(target("workers", &["worker"])),
            in_team(run_of(&[], spec)),
        ],
    )
    .await?;
    let runs: Api<numo_api::MutexRunConfig> = Api::namespaced(stage.client.clone(), "team");
    stage
        .until("the run is idle", 60, || async {
            let run = runs.get("upgrade").await?;
            let ready = condition(&run, "Ready").and_then(|c| c.reason.clone());
            Ok((ready.as_deref() == Some("UpToDate")).then_some(()))
        })
        .await?;
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots", |w| {
        released(w) == ["worker-0"] && w.state().nodes["worker-0"].rebooting
    })
    .await?;
    let api: Api<Namespace> = Api::all(stage.person.clone());
    api.delete("team", &DeleteParams::default()).await?;
    gone(&stage, &api, "team").await?;
    seen(&stage, "worker-0 comes back all the same", |w| {
        w.version_of("worker-0") == NEW
    })
    .await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    held(&stage, 2).await?;
    let mut expected = judgement(&["quick"], &[]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_deleted_in_mid_run_goes_and_lets_no_other_node_go() -> Result<()> {
    namespace_deleted(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_namespace_deleted_in_mid_canary_run_goes_and_lets_no_other_node_go() -> Result<()> {
    namespace_deleted(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

async fn unpaused_at_exit(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    prepare(&stage, &rules, with(spec, json!({"onExit": "Unpause"}))).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.say(&["abort", "upgrade", "-n", NAMESPACE]).await?;
    stage.upgraded("worker", NEW).await?;
    stage
        .until("the run is left", 60, || async {
            let run = stage.run("upgrade").await?;
            Ok(run
                .metadata
                .finalizers
                .is_none_or(|all| all.is_empty())
                .then_some(()))
        })
        .await?;
    let run = stage.run("upgrade").await?;
    assert!(condition(&run, "PoolHeld").is_none());
    assert!(!pool(&stage, "worker").await?.spec.paused);
    let mut expected = judgement(&[], &[]);
    expected.ungated = vec!["worker".to_owned()];
    stage.judge(&expected).await?;
    gate.open_for_all()?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_says_so_lets_the_rest_roll_when_it_is_left() -> Result<()> {
    unpaused_at_exit(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_canary_run_that_says_so_lets_the_rest_roll_when_it_is_left() -> Result<()> {
    unpaused_at_exit(with_canary(workers(2)), canary()).await
}
