//! NodeMaintenance, of both groups, as the users, scripts and peers of node-maintenance-operator see it.

use anyhow::{Context, Result};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Event, Node, Pod},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::{
    NodeMaintenanceStatus, Step,
    node_maintenance::{KUBEVIRT_GROUP, MEDIK8S_GROUP},
};
use numo_core::owners::node_maintenance::MAX_CORRECTIONS;
use numo_e2e::{Answers, NAMESPACE, Sink, Stage};
use numo_world::WorldSpec;
use serde_json::{Value, json};

use crate::{
    Gate, NEW, apply, finish, gone, job, notifiers::notifier, plans, prepare, quick, rule, set, workers,
};

/// The API of NodeMaintenances.
fn api(stage: &Stage, group: &str) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(group, "v1beta1", "NodeMaintenance");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodemaintenances");
    Api::all_with(stage.person.clone(), &resource)
}

/// A NodeMaintenance as the reference's page has it, with more in its spec.
pub fn object(group: &str, name: &str, node: &str, more: Value) -> Value {
    let mut spec = json!({"nodeName": node, "reason": "Test node maintenance"});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    json!({
        "apiVersion": format!("{group}/v1beta1"),
        "kind": "NodeMaintenance",
        "metadata": {"name": name},
        "spec": spec,
    })
}

pub async fn maintain(stage: &Stage, name: &str, node: &str, more: Value) -> Result<()> {
    apply(stage, &[object(MEDIK8S_GROUP, name, node, more)]).await
}

pub async fn status(stage: &Stage, group: &str, name: &str) -> Result<NodeMaintenanceStatus> {
    let object = api(stage, group).get(name).await?;
    let status = object.data.get("status").cloned().unwrap_or_else(|| json!({}));
    Ok(serde_json::from_value(status)?)
}

/// Waits for a phase; the status.
pub async fn phase(stage: &Stage, group: &str, name: &str, wanted: &str) -> Result<NodeMaintenanceStatus> {
    let what = format!("NodeMaintenance {name} in phase {wanted}");
    let found = stage
        .until(&what, 90, || async {
            let status = status(stage, group, name).await?;
            Ok((status.phase.as_deref() == Some(wanted)).then_some(status))
        })
        .await;
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(error.context(format!("{:?}", status(stage, group, name).await))),
    }
}

/// Waits until it says that it waits for this reason; the message.
pub async fn waits(stage: &Stage, name: &str, reason: &str) -> Result<String> {
    let what = format!("NodeMaintenance {name} says {reason}");
    let found = stage
        .until(&what, 90, || async {
            let status = status(stage, MEDIK8S_GROUP, name).await?;
            let ready = status.conditions.into_iter().find(|one| one.type_ == "Ready");
            let ready = ready.filter(|ready| ready.reason.as_deref() == Some(reason));
            Ok(ready.map(|ready| ready.message.unwrap_or_default()))
        })
        .await;
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(error.context(format!("{:?}", status(stage, MEDIK8S_GROUP, name).await))),
    }
}

pub async fn delete(stage: &Stage, group: &str, name: &str) -> Result<()> {
    let api = api(stage, group);
    api.delete(name, &DeleteParams::default()).await?;
    gone(stage, &api, name).await
}

pub async fn node(stage: &Stage, name: &str) -> Result<Node> {
    Ok(Api::<Node>::all(stage.client.clone()).get(name).await?)
}

/// Keys of the taints of a node.
fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

pub fn leases(stage: &Stage) -> Api<Lease> {
    Api::namespaced(stage.client.clone(), "medik8s-leases")
}

/// Waits until nothing of a maintenance is left on the node.
pub async fn is_restored(stage: &Stage, name: &str) -> Result<()> {
    stage
        .until(&format!("Node {name} is as it was"), 30, || async {
            let node = node(stage, name).await?;
            let marked = node
                .annotations()
                .keys()
                .any(|key| key.starts_with(numo_api::marks::PREFIX));
            let clean = !is_cordoned(&node)
                && taints(&node).is_empty()
                && !marked
                && !node
                    .labels()
                    .contains_key(numo_api::marks::EXCLUDE_FROM_REMEDIATION);
            let lease = leases(stage).get_opt(&format!("node-{name}")).await?;
            Ok((clean && lease.is_none()).then_some(()))
        })
        .await
}

/// Events of a reason that node-maintenance-operator writes: about whom, type, message.
async fn events(stage: &Stage, reason: &str) -> Result<Vec<(String, String, String)>> {
    let api: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    let mut found = Vec::new();
    for event in api.list(&ListParams::default()).await?.items {
        if event.reason.as_deref() == Some(reason) {
            let component = event.source.and_then(|source| source.component);
            assert_eq!(component.as_deref(), Some("NodeMaintenance"));
            assert_eq!(event.reporting_component.as_deref(), Some("NodeMaintenance"));
            let about = event.involved_object;
            let named = event.metadata.name.unwrap_or_default();
            let prefix = format!("{}.", about.name.clone().unwrap_or_default());
            assert!(named.starts_with(&prefix), "{named}");
            found.push((
                format!(
                    "{}/{}",
                    about.kind.unwrap_or_default(),
                    about.name.unwrap_or_default()
                ),
                event.type_.unwrap_or_default(),
                event.message.unwrap_or_default(),
            ));
        }
    }
    Ok(found)
}

/// Waits for exactly one event of the reason.
async fn one_event(stage: &Stage, reason: &str, about: &str, type_: &str, message: &str) -> Result<()> {
    let found = stage
        .until(&format!("event {reason}"), 30, || async {
            let found = events(stage, reason).await?;
            Ok((!found.is_empty()).then_some(found))
        })
        .await?;
    assert_eq!(
        found,
        [(about.to_owned(), type_.to_owned(), message.to_owned())],
        "{reason}"
    );
    Ok(())
}

/// A Deployment whose pods run until they are asked to end.
pub fn deployment(name: &str, replicas: usize, pod: Value) -> Value {
    let mut spec = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
    });
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, pod) {
        spec.extend(more);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    })
}

/// A PodDisruptionBudget of the pods of a Deployment.
pub fn budget(name: &str, max_unavailable: Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": name}}},
    })
}

/// Names of the Ready pods of an application on a node.
async fn pods_on(stage: &Stage, app: &str, node: &str) -> Result<Vec<String>> {
    let api: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    let params = ListParams::default()
        .labels(&format!("app={app}"))
        .fields(&format!("spec.nodeName={node}"));
    let ready = |pod: &Pod| {
        let conditions = pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut conditions = conditions.into_iter();
        conditions.any(|one| one.type_ == "Ready" && one.status == "True")
            && pod.metadata.deletion_timestamp.is_none()
    };
    let pods = api.list(&params).await?.items;
    Ok(pods
        .iter()
        .filter(|pod| ready(pod))
        .map(ResourceExt::name_any)
        .collect())
}

