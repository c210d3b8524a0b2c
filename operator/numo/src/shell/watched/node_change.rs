//! NodeChanges, the journals of turns. One that a later numo wrote may mean something else: as much of it is read as tells whose turn it is, and
//! nothing begins. One of which not even that can be read is kept as it was seen before.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched, keep_readable, left_as_it_was,
        needed_by_nobody,
    },
    object::Object,
};
use crate::shell::{
    item::{Item, Size, Unreadable, weight_of_map as map},
    kind::Kind,
    project::{created, kept, key, read, typed, unread},
    store::{Store, replace},
    weigh,
};
use kube::core::DynamicObject;
use numo_api::{Directive, Entry, NodeChange, NodeChangeStatus, Step};
use numo_core::observed::{ChangeView, Key, Unread};
use serde::Deserialize;
use serde_json::Value;

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
        left: |kind, item, why| partly_read(kind, item, why).or_else(|| left_as_it_was(kind, item, why)),
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

/// A NodeChange of a later numo: what this one can read of it, so that its node keeps its turn after a restart, too. None if nobody knows then
/// whose turn it is, and of which node.
fn partly_read(kind: Kind, item: &Item, why: &Unreadable) -> Option<Object> {
    let mut found = item.read_as(Size::Any).ok()?;
    let step = found.data.pointer("/status/step").is_some();
    if let Some(Value::Array(entries)) = found.data.pointer_mut("/status/entries") {
        // Those that are known tell whether the node was released.
        entries.retain(|entry| Entry::deserialize(entry).is_ok());
    }
    keep_readable::<NodeChangeStatus>(&mut found.data, "status", &[]);
    if let Some(Value::Object(spec)) = found.data.get_mut("spec")
        && spec
            .get("directive")
            .is_some_and(|said| Directive::deserialize(said).is_err())
    {
        // Nobody hears a word that is not known.
        spec.remove("directive");
    }
    let mut view = view(read::<NodeChange>(&found).ok()?);
    if step && view.status.step.is_none() {
        // It is not known whether its turn is over.
        view.status.step = Some(Step::Held);
    }
    let what = "an object cannot be read as a whole: the node of its turn is left alone";
    let words = unread(what, Some(kind), &view.key, &why.message);
    view.misread = Some(words.clone());
    let uid = view.uid.clone();
    Some(Object::ChangeInPart(Box::new(view), Unread { uid, words }))
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
        misread: None,
        status: change.status.unwrap_or_default(),
    }
}
