//! A node that has its turn in a NodeMaintenance: what the steps of `turn/steps.rs` are for it. Its release is the cordon; it counts as
//! changed, and is put back, once the object is deleted.

use super::{
    known::only_one_skipped,
    leave::{PUTTING_BACK, giving_back},
    node::cordoning,
    pass::Pass,
};
use crate::{
    action::Action,
    admit::{
        gates::{self, Gate},
        windows,
    },
    key::Key,
    mark::CordonedBy,
    observed::{ChangeView, LeaseView, NodeView},
    probe::{self, Look},
    report::{MaintenancePhase, NodeReport},
    rules,
    turn::{
        cordon::Uncordon,
        directive, failed,
        journal::{self, Journal},
        node::Holding,
        phases::Phases,
        steps::{self, Next, ON, Parts, STAY},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Phase, Reason, Step};

/// One node's turn.
struct Turn<'p, 'a> {
    pass: &'p mut Pass<'a>,
    node: &'a NodeView,
    change: &'a ChangeView,
    /// The mark of the cordon of this maintenance, though somebody took it off.
    cordon: Option<CordonedBy>,
}

impl<'a> Pass<'a> {
    /// One step further with a node that has its turn.
    pub(super) fn advance(&mut self, node: &'a NodeView, change: &'a ChangeView) {
        if !self.view.deleting {
            self.report.phase = MaintenancePhase::Running;
        }
        let cordon = self.cordon_of(node, Some(change), !self.view.deleting);
        let own = self.intent.schedule.changes_after(self.now);
        let changes = own
            .into_iter()
            .chain(windows::changes_after(self.observed, self.now));
        if let Some(at) = changes.min().filter(|_| cordon.is_none()) {
            self.wake(at);
        }
        steps::advance(&mut Turn {
            pass: self,
            node,
            change,
            cordon,
        });
    }
}

impl Pass<'_> {
    /// A person asks for the rules once more.
    pub(super) fn retries(&mut self, change: &ChangeView) -> bool {
        let Some(why) = directive::retried(change) else {
            return false;
        };
        // A node that was left out has given its turn back: others may have it now.
        let step = if change.in_flight() {
            Step::Admitted
        } else {
            Step::Selected
        };
        let journal = directive::next_attempt(change, step, &why, self.now);
        self.out.actions.extend(journal.planned(None));
        self.say(step, why, Some(change));
        true
    }

    /// A person leaves the node out: its cordon, taints, shield and lease are given back. Whether that is so.
    fn skips(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let Some(why) = only_one_skipped(change) else {
            return false;
        };
        if self.put_back(Some(node)) {
            self.release_lease(true);
            let journal = directive::leave_out(change, &why, self.now);
            self.out.actions.extend(journal);
        }
        // Nobody may take the node for one that is in maintenance.
        self.report.phase = MaintenancePhase::Failed;
        self.say(Step::Skipped, why, Some(change));
        true
    }
}

