//! Others at work on the same cluster: GitOps, remediation, an autoscaler, a clock that is off.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use numo_api::{Step, node_maintenance::MEDIK8S_GROUP};
use numo_world::{Event, Fault, MachineApi, Membership, PoolInGit, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, canary, finish, happened, job, judgement,
    maintenance::{maintain, phase},
    mark, plans, pool, prepare, quick, released, rule, rule_began, seen, set, waits, with, with_canary,
    workers,
};

const LONG: Duration = Duration::from_mins(2);

/// GitOps that unpauses the pool at once, always: corrected three times, then named and held; what the MCO took
/// meanwhile is listed.
async fn unpaused_again_and_again(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let git = PoolInGit {
        paused: Some(false),
        ..PoolInGit::default()
    };
    let gitops = stage.world.gitops("worker", git);
    let event = stage.event("MutexRunConfig", "upgrade", "PausedAgain").await?;
    assert!(event.note.unwrap_or_default().contains("argocd-controller"));
    tokio::time::timeout(LONG, gitops.until_acts(4))
        .await
        .context("four reverts")?;
    let why = stage
        .until("the writer is named, or everything is over", 90, || async {
            let run = stage.run("upgrade").await?;
            let ready = crate::condition(&run, "Ready").cloned().unwrap_or_default();
            let reason = ready.reason.unwrap_or_default();
            Ok(["ForeignWriter", "Succeeded"]
                .contains(&reason.as_str())
                .then(|| (reason, ready.message.unwrap_or_default())))
        })
        .await?;
    if why.0 == "ForeignWriter" {
        assert!(
            why.1.contains("MachineConfigPool worker") && why.1.contains("argocd-controller"),
            "{}",
            why.1
        );
    }
    if why.0 == "ForeignWriter" {
        let said = stage
            .call(&["explain", "mutexrunconfig/upgrade", "-n", numo_e2e::NAMESPACE])
            .await?;
        let command = "kubectl patch machineconfigpool worker --type merge";
        // By now the last node may have come to its end.
        assert!(!said.out.contains("numo retry mutexrunconfig"), "{}", said.out);
        assert!(
            said.out.contains(command) || !said.out.contains("ForeignWriter"),
            "{}",
            said.out
        );
    }
    stage.event("MutexRunConfig", "upgrade", "ForeignWriter").await?;
    assert_eq!(
        gitops.acts(),
        4,
        "numo paused the pool once and again three times, and then no more"
    );
    // The rest is the MCO's by their will: numo lists it.
    gate.open_for_all()?;
    stage.upgraded("worker", NEW).await?;
    let ungated = stage
        .until("the run is over", 90, || async {
            let run = stage
                .run("upgrade")
                .await?
                .status
                .and_then(|status| status.run)
                .unwrap_or_default();
            Ok(run.finished_at.is_some().then_some(run.ungated))
        })
        .await?;
    assert!(!ungated.is_empty());
    for node in released(&stage.world) {
        let by_rule = rule_began(&stage.world, "gated", &node);
        assert!(
            by_rule || ungated.contains(&node),
            "{node} changed unseen: {ungated:?}"
        );
    }
    assert!(!pool(&stage, "worker").await?.spec.paused);
    assert_eq!(mark(&stage, "worker", numo_api::marks::PAUSED_BY).await?, None);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn gitops_that_unpauses_the_pool_is_corrected_three_times_and_named() -> Result<()> {
    unpaused_again_and_again(workers(4), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn gitops_that_unpauses_the_pool_of_a_canary_run_is_corrected_three_times_and_named() -> Result<()> {
    unpaused_again_and_again(with_canary(workers(4)), canary()).await
}

/// GitOps that puts the canary's selector back: corrected three times, then named; no node is ever in two pools
/// or none, and what is in flight comes home.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn gitops_that_reverts_the_canarys_selector_is_corrected_three_times_and_named() -> Result<()> {
    let stage = set(with_canary(workers(3)), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"canary": {"name": "canary"}})).await?;
    let before = pool(&stage, "canary").await?.spec.node_selector;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let git = PoolInGit {
        node_selector: before.clone(),
        ..PoolInGit::default()
    };
    let gitops = stage.world.gitops("canary", git);
    tokio::time::timeout(LONG, gitops.until_acts(4))
        .await
        .context("four reverts")?;
    let why = stage
        .condition("upgrade", "Ready", "False", "ForeignWriter")
        .await?;
    for words in [
        "MachineConfigPool canary",
        "spec.nodeSelector",
        "argocd-controller",
    ] {
        assert!(why.contains(words), "no {words} in: {why}");
    }
    gate.open_for_all()?;
    let released = crate::released_after_a_while(&stage).await;
    assert!(
        released.is_empty(),
        "nobody is let go into a contested pool: {released:?}"
    );
    assert_eq!(
        gitops.acts(),
        4,
        "numo set the selector once and again three times, and then no more"
    );
    drop(gitops);
    // Its administrator gives the run up, and another one does the work.
    crate::delete_run(&stage, "upgrade").await?;
    assert_eq!(pool(&stage, "canary").await?.spec.node_selector, before);
    crate::apply(
        &stage,
        &[crate::run_of(&["gated"], json!({"canary": {"name": "canary"}}))],
    )
    .await?;
    finish(&stage).await?;
    let mut expected = judgement(&["gated"], &[]);
    expected.retries = true;
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A reboot that takes longer than remediation waits: the shield keeps it off the node in flight, and it is free
/// to replace a node that is not.
async fn remediated(world: WorldSpec, spec: Value, of: Option<MachineApi>) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    let remediation = match of {
        None => stage.world.remediation(300.0),
        Some(of) => stage.world.machine_health_check(of, 300.0).await?,
    };
    let born = |name: &str| stage.world.node(name).and_then(|node| node.metadata.uid.clone());
    let (first, last) = (born("worker-0"), born("worker-2"));
    stage.world.inject(Fault::SlowReboot {
        node: "worker-0".to_owned(),
        factor: 10.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "worker-0 reboots", |w| {
        w.state().nodes.get("worker-0").is_some_and(|node| node.rebooting)
    })
    .await?;
    // Beside it a node falls ill whose turn has not come.
    stage.world.inject(Fault::NotReady {
        node: "worker-2".to_owned(),
    });
    tokio::time::timeout(LONG, remediation.until_acts(1))
        .await
        .context("worker-2 is replaced")?;
    stage.world.heal("worker-2");
    finish(&stage).await?;
    assert_eq!(born("worker-0"), first, "the node in flight was left alone");
    assert_ne!(born("worker-2"), last);
    assert_eq!(remediation.acts(), 1);
    if let Some(of) = of {
        stage
            .until("the Machine API is as it was", 30, || async {
                let everything = ListParams::default();
                let machines = of.machines(stage.person.clone()).list(&everything).await?;
                let checks = of.health_checks(stage.person.clone()).list(&everything).await?;
                let left = machines.items.iter().chain(&checks.items);
                let left: usize = left.map(|object| object.annotations().len()).sum();
                Ok((machines.items.len() == 3 && left == 0).then_some(()))
            })
            .await?;
    }
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.excused = vec!["worker-2".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn remediation_is_kept_off_a_node_in_flight() -> Result<()> {
    remediated(workers(3), json!({}), None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn remediation_is_kept_off_a_node_in_the_canary() -> Result<()> {
    remediated(with_canary(workers(3)), canary(), None).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_health_check_of_cluster_api_is_kept_off_the_machine_of_a_node_in_flight() -> Result<()> {
    remediated(workers(3), json!({}), Some(MachineApi::ClusterApi)).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_health_check_of_cluster_api_is_kept_off_the_machine_of_a_node_in_the_canary() -> Result<()> {
    remediated(with_canary(workers(3)), canary(), Some(MachineApi::ClusterApi)).await
}

/// OpenShift's health checks know nothing but a pause.
#[tokio::test(flavor = "multi_thread")]
async fn health_checks_of_openshift_are_paused_while_nodes_are_in_flight() -> Result<()> {
    let spec = json!({"pauseHealthChecks": true});
    remediated(workers(3), spec, Some(MachineApi::OpenShift)).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn health_checks_of_openshift_are_paused_while_nodes_are_in_the_canary() -> Result<()> {
    let spec = with(canary(), json!({"pauseHealthChecks": true}));
    remediated(with_canary(workers(3)), spec, Some(MachineApi::OpenShift)).await
}

/// A node of a Plan and a node in maintenance that are dark for long are left alone; once both are over the health check works
/// as before, on a node that is nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn health_checks_of_openshift_leave_nodes_of_plans_and_maintenances_alone() -> Result<()> {
    let mut stage = plans::stage(3, Vec::new()).await?;
    // A kind that is served only after numo began is looked for seldom.
    stage.stop_numo().await?;
    let remediation = stage
        .world
        .machine_health_check(MachineApi::OpenShift, 300.0)
        .await?;
    stage.start_numo()?;
    let checks = MachineApi::OpenShift.health_checks(stage.person.clone());
    let paused = || async {
        let all = checks.list(&ListParams::default()).await?.items;
        let key = "cluster.x-k8s.io/paused";
        Ok::<_, anyhow::Error>(all.iter().all(|check| check.annotations().contains_key(key)))
    };
    maintain(&stage, "nm", "worker-1", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    assert!(paused().await?, "no node is dark before that");
    let gate = Gate::new()?;
    let only =
        json!({"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "worker-0"}}, "cordon": true});
    apply(&stage, &[plans::plan("k3s", &gate.wait_for("all"), only)]).await?;
    plans::step(&stage, "worker-0", Step::Released).await?;
    let dark = |node: &str| Fault::NotReady {
        node: node.to_owned(),
    };
    stage.world.inject(dark("worker-0"));
    stage.world.inject(dark("worker-1"));
    crate::released_after_a_while(&stage).await;
    // One of the two is over: the other one still needs the pause.
    stage.world.heal("worker-1");
    crate::maintenance::delete(&stage, MEDIK8S_GROUP, "nm").await?;
    stage
        .until("it is paused for the Plan", 30, || async {
            Ok(paused().await?.then_some(()))
        })
        .await?;
    assert_eq!(
        remediation.acts(),
        0,
        "nodes that numo has in hand were left alone"
    );
    stage.world.heal("worker-0");
    gate.open_for_all()?;
    plans::complete(&stage, "k3s").await?;
    stage
        .until("it is resumed", 30, || async {
            Ok((!paused().await?).then_some(()))
        })
        .await?;
    stage.world.inject(dark("worker-0"));
    tokio::time::timeout(LONG, remediation.until_acts(1))
        .await
        .context("worker-0 is replaced")?;
    stage.strike().await
}

/// A node whose Machine someone is deleting is never let go; the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_machine_is_being_deleted_waits() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.machines(MachineApi::OpenShift).await?;
    let machines = MachineApi::OpenShift.machines(stage.person.clone());
    // The machine controller drains the node first, for as long as that takes.
    let hook = Patch::Merge(json!({"metadata": {"finalizers": ["machine.machine.openshift.io"]}}));
    machines.patch("worker-0", &PatchParams::default(), &hook).await?;
    machines.delete("worker-0", &DeleteParams::default()).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "NodeLeaving").await?;
    assert!(
        why.contains("worker-0") && why.contains("Machine openshift-machine-api/worker-0"),
        "{why}"
    );
    seen(&stage, "worker-1 goes on", |w| w.version_of("worker-1") == NEW).await?;
    assert!(!happened(&stage.world, "worker-0", |e| matches!(
        e,
        Event::DesiredConfigSet { .. }
    )));
    stage.world.delete_node("worker-0").await?;
    let gone = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    machines.patch("worker-0", &PatchParams::default(), &gone).await?;
    finish(&stage).await?;
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.excused = vec!["worker-0".to_owned()];
    stage.judge(&expected).await?;
    stage.strike().await
}

/// A DaemonSet by the name of kured, as this ServiceAccount, whose lock these nodes hold without a time to live.
fn kured(account: &str, nodes: &[&str]) -> Result<DaemonSet> {
    let created = jiff::Timestamp::now().to_string();
    let locks = nodes
        .iter()
        .map(|node| json!({"nodeID": node, "metadata": {}, "created": created, "TTL": 0}));
    let lock = json!({"maxOwners": 3, "locks": locks.collect::<Vec<_>>()});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "kured", "annotations": {"weave.works/kured-node-lock": lock.to_string()}},
        "spec": {
            "selector": {"matchLabels": {"name": "kured"}},
            "template": {
                "metadata": {"labels": {"name": "kured"}},
                "spec": {
                    "serviceAccountName": account, "nodeSelector": {"none": "such"},
                    "containers": [{"name": "kured", "image": "kured"}],
                },
            },
        },
    }))?)
}

/// The right that kured's own ClusterRole gives.
fn may_change_nodes(namespace: &str, account: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "kured"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    })
}

/// Who has `edit` in one namespace makes a DaemonSet by the name of kured: it stops nobody, and `doctor` names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_kured_stops_nobody() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    crate::jobs::namespace(&stage, "team", json!({})).await?;
    let daemons: Api<DaemonSet> = Api::namespaced(stage.person.clone(), "team");
    daemons
        .create(
            &PostParams::default(),
            &kured("default", &["worker-0", "worker-1", "worker-2"])?,
        )
        .await?;
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    let said = stage.call(&["doctor"]).await?;
    assert!(
        said.out.contains("DaemonSet team/kured") && said.out.contains("does not believe its reboot lock"),
        "{said:?}"
    );
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// The node that kured is about to reboot is never let go; the others go on, and it follows when the lock is free.
#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_kureds_lock_waits_until_it_is_free() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    prepare(&stage, &[quick()], json!({})).await?;
    apply(&stage, &[may_change_nodes("kube-system", "kured")]).await?;
    let daemons: Api<DaemonSet> = Api::namespaced(stage.person.clone(), "kube-system");
    daemons
        .create(&PostParams::default(), &kured("kured", &["worker-0"])?)
        .await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "NodeLeaving").await?;
    assert!(
        why.contains("worker-0") && why.contains("kube-system/kured"),
        "{why}"
    );
    seen(&stage, "the others go on", |w| {
        w.version_of("worker-1") == NEW && w.version_of("worker-2") == NEW
    })
    .await?;
    assert!(!happened(&stage.world, "worker-0", |e| matches!(
        e,
        Event::DesiredConfigSet { .. }
    )));
    let free = Patch::Merge(json!({"metadata": {"annotations": {"weave.works/kured-node-lock": null}}}));
    daemons.patch("kured", &PatchParams::default(), &free).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

