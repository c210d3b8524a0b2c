//! Namespaces: whether Plans are watched in one, and whose rules may run their Jobs there.

use super::{
    entry::{Kept, Missing, PAGE_OF_SMALL, Place, Reading, Selection, Watched},
    object::{NAMESPACES_LISTED, NamespaceView, Object},
};
use crate::{
    frontends,
    shell::store::{Store, replace},
};
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::observed::Key;

/// How Namespaces are watched.
pub const NAMESPACE: Watched = Watched {
    resource: ("", "v1", "Namespace", "namespaces"),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_SMALL,
    missing: Missing::Awaited,
    reading: Reading::Whole,
    project,
    kept: Kept::All,
    remove,
};

fn project(object: &DynamicObject) -> Option<Object> {
    let terminating = object.metadata.deletion_timestamp.is_some();
    let labels = object.metadata.labels.as_ref();
    let plans = labels.and_then(|labels| labels.get(marks::PLANS_NAMESPACE));
    let annotations = object.metadata.annotations.as_ref();
    let rule_jobs_from = annotations.and_then(|annotations| annotations.get(marks::RULE_JOBS_FROM));
    let rule_jobs_from = rule_jobs_from.map(String::as_str);
    let rule_jobs_from = rule_jobs_from.unwrap_or_default().split(',').map(str::trim);
    let rule_jobs_from = rule_jobs_from
        .filter(|name| frontends::mutex_rule::is_namespace(name))
        .take(NAMESPACES_LISTED)
        .map(str::to_owned);
    let view = NamespaceView {
        terminating,
        plans: plans.is_some_and(|value| value == "true"),
        rule_jobs_from: rule_jobs_from.collect(),
    };
    Some(Object::Namespace(object.metadata.name.clone()?, Box::new(view)))
}

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, name: &str, view: NamespaceView) -> bool {
    let observed = &mut store.observed;
    let mut news = if view.plans {
        observed.plan_namespaces.insert(name.to_owned())
    } else {
        observed.plan_namespaces.remove(name)
    };
    news |= if view.rule_jobs_from.is_empty() {
        observed.rule_jobs_from.remove(name).is_some()
    } else {
        replace(&mut observed.rule_jobs_from, name.to_owned(), view.rule_jobs_from)
    };
    news |= replace(&mut observed.namespaces, name.to_owned(), view.terminating);
    if news {
        store.heed(name);
        store.refresh_rules_in(name);
    }
    news
}

fn remove(store: &mut Store, key: &Key) -> bool {
    let observed = &mut store.observed;
    observed.plan_namespaces.remove(&key.name);
    observed.rule_jobs_from.remove(&key.name);
    let news = observed.namespaces.remove(&key.name).is_some();
    store.refresh_rules_in(&key.name);
    news
}