impl steps::Turn for Turn<'_, '_> {
    fn parts(&mut self) -> Parts<'_> {
        let pass = &mut *self.pass;
        Parts {
            phases: Phases {
                owner: &pass.view.owner,
                owner_uid: &pass.view.uid,
                rules: &pass.intent.rules,
                pool: "",
                to_version: "",
                observed: pass.observed,
                answers: pass.answers,
                now: pass.now,
            },
            node: self.node,
            change: self.change,
            out: &mut pass.out,
        }
    }

    fn say(&mut self, step: Step, why: Why) {
        self.pass.say(step, why, Some(self.change));
    }

    fn rules_of_wave(&self) -> Option<Vec<String>> {
        let rules = self.pass.intent.wave_rules.as_ref()?.iter();
        Some(rules.map(Key::to_string).collect())
    }

    fn end_if_unwanted(&mut self) -> Next {
        // What is over is put back whatever a person said of it before.
        let skips = !self.pass.view.deleting && self.pass.skips(self.node, self.change);
        if skips { STAY } else { ON }
    }

    fn holding(&self) -> Option<Holding> {
        let holding = self.pass.holding(self.node);
        // Of one that is on its way back only the lease is kept.
        Some(if self.pass.view.deleting {
            Holding {
                keeps_only: true,
                shield: None,
                machines: Vec::new(),
                ..holding
            }
        } else {
            holding
        })
    }

    fn heed_lease(&mut self, lease: &LeaseView, until: Timestamp) -> Next {
        if self.pass.view.deleting {
            return ON;
        }
        let was_cordoned = self.cordon.is_some() || journal::entered(self.change, Step::Cordoned).is_some();
        let turn = (self.node, self.change);
        self.pass.heed_lease(turn, was_cordoned, (lease, until))
    }

    fn note_taking(&mut self) {
        self.pass.note_taking(self.change);
    }

    fn obey(&mut self) -> Next {
        if self.is_released() {
            return ON;
        }
        if self.pass.retries(self.change) {
            return STAY;
        }
        if failed::is_held(self.change) {
            failed::say_held(self);
            return STAY;
        }
        ON
    }

    fn leaving(&self) -> Option<Reason> {
        self.pass.view.deleting.then_some(Reason::Deleting)
    }

    fn before(step: Step) -> Option<&'static [Step]> {
        match step {
            Step::Released | Step::Changed | Step::Uncordoned => None,
            Step::Soaked => Some(&[Step::Cordoned]),
            _ => Some(&[]),
        }
    }

    fn asked(&self) -> Option<&NodeReport> {
        let nodes = &self.pass.out.report.nodes;
        self.pass.asked.then(|| nodes.get(&self.node.name)).flatten()
    }

    fn is_released(&self) -> bool {
        self.cordon.is_some() || self.pass.view.deleting
    }

    /// Quorum too: the rules may have taken hours.
    fn weigh_gates(&mut self, _phase: Phase) -> Option<Why> {
        let against = gates::weigh(self.pass.asked, |gate| match gate {
            Gate::Owner => self.pass.of_owner().next(),
            Gate::Person => directive::held(self.change),
            Gate::State => self.pass.not_ready(self.node),
            Gate::Approval => self.pass.ask_approval(self.node),
            gate => self.pass.at_any_time(self.node, gate),
        });
        let against = against.and_of_owner(|| self.pass.of_owner());
        against.worst(&mut self.pass.out.report)
    }

    fn probe(&mut self) -> Option<Look> {
        let options = Some(&self.pass.intent.drain).filter(|options| options.probe)?;
        let known = (self.pass.answers, self.pass.now);
        Some(probe::look(self.pass.observed, self.node, options, known))
    }

    fn close(&mut self, step: Step, why: Why) {
        self.pass.close(step, why, self.change);
    }

    fn release(&mut self) {
        let patch = cordoning(self.node, self.pass.view, self.pass.group, 0);
        self.pass.act(Action::PatchNode(patch), None);
        self.say(Step::Cordoned, Why::new(Reason::Draining, "it is being cordoned"));
    }

    fn await_change(&mut self) -> Next {
        if !self.pass.view.deleting {
            if let Some(mark) = &self.cordon
                && !self.pass.marks_again(self.node, self.change, mark)
            {
                self.pass.keep_drained(self.node, self.change, mark);
            }
            return STAY;
        }
        let asks = [Phase::BeforeUncordon, Phase::Post]
            .into_iter()
            .any(|phase| self.asks(phase) && rules::any_runs_in(&self.pass.intent.rules, phase));
        let is_asking = matches!(
            self.change.status.step,
            Some(Step::Ready | Step::PostRules | Step::Soaked)
        );
        if !asks || is_asking {
            return ON;
        }
        // Their time begins now, not when the node was drained.
        let mut journal = Journal::open(self.change, self.pass.now);
        journal.enter(Step::Ready, None);
        self.pass.out.actions.extend(journal.planned(None));
        let why = Why::new(Reason::Restoring, "its rules are evaluated before it is restored");
        self.say(Step::Ready, why);
        STAY
    }

    fn asks(&self, phase: Phase) -> bool {
        let status = &self.change.status;
        match phase {
            Phase::BeforeUncordon => self.cordon.is_some(),
            Phase::Post => {
                let mut entries = status.entries.iter();
                entries.any(|entry| entry.step == Step::Cordoned) || !status.verdicts.is_empty()
            }
            _ => true,
        }
    }

    fn uncordon(&self) -> Option<Uncordon> {
        let (patch, event) = self.pass.uncordoning(self.node, Some(self.cordon.as_ref()?));
        Some(Uncordon {
            patch,
            event,
            words: PUTTING_BACK,
        })
    }

    /// For `soakSeconds` of its bindings after the last rules; a node that was never cordoned has nothing to settle.
    fn soak(&mut self) -> Next {
        let soak_seconds = self.pass.intent.soak_seconds;
        let mut entries = self.change.status.entries.iter();
        if soak_seconds == 0 || !entries.any(|entry| entry.step == Step::Cordoned) {
            return ON;
        }
        let soaked = self.change.status.step == Some(Step::Soaked);
        if !soaked {
            let mut journal = Journal::open(self.change, self.pass.now);
            journal.enter(Step::Soaked, None);
            self.pass.out.actions.extend(journal.planned(None));
        }
        let since = Some(self.change.status.since.as_deref()).filter(|_| soaked);
        let since = since.and_then(journal::time).unwrap_or(self.pass.now);
        steps::soak(self, since, soak_seconds)
    }

    fn finish(&mut self) {
        self.pass.free_node();
        self.pass.release_lease(true);
        let mut journal = Journal::open(self.change, self.pass.now);
        journal.enter(Step::Done, Some(&Why::new(Reason::Done, "the node is as it was")));
        self.pass.out.actions.extend(journal.planned(None));
        self.say(Step::Uncordoned, giving_back());
    }

    /// Deletion must end: the failure is in the journal, and was said.
    fn go_on_failed(&mut self, _phase: Phase, _why: &Why) -> Option<Next> {
        self.pass.view.deleting.then_some(ON)
    }

    /// Nothing was done to the node yet; what is held of it goes once its turn is over (`Pass::stay_out`).
    fn leave_out(&mut self, why: Why) {
        let journal = directive::leave_out(self.change, &why, self.pass.now);
        self.pass.out.actions.extend(journal);
        self.pass.report.phase = MaintenancePhase::Failed;
        self.say(Step::Skipped, why);
    }

    /// A maintenance has one node: to give it up is to leave that node out.
    fn abort(&mut self, why: Why) {
        self.leave_out(why);
    }
}
