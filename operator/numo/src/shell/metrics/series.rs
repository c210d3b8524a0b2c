//! Gauges whose series come and go with owners. It does not know what they say.

use super::described::Described;
use numo_core::{Owner, observed::Key};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Metric, Registry},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

/// Gauges whose series come and go.
#[derive(Clone, Debug)]
pub(super) struct Series<L: Clone + Hash + Eq + Ord> {
    pub(super) family: Family<L, Gauge>,
    shown: Arc<Mutex<BTreeMap<Owner, BTreeSet<L>>>>,
}

impl<L: Clone + Hash + Eq + Ord> Default for Series<L> {
    fn default() -> Self {
        Self {
            family: Family::default(),
            shown: Arc::default(),
        }
    }
}

impl<L: Clone + Hash + Eq + Ord> Series<L> {
    /// Shows these series of the owner, and takes back those that were shown before.
    pub(super) fn show(&self, owner: &Owner, series: impl IntoIterator<Item = (L, i64)>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let before = shown.remove(owner).unwrap_or_default();
        let mut now = BTreeSet::new();
        for (labels, value) in series {
            self.family.get_or_create(&labels).set(value);
            now.insert(labels);
        }
        for labels in before.difference(&now) {
            self.family.remove(labels);
        }
        if !now.is_empty() {
            shown.insert(owner.clone(), now);
        }
    }
}

/// The key under which series are kept that are no owner's.
pub(super) fn nobody() -> Owner {
    Owner::run(Key::new("", ""))
}

/// Registers a metric under its name.
pub(super) fn register(registry: &mut Registry, what: Described, metric: impl Metric) {
    registry.register(what.name, what.help, metric);
}
