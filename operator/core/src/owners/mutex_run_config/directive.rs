//! What a person says of a node that has its turn in a run.

use super::turn::Turn;
use crate::{
    action::Action,
    pools,
    rules::{self, Progress},
    turn::{
        directive::persons_words,
        journal::{self, Journal},
        steps::Turn as _,
    },
    why::Why,
};
use numo_api::{DirectiveAction, Reason, Step, Terms};

impl<'m> Turn<'_, 'm> {
    /// Carries out what a person wants done with this node; true if that is all there is to do now.
    pub(super) fn obeys_directive(&mut self) -> bool {
        let Some(directive) = &self.change.spec.directive else {
            return false;
        };
        let fresh = self.change.status.observed_generation.unwrap_or(1) < self.change.generation;
        let words = |what: &str| persons_words(what, self.change, directive);
        match directive.action {
            DirectiveAction::Hold if self.give_up.is_none() && !self.released() => {
                self.obey_hold(words("held"))
            }
            DirectiveAction::Skip if fresh => self.obey_skip(&words),
            DirectiveAction::Retry if fresh => {
                self.obey_retry(&words);
                true
            }
            DirectiveAction::Hold
            | DirectiveAction::Skip
            | DirectiveAction::Retry
            | DirectiveAction::Abort => false,
        }
    }

    /// A node that is not let go is held where it is, unless a rule runs; one that was is held once it has changed (`turn/steps.rs`).
    fn obey_hold(&mut self, words: String) -> bool {
        if self.runs_rule() {
            return false;
        }
        self.close(Step::Held, Why::new(Reason::HeldByPerson, words));
        true
    }

    fn obey_skip(&mut self, words: &dyn Fn(&str) -> String) -> bool {
        if !self.released() {
            let why = Why::new(Reason::SkippedByPerson, words("skipped"));
            let mut journal = self.obeying();
            journal.enter(Step::Skipped, Some(&why));
            journal.write(self.decision, None);
            self.decision.report(self.member, Step::Skipped, why);
            return true;
        }
        if !self.stays_away() {
            return false;
        }
        // It was let go and does not come back: the person gives it up, and the others may go on.
        let why = Why::new(
            Reason::SkippedByPerson,
            words("left out, as it has not come back,"),
        );
        if self.in_canary() {
            // The MCO counts it among the nodes of the canary pool, and would take no other one.
            let patch = self.bring_home();
            self.plan(Action::PatchNode(patch), None);
            self.decision.report(self.member, Step::Released, why);
        } else {
            self.end(Step::Skipped, &why);
        }
        true
    }

    /// Begins the step anew that a person has asked for.
    fn obey_retry(&mut self, words: &dyn Fn(&str) -> String) {
        let released = self.released();
        let is_where_it_was = self.member.done && self.member.current == self.pin.from_config;
        let way = self.force.strategy;
        let mut journal = self.obeying();
        let (step, reason, said) = if released && is_where_it_was {
            // Someone took it back to where it came from: it begins anew.
            journal.next_attempt();
            journal.status.pin = None;
            (Step::Admitted, Reason::Admitting, "retried")
        } else if released && !self.was_back() {
            // It is changing: there are no rules to run again, but it gets its whole time once more.
            (Step::Released, Reason::Changing, "given more time")
        } else if released {
            journal.next_attempt();
            if let Some(pin) = &mut journal.status.pin {
                // The way it was let go by is the way it comes back by.
                pin.terms = Some(Terms {
                    strategy: way,
                    ..self.decision.terms(self.member.node)
                });
            }
            (Step::PostRules, Reason::RuleStarting, "retried")
        } else {
            journal.next_attempt();
            journal.status.pin = None;
            (Step::Admitted, Reason::RuleStarting, "retried")
        };
        journal.enter(step, None);
        journal.write(self.decision, None);
        self.tell(step, reason, words(said));
    }

    /// The journal, in which the person's word is carried out.
    fn obeying(&self) -> Journal<'m> {
        let mut journal = self.journal();
        journal.obey();
        journal
    }

    /// Whether a rule of this attempt runs before the release, or has an end that is yet to be written down.
    pub(super) fn runs_rule(&mut self) -> bool {
        let is_released = self.released();
        let (phases, node, change, out) = self.parts().all();
        let is_left = phases.earlier(out, (node, change), is_released).is_some();
        is_left
            || rules::BEFORE_RELEASE.into_iter().any(|phase| {
                let parts = self.parts();
                let progress = parts.phases.progress((parts.node, parts.change), phase);
                matches!(
                    progress,
                    Progress::Wait(..) | Progress::Record(..) | Progress::Ask(_)
                )
            })
    }

    /// The node was let go and does not come back: it is not Ready, its daemon gave up, or its time is over.
    pub(super) fn stays_away(&self) -> bool {
        self.released()
            && !self.was_back()
            && (!self.member.node.ready
                || pools::failing(self.member.node)
                || journal::is_for(self.change, Reason::ChangeTimeout))
    }
}
