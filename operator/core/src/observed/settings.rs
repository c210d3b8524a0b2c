//! How the operator was told to behave.

use crate::key::Key;
use jiff::Timestamp;

/// How the operator was told to behave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The operator's own namespace.
    pub namespace: String,
    /// The operator's own ServiceAccount, in its own namespace.
    pub service_account: String,
    /// Namespaces besides its own in which MutexRunConfigs are watched.
    pub run_namespaces: Vec<String>,
    /// Namespaces besides its own in which Plans are watched.
    pub plan_namespaces: Vec<String>,
    /// It is decided for people to read, and nothing is written: what only the operator may see is as the status has it.
    pub only_looks: bool,
    /// How the Jobs of Plans are made.
    pub plan_jobs: PlanJobSettings,
    /// The operator's own pod, where it runs in one.
    pub own_pod: Option<Key>,
    /// Why node leases cannot be had, if so: the API server refused one for want of the namespace or the right.
    pub leases_unavailable: Option<String>,
    /// When it refused the last one; none where that is only heard of.
    pub leases_refused: Option<Timestamp>,
}

/// How the Jobs of Plans are made: what system-upgrade-controller is told by its environment
/// (`spec/system-upgrade-controller.md` §2), with its defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanJobSettings {
    /// Value of the label `upgrade.cattle.io/controller`, and component of events.
    pub controller: String,
    /// `activeDeadlineSeconds` of Jobs whose Plan says nothing.
    pub active_deadline_seconds: i64,
    /// The most it may be; 0 is without limit.
    pub active_deadline_seconds_max: i64,
    /// `backoffLimit`.
    pub backoff_limit: i64,
    /// Image that cordons and drains.
    pub kubectl_image: String,
    /// The same on Windows; empty refuses such Plans there.
    pub kubectl_image_windows: String,
    /// Whether the container `upgrade` is privileged.
    pub privileged: bool,
    /// `imagePullPolicy`.
    pub image_pull_policy: String,
    /// `ttlSecondsAfterFinished`.
    pub ttl_seconds_after_finished: i64,
    /// `podReplacementPolicy`.
    pub pod_replacement_policy: String,
    /// How often channels are asked (seconds).
    pub polling_seconds: i64,
}

impl Default for PlanJobSettings {
    fn default() -> Self {
        Self {
            controller: "system-upgrade-controller".to_owned(),
            active_deadline_seconds: 600,
            active_deadline_seconds_max: 0,
            backoff_limit: 2,
            kubectl_image: "rancher/kubectl:v1.30.3".to_owned(),
            kubectl_image_windows: String::new(),
            privileged: true,
            image_pull_policy: "IfNotPresent".to_owned(),
            ttl_seconds_after_finished: 900,
            pod_replacement_policy: "TerminatingOrFailed".to_owned(),
            polling_seconds: 15 * 60,
        }
    }
}
