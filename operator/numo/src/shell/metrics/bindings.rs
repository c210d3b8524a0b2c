//! MutexBindings: how many owners each gates.

use super::{
    described::BINDING_OWNERS,
    series::{Series, nobody, register},
};
use numo_api::Reason;
use numo_core::{binding, observed::Observed};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct BindingLabels {
    binding: String,
    kind: String,
}

/// Gauge of bindings.
#[derive(Clone, Debug)]
pub(super) struct Bindings {
    owners: Series<BindingLabels>,
}

impl Bindings {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let owners = Series::default();
        register(registry, BINDING_OWNERS, owners.family.clone());
        Self { owners }
    }

    /// Shows all bindings. One that cannot be understood holds the owners that it may mean: these count.
    pub(super) fn show(&self, observed: &Observed) {
        let all = observed.bindings.iter().map(|(name, view)| {
            let labels = BindingLabels {
                binding: name.clone(),
                kind: view.spec.owner_selector.kind.clone(),
            };
            let (_, why, owners) = binding::state(view, observed);
            let gated = match why.reason {
                Reason::NothingGated => 0,
                _ => owners.len(),
            };
            (labels, i64::try_from(gated).unwrap_or(i64::MAX))
        });
        self.owners.show(&nobody(), all);
    }
}
