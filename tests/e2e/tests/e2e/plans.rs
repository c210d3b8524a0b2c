//! Plans, as the users, scripts and upgrade images of system-upgrade-controller see them. The Job controller and the
//! scheduler are real, and so is the kubectl that drains in the Jobs, with the rights of the Plan's ServiceAccount.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use numo_api::{NodeChange, Plan, PlanStatus, Step};
use numo_e2e::{Stage, manifests};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, explained, finish, gone, job, judgement,
    maintenance::{budget, deployment, is_cordoned, leases, maintain, node, on, phase, running},
    nodes::{alone, pod_alone},
    prepare, quick, rule, rule_began, seen, set, with, workers,
};

/// Namespace of Plans.
pub const PLANS: &str = "system-upgrade";

/// The namespace of Plans, as it ships.
pub async fn open(stage: &Stage) -> Result<()> {
    let objects = manifests::kustomize(&manifests::root().join("deploy/kustomize/plans"))?;
    manifests::apply(&stage.client, &objects, PLANS).await
}

/// A stage with so many workers, the namespace of Plans, and a ServiceAccount that may drain.
pub async fn stage(number: usize, numo: Vec<&'static str>) -> Result<Stage> {
    stage_of(workers(number), numo).await
}

async fn stage_of(world: WorldSpec, numo: Vec<&'static str>) -> Result<Stage> {
    let stage = set(world, numo).await?;
    open(&stage).await?;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "system-upgrade", "namespace": PLANS},
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "drainer"},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
            {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["get"]},
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "drainer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "drainer"},
        "subjects": [{"kind": "ServiceAccount", "name": "system-upgrade", "namespace": PLANS}],
    });
    apply(&stage, &[account, role, binding]).await?;
    Ok(stage)
}

/// A Plan over all workers that runs a shell command on each; `spec` is laid over it.
pub fn plan(name: &str, command: &str, spec: Value) -> Value {
    let all = json!({
        "concurrency": 1,
        "nodeSelector": {"matchExpressions": [
            {"key": "node-role.kubernetes.io/worker", "operator": "Exists"},
        ]},
        "serviceAccountName": "system-upgrade",
        "version": "v1.30.1+k3s1",
        "upgrade": {"image": "rancher/k3s-upgrade", "command": ["/bin/sh", "-c"], "args": [command]},
    });
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
        "metadata": {"name": name, "namespace": PLANS},
        "spec": with(all, spec),
    })
}

/// Upgrades every worker by a Plan beside numo, whose Job fails first.
pub async fn there_and_back(stage: &Stage) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "conf", "namespace": PLANS}, "stringData": {"a": "1"},
    });
    let spec = json!({
        "serviceAccountName": null, "jobActiveDeadlineSecs": 2, "concurrency": 5,
        "secrets": [{"name": "conf", "path": ""}],
    });
    apply(stage, &[secret, plan("there", "sleep 600", spec)]).await?;
    let api: Api<Plan> = Api::namespaced(stage.client.clone(), PLANS);
    let is = |type_: &'static str, reason: &'static str| {
        let api = api.clone();
        async move {
            let status = api.get("there").await?.status.unwrap_or_default();
            Ok((condition(&status, type_).1 == reason).then_some(()))
        }
    };
    stage
        .until("the Job of Plan there failed", 90, || is("Complete", "JobFailed"))
        .await?;
    let mended = json!({"spec": {"jobActiveDeadlineSecs": 600, "upgrade": {"args": ["true"]}}});
    api.patch("there", &PatchParams::default(), &Patch::Merge(mended))
        .await?;
    stage
        .until("Plan there is complete", 90, || is("Complete", "Complete"))
        .await?;
    api.delete("there", &DeleteParams::default()).await?;
    stage
        .until("Plan there is gone", 60, || async {
            Ok(api.get_opt("there").await?.is_none().then_some(()))
        })
        .await
}

pub fn plans(stage: &Stage) -> Api<Plan> {
    Api::namespaced(stage.person.clone(), PLANS)
}

pub async fn status(stage: &Stage, name: &str) -> Result<PlanStatus> {
    Ok(plans(stage).get(name).await?.status.unwrap_or_default())
}

/// A condition: status, reason, message.
pub fn condition(status: &PlanStatus, type_: &str) -> (String, String, String) {
    let conditions = status.conditions.iter().flatten();
    let found = conditions.into_iter().find(|one| one.type_ == type_);
    found.map_or_else(Default::default, |one| {
        (
            one.status.clone(),
            one.reason.clone().unwrap_or_default(),
            one.message.clone().unwrap_or_default(),
        )
    })
}

/// Waits until a condition has this status and reason; the status of the Plan, and the condition's message.
pub async fn until(
    stage: &Stage,
    name: &str,
    type_: &str,
    wanted: &str,
    reason: &str,
) -> Result<(PlanStatus, String)> {
    let what = format!("Plan {name} {type_}={wanted}/{reason}");
    let found = stage
        .until(&what, 90, || async {
            let status = status(stage, name).await?;
            let (is, why, message) = condition(&status, type_);
            Ok((is == wanted && why == reason).then_some((status, message)))
        })
        .await;
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(error.context(format!("{:#?}", status(stage, name).await))),
    }
}

pub async fn complete(stage: &Stage, name: &str) -> Result<PlanStatus> {
    Ok(until(stage, name, "Complete", "True", "Complete").await?.0)
}

/// Waits until the Plan waits for this reason of numo's; the message.
pub async fn waits(stage: &Stage, name: &str, reason: &str) -> Result<String> {
    Ok(until(stage, name, "Ready", "False", reason).await?.1)
}

