//! MutexBudgets. One that cannot be read lets nobody begin: a gate that breaks stays shut.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::Object,
};
use crate::shell::{
    item::{Item, Size, Unreadable},
    kind::Kind,
    project::{kept, misread, typed},
    store::{Store, replace},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use numo_api::MutexBudget;
use numo_core::{
    intent,
    observed::{BudgetView, IntOrPercent, Key, Map},
    selector,
};
use serde_json::{Value, json};

/// How MutexBudgets are watched.
pub const MUTEX_BUDGET: Watched = Watched {
    resource: (
        numo_api::NUMO_GROUP,
        numo_api::VERSION,
        "MutexBudget",
        "mutexbudgets",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: Size::Written,
        misread: misread::<MutexBudget>,
        left: shut,
        known_as: "mutexbudgets",
    },
    project: |object| Some(Object::Budget(Box::new(budget(typed(object)?)))),
    kept: Kept::All,
    remove,
};

/// A budget that covers every node, and lets nobody begin.
fn shut(_: Kind, item: &Item, why: &Unreadable) -> Option<Object> {
    Some(Object::Budget(Box::new(BudgetView {
        name: item.metadata.name.clone()?,
        selector: json!({}),
        max_unavailable: Err(why.message.clone()),
        group_by: None,
        max_groups: None,
        paused: false,
        annotations: Map::new(),
        uid: item.metadata.uid.clone().unwrap_or_default(),
        generation: item.metadata.generation.unwrap_or(1),
        status: item.status().unwrap_or_default(),
    })))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, budget: BudgetView) -> bool {
    replace(&mut store.observed.budgets, budget.name.clone(), budget)
}

fn remove(store: &mut Store, key: &Key) -> bool {
    store.observed.budgets.remove(&key.name).is_some()
}

/// Whether a budget differs from what is known of it by more than its status.
pub fn has_news(store: &Store, budget: &BudgetView) -> bool {
    let known = store.observed.budgets.get(&budget.name);
    known.is_some_and(|known| known.generation != budget.generation)
}

fn limit(given: Option<&IntOrString>) -> Result<IntOrPercent, String> {
    let Some(given) = given else {
        return Ok(IntOrPercent::Int(1));
    };
    intent::parse_limit(given).map_err(|problem| format!("spec.maxUnavailable: {problem}"))
}

/// One whose selector cannot be understood covers every node, and is understood no more than that.
fn budget(budget: MutexBudget) -> BudgetView {
    let given = budget.spec.node_selector.as_ref();
    let (selector, max_unavailable) = match selector::problem("spec.nodeSelector", given) {
        Some(problem) => (json!({}), Err(problem)),
        None => (
            given.map_or(Value::Null, |given| json!(given)),
            limit(budget.spec.max_unavailable.as_ref()),
        ),
    };
    BudgetView {
        name: budget.metadata.name.unwrap_or_default(),
        selector,
        max_unavailable,
        max_groups: BudgetView::max_groups_of(budget.spec.max_groups, budget.spec.group_by.as_deref()),
        group_by: budget.spec.group_by,
        paused: budget.spec.paused.unwrap_or(false),
        annotations: kept(budget.metadata.annotations.unwrap_or_default()),
        uid: budget.metadata.uid.unwrap_or_default(),
        generation: budget.metadata.generation.unwrap_or(1),
        status: budget.status.unwrap_or_default(),
    }
}
