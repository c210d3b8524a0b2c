//! Someone edits or deletes rule, target, run or canary pool in mid-run: nothing is let go that has not passed
//! what is asked by then, and what is held says what is missing.

use anyhow::Result;
use kube::{Api, api::DeleteParams};
use numo_api::{MutexRule, MutexTarget, Step};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{WorldSpec, openshift::MachineConfigPool};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, finish, gone, job, judgement, pool, prepare, released, released_after_a_while, rule,
    rule_began, seen, set, target, with_canary, workers,
};

/// Two workers; the gate is closed, and the rule of worker-0 runs.
async fn under_way(world: WorldSpec, spec: Value) -> Result<(Stage, Gate, Value)> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, std::slice::from_ref(&gated), spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    Ok((stage, gate, gated))
}

async fn delete<K>(stage: &Stage, api: Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await?;
    gone(stage, &api, name).await
}

/// What is gone holds the run with its name; what comes back lets it go on.
async fn rule_deleted(world: WorldSpec, spec: Value) -> Result<()> {
    let (stage, gate, gated) = under_way(world, spec).await?;
    let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), NAMESPACE);
    delete(&stage, rules, "gated").await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "RuleNotFound")
        .await?;
    assert!(
        why.contains("spec.mutexRules[0]") && why.contains("gated"),
        "{why}"
    );
    gate.open_for_all()?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "an absent rule is no pass"
    );
    assert!(pool(&stage, "worker").await?.spec.paused);
    apply(&stage, &[gated]).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    rule_deleted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_deleted_in_mid_canary_run_holds_it_by_name() -> Result<()> {
    rule_deleted(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    let (stage, gate, _) = under_way(workers(2), json!({})).await?;
    let targets: Api<MutexTarget> = Api::namespaced(stage.person.clone(), NAMESPACE);
    delete(&stage, targets, "workers").await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "TargetNotFound")
        .await?;
    assert!(
        why.contains("spec.mutexTargets[0]") && why.contains("workers"),
        "{why}"
    );
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(pool(&stage, "worker").await?.spec.paused, "its nodes would roll");
    apply(&stage, &[target("workers", &["worker"])]).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A canary pool that is deleted under the node in it: the node falls into its own pool, which is paused, and
/// nobody else is let go.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_pool_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"canary": {"name": "canary"}})).await?;
    gate.open("worker-0")?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Done).await?;
    seen(&stage, "the rule of worker-1 runs", |w| {
        rule_began(w, "gated", "worker-1")
    })
    .await?;
    let pools: Api<MachineConfigPool> = Api::all(stage.person.clone());
    let canary = pools.get("canary").await?;
    delete(&stage, pools.clone(), "canary").await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "CanaryNotFound")
        .await?;
    assert!(
        why.contains("spec.canary.name") && why.contains("canary"),
        "{why}"
    );
    gate.open_for_all()?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    assert!(pool(&stage, "worker").await?.spec.paused);
    // It comes back as its author wrote it: empty and parked.
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "canary"},
        "spec": {
            "machineConfigSelector": canary.spec.machine_config_selector,
            "nodeSelector": {
                "matchLabels": {"node-role.kubernetes.io/worker": ""},
                "matchExpressions": [{"key": "isCanary", "operator": "Exists"}],
            },
        },
    });
    apply(&stage, &[manifest]).await?;
    finish(&stage).await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-1", "worker-2"]);
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    expected.restored = false;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A rule that is edited while its Job runs: that Job's end still counts for the attempt it was made for, and
/// the next node is asked by the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_edited_in_mid_run_is_asked_of_the_next_node() -> Result<()> {
    let (stage, gate, _) = under_way(workers(2), json!({})).await?;
    let edited = rule("gated", json!({"jobSpec": job("echo edited; exit 9")}));
    apply(&stage, &[edited]).await?;
    gate.open_for_all()?;
    let held = stage.step("worker-1", Step::Held).await?;
    let verdicts = crate::verdicts(&held, "gated", numo_api::Phase::Pre);
    assert_eq!(verdicts.last().and_then(|last| last.2), Some(9), "{verdicts:?}");
    assert_eq!(released(&stage.world), ["worker-0"]);
    stage.strike().await
}

