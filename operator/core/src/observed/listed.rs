//! What keeps every owner of a kind from beginning: what cannot be listed or read, and an operator that numo replaces.

use super::{ETCD_PODS, Observed, Unread};
use crate::{
    key::Key,
    owner::{ForeignController, OwnerKind},
    why::Why,
};
use numo_api::Reason;

/// Kinds without which nothing begins, for any owner.
const NEEDED: [&str; 6] = [
    "nodes",
    "nodechanges",
    "mutexbudgets",
    "mutexwindows",
    "mutexbindings",
    "mutexrules",
];

/// PodDisruptionBudgets, among the lists that fail.
const DISRUPTION_BUDGETS: &str = "poddisruptionbudgets";

impl Observed {
    /// Why nothing begins for an owner of this kind: what it needs to know cannot be listed now.
    pub fn list_failed(&self, kind: OwnerKind) -> Option<Why> {
        let is_needed = |plural: &str| NEEDED.contains(&plural) || kind.needs().contains(&plural);
        let unlisted = self.unlisted.iter().find(|(plural, _)| is_needed(plural));
        if let Some((plural, words)) = unlisted {
            let message =
                format!("{plural} cannot be listed any more, what was seen last of them is kept: {words}");
            return Some(Why::new(Reason::ListFailed, message));
        }
        let mut unread = self.unread.iter();
        let ((plural, key), unread) = unread.find(|((plural, key), _)| {
            (is_needed(plural) || kind.is_listed_as(plural)) && self.heeds(plural, &key.namespace)
        })?;
        let message = format!(
            "{plural} {key} cannot be read, what was seen of it before is kept: {}",
            unread.words
        );
        Some(Why::new(Reason::ListFailed, message))
    }

    /// Why nobody knows who the members of etcd are, or how they are: a list that tells cannot be had now. `by_guard` is of OpenShift, where a
    /// PodDisruptionBudget tells too.
    pub(crate) fn etcd_unlisted(&self, by_guard: bool) -> Option<String> {
        let guard = by_guard.then(|| self.budgets_unlisted()).flatten();
        let words = self.unlisted.get(ETCD_PODS);
        words
            .map(|words| format!("{ETCD_PODS} cannot be listed any more: {words}"))
            .or(guard)
    }

    /// Why nobody knows what PodDisruptionBudgets say: they cannot be listed now.
    pub fn budgets_unlisted(&self) -> Option<String> {
        let words = self.unlisted.get(DISRUPTION_BUDGETS)?;
        Some(format!("{DISRUPTION_BUDGETS} cannot be listed any more: {words}"))
    }

    /// The NodeChanges of which this numo cannot read all, where they mean anything to it.
    pub(crate) fn unread_changes(&self) -> impl Iterator<Item = (&Key, &Unread)> {
        let all = self.unread.iter();
        let changes = all.filter(|((plural, _), _)| *plural == "nodechanges");
        changes
            .map(|((_, key), unread)| (key, unread))
            .filter(|(key, _)| self.heeds("nodechanges", &key.namespace))
    }

    /// Why nobody knows whether what an owner of this kind needs to know (pools, the version of the cluster) is gone, for a run that has nodes in
    /// flight: their kinds have not been served since numo began.
    pub fn never_listed(&self, kind: OwnerKind) -> Option<Why> {
        let needed = kind.needs();
        let mut absent = self.absent.iter();
        let (plural, words) = absent.find(|(plural, _)| needed.contains(plural))?;
        let message = format!(
            "{plural} could not be listed since numo began, and nodes are in flight: nothing is taken for gone: {words}"
        );
        Some(Why::new(Reason::ListFailed, message))
    }

    /// Whether an object of this kind in this namespace means anything to numo: no stranger stops an owner by one that
    /// nobody can read.
    pub fn heeds(&self, plural: &str, namespace: &str) -> bool {
        match plural {
            _ if namespace.is_empty() => true,
            "plans" => self.watches_plans(namespace),
            "mutexrunconfigs" | "mutextargets" => self.watches_runs(namespace),
            _ => self.watches_runs(namespace) || self.watches_plans(namespace),
        }
    }

    /// Why objects of a kind are left to the operator that numo replaces, if it is live.
    pub fn stood_off(&self, from: ForeignController) -> Option<Why> {
        let mut rivals = self.foreign_controllers.iter();
        let (key, rival) = rivals.find(|(_, rival)| rival.what == from)?;
        let (name, kind) = (from.name(), from.kind());
        let message = match &rival.lingers {
            None => format!("{name} runs (Deployment {key}): numo leaves {kind}s to it"),
            Some(words) => {
                format!(
                    "{name} is not gone yet (Deployment {key} is at 0 or deleted, {words}): numo leaves {kind}s to it"
                )
            }
        };
        Some(Why::new(Reason::ForeignController, message))
    }

    /// Why nothing begins for any owner of a kind, whatever its own spec says.
    pub fn stop_of_kind(&self, kind: OwnerKind) -> Option<Why> {
        self.stood_off(ForeignController::of(kind))
            .or_else(|| self.list_failed(kind))
    }
}
