//! Notifications of MutexNotifiers: what became of them, how many wait, and how many nodes are silenced.

use super::{
    described::{NOTIFICATIONS, NOTIFICATIONS_WAITING, SILENCES},
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
    silences: Family<NotifierLabels, Gauge>,
}

impl Notifications {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let notifications = Self {
            counted: Family::default(),
            waiting: Family::default(),
            silences: Family::default(),
        };
        register(registry, NOTIFICATIONS, notifications.counted.clone());
        register(registry, NOTIFICATIONS_WAITING, notifications.waiting.clone());
        register(registry, SILENCES, notifications.silences.clone());
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
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.get_or_create(&of(notifier)).set(number);
    }

    /// How many nodes a notifier silences; none if it is to silence none.
    pub(super) fn silence(&self, notifier: &str, number: Option<usize>) {
        match number {
            Some(number) => {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                self.silences.get_or_create(&of(notifier)).set(number);
            }
            None => {
                self.silences.remove(&of(notifier));
            }
        }
    }

    pub(super) fn forget(&self, notifier: &str) {
        for outcome in OUTCOMES {
            self.counted.remove(&labels(notifier, outcome));
        }
        self.waiting.remove(&of(notifier));
        self.silences.remove(&of(notifier));
    }
}

fn of(notifier: &str) -> NotifierLabels {
    NotifierLabels {
        notifier: notifier.to_owned(),
    }
}

fn labels(notifier: &str, outcome: &'static str) -> OutcomeLabels {
    OutcomeLabels {
        notifier: notifier.to_owned(),
        outcome,
    }
}
