//! MachineOSConfigs: which pools have images of their own.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::text,
    store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_core::observed::Key;

/// How MachineOSConfigs are watched.
pub const MACHINE_OS_CONFIG: Watched = Watched {
    resource: (
        "machineconfiguration.openshift.io",
        "v1",
        "MachineOSConfig",
        "machineosconfigs",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Seldom,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let pool = text(&object.data, "/spec/machineConfigPool/name");
    Some(Object::Layered(object.metadata.name.clone()?, pool))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, name: String, pool: String) -> bool {
    replace(&mut store.observed.layered, name, pool)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.layered.remove(&key.name).is_some()
}
