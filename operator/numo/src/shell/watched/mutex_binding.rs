//! MutexBindings.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched, left_as_it_was},
    object::Object,
};
use crate::{
    frontends::hours::hours,
    shell::{
        item::Size,
        project::{misread, typed},
        store::{Store, replace},
    },
};
use kube::core::DynamicObject;
use numo_api::MutexBinding;
use numo_core::observed::{BindingView, Key};

/// How MutexBindings are watched.
pub const MUTEX_BINDING: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "MutexBinding",
        "mutexbindings",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexBinding>,
        left: left_as_it_was,
        known_as: "mutexbindings",
    },
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let binding: MutexBinding = typed(object)?;
    let view = BindingView {
        hours: hours(binding.spec.settings.window.as_ref()),
        spec: binding.spec,
        uid: binding.metadata.uid.unwrap_or_default(),
        generation: binding.metadata.generation.unwrap_or(1),
        status: binding.status.unwrap_or_default(),
    };
    Some(Object::Binding(binding.metadata.name?, Box::new(view)))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, name: String, binding: BindingView) -> bool {
    replace(&mut store.observed.bindings, name, binding)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.bindings.remove(&key.name).is_some()
}

/// Whether a binding differs from what is known of it by more than its status.
pub fn has_news(store: &Store, name: &str, binding: &BindingView) -> bool {
    let known = store.observed.bindings.get(name);
    known.is_some_and(|known| known.generation != binding.generation)
}
