//! Writes to the API server, by action and result.

use super::{described::WRITES, series::register};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Everything that is written, by the names that the planner gives it.
const ACTIONS: [&str; 22] = [
    "AddFinalizer",
    "RemoveFinalizer",
    "PatchPool",
    "PatchNode",
    "PatchMachine",
    "CreateChange",
    "WriteJournal",
    "DeleteChange",
    "RecordRun",
    "CreateJob",
    "CreatePlanJob",
    "StartPlanJob",
    "DeletePlanJob",
    "MarkGate",
    "Evict",
    "SetJobTtl",
    "AcquireLease",
    "RenewLease",
    "ReleaseLease",
    "WriteStatus",
    "CreateMaintenance",
    "DeleteMaintenance",
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    action: &'static str,
    result: &'static str,
}

/// Counters of writes.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    counted: Family<WriteLabels, Counter>,
}

impl Writes {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counted = Family::default();
        register(registry, WRITES, counted.clone());
        Self { counted }
    }

    /// Has every counter there: one that begins with 1 has never grown.
    pub(super) fn count_from_zero(&self) {
        for action in ACTIONS {
            for result in ["ok", "stale", "refused", "failed"] {
                let _ = self.counted.get_or_create(&WriteLabels { action, result });
            }
        }
    }

    pub(super) fn count(&self, action: &'static str, result: &'static str) {
        self.counted.get_or_create(&WriteLabels { action, result }).inc();
    }
}
