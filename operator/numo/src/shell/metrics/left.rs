//! Pools that stay paused and marks that stay, for an owner that is there or one that is gone.

use super::{
    described::{ORPHANED_MARKS, POOL_HELD_NODES, POOL_PAUSED},
    series::{Series, nobody, register},
};
use numo_core::{
    Owner,
    left::{MARKS, Orphan},
    report::{Report, RunPhase},
};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PoolLabels {
    namespace: String,
    name: String,
    pool: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct MarkLabels {
    mark: &'static str,
}

/// What owners say of their pools: whether numo keeps it paused, and how many of its nodes it holds.
type Pools = BTreeMap<Owner, Vec<(PoolLabels, bool, usize)>>;

/// Gauges of pools and marks.
#[derive(Clone, Debug)]
pub(super) struct Left {
    paused: Series<PoolLabels>,
    held_nodes: Series<PoolLabels>,
    marks: Series<MarkLabels>,
    pools: Arc<Mutex<Pools>>,
}

impl Left {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let left = Self {
            paused: Series::default(),
            held_nodes: Series::default(),
            marks: Series::default(),
            pools: Arc::default(),
        };
        register(registry, POOL_PAUSED, left.paused.family.clone());
        register(registry, POOL_HELD_NODES, left.held_nodes.family.clone());
        register(registry, ORPHANED_MARKS, left.marks.family.clone());
        left
    }

    /// Notes what an owner says of its pools; they are shown by the next [`Self::show`].
    pub(super) fn note(&self, owner: &Owner, report: &Report) {
        let pools = report.pools.iter().map(|pool| {
            let labels = PoolLabels {
                namespace: owner.key.namespace.clone(),
                name: owner.key.name.clone(),
                pool: pool.name.clone(),
            };
            let holds = pool.ours && report.phase == RunPhase::Held;
            (
                labels,
                pool.paused && pool.ours,
                if holds { pool.outdated } else { 0 },
            )
        });
        let pools: Vec<_> = pools.collect();
        let mut known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if pools.is_empty() {
            known.remove(owner);
        } else {
            known.insert(owner.clone(), pools);
        }
    }

    pub(super) fn show(&self, orphans: &[Orphan]) {
        let nobody = nobody();
        let known = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pools: BTreeMap<PoolLabels, (bool, usize)> = BTreeMap::new();
        for (labels, paused, held) in known.values().flatten() {
            pools.insert(labels.clone(), (*paused, *held));
        }
        drop(known);
        let mut marks: BTreeMap<&'static str, i64> = MARKS.iter().map(|mark| (*mark, 0)).collect();
        for orphan in orphans {
            if let Some(count) = marks.get_mut(orphan.left.mark.as_str()) {
                *count += 1;
            }
            if let Some(held) = orphan.held_nodes {
                let owner = orphan.owner.clone().unwrap_or_default();
                let labels = PoolLabels {
                    namespace: owner.namespace,
                    name: owner.name,
                    pool: orphan.on.key.name.clone(),
                };
                pools.insert(labels, (true, held));
            }
        }
        let paused = pools.iter();
        self.paused.show(
            &nobody,
            paused.map(|(labels, (paused, _))| (labels.clone(), i64::from(*paused))),
        );
        let held = pools.into_iter();
        self.held_nodes.show(
            &nobody,
            held.map(|(labels, (_, held))| (labels, i64::try_from(held).unwrap_or(i64::MAX))),
        );
        let marks = marks.into_iter();
        self.marks
            .show(&nobody, marks.map(|(mark, count)| (MarkLabels { mark }, count)));
    }

    pub(super) fn forget(&self, owner: &Owner) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.remove(owner);
    }
}
