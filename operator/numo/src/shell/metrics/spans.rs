//! Spans of traces: what became of them.

use super::{described::SPANS, series::register};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// What may become of a span.
const OUTCOMES: [&str; 4] = ["sent", "refused", "failed", "dropped"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// Counters of spans.
#[derive(Clone, Debug)]
pub(super) struct Spans(Family<OutcomeLabels, Counter>);

impl Spans {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counted = Family::default();
        register(registry, SPANS, counted.clone());
        Self(counted)
    }

    /// Spans are sent: their counters are, at zero.
    pub(super) fn know(&self) {
        for outcome in OUTCOMES {
            let _ = self.0.get_or_create(&OutcomeLabels { outcome });
        }
    }

    pub(super) fn count(&self, outcome: &'static str, number: usize) {
        let number = u64::try_from(number).unwrap_or(u64::MAX);
        self.0.get_or_create(&OutcomeLabels { outcome }).inc_by(number);
    }
}
