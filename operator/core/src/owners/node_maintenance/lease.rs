//! The lease of the node, shared with other operators: taken, kept, and lost. No other lease is touched.

use super::{
    known::{MAX_LEASE_ERRORS, changes, last_phase},
    node::shielding,
    pass::{Pass, held},
};
use crate::{
    mark,
    observed::{ChangeView, LeaseView, NodeView, Observed},
    report::MaintenancePhase,
    time::later,
    turn::{
        journal::{self, Journal},
        lease::{self, Lease},
        machine,
        node::{Holding, Next, STAY},
        shield,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, marks};

/// How the lease of the node stands for a maintenance.
pub(super) fn lease<'a>(observed: &'a Observed, node: &str, now: Timestamp) -> Lease<'a> {
    lease::of(observed, node, marks::MAINTENANCE_HOLDER, now)
}

impl Pass<'_> {
    /// What the maintenance takes of the node.
    pub(super) fn holding(&self, node: &NodeView) -> Holding {
        let uid = &self.view.uid;
        Holding {
            holder: Some(marks::MAINTENANCE_HOLDER.to_owned()),
            // Beside the operator that numo replaces nothing new is taken; the turn is closed by what comes next.
            keeps_only: self.intent.is_stood_off(),
            shield: (!shield::is_on(node, uid)).then(|| shielding(node, self.view, self.group)),
            machines: machine::shields(self.observed, (&node.name, uid)),
        }
    }

    /// Another has the lease of the node: of one that is cordoned it is lost, and the turn of any other one is closed.
    pub(super) fn heed_lease(
        &mut self,
        (node, change): (&NodeView, &ChangeView),
        cordoned: bool,
        (lease, until): (&LeaseView, Timestamp),
    ) -> Next {
        if cordoned {
            return self.lost_lease(node, change, lease, until);
        }
        self.wake(until);
        let why = held(&node.name, lease, until);
        self.close(Step::Admitted, why, change);
        STAY
    }

    /// Lease and shield are being taken: a node that is drained stays in maintenance meanwhile.
    pub(super) fn note_taking(&mut self, change: &ChangeView) {
        self.report.phase = if change.status.step == Some(Step::Drained) {
            last_phase(self.view)
        } else {
            MaintenancePhase::Running
        };
    }

    /// Keeps the lease of a node that has its turn to the end of its soak; nothing new is taken.
    pub(super) fn keep_lease(&mut self, node: &NodeView) {
        let seen = (self.observed, self.now);
        lease::keep(&mut self.out, seen, node, marks::MAINTENANCE_HOLDER);
    }

    /// Somebody took the lease while the node was in maintenance: after a while the node is theirs.
    fn lost_lease(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        lease: &LeaseView,
        until: Timestamp,
    ) -> Next {
        // Whoever may write the status may have written any number.
        let known = self.view.status.error_on_lease_count.unwrap_or(0);
        let known = known.clamp(0, MAX_LEASE_ERRORS + 1);
        let last = self.view.status.last_update.as_deref();
        let last = journal::time(last).unwrap_or(Timestamp::UNIX_EPOCH);
        let due = if known == 0 {
            self.now
        } else {
            later(last, 1 << known)
        };
        let count = if self.now >= due { known + 1 } else { known };
        self.report.lease_errors = count;
        self.report.phase = last_phase(self.view);
        if count > MAX_LEASE_ERRORS {
            let message = format!("maintenance failed: lease could not be extended after {count} attempts");
            let why = Why::new(Reason::NodeLeaseLost, message);
            self.report.phase = MaintenancePhase::Failed;
            if self.put_back(Some(node)) {
                let mut journal = Journal::open(change, self.now);
                journal.enter(Step::Failed, Some(&why));
                self.out.actions.extend(journal.planned(None));
            }
            self.say(Step::Failed, why, Some(change));
            return STAY;
        }
        self.wake(due.max(later(self.now, 1)).min(until.max(later(self.now, 1))));
        let message = format!(
            "failed to extend a lease that used to be owned by us, can't update or invalidate the lease because it is held by different owner: {}",
            lease.holder
        );
        self.say(Step::Held, Why::new(Reason::NodeLeaseLost, message), Some(change));
        STAY
    }

    /// Puts back what a turn that was given back before its cordon still holds.
    pub(super) fn stand_back(&mut self, node: &NodeView) {
        if let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == self.view.uid) {
            self.act(shield::unshield(node, &mark), None);
        }
        self.unshield_machines();
        self.release_lease(true);
    }

    /// The lease is given back if it is ours and no other maintenance of the node holds it.
    pub(super) fn release_lease(&mut self, is_over: bool) {
        let name = self.node;
        // By what it has in hand: its spec may name another node by now.
        let has_it = |change: &ChangeView| change.in_flight() && change.spec.node_name == *name;
        let others = || {
            self.observed
                .maintenances
                .values()
                .any(|other| other.owner != self.view.owner && changes(self.observed, &other.uid).any(has_it))
        };
        let lease = lease::release(self.observed, name, marks::MAINTENANCE_HOLDER);
        if let Some(action) = lease.filter(|_| is_over && !others()) {
            self.act(action, None);
        }
    }
}