/// Waits until so many pods of an application are Ready on a node.
pub async fn running(stage: &Stage, app: &str, node: &str, number: usize) -> Result<()> {
    stage
        .until(&format!("{number} pods of {app} on {node}"), 90, || async {
            let found = pods_on(stage, app, node).await?;
            Ok((found.len() == number).then_some(()))
        })
        .await
}

pub fn on(node: &str) -> Value {
    json!({"nodeSelector": {"kubernetes.io/hostname": node}})
}

/// Evictions that numo asked for, with their answers.
fn evictions(stage: &Stage) -> Result<Vec<String>> {
    let requests = stage.requests()?.into_iter();
    Ok(requests
        .filter(|request| request.subresource == "eviction")
        .map(|request| request.uri)
        .collect())
}

/// Takes a node into maintenance and back, in each group.
pub async fn there_and_back(stage: &Stage, node: &str) -> Result<()> {
    for group in [MEDIK8S_GROUP, KUBEVIRT_GROUP] {
        apply(stage, &[object(group, "there", node, json!({}))]).await?;
        phase(stage, group, "there", "Succeeded").await?;
        delete(stage, group, "there").await?;
    }
    Ok(())
}

/// A DaemonSet `agent` on worker-0, with these volumes.
fn agent(volumes: &Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "nodeSelector": {"kubernetes.io/hostname": "worker-0"},
                "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
                "volumes": volumes,
            }},
        },
    })
}

/// The volumes that are attached to worker-0, by their handles.
async fn attach(stage: &Stage, handles: &[&str]) -> Result<()> {
    let attached = handles.iter().map(|handle| {
        let name = format!("kubernetes.io/csi/disks.example.com^{handle}");
        json!({"name": name, "devicePath": ""})
    });
    let attached: Vec<Value> = attached.collect();
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let patch = Patch::Merge(json!({"status": {"volumesAttached": attached}}));
    nodes
        .patch_status("worker-0", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_waited_for_but_for_those_of_pods_that_stay() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let size = json!({"storage": "1Gi"});
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-agent"},
        "spec": {
            "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "csi": {"driver": "disks.example.com", "volumeHandle": "vol-agent"},
            "claimRef": {"namespace": "default", "name": "agent"},
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv-agent",
            "resources": {"requests": size},
        },
    });
    let mounted = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "agent"}}]);
    apply(&stage, &[volume, claim, agent(&mounted)]).await?;
    running(&stage, "agent", "worker-0", 1).await?;
    attach(&stage, &["vol-agent", "vol-web"]).await?;
    maintain(
        &stage,
        "nm",
        "worker-0",
        json!({"drain": {"awaitVolumeDetach": true}}),
    )
    .await?;
    let why = waits(&stage, "nm", "VolumesAttached").await?;
    assert!(why.contains("vol-web") && !why.contains("vol-agent"), "{why}");
    // As many volumes as claims of pods that stay: it is another's all the same.
    attach(&stage, &["vol-web"]).await?;
    let why = waits(&stage, "nm", "VolumesAttached").await?;
    assert!(why.contains("vol-web"), "{why}");
    attach(&stage, &["vol-agent"]).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    stage.strike().await
}

async fn lifecycle(group: &str, taint: &str) -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let daemon = agent(&json!([]));
    let with_data = json!({
        "nodeSelector": {"kubernetes.io/hostname": "worker-0"},
        "volumes": [{"name": "data", "emptyDir": {}}],
    });
    apply(
        &stage,
        &[
            daemon,
            deployment("web", 2, on("worker-0")),
            deployment("cache", 1, with_data),
        ],
    )
    .await?;
    let bare: Pod = serde_json::from_value(json!({
        "metadata": {"name": "bare", "labels": {"app": "bare"}},
        "spec": {
            "nodeName": "worker-0", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    pods.create(&PostParams::default(), &bare).await?;
    for (app, number) in [("agent", 1), ("web", 2), ("cache", 1), ("bare", 1)] {
        running(&stage, app, "worker-0", number).await?;
    }
    let before = node(&stage, "worker-0").await?;

    apply(
        &stage,
        &[object(group, "nodemaintenance-xyz", "worker-0", json!({}))],
    )
    .await?;
    let done = phase(&stage, group, "nodemaintenance-xyz", "Succeeded").await?;
    assert_eq!((done.eviction_pods, done.drain_progress), (Some(4), Some(100)));
    assert_eq!(done.total_pods, Some(5), "{done:?}");
    assert_eq!(
        (&done.pending_pods, &done.pending_pods_refs, &done.last_error),
        (&None, &None, &None)
    );
    assert!(done.last_update.is_some());
    let object = api(&stage, group).get("nodemaintenance-xyz").await?;
    assert_eq!(object.finalizers(), ["foregroundDeleteNodeMaintenance"]);
    assert!(object.data["status"].get("totalpods").is_some(), "its exact name");
    let kept = node(&stage, "worker-0").await?;
    assert!(is_cordoned(&kept));
    let mut found = taints(&kept);
    found.sort();
    let mut wanted = [
        format!("{taint}:NoSchedule"),
        "node.kubernetes.io/unschedulable:NoSchedule".to_owned(),
    ];
    wanted.sort();
    assert_eq!(found, wanted);
    assert_eq!(
        kept.labels()["remediation.medik8s.io/exclude-from-remediation"],
        "true"
    );
    let lease = leases(&stage).get("node-worker-0").await?;
    let owner = lease.owner_references().first().cloned().context("an owner")?;
    assert_eq!((owner.kind.as_str(), Some(owner.uid)), ("Node", kept.uid()));
    let spec = lease.spec.context("a spec")?;
    assert_eq!(spec.holder_identity.as_deref(), Some("node-maintenance"));
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(3600), Some(0))
    );
    assert!(spec.renew_time == spec.acquire_time && spec.renew_time.is_some());
    assert!(
        spec.acquire_time.map(|at| at.0) >= object.creation_timestamp().map(|at| at.0),
        "it begins with its object"
    );
    assert_eq!(
        pods_on(&stage, "agent", "worker-0").await?.len(),
        1,
        "a DaemonSet's pod stays"
    );
    assert!(pods.get_opt("bare").await?.is_none());
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(
        text.contains("InMaintenance") && text.contains("Test node maintenance"),
        "{text}"
    );
    let text = stage.say(&["status"]).await?;
    assert!(
        text.contains("nodemaintenance-xyz") && text.contains("100%"),
        "{text}"
    );

    delete(&stage, group, "nodemaintenance-xyz").await?;
    is_restored(&stage, "worker-0").await?;
    let after = node(&stage, "worker-0").await?;
    assert_eq!(after.labels(), before.labels());
    assert_eq!(after.annotations(), before.annotations());
    let about = "NodeMaintenance/nodemaintenance-xyz";
    one_event(
        &stage,
        "BeginMaintenance",
        about,
        "Normal",
        "Begin a node maintenance",
    )
    .await?;
    one_event(
        &stage,
        "SucceedMaintenance",
        about,
        "Normal",
        "Node maintenance was succeeded",
    )
    .await?;
    one_event(
        &stage,
        "UncordonNode",
        "Node/worker-0",
        "Normal",
        "Uncordon a node",
    )
    .await?;
    one_event(
        &stage,
        "RemovedMaintenance",
        about,
        "Normal",
        "Removed a node maintenance",
    )
    .await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_kept_in_maintenance_and_put_back_as_it_was() -> Result<()> {
    Box::pin(lifecycle(MEDIK8S_GROUP, "medik8s.io/drain")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_group_is_served_too() -> Result<()> {
    Box::pin(lifecycle(KUBEVIRT_GROUP, "kubevirt.io/drain")).await
}

/// Who else writes annotations of nodes puts some back at once; labels stay away.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_labels_or_annotations_is_taken_and_restored() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let bare = json!([
        {"op": "remove", "path": "/metadata/annotations"},
        {"op": "remove", "path": "/metadata/labels"},
    ]);
    let bare = Patch::<()>::Json(serde_json::from_value(bare)?);
    let found = nodes.patch("worker-0", &PatchParams::default(), &bare).await?;
    assert!(found.annotations().is_empty() && found.labels().is_empty());
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    assert_eq!(
        node(&stage, "worker-0").await?.labels()[numo_api::marks::EXCLUDE_FROM_REMEDIATION],
        "true"
    );
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    assert!(node(&stage, "worker-0").await?.labels().is_empty(), "as it was");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_pods_behind_a_budget_that_opens_late() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 30, on("worker-0")), budget("web", json!(0))],
    )
    .await?;
    running(&stage, "web", "worker-0", 30).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    let why = waits(&stage, "nm", "EvictionBlocked").await?;
    assert!(
        why.contains("PodDisruptionBudget default/web") && why.contains("ReplicaSet"),
        "{why}"
    );
    let running = status(&stage, MEDIK8S_GROUP, "nm").await?;
    assert_eq!(running.phase.as_deref(), Some("Running"));
    assert_eq!(running.pending_pods.as_ref().map(Vec::len), Some(30));
    assert_eq!(
        (running.eviction_pods, running.total_pods, running.drain_progress),
        (Some(30), Some(30), None)
    );
    assert!(
        running
            .last_error
            .is_some_and(|error| error.contains("default/web"))
    );
    let refs = running.pending_pods_refs.context("refs")?;
    assert_eq!(refs[0].namespace.as_deref(), Some("default"));
    let text = stage.say(&["explain", "worker-0"]).await?;
    assert!(
        text.contains("EvictionBlocked") && text.contains("default/web"),
        "{text}"
    );
    let text = stage.say(&["explain", "nodemaintenance/nm"]).await?;
    assert!(
        text.contains("\n  pod     "),
        "what the drain does not get past: {text}"
    );
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(
        evictions(&stage)?,
        Vec::<String>::new(),
        "a budget that is closed is not asked"
    );
    apply(&stage, &[budget("web", json!("100%"))]).await?;
    let done = phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    assert_eq!((done.last_error, done.drain_progress), (None, Some(100)));
    // No pod is asked twice: the budget's word is known before.
    assert!(evictions(&stage)?.len() <= 33, "{:?}", evictions(&stage)?.len());
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    stage.strike().await
}

