//! DaemonSets: whether they exist.

use super::{
    entry::{Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{project::key, store::Store};
use numo_core::observed::Key;

/// How DaemonSets are watched.
pub const DAEMON_SET: Watched = Watched {
    resource: ("apps", "v1", "DaemonSet", "daemonsets"),
    place: Place::Named,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Awaited,
    reading: Reading::Brief,
    project: |object| {
        let uid = object.metadata.uid.clone()?;
        Some(Object::DaemonSet(key(&object.metadata), uid))
    },
    kept: Kept::All,
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, key: Key, uid: String) -> bool {
    if let Some(before) = store.daemon_sets.insert(key, uid.clone()) {
        store.observed.daemon_sets.remove(&before);
    }
    store.observed.daemon_sets.insert(uid);
    false
}

fn remove(store: &mut Store, key: &Key) -> bool {
    if let Some(uid) = store.daemon_sets.remove(key) {
        store.observed.daemon_sets.remove(&uid);
    }
    false
}
