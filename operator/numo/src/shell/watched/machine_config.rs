//! MachineConfigs: which release rendered each. Ignition is large and holds secrets: nothing of a specification is read.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::store::{Store, replace};
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::{ConfigView, Key};

/// How MachineConfigs are watched.
pub const MACHINE_CONFIG: Watched = Watched {
    resource: (
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfig",
        "machineconfigs",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Needed,
    reading: Reading::Brief,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let version = object
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(marks::openshift::RELEASE_VERSION))
        .cloned();
    Some(Object::Config(
        object.metadata.name.clone()?,
        ConfigView { version },
    ))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, name: String, config: ConfigView) -> bool {
    replace(&mut store.observed.configs, name, config)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.configs.remove(&key.name).is_some()
}
