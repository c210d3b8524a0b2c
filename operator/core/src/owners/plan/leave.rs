//! How the turn of a node of a Plan ends: nobody wants it any more, it begins anew, or it is done.

use super::{
    pass::Pass,
    told::{Turn, hostless},
    upgrade::leave_out,
};
use crate::{
    action::{Action, Change, Event, EventAction},
    mark::CordonedBy,
    observed::{JobEnd, NodeView},
    rules,
    time::later,
    turn::{
        cordon, directive,
        journal::{self, Journal},
        machine,
        steps::{Next, ON, STAY},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, Step, marks};

impl<'a> Pass<'a> {
    /// Ends a turn that nothing has come of, or whose node has failed, once nobody wants it any more; true if so.
    pub(super) fn gives_up(&mut self, turn: &Turn<'a>) -> bool {
        let failed = turn.step() == Step::Held
            || turn
                .job
                .is_some_and(|(_, job)| matches!(job.ended, Some(JobEnd::Failed(..))));
        let skips = directive::skipped(turn.change);
        // What is complete is finished, unless something keeps it from that which may last for ever.
        let lasts =
            !turn.node.ready || !self.rules_of(&turn.node.name).is_empty() || self.gate_lost().is_some();
        let is_left = self.leaving.is_some() || (skips.is_some() && turn.entered(Step::Changed).is_some());
        let stuck = turn.is_changed() && lasts && is_left;
        let is_lost = self.blind && !turn.runs();
        // A node that is out of reach may never come back: a person may go on without it.
        let is_away = !turn.node.ready && skips.is_some();
        if turn.has_begun() && !failed && !stuck && !is_lost && !is_away {
            // What runs is never killed.
            return false;
        }
        let (step, why) = if let Some(why) = skips {
            (Step::Skipped, why)
        } else if let Some(why) = &self.leaving {
            (Step::Failed, Why::new(Reason::RunGivenUp, why.message.clone()))
        } else if !self.hash.is_empty() && !turn.is_current {
            let message = format!(
                "the Plan goes to {} by now (hash {})",
                self.resolved.version, self.hash
            );
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else if !self.selects(turn.node) && !self.intent_is_broken() && hostless(turn.node).is_none() {
            let message = format!("the Plan does not select Node {} any more", turn.node.name);
            (Step::Skipped, Why::new(Reason::NotSelected, message))
        } else {
            return false;
        };
        if let Some((job, _)) = self.preparing(turn).filter(|_| !is_away) {
            let message = format!("Job {job} runs and comes to its end first: {}", why.message);
            self.say_turn(turn, turn.step(), Why::new(why.reason, message));
            return true;
        }
        if let Some((job, view)) = turn.job.filter(|(_, view)| view.paused && view.ended.is_none()) {
            self.delete_job(turn.node, job, view);
            let what = format!("Job {job}, which never began, is being deleted");
            let why = self.being_deleted(view, what);
            self.say_turn(turn, turn.step(), why);
            return true;
        }
        self.end(turn, step, &why);
        true
    }

    /// Ends the turn, and has another one begin, if nothing runs and the Plan says otherwise by now whether the node is in
    /// service while it changes; true if so.
    pub(super) fn begin_anew(&mut self, turn: &Turn<'a>) -> bool {
        let same = turn.change.spec.in_service != self.intent.cordons;
        let runs = turn.runs() || self.preparing(turn).is_some();
        if same || turn.is_changed() || runs || self.may_have_run(turn) {
            return false;
        }
        let failed = self.failed_jobs(turn);
        let paused = turn.job.filter(|(_, job)| job.paused && job.ended.is_none());
        let jobs: Vec<_> = failed.into_iter().chain(paused).collect();
        let message = "whether the Plan cordons has changed: its turn starts over";
        for (job, view) in &jobs {
            self.delete_job(turn.node, job, view);
        }
        let oldest = jobs
            .iter()
            .min_by_key(|(_, view)| view.deleting.unwrap_or(self.now));
        let why = if let Some((job, view)) = oldest {
            self.being_deleted(view, format!("Job {job} is being deleted: {message}"))
        } else {
            if let Some(patch) = cordon::restored(turn.node, &self.view.uid) {
                self.act(&turn.node.name, Action::PatchNode(patch), None);
            }
            self.release_lease(turn.node);
            self.forget(turn.node, turn.change);
            Why::new(Reason::Superseded, message)
        };
        self.say_turn(turn, turn.step(), why);
        true
    }

    pub(super) fn intent_is_broken(&self) -> bool {
        self.intent.of_selector.is_some()
    }

    /// Gives everything of a node back and ends its turn. One that the next version is to take up keeps its marks; one
    /// whose Job may still run, out of reach, keeps them until that is over (`restore`).
    pub(super) fn end(&mut self, turn: &Turn<'a>, step: Step, why: &Why) {
        let uid = &self.view.uid;
        let may_run = turn.runs() || self.preparing(turn).is_some();
        if may_run {
            // Whoever opened the node now would let pods onto one that changes.
        } else if why.reason != Reason::Superseded {
            if let Some(patch) = cordon::restored(turn.node, uid) {
                self.act(&turn.node.name, Action::PatchNode(patch), None);
            }
        } else if (turn.has_begun() || turn.was_begun() || turn.node.unschedulable && self.may_have_run(turn))
            && let Some(mark) = cordon::of(turn.node, uid).filter(|mark| !mark.done)
        {
            // The next turn must not take the Job's cordon for a person's.
            let patch = cordon::marking(turn.node, &CordonedBy { done: true, ..mark });
            self.act(&turn.node.name, Action::PatchNode(patch), None);
        }
        let mut journal = Journal::open(turn.change, self.now);
        journal.obey();
        journal.enter(step, Some(why));
        self.write(journal);
        if !may_run {
            self.release_lease(turn.node);
        }
        self.say_turn(turn, step, why.clone());
    }

    /// The last writes of a turn: labels, what was there before, the journal, the lease.
    pub(super) fn finish(&mut self, turn: &Turn<'a>, labels: &[(String, String)]) {
        let node = turn.node;
        let mut patch = cordon::restoring(node, &self.view.uid);
        // Labels of the Plan's own may be refused for ever: who gives the node back does not wait for them.
        let is_left = self.leaving.is_some() || directive::skipped(turn.change).is_some();
        for (key, value) in labels.iter().filter(|(key, _)| !is_left || *key == self.label) {
            let is_there = node.labels.get(key) == Some(value);
            // Somebody has left the node out of the Plan meanwhile.
            let is_disabled = *key == self.label && node.label(key) == marks::PLAN_DISABLED;
            if is_there || is_disabled || *key == self.label && value.is_empty() {
                continue;
            }
            patch
                .labels
                .push(Change::of(&node.labels, key, Some(value.clone())));
        }
        if !patch.labels.is_empty() || !patch.annotations.is_empty() {
            let event = (!labels.is_empty()).then(|| {
                let note = format!("Job completed on Node {}", node.name);
                Event::normal("JobComplete", EventAction::Complete, note)
            });
            self.act(&node.name, Action::PatchNode(patch), event);
        }
        let due = machine::remediation_unshields(self.observed, &self.view.uid, |of| of == node.name);
        self.out.actions.extend(due);
        let mut journal = Journal::open(turn.change, self.now);
        journal.enter(Step::Done, None);
        self.write(journal);
        self.release_lease(node);
        let why = Why::new(Reason::Done, "its Job is complete");
        self.say_turn(turn, Step::Done, why);
    }

    /// The cordon that the Plan has put on the node, or that its Job will.
    pub(super) fn cordon_of(&self, node: &NodeView) -> Option<CordonedBy> {
        cordon::of(node, &self.view.uid)
    }

    /// When the Job of the node was complete.
    pub(super) fn changed_at(&self, turn: &Turn<'a>) -> Timestamp {
        let ended = turn.job.and_then(|(_, job)| job.ended_at);
        let changed = turn.entered(Step::Changed);
        let changed = changed.and_then(|entry| journal::time(Some(&entry.at)));
        ended.or(changed).unwrap_or(self.now)
    }

    /// Until when a node whose Job is complete does not count as done (`spec.postCompleteDelay`).
    pub(super) fn delayed_until(&self, turn: &Turn<'a>) -> Timestamp {
        match self.intent.delay_seconds {
            0 => self.now,
            seconds => later(self.changed_at(turn), seconds),
        }
    }

    /// Whether the labels of a node that is done come in a write of their own, after it was put back: something is still to be waited
    /// for. Labels that no administrator has listed are refused, and no node stays cordoned for them.
    pub(super) fn labels_later(&self, turn: &Turn<'a>) -> bool {
        let delays = self.now < self.delayed_until(turn) || self.intent.soak_seconds > 0;
        let mut wanted = self.view.spec.post_complete_labels.iter().flatten();
        rules::any_runs_in(&self.rules_of(&turn.node.name), Phase::Post)
            || delays
            || wanted.any(|(key, _)| *key != self.label)
    }

    /// The Job is complete: the node is waited for until it is Ready.
    pub(super) fn await_node(&mut self, turn: &Turn<'a>) -> Next {
        let node = turn.node;
        if let Some(why) = self.gate_lost() {
            self.say_turn(turn, Step::Changed, why);
            return STAY;
        }
        if turn.step() == Step::Held {
            self.say_held(turn);
            return STAY;
        }
        let is_held = directive::held(turn.change).is_some() && self.leaving.is_none();
        let waits = !node.ready
            || is_held
            || rules::any_runs_in(&self.rules_of(&turn.node.name), Phase::BeforeUncordon)
            || self.labels_later(turn);
        if waits && turn.entered(Step::Changed).is_none() {
            self.note_change(turn);
            return STAY;
        }
        if !node.ready {
            let message = format!(
                "its Job is complete, Node {} is not Ready: {}",
                node.name,
                leave_out(&node.name)
            );
            self.say_turn(turn, Step::Changed, Why::new(Reason::NodeNotReady, message));
            return STAY;
        }
        ON
    }

    /// Journals that the Job is complete: it may be gone before the turn is over.
    fn note_change(&mut self, turn: &Turn<'a>) {
        let mut journal = Journal::open(turn.change, self.now);
        journal.enter(Step::Changed, None);
        let event = (self.now < self.delayed_until(turn)).then(|| {
            let note = format!(
                "Job completed on Node {}, waiting {} PostCompleteDelay",
                turn.node.name,
                super::duration::seconds_text(self.intent.delay_seconds)
            );
            Event::normal("JobCompleteWaiting", EventAction::Change, note)
        });
        self.out.actions.extend(journal.planned(event));
        let why = Why::new(Reason::Upgrading, "its Job is complete");
        self.say_turn(turn, Step::Changed, why);
    }

    /// Why nobody can say now of which hash a node is that is done: the Plan has no version, and its Job is gone. Without the label it would be
    /// upgraded once more when the version is back.
    pub(super) fn unnamed(&self, turn: &Turn<'a>) -> Option<Why> {
        if self.leaving.is_some() || !self.hash.is_empty() || !turn.hash.is_empty() {
            return None;
        }
        let label = &self.label;
        let why = self.unresolved().or_else(|| self.problem(false))?;
        let message = format!("its Job is complete, and label {label} waits: {}", why.message);
        Some(Why {
            message: message.into(),
            ..why
        })
    }

    /// The labels of a node that is done.
    pub(super) fn labels_of_done(&self, turn: &Turn<'a>) -> Vec<(String, String)> {
        let hash = if turn.is_current { &self.hash } else { turn.hash };
        let version = &turn.change.spec.target.version;
        let more = self.view.spec.post_complete_labels.iter().flatten();
        let more = more.filter(|(key, _)| **key != self.label);
        let more = more.map(|(key, value)| (key.clone(), filled(value, hash, version)));
        std::iter::once((self.label.clone(), hash.to_owned()))
            .chain(more)
            .collect()
    }
}

/// The value of a label of `spec.postCompleteLabels`.
pub(super) fn filled(value: &str, hash: &str, version: &str) -> String {
    value
        .replace("$(LATEST_HASH)", hash)
        .replace("$(LATEST_VERSION)", version)
}
