//! The Jobs of a node that has its turn with a Plan: made, started, waited for, and judged. What runs is never killed.

use super::{
    known::{VERBS, job_name, run_id},
    pass::Pass,
    told::{Turn, is_windows},
};
use crate::{
    action::{Action, Event, EventAction, PlanJobRequest, PlanParts},
    drain,
    key::Key,
    ledger,
    observed::{JobEnd, NodeView, PlanJobView},
    text::counted,
    time::{STUCK_SECONDS, later},
    turn::{
        closed,
        journal::{self, Journal},
        steps::{Next, ON, STAY},
        ungated::{not_passed, released_by_other},
    },
    why::Why,
};
use numo_api::{Reason, Step, conditions::Actor, marks::openshift};

/// How to go on without a node that is out of reach.
pub(super) fn leave_out(node: &str) -> String {
    format!("repair it, and it continues; `numo skip {node}` leaves it out, so that the other nodes continue")
}

impl<'a> Pass<'a> {
    /// The host name is in `status.applying` while the node is being upgraded, and before its Job can look.
    pub(super) fn applies(&mut self, node: &'a NodeView) -> bool {
        let host = node.label(openshift::HOSTNAME);
        self.applying.insert(&node.name, host.to_owned());
        self.is_applying(node)
    }

    /// Whether the host name is in `status.applying` as it was read.
    pub(super) fn is_applying(&self, node: &NodeView) -> bool {
        let host = node.label(openshift::HOSTNAME);
        let mut written = self.view.status.applying.iter().flatten();
        written.any(|known| known == host)
    }

    pub(super) fn request(&self, turn: &Turn<'a>, parts: PlanParts) -> PlanJobRequest {
        let verb = VERBS[usize::from(parts == PlanParts::Prepare)];
        let name = job_name(verb, &self.view.key.name, &turn.node.name, &self.hash);
        PlanJobRequest {
            job: Key::new(&self.view.key.namespace, name),
            plan: self.view.key.clone(),
            node: turn.node.name.clone(),
            hostname: turn.node.label(openshift::HOSTNAME).to_owned(),
            windows: is_windows(turn.node),
            version: self.resolved.version.clone(),
            hash: self.hash.clone(),
            parts,
        }
    }

    /// Creates the Job, once the node is in `status.applying`; true once it is there.
    pub(super) fn create_job(&mut self, turn: &Turn<'a>, parts: PlanParts) -> bool {
        let key = (
            turn.node.name.as_str(),
            self.hash.as_str(),
            parts == PlanParts::Prepare,
        );
        let known = self.jobs.get(&key).copied();
        let request = self.request(turn, parts);
        if let Some(why) = self.in_the_way(turn, known, &request.job) {
            self.say_turn(turn, Step::PreRelease, why);
            return false;
        }
        if known.is_none() && !self.tell_first(turn) {
            return false;
        }
        let is_written = self.applies(turn.node);
        if !is_written {
            self.out.wake(self.now);
        } else if known.is_none() {
            self.act(&turn.node.name, Action::CreatePlanJob(Box::new(request)), None);
        }
        let why = Why::new(Reason::UpgradeStarting, "its Job is about to start");
        self.say_turn(turn, Step::PreRelease, why);
        is_written && known.is_some()
    }

    /// The Job that must go before one can be made. The node is not in `status.applying` for it: none is about to be made.
    fn in_the_way(&mut self, turn: &Turn<'a>, known: Option<(&Key, &PlanJobView)>, job: &Key) -> Option<Why> {
        if let Some((job, view)) = known {
            let what = format!("Job {job} is being deleted");
            return view.deleting.is_some().then(|| self.being_deleted(view, what));
        }
        let other = self.observed.plan_jobs.get(job)?;
        let what = format!(
            "Job {job} exists already, for Node {} of Plan {}",
            other.node, other.plan
        );
        if other.deleting.is_none() && !self.stale.iter().any(|(key, _)| *key == job) {
            // Nobody may be about to delete it.
            let since = journal::time(turn.change.status.since.as_deref());
            let stuck = later(since.unwrap_or(self.now), STUCK_SECONDS);
            if stuck <= self.now {
                let message = format!(
                    "{what}: delete it, and the upgrade of Node {} goes on",
                    turn.node.name
                );
                return Some(Why::new(Reason::UpgradeCannotStart, message));
            }
            self.out.wake(stuck);
        }
        Some(self.being_deleted(other, format!("{what}: it is waited for until it is gone")))
    }

    /// The Job that prepares the node for numo's drain, while it runs.
    pub(super) fn preparing(&self, turn: &Turn<'a>) -> Option<(&'a Key, &'a PlanJobView)> {
        let mut here = self.jobs_on(&turn.node.name);
        here.find(|(_, job)| {
            job.prepares
                && !job.paused
                && job.ended.is_none()
                && run_id(&self.view.uid, &job.hash) == turn.change.spec.target.run_id
        })
    }

    /// The Job that has prepared the node for numo's drain.
    pub(super) fn prepared(&self, turn: &Turn<'a>) -> Option<(&'a Key, &'a PlanJobView)> {
        let key = (turn.node.name.as_str(), self.hash.as_str(), true);
        let found = self.jobs.get(&key).copied();
        found.filter(|(_, job)| job.ended.is_some() && job.deleting.is_none())
    }

