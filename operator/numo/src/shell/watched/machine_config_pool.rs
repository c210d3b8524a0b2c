//! MachineConfigPools. Who paused one, and who wrote its selector, stand in its managed fields.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::{condition_words, field_manager, kept, text},
    store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_core::observed::{IntOrPercent, Key, PoolView};
use serde_json::Value;

/// How MachineConfigPools are watched.
pub const MACHINE_CONFIG_POOL: Watched = Watched {
    resource: (
        "machineconfiguration.openshift.io",
        "v1",
        "MachineConfigPool",
        "machineconfigpools",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Needed,
    reading: Reading::Whole,
    project: |object| Some(Object::Pool(Box::new(pool(object)))),
    kept: Kept::All,
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, pool: PoolView) -> bool {
    replace(&mut store.observed.pools, pool.name.clone(), pool)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.pools.remove(&key.name).is_some()
}

fn pool(object: &DynamicObject) -> PoolView {
    let meta = &object.metadata;
    PoolView {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        annotations: kept(meta.annotations.clone().unwrap_or_default()),
        has_annotations: meta.annotations.is_some(),
        paused: object
            .data
            .pointer("/spec/paused")
            .and_then(Value::as_bool)
            .unwrap_or(false),
        paused_manager: field_manager(meta, &["f:spec", "f:paused"]),
        selector_manager: field_manager(meta, &["f:spec", "f:nodeSelector"]),
        selector: object
            .data
            .pointer("/spec/nodeSelector")
            .cloned()
            .unwrap_or(Value::Null),
        config: text(&object.data, "/spec/configuration/name"),
        max_unavailable: object
            .data
            .pointer("/spec/maxUnavailable")
            .and_then(|value| IntOrPercent::parse(value).ok()),
        render_degraded: condition_words(&object.data, "RenderDegraded", "True"),
    }
}