/// Pods with a name of their own: the next waits for the one before it, on another node.
#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_moves_pod_by_pod() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    stage.cordon("worker-1", true).await?;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": 3, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
            }},
        },
    });
    apply(&stage, &[set, budget("db", json!(1))]).await?;
    running(&stage, "db", "worker-0", 3).await?;
    stage.cordon("worker-1", false).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    running(&stage, "db", "worker-1", 3).await?;
    stage.strike().await
}

/// A budget that lets one pod go at a time, whose replacement must be Ready before the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_one_at_a_time_is_kept_and_followed_without_rounds() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 6, json!({})), budget("web", json!(1))],
    )
    .await?;
    stage
        .until("6 pods run", 90, || async {
            let all = [
                pods_on(&stage, "web", "worker-0").await?,
                pods_on(&stage, "web", "worker-1").await?,
            ];
            Ok((all.concat().len() == 6).then_some(()))
        })
        .await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    running(&stage, "web", "worker-1", 6).await?;
    stage.strike().await
}

/// A stop in mid-drain: what was asked to go goes, nobody else is asked until somebody starts it again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_mid_drain_evicts_nobody_further() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    stage.cordon("worker-1", true).await?;
    apply(
        &stage,
        &[deployment("web", 40, json!({})), budget("web", json!(1))],
    )
    .await?;
    running(&stage, "web", "worker-0", 40).await?;
    stage.cordon("worker-1", false).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    stage
        .until("the drain has begun", 60, || async {
            Ok((evictions(&stage)?.len() >= 2).then_some(()))
        })
        .await?;
    stage.say(&["stop", "--reason", "a storm"]).await?;
    let why = waits(&stage, "nm", "Stopped").await?;
    assert!(why.contains("MutexBudget"), "{why}");
    // What was on its way when it was stopped has come to its end.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let asked = evictions(&stage)?.len();
    let text = stage.say(&["explain", "nodemaintenance/nm"]).await?;
    assert!(
        text.contains("numo start") && text.contains("stop by admin: a storm"),
        "{text}"
    );
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(
        evictions(&stage)?.len(),
        asked,
        "nobody is evicted while it is stopped"
    );
    assert!(!pods_on(&stage, "web", "worker-0").await?.is_empty());
    stage.say(&["start"]).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    running(&stage, "web", "worker-1", 40).await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_that_was_there_before_stays() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    stage.cordon("worker-0", true).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    let after = node(&stage, "worker-0").await?;
    assert!(is_cordoned(&after));
    assert_eq!(taints(&after), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_corrected_and_late_pods_are_seen() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    stage.cordon("worker-0", false).await?;
    stage
        .until("it is cordoned again", 30, || async {
            Ok(is_cordoned(&node(&stage, "worker-0").await?).then_some(()))
        })
        .await?;
    // A pod past the cordon, by its node's name.
    let late: Pod = serde_json::from_value(json!({
        "metadata": {"name": "late"},
        "spec": {
            "nodeName": "worker-0", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
        },
    }))?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    pods.create(&PostParams::default(), &late).await?;
    gone(&stage, &pods, "late").await?;
    // A Deployment that tolerates everything comes back: it is named, and holds nobody up.
    let stubborn = json!({
        "nodeSelector": {"kubernetes.io/hostname": "worker-0"},
        "tolerations": [{"operator": "Exists"}],
    });
    apply(&stage, &[deployment("stubborn", 1, stubborn)]).await?;
    let why = waits(&stage, "nm", "PodsReturn").await?;
    assert!(why.contains("ReplicaSet default/stubborn"), "{why}");
    let still = status(&stage, MEDIK8S_GROUP, "nm").await?;
    assert_eq!(
        (still.phase.as_deref(), still.last_error),
        (Some("Succeeded"), None)
    );
    assert_eq!(
        events(&stage, "SucceedMaintenance").await?.len(),
        1,
        "it is said once"
    );
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_missing_fails_and_begins_when_it_comes() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    apply(
        &stage,
        &[notifier("events", json!({"cloudEvents": {"url": url}}))],
    )
    .await?;
    maintain(&stage, "nm", "worker-9", json!({})).await?;
    let failed = phase(&stage, MEDIK8S_GROUP, "nm", "Failed").await?;
    sink.until(&stage, "Failed", "nm").await?;
    assert_eq!(failed.last_error.as_deref(), Some("nodes \"worker-9\" not found"));
    one_event(
        &stage,
        "FailedMaintenance",
        "NodeMaintenance/nm",
        "Warning",
        "Failed a node maintenance",
    )
    .await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    assert!(leases(&stage).get_opt("node-worker-9").await?.is_none());

    // A node that is deleted meanwhile, and made again under its name.
    maintain(&stage, "again", "worker-1", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "again", "Succeeded").await?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let mut copy = nodes.get("worker-1").await?;
    nodes.delete("worker-1", &DeleteParams::default()).await?;
    let failed = phase(&stage, MEDIK8S_GROUP, "again", "Failed").await?;
    assert_eq!(failed.last_error.as_deref(), Some("nodes \"worker-1\" not found"));
    copy.metadata = kube::core::ObjectMeta {
        name: Some("worker-1".to_owned()),
        labels: copy.metadata.labels.map(|mut labels| {
            labels.remove(numo_api::marks::EXCLUDE_FROM_REMEDIATION);
            labels
        }),
        ..kube::core::ObjectMeta::default()
    };
    copy.spec = None;
    nodes.create(&PostParams::default(), &copy).await?;
    phase(&stage, MEDIK8S_GROUP, "again", "Succeeded").await?;
    let kept = node(&stage, "worker-1").await?;
    assert!(is_cordoned(&kept));
    let lease = leases(&stage).get("node-worker-1").await?;
    assert_eq!(lease.owner_references()[0].uid, kept.uid().context("a uid")?);
    delete(&stage, MEDIK8S_GROUP, "again").await?;
    let after = node(&stage, "worker-1").await?;
    assert!(!is_cordoned(&after));
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_maintenances_of_a_node_and_a_lease_of_somebody_else() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    maintain(&stage, "first", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "first", "Succeeded").await?;
    apply(&stage, &[object(KUBEVIRT_GROUP, "second", "worker-0", json!({}))]).await?;
    let waiting = stage
        .until("the second is refused", 30, || async {
            let status = status(&stage, KUBEVIRT_GROUP, "second").await?;
            Ok(status.last_error)
        })
        .await?;
    assert!(
        waiting.starts_with("invalid nodeName, a NodeMaintenance for node worker-0 already exists"),
        "{waiting}"
    );
    // The second takes over when the first goes; nothing of the first is left.
    delete(&stage, MEDIK8S_GROUP, "first").await?;
    phase(&stage, KUBEVIRT_GROUP, "second", "Succeeded").await?;
    assert!(
        taints(&node(&stage, "worker-0").await?)
            .iter()
            .any(|taint| taint.starts_with("kubevirt.io/drain"))
    );

    // Somebody takes the lease: after a while the node is theirs.
    let patch = json!({"spec": {"holderIdentity": "remediation"}});
    leases(&stage)
        .patch("node-worker-0", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    let failed = phase(&stage, KUBEVIRT_GROUP, "second", "Failed").await?;
    assert_eq!(
        failed.last_error.as_deref(),
        Some("maintenance failed: lease could not be extended after 4 attempts")
    );
    assert_eq!(failed.error_on_lease_count, Some(4));
    stage
        .until("it is uncordoned", 30, || async {
            Ok((!is_cordoned(&node(&stage, "worker-0").await?)).then_some(()))
        })
        .await?;
    let lease = leases(&stage).get("node-worker-0").await?;
    assert_eq!(
        lease.spec.and_then(|spec| spec.holder_identity).as_deref(),
        Some("remediation")
    );
    // A maintenance of a node whose lease is held waits and says who holds it.
    maintain(&stage, "third", "worker-0", json!({})).await?;
    delete(&stage, KUBEVIRT_GROUP, "second").await?;
    let why = waits(&stage, "third", "NodeLeaseHeld").await?;
    assert!(why.ends_with("held by different owner: remediation"), "{why}");
    leases(&stage)
        .delete("node-worker-0", &DeleteParams::default())
        .await?;
    phase(&stage, MEDIK8S_GROUP, "third", "Succeeded").await?;
    stage.strike().await
}

/// worker-0 as node-maintenance-operator keeps it: NodeMaintenance `theirs`, its taints, label, lease and finalizer.
pub async fn left_by_another(stage: &Stage) -> Result<()> {
    let drain = json!([
        {"key": "medik8s.io/drain", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]);
    stage
        .patch_node(
            "worker-0",
            json!({
                "metadata": {"labels": {"remediation.medik8s.io/exclude-from-remediation": "true"}},
                "spec": {"unschedulable": true, "taints": drain},
            }),
        )
        .await?;
    let now = jiff_now();
    let lease: Lease = serde_json::from_value(json!({
        "metadata": {"name": "node-worker-0"},
        "spec": {"holderIdentity": "node-maintenance", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
    }))?;
    leases(stage).create(&PostParams::default(), &lease).await?;
    let mut theirs = object(MEDIK8S_GROUP, "theirs", "worker-0", json!({}));
    theirs["metadata"]["finalizers"] = json!(["foregroundDeleteNodeMaintenance"]);
    apply(stage, &[theirs]).await?;
    let left = json!({"status": {
        "phase": "Succeeded", "drainProgress": 100, "totalpods": 3, "evictionPods": 2,
        "lastError": "an error that was never cleared", "lastUpdate": "2026-01-01T00:00:00Z",
    }});
    api(stage, MEDIK8S_GROUP)
        .patch_status("theirs", &PatchParams::default(), &Patch::Merge(&left))
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_node_maintenance_operator_left_is_taken_over() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    stage.stop_numo().await?;
    left_by_another(&stage).await?;
    stage.start_numo()?;
    stage
        .until("it is taken over", 60, || async {
            let status = status(&stage, MEDIK8S_GROUP, "theirs").await?;
            let over = status.phase.as_deref() == Some("Succeeded") && status.last_error.is_none();
            Ok(over.then_some(()))
        })
        .await?;
    stage.step("worker-0", Step::Drained).await?;
    delete(&stage, MEDIK8S_GROUP, "theirs").await?;
    is_restored(&stage, "worker-0").await?;
    stage.strike().await
}

fn jiff_now() -> String {
    let now = k8s_openapi::jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "for the night: cargo xtask test --night"]
async fn numo_is_killed_again_and_again() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 8, on("worker-0")), budget("web", json!(0))],
    )
    .await?;
    running(&stage, "web", "worker-0", 8).await?;
    let before = node(&stage, "worker-0").await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    // Each life is a little longer: it ends in another step.
    for tenths in 1..14_u64 {
        tokio::time::sleep(std::time::Duration::from_millis(tenths * 60)).await;
        stage.kill_numo().await?;
        stage.start_numo()?;
    }
    waits(&stage, "nm", "EvictionBlocked").await?;
    // Not opened but gone: Kubernetes counts a pod whose eviction was cut off as disrupted for two minutes.
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> =
        Api::namespaced(stage.client.clone(), "default");
    budgets.delete("web", &DeleteParams::default()).await?;
    for tenths in 1..5_u64 {
        tokio::time::sleep(std::time::Duration::from_millis(tenths * 150)).await;
        stage.kill_numo().await?;
        stage.start_numo()?;
    }
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    api(&stage, MEDIK8S_GROUP)
        .delete("nm", &DeleteParams::default())
        .await?;
    for tenths in 1..5_u64 {
        tokio::time::sleep(std::time::Duration::from_millis(tenths * 100)).await;
        stage.kill_numo().await?;
        stage.start_numo()?;
    }
    gone(&stage, &api(&stage, MEDIK8S_GROUP), "nm").await?;
    is_restored(&stage, "worker-0").await?;
    let after = node(&stage, "worker-0").await?;
    assert_eq!(
        (after.labels(), after.annotations()),
        (before.labels(), before.annotations())
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_in_the_middle_of_a_drain_restores_at_once() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    apply(
        &stage,
        &[deployment("web", 2, on("worker-0")), budget("web", json!(0))],
    )
    .await?;
    running(&stage, "web", "worker-0", 2).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    waits(&stage, "nm", "EvictionBlocked").await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    assert_eq!(evictions(&stage)?, Vec::<String>::new());
    assert_eq!(pods_on(&stage, "web", "worker-0").await?.len(), 2);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_gate_a_maintenance_and_its_end() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let before = rule("before", json!({"jobSpec": job(&gate.wait())}));
    let settled = rule(
        "settled",
        json!({"phases": ["BeforeUncordon"], "jobSpec": job("true")}),
    );
    apply(&stage, &[before, settled]).await?;
    let rules = json!({"mutexRules": [{"name": "before"}, {"name": "settled"}]});
    maintain(&stage, "nm", "worker-0", rules).await?;
    let why = waits(&stage, "nm", "RuleRunning").await?;
    assert!(why.contains("before"), "{why}");
    assert!(
        !is_cordoned(&node(&stage, "worker-0").await?),
        "not before its rule"
    );
    gate.open_for_all()?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    let change = stage.change("worker-0").await?.context("a journal")?;
    let verdicts = change.status.context("a status")?.verdicts;
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    let notes = stage.events().await?;
    assert!(
        notes.iter().any(|event| event
            .note
            .as_deref()
            .is_some_and(|note| note.contains("settled passed in phase BeforeUncordon"))),
        "the rule had its say before the node was put back"
    );
    stage.strike().await
}

