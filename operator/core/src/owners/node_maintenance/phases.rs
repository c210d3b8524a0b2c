//! The rules of a maintenance, phase by phase, and what a failed one means for it.

use super::{
    known::{changes, run_id},
    pass::Pass,
};
use crate::{
    observed::{ChangeView, NodeView},
    rules,
    turn::{
        closed, job,
        journal::Journal,
        phases::{At, Phases, Went},
    },
    why::Why,
};
use numo_api::{Phase, Reason, Step};
use std::collections::BTreeSet;

impl Pass<'_> {
    fn phases(&self) -> Phases<'_> {
        Phases {
            owner: &self.view.owner,
            owner_uid: &self.view.uid,
            rules: &self.intent.rules,
            pool: "",
            to_version: "",
            observed: self.observed,
            answers: self.answers,
            now: self.now,
        }
    }

    /// Moves a phase of rules along; true once all have passed.
    pub(super) fn passed(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        phase: Phase,
        step: Step,
        closed: Option<&Why>,
    ) -> bool {
        let mut out = std::mem::take(&mut self.out);
        let went = self
            .phases()
            .pass(&mut out, (node, change), At::step(phase, step), closed);
        self.out = out;
        self.act_on(change, step, went)
    }

    /// Whether a rule of the phase is to begin next.
    pub(super) fn asks_next(&self, node: &NodeView, change: &ChangeView, phase: Phase) -> bool {
        self.phases().asks_next((node, change), phase)
    }

    /// Says that the turn is closed, before the cordon. It is given back once it was for too long.
    pub(super) fn close(&mut self, step: Step, why: Why, change: &ChangeView) {
        let given_back = closed::close(&mut self.out, change, &why, self.now);
        let step = if given_back { Step::Selected } else { step };
        self.say(step, why, Some(change));
    }

    /// The same where the node is given back: a rule may make it wait until its time is over, and no longer.
    pub(super) fn passed_or_over(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        phase: Phase,
        step: Step,
    ) -> bool {
        let known = self
            .intent
            .rules
            .iter()
            .filter(|(_, rule)| rule.is_some())
            .cloned();
        self.intent.rules = known.collect();
        let asks = self
            .intent
            .rules
            .iter()
            .flat_map(|(_, rule)| rule)
            .any(|rule| rule.runs_in(phase));
        if asks && change.status.step != Some(step) {
            // Their time begins now, not when the node was drained.
            let mut journal = Journal::open(change, self.now);
            journal.enter(step, None);
            self.out.actions.extend(journal.planned(None));
            let why = Why::new(Reason::GivingBack, "its rules are asked before it is given back");
            self.say(step, why, Some(change));
            return false;
        }
        let mut out = std::mem::take(&mut self.out);
        let went = self
            .phases()
            .pass(&mut out, (node, change), At::step(phase, step), None);
        self.out = out;
        match went {
            // Deletion must end: it is in the journal, and said.
            Went::Failed(..) => true,
            other => self.act_on(change, step, other),
        }
    }

    /// Asks again for each rule's Pass that is too old; true if none is.
    pub(super) fn confirm(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let mut out = std::mem::take(&mut self.out);
        let at = (node, change);
        let went = self
            .phases()
            .confirm(&mut out, at, (&rules::BEFORE_RELEASE, Some(Step::PreRules)));
        self.out = out;
        self.act_on(change, Step::PreRules, went)
    }

    /// Acts on how a phase of rules went; true if it passed.
    fn act_on(&mut self, change: &ChangeView, step: Step, went: Went) -> bool {
        match went {
            Went::Passed => true,
            Went::Waits(why) | Went::Failed(_, why) => {
                self.say(step, why, Some(change));
                false
            }
            Went::Closed(why) => {
                self.close(step, why, change);
                false
            }
        }
    }

    /// Lets Jobs go whose verdict is journaled.
    pub(super) fn free_jobs(&mut self) {
        let verdicts = changes(self.observed, &self.view.uid).flat_map(|change| &change.status.verdicts);
        let judged: BTreeSet<&str> = verdicts.filter_map(|verdict| verdict.job.as_deref()).collect();
        let id = run_id(self.view);
        // Once the turn is over nobody waits for a Job any more.
        let over = self.view.deleting && !changes(self.observed, &self.view.uid).any(ChangeView::in_flight);
        let jobs = self.observed.jobs.iter();
        let due =
            jobs.filter(|(key, job)| judged.contains(key.to_string().as_str()) || over && job.run == id);
        job::free(&mut self.out, due);
    }
}
