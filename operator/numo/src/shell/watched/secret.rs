//! Secrets of namespaces with Plans that use some: only their hashes are kept.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    project::{key, text},
    store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_core::observed::Key;
use serde_json::Value;

/// How Secrets are watched.
pub const SECRET: Watched = Watched {
    resource: ("", "v1", "Secret", "secrets"),
    place: Place::PlanSecrets,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Told {
        unseen: |store, namespace, words| replace(&mut store.observed.unseen_secrets, namespace, Some(words)),
        seen: |store, namespace| store.observed.unseen_secrets.remove(namespace).is_some(),
    },
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let data = object.data.get("data");
    let empty = Value::Null;
    let hash = numo_core::owners::plan::secret_hash(
        object.metadata.name.as_deref()?,
        &text(&object.data, "/type"),
        Some(data.unwrap_or(&empty)),
        object.data.get("immutable").and_then(Value::as_bool),
    );
    Some(Object::Secret(key(&object.metadata), hash))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, key: Key, hash: String) -> bool {
    replace(&mut store.observed.secrets, key, hash)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.secrets.remove(key).is_some()
}
