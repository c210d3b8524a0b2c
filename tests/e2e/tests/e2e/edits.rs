//! Someone edits or deletes rule, target, run or canary pool in mid-run: nothing is let go that has not passed
//! what is asked by then, and what is held says what is missing.

use anyhow::Result;
use kube::{Api, api::DeleteParams};
use numo_api::{MutexRule, MutexTarget, Step};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{WorldSpec, openshift::MachineConfigPool};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, gone, job, judgement, pool, prepare, released, released_after_a_while,
    rule, rule_began, seen, set, target, with_canary, workers,
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
#[ignore = "for the night: cargo xtask test --night"]
async fn a_rule_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    rule_deleted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_deleted_in_mid_canary_run_holds_it_by_name() -> Result<()> {
    rule_deleted(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

async fn target_deleted(world: WorldSpec, spec: Value) -> Result<()> {
    let (stage, gate, _) = under_way(world, spec).await?;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_target_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    target_deleted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_target_deleted_in_mid_canary_run_holds_it_by_name() -> Result<()> {
    target_deleted(with_canary(workers(2)), canary()).await
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
    crate::delete_pool(&stage, "canary").await?;
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

/// A rule that is edited while its Job runs: that Job's Pass is one of another rule, and lets no node go. The rule is asked
/// again as it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_edited_in_mid_run_is_asked_again_of_the_same_node() -> Result<()> {
    let (stage, gate, _) = under_way(workers(2), json!({})).await?;
    let edited = rule("gated", json!({"jobSpec": job("echo edited; exit 9")}));
    apply(&stage, &[edited]).await?;
    gate.open_for_all()?;
    let held = stage.step("worker-0", Step::Held).await?;
    let verdicts = crate::verdicts(&held, "gated", numo_api::Phase::Pre);
    let codes: Vec<Option<i32>> = verdicts.iter().map(|verdict| verdict.2).collect();
    assert_eq!(codes, [Some(0), Some(9)], "{verdicts:?}");
    assert!(
        released(&stage.world).is_empty(),
        "it went on the Pass of the old rule"
    );
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
    crate::delete_pool(&stage, "canary").await?;
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
async fn layered_in_mid_run(world: WorldSpec, spec: Value) -> Result<()> {
    let (stage, gate, _) = under_way(world, spec).await?;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_os_config_in_mid_run_holds_it() -> Result<()> {
    layered_in_mid_run(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_machine_os_config_in_mid_canary_run_holds_it() -> Result<()> {
    layered_in_mid_run(with_canary(workers(2)), canary()).await
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
        why.contains("spec.canary.name") && why.contains("is paused"),
        "{why}"
    );
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    stage.pause("canary", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

/// The canary is taken out of the spec while a node is in it: that one comes home by it, the others go by
/// DesiredConfig, and the canary gets its selector back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_canary_taken_out_of_the_spec_brings_its_node_home_and_the_others_go_without() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    prepare(&stage, &[crate::quick()], canary()).await?;
    stage.world.inject(numo_world::Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots in the canary", |w| {
        w.state().nodes["worker-0"].rebooting && w.membership_of("worker-0").is("canary")
    })
    .await?;
    stage
        .patch_run("upgrade", json!({"spec": {"canary": null}}))
        .await?;
    stage.step("worker-0", Step::Done).await?;
    assert!(stage.world.membership_of("worker-0").is("worker"));
    finish(&stage).await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-1", "worker-2"]);
    for node in ["worker-1", "worker-2"] {
        let moved = crate::happened(
            &stage.world,
            node,
            |e| matches!(e, numo_world::Event::Moved { to } if to == "canary"),
        );
        assert!(!moved, "{node} went through a canary that nobody names");
    }
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// Someone takes off numo's note of the canary's own selector: what numo set is never taken for the user's, the run
/// is held, and goes on when a person has put the pool's own selector back.
#[tokio::test(flavor = "multi_thread")]
async fn a_selectors_mark_taken_off_holds_the_run_until_the_selector_is_back() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    let own = pool(&stage, "canary").await?.spec.node_selector;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], canary()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let pools: Api<MachineConfigPool> = Api::all(stage.person.clone());
    let params = kube::api::PatchParams::default();
    let off = json!({"metadata": {"annotations": {numo_api::marks::PRIOR_NODE_SELECTOR: null}}});
    pools
        .patch("canary", &params, &kube::api::Patch::Merge(off))
        .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "ForeignWriter")
        .await?;
    assert!(
        why.contains("MachineConfigPool canary") && why.contains(numo_api::marks::PRIOR_NODE_SELECTOR),
        "{why}"
    );
    // Its rules may pass: it is not let go all the same.
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert_eq!(stage.changes().await?.len(), 1, "nobody else has a turn");
    let back = json!({"spec": {"nodeSelector": own}});
    pools
        .patch("canary", &params, &kube::api::Patch::Merge(back))
        .await?;
    // numo's note is there again, and says what was there before the run.
    stage
        .until("the selector is set again", 60, || async {
            let mark = crate::mark(&stage, "canary", numo_api::marks::PRIOR_NODE_SELECTOR).await?;
            Ok(mark.filter(|mark| mark["prior"] == json!(own)))
        })
        .await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

/// A target pool is deleted while a node of it has its turn: that turn ends, nothing new begins, the nodes it leaves
/// behind do not roll, and all goes on when it is back.
async fn target_pool_deleted(world: WorldSpec, spec: Value) -> Result<()> {
    let world = WorldSpec {
        pools: vec![
            numo_world::PoolSpec::new("worker", 2),
            numo_world::PoolSpec::new("infra", 2),
        ],
        ..world
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    let targets = json!({"mutexTargets": [{"name": "infras"}, {"name": "workers"}]});
    apply(
        &stage,
        &[
            gated,
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            crate::run_of(&["gated"], crate::with(spec, targets)),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let first = pool(&stage, "infra").await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "infra-0")).await?;
    crate::delete_pool(&stage, "infra").await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolNotFound")
        .await?;
    assert!(why.contains("infra"), "{why}");
    gate.open_for_all()?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(pool(&stage, "worker").await?.spec.paused, "its nodes would roll");
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
        "spec": {
            "machineConfigSelector": first.spec.machine_config_selector,
            "nodeSelector": first.spec.node_selector,
            "paused": true,
        },
    });
    apply(&stage, &[manifest]).await?;
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": true}}))
        .await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    expected.retries = true;
    expected.restored = false;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_target_pool_deleted_in_mid_run_holds_it_by_name() -> Result<()> {
    target_pool_deleted(WorldSpec::default(), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_target_pool_deleted_in_mid_canary_run_holds_it_by_name() -> Result<()> {
    target_pool_deleted(with_canary(WorldSpec::default()), canary()).await
}

/// A rule is renamed in the spec while a node of a custom pool is in the canary and the run is held: the node comes
/// home with the labels that its pool's selector asks for by then, and is at no moment in no pool or two.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_rule_renamed_with_a_node_in_the_canary_leaves_it_a_way_home() -> Result<()> {
    let world = WorldSpec {
        pools: vec![
            numo_world::PoolSpec::new("worker", 1),
            numo_world::PoolSpec::new("infra", 2),
        ],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let renamed = rule("renamed", json!({"jobSpec": job("true")}));
    let spec = crate::with(canary(), json!({"mutexTargets": [{"name": "infras"}]}));
    apply(
        &stage,
        &[
            crate::quick(),
            renamed,
            target("infras", &["infra"]),
            crate::run_of(&["quick"], spec),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.inject(numo_world::Fault::SlowReboot {
        node: "infra-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "infra-0 reboots in the canary", |w| {
        w.state().nodes["infra-0"].rebooting && w.membership_of("infra-0").is("canary")
    })
    .await?;
    let edit = json!({"spec": {"suspend": true, "mutexRules": [{"name": "renamed"}]}});
    stage.patch_run("upgrade", edit).await?;
    stage.step("infra-0", Step::Done).await?;
    assert!(stage.world.membership_of("infra-0").is("infra"));
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    stage.upgraded("infra", NEW).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let began = |rule: &str, node: &str| rule_began(&stage.world, rule, node);
    assert!(began("quick", "infra-0") && !began("renamed", "infra-0"));
    assert!(began("renamed", "infra-1") && !began("quick", "infra-1"));
    // J4 says that at no time any node was in two pools, or in none.
    let mut expected = judgement(&[], &[]);
    expected.targets = vec!["infra".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}
