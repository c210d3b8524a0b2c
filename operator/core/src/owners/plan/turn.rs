//! A node that has its turn with a Plan: what the steps of `turn/steps.rs` are for it.
//!
//! By default one Job does it all: prepare, cordon or drain, upgrade. With `drainBy: Numo` a Job prepares, numo cordons and
//! drains, and a second Job upgrades.

use super::{
    edge,
    known::run_id,
    pass::Pass,
    told::{Turn, hostless},
};
use crate::{
    action::{Action, NodePatch, NodePurpose, PlanParts},
    admit::{
        gates::{self, Gate},
        wave_rules::Rules,
    },
    key::Key,
    ledger,
    mark::CordonedBy,
    observed::{ChangeView, NodeView, RuleView},
    probe::Look,
    quorum,
    report::NodeReport,
    time::later,
    turn::{
        closed,
        cordon::{self, OwnDrain, Uncordon},
        directive,
        journal::Journal,
        node::Holding,
        phases::Phases,
        steps::{self, Next, ON, Parts, STAY},
    },
    why::Why,
};
use numo_api::{Phase, Pin, Reason, Step};
use std::borrow::Cow;

/// A node on its way through the steps.
pub(super) struct Going<'p, 'a> {
    pub(super) pass: &'p mut Pass<'a>,
    pub(super) turn: Turn<'a>,
    /// The rules that the node must pass.
    pub(super) rules: Rules<'a>,
    /// Whether it was looked for what stands against the next step, and that.
    weighed: bool,
    closed: Option<Why>,
}

impl<'a> Pass<'a> {
    /// The rules that a node must pass.
    pub(super) fn rules_of(&self, node: &str) -> Cow<'_, [(Key, Option<&'a RuleView>)]> {
        self.wave_rules.of(node, &self.intent.rules, self.observed)
    }

    /// Moves a node that has its turn one step further.
    pub(super) fn advance(&mut self, node: &'a NodeView, change: &'a ChangeView) {
        let is_current = change.spec.target.run_id == self.run_id && !self.hash.is_empty();
        let pin = change.status.pin.as_ref();
        let failed = pin.and_then(|pin| pin.failed_job.as_deref());
        let found = self.jobs_on(&node.name).find(|(_, job)| {
            !job.prepares
                && run_id(&self.view.uid, &job.hash) == change.spec.target.run_id
                && failed != Some(job.uid.as_str())
        });
        let hash: &'a str = found.map_or("", |(_, job)| job.hash.as_str());
        let turn = Turn {
            node,
            change,
            job: found,
            hash,
            is_current,
        };
        let starts_over = change.is_copied() && directive::retried(change).is_some();
        let mark = cordon::of(node, &self.view.uid).filter(|mark| !mark.prior && node.unschedulable);
        if let Some(mark) = mark.filter(|mark| starts_over && !mark.done) {
            // The turn that starts over must not take the Job's cordon for a person's.
            let patch = cordon::marking(node, &CordonedBy { done: true, ..mark });
            self.act(&node.name, Action::PatchNode(patch), None);
        }
        if self.may_have_run(&turn) {
            // Nothing else tells so until it is journaled.
            self.applies(node);
        }
        let rules = self.rules_of(&node.name).into_owned();
        steps::advance(&mut Going {
            pass: self,
            turn,
            rules,
            weighed: false,
            closed: None,
        });
    }

    pub(super) fn say_turn(&mut self, turn: &Turn<'a>, step: Step, why: Why) {
        self.say(turn.node, step, why, Some(turn.change));
    }

    pub(super) fn write(&mut self, journal: Journal<'_>) {
        self.out.actions.extend(journal.planned(None));
    }

    /// What keeps the next step of a node that has not begun.
    fn weigh_gates(&mut self, turn: &Turn<'a>) -> Option<Why> {
        // Its Job could start no pod.
        let not_ready = || {
            let refused = self.intent.not_ready().refusal(turn.node);
            refused.filter(|_| !turn.is_disrupted())
        };
        // What was cordoned, or has run already, is brought to its end: the other Plan may wait for the place that this node
        // fills in a budget.
        let waits = || {
            // Each turn that is given back begins another attempt: their number says nothing of what was done to the node.
            let waits =
                || edge::waits(self.view, self.observed, &self.resolved.version).or_else(|| self.outside());
            (!turn.is_disrupted()).then(waits).flatten()
        };
        let of_owner = || {
            let problem = self.problem(!turn.is_disrupted());
            gates::of_owner(problem, self.intent.suspended.as_ref())
        };
        let against = gates::weigh(self.asked == Some(turn.node.name.as_str()), |gate| match gate {
            Gate::Owner => of_owner().next(),
            Gate::Waits => waits(),
            Gate::Window => {
                let closed = || self.intent.schedule.closed_to(turn.node, self.observed, self.now);
                (!turn.is_disrupted()).then(closed).flatten()
            }
            Gate::Approval => {
                let unapproved = || self.approvals.refusal(&self.waves, &turn.node.name);
                (!turn.is_disrupted()).then(unapproved).flatten()
            }
            Gate::Stop => ledger::stop(self.observed, turn.node),
            Gate::Person => directive::held(turn.change),
            Gate::State => not_ready(),
            Gate::Unfit => hostless(turn.node),
            Gate::Quorum => quorum::refusal_of_turn(self.observed, turn.node, turn.change),
            // They were free when the turn began, and what came since waits for this node.
            Gate::Unread
            | Gate::Leaving
            | Gate::Busy
            | Gate::Lease
            | Gate::Wave
            | Gate::Domain
            | Gate::Room
            | Gate::Budget
            | Gate::Drain => None,
        });
        against.and_of_owner(of_owner).worst(&mut self.out.report)
    }

    /// Says that the turn is closed. Before the first disruption it is given back once it was for too long.
    pub(super) fn close(&mut self, turn: &Turn<'a>, step: Step, why: Why) {
        let preparing = self.preparing(turn);
        if turn.is_disrupted() || preparing.is_some_and(|(_, job)| !job.untouched) {
            return self.say_turn(turn, step, why);
        }
        if closed::expires(turn.change, self.now) {
            // What one prepared may be outdated by the time of the next turn; one that no kubelet takes up is made anew.
            let untouched = turn.job.filter(|_| turn.is_untouched());
            let jobs = self.prepared(turn).into_iter().chain(preparing).chain(untouched);
            for (job, view) in jobs.collect::<Vec<_>>() {
                self.delete_job(turn.node, job, view);
            }
        }
        let restored = closed::close(&mut self.out, turn.change, &why, self.now);
        let step = if restored { Step::Selected } else { step };
        self.say_turn(turn, step, why);
    }
}

