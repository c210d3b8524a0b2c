//! The pods of etcd, OpenShift's and those of kubeadm.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::{key, text},
    store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_core::observed::{EtcdPodView, Key};
use serde_json::Value;

/// Namespace of the static pods of kubeadm's clusters.
pub const KUBE_SYSTEM: &str = "kube-system";

/// How pods of etcd are watched.
pub const ETCD_POD: Watched = Watched {
    resource: ("", "v1", "Pod", "pods"),
    place: Place::Named,
    select: |namespace| match namespace {
        KUBE_SYSTEM => Selection::all(namespace).with_labels("component=etcd"),
        _ => Selection::all(namespace),
    },
    page: PAGE_OF_MADE,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project: |object| Some(Object::EtcdPod(key(&object.metadata), etcd_pod(object))),
    kept: Kept::All,
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, key: Key, pod: EtcdPodView) -> bool {
    replace(&mut store.observed.etcd_pods, key, pod)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.etcd_pods.remove(key).is_some()
}

fn etcd_pod(object: &DynamicObject) -> EtcdPodView {
    let conditions = object
        .data
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| text(condition, "/type") == "Ready");
    EtcdPodView {
        node: text(&object.data, "/spec/nodeName"),
        ready: ready.map(|condition| text(condition, "/status") != "False"),
        labels: object.metadata.labels.clone().unwrap_or_default(),
    }
}
