//! Plans, whoever wrote them: strangers' have their share of the memory.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched, left_as_it_was, needed_by_nobody,
    },
    object::Object,
};
use crate::{
    frontends,
    shell::{
        item::{Size, weight_of_map as map},
        project::{misread, typed},
        store::{Store, replace},
        weigh,
    },
};
use numo_api::plan::{PLAN_GROUP, PLAN_VERSION};
use numo_core::observed::{Key, PlanView};

/// How Plans are watched.
pub const PLAN: Watched = Watched {
    resource: (PLAN_GROUP, PLAN_VERSION, "Plan", "plans"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::EmptyIfUnserved,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<numo_api::Plan>,
        left: left_as_it_was,
        known_as: "plans",
    },
    project: |object| Some(Object::Plan(Box::new(frontends::plan::view(typed(object)?)))),
    kept: Kept::Counted(needed_by_nobody),
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, plan: PlanView) -> bool {
    let key = plan.key.clone();
    let is_new = !store.observed.plans.contains_key(&key);
    let news = replace(&mut store.observed.plans, key.clone(), plan);
    store.plan_came_or_went(&key, is_new);
    news
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.channels.remove(key);
    let was_there = store.observed.plans.remove(key).is_some();
    store.plan_came_or_went(key, was_there);
    was_there
}

/// Whether a Plan differs from what is known of it by more than its status.
pub fn has_news(store: &Store, view: &PlanView) -> bool {
    store.observed.plans.get(&view.key).is_some_and(|known| {
        let known = PlanView {
            status: view.status.clone(),
            ..known.clone()
        };
        known != *view
    })
}

/// What a Plan takes of memory (bytes).
pub fn weight(plan: &PlanView) -> usize {
    weigh::all([
        weigh::value(&plan.spec),
        weigh::value(&plan.selector),
        weigh::value(&plan.status),
        map(&plan.annotations),
        map(&plan.labels),
        map(&plan.copied_annotations),
        map(&plan.uncopied_annotations),
        weigh::texts(&plan.finalizers),
        plan.digest.len(),
    ])
}