async fn patch(stage: &Stage, name: &str, patch: Value) -> Result<()> {
    let api = plans(stage);
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

pub async fn jobs(stage: &Stage) -> Result<Vec<Job>> {
    let api: Api<Job> = Api::namespaced(stage.client.clone(), PLANS);
    Ok(api.list(&ListParams::default()).await?.items)
}

pub async fn changes(stage: &Stage) -> Result<Vec<NodeChange>> {
    let api: Api<NodeChange> = Api::namespaced(stage.client.clone(), PLANS);
    Ok(api.list(&ListParams::default()).await?.items)
}

/// Waits until the node's newest NodeChange is in this step.
pub async fn step(stage: &Stage, node: &str, step: Step) -> Result<NodeChange> {
    stage
        .until(&format!("Node {node} in step {step:?}"), 90, || async {
            let mut all = changes(stage).await?;
            all.retain(|change| change.spec.node_name == node);
            all.sort_by_key(|change| change.creation_timestamp().map(|time| time.0));
            let last = all.pop();
            Ok(last.filter(|change| change.status.as_ref().and_then(|status| status.step) == Some(step)))
        })
        .await
}

/// Reasons of the events about a Plan, oldest first, each with its type and message; by the component of the reference.
pub async fn events(stage: &Stage, name: &str) -> Result<Vec<(String, String, String)>> {
    let api: Api<Event> = Api::namespaced(stage.client.clone(), PLANS);
    let mut found: Vec<Event> = api.list(&ListParams::default()).await?.items;
    found.retain(|event| {
        event.involved_object.kind.as_deref() == Some("Plan")
            && event.involved_object.name.as_deref() == Some(name)
    });
    found.sort_by_key(|event| event.metadata.creation_timestamp.clone().map(|time| time.0));
    Ok(found
        .into_iter()
        .map(|event| {
            let component = event.source.and_then(|source| source.component);
            assert_eq!(component.as_deref(), Some("system-upgrade-controller"));
            assert!(
                event
                    .metadata
                    .name
                    .unwrap_or_default()
                    .starts_with(&format!("{name}."))
            );
            (
                event.reason.unwrap_or_default(),
                event.type_.unwrap_or_default(),
                event.message.unwrap_or_default(),
            )
        })
        .collect())
}

pub async fn said(stage: &Stage, name: &str, reason: &str) -> Result<String> {
    stage
        .until(&format!("event {reason} of Plan {name}"), 60, || async {
            let events = events(stage, name).await?;
            let found = events.into_iter().find(|(of, ..)| of == reason);
            Ok(found.map(|(_, _, message)| message))
        })
        .await
}

async fn all_workers(stage: &Stage) -> Result<Vec<Node>> {
    let api: Api<Node> = Api::all(stage.client.clone());
    let params = ListParams::default().labels("node-role.kubernetes.io/worker");
    Ok(api.list(&params).await?.items)
}

/// Nothing of numo's is left on nodes and Plan.
pub async fn is_restored(stage: &Stage, name: &str) -> Result<()> {
    stage
        .until("everything is given back", 30, || async {
            let clean = all_workers(stage).await?.iter().all(|node| {
                let marks = node.annotations().keys();
                let marked = marks
                    .into_iter()
                    .any(|key| key.starts_with(numo_api::marks::PREFIX));
                !is_cordoned(node)
                    && !marked
                    && !node
                        .labels()
                        .contains_key(numo_api::marks::EXCLUDE_FROM_REMEDIATION)
            });
            let held = leases(stage).list(&ListParams::default()).await?.items.len();
            let finalizers = match plans(stage).get_opt(name).await? {
                Some(plan) => plan.finalizers().len(),
                None => 0,
            };
            Ok((clean && held == 0 && finalizers == 0).then_some(()))
        })
        .await
}

/// How many nodes whose names begin so were cordoned at once, at most, by the world's records.
fn most_cordoned(stage: &Stage, of: &str) -> usize {
    let mut cordoned: BTreeSet<String> = BTreeSet::new();
    let mut most = 0;
    for record in stage.world.records() {
        if let numo_world::Change::Node(name, view) = record.change
            && name.starts_with(of)
        {
            match view {
                Some(view) if view.unschedulable => cordoned.insert(name),
                _ => cordoned.remove(&name),
            };
            most = most.max(cordoned.len());
        }
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_drains_upgrades_and_restores_every_node() -> Result<()> {
    let stage = stage(3, Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 3, json!({})), budget("web", json!(1))],
    )
    .await?;
    let spec = json!({
        "drain": {"force": true},
        "prepare": {"image": "prep:1", "command": ["/bin/sh", "-c", "true"]},
        "postCompleteLabels": {"example.com/at": "$(LATEST_VERSION)"},
    });
    crate::rights::list_labels(&stage, &["example.com/at"]).await?;
    apply(&stage, &[plan("k3s", "echo upgraded", spec)]).await?;
    let done = complete(&stage, "k3s").await?;
    assert_eq!(done.latest_version.as_deref(), Some("v1.30.1-k3s1"));
    let hash = done.latest_hash.clone().context("a hash")?;
    assert_eq!(hash.len(), 56, "{hash}");
    assert_eq!(done.applying, None);
    assert_eq!(condition(&done, "Validated").1, "PlanIsValid");
    assert_eq!(condition(&done, "LatestResolved").1, "Version");
    is_restored(&stage, "k3s").await?;
    for node in all_workers(&stage).await? {
        assert_eq!(node.labels()["plan.upgrade.cattle.io/k3s"], hash);
        assert_eq!(node.labels()["example.com/at"], "v1.30.1-k3s1");
    }
    assert_eq!(most_cordoned(&stage, "worker"), 1, "one at a time");
    for reason in ["Validated", "Resolved", "SyncJob", "JobComplete", "Complete"] {
        said(&stage, "k3s", reason).await?;
    }
    let events = events(&stage, "k3s").await?;
    let number = |reason: &str| events.iter().filter(|(of, ..)| of == reason).count();
    assert_eq!(number("JobComplete"), 3, "{events:#?}");
    assert_eq!(number("Complete"), 1, "{events:#?}");
    let has = |reason: &str, note: &str| {
        let wanted = (reason.to_owned(), "Normal".to_owned(), note.to_owned());
        assert!(events.contains(&wanted), "{wanted:?}: {events:#?}");
    };
    has("Validated", "Plan is valid");
    has(
        "Resolved",
        "Resolved latest version from Spec.Version: v1.30.1-k3s1",
    );
    has(
        "SyncJob",
        &format!("Jobs synced for version v1.30.1-k3s1 on Nodes worker-0. Hash: {hash}"),
    );
    has("JobComplete", "Job completed on Node worker-0");
    has(
        "Complete",
        &format!("Jobs complete for version v1.30.1-k3s1. Hash: {hash}"),
    );

    // What has been written is what the reference writes.
    let jobs = jobs(&stage).await?;
    assert_eq!(jobs.len(), 3);
    for job in &jobs {
        let name = job.name_any();
        let node = &job.labels()["upgrade.cattle.io/node"];
        assert!(name.starts_with(&format!("apply-k3s-on-{node}-with-")), "{name}");
        assert_eq!(
            job.labels()["upgrade.cattle.io/controller"],
            "system-upgrade-controller"
        );
        assert_eq!(job.labels()["plan.upgrade.cattle.io/k3s"], hash);
        let pod = job.spec.clone().unwrap().template.spec.unwrap();
        let inits: Vec<String> = pod
            .init_containers
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(inits, ["prepare", "drain"]);
        assert_eq!(
            pod.containers[0].image.as_deref(),
            Some("rancher/k3s-upgrade:v1.30.1-k3s1")
        );
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_cordon_stays_in_service_and_needs_no_lease() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let stop = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "none"}, "spec": {"nodeSelector": {}, "maxUnavailable": 0},
    });
    apply(&stage, &[stop, plan("os", "true", json!({"concurrency": 2}))]).await?;
    complete(&stage, "os").await?;
    is_restored(&stage, "os").await?;
    let leased = stage.requests()?.into_iter().any(|request| {
        request.resource == "leases" && request.verb == "create" && request.uri.contains("medik8s-leases")
    });
    assert!(!leased, "no lease is taken");
    assert_eq!(most_cordoned(&stage, "worker"), 0);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_past_its_deadline_has_failed_when_its_pod_has_ended() -> Result<()> {
    let stage = stage(1, Vec::new()).await?;
    let spec = json!({"cordon": true, "jobActiveDeadlineSecs": 4});
    apply(&stage, &[plan("k3s", "sleep 600", spec)]).await?;
    let (_, message) = until(&stage, "k3s", "Complete", "False", "JobFailed").await?;
    let jobs = jobs(&stage).await?;
    let conditions = jobs
        .iter()
        .flat_map(|job| job.status.iter().flat_map(|status| &status.conditions));
    let failed = conditions
        .flatten()
        .find(|one| one.type_ == "Failed" && one.status == "True")
        .context("the Job has condition Failed by then")?;
    let words = format!(
        "failed on Node worker-0: {}: {}",
        failed.reason.clone().unwrap_or_default(),
        failed.message.clone().unwrap_or_default()
    );
    assert!(message.ends_with(&words), "{message}");
    // The init container that cordoned the node ended with 0; it is not what failed.
    let said_so = waits(&stage, "k3s", "JobFailed").await?;
    assert!(!said_so.contains("exit code 0"), "{said_so}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_node_is_held_with_its_reason_and_goes_on() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let gate = Gate::new()?;
    let command = format!("echo no space left; {} && exit 0; exit 3", gate.is_open("mended"));
    let settings = ["--plan-job-backoff-limit", "0"];
    let mut stage = stage;
    stage.stop_numo().await?;
    stage.start_numo_with(&settings)?;
    apply(&stage, &[plan("k3s", &command, json!({"cordon": true}))]).await?;
    let message = waits(&stage, "k3s", "JobFailed").await?;
    assert!(
        message.contains("failed on Node worker-") && message.contains("(exit code 3)"),
        "{message}"
    );
    let (failed, said_so) = until(&stage, "k3s", "Complete", "False", "JobFailed").await?;
    assert_eq!(Some(said_so.as_str()), message.strip_suffix(" (exit code 3)"));
    let applying = failed.applying.context("the node is being applied")?;
    assert_eq!(applying.len(), 1);
    let held = applying[0].clone();
    let change = step(&stage, &held, Step::Held).await?;
    let journal = change.status.clone().unwrap();
    assert_eq!(journal.reason.as_deref(), Some("JobFailed"));
    assert!(journal.log_tail.unwrap().contains("no space left"));
    assert!(is_cordoned(&node(&stage, &held).await?), "it stays cordoned");
    let told = stage.say(&["explain", &held]).await?;
    assert!(
        told.contains("JobFailed") && told.contains("exit code 3"),
        "{told}"
    );
    let shown = stage.say(&["status", "-A"]).await?;
    assert!(shown.contains("system-upgrade/k3s"), "{shown}");
    // A person mends it and says so.
    gate.open("mended")?;
    stage.say(&["retry", &held]).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plan_asks_of_its_pods_reaches_them_on_a_windows_node_too() -> Result<()> {
    let world = WorldSpec {
        windows: 1,
        ..workers(1)
    };
    let flags = [
        "--plan-job-ttl-seconds-after-finish",
        "600",
        "--plan-job-kubectl-image-windows",
        "rancher/kubectl:windows",
    ];
    let stage = stage_of(world, flags.to_vec()).await?;
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "upgrades"},
        "value": 1_000_000,
    });
    let pull = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": PLANS},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{\"auths\":{}}"},
    });
    let spec = json!({
        "cordon": true,
        "nodeSelector": {"matchLabels": {"kubernetes.io/os": "windows"}},
        "priorityClassName": "upgrades",
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"key": "os", "operator": "Equal", "value": "Windows", "effect": "NoSchedule"}],
        "jobActiveDeadlineSecs": 300,
        "postCompleteLabels": {"example.com/on": "$(LATEST_VERSION)"},
        "upgrade": {
            "image": "rancher/wins", "command": ["/bin/sh", "-c"],
            "envs": [{"name": "COLOUR", "value": "blue"}], "envFrom": [{"secretRef": {"name": "pull"}}],
            "volumes": [{"name": "etc", "source": "/etc", "destination": "/host/etc"}],
            "args": ["test \"$COLOUR\" = blue"],
        },
    });
    crate::rights::list_labels(&stage, &["example.com/on"]).await?;
    apply(&stage, &[class, pull, plan("k3s", "true", spec)]).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    let job = jobs(&stage).await?.into_iter().next().context("its Job")?;
    let asked = job.spec.context("a spec")?;
    assert_eq!(
        (asked.active_deadline_seconds, asked.ttl_seconds_after_finished),
        (Some(300), Some(600))
    );
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), PLANS);
    let pod = pods.list(&ListParams::default()).await?.items.into_iter().next();
    let pod = serde_json::to_value(pod.context("its pod")?.spec)?;
    assert_eq!(pod["nodeName"], "windows-0");
    assert_eq!(
        (&pod["priorityClassName"], &pod["priority"]),
        (&json!("upgrades"), &json!(1_000_000))
    );
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "pull"}]));
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        assert_eq!(
            container["securityContext"]["windowsOptions"],
            json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\SYSTEM"}),
            "{container}"
        );
    }
    assert_eq!(
        node(&stage, "windows-0").await?.labels()["example.com/on"],
        "v1.30.1-k3s1"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_plan_retries_what_failed_and_nothing_else() -> Result<()> {
    let mut stage = stage(2, Vec::new()).await?;
    stage.stop_numo().await?;
    stage.start_numo_with(&["--plan-job-backoff-limit", "0"])?;
    let bad = "[ \"$SYSTEM_UPGRADE_NODE_NAME\" = worker-0 ] || exit 1";
    apply(
        &stage,
        &[plan("k3s", bad, json!({"cordon": true, "concurrency": 2}))],
    )
    .await?;
    waits(&stage, "k3s", "JobFailed").await?;
    let first = stage
        .until("worker-0 is done", 60, || async {
            let node = node(&stage, "worker-0").await?;
            Ok(node.labels().get("plan.upgrade.cattle.io/k3s").cloned())
        })
        .await?;
    patch(&stage, "k3s", json!({"spec": {"upgrade": {"args": ["true"]}}})).await?;
    let done = complete(&stage, "k3s").await?;
    assert_eq!(done.latest_hash, Some(first), "arguments are not in the hash");
    let api: Api<Job> = Api::namespaced(stage.client.clone(), PLANS);
    let again: Vec<String> = api
        .list(&ListParams::default())
        .await?
        .items
        .iter()
        .filter(|job| {
            let args = job.spec.clone().unwrap().template.spec.unwrap().containers[0]
                .args
                .clone();
            args == Some(vec!["true".to_owned()])
        })
        .map(|job| job.labels()["upgrade.cattle.io/node"].clone())
        .collect();
    assert_eq!(again, ["worker-1"]);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_inside_the_job_is_judged_by_what_is_true() -> Result<()> {
    let stage = stage(1, Vec::new()).await?;
    let gate = Gate::new()?;
    // The first run hangs until the machine goes down under it; after the reboot there is nothing left to do.
    let marker = gate.is_open("rebooted");
    let command = format!("{marker} && exit 0; sleep 36000");
    apply(&stage, &[plan("k3s", &command, json!({"cordon": true}))]).await?;
    let before = stage
        .until("the upgrade runs", 60, || async {
            let changes = changes(&stage).await?;
            let released = changes
                .into_iter()
                .find(|change| change.status.as_ref().and_then(|status| status.step) == Some(Step::Released));
            let told = stage.say(&["explain", "worker-0"]).await?;
            Ok(released.filter(|_| told.contains("runs: upgrade")))
        })
        .await?;
    gate.open("rebooted")?;
    stage.world.reboot("worker-0", Some("v1.30.1+k3s1")).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    let after = step(&stage, "worker-0", Step::Done).await?;
    assert_eq!(after.name_any(), before.name_any());
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_plan_lets_what_runs_end_and_gives_the_node_back() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let gate = Gate::new()?;
    let wait = gate.wait_for("all");
    apply(&stage, &[plan("k3s", &wait, json!({"cordon": true}))]).await?;
    let applying = stage
        .until("a node is being upgraded", 60, || async {
            let applying = status(&stage, "k3s").await?.applying.unwrap_or_default();
            let first = applying.first().cloned();
            let Some(first) = first else { return Ok(None) };
            let told = stage.say(&["explain", &first]).await?;
            Ok(told.contains("runs: upgrade").then_some(first))
        })
        .await?;
    plans(&stage).delete("k3s", &DeleteParams::default()).await?;
    waits(&stage, "k3s", "Deleting").await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), PLANS);
    let all = pods.list(&ListParams::default()).await?.items;
    assert!(
        all.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()),
        "nothing is killed"
    );
    assert!(is_cordoned(&node(&stage, &applying).await?));
    gate.open_for_all()?;
    gone(&stage, &plans(&stage), "k3s").await?;
    is_restored(&stage, "k3s").await?;
    let began: Vec<String> = stage
        .requests()?
        .into_iter()
        .filter(|request| request.resource == "jobs" && request.verb == "create")
        .map(|request| request.uri)
        .collect();
    assert_eq!(began.len(), 1, "no other node was begun");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_cordon_survives_and_an_opt_out_is_respected() -> Result<()> {
    let stage = stage(3, Vec::new()).await?;
    stage.cordon("worker-0", true).await?;
    let out = json!({"metadata": {"labels": {"plan.upgrade.cattle.io/k3s": "disabled"}}});
    stage.patch_node("worker-1", out).await?;
    apply(&stage, &[plan("k3s", "true", json!({"cordon": true}))]).await?;
    let done = complete(&stage, "k3s").await?;
    let zero = node(&stage, "worker-0").await?;
    assert!(is_cordoned(&zero), "it was there before");
    assert_eq!(
        Some(&zero.labels()["plan.upgrade.cattle.io/k3s"]),
        done.latest_hash.as_ref()
    );
    let one = node(&stage, "worker-1").await?;
    assert_eq!(one.labels()["plan.upgrade.cattle.io/k3s"], "disabled");
    let of: BTreeSet<String> = jobs(&stage)
        .await?
        .iter()
        .map(|job| job.labels()["upgrade.cattle.io/node"].clone())
        .collect();
    assert!(!of.contains("worker-1"), "{of:?}");
    stage.cordon("worker-0", false).await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostname_that_is_not_the_nodes_name_is_used_and_one_of_two_is_refused() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let called = |name: &str| json!({"metadata": {"labels": {"kubernetes.io/hostname": name}}});
    stage.patch_node("worker-0", called("host-0")).await?;
    apply(&stage, &[plan("k3s", "true", json!({"cordon": true}))]).await?;
    complete(&stage, "k3s").await?;
    let of: BTreeSet<String> = jobs(&stage)
        .await?
        .iter()
        .map(|job| job.labels()["upgrade.cattle.io/node"].clone())
        .collect();
    assert_eq!(of, BTreeSet::from(["worker-0".to_owned(), "worker-1".to_owned()]));
    is_restored(&stage, "k3s").await?;
    // The Job of one could now run on the other.
    stage.patch_node("worker-1", called("host-0")).await?;
    patch(&stage, "k3s", json!({"spec": {"version": "v2"}})).await?;
    let message = waits(&stage, "k3s", "InvalidField").await?;
    assert!(message.contains("have the same label"), "{message}");
    stage.strike().await
}

