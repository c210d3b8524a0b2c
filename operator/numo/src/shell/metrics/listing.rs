//! What decisions wait for, because it is not listed yet.

use super::{
    described::NOT_LISTED,
    series::{Series, nobody, register},
};
use prometheus_client::{encoding::EncodeLabelSet, registry::Registry};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

/// Resources by their plural names that are not listed yet, since when nothing has come of them, and how many objects were seen by then.
type Unlisted = Option<(BTreeSet<&'static str>, Instant, usize)>;

/// The gauge of what is not listed, and since when.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    known: Arc<Mutex<Unlisted>>,
    shown: Series<ResourceLabels>,
}

impl Listing {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let listing = Self {
            known: Arc::default(),
            shown: Series::default(),
        };
        register(registry, NOT_LISTED, listing.shown.family.clone());
        listing
    }

    /// Notes what decisions wait for, by its plural names, and how many objects were seen by now; nothing once all of it is listed.
    pub(super) fn awaits(&self, resources: BTreeSet<&'static str>, seen: usize) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_as_before = match &mut *known {
            None => resources.is_empty(),
            Some((before, since, objects)) if *before == resources => {
                // A list that goes on is long, and not stuck.
                if *objects < seen {
                    (*since, *objects) = (Instant::now(), seen);
                }
                true
            }
            Some(_) => false,
        };
        if is_as_before {
            return;
        }
        let series = resources.iter().map(|resource| (ResourceLabels { resource }, 1));
        self.shown.show(&nobody(), series);
        *known = (!resources.is_empty()).then(|| (resources, Instant::now(), seen));
    }

    /// What decisions wait for, and for how long nothing of it has been listed; none where they wait for nothing.
    pub(super) fn unlisted(&self) -> Option<(Vec<&'static str>, Duration)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (resources, since, _) = known.as_ref()?;
        Some((resources.iter().copied().collect(), since.elapsed()))
    }
}
