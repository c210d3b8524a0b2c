//! The pods of one node that is being drained; the scope of a watch is the node. `store/pods.rs` keeps them, as a pod may come back on
//! another node.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    item::Item,
    project::{NAME_LETTERS, bounded, created, key, text},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use numo_core::observed::PodView;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How pods of a node are watched.
pub const NODE_POD: Watched = Watched {
    resource: ("", "v1", "Pod", "pods"),
    place: Place::Named,
    select: |node| Selection::all("").with_fields(&format!("spec.nodeName={node}")),
    page: PAGE_OF_MADE,
    // To take pods that may not be seen for none would call a node drained that is not.
    missing: Missing::AwaitedAlone,
    reading: Reading::AtLeast(only_its_node),
    project,
    kept: Kept::All,
    remove: |_, _| false,
};

#[allow(clippy::unnecessary_wraps, reason = "other kinds are not always understood")]
fn project(object: &DynamicObject) -> Option<Object> {
    let node = text(&object.data, "/spec/nodeName");
    Some(Object::NodePod(node, Box::new(node_pod(object))))
}

/// A pod that cannot be read is on its node all the same.
fn only_its_node(item: &Item) -> Option<Object> {
    let pod = serde_json::to_value(item.part::<OnlyPod>()?).ok()?;
    project(&serde_json::from_value(pod).ok()?)
}

/// What of a pod tells whether it is on its node, and whether it ends.
#[derive(Deserialize, Serialize)]
struct OnlyPod {
    metadata: OnlyPodMetadata,
    spec: OnlyPodSpec,
    #[serde(default)]
    status: OnlyPodStatus,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OnlyPodMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct OnlyPodSpec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
struct OnlyPodStatus {
    phase: Option<String>,
}

/// PersistentVolumeClaims of a pod that are looked at.
const CLAIMS: usize = 64;

/// The controller of a pod: its kind, its name and its uid.
fn controller(meta: &ObjectMeta) -> Option<(String, String, String)> {
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    // A DaemonSet of another group is none of Kubernetes'.
    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
    let own = matches!(group, "" | "apps" | "batch");
    let kind = if own {
        owner.kind.clone()
    } else {
        format!("{}.{group}", owner.kind)
    };
    let clip = |text: &str| numo_core::rules::clip(text, NAME_LETTERS);
    Some((clip(&kind), clip(&owner.name), clip(&owner.uid)))
}

/// What a drain must know of a pod.
pub fn node_pod(object: &DynamicObject) -> PodView {
    let (meta, data) = (&object.metadata, &object.data);
    let condition = |wanted: &str| {
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array)?;
        let found = conditions.iter().find(|one| text(one, "/type") == wanted)?;
        Some(text(found, "/status"))
    };
    let annotations = meta.annotations.as_ref();
    let claim = |volume: &Value| {
        let name = match volume.pointer("/persistentVolumeClaim/claimName") {
            Some(name) => name.as_str().map(str::to_owned),
            // The claim of an ephemeral volume is named after the pod.
            None => volume.get("ephemeral").map(|_| {
                let pod = meta.name.as_deref().unwrap_or_default();
                format!("{pod}-{}", text(volume, "/name"))
            }),
        };
        name.filter(|name| name.len() <= NAME_LETTERS)
    };
    let volumes = data.pointer("/spec/volumes").and_then(Value::as_array);
    let phase = text(data, "/status/phase");
    PodView {
        key: key(meta),
        uid: meta.uid.clone().unwrap_or_default(),
        created: created(meta),
        labels: bounded(meta.labels.as_ref()),
        controller: controller(meta),
        mirror: annotations.is_some_and(|all| all.contains_key("kubernetes.io/config.mirror")),
        finished: phase == "Succeeded" || phase == "Failed",
        pending: phase == "Pending",
        ready: condition("Ready").as_deref() == Some("True"),
        disrupted: condition("DisruptionTarget").as_deref() == Some("True"),
        deleting: meta.deletion_timestamp.as_ref().map(|time| time.0),
        empty_dir: volumes
            .into_iter()
            .flatten()
            .any(|volume| volume.get("emptyDir").is_some()),
        claims: volumes
            .into_iter()
            .flatten()
            .filter_map(claim)
            .take(CLAIMS)
            .collect(),
        priority: data
            .pointer("/spec/priority")
            .and_then(Value::as_i64)
            .and_then(|priority| i32::try_from(priority).ok())
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn no_more_of_a_pod_is_kept_than_a_drain_needs() {
        let pod = |labels: usize, claims: usize, name: usize| {
            let labels: BTreeMap<String, String> = (0..labels)
                .map(|at| (format!("label-{at}"), String::new()))
                .collect();
            let volumes: Vec<Value> = (0..claims)
                .map(|at| serde_json::json!({"name": "v", "persistentVolumeClaim": {"claimName": format!("claim-{at}")}}))
                .collect();
            let owner = serde_json::json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "n".repeat(name), "uid": "u", "controller": true,
            });
            let object = serde_json::json!({
                "metadata": {"name": "p", "namespace": "team", "labels": labels, "ownerReferences": [owner]},
                "spec": {"nodeName": "a", "volumes": volumes},
            });
            node_pod(&serde_json::from_value(object).unwrap())
        };
        let usual = pod(20, 2, 40);
        assert_eq!((usual.labels.len(), usual.claims.len()), (20, 2));
        let hostile = pod(30_000, 5000, 1 << 20);
        assert!(hostile.labels.is_empty(), "{}", hostile.labels.len());
        assert_eq!(hostile.claims.len(), CLAIMS);
        let (_, name, _) = hostile.controller.unwrap();
        assert!(name.chars().count() <= NAME_LETTERS, "{}", name.len());
    }
}
