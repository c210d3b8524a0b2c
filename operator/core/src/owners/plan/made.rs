//! Whether a Job of a turn may have run, and be gone by its TTL before anybody saw it: numo was away, or could not write, for as long.
//!
//! A Job is made only of a node in `status.applying`, and only soon after the journal of its turn was written. One that the journal does not
//! tell of is gone only once nothing was written to the journal for as long as an ended Job is kept. Until then it is there, or was never made.

use super::{pass::Pass, told::Turn};
use crate::{
    action::{Event, EventAction},
    observed::{ChangeView, NodeView},
    owner::OwnerKind,
    time::later,
    turn::{
        closed,
        journal::{self, Journal},
        lease, ungated,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Entry, Reason, Step};

/// For how long an ended Job counts as kept at least (seconds): a write that is tried again takes a while, and must not be taken for one that
/// was lost; and the journal of a node whose Job cannot be made is written at most once a minute.
const KEPT_SECONDS: i64 = 120;

/// After how long without a word in the journal it says first that a Job is about to be made (seconds). In a pass after that the Job is made,
/// so where none is there for as long, numo has died, or may not make it, or somebody has deleted it.
const MOMENT_SECONDS: i64 = 90;
/// What is told of such a Job.
const MISSING: &str = "its Job was about to be made a while ago, and is not there: numo could not make it, or somebody has deleted it while numo \
    was away, and it may have run; it is made now";

impl<'a> Pass<'a> {
    /// Whether the next Job of a node may have run and be gone, and nothing tells so.
    pub(super) fn may_have_run(&self, turn: &Turn<'a>) -> bool {
        let is_free = turn.job.is_none() && !turn.has_begun() && turn.step() != Step::Held;
        is_free && self.is_applying(turn.node) && self.goes_at(turn) <= self.now && self.is_next(turn)
    }

    /// Whether a Job is the next step of a node whose turn has come so far. Where numo drains, the Job that prepares comes before the drain, and
    /// the one that upgrades after it.
    fn is_next(&self, turn: &Turn<'a>) -> bool {
        if !self.intent.drains || turn.change.spec.in_service {
            return true;
        }
        let is_prepared = self.view.spec.prepare.is_none()
            || turn.tells_of_prepare(Reason::Prepared)
            || turn.entered(Step::Cordoned).is_some();
        if is_prepared {
            let rules = self.rules_of(&turn.node.name);
            let has_passed = ungated::not_passed(&rules, &turn.change.status).is_none();
            let is_cordoned = turn.entered(Step::Cordoned).is_some();
            // Where it only cordons, no drain follows that the journal could tell of.
            let drains = self.intent.drain.is_some();
            return is_cordoned && (!drains || journal::is_drained(turn.change)) && has_passed;
        }
        let key = (turn.node.name.as_str(), self.hash.as_str(), true);
        !turn.tells_of_prepare(Reason::Upgrading) && !self.jobs.contains_key(&key)
    }

    /// Until when a Job that is made now, and that nobody sees, is there.
    fn goes_at(&self, turn: &Turn<'a>) -> Timestamp {
        later(journal::written_at(turn.change, self.now), self.kept_seconds())
    }

    fn kept_seconds(&self) -> i64 {
        let seconds = self.observed.settings.plan_jobs.ttl_seconds_after_finished;
        seconds.max(KEPT_SECONDS)
    }

    /// Whether a Job of a closed turn that is not there was deleted by numo, as no kubelet took it up: numo may have died before it could write
    /// that the turn is given back. One that ended by itself meanwhile would still be there.
    pub(super) fn has_deleted_job(&self, turn: &Turn<'a>) -> bool {
        let closed = journal::time(turn.change.status.closed_since.as_deref());
        let is_known = closed.is_some_and(|at| self.now < later(at, self.kept_seconds()));
        is_known && closed::expires(turn.change, self.now)
    }

    /// Gives back a turn whose Job numo has deleted.
    pub(super) fn restore_unbegun(&mut self, turn: &Turn<'a>) {
        let message = format!(
            "no kubelet of Node {} took up its Job, which was deleted",
            turn.node.name
        );
        let why = Why::new(Reason::NodeNotReady, message);
        closed::close(&mut self.out, turn.change, &why, self.now);
        self.say_turn(turn, Step::Selected, why);
    }

    /// Has the journal of a node tell that its Job is about to be made, unless it was written a moment ago; true once it was. People are told
    /// of a Job that was about to be made before.
    pub(super) fn tell_first(&mut self, turn: &Turn<'a>) -> bool {
        let kept = MOMENT_SECONDS.min(self.kept_seconds() / 2);
        let until = later(journal::written_at(turn.change, self.now), kept);
        if self.now < until {
            // A Job that cannot be made is still about to be then.
            self.out.wake(until);
            return true;
        }
        let mut journal = Journal::open(turn.change, self.now);
        let is_again = |entry: &Entry| {
            let told = entry.reason.as_deref() == Some(Reason::UpgradeStarting.name());
            told && entry.attempt == turn.change.status.attempt.max(1)
        };
        // Told again and again it would push everything else out of the journal.
        if journal.status.entries.last().is_some_and(is_again) {
            journal.status.entries.pop();
        }
        let is_applying = self.is_applying(turn.node);
        let message = if is_applying {
            MISSING
        } else {
            "its Job is about to start"
        };
        let why = Why::new(Reason::UpgradeStarting, message);
        journal.enter(Step::PreRelease, Some(&why));
        let is_told = turn.change.status.message.as_deref() == Some(message);
        let event = (is_applying && !is_told).then(|| {
            let note = format!("Node {}: {MISSING}", turn.node.name);
            Event::warning("JobMissing", EventAction::Change, note).on(&turn.node.name)
        });
        self.out.actions.extend(journal.planned(event));
        if is_applying {
            self.applies(turn.node);
        }
        self.say_turn(turn, Step::PreRelease, why);
        false
    }

    /// The same for what tells against the journal from outside. The lease of the node is kept: it may be in mid-change.
    pub(super) fn keep_still(&mut self, node: &'a NodeView, change: &'a ChangeView, why: Why) {
        let holder = lease::holder_of(OwnerKind::Plan, &self.view.uid);
        lease::keep(&mut self.out, (self.observed, self.now), node, &holder);
        self.stand_still(node, change, why);
    }

    /// Holds a node for what its journal says. Nothing is known of its Job until that is mended, and it must not be forgotten.
    pub(super) fn stand_still(&mut self, node: &'a NodeView, change: &'a ChangeView, why: Why) {
        if self.is_applying(node) {
            self.applies(node);
        }
        self.say(node, Step::Held, why, Some(change));
    }
}
