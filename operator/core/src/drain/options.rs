//! How a node is drained: the options of `kubectl drain`, and numo's own.

use crate::selector;
use numo_api::{DrainOrder, DrainSettings};
use serde_json::Value;

/// Pods of a node on their way out at once, unless the settings say otherwise.
const AT_ONCE: i64 = 100;

/// How a node is drained, with every default filled in.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of kubectl drain")]
pub struct DrainOptions {
    /// Pods without a controller go.
    pub force: bool,
    /// Pods with an emptyDir volume go.
    pub delete_emptydir_data: bool,
    /// Pods of a DaemonSet stay.
    pub ignore_daemonsets: bool,
    /// Grace period (seconds); none is the pod's own.
    pub grace_period_seconds: Option<i64>,
    /// Time after which the drain is reported as failing (seconds).
    pub timeout_seconds: Option<i64>,
    /// Pods that have been ending for longer are not waited for (seconds).
    pub skip_wait_seconds: Option<i64>,
    /// Delete instead of evict.
    pub disable_eviction: bool,
    /// Which pods; null is all.
    pub pod_selector: Value,
    /// In which order.
    pub order: DrainOrder,
    /// Label of the ranks.
    pub order_label: String,
    /// Pods on their way out at once.
    pub at_once: usize,
    /// Wait until no volume of the node is attached but those of pods that stay.
    pub await_volume_detach: bool,
    /// Try by dry run before the cordon.
    pub probe: bool,
}

impl DrainOptions {
    /// Fills the defaults in.
    pub fn of(settings: Option<&DrainSettings>) -> Self {
        let none = DrainSettings::default();
        let given = settings.unwrap_or(&none);
        let pod_selector = given.pod_selector.as_ref();
        let selector = pod_selector.and_then(|selector| serde_json::to_value(selector).ok());
        Self {
            force: given.force.unwrap_or(true),
            delete_emptydir_data: given.delete_emptydir_data.unwrap_or(true),
            ignore_daemonsets: given.ignore_daemonsets.unwrap_or(true),
            grace_period_seconds: given.grace_period_seconds.filter(|seconds| *seconds >= 0),
            timeout_seconds: given.timeout_seconds.filter(|seconds| *seconds > 0),
            skip_wait_seconds: given
                .skip_wait_for_delete_timeout_seconds
                .filter(|seconds| *seconds > 0),
            disable_eviction: given.disable_eviction.unwrap_or(false),
            pod_selector: selector.unwrap_or(Value::Null),
            order: given.order.unwrap_or_default(),
            order_label: given.order_label.clone().unwrap_or_default(),
            at_once: usize::try_from(given.max_concurrent.unwrap_or(AT_ONCE))
                .unwrap_or(1)
                .max(1),
            await_volume_detach: given.await_volume_detach.unwrap_or(false),
            probe: given.probe.unwrap_or(false),
        }
    }

    /// As the machine-config operator drains: it forces, and takes local data, as the defaults do.
    pub fn of_machine_config() -> Self {
        Self::of(None)
    }

    /// What is wrong with the settings, as field and sentence.
    pub fn problem(settings: &DrainSettings) -> Option<String> {
        let label = settings.order_label.as_deref().unwrap_or_default();
        match settings.order {
            Some(DrainOrder::Label) if label.is_empty() => {
                Some("orderLabel: found none, wanted a label key, as order is Label".to_owned())
            }
            None | Some(DrainOrder::Together | DrainOrder::Priority) if !label.is_empty() => {
                Some(format!("orderLabel: found {label}, wanted order: Label with it"))
            }
            _ => selector::problem("podSelector", settings.pod_selector.as_ref()),
        }
    }
}
