//! A node that waits for its maintenance: what stands against it, and how its turn begins.

use super::{
    intent::{no_room, spent},
    known::{only_one_newly_skipped, reservation, run_id},
    lease::lease,
    pass::{Pass, held},
    waves::Order,
};
use crate::{
    admit::{
        gates::{Gate, when},
        queue::Queue,
        schedule::Schedule,
    },
    decision::Decision,
    drain,
    key::Key,
    ledger::{self, Ledger},
    observed::{ChangeView, NodeView, Observed},
    report::MaintenancePhase,
    rules::{self, Admission, Subject},
    turn::{
        directive,
        journal::Journal,
        lease::Lease,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Step};

/// The node of a maintenance that has no turn.
pub(super) struct Waiting<'p, 'a> {
    pub(super) pass: &'p mut Pass<'a>,
    pub(super) node: &'a NodeView,
    /// Its journal: of a turn that was given back, or what a person said.
    pub(super) said: Option<&'a ChangeView>,
    /// How it stands among others, and what was approved.
    pub(super) order: Order<'a>,
}

impl Waiting<'_, '_> {
    /// What keeps the maintenance as a whole, worst first.
    fn of_owner(&self) -> impl Iterator<Item = Why> + '_ {
        let of_owner = self.pass.of_owner();
        of_owner
            .chain(when(move || {
                spent(&self.pass.intent.failure_budgets, self.pass.observed)
            }))
            .chain(when(move || self.order.waves.failures_spent()))
    }
}

impl<'a> Queue<'a> for Waiting<'_, 'a> {
    type One = ();

    fn seen(&self) -> (&'a Observed, &'a Answers, Timestamp) {
        (self.pass.observed, self.pass.answers, self.pass.now)
    }

    fn out(&mut self) -> &mut Decision {
        &mut self.pass.out
    }

    fn waiting(&mut self) -> Vec<()> {
        vec![()]
    }

    fn node(&self, (): ()) -> &'a NodeView {
        self.node
    }

    fn change(&self, (): ()) -> Option<&'a ChangeView> {
        self.said
    }

    fn schedule(&self) -> &Schedule<'a> {
        &self.pass.intent.schedule
    }

    fn is_asked(&self, (): ()) -> bool {
        self.pass.asked
    }

    fn sort_out(&mut self, (): (), _ledger: &mut Ledger<'a>) -> Next {
        let skipped = self.said.and_then(|change| {
            let why = only_one_newly_skipped(change)?;
            let journal = directive::leave_out(change, &why, self.pass.now);
            self.pass.out.actions.extend(journal);
            Some(why)
        });
        let Some(why) = skipped.or_else(|| self.pass.intent.not_ready.given_up(self.node, self.pass.now))
        else {
            return ON;
        };
        // Nobody may take the node for one that is in maintenance.
        self.pass.report.phase = MaintenancePhase::Failed;
        self.pass.say(Step::Skipped, why, self.said);
        STAY
    }

    fn against(&mut self, (): (), gate: Gate) -> Option<Why> {
        let (view, observed, now) = (self.pass.view, self.pass.observed, self.pass.now);
        let name = self.node.name.as_str();
        match gate {
            Gate::Owner => self.of_owner().next(),
            Gate::Person => self.said.and_then(directive::held),
            Gate::Busy => {
                let other = observed.turn_of_other(self.node, &view.uid)?;
                Some(ledger::busy(observed, name, other, now))
            }
            Gate::Lease => match lease(observed, name, now) {
                Lease::Held(lease, until) => Some(held(name, lease, until)),
                Lease::None(_) | Lease::Ours(_) | Lease::Due(_) | Lease::Free(_) => None,
            },
            Gate::State => self.pass.not_ready(self.node),
            Gate::Wave => self.order.waves.refusal(name),
            Gate::Domain => self.order.domains.as_ref()?.refusal(self.node),
            Gate::Approval => self.order.not_approved(name),
            Gate::Room => no_room(&self.pass.intent.settings, observed, self.node, now)
                .or_else(|| self.order.waves.no_room(self.node)),
            gate => self.pass.at_any_time(self.node, gate),
        }
    }

    fn against_owner(&self) -> Vec<Why> {
        self.of_owner().collect()
    }

    fn admission(&self, (): ()) -> Admission {
        let (pass, node) = (&self.pass, self.node);
        let run = run_id(pass.view);
        let attempt = self.said.map_or(0, |change| change.status.attempt);
        let subject = Subject {
            run: &run,
            ..Subject::waiting(&pass.view.owner, &pass.view.uid, node, attempt)
        };
        rules::admission(&pass.intent.rules, &subject, pass.observed, pass.now)
    }

    fn take_place(&mut self, (): (), _is_asked_about: bool) {}

    fn prepare_turn(&mut self, (): (), admitted: &Why) -> Next {
        let pass = &mut *self.pass;
        let status = &pass.view.status;
        let counted = status.eviction_pods.or(status.total_pods);
        if counted.or(status.drain_progress).is_none() {
            return ON;
        }
        // What was counted was of another node of this name, or by another operator: it is forgotten first.
        pass.wake(pass.now);
        pass.say(Step::Selected, admitted.clone(), self.said);
        STAY
    }

    fn reservation(&self, (): ()) -> (Key, NodeChangeSpec) {
        reservation(self.pass.view, self.node, &self.pass.observed.settings.namespace)
    }

    /// The attempt was counted where its turn was given back.
    fn begin_again(&self, _journal: &mut Journal<'_>, admitted: &Why) -> Why {
        admitted.clone()
    }

    fn say(&mut self, (): (), step: Step, why: Why) {
        self.pass.say(step, why, self.said);
    }

    /// What a drain would have before it: people see the size of what they wait for.
    fn wait(&mut self, (): (), why: Why) {
        let pass = &mut *self.pass;
        if let Lease::Held(_, until) = lease(pass.observed, &self.node.name, pass.now) {
            pass.wake(until);
        }
        let known = (pass.answers, pass.now);
        if let Some(drain) = drain::drain(pass.observed, self.node, &pass.intent.drain, pass.now, known) {
            pass.report.pods = Some((drain.pending, drain.total));
        }
        pass.say(Step::Selected, why, self.said);
    }
}
