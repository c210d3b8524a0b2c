//! Notifications of MutexNotifiers: what became of them, and how many wait.

use super::{
    described::{NOTIFICATIONS, NOTIFICATIONS_WAITING},
    series::register,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// What may become of a notification.
const OUTCOMES: [&str; 5] = ["sent", "failed", "refused", "expired", "dropped"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    notifier: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NotifierLabels {
    notifier: String,
}

/// Counters and gauges of notifiers.
#[derive(Clone, Debug)]
pub(super) struct Notifications {
    counted: Family<OutcomeLabels, Counter>,
    waiting: Family<NotifierLabels, Gauge>,
}

impl Notifications {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let notifications = Self {
            counted: Family::default(),
            waiting: Family::default(),
        };
        register(registry, NOTIFICATIONS, notifications.counted.clone());
        register(registry, NOTIFICATIONS_WAITING, notifications.waiting.clone());
        notifications
    }

    /// A notifier is there: its counters are, at zero.
    pub(super) fn know(&self, notifier: &str) {
        for outcome in OUTCOMES {
            let _ = self.counted.get_or_create(&labels(notifier, outcome));
        }
        self.wait(notifier, 0);
    }

    pub(super) fn count(&self, notifier: &str, outcome: &'static str, number: u64) {
        self.counted
            .get_or_create(&labels(notifier, outcome))
            .inc_by(number);
    }

    pub(super) fn wait(&self, notifier: &str, number: usize) {
        let labels = NotifierLabels {
            notifier: notifier.to_owned(),
        };
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.get_or_create(&labels).set(number);
    }

    pub(super) fn forget(&self, notifier: &str) {
        for outcome in OUTCOMES {
            self.counted.remove(&labels(notifier, outcome));
        }
        let labels = NotifierLabels {
            notifier: notifier.to_owned(),
        };
        self.waiting.remove(&labels);
    }
}

fn labels(notifier: &str, outcome: &'static str) -> OutcomeLabels {
    OutcomeLabels {
        notifier: notifier.to_owned(),
        outcome,
    }
}
