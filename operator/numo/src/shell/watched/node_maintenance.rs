//! NodeMaintenances, of Medik8s' group and of KubeVirt's. They are cluster-wide: nobody is turned away.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched, left_as_it_was},
    object::Object,
};
use crate::{
    frontends,
    shell::{
        item::Size,
        project::{created, kept, misread, typed},
        store::{Store, replace},
    },
};
use numo_api::{
    NodeMaintenance,
    node_maintenance::{KUBEVIRT_GROUP, MAINTENANCE_VERSION, MEDIK8S_GROUP},
};
use numo_core::{
    MaintenanceGroup, Owner,
    observed::{Key, MaintenanceView},
};

/// How Medik8s' NodeMaintenances are watched.
pub const NODE_MAINTENANCE: Watched = Watched {
    resource: (
        MEDIK8S_GROUP,
        MAINTENANCE_VERSION,
        "NodeMaintenance",
        "nodemaintenances",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::EmptyIfUnserved,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<NodeMaintenance>,
        left: left_as_it_was,
        known_as: "nodemaintenances",
    },
    project: |object| Some(maintenance(MaintenanceGroup::Medik8s, typed(object)?)),
    kept: Kept::All,
    remove: |store, key| remove(store, MaintenanceGroup::Medik8s, key),
};

/// How KubeVirt's NodeMaintenances are watched.
pub const KUBEVIRT_MAINTENANCE: Watched = Watched {
    resource: (
        KUBEVIRT_GROUP,
        MAINTENANCE_VERSION,
        "NodeMaintenance",
        "nodemaintenances",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::EmptyIfUnserved,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<NodeMaintenance>,
        left: left_as_it_was,
        known_as: "nodemaintenances.nodemaintenance.kubevirt.io",
    },
    project: |object| Some(maintenance(MaintenanceGroup::KubeVirt, typed(object)?)),
    kept: Kept::All,
    remove: |store, key| remove(store, MaintenanceGroup::KubeVirt, key),
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, view: MaintenanceView) -> bool {
    replace(&mut store.observed.maintenances, view.owner.clone(), view)
}

fn remove(store: &mut Store, group: MaintenanceGroup, key: &Key) -> bool {
    let owner = Owner::maintenance(group, &key.name);
    store.observed.maintenances.remove(&owner).is_some()
}

/// Whether a maintenance differs from what is known of it by more than its status.
pub fn has_news(store: &Store, view: &MaintenanceView) -> bool {
    store.observed.maintenances.get(&view.owner).is_some_and(|known| {
        let known = MaintenanceView {
            status: view.status.clone(),
            ..known.clone()
        };
        known != *view
    })
}

fn maintenance(group: MaintenanceGroup, object: NodeMaintenance) -> Object {
    let meta = object.metadata;
    let annotations = meta.annotations.clone().unwrap_or_default();
    let own = [("mutexRules", object.spec.mutex_rules.is_some())];
    Object::Maintenance(Box::new(MaintenanceView {
        pruned: frontends::pruned(&annotations, &own),
        has_annotations: !annotations.is_empty(),
        owner: Owner::maintenance(group, meta.name.clone().unwrap_or_default()),
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or(0),
        created: created(&meta),
        deleting: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.unwrap_or_default(),
        annotations: kept(annotations),
        labels: meta.labels.unwrap_or_default(),
        spec: object.spec,
        status: object.status.unwrap_or_default(),
    }))
}
