//! MutexNotifiers. No decision reads them: while they cannot be seen, nobody waits for them, and nobody is told anything.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::{
    frontends::mutex_notifier::{NotifierView, view},
    shell::{project::typed, store::Store},
};
use numo_core::observed::Key;

/// How MutexNotifiers are watched.
pub const MUTEX_NOTIFIER: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "MutexNotifier",
        "mutexnotifiers",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Unneeded,
    reading: Reading::Whole,
    project: |object| Some(Object::Notifier(Box::new(view(typed(object)?)))),
    kept: Kept::All,
    remove,
};

/// Puts one where the planner sees it; true if owners are to be looked at for it. What its own status says concerns nobody.
pub fn put(store: &mut Store, notifier: NotifierView) -> bool {
    let known = store.notifiers.get(&notifier.name);
    let is_news =
        known.is_none_or(|known| (&known.uid, known.generation) != (&notifier.uid, notifier.generation));
    store.notifiers.insert(notifier.name.clone(), notifier);
    is_news
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.notifiers.remove(&key.name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_decision_waits_for_notifiers_that_cannot_be_seen() {
        let missing = MUTEX_NOTIFIER.missing;
        for unserved in [false, true] {
            assert!(missing.is_optional(unserved));
        }
        assert!(
            missing.is_own_business(),
            "a list that fails later holds up nobody"
        );
    }
}
