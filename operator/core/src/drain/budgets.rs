//! What PodDisruptionBudgets let go.

use crate::{
    key::Key,
    observed::{DisruptionBudgetView, Map, Observed, PodView},
    selector,
};
use std::collections::BTreeMap;

/// Whether the budget speaks of a pod with these labels.
pub fn covers(budget: &DisruptionBudgetView, labels: &Map) -> bool {
    !budget.selector.is_null() && selector::matches(&budget.selector, labels)
}

/// The first PodDisruptionBudget that covers the pod, which the API server counts its eviction in.
pub fn budget_of<'a>(observed: &'a Observed, pod: &PodView) -> Option<&'a Key> {
    covering(observed, pod).map(|(key, _)| key).next()
}

fn covering<'a>(
    observed: &'a Observed,
    pod: &PodView,
) -> impl Iterator<Item = (&'a Key, &'a DisruptionBudgetView)> {
    let namespace = &pod.key.namespace;
    let from = observed.disruption_budgets.range(Key::new(namespace, "")..);
    from.take_while(move |(key, _)| key.namespace == *namespace)
        .filter(|(_, budget)| covers(budget, &pod.labels))
}

/// What the PodDisruptionBudgets allow, less what is being taken now. They are looked up by the namespaces of the pods
/// that are asked: a cluster has thousands.
pub(super) struct Budgets<'a> {
    observed: &'a Observed,
    /// What is being taken now, by budget.
    taken: BTreeMap<&'a Key, i64>,
}

impl<'a> Budgets<'a> {
    pub(super) const fn of(observed: &'a Observed) -> Self {
        Self {
            observed,
            taken: BTreeMap::new(),
        }
    }

    /// The budget that would refuse the pod, in words. A pod that has ended, has not begun or is not Ready may pass
    /// one (Kubernetes: eviction of unhealthy pods).
    pub(super) fn closed(&self, pod: &PodView) -> Option<String> {
        if pod.finished || pod.pending {
            return None;
        }
        let (key, budget) = covering(self.observed, pod).find(|(key, budget)| {
            let spare = budget.desired > 0 && budget.healthy >= budget.desired;
            let unhealthy = !pod.ready && (budget.unhealthy_always || spare);
            budget.allowed - self.taken.get(key).unwrap_or(&0) <= 0 && !unhealthy
        })?;
        let controller = match &pod.controller {
            Some((kind, owner, _)) => format!(" of {kind} {owner}"),
            None => String::new(),
        };
        Some(format!(
            "Pod {}{controller} is behind PodDisruptionBudget {key}: {} of {} pods are healthy, it wants {}",
            pod.key, budget.healthy, budget.expected, budget.desired
        ))
    }

    pub(super) fn take(&mut self, pod: &PodView) {
        if pod.finished || pod.pending {
            return;
        }
        let covering: Vec<&Key> = covering(self.observed, pod).map(|(key, _)| key).collect();
        for key in covering {
            *self.taken.entry(key).or_default() += 1;
        }
    }
}
