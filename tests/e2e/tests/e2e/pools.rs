//! Pools of others, and custom pools.

use anyhow::Result;
use numo_api::{RunResult, marks};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    NEW, apply, canary, finish, judgement, mark, object, pool, prepare, quick, released,
    released_after_a_while, run_of, set, target, waits, with, with_canary, workers,
};

async fn veto(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.pause("worker", true).await?;
    stage.world.remember().await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    for words in [
        "MachineConfigPool worker",
        "not by numo",
        "kubectl-patch",
        "spec.adoptPaused",
    ] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
    stage
        .event("MutexRunConfig", "upgrade", "PoolPausedByOther")
        .await?;
    let why = waits(&stage, "PoolPausedByOther").await.unwrap_or(why);
    assert!(why.contains("kubectl-patch"), "{why}");
    assert!(released_after_a_while(&stage).await.is_empty());
    let writes: Vec<String> = stage
        .requests()?
        .iter()
        .filter(|request| request.is_write())
        .filter(|request| {
            ["nodes", "machineconfigpools", "nodechanges"].contains(&request.resource.as_str())
                || (request.resource == "leases" && request.name != "numo-leader")
        })
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert!(writes.is_empty(), "a veto is kept: {writes:?}");
    assert_eq!(mark(&stage, "worker", marks::PAUSED_BY).await?, None);

    // Adopted: worked on, and left as it was found.
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": true}}))
        .await?;
    finish(&stage).await?;
    assert!(pool(&stage, "worker").await?.spec.paused, "it was paused before");
    stage.judge(&judgement(&["quick"], &["quick"])).await?;

    // Vetoed again by the next version; then lifted. The MCO may be faster than numo: what it takes before
    // the pool is paused again is not hidden.
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": false}}))
        .await?;
    let newest = "4.17.1";
    stage.world.upgrade_to(newest).await?;
    stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    stage.pause("worker", false).await?;
    stage.upgraded("worker", newest).await?;
    crate::ended(&stage).await?;
    assert!(!pool(&stage, "worker").await?.spec.paused);
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    let result = if last.ungated.is_empty() {
        RunResult::Succeeded
    } else {
        RunResult::SucceededUngated
    };
    assert_eq!((last.target.as_str(), last.result), (newest, Some(result)));
    for node in ["worker-0", "worker-1"] {
        let by_rules = stage.changes().await?.iter().any(|change| {
            change.spec.node_name == node
                && change.spec.target.version == newest
                && !crate::verdicts(change, "quick", numo_api::Phase::Pre).is_empty()
        });
        let ungated = last.ungated.iter().any(|name| name == node);
        assert!(by_rules || ungated, "{node} changed unseen: {last:?}");
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pool_paused_by_someone_else_is_a_veto_until_adopted_or_lifted() -> Result<()> {
    veto(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_paused_by_someone_else_is_a_veto_to_a_canary_run_until_adopted_or_lifted() -> Result<()> {
    veto(with_canary(workers(2)), canary()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_someone_unpauses_in_mid_run_is_paused_again() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = crate::Gate::new()?;
    prepare(
        &stage,
        &[crate::rule("gated", json!({"jobSpec": crate::job(&gate.wait())}))],
        json!({}),
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    crate::seen(&stage, "a rule runs", |w| {
        crate::rule_began(w, "gated", "worker-0")
    })
    .await?;
    stage.pause("worker", false).await?;
    crate::seen(&stage, "it is paused again", |w| {
        let by_numo =
            |e: &numo_world::Entry| matches!(&e.event, numo_world::Event::PoolPaused { by } if by.starts_with("numo"));
        w.log().iter().filter(|e| e.subject == "worker" && by_numo(e)).count() == 2
    })
    .await?;
    let event = stage.event("MutexRunConfig", "upgrade", "PausedAgain").await?;
    assert!(event.note.unwrap_or_default().contains("kubectl-patch"));
    gate.open_for_all()?;
    stage.upgraded("worker", NEW).await?;
    crate::ended(&stage).await?;
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    let released = released(&stage.world);
    for node in &released {
        let ungated = last.ungated.contains(node);
        assert!(
            crate::rule_began(&stage.world, "gated", node) || ungated,
            "{node} changed unseen: {last:?}"
        );
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_pool_and_the_workers_go_through_one_canary() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 2)],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    apply(
        &stage,
        &[
            quick(),
            target("workers", &["worker"]),
            target("infras", &["infra"]),
        ],
    )
    .await?;
    let targets =
        json!({"canary": {"name": "canary"}, "mutexTargets": [{"name": "infras"}, {"name": "workers"}]});
    apply(&stage, &[run_of(&["quick"], targets)]).await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    // J4 says that at no time any node was in two pools, or in none.
    stage.judge(&expected).await?;
    assert_eq!(
        released(&stage.world),
        ["infra-0", "infra-1", "worker-0", "worker-1"],
        "targets in the order of the spec"
    );
    stage.strike().await
}

async fn two_runs(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec.clone()).await?;
    let mut second = run_of(&["quick"], spec);
    second["metadata"]["name"] = json!("second");
    apply(
        &stage,
        &[second, object("MutexRule", "unused", quick()["spec"].clone())],
    )
    .await?;
    stage.condition("second", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    let waits_for_other = stage
        .until("one of the runs waits for the other", 60, || async {
            for (waiting, other) in [("second", "upgrade"), ("upgrade", "second")] {
                let run = stage.run(waiting).await?;
                let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
                if ready.reason.as_deref() == Some("PoolHeldByRun") {
                    let message = ready.message.unwrap_or_default();
                    assert!(message.contains(other), "{message}");
                    return Ok(Some(waiting));
                }
            }
            Ok(None)
        })
        .await?;
    stage.upgraded("worker", NEW).await?;
    let winner = if waits_for_other == "second" {
        "upgrade"
    } else {
        "second"
    };
    stage.condition(winner, "Ready", "True", "Succeeded").await?;
    stage
        .condition(waits_for_other, "Ready", "True", "UpToDate")
        .await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_runs_that_want_one_pool_the_second_waits() -> Result<()> {
    two_runs(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn of_two_canary_runs_that_want_one_pool_the_second_waits() -> Result<()> {
    two_runs(with_canary(workers(2)), canary()).await
}

async fn dry_run(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let dry = run_of(
        &["quick"],
        with(spec, json!({"dryRun": true, "adoptPaused": true})),
    );
    apply(&stage, &[quick(), target("workers", &["worker"]), dry]).await?;
    stage.condition("upgrade", "Ready", "False", "DryRun").await?;
    // Its owner holds the pool, or the MCO would do what numo only thinks about.
    stage.pause("worker", true).await?;
    stage.world.remember().await?;
    stage.world.upgrade_to(NEW).await?;
    stage
        .condition("upgrade", "UpgradeReady", "True", "UpgradeReady")
        .await?;
    stage.condition("upgrade", "Ready", "False", "DryRun").await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    let run = stage.run("upgrade").await?;
    assert!(run.metadata.finalizers.is_none());
    assert!(stage.changes().await?.is_empty() && crate::jobs(&stage).await?.is_empty());
    for (name, pool) in &stage.world.state().pools {
        assert!(pool.marks.is_empty(), "{name}: {:?}", pool.marks);
    }
    stage
        .patch_run("upgrade", json!({"spec": {"dryRun": false}}))
        .await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_reports_and_writes_nothing() -> Result<()> {
    dry_run(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_dry_canary_run_reports_and_writes_nothing() -> Result<()> {
    dry_run(with_canary(workers(2)), canary()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn several_nodes_at_once_within_every_budget_and_rules_keep_away_from_them() -> Result<()> {
    let stage = set(workers(4), Vec::new()).await?;
    let gate = crate::Gate::new()?;
    let budget = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "one"}, "spec": {"nodeSelector": {}, "maxUnavailable": 1},
    });
    apply(&stage, &[budget]).await?;
    let rules = [crate::rule("gated", json!({"jobSpec": crate::job(&gate.wait())}))];
    prepare(&stage, &rules, json!({"maxUnavailable": "50%"})).await?;
    stage.world.upgrade_to(NEW).await?;
    crate::seen(&stage, "a rule runs", |w| {
        crate::rule_began(w, "gated", "worker-0")
    })
    .await?;
    let why = waits(&stage, "BudgetExhausted").await?;
    for word in ["MutexBudget", "one", "worker-0"] {
        assert!(why.contains(word), "no {word} in: {why}");
    }
    assert_eq!(stage.changes().await?.len(), 1);

    let budgets: kube::Api<numo_api::MutexBudget> = kube::Api::all(stage.person.clone());
    let conditions = budgets.get("one").await?.status.unwrap_or_default().conditions;
    assert!(
        conditions
            .iter()
            .any(|one| one.type_ == "Ready" && one.status == "True"),
        "{conditions:?}"
    );
    budgets.delete("one", &kube::api::DeleteParams::default()).await?;
    crate::seen(&stage, "a second rule runs", |w| {
        crate::rule_began(w, "gated", "worker-1")
    })
    .await?;
    let why = waits(&stage, "WaitingForTurn").await?;
    assert!(why.contains("spec.maxUnavailable"), "{why}");
    assert_eq!(stage.changes().await?.len(), 2, "half of four");
    let jobs = crate::jobs(&stage).await?;
    let text = |job: &k8s_openapi::api::batch::v1::Job| serde_json::to_string(job).unwrap_or_default();
    let second = jobs
        .iter()
        .map(text)
        .find(|text| text.contains(r#""name":"NODE_NAME","value":"worker-1""#));
    let second = second.unwrap_or_default();
    assert!(
        second.contains(r#""operator":"NotIn","values":["worker-1"]"#)
            && second.contains(r#""operator":"NotIn","values":["worker-0"]"#),
        "rules keep away from nodes in flight: {second}"
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.max_in_flight = 2;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// One of two target pools is paused by someone else: the other is paused too, for it must not roll, and nobody has
/// a turn before the pause is lifted or adopted.
async fn one_of_two_paused(world: WorldSpec, spec: Value) -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)],
        ..world
    };
    let stage = set(world, Vec::new()).await?;
    let targets = json!({"mutexTargets": [{"name": "workers"}, {"name": "infras"}]});
    apply(
        &stage,
        &[
            quick(),
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            run_of(&["quick"], with(spec, targets)),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.pause("infra", true).await?;
    stage.world.remember().await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    assert!(
        why.contains("MachineConfigPool infra") && why.contains("kubectl-patch"),
        "{why}"
    );
    crate::seen(&stage, "the control plane is done", |w| w.is_completed(NEW)).await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(pool(&stage, "worker").await?.spec.paused);
    assert!(mark(&stage, "worker", marks::PAUSED_BY).await?.is_some());
    assert_eq!(mark(&stage, "infra", marks::PAUSED_BY).await?, None);
    assert!(stage.changes().await?.is_empty(), "nobody has a turn");
    stage
        .patch_run("upgrade", json!({"spec": {"adoptPaused": true}}))
        .await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.targets = vec!["worker".to_owned(), "infra".to_owned()];
    stage.judge(&expected).await?;
    assert!(pool(&stage, "infra").await?.spec.paused, "as it was found");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_pools_paused_by_someone_else_is_a_veto_for_both() -> Result<()> {
    one_of_two_paused(WorldSpec::default(), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn one_of_two_pools_paused_by_someone_else_is_a_veto_for_both_in_a_canary_run() -> Result<()> {
    one_of_two_paused(with_canary(WorldSpec::default()), canary()).await
}

/// The SR-IOV operator pauses the pool while it sets up a node, between two runs: when the upgrade comes it is a
/// veto with its name on it, and numo goes on when it has lifted it.
async fn paused_between_runs(world: WorldSpec, spec: Value) -> Result<()> {
    let newest = "4.17.1";
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let sriov = "sriov-network-config-daemon";
    stage.world.pause_as(sriov, "worker", true).await?;
    stage.world.upgrade_to(newest).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "PoolPausedByOther")
        .await?;
    assert!(
        why.contains("MachineConfigPool worker") && why.contains(sriov),
        "{why}"
    );
    crate::seen(&stage, "the control plane is done", |w| w.is_completed(newest)).await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert_eq!(
        mark(&stage, "worker", marks::PAUSED_BY).await?,
        None,
        "it is theirs"
    );
    stage.world.pause_as(sriov, "worker", false).await?;
    stage.upgraded("worker", newest).await?;
    crate::ended(&stage).await?;
    assert!(!pool(&stage, "worker").await?.spec.paused);
    // The MCO may be faster than numo: what it takes before the pool is paused again is not hidden.
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    let result = if last.ungated.is_empty() {
        RunResult::Succeeded
    } else {
        RunResult::SucceededUngated
    };
    assert_eq!((last.target.as_str(), last.result), (newest, Some(result)));
    let changes = stage.changes().await?;
    for node in released(&stage.world) {
        let by_rules = changes.iter().any(|change| {
            change.spec.node_name == node
                && change.spec.target.version == newest
                && !crate::verdicts(change, "quick", numo_api::Phase::Pre).is_empty()
        });
        assert!(by_rules || last.ungated.contains(&node), "{node}: {last:?}");
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pause_of_another_operator_between_runs_is_a_veto_until_it_lifts_it() -> Result<()> {
    paused_between_runs(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_pause_of_another_operator_between_canary_runs_is_a_veto_until_it_lifts_it() -> Result<()> {
    paused_between_runs(with_canary(workers(2)), canary()).await
}

/// A node that two custom pools select is the MCO's problem and a person's: numo never touches it, says so, and does
/// the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_two_custom_pools_select_is_named_and_not_touched() -> Result<()> {
    let world = WorldSpec {
        pools: vec![
            PoolSpec::new("worker", 2),
            PoolSpec::new("infra", 2),
            PoolSpec::new("edge", 0),
        ],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let both = json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": ""}}});
    stage.patch_node("infra-1", both).await?;
    stage.world.remember().await?;
    let targets = json!({"mutexTargets": [{"name": "workers"}, {"name": "infras"}]});
    apply(
        &stage,
        &[
            quick(),
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            run_of(&["quick"], targets),
        ],
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "NodeInTwoPools").await?;
    for word in ["infra-1", "infra", "edge"] {
        assert!(why.contains(word), "no {word} in: {why}");
    }
    crate::seen(&stage, "the others are done", |w| {
        ["worker-0", "worker-1", "infra-0"]
            .iter()
            .all(|node| w.version_of(node) == NEW)
    })
    .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "NodeInTwoPools")
        .await?;
    assert!(why.contains("infra-1"), "{why}");
    assert!(
        !released_after_a_while(&stage)
            .await
            .contains(&"infra-1".to_owned())
    );
    let touched: Vec<String> = stage
        .requests()?
        .iter()
        .filter(|request| request.is_write() && request.resource == "nodes" && request.name == "infra-1")
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert!(touched.is_empty(), "{touched:?}");
    let one = json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": null}}});
    stage.patch_node("infra-1", one).await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    assert!(crate::rule_began(&stage.world, "quick", "infra-1"));
    stage.strike().await
}

/// With the selectors of a canary run such a node would be in one of its pools only, and roll there: none is set.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_two_custom_pools_select_holds_a_canary_run() -> Result<()> {
    let world = WorldSpec {
        pools: vec![
            PoolSpec::new("worker", 1),
            PoolSpec::new("infra", 2),
            PoolSpec::new("edge", 0),
        ],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let both = json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": ""}}});
    stage.patch_node("infra-1", both).await?;
    stage.world.remember().await?;
    let before = pool(&stage, "infra").await?.spec.node_selector;
    let targets = with(canary(), json!({"mutexTargets": [{"name": "infras"}]}));
    apply(
        &stage,
        &[quick(), target("infras", &["infra"]), run_of(&["quick"], targets)],
    )
    .await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "NodeInTwoPools")
        .await?;
    for word in ["infra-1", "infra", "edge"] {
        assert!(why.contains(word), "no {word} in: {why}");
    }
    // Its pool is no target: the MCO takes worker-0 by itself.
    let released = released_after_a_while(&stage).await;
    assert!(
        !released.iter().any(|node| node.starts_with("infra")),
        "{released:?}"
    );
    assert_eq!(pool(&stage, "infra").await?.spec.node_selector, before);
    let one = json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": null}}});
    stage.patch_node("infra-1", one).await?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    assert!(crate::rule_began(&stage.world, "quick", "infra-1"));
    stage.strike().await
}