impl steps::Turn for Going<'_, '_> {
    fn parts(&mut self) -> Parts<'_> {
        let pass = &mut *self.pass;
        Parts {
            phases: Phases {
                owner: pass.owner,
                owner_uid: &pass.view.uid,
                rules: &self.rules,
                pool: "",
                to_version: &pass.resolved.version,
                observed: pass.observed,
                answers: pass.answers,
                now: pass.now,
            },
            node: self.turn.node,
            change: self.turn.change,
            out: &mut pass.out,
        }
    }

    fn say(&mut self, step: Step, why: Why) {
        if why.reason == Reason::JournalContradicts {
            return self.pass.stand_still(self.turn.node, self.turn.change, why);
        }
        self.pass.say_turn(&self.turn, step, why);
    }

    fn end_if_unwanted(&mut self) -> Next {
        let (pass, turn) = (&mut *self.pass, &self.turn);
        if turn.is_current && turn.node.label(&pass.label) == pass.hash && !turn.runs() {
            pass.finish(turn, &[]);
            return STAY;
        }
        if pass.gives_up(turn) || pass.begin_anew(turn) {
            STAY
        } else {
            ON
        }
    }

    fn holding(&self) -> Option<Holding> {
        Some(self.pass.holding(&self.turn))
    }

    fn note_taking(&mut self) {
        if self.turn.has_begun() {
            self.pass.applies(self.turn.node);
        }
    }

    fn obey(&mut self) -> Next {
        let (pass, turn) = (&mut *self.pass, &self.turn);
        if pass.retries(turn) || pass.removes_failed(turn) {
            return STAY;
        }
        if !turn.has_begun() && turn.step() == Step::Held {
            // Its Job may be gone by now: it is a person's all the same.
            pass.say_held(turn);
            return STAY;
        }
        if pass.may_have_run(turn) {
            pass.lose_unseen(turn);
            return STAY;
        }
        ON
    }

    fn leaving(&self) -> Option<Reason> {
        self.pass.leaving.as_ref().map(|why| why.reason)
    }

    /// A Job that runs comes to its end, which is to be seen.
    fn heeds_marks(&self) -> bool {
        self.leaving().is_none() && (!self.is_released() || self.turn.tells_of_change())
    }

    fn before(step: Step) -> Option<&'static [Step]> {
        match step {
            // Its soak is told by its verdicts, and its end by the Job, unless their times have not come.
            Step::Soaked => Some(&[Step::Changed]),
            Step::Uncordoned => None,
            _ => Some(&[]),
        }
    }

    fn rules_of_wave(&self) -> Option<Vec<String>> {
        self.pass.wave_rules.to_keep(&self.turn.node.name)
    }

    fn asked(&self) -> Option<&NodeReport> {
        let asked = self.pass.asked.filter(|asked| *asked == self.turn.node.name)?;
        self.pass.out.report.nodes.get(asked)
    }

    fn is_released(&self) -> bool {
        self.turn.has_begun()
    }

    fn weigh_gates(&mut self, _phase: Phase) -> Option<Why> {
        if !std::mem::replace(&mut self.weighed, true) {
            self.closed = self.pass.weigh_gates(&self.turn);
        }
        self.closed.clone()
    }

    fn make_ready(&mut self, closed: Option<&Why>) -> Next {
        if !self.drains() {
            return ON;
        }
        self.prepare(closed)
    }

    fn own_drain(&self) -> Option<OwnDrain> {
        self.drains_so()
    }

    /// A Job that drains meets a budget that lets no pod go only once the node is cordoned.
    fn probe(&mut self) -> Option<Look> {
        let begins = !self.drains() && self.turn.job.is_none() && !self.turn.change.spec.in_service;
        begins.then(|| self.look_at_drain()).flatten()
    }

    fn release(&mut self) {
        let parts = if self.drains() {
            PlanParts::Upgrade
        } else {
            PlanParts::All
        };
        let (pass, turn) = (&mut *self.pass, &self.turn);
        if pass.create_job(turn, parts)
            && let Some((job, view)) = turn.job
            && view.paused
        {
            let action = Action::StartPlanJob {
                job: job.clone(),
                uid: view.uid.clone(),
            };
            pass.act(&turn.node.name, action, None);
        }
    }

    fn await_change(&mut self) -> Next {
        let (pass, turn) = (&mut *self.pass, &self.turn);
        pass.applies(turn.node);
        // A Job that runs is not complete, whatever the journal says.
        if turn.entered(Step::Changed).is_none() || turn.runs() {
            pass.await_job(turn)?;
        }
        pass.await_node(turn)
    }

    fn asks(&self, phase: Phase) -> bool {
        // Who has opened the node has let pods onto it: nothing is left to ask before.
        phase != Phase::BeforeUncordon || self.pass.cordon_of(self.turn.node).is_some()
    }

    fn uncordon(&self) -> Option<Uncordon> {
        let (pass, node) = (&*self.pass, self.turn.node);
        let mark = pass.cordon_of(node).filter(|_| pass.labels_later(&self.turn))?;
        let mut patch = NodePatch::of(node, NodePurpose::Uncordon);
        cordon::uncordon(&mut patch, node, mark.prior);
        Some(Uncordon {
            patch,
            event: None,
            words: "it is being uncordoned",
        })
    }

    /// For `spec.postCompleteDelay`, and then for `soakSeconds` after the last verdict, or else the change.
    fn soak(&mut self) -> Next {
        let (mut changed, seconds) = (self.pass.changed_at(&self.turn), self.pass.intent.delay_seconds);
        if seconds > 0 {
            changed = steps::since(self, changed)?;
        }
        let (pass, turn) = (&mut *self.pass, &self.turn);
        let delay = later(changed, seconds);
        if seconds > 0 && pass.now < delay {
            pass.out.wake(delay);
            let message =
                format!("its Job is complete, it counts as done at {delay} (spec.postCompleteDelay)");
            let why = Why::new(Reason::CompleteDelay, message).until(delay);
            pass.say_turn(turn, Step::Uncordoned, why);
            return STAY;
        }
        let since = steps::last_verdict(turn.change).map_or(changed, |last| last.max(changed));
        let soak_seconds = pass.intent.soak_seconds;
        steps::soak(self, since, soak_seconds)
    }

    fn finish(&mut self) {
        if let Some(why) = self.pass.unnamed(&self.turn) {
            return self.pass.say_turn(&self.turn, self.turn.step(), why);
        }
        let labels = self.pass.labels_of_done(&self.turn);
        self.pass.finish(&self.turn, &labels);
    }

    fn close(&mut self, step: Step, why: Why) {
        self.pass.close(&self.turn, step, why);
    }

    fn may_leave_out(&self) -> bool {
        !self.turn.has_begun()
    }

    fn leave_out(&mut self, why: Why) {
        self.pass.end(&self.turn, Step::Skipped, &why);
    }

    /// The node is held, and the Plan begins no other one (`Pass::hold`).
    fn abort(&mut self, why: Why) {
        let why = Why::new(Reason::Aborted, why.message);
        self.pass.hold_node(&self.turn, why, None);
    }

    /// Only a later edit of the Plan is a reason to try the node again.
    fn pin_of_held(&self) -> Option<Pin> {
        Some(self.pass.pinned(&self.turn))
    }
}
