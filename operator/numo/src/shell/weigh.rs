//! What an object takes of memory, for those that strangers may write and that are kept ([`super::crowd`]). It looks at no cluster.

use super::{
    crowd::EACH,
    item::{self, weight_of_map as map},
    wire::{self, Object},
};
use serde::Serialize;

/// What each text of a list takes beside itself (bytes).
const ENTRY: usize = 64;

/// Whether an object counts: administrators, and Kubernetes itself, are the authors of the others.
pub const fn counts(object: &Object) -> bool {
    matches!(
        object,
        Object::Rule(_)
            | Object::Unreadable(..)
            | Object::Run(_)
            | Object::Target(_)
            | Object::Plan(_)
            | Object::Change(_)
            | Object::Machine(..)
            | Object::HealthCheck(..)
            | Object::DisruptionBudget(..)
            | Object::NotRead(..)
    )
}

/// Bytes that an object takes that counts; none for objects of which administrators, or Kubernetes itself, are the authors.
///
/// The specs of MutexRules that have room are weighed by [`super::room`]; here it is what every rule takes, with room or without.
pub fn object(object: &Object) -> Option<usize> {
    Some(match object {
        Object::Rule(rule) => (2 * EACH).saturating_add(value(&rule.status)),
        Object::Unreadable(rule, _) => wire::weight(rule).saturating_add(EACH),
        Object::Run(run) => all([
            value(&run.spec),
            value(&run.status),
            map(&run.annotations),
            texts(&run.finalizers),
        ]),
        Object::Target(target) => all([texts(&target.pools), value(&target.status)]),
        Object::Plan(plan) => all([
            value(&plan.spec),
            value(&plan.selector),
            value(&plan.status),
            map(&plan.annotations),
            map(&plan.labels),
            map(&plan.copied_annotations),
            map(&plan.uncopied_annotations),
            texts(&plan.finalizers),
            plan.digest.len(),
        ]),
        Object::Change(change) => all([
            value(&change.spec),
            value(&change.status),
            map(&change.annotations),
        ]),
        Object::Machine(_, machine) => all([map(&machine.object.labels), map(&machine.object.annotations)]),
        Object::HealthCheck(_, check) => all([value(&check.selector), map(&check.annotations)]),
        Object::DisruptionBudget(_, budget) => all([value(&budget.selector)]),
        Object::NotRead(..) => EACH,
        _ => return None,
    })
}

fn texts(texts: &[String]) -> usize {
    texts
        .iter()
        .fold(0, |sum, text| sum.saturating_add(text.len() + ENTRY))
}

fn value(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| item::weight(&text))
}

fn all<const PARTS: usize>(parts: [usize; PARTS]) -> usize {
    parts.into_iter().fold(EACH, usize::saturating_add)
}
