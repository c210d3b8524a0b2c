//! Several runs, targets and budgets over the same nodes: one after the other, and never stuck.

use anyhow::Result;
use numo_api::Step;
use numo_world::{Event, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, job, judgement, prepare, quick, released, rule, rule_began, run_of,
    seen, set, target, waits, waits_in, with, with_canary, workers,
};

fn budget(name: &str, max: u32) -> Value {
    json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": name}, "spec": {"nodeSelector": {}, "maxUnavailable": max},
    })
}

/// Two runs on two pools under budgets over both, one by canary: never more than one node is away, and both end.
#[tokio::test(flavor = "multi_thread")]
async fn budgets_over_two_runs_are_shared_and_both_end() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let mut infra = run_of(
        &["quick"],
        json!({"mutexTargets": [{"name": "infras"}], "maxUnavailable": 2}),
    );
    infra["metadata"]["name"] = json!("infra");
    apply(
        &stage,
        &[
            budget("one", 1),
            budget("two", 2),
            quick(),
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            run_of(
                &["quick"],
                json!({"canary": {"name": "canary"}, "maxUnavailable": 2}),
            ),
            infra,
        ],
    )
    .await?;
    for name in ["upgrade", "infra"] {
        stage.condition(name, "Ready", "True", "UpToDate").await?;
    }
    stage.world.upgrade_to(NEW).await?;
    let waiting = |name: &'static str| waits_in(&stage, name, "BudgetExhausted");
    let (a, b) = futures::future::select(Box::pin(waiting("upgrade")), Box::pin(waiting("infra")))
        .await
        .factor_first();
    drop(b);
    let why = a?;
    assert!(why.contains("MutexBudget one"), "{why}");
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    stage.condition("infra", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A pool that two targets of one run name is one pool, and each of its nodes has one turn.
async fn two_targets(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    apply(&stage, &[target("again", &["worker"])]).await?;
    let targets = json!({"mutexTargets": [{"name": "workers"}, {"name": "again"}, {"name": "workers"}]});
    prepare(&stage, &[quick()], with(spec, targets)).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    assert_eq!(stage.changes().await?.len(), 2);
    // J3: each rule once per node.
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_in_two_targets_has_one_turn() -> Result<()> {
    two_targets(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_two_targets_goes_through_the_canary_once() -> Result<()> {
    two_targets(with_canary(workers(2)), canary()).await
}

/// The second run comes to its turn when the first one is deleted in mid-run, and takes over what is left.
async fn taken_over(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec.clone()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let mut second = run_of(&["gated"], spec);
    second["metadata"]["name"] = json!("second");
    apply(&stage, &[second]).await?;
    let why = stage
        .condition("second", "Ready", "False", "PoolHeldByRun")
        .await?;
    assert!(why.contains("upgrade"), "{why}");
    crate::delete_run(&stage, "upgrade").await?;
    gate.open_for_all()?;
    stage.upgraded("worker", NEW).await?;
    stage.condition("second", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_run_on_a_pool_takes_over_when_the_first_is_deleted() -> Result<()> {
    taken_over(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn the_second_canary_run_on_a_pool_takes_over_when_the_first_is_deleted() -> Result<()> {
    taken_over(with_canary(workers(2)), canary()).await
}

/// `mutexKeys`, `order` and `soakSeconds`: nodes of one zone never fly together, in the order that was asked
/// for, each for its whole soak.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_one_zone_never_fly_together_and_each_soaks() -> Result<()> {
    let world = WorldSpec {
        zones: 2,
        ..workers(4)
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    let keys = json!({
        "maxUnavailable": 4, "mutexKeys": ["topology.kubernetes.io/zone"], "order": "Newest", "soakSeconds": 12,
    });
    prepare(&stage, &[gated], keys).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "MutexKeyBusy").await?;
    assert!(
        why.contains("topology.kubernetes.io/zone") && why.contains("spec.mutexKeys"),
        "{why}"
    );
    let state = stage.world.state();
    let zone = |node: &str| state.nodes[node].labels["topology.kubernetes.io/zone"].clone();
    let flying = stage.changes().await?;
    assert_eq!(flying.len(), 2, "one of each zone");
    assert_ne!(zone(&flying[0].spec.node_name), zone(&flying[1].spec.node_name));
    let waiting = flying[0].spec.node_name.clone();
    let text = stage
        .say(&[
            "explain",
            if waiting == "worker-0" {
                "worker-2"
            } else {
                "worker-0"
            },
        ])
        .await?;
    assert!(
        text.contains("MutexKeyBusy") || text.contains("worker-"),
        "{text}"
    );
    gate.open_for_all()?;
    stage.step(&waiting, Step::Soaked).await?;
    let text = stage.say(&["explain", &waiting]).await?;
    assert!(text.contains("Soaking"), "{text}");
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.max_in_flight = 2;
    stage.judge(&expected).await?;
    // From the release of a node to the release of the next one of its zone there was a soak.
    let log = stage.world.log();
    for node in released(&stage.world) {
        let back = log
            .iter()
            .find(|e| e.subject == node && matches!(&e.event, Event::Done { version, .. } if version == NEW));
        let next = log.iter().find(|e| {
            e.subject != node
                && state.nodes.contains_key(&e.subject)
                && zone(&e.subject) == zone(&node)
                && matches!(e.event, Event::DesiredConfigSet { .. })
                && back.is_some_and(|back| e.revision > back.revision)
        });
        if let (Some(back), Some(next)) = (back, next) {
            let waited = next.at.duration_since(back.at).as_secs();
            assert!(
                waited >= 1,
                "{node} had no soak before {}: {waited} s",
                next.subject
            );
        }
    }
    stage.strike().await
}

/// Two runs want one pool, and one of them another pool too: that one is paused at once and goes on, and only the
/// nodes of the shared pool wait for the other run.
async fn held_by_another(world: WorldSpec, spec: Value) -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..world
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(
        &stage,
        &[gated, quick()],
        json!({"mutexRules": [{"name": "gated"}]}),
    )
    .await?;
    // Its administrator holds the other pool until its run is there: the MCO would roll it meanwhile.
    stage.pause("infra", true).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let both = json!({"adoptPaused": true, "mutexTargets": [{"name": "workers"}, {"name": "infras"}]});
    let mut second = run_of(&["quick"], with(spec, both));
    second["metadata"]["name"] = json!("second");
    apply(&stage, &[target("infras", &["infra"]), second]).await?;
    let why = waits_in(&stage, "second", "PoolHeldByRun").await?;
    assert!(why.contains("worker") && why.contains("upgrade"), "{why}");
    stage.upgraded("infra", NEW).await?;
    assert!(
        !released(&stage.world)
            .iter()
            .any(|node| node.starts_with("worker"))
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    stage.condition("second", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&[], &[]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    expected.restored = false;
    // One of each run.
    expected.max_in_flight = 2;
    stage.judge(&expected).await?;
    let gated = |node: &str| rule_began(&stage.world, "gated", node);
    assert!(gated("worker-0") && gated("worker-1") && !gated("infra-0"));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_another_run_holds_holds_its_own_nodes_only() -> Result<()> {
    held_by_another(WorldSpec::default(), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_that_another_run_holds_holds_its_own_nodes_of_a_canary_run_only() -> Result<()> {
    held_by_another(with_canary(WorldSpec::default()), canary()).await
}

/// The canary's own `maxUnavailable` is what the MCO goes by: no more nodes are let go into it than it takes up.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_nodes_are_let_go_than_the_canary_takes_up() -> Result<()> {
    let stage = set(with_canary(workers(4)), Vec::new()).await?;
    let pools: kube::Api<numo_world::openshift::MachineConfigPool> = kube::Api::all(stage.person.clone());
    let two = json!({"spec": {"maxUnavailable": 2}});
    pools
        .patch(
            "canary",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(two),
        )
        .await?;
    stage.world.remember().await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    let spec = json!({"canary": {"name": "canary"}, "maxUnavailable": 4});
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "two rules run", |w| {
        ["worker-0", "worker-1"]
            .iter()
            .all(|node| rule_began(w, "gated", node))
    })
    .await?;
    let why = waits(&stage, "WaitingForTurn").await?;
    assert!(
        why.contains("MachineConfigPool canary") && why.contains("spec.maxUnavailable"),
        "{why}"
    );
    assert_eq!(stage.changes().await?.len(), 2);
    gate.open_for_all()?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.max_in_flight = 2;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// Two runs share a canary: the second waits for the first with its own pools paused, and then goes through it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn of_two_runs_that_share_a_canary_the_second_waits_with_its_pools_paused() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"canary": {"name": "canary"}})).await?;
    // Its administrator holds the other pool until its run is there.
    stage.pause("infra", true).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let shared = json!({"canary": {"name": "canary"}, "mutexTargets": [{"name": "infras"}]});
    let mut second = run_of(&["gated"], shared);
    second["metadata"]["name"] = json!("second");
    apply(&stage, &[target("infras", &["infra"]), second]).await?;
    stage
        .patch_run("second", json!({"spec": {"adoptPaused": true}}))
        .await?;
    let why = stage
        .condition("second", "Ready", "False", "PoolHeldByRun")
        .await?;
    assert!(why.contains("canary") && why.contains("upgrade"), "{why}");
    assert!(crate::pool(&stage, "infra").await?.spec.paused);
    gate.open_for_all()?;
    finish(&stage).await?;
    stage.upgraded("infra", NEW).await?;
    stage.condition("second", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    expected.restored = false;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The first run was given up and holds its pool: the second waits, is told by whom and that a person must end it,
/// and takes the pool over when one does.
async fn held_by_one_that_ended(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec.clone()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    stage
        .say(&["abort", "upgrade", "-n", numo_e2e::NAMESPACE])
        .await?;
    stage.condition("upgrade", "PoolHeld", "True", "PoolHeld").await?;
    let mut second = run_of(&["gated"], spec);
    second["metadata"]["name"] = json!("second");
    apply(&stage, &[second]).await?;
    let why = stage
        .condition("second", "Ready", "False", "PoolHeldByRun")
        .await?;
    for words in [
        "MachineConfigPool worker",
        "upgrade",
        "is over",
        "a person must delete it",
    ] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
    gate.open_for_all()?;
    assert!(crate::released_after_a_while(&stage).await.is_empty());
    crate::delete_run(&stage, "upgrade").await?;
    stage.upgraded("worker", NEW).await?;
    stage.condition("second", "Ready", "True", "Succeeded").await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_held_by_a_run_that_ended_waits_for_a_person() -> Result<()> {
    held_by_one_that_ended(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_held_by_a_canary_run_that_ended_waits_for_a_person() -> Result<()> {
    held_by_one_that_ended(with_canary(workers(2)), canary()).await
}