    /// Journals how far the Job that prepares the node has come.
    pub(super) fn note_prepare(&mut self, turn: &Turn<'a>, why: &Why) {
        let mut journal = Journal::open(turn.change, self.now);
        journal.enter(Step::PreRules, Some(why));
        self.write(journal);
    }

    /// A Job of the turn has begun. If its node is out of reach before any kubelet took it up, the turn is closed;
    /// otherwise it is waited for, and people hear how to go on without the node.
    pub(super) fn goes_on(&mut self, turn: &Turn<'a>, step: Step, (job, view): (&Key, &PlanJobView)) {
        let node = turn.node;
        if node.ready {
            closed::reopen(&mut self.out, turn.change, self.now);
            let why = self.upgrading(turn, job, view);
            return self.say_turn(turn, step, why);
        }
        let leave = leave_out(&node.name);
        if !view.untouched {
            let why = self.upgrading(turn, job, view);
            let message = format!("{}; Node {} is not Ready: {leave}", why.message, node.name);
            // Whatever is to start, it is for the node to come back.
            let reason = match why.reason {
                Reason::UpgradeStarting => Reason::Upgrading,
                other => other,
            };
            let why = Why::new(reason, message);
            if let Some(at) = ledger::given_up_at(node).filter(|at| *at > self.now) {
                self.out.wake(at);
                return self.say_turn(turn, step, why);
            }
            return self.say_turn(turn, step, why.ended_by(Actor::ClusterAdmin));
        }
        let message = format!(
            "Node {} is not Ready, and no kubelet has taken up Job {job}",
            node.name
        );
        if self.intent.take_not_ready || turn.is_disrupted() {
            let why = Why::new(Reason::NodeNotReady, format!("{message}: {leave}"));
            return self.say_turn(turn, step, why);
        }
        self.close(turn, step, Why::new(Reason::NodeNotReady, message));
    }

    /// What the Job does, and what it waits for.
    pub(super) fn upgrading(&mut self, turn: &Turn<'a>, job: &Key, view: &PlanJobView) -> Why {
        if let Some((reason, message)) = &view.trouble {
            let message = format!("Job {job} cannot start a pod: {reason}: {message}");
            return Why::new(Reason::UpgradeCannotStart, message);
        }
        let Some(runs) = &view.runs else {
            return Why::new(Reason::UpgradeStarting, format!("Job {job} starts its pod"));
        };
        if runs == "drain"
            && let Some(options) = self.intent.drain.clone()
            && turn.node.unschedulable
        {
            let found = drain::drain(
                self.observed,
                turn.node,
                &options,
                self.now,
                (self.answers, self.now),
            );
            if let Some(found) = found
                && let Some(why) = found.why
            {
                let message = format!(
                    "Job {job} drains it, {} left: {}",
                    counted(found.pending.len(), "pod"),
                    why.message
                );
                return Why::new(why.reason, message);
            }
        }
        Why::new(Reason::Upgrading, format!("Job {job} runs: {runs}"))
    }

    /// Journals that the Job has begun, and on which boot.
    pub(super) fn note_release(&mut self, turn: &Turn<'a>) {
        let why = self.is_ungated(turn).then(|| {
            let words = released_by_other(&self.rules_of(&turn.node.name), &turn.change.status);
            Why::new(Reason::Ungated, words)
        });
        let mut journal = Journal::open(turn.change, self.now);
        journal.status.pin = Some(self.pinned(turn));
        journal.enter(Step::Released, why.as_ref());
        if let Some(why) = &why {
            let all = &mut self.out.report.ungated;
            all.insert(turn.node.name.clone(), why.message.to_string());
        }
        let event = why.map(|why| {
            Event::warning("Ungated", EventAction::Release, why.message.to_string()).on(&turn.node.name)
        });
        self.out.actions.extend(journal.planned(event));
    }

    /// Whether a Job that has begun was begun by somebody else, before the rules of the node had passed.
    pub(super) fn is_ungated(&self, turn: &Turn<'a>) -> bool {
        turn.entered(Step::Released).is_none()
            && not_passed(&self.rules_of(&turn.node.name), &turn.change.status).is_some()
    }

    /// The Job of the node has begun: it is waited for, and judged.
    pub(super) fn await_job(&mut self, turn: &Turn<'a>) -> Next {
        let Some((job, view)) = turn.job else {
            if turn.step() == Step::Held {
                self.say_held(turn);
            } else if self.has_deleted_job(turn) {
                self.restore_unbegun(turn);
            } else {
                self.lose_job(turn);
            }
            return STAY;
        };
        match &view.ended {
            Some(JobEnd::Complete) if self.is_ungated(turn) => {
                self.note_release(turn);
                let why = Why::new(Reason::Upgrading, "its Job is complete");
                self.say_turn(turn, Step::Released, why);
            }
            Some(JobEnd::Complete) => return ON,
            Some(end) => self.failed(turn, (job, view), end),
            None if view.deleting.is_some() => {
                let why = self.being_deleted(view, format!("Job {job} is being deleted"));
                self.say_turn(turn, Step::Released, why);
            }
            None if turn.entered(Step::Released).is_none() => {
                self.note_release(turn);
                let why = self.upgrading(turn, job, view);
                self.say_turn(turn, Step::Released, why);
            }
            None => self.goes_on(turn, Step::Released, (job, view)),
        }
        STAY
    }
}
