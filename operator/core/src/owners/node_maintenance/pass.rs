//! One decision for a NodeMaintenance in the making.

use super::intent::Intent;
use crate::{
    action::{Action, Event, Planned},
    decision::Decision,
    observed::{ChangeView, LeaseView, MaintenanceView, Observed},
    owner::MaintenanceGroup,
    report::{MaintenanceReport, NodeReport},
    turn::lease,
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step};

/// One decision in the making.
pub(crate) struct Pass<'a> {
    pub(super) now: Timestamp,
    pub(super) observed: &'a Observed,
    pub(super) view: &'a MaintenanceView,
    /// The node that it has in hand, or is to have.
    pub(super) node: &'a str,
    pub(super) group: MaintenanceGroup,
    /// The id of what it asks of its node.
    pub(super) id: String,
    /// Whether a person asks about the node.
    pub(super) asked: bool,
    pub(super) intent: Intent<'a>,
    pub(super) answers: &'a Answers,
    pub(super) out: Decision,
    pub(super) report: MaintenanceReport,
    /// All that there is to do and to say in this pass was done and said.
    pub(super) over: bool,
}

impl Pass<'_> {
    pub(super) fn act(&mut self, action: Action, event: Option<Event>) {
        let chain = self.node.to_owned();
        self.out.actions.push(Planned { chain, action, event });
    }

    pub(super) fn wake(&mut self, at: Timestamp) {
        self.out.wake(at);
    }

    /// Says where the node is. What waits for anybody but numo is the last error too.
    pub(super) fn say(&mut self, step: Step, why: Why, change: Option<&ChangeView>) {
        let is_error = !matches!(
            why.reason,
            Reason::Admitting
                | Reason::Draining
                | Reason::RuleStarting
                | Reason::RuleRunning
                | Reason::InMaintenance
                | Reason::Restoring
                | Reason::Soaking
        );
        if is_error {
            self.report.error = Some(why.message.to_string());
        }
        let report = NodeReport {
            pool: "".into(),
            step,
            why: why.clone(),
            since: change.and_then(|change| change.status.since.clone()),
            change: change.map(|change| change.key.to_string()),
        };
        let nodes = &mut self.out.report.nodes;
        nodes.insert(self.node.to_owned(), report);
        self.out.report.hold = Some(why);
    }
}

/// That another has the lease of the node, in words of the reference.
pub(super) fn held(node: &str, lease: &LeaseView, until: Timestamp) -> Why {
    let message = format!(
        "failed to obtain a lease that is not owned by us : can't update or invalidate the lease because it is held by different owner: {}",
        lease.holder
    );
    Why {
        message: message.into(),
        ..lease::held_by(node, lease, until)
    }
}