/// A Plan as system-upgrade-controller leaves it when it stops: one node done, one with a Job that runs, one with a Job
/// that it made paused.
/// The command that `explain` names lets the Plan end without a node that is dead before its turn.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_of_a_plan_is_left_out_before_its_turn() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    stage.world.inject(numo_world::Fault::NotReady {
        node: "worker-1".to_owned(),
    });
    stage
        .until("worker-1 is not Ready", 60, || async {
            let node = node(&stage, "worker-1").await?;
            let conditions = node
                .status
                .into_iter()
                .filter_map(|status| status.conditions)
                .flatten();
            let ready = conditions.into_iter().find(|one| one.type_ == "Ready");
            Ok(ready.is_some_and(|one| one.status != "True").then_some(()))
        })
        .await?;
    apply(&stage, &[plan("k3s", "true", json!({"cordon": true}))]).await?;
    step(&stage, "worker-0", Step::Done).await?;
    let text = explained(&stage, "worker-1", "NodeNotReady", 60).await?;
    assert!(text.contains("numo skip worker-1"), "{text}");
    stage.say(&["skip", "worker-1", "--reason", "it is gone"]).await?;
    step(&stage, "worker-1", Step::Skipped).await?;
    complete(&stage, "k3s").await?;
    // It is asked for again.
    stage.world.heal("worker-1");
    stage.say(&["retry", "worker-1"]).await?;
    step(&stage, "worker-1", Step::Done).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_a_stopped_controller_goes_on_where_it_was() -> Result<()> {
    let mut stage = stage(3, Vec::new()).await?;
    let gate = Gate::new()?;
    let command = gate.wait_for("all");
    // The hash is by the book: this numo makes it, and is then forgotten.
    apply(
        &stage,
        &[plan("k3s", &command, json!({"cordon": true, "concurrency": 0}))],
    )
    .await?;
    let known = complete(&stage, "k3s").await?;
    let hash = known.latest_hash.clone().context("a hash")?;
    stage.stop_numo().await?;
    let done = json!({"metadata": {"labels": {"plan.upgrade.cattle.io/k3s": hash}}});
    stage.patch_node("worker-0", done).await?;
    let uid = plans(&stage).get("k3s").await?.uid().context("a uid")?;
    let theirs = |node: &str, parallelism: i32| {
        let labels = json!({
            "upgrade.cattle.io/controller": "system-upgrade-controller",
            "upgrade.cattle.io/exclusive": "false",
            "upgrade.cattle.io/node": node,
            "upgrade.cattle.io/plan": "k3s",
            "upgrade.cattle.io/version": "v1.30.1-k3s1",
            "plan.upgrade.cattle.io/k3s": hash,
            "objectset.rio.cattle.io/hash": "6f2a99b8c2b5b8a0c0c5f9c9d2f4",
        });
        let name = format!("apply-k3s-on-{node}-with-{hash}");
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": &name[..63].trim_end_matches('-'), "namespace": PLANS, "labels": labels,
                "ownerReferences": [{"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "name": "k3s",
                    "uid": uid, "controller": true, "blockOwnerDeletion": false}],
            },
            "spec": {
                "parallelism": parallelism, "completions": 1, "backoffLimit": 2, "ttlSecondsAfterFinished": 900,
                "template": {"metadata": {"labels": labels}, "spec": {
                    "restartPolicy": "Never",
                    "serviceAccountName": "system-upgrade",
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}},
                    "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
                    "initContainers": [{"name": "cordon", "image": "rancher/kubectl:v1.30.3", "args": ["cordon", node]}],
                    "containers": [{"name": "upgrade", "image": "u", "command": ["/bin/sh", "-c", command]}],
                }},
            },
        })
    };
    apply(&stage, &[theirs("worker-1", 1), theirs("worker-2", 0)]).await?;
    stage
        .until("worker-1 is cordoned by its Job", 60, || async {
            Ok(is_cordoned(&node(&stage, "worker-1").await?).then_some(()))
        })
        .await?;
    patch(&stage, "k3s", json!({"spec": {"concurrency": 1}})).await?;
    let applying = json!({"status": {"applying": ["worker-1", "worker-2"]}});
    let api = plans(&stage);
    api.patch_status("k3s", &PatchParams::default(), &Patch::Merge(applying))
        .await?;
    stage.start_numo()?;
    step(&stage, "worker-1", Step::Released).await?;
    gate.open_for_all()?;
    let after = complete(&stage, "k3s").await?;
    assert_eq!(after.latest_hash, Some(hash));
    is_restored(&stage, "k3s").await?;
    let created: Vec<String> = stage
        .requests()?
        .into_iter()
        .filter(|request| request.resource == "jobs" && request.verb == "create")
        .map(|request| request.uri)
        .collect();
    assert_eq!(created, Vec::<String>::new(), "no node was upgraded twice");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_live_controller_numo_writes_nothing_to_plans() -> Result<()> {
    let mut stage = stage(2, Vec::new()).await?;
    stage.stop_numo().await?;
    let theirs = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "system-upgrade-controller", "namespace": PLANS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "suc"}},
            "template": {"metadata": {"labels": {"app": "suc"}}, "spec": {
                "terminationGracePeriodSeconds": 1, "serviceAccountName": "suc",
                "containers": [{"name": "suc", "image": "suc", "command": ["sleep", "36000"]}],
            }},
        },
    });
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "suc", "namespace": PLANS}});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "suc"},
        "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans/status"], "verbs": ["update"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "suc"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "suc"},
        "subjects": [{"kind": "ServiceAccount", "name": "suc", "namespace": PLANS}],
    });
    apply(
        &stage,
        &[
            account,
            role,
            binding,
            theirs,
            plan("k3s", "true", json!({"cordon": true})),
        ],
    )
    .await?;
    stage.start_numo()?;
    let why = said(&stage, "k3s", "ForeignController").await?;
    assert!(why.contains("system-upgrade/system-upgrade-controller"), "{why}");
    assert_eq!(status(&stage, "k3s").await?, PlanStatus::default());
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(stage.client.clone(), PLANS);
    api.delete("system-upgrade-controller", &DeleteParams::default())
        .await?;
    complete(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_secret_begins_a_new_round_and_a_missing_one_is_named() -> Result<()> {
    let stage = stage(1, Vec::new()).await?;
    let spec = json!({
        "cordon": true,
        "secrets": [{"name": "conf", "path": ""}, {"name": "other", "path": "x", "ignoreUpdates": true}],
    });
    let command = "cat /dev/null";
    apply(&stage, &[plan("k3s", command, spec)]).await?;
    let (_, message) = until(&stage, "k3s", "Validated", "False", "Error").await?;
    assert_eq!(message, "secrets \"conf\" not found");
    said(&stage, "k3s", "ValidateFailed").await?;
    let secret = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "conf", "namespace": PLANS},
            "stringData": {"a": value},
        })
    };
    apply(&stage, &[secret("1")]).await?;
    let first = complete(&stage, "k3s").await?.latest_hash;
    apply(&stage, &[secret("2")]).await?;
    let second = stage
        .until("another hash", 60, || async {
            let status = status(&stage, "k3s").await?;
            let done = condition(&status, "Complete").0 == "True" && status.latest_hash != first;
            Ok(done.then_some(status.latest_hash))
        })
        .await?;
    let label = node(&stage, "worker-0").await?.labels()["plan.upgrade.cattle.io/k3s"].clone();
    assert_eq!(second, Some(label));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_or_said_and_nothing_is_half_done() -> Result<()> {
    let mut stage = stage(1, Vec::new()).await?;
    // What the schema of the reference refuses is refused here too.
    for spec in [
        json!({"window": {"days": ["noday"], "startTime": "1", "endTime": "2"}}),
        json!({"window": {"days": [], "startTime": "1", "endTime": "2"}}),
        json!({"concurrency": "many"}),
        json!({"upgrade": null}),
    ] {
        let refused = apply(&stage, &[plan("bad", "true", spec.clone())]).await;
        assert!(refused.is_err(), "{spec}");
    }
    for (index, (spec, words)) in [
        (
            json!({"drain": {"deleteEmptydirData": true, "deleteLocalData": true}}),
            "spec.drain cannot specify both deleteEmptydirData and deleteLocalData",
        ),
        (
            json!({"drain": {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}),
            "spec.drain.podSelector is not selectable",
        ),
        (
            json!({"window": {"days": ["mon"], "startTime": "25:00", "endTime": "2"}}),
            "spec.window is invalid: spec.window.startTime: found \"25:00\"",
        ),
        (
            json!({"window": {"days": ["mon"], "startTime": "1", "endTime": "2", "timeZone": "Mars/Base"}}),
            "spec.window is invalid: spec.window.timeZone: found \"Mars/Base\"",
        ),
        (
            json!({"postCompleteDelay": "-5s"}),
            "spec.postCompleteDelay is negative",
        ),
        (
            json!({"postCompleteDelay": "soon"}),
            "spec.postCompleteDelay: found \"soon\"",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("bad{index}");
        apply(&stage, &[plan(&name, "true", spec)]).await?;
        let (_, message) = until(&stage, &name, "Validated", "False", "Error").await?;
        assert!(message.starts_with(words), "{message}");
        let (_, message) = until(&stage, &name, "Complete", "False", "NotReady").await?;
        assert_eq!(message, "plan is not valid and resolved");
        said(&stage, &name, "ValidateFailed").await?;
    }
    // Concurrency 0 completes at once, and is said.
    apply(&stage, &[plan("zero", "true", json!({"concurrency": 0}))]).await?;
    complete(&stage, "zero").await?;
    waits(&stage, "zero", "ConcurrencyZero").await?;
    said(&stage, "zero", "ConcurrencyZero").await?;
    // Elsewhere it is not watched.
    let mut elsewhere = plan("k3s", "true", json!({"cordon": true}));
    elsewhere["metadata"]["namespace"] = json!("default");
    apply(&stage, &[elsewhere]).await?;
    let api: Api<Plan> = Api::namespaced(stage.client.clone(), "default");
    stage
        .until("NamespaceNotAllowed", 30, || async {
            let status = api.get("k3s").await?.status.unwrap_or_default();
            Ok((condition(&status, "Stalled").1 == "NamespaceNotAllowed").then_some(()))
        })
        .await?;
    assert_eq!(jobs(&stage).await?.len(), 0);
    assert_eq!(changes(&stage).await?.len(), 0);

    // A Job that is refused, and an image that is not there.
    let privileged = json!({"upgrade": {"image": "u", "command": ["true"],
        "envs": [{"name": "bad name=", "value": "1"}]}});
    apply(
        &stage,
        &[plan("refused", "true", with(privileged, json!({"cordon": true})))],
    )
    .await?;
    let message = waits(&stage, "refused", "WriteRefused").await?;
    assert!(message.contains("Job"), "{message}");
    plans(&stage).delete("refused", &DeleteParams::default()).await?;
    gone(&stage, &plans(&stage), "refused").await?;
    is_restored(&stage, "refused").await?;
    let image = json!({"upgrade": {"image": "does-not-exist", "command": ["true"]}});
    apply(&stage, &[plan("image", "true", image)]).await?;
    let reason = stage
        .until("the image is named", 60, || async {
            let status = status(&stage, "image").await?;
            let (_, reason, message) = condition(&status, "Stalled");
            Ok(message.contains("ImagePull").then_some(reason))
        })
        .await?;
    assert_eq!(reason, "UpgradeCannotStart");
    // Where numo is not invited, it says how to.
    stage.may_lack_rights = true;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::namespaced(stage.client.clone(), PLANS);
    bindings.delete("numo-plans", &DeleteParams::default()).await?;
    stage.stop_numo().await?;
    stage.start_numo()?;
    let message = waits(&stage, "zero", "PlanJobsForbidden").await?;
    assert!(message.contains("numo-plans"), "{message}");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_opened_for_plans_and_closed_while_numo_runs() -> Result<()> {
    let mut stage = stage(2, Vec::new()).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    apply(&stage, &[namespace]).await?;
    let mut theirs = plan("os", "true", json!({"serviceAccountName": null}));
    theirs["metadata"]["namespace"] = json!("team");
    apply(&stage, &[theirs]).await?;
    let api: Api<Plan> = Api::namespaced(stage.client.clone(), "team");
    let is = |type_: &'static str, reason: &'static str| {
        let (api, stage) = (api.clone(), &stage);
        async move {
            stage
                .until(&format!("{type_} {reason}"), 90, || async {
                    let status = api.get("os").await?.status.unwrap_or_default();
                    let (_, why, message) = condition(&status, type_);
                    Ok((why == reason).then_some(message))
                })
                .await
        }
    };
    let message = is("Stalled", "NamespaceNotAllowed").await?;
    let words = "kubectl label namespace team numo.openshift-optional.skrzypek.io/plans=true";
    assert!(message.contains(words), "{message}");
    let label = |value: Value| {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(stage.client.clone());
        let patch = json!({"metadata": {"labels": {numo_api::marks::PLANS_NAMESPACE: value}}});
        async move {
            namespaces
                .patch("team", &PatchParams::default(), &Patch::Merge(patch))
                .await
        }
    };
    // Another value opens nothing.
    label(json!("no")).await?;
    let mut invitation = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "numo-plans", "namespace": "team"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-plans"},
        "subjects": [],
    });
    invitation["subjects"] = json!([
        {"kind": "ServiceAccount", "name": "numo", "namespace": numo_e2e::NAMESPACE},
    ]);
    is("Stalled", "NamespaceNotAllowed").await?;
    label(json!("true")).await?;
    is("Ready", "PlanJobsForbidden").await?;
    apply(&stage, &[invitation]).await?;
    is("Complete", "Complete").await?;
    for node in all_workers(&stage).await? {
        assert!(node.labels().contains_key("plan.upgrade.cattle.io/os"));
    }
    label(Value::Null).await?;
    is("Stalled", "NamespaceNotAllowed").await?;
    stage.may_lack_rights = true;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn numo_drains_by_option_and_the_account_needs_no_right_to() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let gate = Gate::new()?;
    apply(
        &stage,
        &[
            deployment("web", 2, on("worker-0")),
            budget("web", json!(0)),
            json!({
                "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
                "metadata": {"name": "plans"},
                "spec": {
                    "ownerSelector": {"kind": "Plan"}, "drainBy": "Numo", "order": "Name",
                    "rules": [{"name": "check"}], "soakSeconds": 1, "drain": {"probe": false},
                },
            }),
            rule(
                "check",
                json!({"jobSpec": job("true"), "cleanUpJobSpec": job(&gate.wait())}),
            ),
        ],
    )
    .await?;
    running(&stage, "web", "worker-0", 2).await?;
    let spec = json!({
        "serviceAccountName": "default",
        "prepare": {"image": "p", "command": ["/bin/sh", "-c", "true"]},
        "drain": {},
    });
    apply(&stage, &[plan("k3s", "true", spec)]).await?;
    let message = stage
        .until("the budget is named", 60, || async {
            let told = stage.say(&["explain", "worker-0"]).await?;
            Ok(told.contains("EvictionBlocked").then_some(told))
        })
        .await?;
    assert!(message.contains("PodDisruptionBudget default/web"), "{message}");
    assert!(is_cordoned(&node(&stage, "worker-0").await?));
    apply(&stage, &[budget("web", json!(2))]).await?;
    // Its Post rule keeps the turn: the next node waits.
    stage
        .until("its Post rule is asked", 60, || async {
            let status = status(&stage, "k3s").await?;
            Ok(condition(&status, "Ready").2.contains("phase Post").then_some(()))
        })
        .await?;
    assert!(!is_cordoned(&node(&stage, "worker-1").await?));
    gate.open_for_all()?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    let mut names: Vec<String> = jobs(&stage).await?.iter().map(ResourceExt::name_any).collect();
    names.sort();
    let kinds: Vec<&str> = names.iter().map(|name| name.split('-').next().unwrap()).collect();
    assert_eq!(kinds, ["apply", "apply", "prepare", "prepare"]);
    stage.strike().await
}

/// A budget that lets no pod go does not stop a Plan whose Jobs drain: its node is not cordoned, and the others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_without_the_node_whose_pods_a_budget_keeps() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let first = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "plans"}, "spec": {"ownerSelector": {"kind": "Plan"}, "order": "Name"},
    });
    apply(
        &stage,
        &[
            deployment("web", 1, on("worker-0")),
            budget("web", json!(0)),
            first,
        ],
    )
    .await?;
    running(&stage, "web", "worker-0", 1).await?;
    apply(&stage, &[plan("k3s", "true", json!({"drain": {"force": true}}))]).await?;
    let told = stage
        .until("the budget is named", 60, || async {
            let told = stage.say(&["explain", "worker-0"]).await?;
            Ok(told.contains("DrainBlocked").then_some(told))
        })
        .await?;
    assert!(told.contains("PodDisruptionBudget default/web"), "{told}");
    stage
        .until("worker-1 is upgraded", 180, || async {
            let node = node(&stage, "worker-1").await?;
            Ok(node
                .labels()
                .contains_key("plan.upgrade.cattle.io/k3s")
                .then_some(()))
        })
        .await?;
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));
    let made: Vec<String> = jobs(&stage).await?.iter().map(ResourceExt::name_any).collect();
    assert!(!made.iter().any(|name| name.contains("worker-0")), "{made:?}");
    apply(&stage, &[budget("web", json!(1))]).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_jobs_own_drain_waits_for_is_said() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    let unprobed = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "plans"},
        "spec": {"ownerSelector": {"kind": "Plan"}, "drain": {"probe": false}},
    });
    apply(
        &stage,
        &[
            deployment("web", 1, on("worker-0")),
            budget("web", json!(0)),
            unprobed,
        ],
    )
    .await?;
    running(&stage, "web", "worker-0", 1).await?;
    let only = json!({"matchLabels": {"kubernetes.io/hostname": "worker-0"}});
    apply(
        &stage,
        &[plan(
            "k3s",
            "true",
            json!({"drain": {"force": true}, "nodeSelector": only}),
        )],
    )
    .await?;
    let told = stage
        .until("the budget is named", 60, || async {
            let status = status(&stage, "k3s").await?;
            let message = condition(&status, "Ready").2;
            Ok(message
                .contains("PodDisruptionBudget default/web")
                .then_some(message))
        })
        .await?;
    assert!(
        told.contains("Deployment") || told.contains("ReplicaSet"),
        "{told}"
    );
    apply(&stage, &[budget("web", json!(1))]).await?;
    complete(&stage, "k3s").await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn killed_again_and_again_every_node_is_upgraded_once() -> Result<()> {
    // A pod keeps its name when its container is started again, and so its place as the leader.
    let mut stage = stage(4, vec!["--identity", "numo-0"]).await?;
    let spec = json!({"cordon": true, "concurrency": 2});
    apply(&stage, &[plan("k3s", "sleep 0.3", spec)]).await?;
    let mut lives = 0;
    loop {
        let before = stage.requests()?.len();
        // So many requests later each time, so that every write is the last of some life.
        let quota = 1 + lives % 9;
        stage
            .until("it has written something", 60, || async {
                let requests = stage.requests()?.split_off(before);
                let writes = requests.iter().filter(|request| {
                    request.verb != "list" && request.verb != "watch" && request.verb != "get"
                });
                let done = condition(&status(&stage, "k3s").await?, "Complete").0 == "True";
                Ok((done || writes.count() >= quota).then_some(()))
            })
            .await?;
        if condition(&status(&stage, "k3s").await?, "Complete").0 == "True" {
            break;
        }
        lives += 1;
        anyhow::ensure!(lives < 60, "it never ends");
        stage.kill_numo().await?;
        stage.start_numo()?;
    }
    assert!(lives > 5, "{lives} lives");
    is_restored(&stage, "k3s").await?;
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for pod in Api::<Pod>::namespaced(stage.client.clone(), PLANS)
        .list(&ListParams::default())
        .await?
        .items
    {
        let node = pod.labels()["upgrade.cattle.io/node"].clone();
        *runs.entry(node).or_default() += 1;
    }
    assert_eq!(
        runs.values().copied().collect::<Vec<_>>(),
        [1, 1, 1, 1],
        "{runs:?}"
    );
    assert!(most_cordoned(&stage, "worker") <= 2);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_wait_for_servers_and_never_two_servers_at_once() -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        ..workers(1)
    };
    let stage = stage_of(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let servers = json!({
        "concurrency": 3, "cordon": true, "version": "v1.30.1",
        "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/control-plane": ""}},
        "tolerations": [{"operator": "Exists"}],
    });
    let agents = json!({
        "cordon": true, "version": "v1.30.1",
        "prepare": {"image": "p", "command": ["/bin/true"], "args": ["prepare", "servers"]},
    });
    let command = gate.wait_for("all");
    apply(
        &stage,
        &[plan("agents", "true", agents), plan("servers", &command, servers)],
    )
    .await?;
    waits(&stage, "agents", "WaitsForPlan").await?;
    stage
        .until("a server is being upgraded", 60, || async {
            Ok(status(&stage, "servers")
                .await?
                .applying
                .filter(|applying| !applying.is_empty()))
        })
        .await?;
    gate.open_for_all()?;
    complete(&stage, "servers").await?;
    assert_eq!(
        most_cordoned(&stage, "master"),
        1,
        "one server at a time, whatever its concurrency"
    );
    // The servers' kubelets are not at the version yet.
    stage
        .until("the agents wait for the servers' kubelets", 60, || async {
            let (_, reason, message) = condition(&status(&stage, "agents").await?, "Ready");
            Ok((reason == "WaitsForPlan" && message.contains("control-plane kubelets")).then_some(()))
        })
        .await?;

    assert_eq!(
        changes(&stage)
            .await?
            .iter()
            .filter(|change| change.spec.node_name == "worker-0")
            .count(),
        0
    );
    for server in ["master-0", "master-1", "master-2"] {
        stage.world.reboot(server, Some("v1.30.1")).await?;
    }
    complete(&stage, "agents").await?;
    stage.strike().await
}