/// A MutexBinding gates maintenances that know nothing of numo; a rule that failed is asked again when a person says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_gates_maintenances_and_a_failed_rule_is_retried() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let backup = rule("backup", json!({"jobSpec": job(&gate.is_open("$NODE_NAME"))}));
    let binding = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
        "metadata": {"name": "gate"},
        "spec": {
            "ownerSelector": {"kind": "NodeMaintenance"},
            "rules": [{"name": "backup"}],
            "maxUnavailable": 1,
        },
    });
    apply(&stage, &[backup, binding]).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    let why = waits(&stage, "nm", "RuleFailed").await?;
    assert!(why.contains("backup"), "{why}");
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));
    gate.open_for_all()?;
    stage.say(&["retry", "worker-0"]).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    maintain(&stage, "other", "worker-1", json!({})).await?;
    let why = waits(&stage, "other", "WaitingForTurn").await?;
    assert!(
        why.contains("MutexBinding gate spec.maxUnavailable") && why.contains("worker-0"),
        "{why}"
    );
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    phase(&stage, MEDIK8S_GROUP, "other", "Succeeded").await?;
    stage.strike().await
}

/// A MutexBinding says how many owners it gates. A kind that no binding gates is refused; one that was stored before the
/// API server knew that, is not Ready, says so in an event, and `explain` and `doctor` name it.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_gates_nothing_is_refused_or_loud() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    let binding = |name: &str, selector: Value, rules: Value| {
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
            "metadata": {"name": name}, "spec": {"ownerSelector": selector, "rules": rules},
        })
    };
    for (selector, words) in [
        (
            json!({"kind": "plan"}),
            "Unsupported value: \"plan\": supported values: \"Plan\", \"NodeMaintenance\"",
        ),
        (
            json!({"kind": "MutexRunConfig"}),
            "Unsupported value: \"MutexRunConfig\"",
        ),
        (
            json!({"kind": "NodeMaintenance", "namespaces": ["x"]}),
            "a NodeMaintenance is in no namespace",
        ),
    ] {
        let refused = apply(&stage, &[binding("bad", selector, json!([{"name": "backup"}]))]).await;
        let refused = format!("{:#}", refused.unwrap_err());
        assert!(refused.contains(words), "{refused}");
    }
    // What an older definition has let in.
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "mutexbindings.numo.openshift-optional.skrzypek.io";
    let kept = definitions.get(name).await?;
    let selector = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ownerSelector";
    let old = json!([
        {"op": "remove", "path": format!("{selector}/x-kubernetes-validations")},
        {"op": "remove", "path": format!("{selector}/properties/kind/enum")},
    ]);
    let old = kube::api::Patch::<()>::Json(serde_json::from_value(old)?);
    definitions
        .patch(name, &kube::api::PatchParams::default(), &old)
        .await?;
    let bad = binding("bad", json!({"kind": "MachineSet"}), json!([{"name": "backup"}]));
    stage
        .until("the older definition admits it", 60, || async {
            Ok(apply(&stage, std::slice::from_ref(&bad)).await.ok())
        })
        .await?;
    let mut new = kept;
    new.metadata.resource_version = definitions.get(name).await?.metadata.resource_version;
    definitions
        .replace(name, &kube::api::PostParams::default(), &new)
        .await?;
    let api: Api<numo_api::MutexBinding> = Api::all(stage.client.clone());
    let judged = async |name: &str, reason: &str| {
        stage
            .until(&format!("MutexBinding {name} is {reason}"), 60, || async {
                let status = api.get(name).await?.status.unwrap_or_default();
                let ready = status.conditions.iter().find(|one| one.type_ == "Ready").cloned();
                let ready = ready.filter(|one| one.reason.as_deref() == Some(reason));
                Ok(ready.map(|ready| (status, ready.status, ready.message.unwrap_or_default())))
            })
            .await
    };
    let (_, ready, message) = judged("bad", "InvalidField").await?;
    assert_eq!(ready, "False");
    assert!(
        message.contains("spec.ownerSelector.kind: found \"MachineSet\", wanted Plan or NodeMaintenance"),
        "{message}"
    );
    stage.event("MutexBinding", "bad", "InvalidConfig").await?;
    let shown = stage.say(&["explain", "mutexbinding/bad"]).await?;
    assert!(shown.contains("spec.ownerSelector.kind"), "{shown}");
    // A rule that is not there, and nobody to gate; then the rule, and an owner.
    let gate = binding(
        "gate",
        json!({"kind": "NodeMaintenance"}),
        json!([{"name": "backup"}]),
    );
    apply(&stage, &[gate]).await?;
    judged("gate", "RuleNotFound").await?;
    let found = stage.call(&["doctor", "-o", "json"]).await?.out;
    for words in [
        "MutexBinding bad is not Ready (InvalidField)",
        "MutexBinding gate is not Ready (RuleNotFound)",
    ] {
        assert!(found.contains(words), "{found}");
    }
    apply(&stage, &[rule("backup", json!({"jobSpec": job("true")}))]).await?;
    let (status, ready, _) = judged("gate", "NoOwners").await?;
    assert_eq!((ready.as_str(), status.owners_matched), ("True", Some(0)));
    let found = stage.call(&["doctor", "-o", "json"]).await?.out;
    assert!(found.contains("MutexBinding gate gates nothing"), "{found}");
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    let (status, ready, _) = judged("gate", "ValidConfig").await?;
    assert_eq!((ready.as_str(), status.owners_matched), ("True", Some(1)));
    let shown = stage.say(&["explain", "mutexbinding/gate"]).await?;
    assert!(shown.contains("NodeMaintenance"), "{shown}");
    stage.strike().await
}

