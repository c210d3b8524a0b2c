//! Which Plans are watched.

use crate::{
    observed::{ForeignController, Observed, PlanView},
    why::Why,
};
use numo_api::{Reason, marks};
use std::collections::BTreeSet;

/// Namespaces that a message names at most.
const NAMESPACES_SHOWN: usize = 10;

/// Why Plans of this namespace are not watched, if so.
pub fn not_watched(view: &PlanView, observed: &Observed) -> Option<Why> {
    let settings = &observed.settings;
    let namespace = &view.key.namespace;
    if observed.watches_plans(namespace) {
        return None;
    }
    let named = settings.plan_namespaces.iter().chain([&settings.namespace]);
    let watched: BTreeSet<&str> = named
        .chain(&observed.plan_namespaces)
        .map(String::as_str)
        .collect();
    let shown: Vec<&str> = watched.iter().take(NAMESPACES_SHOWN).copied().collect();
    let more = if watched.len() > shown.len() { ", …" } else { "" };
    let message = format!(
        "Plans are watched in {}{more}, found this one in {namespace}; an administrator labels it: kubectl label namespace {namespace} {}=true (or --plan-namespaces)",
        shown.join(", "),
        marks::PLANS_NAMESPACE
    );
    Some(Why::new(Reason::NamespaceNotAllowed, message))
}

/// Why a Plan is left to the operator that numo replaces, if so.
pub fn stood_off(observed: &Observed) -> Option<Why> {
    observed.stood_off(ForeignController::Plan)
}
