//! Every habit of the machine-config operator, by the release that has it, with both strategies; and what goes
//! wrong with a node on its way.

use anyhow::Result;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Api, api::DeleteParams};
use numo_api::{Reason, RunResult, Step};
use numo_world::{Event, Fault, McoVersion, Membership, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, happened, job, judgement, prepare, quick, released,
    released_after_a_while, rule, rule_began, run_of, seen, set, target, waits, with, with_canary, workers,
};

/// Workers and a custom pool, with a node that joins each while the first rule runs: at no moment is any node
/// in two pools or none, and nobody changes without its rules.
async fn mixed(mco: McoVersion, spec: Value) -> Result<()> {
    let through_canary = spec.get("canary").is_some();
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)],
        mco,
        canary: through_canary,
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    );
    let mut all = json!({"mutexTargets": [{"name": "infras"}, {"name": "workers"}]});
    if through_canary {
        all["canary"] = spec["canary"].clone();
    }
    apply(
        &stage,
        &[
            gated,
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            run_of(&["gated"], all),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the first rule runs", |w| {
        rule_began(w, "gated", "infra-0")
    })
    .await?;
    let late = [
        stage.world.add_node("infra").await?,
        stage.world.add_node("worker").await?,
    ];
    gate.open_for_all()?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    // A node that joins a custom pool whose selector asks for labels is in `worker` until numo has labelled it,
    // which the judge takes for its home.
    let mut breaches = stage.world.judge(&expected).await?;
    breaches.retain(|breach| !(breach.invariant == "J5" && late.contains(&breach.subject)));
    for (node, pool) in late.iter().zip(["infra", "worker"]) {
        let home = stage.world.membership_of(node);
        assert_eq!(home, Membership::Pool(pool.to_owned()), "{node}");
    }
    assert!(breaches.is_empty(), "{breaches:?}\n{}", stage.picture().await);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn pools_of_4_16_go_by_desired_config() -> Result<()> {
    mixed(McoVersion::V4_16, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn pools_of_4_16_go_through_the_canary() -> Result<()> {
    mixed(McoVersion::V4_16, canary()).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn pools_of_4_20_go_through_the_canary() -> Result<()> {
    mixed(McoVersion::V4_20, canary()).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn pools_of_4_22_go_by_desired_config() -> Result<()> {
    mixed(McoVersion::V4_22, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_of_4_22_go_through_the_canary() -> Result<()> {
    mixed(McoVersion::V4_22, canary()).await
}

/// A node whose daemon fails while another one has its turn: it is named with the daemon's words and left alone,
/// the one in flight goes on, and the rest follows when it is mended.
async fn degraded_at_rest(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage.world.inject(Fault::Degraded {
        node: "worker-1".to_owned(),
    });
    seen(&stage, "the daemon says so", |w| {
        happened(w, "worker-1", |e| matches!(e, Event::Failing { .. }))
    })
    .await?;
    gate.open_for_all()?;
    let why = waits(&stage, "NodeDegraded").await?;
    assert!(why.contains("worker-1") && why.contains("on-disk state"), "{why}");
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(
        text.contains("NodeDegraded") && text.contains("on-disk state"),
        "{text}"
    );
    stage.step("worker-0", Step::Done).await?;
    let released = released_after_a_while(&stage).await;
    assert!(!released.contains(&"worker-1".to_owned()), "{released:?}");
    stage.world.heal("worker-1");
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_degraded_node_is_named_and_left_alone() -> Result<()> {
    degraded_at_rest(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_degraded_node_of_a_canary_run_is_named_and_left_alone() -> Result<()> {
    degraded_at_rest(with_canary(workers(2)), canary()).await
}

/// A daemon that refuses the change it is asked for: numo says its words, lets nobody else go, and goes on when it
/// does.
async fn unreconcilable(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::Unreconcilable {
        node: "worker-0".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the daemon says so", |w| {
        happened(w, "worker-0", |e| matches!(e, Event::Failing { .. }))
    })
    .await?;
    stage
        .until("explain names the daemon's words", 60, || async {
            let text = stage.say(&["explain", "worker-0"]).await?;
            let named = text.contains(Reason::NodeDegraded.name()) && text.contains("can't reconcile");
            Ok(named.then_some(()))
        })
        .await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreconcilable_node_is_named_and_holds_the_others() -> Result<()> {
    unreconcilable(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn an_unreconcilable_node_in_the_canary_is_named_and_holds_the_others() -> Result<()> {
    unreconcilable(with_canary(workers(2)), canary()).await
}

/// The node is deleted while it changes: its turn ends. It counts as failed, until a person goes on without it.
async fn deleted_on_its_way(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 20.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots", |w| {
        w.state().nodes.get("worker-0").is_some_and(|node| node.rebooting)
    })
    .await?;
    stage.world.delete_node("worker-0").await?;
    let why = crate::waits(&stage, "FailureBudgetSpent").await?;
    assert!(why.contains("numo skip worker-0"), "{why}");
    stage
        .say(&["skip", "worker-0", "--reason", "it was replaced"])
        .await?;
    finish(&stage).await?;
    let change = stage.step("worker-0", Step::Failed).await?;
    assert_eq!(
        change.status.and_then(|status| status.reason).as_deref(),
        Some(Reason::NodeGone.name())
    );
    assert_eq!(released(&stage.world), ["worker-0", "worker-1", "worker-2"]);
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.excused = vec!["worker-0".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_deleted_while_it_changes_ends_its_turn() -> Result<()> {
    deleted_on_its_way(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_deleted_in_the_canary_ends_its_turn() -> Result<()> {
    deleted_on_its_way(with_canary(workers(3)), canary()).await
}

/// 4.16 → 4.17 → 4.18 with the pool paused by its administrator: each worker reboots once, after its rules.
async fn control_plane_only(world: WorldSpec, spec: Value) -> Result<()> {
    let newest = "4.18.0";
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.pause("worker", true).await?;
    stage.world.remember().await?;
    for version in [NEW, newest] {
        stage.world.upgrade_to(version).await?;
        seen(&stage, "the control plane is there", |w| w.is_completed(version)).await?;
        let why = stage
            .condition("upgrade", "Ready", "False", "PoolPausedByOther")
            .await?;
        assert!(why.contains("worker") && why.contains("kubectl-patch"), "{why}");
        assert!(released_after_a_while(&stage).await.is_empty(), "a veto is kept");
    }
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": true}}))
        .await?;
    stage.upgraded("worker", newest).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
    let run = run.unwrap_or_default();
    assert_eq!(
        (run.target.as_str(), run.result),
        (newest, Some(RunResult::Succeeded))
    );
    assert!(run.ungated.is_empty(), "{:?}", run.ungated);
    for node in ["worker-0", "worker-1"] {
        let log = stage.world.log();
        let reboots = log
            .iter()
            .filter(|e| e.subject == node && e.event == Event::Rebooting);
        assert_eq!(reboots.count(), 1, "{node} reboots once");
    }
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = Some(newest.to_owned());
    stage.judge(&expected).await?;
    assert!(
        crate::pool(&stage, "worker").await?.spec.paused,
        "its administrator's pause stays"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_only_update_reboots_each_worker_once() -> Result<()> {
    control_plane_only(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_control_plane_only_update_through_the_canary_reboots_each_worker_once() -> Result<()> {
    control_plane_only(with_canary(workers(2)), canary()).await
}

/// The drain cannot pass although the dry run of its evictions could: the daemon goes Degraded, numo says so and
/// holds the others.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_drain_that_gets_stuck_after_the_release_is_named() -> Result<()> {
    stuck(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_gets_stuck_in_the_canary_is_named() -> Result<()> {
    stuck(with_canary(workers(2)), canary()).await
}

/// A pod of its own on the node, and a budget that never lets it go.
fn in_the_way(node: &str) -> [Value; 2] {
    let labels = json!({"app": "keep"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "keep", "namespace": "default", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
    });
    [pod, budget]
}

async fn stuck(world: WorldSpec, mut spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    spec["changeTimeoutSeconds"] = json!(6);
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::DrainStuck {
        node: "worker-0".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "ChangeTimeout").await?;
    assert!(
        why.contains("drain is under way") && why.contains("PodDisruptionBudget"),
        "{why}"
    );
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    // What it does not get past is named, and that it hangs on it.
    apply(&stage, &in_the_way("worker-0")).await?;
    let text = crate::explained(&stage, "worker-0", "when its drain gets past this", 60).await?;
    assert!(text.contains("default/keep"), "{text}");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), "default");
    budgets.delete("keep", &DeleteParams::default()).await?;
    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// The same by `suspend`: numo holds the pool over both minors, and each worker reboots once, after its rules.
async fn suspended_over_two_minors(world: WorldSpec, spec: Value) -> Result<()> {
    let newest = "4.18.0";
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    stage.condition("upgrade", "Ready", "False", "Suspended").await?;
    stage.world.upgrade_through(&[NEW, newest]).await?;
    assert!(
        released_after_a_while(&stage).await.is_empty(),
        "nobody moves while it is suspended"
    );
    assert!(crate::pool(&stage, "worker").await?.spec.paused);
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    stage.upgraded("worker", newest).await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    for node in ["worker-0", "worker-1"] {
        let log = stage.world.log();
        let reboots = log
            .iter()
            .filter(|e| e.subject == node && e.event == Event::Rebooting);
        assert_eq!(reboots.count(), 1, "{node} reboots once");
    }
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.at_version = Some(newest.to_owned());
    stage.judge(&expected).await?;
    assert!(!crate::pool(&stage, "worker").await?.spec.paused);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_run_holds_the_pool_over_two_minors() -> Result<()> {
    suspended_over_two_minors(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_suspended_canary_run_holds_the_pool_over_two_minors() -> Result<()> {
    suspended_over_two_minors(with_canary(workers(2)), canary()).await
}

/// The daemon gives up on the node that was let go: its words are said, it is held when its time is up, nobody else is
/// let go, and it goes on when it is mended.
async fn degraded_on_its_way(mut world: WorldSpec, spec: Value) -> Result<()> {
    // The daemon takes two seconds for real to take up what it is asked for.
    world.timings.daemon_poll = 500.0;
    let stage = set(world, Vec::new()).await?;
    let spec = with(spec, json!({"changeTimeoutSeconds": 7}));
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| {
        happened(w, "worker-0", |e| matches!(e, Event::DesiredConfigSet { .. }))
    })
    .await?;
    stage.world.inject(Fault::Degraded {
        node: "worker-0".to_owned(),
    });
    stage
        .until("explain names the daemon's words", 60, || async {
            let text = stage.say(&["explain", "worker-0"]).await?;
            let named = text.contains(Reason::NodeDegraded.name()) && text.contains("on-disk state");
            Ok(named.then_some(()))
        })
        .await?;
    let held = stage.step("worker-0", Step::Held).await?;
    let status = held.status.unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("ChangeTimeout"));
    assert!(
        status.message.unwrap_or_default().contains("on-disk state"),
        "what the daemon said"
    );
    waits(&stage, "FailureBudgetSpent").await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_degraded_after_its_release_is_named_and_then_held() -> Result<()> {
    degraded_on_its_way(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_degraded_in_the_canary_is_named_and_then_held() -> Result<()> {
    degraded_on_its_way(with_canary(workers(2)), canary()).await
}

/// Rendered configurations die with their pool: a node that is done runs one of its own pool, so the canary can be
/// deleted after the run and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn the_canary_can_be_deleted_after_the_run() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    prepare(&stage, &[quick()], canary()).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    let pools: kube::Api<numo_world::openshift::MachineConfigPool> = kube::Api::all(stage.person.clone());
    pools
        .delete("canary", &kube::api::DeleteParams::default())
        .await?;
    crate::gone(&stage, &pools, "canary").await?;
    let own = crate::pool(&stage, "worker").await?.spec.configuration.name;
    let released = released_after_a_while(&stage).await;
    assert_eq!(released, ["worker-0", "worker-1"], "nobody changes again");
    for (name, node) in &stage.world.state().nodes {
        if name.starts_with("worker") {
            assert_eq!((&node.current, &node.desired), (&own, &own), "{name}");
        }
    }
    stage.strike().await
}
