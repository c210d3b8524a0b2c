//! Nodes that do not come back, that a person cordoned, that join late, whose pods cannot be evicted.

use anyhow::Result;
use k8s_openapi::api::{
    core::v1::{Namespace, Pod, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use numo_api::{Step, marks, node_maintenance::MEDIK8S_GROUP};
use numo_e2e::Stage;
use numo_world::{Change, Event, Fault, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, OLD, apply, canary, explained, finish, happened, job, judgement,
    maintenance::{self, is_cordoned, maintain, node},
    prepare, prepare_gated, quick, released, released_after_a_while, rule, rule_began, run_of, seen, set,
    target, waits, with_canary, workers,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_come_back_holds_the_others_until_it_does() -> Result<()> {
    never_back(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_that_does_not_come_back_in_the_canary_holds_the_others_until_it_does() -> Result<()> {
    never_back(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

async fn never_back(world: WorldSpec, mut spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    spec["changeTimeoutSeconds"] = json!(8);
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::NeverBack {
        node: "worker-0".to_owned(),
    });
    stage.world.upgrade_to(NEW).await?;
    let held = stage.step("worker-0", Step::Held).await?;
    let status = held.status.unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("ChangeTimeout"));
    let message = status.message.unwrap_or_default();
    assert!(
        message.contains("spec.changeTimeoutSeconds") && message.contains("not Ready"),
        "{message}"
    );
    let event = stage.event("Node", "worker-0", "ChangeTimeout").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let failed = stage
        .condition("upgrade", "NodeUpgrade", "False", "NodeUpgradeFailed")
        .await?;
    assert!(failed.contains("worker-0"), "{failed}");
    waits(&stage, "ChangeTimeout").await?;
    let why = waits(&stage, "FailureBudgetSpent").await?;
    assert!(why.contains("worker-0"), "{why}");
    assert_eq!(
        released_after_a_while(&stage).await,
        ["worker-0"],
        "the others wait"
    );
    assert_eq!(stage.changes().await?.len(), 1);

    stage.world.heal("worker-0");
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_a_person_cordoned_waits_and_stays_cordoned_while_the_others_go_on() -> Result<()> {
    cordoned_before(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_cordoned_node_of_a_canary_run_waits_and_stays_cordoned_while_the_others_go_on() -> Result<()> {
    cordoned_before(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

async fn cordoned_before(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    stage.cordon("worker-1", true).await?;
    seen(&stage, "the others are done", |w| {
        w.version_of("worker-0") == NEW && w.version_of("worker-2") == NEW
    })
    .await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "CordonedByOther")
        .await?;
    assert!(
        why.contains("Node worker-1 is cordoned, and not by numo"),
        "{why}"
    );
    stage
        .event("MutexRunConfig", "upgrade", "CordonedByOther")
        .await?;
    waits(&stage, "CordonedByOther").await?;
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(
        text.contains("CordonedByOther") && text.contains("is cordoned"),
        "{text}"
    );
    assert_eq!(released_after_a_while(&stage).await, ["worker-0", "worker-2"]);
    assert_eq!(stage.world.version_of("worker-1"), OLD);
    assert!(
        !happened(&stage.world, "worker-1", |e| matches!(
            e,
            Event::Uncordoned { .. }
        )),
        "it stays cordoned"
    );

    stage.cordon("worker-1", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

async fn late_joiner(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    let canary = spec["canary"].is_object();
    prepare(&stage, &rules, spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let joiner = stage.world.add_node("worker").await?;
    seen(&stage, "the joiner is there", |w| {
        w.state().nodes.get(&joiner).is_some_and(|node| node.ready)
    })
    .await?;
    assert_eq!(stage.world.version_of(&joiner), OLD);
    if canary {
        let label = "mutexrule.openshift-optional.skrzypek.io/gated.node-upgrade-mutex-operator";
        seen(&stage, "the joiner has the rule's label", |w| {
            w.state().nodes[&joiner].labels.contains_key(label)
        })
        .await?;
    }
    gate.open_for_all()?;
    finish(&stage).await?;
    assert!(
        released(&stage.world).contains(&joiner),
        "{:?}",
        released(&stage.world)
    );
    assert!(rule_began(&stage.world, "gated", &joiner));
    assert_eq!(stage.world.version_of(&joiner), NEW);
    stage.judge(&judgement(&["gated"], &["gated"])).await?;
    let run = stage.run("upgrade").await?;
    let last = run.status.and_then(|status| status.run).unwrap_or_default();
    assert_eq!(last.nodes.map(|nodes| nodes.total), Some(3));
    assert!(last.ungated.is_empty(), "{:?}", last.ungated);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_late_joiner_goes_through_its_rules() -> Result<()> {
    late_joiner(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_joiner_of_a_canary_run_is_labelled_and_goes_through_its_rules() -> Result<()> {
    late_joiner(with_canary(workers(2)), json!({"canary": {"name": "canary"}})).await
}

/// A pod that nothing makes again, on a node.
pub fn pod_alone(name: &str, app: &str, node: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": app, "image": app, "command": ["sleep", "3600"]}],
        },
    }))?)
}

/// A new namespace with these pods of an application, each with its node, that nothing makes again, and their
/// PodDisruptionBudget, which wants so many of them and counts them all as healthy.
pub async fn alone(
    stage: &Stage,
    namespace: &str,
    (app, wanted): (&str, usize),
    places: &[(String, &str)],
) -> Result<(Api<Pod>, Api<PodDisruptionBudget>)> {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let new: Namespace = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
    namespaces.create(&PostParams::default(), &new).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client.clone(), namespace);
    stage
        .until("pods may be created", 30, || async {
            Ok(accounts.get_opt("default").await?)
        })
        .await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), namespace);
    for (name, node) in places {
        pods.create(&PostParams::default(), &pod_alone(name, app, node)?)
            .await?;
    }
    let name = format!("{app}-pdb");
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"minAvailable": wanted, "selector": {"matchLabels": {"app": app}}},
    }))?;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(stage.client.clone(), namespace);
    budgets.create(&PostParams::default(), &budget).await?;
    let all = i32::try_from(places.len())?;
    stage
        .until("the budget counts the pods as healthy", 60, || async {
            let status = budgets.get(&name).await?.status.unwrap_or_default();
            Ok((status.current_healthy == all).then_some(()))
        })
        .await?;
    Ok((pods, budgets))
}

async fn undrainable(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let database = [("database".to_owned(), "worker-0")];
    let (pods, budgets) = alone(&stage, "apps", ("database", 1), &database).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = stage
        .condition("upgrade", "Ready", "False", "DrainBlocked")
        .await?;
    for words in ["worker-0", "Pod apps/database", "database-pdb"] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
    stage.event("MutexRunConfig", "upgrade", "DrainBlocked").await?;
    waits(&stage, "DrainBlocked").await?;
    assert!(released_after_a_while(&stage).await.is_empty());
    assert!(
        pods.get("database").await?.metadata.deletion_timestamp.is_none(),
        "it was only asked"
    );
    // kube's own client would repeat the refused eviction for minutes (decisions.md, T4).
    let asked = stage
        .requests()?
        .iter()
        .filter(|r| r.subresource == "eviction")
        .count();
    assert!(asked <= 4, "{asked} evictions");

    budgets.delete("database-pdb", &DeleteParams::default()).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_pods_cannot_be_evicted_is_not_released() -> Result<()> {
    undrainable(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_whose_pods_cannot_be_evicted_is_not_let_go_into_the_canary() -> Result<()> {
    undrainable(with_canary(workers(2)), canary()).await
}

/// Two pods of a node could each go alone, and not both: the last look counts them together. The node is kept with its
/// PodDisruptionBudget named, whether a run or a maintenance asks, and the other nodes go.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_budget_does_not_let_go_together_keep_their_node() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let databases = ["a", "b"].map(|name| (name.to_owned(), "worker-0"));
    let (pods, budgets) = alone(&stage, "apps", ("database", 1), &databases).await?;
    let says = |why: &str| {
        for words in [
            "Node worker-0: 2 pods (apps/a, apps/b)",
            "PodDisruptionBudget apps/database-pdb, whose disruptionsAllowed is 1",
        ] {
            assert!(why.contains(words), "no {words} in: {why}");
        }
    };
    maintain(&stage, "nm", "worker-0", json!({"drain": {"probe": true}})).await?;
    says(&maintenance::waits(&stage, "nm", "DrainBlocked").await?);
    assert!(!is_cordoned(&node(&stage, "worker-0").await?), "it was not begun");
    maintenance::delete(&stage, MEDIK8S_GROUP, "nm").await?;

    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    says(&waits(&stage, "DrainBlocked").await?);
    says(&explained(&stage, "worker-0", "DrainBlocked", 60).await?);
    // It stands back, and the other node goes.
    stage.step("worker-1", Step::Done).await?;
    assert_eq!(released(&stage.world), ["worker-1"]);
    for (name, _) in &databases {
        let pod = pods.get(name).await?;
        assert!(pod.metadata.deletion_timestamp.is_none(), "{name} was only asked");
    }
    budgets.delete("database-pdb", &DeleteParams::default()).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    // In its second turn worker-0 is asked anew.
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_in_flight_is_shielded_and_leased_and_nothing_of_it_stays() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    // What stood there before comes back; what others set is theirs.
    let before = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}});
    stage.patch_node("worker-0", before).await?;
    stage.world.remember().await?;
    let gate = prepare_gated(&stage).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let node = stage.world.node("worker-0").unwrap();
    assert_eq!(
        node.labels()
            .get(marks::EXCLUDE_FROM_REMEDIATION)
            .map(String::as_str),
        Some("true")
    );
    for key in [marks::SCALE_DOWN_DISABLED, marks::DO_NOT_DISRUPT] {
        assert_eq!(
            node.annotations().get(key).map(String::as_str),
            Some("true"),
            "{key}"
        );
    }
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(stage.client.clone(), marks::LEASE_NAMESPACE);
    let lease = leases.get("node-worker-0").await?.spec.unwrap_or_default();
    let run = stage.run("upgrade").await?;
    assert_eq!(
        lease.holder_identity.as_deref(),
        Some(format!("numo/MutexRunConfig/{}", run.uid().unwrap()).as_str())
    );
    assert_eq!(lease.lease_duration_seconds, Some(3600));
    assert!(
        leases.get_opt("node-worker-1").await?.is_none(),
        "a node that waits has none"
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    let node = stage.world.node("worker-0").unwrap();
    assert_eq!(
        node.annotations().get(marks::DO_NOT_DISRUPT).map(String::as_str),
        Some("false")
    );
    // The shield came in the same write as the note of what was there before.
    let torn = stage.world.records().iter().any(|record| match &record.change {
        Change::Node(_, Some(node)) => {
            let shielded = node.labels.contains_key(marks::EXCLUDE_FROM_REMEDIATION);
            shielded != node.marks.contains(marks::SHIELDED_BY)
        }
        _ => false,
    });
    assert!(!torn);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_created_again_in_mid_run_is_another_node_and_starts_anew() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "gated",
        json!({"jobSpec": job(&gate.wait()), "cleanUpJobSpec": job("true")}),
    )];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let first = stage.change("worker-0").await?.unwrap();
    stage.world.recreate_node("worker-0").await?;
    let failed = stage
        .until("the turn of the node that is gone ends", 60, || async {
            let changes = stage.changes().await?;
            let old = changes
                .into_iter()
                .find(|change| change.metadata.uid == first.metadata.uid);
            Ok(old.filter(|change| change.status.as_ref().and_then(|s| s.step) == Some(Step::Failed)))
        })
        .await?;
    assert_eq!(
        failed.status.unwrap_or_default().reason.as_deref(),
        Some("NodeGone")
    );
    gate.open_for_all()?;
    finish(&stage).await?;
    let changes = stage.changes().await?;
    let second = changes
        .iter()
        .find(|change| change.spec.node_name == "worker-0" && change.metadata.uid != first.metadata.uid)
        .expect("a journal of the new node");
    assert_ne!(second.spec.node_uid, first.spec.node_uid);
    let passed = crate::verdicts(second, "gated", numo_api::Phase::Pre);
    assert_eq!(
        passed,
        [(1, numo_api::Outcome::Pass, Some(0))],
        "its rules ran for it"
    );
    let mut expected = judgement(&["gated"], &["gated"]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// The selector of a custom pool asks for the rules' labels during the run: the joiner gets them at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_joiner_of_a_custom_pool_is_labelled_into_it_and_goes_through_its_rules() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 2), PoolSpec::new("infra", 1)],
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule("gated", json!({"jobSpec": job(&gate.wait())}))];
    let targets =
        json!({"canary": {"name": "canary"}, "mutexTargets": [{"name": "infras"}, {"name": "workers"}]});
    apply(&stage, &rules).await?;
    apply(
        &stage,
        &[
            target("workers", &["worker"]),
            target("infras", &["infra"]),
            run_of(&["gated"], targets),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "infra-0")).await?;
    let joiner = stage.world.add_node("infra").await?;
    seen(&stage, "the joiner is in its pool", |w| {
        w.membership_of(&joiner).is("infra")
    })
    .await?;
    gate.open_for_all()?;
    stage.upgraded("infra", NEW).await?;
    finish(&stage).await?;
    assert!(rule_began(&stage.world, "gated", &joiner));
    assert_eq!(stage.world.version_of(&joiner), NEW);
    assert!(stage.world.membership_of(&joiner).is("infra"));
    let mut expected = judgement(&["gated"], &[]);
    expected.targets = vec!["infra".to_owned(), "worker".to_owned()];
    // It was born into the pool `worker`, for a moment, because its labels came later.
    expected.excused = vec![joiner];
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A person cordons between the release and the MCO's drain, which undoes it in the end: numo puts it back.
async fn cordoned_late(mut world: WorldSpec, spec: Value) -> Result<()> {
    // The daemon takes two seconds for real to take up what it is asked for.
    world.timings.daemon_poll = 500.0;
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 is let go", |w| {
        happened(w, "worker-0", |e| matches!(e, Event::DesiredConfigSet { .. }))
    })
    .await?;
    stage.cordon("worker-0", true).await?;
    finish_cordoned(&stage).await?;
    assert!(
        stage.world.state().nodes["worker-0"].unschedulable,
        "it is cordoned again"
    );
    stage.cordon("worker-0", false).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// Every node is done, though the pool counts the cordoned one as unavailable.
async fn finish_cordoned(stage: &numo_e2e::Stage) -> Result<()> {
    for node in ["worker-0", "worker-1", "worker-2"] {
        stage.step(node, Step::Done).await?;
    }
    stage.condition("upgrade", "Ready", "True", "Succeeded").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_after_the_release_is_put_back() -> Result<()> {
    cordoned_late(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_cordon_after_the_release_into_the_canary_is_put_back() -> Result<()> {
    cordoned_late(with_canary(workers(3)), json!({"canary": {"name": "canary"}})).await
}

/// A worker that is dead when its turn would come is left out by a person, and the run ends without it.
async fn dead_and_skipped(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    stage.world.inject(Fault::NotReady {
        node: "worker-1".to_owned(),
    });
    seen(&stage, "worker-1 is dead", |w| !w.state().nodes["worker-1"].ready).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "NodeNotReady").await?;
    assert!(why.contains("worker-1"), "{why}");
    let said = stage
        .say(&["skip", "worker-1", "--reason", "it is being replaced"])
        .await?;
    assert!(said.contains("worker-1"), "{said}");
    stage.step("worker-1", Step::Skipped).await?;
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(
        text.contains("SkippedByPerson") && text.contains("it is being replaced"),
        "{text}"
    );
    stage
        .until("the run ends without it", 120, || async {
            let run = stage.run("upgrade").await?.status.and_then(|status| status.run);
            Ok(
                (run.unwrap_or_default().result == Some(numo_api::RunResult::SucceededWithSkips))
                    .then_some(()),
            )
        })
        .await?;
    assert_eq!(released(&stage.world), ["worker-0", "worker-2"]);
    assert!(
        crate::pool(&stage, "worker").await?.spec.paused,
        "worker-1 would roll"
    );
    // Mended, and asked for again.
    stage.world.heal("worker-1");
    stage.say(&["retry", "worker-1"]).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_is_skipped_before_its_turn() -> Result<()> {
    dead_and_skipped(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_dead_node_of_a_canary_run_is_skipped_before_its_turn() -> Result<()> {
    dead_and_skipped(with_canary(workers(3)), canary()).await
}