/// A node in numo's own maintenance is cordoned by it: whoever else waits for it is told who has it and the command that
/// gives it free, and at no time that somebody should uncordon it.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_uncordon_a_node_in_maintenance() -> Result<()> {
    let stage = plans::stage(3, Vec::new()).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    prepare(&stage, &[quick()], json!({})).await?;
    apply(&stage, &[plans::plan("k3s", "true", json!({"cordon": true}))]).await?;
    stage.world.upgrade_to(NEW).await?;
    let both: Vec<Value> = stage
        .until("run and Plan wait for the maintenance", 120, || async {
            let said = stage.say(&["explain", "worker-0", "-o", "json"]).await?;
            for words in ["uncordon", "CordonedByOther"] {
                assert!(!said.contains(words), "{words}: {said}");
            }
            let all: Vec<Value> = serde_json::from_str(&said)?;
            let busy = all.into_iter().filter(|one| one["reason"] == "NodeBusy");
            Ok(Some(busy.collect::<Vec<Value>>()).filter(|busy| busy.len() == 2))
        })
        .await?;
    for one in both {
        let message = one["message"].as_str().unwrap_or_default();
        assert!(message.contains("NodeMaintenance nm"), "{one:#}");
        assert_eq!(one["commands"], json!(["kubectl delete nm nm"]), "{one:#}");
        assert_eq!(one["endsBy"], "whoever keeps the node in maintenance", "{one:#}");
    }
    // Another node goes meanwhile, with each of them.
    stage.step("worker-1", Step::Done).await?;
    plans::step(&stage, "worker-1", Step::Done).await?;
    let why = crate::waits(&stage, "NodeBusy").await?;
    assert!(why.contains("NodeMaintenance nm"), "{why}");
    // What the command does is what they wait for.
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    finish(&stage).await?;
    plans::complete(&stage, "k3s").await?;
    plans::is_restored(&stage, "k3s").await?;
    stage.strike().await
}