/// An agent has its place in a budget of one when its servers' version is bumped: the servers wait for that place, and the
/// agents for the servers. The agent that has not begun gives its place back, and all nodes come to the new version.
#[tokio::test(flavor = "multi_thread")]
async fn servers_bumped_under_a_shared_budget_and_their_agents_never_wait_for_each_other() -> Result<()> {
    const SERVERS: [&str; 2] = ["master-0", "master-1"];
    let world = WorldSpec {
        masters: SERVERS.len(),
        ..workers(2)
    };
    let stage = stage_of(world, Vec::new()).await?;
    let gate = Gate::new()?;
    let one = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "one"}, "spec": {"nodeSelector": {}, "maxUnavailable": 1},
    });
    let gated = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "agents"},
        "spec": {
            "ownerSelector": {"kind": "Plan", "labels": {"matchLabels": {"role": "agents"}}},
            "order": "Name", "rules": [{"name": "gated"}],
        },
    });
    let mut agents = plan(
        "agents",
        "true",
        json!({
            "cordon": true, "version": "v1.30.1",
            "prepare": {"image": "p", "command": ["/bin/true"], "args": ["prepare", "servers"]},
        }),
    );
    agents["metadata"]["labels"] = json!({"role": "agents"});
    let servers = json!({
        "cordon": true, "version": "v1.30.1",
        "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/control-plane": ""}},
        "tolerations": [{"operator": "Exists"}],
    });
    apply(
        &stage,
        &[
            one,
            rule("gated", json!({"jobSpec": job(&gate.wait())})),
            gated,
            agents,
            plan("servers", "true", servers),
        ],
    )
    .await?;
    complete(&stage, "servers").await?;
    for server in SERVERS {
        stage.world.reboot(server, Some("v1.30.1")).await?;
    }
    seen(&stage, "the rule runs", |w| rule_began(w, "gated", "worker-0")).await?;

    patch(&stage, "servers", json!({"spec": {"version": "v1.30.2"}})).await?;
    let why = waits(&stage, "servers", "BudgetExhausted").await?;
    assert!(
        why.contains("MutexBudget one") && why.contains("worker-0 (with Plan agents)"),
        "{why}"
    );
    gate.open_for_all()?;
    let back = step(&stage, "worker-0", Step::Selected).await?;
    let journal = back.status.unwrap_or_default();
    assert_eq!(journal.reason.as_deref(), Some("WaitsForPlan"));
    stage.event("Node", "worker-0", "TurnEnded").await?;
    complete(&stage, "servers").await?;
    // Whoever has bumped the one bumps the other: that is what the agents wait for.
    stage
        .until("the agents want the same version", 60, || async {
            let why = waits(&stage, "agents", "WaitsForPlan").await?;
            Ok(why.contains("wanted the same version").then_some(()))
        })
        .await?;
    patch(&stage, "agents", json!({"spec": {"version": "v1.30.2"}})).await?;
    for server in SERVERS {
        stage.world.reboot(server, Some("v1.30.2")).await?;
    }
    complete(&stage, "agents").await?;

    for (name, nodes) in [("servers", SERVERS), ("agents", ["worker-0", "worker-1"])] {
        let done = status(&stage, name).await?;
        assert_eq!(done.latest_version.as_deref(), Some("v1.30.2"), "{name}");
        for of in nodes {
            let node = node(&stage, of).await?;
            let label = node.labels().get(&format!("plan.upgrade.cattle.io/{name}"));
            assert_eq!(label, done.latest_hash.as_ref(), "{of}");
            assert!(!is_cordoned(&node), "{of}");
        }
        is_restored(&stage, name).await?;
    }
    assert_eq!(most_cordoned(&stage, ""), 1, "the budget holds all the while");
    stage.strike().await
}

