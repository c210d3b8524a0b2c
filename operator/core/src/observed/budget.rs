//! What administrators set for every owner: MutexBudgets, MutexWindows and MutexBindings.

use super::amount::IntOrPercent;
use crate::{admit::hours::Hours, key::Map, names};
use numo_api::{MutexBindingSpec, MutexBindingStatus, MutexBudgetStatus, MutexWindowSpec, MutexWindowStatus};

/// A MutexBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetView {
    /// Name.
    pub name: String,
    /// `spec.nodeSelector` as given; null selects none.
    pub selector: serde_json::Value,
    /// `spec.maxUnavailable`, with its default; where the budget cannot be understood, the field, what was found and what is wanted.
    pub max_unavailable: Result<IntOrPercent, String>,
    /// `spec.groupBy`.
    pub group_by: Option<String>,
    /// `spec.maxGroups`, if given.
    pub max_groups: Option<Result<usize, String>>,
    /// `spec.paused`.
    pub paused: bool,
    /// The annotations in use: ours.
    pub annotations: Map,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// The status last written.
    pub status: MutexBudgetStatus,
}

impl BudgetView {
    /// `spec.maxGroups` beside `spec.groupBy`; where it cannot be understood: what was found and what is wanted.
    pub fn max_groups_of(given: Option<i32>, group_by: Option<&str>) -> Option<Result<usize, String>> {
        let given = given?;
        if group_by.unwrap_or_default().is_empty() {
            let problem = format!(
                "found {given} without groupBy, wanted groupBy too: the label whose values are counted"
            );
            return Some(Err(problem));
        }
        let count = usize::try_from(given).ok().filter(|count| *count > 0);
        Some(count.ok_or_else(|| format!("found {given}, wanted 1 or more")))
    }

    /// What cannot be understood of it: field, found, wanted. No node that it selects begins then.
    pub fn problem(&self) -> Option<String> {
        let limit = self.max_unavailable.as_ref().err().cloned();
        let limit = limit.or_else(|| {
            names::wrong_label_keys("spec.groupBy", self.group_by.iter().filter(|key| !key.is_empty()))
        });
        limit.or_else(|| {
            let groups = self.max_groups.as_ref()?.as_ref().err()?;
            Some(format!("spec.maxGroups: {groups}"))
        })
    }

    /// Of how many values of `spec.groupBy` nodes may be unavailable; none without such a bound.
    pub fn groups_allowed(&self) -> Option<usize> {
        self.max_groups.as_ref()?.as_ref().ok().copied()
    }
}

/// A MutexWindow.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowView {
    /// Name.
    pub name: String,
    /// `spec` as given; empty where it cannot be read.
    pub spec: MutexWindowSpec,
    /// `spec.nodeSelector` as given; null selects none.
    pub selector: serde_json::Value,
    /// Its hours; where they cannot be understood, the field under `spec`, what was found and what is wanted.
    pub hours: Result<Hours, String>,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// The status last written.
    pub status: MutexWindowStatus,
}

/// A MutexBinding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BindingView {
    /// `spec`.
    pub spec: MutexBindingSpec,
    /// uid.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.window`, understood or not.
    pub hours: Option<Result<Hours, String>>,
    /// The status last written.
    pub status: MutexBindingStatus,
}

impl From<MutexBindingSpec> for BindingView {
    /// Without a time zone database its hours cannot be understood: where it has some, nothing begins under it.
    fn from(spec: MutexBindingSpec) -> Self {
        let hours = spec.settings.window.as_ref();
        Self {
            hours: hours.map(|_| Err("found hours that nobody has read".to_owned())),
            spec,
            ..Self::default()
        }
    }
}
