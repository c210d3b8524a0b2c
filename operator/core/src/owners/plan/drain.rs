//! A node that numo itself makes ready for the Job that upgrades it (`drainBy: Numo`): the Job that prepares it, the cordon, the drain.

use super::{pass::Pass, told::Turn, turn::Going};
use crate::{
    action::{PlanParts, Planned},
    drain::{self, DrainOptions},
    key::Key,
    mark,
    observed::{JobEnd, PlanJobView},
    probe::{self, Look},
    time::later,
    turn::{
        journal::{self, Journal},
        steps::{self, Next, ON, STAY},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, Step};

/// How often somebody's uncordoning of a node that numo drains is corrected.
const MAX_CORRECTIONS: u32 = 3;

impl Going<'_, '_> {
    /// Whether numo drains the node before its Job.
    pub(super) fn drains(&self) -> bool {
        self.pass.intent.drains && !self.turn.change.spec.in_service
    }

    /// What is known of the drain of the node, where that is to be looked at first.
    pub(super) fn look_at_drain(&self) -> Option<Look> {
        let options = self.pass.intent.drain.as_ref();
        let options = options.filter(|options| options.probe)?;
        let known = (self.pass.answers, self.pass.now);
        Some(probe::look(self.pass.observed, self.turn.node, options, known))
    }

    /// Runs what prepares for a drain by numo in a Job of its own. The journal tells that the Job has begun and that it is
    /// complete: a Job is gone after its TTL, whoever has seen its end.
    pub(super) fn prepare(&mut self, closed: Option<&Why>) -> Next {
        let (pass, turn) = (&mut *self.pass, self.turn);
        let is_prepared = turn.tells_of_prepare(Reason::Prepared) || turn.entered(Step::Cordoned).is_some();
        if pass.view.spec.prepare.is_none() || is_prepared {
            return ON;
        }
        let has_begun = turn.tells_of_prepare(Reason::Upgrading);
        // While the turn is closed, numo itself deletes a Job that no kubelet takes up.
        let is_awaited = has_begun && turn.change.status.closed_since.is_none();
        let key = (turn.node.name.as_str(), pass.hash.as_str(), true);
        let found = pass.jobs.get(&key).copied();
        if let Some(job) = found.filter(|(_, view)| is_awaited || !view.deleting) {
            pass.follow_prepare(&turn, job, has_begun);
        } else if is_awaited {
            pass.lose_job(&turn);
        } else if let Some(why) = closed {
            pass.close(&turn, Step::PreRules, why.clone());
        } else {
            steps::confirm(self, &[Phase::Pre], Step::PreRules)?;
            let _ = self.pass.create_job(&turn, PlanParts::Prepare);
        }
        STAY
    }

    /// Cordons and drains the node.
    pub(super) fn cordon_and_drain(&mut self, closed: Option<&Why>) -> Next {
        let turn = self.turn;
        self.pass.applies(turn.node);
        let cordoned = turn.entered(Step::Cordoned);
        let Some(cordoned) = cordoned.and_then(|entry| journal::time(Some(&entry.at))) else {
            return self.cordon(closed);
        };
        let corrections = mark::cordoned_by(turn.node).map_or(0, |mark| mark.corrections);
        self.pass.cordon_again(&turn, corrections, closed)?;
        let was_drained = turn.entered(Step::Drained).is_some();
        if was_drained && corrections == 0 {
            return ON;
        }
        match self.pass.intent.drain.clone() {
            // Cordoned is all that was asked.
            None => ON,
            Some(options) => self.pass.drain(&turn, &options, cordoned, closed),
        }
    }

    /// Cordons the node, and journals that it is.
    fn cordon(&mut self, closed: Option<&Why>) -> Next {
        let turn = self.turn;
        if let Some(why) = closed {
            self.pass.close(&turn, Step::PreRules, why.clone());
            return STAY;
        }
        if !turn.node.unschedulable {
            let look = self.look_at_drain();
            steps::act_on_look(self, Step::PreRules, look)?;
            steps::confirm(self, &[Phase::Pre], Step::PreRules)?;
            self.pass.cordon(&turn, 0);
            return STAY;
        }
        let mut journal = Journal::open(turn.change, self.pass.now);
        journal.enter(Step::Cordoned, None);
        self.pass.write(journal);
        let why = Why::new(Reason::Draining, "it is cordoned");
        self.pass.say_turn(&turn, Step::Cordoned, why);
        STAY
    }
}

impl<'a> Pass<'a> {
    /// Follows the Job that prepares the node, to its end.
    fn follow_prepare(&mut self, turn: &Turn<'a>, (job, view): (&Key, &PlanJobView), has_begun: bool) {
        self.applies(turn.node);
        match &view.ended {
            Some(JobEnd::Complete) => {
                let message = format!("Job {job} has prepared Node {}", turn.node.name);
                let why = Why::new(Reason::Prepared, message);
                self.note_prepare(turn, &why);
                self.say_turn(turn, Step::PreRules, why);
            }
            Some(end) => self.failed(turn, (job, view), end),
            None if view.deleting => {
                let why = Why::new(Reason::JobBeingDeleted, format!("Job {job} is being deleted"));
                self.say_turn(turn, Step::PreRules, why);
            }
            None if !has_begun => {
                let message = format!("Job {job} prepares Node {}", turn.node.name);
                self.note_prepare(turn, &Why::new(Reason::Upgrading, message));
                let why = self.upgrading(turn, job, view);
                self.say_turn(turn, Step::PreRules, why);
            }
            None => self.goes_on(turn, Step::PreRules, (job, view)),
        }
    }

    /// Corrects somebody's uncordoning, a few times. Also after the drain: the last rules may take hours, and an open node is not
    /// upgraded.
    fn cordon_again(&mut self, turn: &Turn<'a>, corrections: u32, closed: Option<&Why>) -> Next {
        let node = turn.node;
        if node.unschedulable {
            return ON;
        }
        if corrections >= MAX_CORRECTIONS {
            let message = format!(
                "Node {}: someone uncordoned it {} times; cordon it, or skip it",
                node.name,
                corrections + 1
            );
            self.say_turn(turn, Step::Cordoned, Why::new(Reason::ForeignWriter, message));
            return STAY;
        }
        if closed.is_some() {
            return ON;
        }
        self.cordon(turn, corrections + 1);
        STAY
    }

    /// Evicts what is to go, and says how far the drain of a node has come that was cordoned at `cordoned`.
    fn drain(
        &mut self,
        turn: &Turn<'a>,
        options: &DrainOptions,
        cordoned: Timestamp,
        closed: Option<&Why>,
    ) -> Next {
        let node = turn.node;
        let known = (self.answers, self.now);
        let Some(found) = drain::drain(self.observed, node, options, cordoned, known) else {
            let why = Why::new(Reason::Draining, "its pods are being listed");
            self.say_turn(turn, Step::Cordoned, why);
            return STAY;
        };
        if let Some(at) = found.wake_at {
            self.out.wake(at);
        }
        self.out.questions.extend(found.question);
        if closed.is_none() {
            let evictions = found.evict.into_iter();
            let planned = evictions.map(|eviction| Planned::evict(&node.name, eviction));
            self.out.actions.extend(planned);
        }
        let Some(why) = found.why else {
            if turn.entered(Step::Drained).is_some() {
                return ON;
            }
            let mut journal = Journal::open(turn.change, self.now);
            journal.enter(Step::Drained, None);
            self.write(journal);
            self.say_turn(turn, Step::Drained, Why::new(Reason::Drained, "it is drained"));
            return STAY;
        };
        let end = options
            .timeout_seconds
            .map(|limit| (limit, later(cordoned, limit)));
        let why = match (closed, end) {
            (Some(closed), _) => closed.clone(),
            (None, Some((limit, end))) if self.now >= end => {
                drain::timed_out(limit, "spec.drain.timeout", &why)
            }
            (None, Some((_, end))) => {
                self.out.wake(end);
                why
            }
            (None, None) => why,
        };
        self.say_turn(turn, Step::Cordoned, why);
        STAY
    }
}
