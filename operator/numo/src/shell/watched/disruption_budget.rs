//! PodDisruptionBudgets. A drain asks them; etcd's guard says whether a control-plane node may go.

use super::{
    entry::{Kept, Missing, PAGE_OF_MADE, Place, Reading, Selection, Watched, needed_by_nobody},
    object::Object,
};
use crate::shell::{
    item,
    project::{SELECTOR_WEIGHT, key, text},
    store::{Store, replace},
    weigh,
};
use numo_core::{
    observed::{DisruptionBudgetView, Key},
    quorum::OPENSHIFT_ETCD,
};
use serde_json::Value;

/// How PodDisruptionBudgets are watched.
pub const DISRUPTION_BUDGET: Watched = Watched {
    resource: ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    place: Place::Named,
    select: Selection::all,
    page: PAGE_OF_MADE,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project: |object| {
        let budget = Box::new(disruption_budget(&object.data));
        Some(Object::DisruptionBudget(key(&object.metadata), budget))
    },
    kept: Kept::Counted(needed_by_nobody),
    remove,
};

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, key: &Key, budget: &DisruptionBudgetView) -> bool {
    let of_etcd = key.namespace == OPENSHIFT_ETCD;
    let news = replace(
        &mut store.observed.disruption_budgets,
        key.clone(),
        budget.clone(),
    );
    if news {
        store.stir_evictions(key, budget);
    }
    news && of_etcd
}

fn remove(store: &mut Store, key: &Key) -> bool {
    if let Some(gone) = store.observed.disruption_budgets.remove(key) {
        let open = DisruptionBudgetView { allowed: 1, ..gone };
        store.stir_evictions(key, &open);
    }
    key.namespace == OPENSHIFT_ETCD
}

/// What a budget takes of memory (bytes).
pub fn weight(budget: &DisruptionBudgetView) -> usize {
    weigh::all([weigh::value(&budget.selector)])
}

fn disruption_budget(data: &Value) -> DisruptionBudgetView {
    let number = |pointer: &str| data.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = data.pointer("/spec/selector").cloned().unwrap_or(Value::Null);
    // One that nobody wrote by hand covers every pod of its namespace: only those can be held by it.
    let is_bounded = item::weight(&selector.to_string()) <= SELECTOR_WEIGHT;
    DisruptionBudgetView {
        selector: if is_bounded {
            selector
        } else {
            serde_json::json!({})
        },
        unhealthy_always: text(data, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow",
        allowed: number("/status/disruptionsAllowed"),
        healthy: number("/status/currentHealthy"),
        desired: number("/status/desiredHealthy"),
        expected: number("/status/expectedPods"),
    }
}