/// What keeps a control-plane node is the guard of etcd: `explain` of the node names the same PodDisruptionBudget as the
/// operator, and the node goes once that lets it.
#[tokio::test(flavor = "multi_thread")]
async fn explain_of_a_control_plane_node_names_the_guard_of_etcd() -> Result<()> {
    const GUARD: &str = "PodDisruptionBudget openshift-etcd/etcd-guard-pdb allows none";
    let world = WorldSpec {
        masters: 3,
        ..workers(1)
    };
    let stage = stage_of(world, Vec::new()).await?;
    let members = ["master-0", "master-1"];
    let guards = members.map(|master| (format!("etcd-guard-{master}"), master));
    let (pods, _) = alone(&stage, "openshift-etcd", ("etcd-guard", 2), &guards).await?;
    let servers = json!({
        "cordon": true,
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "master-0"}},
        "tolerations": [{"operator": "Exists"}],
    });
    apply(&stage, &[plan("servers", "true", servers)]).await?;
    let why = waits(&stage, "servers", "EtcdQuorum").await?;
    assert!(why.contains(GUARD), "{why}");
    let text = explained(&stage, "master-0", "EtcdQuorum", 60).await?;
    assert!(text.contains(GUARD), "{text}");
    assert!(!is_cordoned(&node(&stage, "master-0").await?), "it was not begun");
    // The third member is up.
    let third = pod_alone("etcd-guard-master-2", "etcd-guard", "master-2")?;
    pods.create(&PostParams::default(), &third).await?;
    complete(&stage, "servers").await?;
    let text = stage.say(&["explain", "master-0"]).await?;
    assert!(!text.contains("EtcdQuorum"), "{text}");
    stage.strike().await
}

