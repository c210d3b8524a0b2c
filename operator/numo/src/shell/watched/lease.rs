//! Leases of nodes, in the one namespace where they are.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::{field_manager, text},
    store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::{Key, LeaseView};
use serde_json::Value;

/// How Leases of nodes are watched.
pub const LEASE: Watched = Watched {
    resource: ("coordination.k8s.io", "v1", "Lease", "leases"),
    place: Place::Named,
    select: Selection::all,
    page: PAGE_OF_MADE,
    missing: Missing::Empty,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let node = object.metadata.name.as_ref()?.strip_prefix("node-")?.to_owned();
    Some(Object::Lease(node, lease(object)))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, node: String, lease: LeaseView) -> bool {
    replace(&mut store.observed.leases, node, lease)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    let node = key.name.strip_prefix("node-");
    node.is_some_and(|node| store.observed.leases.remove(node).is_some())
}

fn lease(object: &DynamicObject) -> LeaseView {
    LeaseView {
        by_numo: field_manager(&object.metadata, &["f:spec", "f:holderIdentity"]).as_deref()
            == Some(marks::FIELD_MANAGER),
        holder: text(&object.data, "/spec/holderIdentity"),
        renewed: object
            .data
            .pointer("/spec/renewTime")
            .and_then(Value::as_str)
            .and_then(|time| time.parse().ok()),
        duration_seconds: object
            .data
            .pointer("/spec/leaseDurationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        transitions: object
            .data
            .pointer("/spec/leaseTransitions")
            .and_then(Value::as_i64)
            .unwrap_or(0),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
    }
}
