//! NodeChanges, the journals of turns. One that a later numo wrote may mean something else: it is kept as it was seen before, and nothing
//! begins.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched, left_as_it_was, needed_by_nobody,
    },
    object::Object,
};
use crate::shell::{
    item::{Size, weight_of_map as map},
    project::{created, kept, key, read, typed},
    store::{Store, replace},
    weigh,
};
use kube::core::DynamicObject;
use numo_api::NodeChange;
use numo_core::observed::{ChangeView, Key};

/// How NodeChanges are watched.
pub const NODE_CHANGE: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "NodeChange",
        "nodechanges",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_MADE,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Any,
        misread,
        left: left_as_it_was,
        known_as: "nodechanges",
    },
    project,
    kept: Kept::Counted(needed_by_nobody),
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let found: NodeChange = typed(object)?;
    if later_journal(&found).is_some() {
        return None;
    }
    Some(Object::Change(Box::new(view(found))))
}

fn misread(found: &DynamicObject) -> Option<String> {
    match read::<NodeChange>(found) {
        Ok(change) => later_journal(&change),
        Err(words) => Some(words),
    }
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, change: ChangeView) -> bool {
    replace(&mut store.observed.changes, change.key.clone(), change)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.changes.remove(key).is_some()
}

/// Whether nothing but its journal has changed: that concerns its own turn only.
pub fn is_of_its_turn(store: &Store, change: &ChangeView) -> bool {
    let known = store.observed.changes.get(&change.key);
    known.is_some_and(|known| known.spec == change.spec && known.deleting == change.deleting)
}

/// What a NodeChange takes of memory (bytes).
pub fn weight(change: &ChangeView) -> usize {
    weigh::all([
        weigh::value(&change.spec),
        weigh::value(&change.status),
        map(&change.annotations),
    ])
}

/// That a later numo wrote this journal, in words.
fn later_journal(change: &NodeChange) -> Option<String> {
    let found = change.status.as_ref()?.journal_version;
    let newest = numo_core::turn::journal::JOURNAL_VERSION;
    (found > newest).then(|| {
        format!("status.journalVersion: found {found}, wanted at most {newest}: a later numo wrote it")
    })
}

/// The view of a NodeChange.
pub fn view(change: NodeChange) -> ChangeView {
    ChangeView {
        key: key(&change.metadata),
        uid: change.metadata.uid.clone().unwrap_or_default(),
        resource_version: change.metadata.resource_version.clone().unwrap_or_default(),
        generation: change.metadata.generation.unwrap_or(1),
        created: created(&change.metadata),
        deleting: change.metadata.deletion_timestamp.is_some(),
        annotations: kept(change.metadata.annotations.unwrap_or_default()),
        spec: change.spec,
        status: change.status.unwrap_or_default(),
    }
}
