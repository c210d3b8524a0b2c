//! The Infrastructure of OpenShift: where its control plane runs.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::store::{Store, set};
use kube::core::DynamicObject;
use numo_core::observed::Key;
use serde_json::Value;

/// How the Infrastructure is watched.
pub const INFRASTRUCTURE: Watched = Watched {
    resource: ("config.openshift.io", "v1", "Infrastructure", "infrastructures"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Needed,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

#[allow(clippy::unnecessary_wraps, reason = "other kinds are not always understood")]
fn project(object: &DynamicObject) -> Option<Object> {
    let topology = object
        .data
        .pointer("/status/controlPlaneTopology")
        .and_then(Value::as_str);
    Some(Object::Infrastructure(topology.map(ToOwned::to_owned)))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, topology: Option<String>) -> bool {
    set(&mut store.observed.control_plane_topology, topology)
}

fn remove(store: &mut Store, _: &Key) -> bool {
    store.observed.control_plane_topology.take().is_some()
}