/// A node in maintenance that somebody keeps opening is closed again a few times; then phase, status and journal say that
/// it is not kept free, with what ends that, and once it is closed again it is in maintenance as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_whose_node_is_opened_again_and_again_says_so_until_it_is_closed() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    for _ in 0..MAX_CORRECTIONS {
        stage.cordon("worker-0", false).await?;
        stage
            .until("it is cordoned again", 30, || async {
                Ok(is_cordoned(&node(&stage, "worker-0").await?).then_some(()))
            })
            .await?;
    }
    stage.cordon("worker-0", false).await?;
    let failed = phase(&stage, MEDIK8S_GROUP, "nm", "Failed").await?;
    let error = failed.last_error.unwrap_or_default();
    let why = waits(&stage, "nm", "ForeignWriter").await?;
    let journal = stage
        .step("worker-0", Step::Held)
        .await?
        .status
        .unwrap_or_default();
    assert_eq!(journal.reason.as_deref(), Some("ForeignWriter"));
    let journaled = journal.message.unwrap_or_default();
    let times = format!("someone uncordoned it, {} times in all", MAX_CORRECTIONS + 1);
    for words in [&error, &why, &journaled] {
        assert!(
            words.contains(&times) && words.contains("the node is not kept free of pods"),
            "{words}"
        );
    }
    assert!(
        !is_cordoned(&node(&stage, "worker-0").await?),
        "it is left to people"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    for words in ["ForeignWriter", "kubectl cordon worker-0", "kubectl delete nm nm"] {
        assert!(text.contains(words), "no {words} in: {text}");
    }
    stage.cordon("worker-0", true).await?;
    let kept = phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    assert_eq!(kept.last_error.unwrap_or_default(), "");
    stage.step("worker-0", Step::Drained).await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    is_restored(&stage, "worker-0").await?;
    stage.strike().await
}

