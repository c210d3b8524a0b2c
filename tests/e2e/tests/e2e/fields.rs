//! Fields of the run and of a rule, each by what it does to nodes: order, failureBudget, failurePolicy Abort,
//! hold Always, adoptPaused, quarantine, and a rule's name.

use anyhow::Result;
use kube::ResourceExt;
use numo_api::{RunResult, Step, marks};
use numo_world::{Event, Fault, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, job, judgement, mark, pool, prepare, quick, released,
    released_after_a_while, rule, rule_began, seen, set, with, with_canary, workers,
};

const ZONE: &str = "topology.kubernetes.io/zone";

/// Nodes have their turns in the order that is asked for; what it is comes from the nodes themselves.
async fn ordered(world: WorldSpec, spec: Value, order: &str) -> Result<()> {
    // Names, zones and ages all sort differently.
    let stage = set(WorldSpec { zones: 2, ..world }, Vec::new()).await?;
    stage.world.recreate_node("worker-1").await?;
    seen(&stage, "worker-1 is there again", |w| {
        w.state().nodes.get("worker-1").is_some_and(|node| node.ready)
    })
    .await?;
    stage.world.remember().await?;
    prepare(&stage, &[quick()], with(spec, json!({"order": order}))).await?;
    let mut nodes = stage.world.nodes();
    nodes.retain(|node| node.name_any().starts_with("worker"));
    let born = |node: &k8s_openapi::api::core::v1::Node| node.creation_timestamp().map(|time| time.0);
    nodes.sort_by_key(|node| (born(node), node.name_any()));
    match order {
        "Newest" => nodes.sort_by_key(|node| (std::cmp::Reverse(born(node)), node.name_any())),
        "Zone" => nodes.sort_by_key(|node| (node.labels()[ZONE].clone(), born(node), node.name_any())),
        _ => {}
    }
    let wanted: Vec<String> = nodes.iter().map(|node| node.name_any()).collect();
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    assert_eq!(released(&stage.world), wanted, "{order}");
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn nodes_have_their_turns_zone_by_zone() -> Result<()> {
    ordered(workers(4), json!({}), "Zone").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn nodes_go_through_the_canary_zone_by_zone() -> Result<()> {
    ordered(with_canary(workers(4)), canary(), "Zone").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_node_has_its_turn_first() -> Result<()> {
    ordered(workers(3), json!({}), "Oldest").await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn the_newest_node_has_its_turn_first() -> Result<()> {
    ordered(workers(3), json!({}), "Newest").await
}

/// One failure holds nobody else, the second ends it for all.
async fn two_failures(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let sick = json!({"jobSpec": job("test $NODE_NAME != worker-0 -a $NODE_NAME != worker-1")});
    let spec = with(spec, json!({"failureBudget": 2, "maxUnavailable": 3}));
    let max = json!({"spec": {"maxUnavailable": 3}});
    if stage.world.pool("canary").is_some() {
        let pools: kube::Api<numo_world::openshift::MachineConfigPool> = kube::Api::all(stage.person.clone());
        let params = kube::api::PatchParams::default();
        pools
            .patch("canary", &params, &kube::api::Patch::Merge(max))
            .await?;
        stage.world.remember().await?;
    }
    let gate = Gate::new()?;
    let before = format!("test $NODE_NAME = worker-0 || {}", gate.wait());
    let rules = [
        rule("gated", json!({"jobSpec": job(&before)})),
        rule("sick", sick),
    ];
    prepare(&stage, &rules, spec).await?;
    stage.world.upgrade_to(NEW).await?;
    let held = stage.step("worker-0", Step::Held).await?;
    assert_eq!(
        held.status.unwrap_or_default().reason.as_deref(),
        Some("RuleFailed")
    );
    // One of two: the third is let go and comes back, the others have their turns.
    gate.open("worker-2")?;
    stage.step("worker-2", Step::Done).await?;
    gate.open("worker-1")?;
    stage.step("worker-1", Step::Held).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "FailureBudgetSpent")
        .await?;
    assert!(
        why.contains("spec.failureBudget") && why.contains("worker-0") && why.contains("worker-1"),
        "{why}"
    );
    gate.open_for_all()?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-2"]);
    assert!(
        stage
            .change("worker-3")
            .await?
            .is_none_or(|change| { change.status.unwrap_or_default().step != Some(Step::Released) }),
        "nobody else is let go"
    );
    apply(&stage, &[rule("sick", json!({"jobSpec": job("true")}))]).await?;
    for node in ["worker-0", "worker-1"] {
        stage.say(&["retry", node]).await?;
    }
    finish(&stage).await?;
    let mut expected = judgement(&["gated", "sick"], &[]);
    expected.max_in_flight = 3;
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_nodes_may_fail_as_the_budget_says() -> Result<()> {
    two_failures(workers(4), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn as_many_nodes_of_a_canary_run_may_fail_as_the_budget_says() -> Result<()> {
    two_failures(with_canary(workers(4)), canary()).await
}

/// `failurePolicy: Abort`: no further node has a turn, and the pool stays paused.
async fn abort(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let picky = json!({"jobSpec": job("test $NODE_NAME != worker-1"), "failurePolicy": "Abort"});
    prepare(&stage, &[rule("picky", picky)], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    let held = stage.condition("upgrade", "PoolHeld", "True", "PoolHeld").await?;
    assert!(held.contains("worker") && held.contains("2 of 3"), "{held}");
    let run = stage.run("upgrade").await?;
    let last = run
        .status
        .clone()
        .and_then(|status| status.run)
        .unwrap_or_default();
    assert_eq!(last.result, Some(RunResult::Aborted));
    let text = stage.say(&["explain", "worker-2"]).await?;
    assert!(text.contains("Aborted"), "{text}");
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    assert!(!rule_began(&stage.world, "picky", "worker-2"));
    let mut expected = judgement(&["picky"], &[]);
    expected.held = vec!["worker".to_owned()];
    expected.at_version = None;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_failed_rule_whose_policy_is_abort_gives_the_run_up() -> Result<()> {
    abort(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_rule_whose_policy_is_abort_gives_the_canary_run_up() -> Result<()> {
    abort(with_canary(workers(3)), canary()).await
}

/// A pool that is always held and that someone keeps opening between runs: paused again three times, then left
/// open, and the writer is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_is_always_held_is_paused_again_three_times() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let spec = json!({"trigger": "AnyConfig", "hold": "Always"});
    prepare(&stage, &[quick()], spec).await?;
    for round in 0..=3 {
        stage
            .until(&format!("the pool is held, round {round}"), 60, || async {
                let mark = mark(&stage, "worker", marks::PAUSED_BY)
                    .await?
                    .unwrap_or_default();
                let paused = pool(&stage, "worker").await?.spec.paused;
                let so_often = mark["corrections"].as_u64().unwrap_or_default() == round;
                Ok((paused && mark.is_object() && so_often).then_some(()))
            })
            .await?;
        stage.pause("worker", false).await?;
        if round == 0 {
            let event = stage.event("MutexRunConfig", "upgrade", "PausedAgain").await?;
            assert!(event.note.unwrap_or_default().contains("kubectl-patch"));
        }
    }
    let why = stage
        .condition("upgrade", "Ready", "False", "ForeignWriter")
        .await?;
    assert!(
        why.contains("MachineConfigPool worker") && why.contains("kubectl-patch"),
        "{why}"
    );
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(!pool(&stage, "worker").await?.spec.paused, "it is theirs");
    // They close it again, and numo holds it as before.
    stage.pause("worker", true).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "all workers are at the new version", |w| {
        w.version_of("worker-0") == NEW && w.version_of("worker-1") == NEW
    })
    .await?;
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.restored = false;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// `adoptPaused` that is always set gives a control-plane-only update away: each worker reboots at each minor, by
/// its rules, and the pool stays paused.
async fn always_adopted(world: WorldSpec, spec: Value) -> Result<()> {
    let newest = "4.18.0";
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], with(spec, json!({"adoptPaused": true}))).await?;
    stage.pause("worker", true).await?;
    stage.world.remember().await?;
    for version in [NEW, newest] {
        stage.world.upgrade_to(version).await?;
        stage.upgraded("worker", version).await?;
        stage
            .until("the run is over", 60, || async {
                let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
                let run = run.unwrap_or_default();
                Ok((run.target == version && run.result == Some(RunResult::Succeeded)).then_some(()))
            })
            .await?;
        assert!(pool(&stage, "worker").await?.spec.paused, "as it was found");
        let mut expected = judgement(&["quick"], &["quick"]);
        expected.at_version = Some(version.to_owned());
        expected.retries = version == newest;
        stage.judge(&expected).await?;
    }
    for node in ["worker-0", "worker-1"] {
        let log = stage.world.log();
        let reboots = log
            .iter()
            .filter(|e| e.subject == node && e.event == Event::Rebooting);
        assert_eq!(reboots.count(), 2, "{node} reboots at each minor");
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_is_always_adopted_is_worked_on_at_each_minor() -> Result<()> {
    always_adopted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pause_that_is_always_adopted_by_a_canary_run_is_worked_on_at_each_minor() -> Result<()> {
    always_adopted(with_canary(workers(2)), canary()).await
}

/// `quarantine: Taint` with a Post rule that fails: the node is back, takes no new pods, and the taint goes when the
/// rule passes.
async fn quarantined_by_a_rule(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let sick = |command: &str| rule("disks", json!({"cleanUpJobSpec": job(command)}));
    let spec = with(spec, json!({"quarantine": "Taint"}));
    prepare(&stage, &[sick("exit 4")], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    let held = stage.step("worker-0", Step::Held).await?;
    assert_eq!(
        held.status.unwrap_or_default().reason.as_deref(),
        Some("RuleFailed")
    );
    let tainted = |node: &str| {
        let spec = stage.world.node(node).and_then(|node| node.spec.clone());
        let taints = spec.and_then(|spec| spec.taints).unwrap_or_default();
        taints
            .into_iter()
            .any(|taint| taint.key == marks::QUARANTINE && taint.effect == "NoSchedule")
    };
    seen(&stage, "worker-0 is tainted", |_| tainted("worker-0")).await?;
    stage.event("Node", "worker-0", "Quarantined").await?;
    assert_eq!(released_after_a_while(&stage).await, ["worker-0"]);
    assert!(!tainted("worker-1") && !tainted("worker-2"));
    apply(&stage, &[sick("true")]).await?;
    stage.say(&["retry", "worker-0"]).await?;
    seen(&stage, "the taint is gone", |_| !tainted("worker-0")).await?;
    finish(&stage).await?;
    let mut expected = judgement(&[], &["disks"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_its_post_rule_is_tainted_until_that_passes() -> Result<()> {
    quarantined_by_a_rule(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_of_a_canary_run_that_fails_its_post_rule_is_tainted_until_that_passes() -> Result<()> {
    quarantined_by_a_rule(with_canary(workers(3)), canary()).await
}

/// A dot in a rule's name is a name like any (B17).
async fn dotted(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let check = json!({"jobName": "storage", "jobSpec": job("true"), "cleanUpJobSpec": job("true")});
    prepare(&stage, &[rule("storage.v1", check)], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    for node in ["worker-0", "worker-1"] {
        let change = stage.step(node, Step::Done).await?;
        let passed = crate::verdicts(&change, "storage.v1", numo_api::Phase::Pre);
        assert_eq!(passed, [(1, numo_api::Outcome::Pass, Some(0))], "{node}");
    }
    stage.judge(&judgement(&["storage.v1"], &["storage.v1"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_with_a_dot_in_its_name_is_a_rule_like_any() -> Result<()> {
    dotted(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_rule_with_a_dot_in_its_name_guards_the_canary_like_any() -> Result<()> {
    dotted(with_canary(workers(2)), canary()).await
}

/// A node that is done and then dies holds nobody (B10): the rest goes on, and the run ends.
async fn done_and_dead(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    gate.open("worker-0")?;
    // No Job runs on the node that dies.
    let mut spec_of_job = job(&gate.wait());
    let elsewhere = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["worker-0"]});
    spec_of_job["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]},
    }});
    let gated = rule("gated", json!({"jobSpec": spec_of_job}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.step("worker-0", Step::Done).await?;
    stage.world.inject(Fault::NotReady {
        node: "worker-0".to_owned(),
    });
    seen(&stage, "worker-0 is dead", |w| !w.state().nodes["worker-0"].ready).await?;
    gate.open_for_all()?;
    for node in ["worker-1", "worker-2"] {
        stage.step(node, Step::Done).await?;
    }
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    stage
        .until("the pool is given back", 60, || async {
            let pool = pool(&stage, "worker").await?.spec.paused;
            let marked = mark(&stage, "worker", marks::PAUSED_BY).await?.is_some();
            Ok((!pool && !marked).then_some(()))
        })
        .await?;
    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_done_node_that_dies_holds_nobody() -> Result<()> {
    done_and_dead(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_done_node_of_a_canary_run_that_dies_holds_nobody() -> Result<()> {
    done_and_dead(with_canary(workers(3)), canary()).await
}