/// An autoscaler that deletes empty nodes while one has its turn: that one stays, and the run ends with those that
/// are left.
async fn autoscaled(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let autoscaler = stage.world.autoscaler(1, 60.0);
    tokio::time::timeout(LONG, autoscaler.until_acts(2))
        .await
        .context("two nodes are deleted")?;
    assert!(stage.world.node("worker-0").is_some(), "it has its turn");
    drop(autoscaler);
    gate.open_for_all()?;
    finish(&stage).await?;
    assert!(stage.world.node("worker-0").is_some());
    let mut expected = judgement(&["gated"], &[]);
    expected.excused = ["worker-1", "worker-2", "worker-3"].map(str::to_owned).to_vec();
    stage.judge(&expected).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_is_kept_off_a_node_in_flight() -> Result<()> {
    autoscaled(workers(4), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn an_autoscaler_is_kept_off_a_node_of_a_canary_run() -> Result<()> {
    autoscaled(with_canary(workers(4)), canary()).await
}

/// A node that an autoscaler has tainted for deletion is never let go.
async fn leaving(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(&stage, &[quick()], spec).await?;
    let taint = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    stage
        .patch_node("worker-0", json!({"spec": {"taints": taint}}))
        .await?;
    stage.world.upgrade_to(NEW).await?;
    let why = waits(&stage, "NodeLeaving").await?;
    assert!(
        why.contains("worker-0") && why.contains("ToBeDeletedByClusterAutoscaler"),
        "{why}"
    );
    seen(&stage, "worker-1 goes on", |w| w.version_of("worker-1") == NEW).await?;
    assert!(!happened(&stage.world, "worker-0", |e| matches!(
        e,
        Event::DesiredConfigSet { .. }
    )));
    stage
        .patch_node("worker-0", json!({"spec": {"taints": null}}))
        .await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_about_to_be_deleted_waits() -> Result<()> {
    leaving(workers(3), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_of_a_canary_run_that_is_about_to_be_deleted_waits() -> Result<()> {
    leaving(with_canary(workers(3)), canary()).await
}

/// numo lives by the API server's time: a node a day ahead is upgraded like any.
async fn clock_off(world: WorldSpec, spec: Value) -> Result<()> {
    let stage = set(world, Vec::new()).await?;
    prepare(
        &stage,
        &[quick()],
        with(spec, json!({"soakSeconds": 1, "changeTimeoutSeconds": 60})),
    )
    .await?;
    stage.world.inject(Fault::ClockOff {
        node: "worker-0".to_owned(),
        seconds: 86_400,
    });
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["quick"], &["quick"])).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_clock_is_off_is_upgraded_like_any() -> Result<()> {
    clock_off(workers(2), json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn a_node_whose_clock_is_off_goes_through_the_canary_like_any() -> Result<()> {
    clock_off(with_canary(workers(2)), canary()).await
}

/// GitOps that puts a custom target's selector back while its node changes in the canary: after three corrections
/// the node goes home to change there, and is never left in two custom pools, where the MCO stops from 4.19 on.
#[tokio::test(flavor = "multi_thread")]
async fn gitops_that_reverts_a_targets_selector_leaves_no_node_in_two_pools() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 1), PoolSpec::new("infra", 2)],
        mco: numo_world::McoVersion::V4_20,
        ..with_canary(WorldSpec::default())
    };
    let stage = set(world, Vec::new()).await?;
    let spec = json!({"canary": {"name": "canary"}, "mutexTargets": [{"name": "infras"}]});
    crate::apply(
        &stage,
        &[
            quick(),
            crate::target("infras", &["infra"]),
            crate::run_of(&["quick"], spec),
        ],
    )
    .await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let own = pool(&stage, "infra").await?.spec.node_selector;
    stage.world.inject(Fault::SlowReboot {
        node: "infra-0".to_owned(),
        factor: 4.0,
    });
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "infra-0 reboots in the canary", |w| {
        w.state().nodes["infra-0"].rebooting
    })
    .await?;
    let gitops = stage.world.gitops(
        "infra",
        PoolInGit {
            node_selector: own,
            ..PoolInGit::default()
        },
    );
    let why = stage
        .condition("upgrade", "Ready", "False", "ForeignWriter")
        .await?;
    assert!(
        why.contains("MachineConfigPool infra") && why.contains("argocd-controller"),
        "{why}"
    );
    seen(&stage, "infra-0 comes home at the new version", |w| {
        w.version_of("infra-0") == NEW && w.membership_of("infra-0") == Membership::Pool("infra".to_owned())
    })
    .await?;
    stage.step("infra-0", numo_api::Step::Done).await?;
    drop(gitops);
    assert_eq!(
        crate::released_after_a_while(&stage)
            .await
            .iter()
            .filter(|node| node.starts_with("infra"))
            .count(),
        1
    );
    stage.strike().await
}

/// GitOps that takes a rule's label off a node that waits: put back three times, then it is named and nobody else is
/// let go; when the label is there again the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn gitops_that_takes_rule_labels_off_is_corrected_three_times_and_named() -> Result<()> {
    let stage = set(with_canary(workers(2)), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], canary()).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let label = "mutexrule.openshift-optional.skrzypek.io/gated.node-upgrade-mutex-operator";
    let off = json!({"metadata": {"labels": {label: null}}});
    for round in 0..=3 {
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(stage.client.clone());
        stage
            .until(&format!("worker-1 has the label, round {round}"), 60, || async {
                let node = nodes.get("worker-1").await?;
                let mark = node.annotations().get(numo_api::marks::LABELLED_BY);
                let so_often = mark.is_some_and(|mark| mark.ends_with(&format!(" {round}")));
                Ok((so_often && node.labels().contains_key(label)).then_some(()))
            })
            .await?;
        stage.patch_node("worker-1", off.clone()).await?;
    }
    let why = stage
        .condition("upgrade", "Ready", "False", "ForeignWriter")
        .await?;
    assert!(why.contains("rule labels") && why.contains("worker-1"), "{why}");
    gate.open_for_all()?;
    assert!(crate::released_after_a_while(&stage).await.is_empty());
    assert!(!stage.world.state().nodes["worker-1"].labels.contains_key(label));
    let on = json!({"metadata": {"labels": {label: ""}}});
    stage.patch_node("worker-1", on).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&["gated"], &[])).await?;
    stage.strike().await
}
