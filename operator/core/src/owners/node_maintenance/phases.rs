//! A turn of a maintenance that is closed, and Jobs of its rules that nobody waits for any more.

use super::{
    known::{changes, run_id},
    pass::Pass,
};
use crate::{
    observed::ChangeView,
    turn::{closed, job},
    why::Why,
};
use numo_api::Step;
use std::collections::BTreeSet;

impl Pass<'_> {
    /// Says that the turn is closed, before the cordon. It is given back once it was for too long.
    pub(super) fn close(&mut self, step: Step, why: Why, change: &ChangeView) {
        let at = self.out.actions.len();
        let restored = closed::close(&mut self.out, change, &why, self.now);
        let is_named = self.node == self.view.spec.node_name;
        if let Some(node) = self.observed.nodes.get(self.node)
            && restored
            && !is_named
        {
            // Of a node that the spec names no more nobody restores anything once no turn tells of it.
            let ended = self.out.actions.split_off(at);
            self.stand_back(node);
            self.out.actions.extend(ended);
        }
        let step = if restored { Step::Selected } else { step };
        self.say(step, why, Some(change));
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