/// A run, a maintenance and a person share one ledger: no budget is exceeded by numo's doing, and no node has two
/// owners.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_a_maintenance_and_a_person_share_one_ledger() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let all = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBudget",
        "metadata": {"name": "all"},
        "spec": {"nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}}, "maxUnavailable": 1},
    });
    apply(&stage, &[all]).await?;
    maintain(&stage, "nm", "worker-1", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    // The run waits for the budget, and for the node in maintenance in any case.
    prepare(&stage, &[quick()], json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let why = crate::waits(&stage, "BudgetExhausted").await?;
    assert!(why.contains("worker-1"), "{why}");
    assert_eq!(crate::released_after_a_while(&stage).await, Vec::<String>::new());
    // A second maintenance waits too.
    maintain(&stage, "other", "worker-2", json!({})).await?;
    waits(&stage, "other", "BudgetExhausted").await?;
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    // Now one of the two goes on, never both at once.
    let crowded = std::sync::atomic::AtomicBool::new(false);
    stage
        .until("the maintenance has its node", 180, || async {
            let away: Vec<String> = stage
                .world
                .state()
                .nodes
                .iter()
                .filter(|(name, node)| name.starts_with("worker") && (node.unschedulable || !node.ready))
                .map(|(name, _)| name.clone())
                .collect();
            if away.len() > 1 {
                crowded.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            let status = status(&stage, MEDIK8S_GROUP, "other").await?;
            Ok((status.phase.as_deref() == Some("Succeeded")).then_some(()))
        })
        .await?;
    delete(&stage, MEDIK8S_GROUP, "other").await?;
    finish(&stage).await?;
    assert!(!crowded.into_inner(), "two nodes were away at once");
    // A person's cordon counts like any other.
    stage.cordon("worker-0", true).await?;
    maintain(&stage, "last", "worker-2", json!({})).await?;
    waits(&stage, "last", "BudgetExhausted").await?;
    stage.cordon("worker-0", false).await?;
    phase(&stage, MEDIK8S_GROUP, "last", "Succeeded").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_nodes_keep_their_quorum() -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        ..workers(1)
    };
    let stage = set(world, Vec::new()).await?;
    maintain(&stage, "one", "master-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "one", "Succeeded").await?;
    maintain(&stage, "two", "master-1", json!({})).await?;
    let why = waits(&stage, "two", "EtcdQuorum").await?;
    assert!(
        why.starts_with("can not put master/control-plane node into maintenance at this moment, disrupting node master-1 will violate etcd quorum"),
        "{why}"
    );
    assert!(!is_cordoned(&node(&stage, "master-1").await?));
    delete(&stage, MEDIK8S_GROUP, "one").await?;
    phase(&stage, MEDIK8S_GROUP, "two", "Succeeded").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_live_node_maintenance_operator_numo_stands_off() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    let name = "node-maintenance-operator-controller-manager";
    let theirs = |replicas: usize| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "nmo"}},
                "template": {"metadata": {"labels": {"app": "nmo"}}, "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "manager", "image": "nmo", "command": ["sleep", "36000"]}],
                }},
            },
        })
    };
    stage.stop_numo().await?;
    // Who has only its name stops nobody.
    apply(&stage, &[theirs(1)]).await?;
    stage.start_numo()?;
    maintain(&stage, "free", "worker-1", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "free", "Succeeded").await?;
    stage.stop_numo().await?;
    let right = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "nmo"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-for-nmo"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "numo-for-nmo"},
        "rules": [{"apiGroups": [MEDIK8S_GROUP], "resources": ["nodemaintenances/status"], "verbs": ["update"]}],
    });
    apply(&stage, &[role, right]).await?;
    stage.start_numo()?;
    maintain(&stage, "nm", "worker-0", json!({})).await?;
    let event = stage.event("NodeMaintenance", "nm", "ForeignController").await?;
    let why = event.note.unwrap_or_default();
    assert!(why.contains(name), "{why}");
    let object = api(&stage, MEDIK8S_GROUP).get("nm").await?;
    assert!(object.finalizers().is_empty());
    assert_eq!(
        status(&stage, MEDIK8S_GROUP, "nm").await?,
        NodeMaintenanceStatus::default()
    );
    apply(&stage, &[theirs(0)]).await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_or_said_and_nothing_is_half_done() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let refused = |object: Value| {
        let stage = &stage;
        async move { format!("{:#}", apply(stage, &[object]).await.expect_err("it is refused")) }
    };
    // What the schema knows.
    let mut nameless = object(MEDIK8S_GROUP, "bad", "x", json!({}));
    nameless["spec"]
        .as_object_mut()
        .context("a spec")?
        .remove("nodeName");
    let why = refused(nameless).await;
    assert!(why.contains("spec.nodeName: Required value"), "{why}");
    let why = refused(object(
        MEDIK8S_GROUP,
        "bad",
        "worker-0",
        json!({"drain": {"order": "Random"}}),
    ))
    .await;
    assert!(why.contains("spec.drain.order"), "{why}");
    let why = refused(object(
        MEDIK8S_GROUP,
        "bad",
        "worker-0",
        json!({"drain": {"gracePeriodSeconds": -2}}),
    ))
    .await;
    assert!(why.contains("spec.drain.gracePeriodSeconds"), "{why}");
    let near = json!({"drain": {"podSelector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}}});
    let why = refused(object(MEDIK8S_GROUP, "bad", "worker-0", near)).await;
    assert!(why.contains("found operator Near without values"), "{why}");
    let space = json!({"drain": {"podSelector": {"matchLabels": {"not a key": "x"}}}});
    let why = refused(object(MEDIK8S_GROUP, "bad", "worker-0", space)).await;
    assert!(why.contains("found not a key, wanted a label key"), "{why}");
    // What only numo knows.
    let long = "k".repeat(64);
    let selector = json!({"drain": {"podSelector": {"matchLabels": {long: "x"}}}});
    maintain(&stage, "nm", "worker-0", selector).await?;
    let why = waits(&stage, "nm", "InvalidField").await?;
    assert!(
        why.starts_with("spec.drain.podSelector: found \"kkk") && why.contains("wanted a label key"),
        "{why}"
    );
    assert!(!is_cordoned(&node(&stage, "worker-0").await?));
    // Mended, it goes on.
    let mended = json!({"spec": {"drain": null}});
    api(&stage, MEDIK8S_GROUP)
        .patch("nm", &PatchParams::default(), &Patch::Merge(&mended))
        .await?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    for group in [MEDIK8S_GROUP, KUBEVIRT_GROUP] {
        apply(&stage, &[object(group, "fixed", "worker-1", json!({}))]).await?;
        let moved = json!({"spec": {"nodeName": "worker-0"}});
        let moved = api(&stage, group)
            .patch("fixed", &PatchParams::default(), &Patch::Merge(&moved))
            .await;
        let why = moved.expect_err("it is immutable").to_string();
        assert!(why.contains("updating spec.NodeName isn't allowed"), "{why}");
    }
    let text = stage.say(&["explain", "nodemaintenance/nm"]).await?;
    assert!(text.contains("InMaintenance"), "{text}");
    let none = stage.call(&["explain", "nm/none"]).await?;
    assert_ne!(none.code, Some(0));
    assert_eq!(NAMESPACE, "node-upgrade-mutex-operator");
    stage.strike().await
}

/// The words of the API server that refuses an object.
pub async fn refused(stage: &Stage, object: Value) -> String {
    format!("{:#}", apply(stage, &[object]).await.expect_err("it is refused"))
}

/// The webhook as it ships, but for the address: numo is no pod here.
pub async fn install_webhook(stage: &Stage, address: &str) -> Result<()> {
    let folder = numo_e2e::manifests::root().join("deploy/kustomize/components/webhook");
    for file in ["secret.yaml", "certificate_role.yaml", "webhook.yaml"] {
        let text = std::fs::read_to_string(folder.join(file))?;
        for mut object in numo_e2e::manifests::parse(&text)? {
            for webhook in object
                .get_mut("webhooks")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                let path = webhook["clientConfig"]["service"]["path"]
                    .as_str()
                    .context("a path")?;
                webhook["clientConfig"] = json!({"url": format!("https://{address}{path}")});
            }
            apply(stage, &[object]).await?;
        }
    }
    Ok(())
}

/// The address that a numo says it serves its webhook on.
async fn webhook_of(stage: &Stage, numo: &numo_e2e::process::Numo) -> Result<String> {
    stage
        .until("numo serves its webhook", 60, || async {
            let log = numo.log();
            let line = log.lines().find(|line| line.contains("serving the webhook"));
            let line = line.and_then(|line| serde_json::from_str::<Value>(line).ok());
            Ok(line.and_then(|line| line["address"].as_str().map(str::to_owned)))
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_refuses_at_once_and_never_keeps_a_node() -> Result<()> {
    const ARGUMENTS: [&str; 4] = ["--webhook-certs", "self", "--webhook-address", "127.0.0.1:0"];
    let world = WorldSpec {
        masters: 3,
        ..workers(2)
    };
    let mut stage = set(world, Vec::new()).await?;
    stage.stop_numo().await?;
    // The rights first: numo makes its certificate when it starts.
    install_webhook(&stage, "127.0.0.1:1").await?;
    stage.start_numo_with(&ARGUMENTS)?;
    let address = webhook_of(&stage, stage.numo().context("numo")?).await?;
    install_webhook(&stage, &address).await?;
    // numo told the API server whom to trust; that one works says so.
    stage
        .until("a NodeMaintenance is admitted", 60, || async {
            let created = maintain(&stage, "first", "worker-0", json!({})).await;
            if let Err(error) = &created
                && !format!("{error:#}").contains("failed calling webhook")
            {
                anyhow::bail!("{error:#}");
            }
            Ok(created.is_ok().then_some(()))
        })
        .await?;
    phase(&stage, MEDIK8S_GROUP, "first", "Succeeded").await?;
    let why = refused(&stage, object(MEDIK8S_GROUP, "bad", "worker-9", json!({}))).await;
    assert!(
        why.contains("admission webhook \"vnodemaintenance.kb.io\" denied the request: invalid nodeName, no node with name worker-9 found"),
        "{why}"
    );
    let why = refused(&stage, object(KUBEVIRT_GROUP, "bad", "worker-0", json!({}))).await;
    assert!(
        why.contains("admission webhook \"nodemaintenance-validation.kubevirt.io\" denied the request: invalid nodeName, a NodeMaintenance for node worker-0 already exists"),
        "{why}"
    );
    // Also one of the same name; that it exists already would be the API server's word.
    let again: DynamicObject = serde_json::from_value(object(MEDIK8S_GROUP, "first", "worker-0", json!({})))?;
    let created = api(&stage, MEDIK8S_GROUP)
        .create(&PostParams::default(), &again)
        .await;
    let why = created.err().context("it is refused")?.to_string();
    assert!(
        why.contains("invalid nodeName, a NodeMaintenance for node worker-0 already exists"),
        "{why}"
    );
    let wrong = json!({"drain": {"podSelector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}}});
    let why = refused(&stage, object(MEDIK8S_GROUP, "bad", "worker-1", wrong)).await;
    // The definition refuses it before the webhook is asked.
    assert!(
        why.contains("spec.drain.podSelector.matchExpressions[0].operator")
            && why.contains("found operator Near without values"),
        "{why}"
    );
    maintain(&stage, "master", "master-0", json!({})).await?;
    phase(&stage, MEDIK8S_GROUP, "master", "Succeeded").await?;
    let why = refused(&stage, object(MEDIK8S_GROUP, "bad", "master-1", json!({}))).await;
    assert!(
        why.contains("denied the request: can not put master/control-plane node into maintenance at this moment, disrupting node master-1 will violate etcd quorum"),
        "{why}"
    );
    // A replica that does not lead serves it too, with the same certificate.
    let follower = stage.numo_of_with(&ARGUMENTS)?;
    let second = webhook_of(&stage, &follower).await?;
    stage.kill_numo().await?;
    let why = refused(&stage, object(MEDIK8S_GROUP, "bad", "worker-9", json!({}))).await;
    assert!(why.contains("failed calling webhook"), "it fails closed: {why}");
    install_webhook(&stage, &second).await?;
    stage
        .until("the follower answers", 60, || async {
            let why = refused(&stage, object(MEDIK8S_GROUP, "bad", "worker-9", json!({}))).await;
            Ok(why.contains("no node with name worker-9 found").then_some(()))
        })
        .await?;
    follower.kill().await?;
    // Nobody serves it any more: a person's deletion and numo's own writes go through all the same.
    let address = "127.0.0.1:1";
    install_webhook(&stage, address).await?;
    let api = api(&stage, MEDIK8S_GROUP);
    api.delete("first", &DeleteParams::default()).await?;
    stage.start_numo()?;
    gone(&stage, &api, "first").await?;
    is_restored(&stage, "worker-0").await?;
    stage.strike().await
}

/// What takes the whole machine: `cargo xtask test` runs it after everything else.
mod alone {
    use super::{
        Api, Deployment, ListParams, MEDIK8S_GROUP, Pod, Result, apply, deployment, evictions, json,
        maintain, on, set, status, workers,
    };

    /// Twenty nodes at once, a thousand pods that can go nowhere else: each is asked once, and every node is done.
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "takes the whole machine: a step of its own of cargo xtask test"]
    async fn a_thousand_pods_over_twenty_nodes() -> Result<()> {
        const NODES: usize = 20;
        const PODS: usize = 50;
        let stage = set(workers(NODES), Vec::new()).await?;
        let node = |index: usize| format!("worker-{index}");
        for index in 0..NODES {
            let name = format!("web-{index}");
            apply(&stage, &[deployment(&name, PODS, on(&node(index)))]).await?;
        }
        let deployments: Api<Deployment> = Api::namespaced(stage.client.clone(), "default");
        stage
            .until("all pods run", 400, || async {
                let all = deployments.list(&ListParams::default()).await?.items;
                let ready = |one: &Deployment| one.status.as_ref().and_then(|status| status.ready_replicas);
                let ready: i32 = all.iter().filter_map(ready).sum();
                Ok((usize::try_from(ready).ok() == Some(NODES * PODS)).then_some(()))
            })
            .await?;
        for index in 0..NODES {
            maintain(&stage, &format!("nm-{index}"), &node(index), json!({})).await?;
        }
        for index in 0..NODES {
            let name = format!("nm-{index}");
            let done = stage
                .until(&format!("NodeMaintenance {name} is done"), 400, || async {
                    let status = status(&stage, MEDIK8S_GROUP, &name).await?;
                    Ok((status.phase.as_deref() == Some("Succeeded")).then_some(status))
                })
                .await?;
            assert_eq!((done.drain_progress, done.last_error), (Some(100), None));
            assert_eq!(done.eviction_pods, Some(i64::try_from(PODS)?));
        }
        let asked = evictions(&stage)?.len();
        assert!(
            (NODES * PODS..=NODES * PODS + 50).contains(&asked),
            "{asked} evictions"
        );
        let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
        let left = pods.list(&ListParams::default()).await?.items;
        let bound = left
            .iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        assert_eq!(bound.count(), 0, "nothing is left on a drained node");
        stage.strike().await
    }
}
