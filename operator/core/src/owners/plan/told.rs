//! What journal and Jobs tell of a node's turn with a Plan. Nothing here decides what follows.

use crate::{
    key::Key,
    observed::{ChangeView, JobEnd, NodeView, PlanJobView},
    turn::journal,
    why::Why,
};
use numo_api::{Entry, Pin, Reason, Step, marks::openshift};

/// Whether the node runs Windows.
pub fn is_windows(node: &NodeView) -> bool {
    node.label(openshift::OS) == "windows"
}

/// The node has lost the label that its Job is bound to.
pub(super) fn hostless(node: &NodeView) -> Option<Why> {
    let host = openshift::HOSTNAME;
    node.label(host).is_empty().then(|| {
        let message = format!(
            "Node {}: found no label {host}, wanted one: its Job is bound to it",
            node.name
        );
        Why::new(Reason::InvalidField, message)
    })
}

/// One node's turn.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) node: &'a NodeView,
    pub(super) change: &'a ChangeView,
    /// The Job that upgrades, for the hash that the turn is about.
    pub(super) job: Option<(&'a Key, &'a PlanJobView)>,
    /// That hash; empty where no Job tells it.
    pub(super) hash: &'a str,
    /// Whether the Plan still goes there.
    pub(super) is_current: bool,
}

impl Turn<'_> {
    pub(super) fn entered(&self, step: Step) -> Option<&Entry> {
        journal::entered(self.change, step)
    }

    pub(super) fn step(&self) -> Step {
        self.change.status.step.unwrap_or(Step::Admitted)
    }

    /// Whether its Job has begun, in this attempt, or was complete before it: then only the rules are asked again.
    pub(super) fn has_begun(&self) -> bool {
        self.entered(Step::Released).is_some()
            || self.entered(Step::Changed).is_some()
            || self
                .job
                .is_some_and(|(_, job)| !job.paused || job.ended.is_some())
    }

    /// What its journal tells since its turn was last given back.
    fn told(&self) -> impl Iterator<Item = &Entry> {
        let entries = &self.change.status.entries;
        let restored = entries.iter().rposition(|entry| entry.step == Step::Selected);
        entries[restored.unwrap_or(0)..].iter()
    }

    /// What its journal tells of Jobs since its turn was last given back: until then nothing was disrupted.
    pub(super) fn told_of_jobs(&self) -> impl Iterator<Item = &Entry> {
        let failed = [Reason::JobFailed, Reason::JobLost, Reason::Rebooted];
        self.told().filter(move |entry| {
            matches!(entry.step, Step::Released | Step::Changed)
                || failed
                    .iter()
                    .any(|reason| entry.reason.as_deref() == Some(reason.name()))
        })
    }

    /// Whether a Job of it has begun in any attempt: the cordon may then be that Job's.
    pub(super) fn was_begun(&self) -> bool {
        self.told_of_jobs().next().is_some()
    }

    /// Whether numo, or a Job of it, has cordoned the node in any attempt, or may have: what cordon there is, is not one of before.
    pub(super) fn was_cordoned(&self) -> bool {
        self.has_begun() || self.was_begun() || self.told().any(|entry| entry.step == Step::Cordoned)
    }

    /// Whether the journal tells, of any attempt, that the node is changed: no cordon is taken off in a write of its own before.
    pub(super) fn tells_of_change(&self) -> bool {
        self.told().any(|entry| entry.step == Step::Changed)
    }

    /// Whether its Job was started, and nothing of it can have run.
    pub(super) fn is_untouched(&self) -> bool {
        self.job.is_some_and(|(_, job)| {
            job.untouched && !job.paused && job.ended.is_none() && job.deleting.is_none()
        })
    }

    /// Whether anything may have become of the node in this turn: numo has cordoned it, or a Job may have run on it.
    pub(super) fn is_disrupted(&self) -> bool {
        let attempt = self.change.status.attempt.max(1);
        let untouched = self.is_untouched();
        let of_untouched =
            |entry: &Entry| untouched && entry.step == Step::Released && entry.attempt == attempt;
        self.entered(Step::Cordoned).is_some()
            || (self.has_begun() && !untouched)
            || self.told_of_jobs().any(|entry| !of_untouched(entry))
    }

    /// Whether the journal tells this of the Job that prepares the node, in this attempt: `Upgrading` once it has begun,
    /// `Prepared` once it is complete.
    pub(super) fn tells_of_prepare(&self, reason: Reason) -> bool {
        let attempt = self.change.status.attempt.max(1);
        let mut entries = self.change.status.entries.iter();
        entries.any(|entry| {
            entry.step == Step::PreRules
                && entry.attempt == attempt
                && entry.reason.as_deref() == Some(reason.name())
        })
    }

    /// Whether its Job is complete.
    pub(super) fn is_changed(&self) -> bool {
        self.entered(Step::Changed).is_some()
            || self
                .job
                .is_some_and(|(_, job)| matches!(job.ended, Some(JobEnd::Complete)))
    }

    /// Whether its Job has begun and not ended.
    pub(super) fn runs(&self) -> bool {
        self.job
            .is_some_and(|(_, job)| !job.paused && job.ended.is_none())
    }

    pub(super) fn pin(&self) -> Pin {
        self.change.status.pin.clone().unwrap_or_default()
    }
}
