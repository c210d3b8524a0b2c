//! How long nodes waited, by reason: counted when the reason ends, from when it was seen first. What is known of a wait is kept here alone: a
//! numo that leads since then counts from then.

use super::{described::WAIT_SECONDS, series::register};
use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{
    Owner,
    report::{Report, RunPhase},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
    registry::Registry,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// From a moment to a week.
const BUCKETS: [f64; 9] = [
    1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 604_800.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WaitLabels {
    kind: &'static str,
    reason: &'static str,
}

/// What each node of an owner waits for, and since when that was seen.
type Waiting = BTreeMap<String, (Reason, Timestamp)>;

/// Waits of all owners.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    seconds: Family<WaitLabels, Histogram, fn() -> Histogram>,
    known: Arc<Mutex<BTreeMap<Owner, Waiting>>>,
}

impl Waits {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let waits = Self {
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            known: Arc::default(),
        };
        register(registry, WAIT_SECONDS, waits.seconds.clone());
        waits
    }

    /// Learns what the nodes of an owner wait for now.
    pub(super) fn note(&self, owner: &Owner, report: &Report, now: Timestamp) {
        // A run that is refused tells of no nodes: they wait on.
        if report.phase == RunPhase::Refused && report.nodes.is_empty() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = known.entry(owner.clone()).or_default();
        waiting.retain(|node, (reason, since)| {
            let said = report.nodes.get(node).filter(|said| !said.step.is_terminal());
            let goes_on = said.is_some_and(|said| said.why.reason == *reason);
            if !goes_on {
                let labels = WaitLabels {
                    kind: owner.kind.name(),
                    reason: reason.name(),
                };
                let seconds = now.duration_since(*since).as_secs_f64().max(0.0);
                self.seconds.get_or_create(&labels).observe(seconds);
            }
            goes_on
        });
        let waits = report.nodes.iter().filter(|(_, said)| !said.step.is_terminal());
        for (node, said) in waits {
            if !waiting.contains_key(node) {
                waiting.insert(node.clone(), (said.why.reason, now));
            }
        }
        if waiting.is_empty() {
            known.remove(owner);
        }
    }

    /// Forgets an owner that is gone.
    pub(super) fn forget(&self, owner: &Owner) {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(owner);
    }
}
