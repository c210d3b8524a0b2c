//! What administrators set for every owner: MutexBudgets, MutexWindows and MutexBindings.

use super::amount::IntOrPercent;
use crate::{admit::hours::Hours, key::Map};
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
