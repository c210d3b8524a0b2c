//! MutexTargets.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched, left_as_it_was, needed_by_nobody,
    },
    object::Object,
};
use crate::shell::{
    item::Size,
    project::{key, misread, typed},
    store::{Store, replace},
    weigh,
};
use numo_api::MutexTarget;
use numo_core::observed::{Key, TargetView};

/// How MutexTargets are watched.
pub const MUTEX_TARGET: Watched = Watched {
    resource: (numo_api::GROUP, numo_api::VERSION, "MutexTarget", "mutextargets"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexTarget>,
        left: left_as_it_was,
        known_as: "mutextargets",
    },
    project: |object| Some(Object::Target(Box::new(target(typed(object)?)))),
    kept: Kept::Counted(needed_by_nobody),
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, target: TargetView) -> bool {
    replace(&mut store.observed.targets, target.key.clone(), target)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.targets.remove(key).is_some()
}

/// Whether a target differs from what is known of it by more than its status.
pub fn has_news(store: &Store, target: &TargetView) -> bool {
    let known = store.observed.targets.get(&target.key);
    known.is_some_and(|known| known.generation != target.generation)
}

/// What a target takes of memory (bytes).
pub fn weight(target: &TargetView) -> usize {
    weigh::all([weigh::texts(&target.pools), weigh::value(&target.status)])
}

fn target(target: MutexTarget) -> TargetView {
    TargetView {
        key: key(&target.metadata),
        uid: target.metadata.uid.clone().unwrap_or_default(),
        generation: target.metadata.generation.unwrap_or(0),
        pools: target.spec.machine_config_pools.unwrap_or_default(),
        status: target.status.unwrap_or_default(),
    }
}
