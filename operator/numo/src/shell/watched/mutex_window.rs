//! MutexWindows. One that cannot be read lets nobody begin: a gate that breaks stays shut.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::{
    frontends::mutex_window::view,
    shell::{
        item::{Item, Size, Unreadable},
        kind::Kind,
        project::{misread, typed},
        store::{Store, replace},
    },
};
use numo_api::{MutexWindow, MutexWindowSpec};
use numo_core::observed::{Key, WindowView};

/// How MutexWindows are watched.
pub const MUTEX_WINDOW: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "MutexWindow",
        "mutexwindows",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexWindow>,
        left: shut,
        known_as: "mutexwindows",
    },
    project: |object| Some(Object::Window(Box::new(view(typed(object)?)))),
    kept: Kept::All,
    remove,
};

/// A window that speaks of every node, and lets nobody begin.
fn shut(_: Kind, item: &Item, why: &Unreadable) -> Option<Object> {
    Some(Object::Window(Box::new(WindowView {
        name: item.metadata.name.clone()?,
        spec: MutexWindowSpec::default(),
        selector: serde_json::json!({}),
        hours: Err(format!("openings: {}", why.message)),
        uid: item.metadata.uid.clone().unwrap_or_default(),
        generation: item.metadata.generation.unwrap_or(1),
        status: item.status().unwrap_or_default(),
    })))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, window: WindowView) -> bool {
    replace(&mut store.observed.windows, window.name.clone(), window)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.windows.remove(&key.name).is_some()
}

/// Whether a window differs from what is known of it by more than its status.
pub fn has_news(store: &Store, window: &WindowView) -> bool {
    let known = store.observed.windows.get(&window.name);
    known.is_some_and(|known| known.generation != window.generation)
}