/// A run that has worked loses its rule before the next upgrade: its pools are paused all the same, nobody rolls,
/// and it goes on when the rule is there again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_lost_between_upgrades_holds_the_next_one_with_its_pools_paused() -> Result<()> {
    let newest = "4.17.1";
    let stage = set(workers(2), Vec::new()).await?;
    prepare(&stage, &[crate::quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), NAMESPACE);
    delete(&stage, rules, "quick").await?;
    stage
        .condition("upgrade", "Ready", "False", "RuleNotFound")
        .await?;
    stage.world.upgrade_to(newest).await?;
    seen(&stage, "the control plane is done", |w| w.is_completed(newest)).await?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nobody rolls without the rule"
    );
    assert!(pool(&stage, "worker").await?.spec.paused);
    stage
        .condition("upgrade", "Ready", "False", "RuleNotFound")
        .await?;
    apply(&stage, &[crate::quick()]).await?;
    stage.upgraded("worker", newest).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = Some(newest.to_owned());
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The canary pool is deleted under a node that changes in it, and its rendered configuration with it: the node
/// changes in its own pool, and nobody else is let go before there is a canary again.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_pool_deleted_under_a_node_sends_it_home() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    prepare(&stage, &[crate::quick()], json!({"canary": {"name": "canary"}})).await?;
    stage.world.inject(numo_world::Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots in the canary", |w| {
        w.state().nodes["worker-0"].rebooting
    })
    .await?;
    let pools: Api<MachineConfigPool> = Api::all(stage.person.clone());
    delete(&stage, pools, "canary").await?;
    stage
        .condition("upgrade", "Ready", "False", "CanaryNotFound")
        .await?;
    let own = pool(&stage, "worker").await?.spec.configuration.name;
    seen(&stage, "worker-0 is done in its own pool", |w| {
        let node = &w.state().nodes["worker-0"];
        node.current == own && node.state == "Done"
    })
    .await?;
    stage.step("worker-0", Step::Done).await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    // Without a canary the other strategy does the rest.
    stage
        .patch_run("upgrade", json!({"spec": {"canary": null}}))
        .await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// Another canary is named in mid-run: the first one gets its selector back once its node is home, and the rest goes
/// through the second.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_named_anew_in_mid_run_takes_over_from_the_first() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"canary": {"name": "canary"}})).await?;
    let first = pool(&stage, "canary").await?;
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "second"},
        "spec": {
            "machineConfigSelector": first.spec.machine_config_selector,
            "nodeSelector": first.spec.node_selector,
        },
    });
    apply(&stage, &[manifest]).await?;
    seen(&stage, "the second canary is rendered", |w| {
        w.pool("second")
            .is_some_and(|pool| !pool.spec.configuration.name.is_empty())
    })
    .await?;
    stage.world.remember().await?;
    gate.open("worker-0")?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| released(w) == ["worker-0"]).await?;
    stage
        .patch_run("upgrade", json!({"spec": {"canary": {"name": "second"}}}))
        .await?;
    gate.open_for_all()?;
    finish(&stage).await?;
    let in_second = stage
        .world
        .log()
        .iter()
        .any(|entry| matches!(&entry.event, numo_world::Event::Moved { to } if to == "second"));
    assert!(in_second, "the rest went through the second canary");
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A MachineOSConfig appears in mid-run: nothing new is let go, the pool stays paused, and it goes on when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_os_config_in_mid_run_holds_it() -> Result<()> {
    let (stage, gate, _) = under_way(workers(2), json!({})).await?;
    stage.world.layer("worker").await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "LayeredPool")
        .await?;
    assert!(why.contains("MachineOSConfig") && why.contains("worker"), "{why}");
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(pool(&stage, "worker").await?.spec.paused);
    let configs: Api<numo_world::openshift::MachineOSConfig> = Api::all(stage.person.clone());
    for config in configs.list(&kube::api::ListParams::default()).await?.items {
        configs
            .delete(
                &config.metadata.name.unwrap_or_default(),
                &DeleteParams::default(),
            )
            .await?;
    }
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// Someone takes numo's mark off the pool it paused: the pause is theirs then, and a veto.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_taken_off_a_paused_pool_makes_the_pause_a_veto() -> Result<()> {
    let (stage, gate, _) = under_way(workers(2), json!({})).await?;
    let pools: Api<MachineConfigPool> = Api::all(stage.person.clone());
    let off = json!({"metadata": {"annotations": {numo_api::marks::PAUSED_BY: null}}});
    pools
        .patch(
            "worker",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(off),
        )
        .await?;
    gate.open_for_all()?;
    stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": true}}))
        .await?;
    finish(&stage).await?;
    assert!(
        pool(&stage, "worker").await?.spec.paused,
        "paused before, as far as anyone knows"
    );
    stage.strike().await
}

/// Someone pauses the canary in mid-run: nothing new is let go into it, and it goes on when it is open again.
#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_someone_pauses_in_mid_run_takes_nobody() -> Result<()> {
    let (stage, gate, _) = under_way(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await?;
    stage.pause("canary", true).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "CanaryPaused")
        .await?;
    assert!(
        why.contains("spec.canary.name") && why.contains("spec.paused"),
        "{why}"
    );
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    stage.pause("canary", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}
