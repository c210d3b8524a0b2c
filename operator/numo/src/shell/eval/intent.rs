//! What a rule that is not a Job asks, once it was looked at: its component, its expressions, its query, or numo's own check. Nothing
//! here is evaluated.

use super::loaded::Place;
use crate::shell::project::Edition;
use numo_api::{CelRule, PrometheusRule, WasmRule};
use numo_plugin::Terms;
use std::sync::Arc;

/// A rule that can be asked.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) edition: Edition,
    pub(super) what: What,
}

/// What is asked.
#[derive(Clone)]
pub(super) enum What {
    Component(Arc<Component>),
    Expressions(Arc<CelRule>),
    Query(Arc<PrometheusRule>),
    /// numo's own check.
    Workloads,
}

impl What {
    pub(super) const DEFAULT_ACCOUNT: &'static str = "default";

    /// The ServiceAccount with whose rights it reads.
    pub(super) fn account(&self) -> &str {
        let named = match self {
            Self::Component(component) => component.spec.service_account_name.as_deref(),
            Self::Expressions(rule) => rule.service_account_name.as_deref(),
            Self::Query(_) | Self::Workloads => None,
        };
        named
            .filter(|name| !name.is_empty())
            .unwrap_or(Self::DEFAULT_ACCOUNT)
    }
}

/// A component that can be asked.
pub(super) struct Component {
    pub(super) place: Arc<Place>,
    pub(super) terms: Terms,
    pub(super) spec: WasmRule,
}
