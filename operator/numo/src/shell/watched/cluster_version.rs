//! The ClusterVersion: which release OpenShift has, and which is asked for.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::{condition_words, text},
    store::{Store, set},
};
use kube::core::DynamicObject;
use numo_core::observed::{ClusterVersionView, Key};
use serde_json::Value;

/// How the ClusterVersion is watched.
pub const CLUSTER_VERSION: Watched = Watched {
    resource: ("config.openshift.io", "v1", "ClusterVersion", "clusterversions"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Needed,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let is_the_one = object.metadata.name.as_deref() == Some("version");
    is_the_one.then(|| Object::ClusterVersion(cluster_version(object)))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, version: ClusterVersionView) -> bool {
    set(&mut store.observed.cluster_version, Some(version))
}

fn remove(store: &mut Store, _: &Key) -> bool {
    store.observed.cluster_version.take().is_some()
}

fn cluster_version(object: &DynamicObject) -> ClusterVersionView {
    let data = &object.data;
    let desired_update = data
        .pointer("/spec/desiredUpdate")
        .filter(|value| !value.is_null());
    ClusterVersionView {
        generation: object.metadata.generation.unwrap_or(0),
        observed_generation: data
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        desired_update: desired_update
            .and_then(|update| update.get("version"))
            .and_then(Value::as_str)
            .map(ToOwned::to_owned),
        has_desired_update: desired_update.is_some(),
        desired: text(data, "/status/desired/version"),
        latest: data
            .pointer("/status/history/0")
            .map(|entry| (text(entry, "/state"), text(entry, "/version"))),
        not_accepted: condition_words(data, "ReleaseAccepted", "False"),
        failing: condition_words(data, "Failing", "True"),
    }
}
