//! Jobs that numo created: of rules, and of Plans.

use jiff::Timestamp;

/// A Job numo created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobView {
    /// uid.
    pub uid: String,
    /// Creation time.
    pub created: Timestamp,
    /// Since when it is being deleted, or is gone while a pod of it still runs; none if it is neither.
    pub deleting: Option<Timestamp>,
    /// Id of the run, from its label.
    pub run: String,
    /// Hash of the name of its node ([`crate::names::node_hash`]), from its label.
    pub node: String,
    /// The rule that it is of, `namespace/name`, from numo's annotation; empty where that is absent.
    pub rule: String,
    /// Edition of the rule that it was made from, from numo's annotation; empty where that is absent.
    pub edition: String,
    /// How it ended, if it has.
    pub ended: Option<JobEnd>,
    /// When it ended, if it has and says so.
    pub ended_at: Option<Timestamp>,
    /// Number of its pods that are running or have run.
    pub started: bool,
    /// `spec.activeDeadlineSeconds`.
    pub deadline_seconds: Option<i64>,
    /// `spec.ttlSecondsAfterFinished`.
    pub ttl_seconds: Option<i64>,
    /// The TTL the user asked for, from numo's annotation.
    pub wanted_ttl_seconds: Option<i64>,
    /// What keeps it from starting a pod, if something does: reason and message.
    pub trouble: Option<(String, String)>,
}

impl JobView {
    /// Whether a pod of it may still run.
    pub fn runs(&self) -> bool {
        self.ended.is_none() || self.deleting.is_some() && self.ended != Some(JobEnd::Complete)
    }
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Condition Complete.
    Complete,
    /// Condition Failed: reason and message.
    Failed(String, String),
}

/// A Job of a Plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of the Job")]
pub struct PlanJobView {
    /// uid.
    pub uid: String,
    /// uid of the Plan that controls it; empty if none does.
    pub plan_uid: String,
    /// Label `upgrade.cattle.io/plan`.
    pub plan: String,
    /// Label `upgrade.cattle.io/node`.
    pub node: String,
    /// Label `upgrade.cattle.io/version`.
    pub version: String,
    /// Label `plan.upgrade.cattle.io/<plan>`.
    pub hash: String,
    /// Whether numo drains, and this Job only prepares for that.
    pub prepares: bool,
    /// Creation time.
    pub created: Timestamp,
    /// Since when it is being deleted, if it is.
    pub deleting: Option<Timestamp>,
    /// `spec.parallelism: 0`: no pod is started.
    pub paused: bool,
    /// How it ended, if it has.
    pub ended: Option<JobEnd>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Which of its containers runs, if one does.
    pub runs: Option<String>,
    /// What keeps it from starting, if something does: reason and message.
    pub trouble: Option<(String, String)>,
    /// Whether nothing of it can have run: it has made no pod, or only pods that no kubelet has taken up
    /// (`status.startTime`). False while that is not known for sure.
    pub untouched: bool,
}

impl PlanJobView {
    /// The Job with what its pods tell: which container runs, and what keeps it from starting.
    ///
    /// One that failed has not ended while a container of it runs: until then nothing tells how it ended, and a retry
    /// would delete it under a pod that still upgrades the node. Older Job controllers say `Failed` before that.
    #[must_use]
    pub fn with_pods(self, runs: Option<String>, trouble: Option<(String, String)>) -> Self {
        let runs_on = runs.is_some() && matches!(self.ended, Some(JobEnd::Failed(..)));
        Self {
            ended: self.ended.filter(|_| !runs_on),
            ended_at: self.ended_at.filter(|_| !runs_on),
            runs,
            trouble,
            ..self
        }
    }
}
