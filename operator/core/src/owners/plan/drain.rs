//! A node that numo itself makes ready for the Job that upgrades it (`drainBy: Numo`): the Job that prepares it, and how it is cordoned
//! and drained.

use super::{pass::Pass, told::Turn, turn::Going};
use crate::{
    action::PlanParts,
    key::Key,
    mark,
    observed::{JobEnd, PlanJobView},
    probe::{self, Look},
    turn::{
        cordon::{self, OwnDrain},
        steps::{self, Next, ON, STAY},
    },
    why::Why,
};
use numo_api::{Phase, Reason, Step};

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
        let is_awaited = has_begun && !pass.has_deleted_job(&turn);
        let key = (turn.node.name.as_str(), pass.hash.as_str(), true);
        let found = pass.jobs.get(&key).copied();
        if let Some(job) = found.filter(|(_, view)| is_awaited || view.deleting.is_none()) {
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

    /// How numo cordons and drains the node, where it does.
    pub(super) fn drains_so(&self) -> Option<OwnDrain> {
        self.drains().then(|| {
            let (uid, node) = (&self.pass.view.uid, self.turn.node);
            // A person's cordon is none of numo's: the drain is still to be looked at. The mark of who has the node in hand as well is not
            // written over.
            let is_numos = mark::cordoned_by(node).is_some_and(|mark| mark.owner != *uid || mark.done);
            OwnDrain {
                mark: cordon::of(node, uid),
                is_cordoned: node.unschedulable && is_numos,
                options: self.pass.intent.drain.clone(),
                limit_field: "spec.drain.timeout".to_owned(),
                again: "it is being cordoned",
            }
        })
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
            None if view.deleting.is_some() => {
                let why = self.being_deleted(view, format!("Job {job} is being deleted"));
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
}