/// A Plan, a MutexRunConfig and a NodeMaintenance want the same nodes, and together no more than the budget allows, with
/// one that a person has cordoned and drains by hand.
#[tokio::test(flavor = "multi_thread")]
async fn all_owners_share_one_ledger() -> Result<()> {
    let stage = stage(5, Vec::new()).await?;
    apply(&stage, &[deployment("web", 1, on("worker-4"))]).await?;
    running(&stage, "web", "worker-4", 1).await?;
    let limit = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "two"},
        "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}, "maxUnavailable": 2},
    });
    apply(&stage, &[limit]).await?;
    prepare(&stage, &[quick()], json!({"maxUnavailable": 3})).await?;
    let since = stage.world.records().last().map(|record| record.revision);
    stage.cordon("worker-4", true).await?;
    stage.world.upgrade_to(NEW).await?;
    apply(
        &stage,
        &[plan(
            "k3s",
            "sleep 0.5",
            json!({"cordon": true, "concurrency": 4}),
        )],
    )
    .await?;
    maintain(&stage, "nm", "worker-3", json!({})).await?;
    let pods: Api<Pod> = Api::namespaced(stage.person.clone(), "default");
    for pod in pods.list(&ListParams::default().labels("app=web")).await? {
        pods.evict(&pod.name_any(), &EvictParams::default()).await?;
    }
    phase(&stage, "nodemaintenance.medik8s.io", "nm", "Succeeded").await?;
    assert!(
        is_cordoned(&node(&stage, "worker-4").await?),
        "a person's cordon stays"
    );
    crate::maintenance::delete(&stage, "nodemaintenance.medik8s.io", "nm").await?;
    complete(&stage, "k3s").await?;
    assert!(
        is_cordoned(&node(&stage, "worker-4").await?),
        "a person's cordon stays"
    );
    stage.cordon("worker-4", false).await?;
    finish(&stage).await?;
    let most = most_cordoned(&stage, "worker");
    assert!(most <= 2, "{most} at once");
    let mut expected = judgement(&["quick"], &["quick"]);
    expected.max_in_flight = 2;
    // The person's own cordon is not there any more at the end.
    expected.since = since;
    stage.judge(&expected).await?;
    is_restored(&stage, "k3s").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_window_begins_no_node_and_idle_plans_ask_nothing() -> Result<()> {
    let stage = stage(2, Vec::new()).await?;
    // Never is a window too: no day is in it but the one that is farthest away.
    let day = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).weekday();
    let far = (i64::from(day.to_sunday_zero_offset()) + 3) % 7;
    let window = json!({"days": [far.to_string()], "startTime": "00:00", "endTime": "23:59:59"});
    for index in 0..5 {
        let name = format!("k3s-{index}");
        apply(
            &stage,
            &[plan(&name, "true", json!({"cordon": true, "window": window}))],
        )
        .await?;
        let (_, message) = until(&stage, &name, "Complete", "False", "Waiting").await?;
        assert!(message.contains("spec.window"), "{message}");
        waits(&stage, &name, "OutsideWindow").await?;
        said(&stage, &name, "Waiting").await?;
    }
    let before = stage.requests()?.len();
    let passes = || stage.numo().map(|numo| numo.log().len());
    let log = passes();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after: Vec<String> = stage.requests()?[before..]
        .iter()
        .filter(|request| request.resource != "leases")
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    // Watches are begun anew now and then, and list what is there.
    let is_watched = |one: &&String| one.starts_with("watch") || one.starts_with("list");
    let after: Vec<&String> = after.iter().filter(|one| !is_watched(one)).collect();
    assert!(after.is_empty(), "{after:?}");
    assert_eq!(passes(), log, "and does nothing");
    assert_eq!(jobs(&stage).await?.len(), 0);
    stage.strike().await
}
