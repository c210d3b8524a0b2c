//! What a person says of a node that has its turn in a run.

use super::{run_view::at_target, turn::Turn};
use crate::{
    action::Action,
    pools,
    rules::{self, Progress},
    turn::{directive::persons_words, journal, steps::Turn as _},
    why::Why,
};
use numo_api::{DirectiveAction, Reason, Step, Terms};

impl Turn<'_, '_> {
    /// Carries out what a person wants done with this node; true if that is all there is to do now.
    pub(super) fn obeys_directive(&mut self) -> bool {
        let Some(directive) = &self.change.spec.directive else {
            return false;
        };
        let fresh = self.change.status.observed_generation.unwrap_or(1) < self.change.generation;
        let words = |what: &str| persons_words(what, self.change, directive);
        match directive.action {
            DirectiveAction::Hold if self.give_up.is_none() => {
                let why = Why::new(Reason::HeldByPerson, words("held"));
                if !self.released() {
                    if self.runs_rule() {
                        return false;
                    }
                    self.close(Step::Held, why);
                    return true;
                }
                if !at_target(self.decision.view, self.member) {
                    return false;
                }
                self.decision.report(self.member, Step::Held, why);
                true
            }
            DirectiveAction::Skip if fresh && !self.released() => {
                let why = Why::new(Reason::SkippedByPerson, words("skipped"));
                let mut journal = self.journal();
                journal.obey();
                journal.enter(Step::Skipped, Some(&why));
                journal.write(self.decision, None);
                self.decision.report(self.member, Step::Skipped, why);
                true
            }
            // It was let go and does not come back: the person gives it up, and the others may go on.
            DirectiveAction::Skip if fresh && self.stays_away() => {
                let why = Why::new(
                    Reason::SkippedByPerson,
                    words("left out, as it has not come back,"),
                );
                if self.in_canary() {
                    // The MCO counts it among the nodes of the canary pool, and would take no other one.
                    let patch = self.bring_home();
                    self.plan(Action::PatchNode(patch), None);
                    self.decision.report(self.member, Step::Released, why);
                    return true;
                }
                self.end(Step::Skipped, &why);
                true
            }
            // Someone took it back to where it came from: it begins anew.
            DirectiveAction::Retry
                if fresh
                    && self.released()
                    && self.member.done
                    && self.member.current == self.pin.from_config =>
            {
                let mut journal = self.journal();
                journal.obey();
                journal.next_attempt();
                journal.status.pin = None;
                journal.enter(Step::Admitted, None);
                journal.write(self.decision, None);
                let why = Why::new(Reason::Admitting, words("retried"));
                self.decision.report(self.member, Step::Admitted, why);
                true
            }
            // It is changing: there are no rules to run again, but it gets its whole time once more.
            DirectiveAction::Retry if fresh && self.released() && !self.was_back() => {
                let mut journal = self.journal();
                journal.obey();
                journal.enter(Step::Released, None);
                journal.write(self.decision, None);
                let why = Why::new(Reason::Changing, words("given more time"));
                self.decision.report(self.member, Step::Released, why);
                true
            }
            DirectiveAction::Retry if fresh => {
                let released = self.released();
                let mut journal = self.journal();
                journal.obey();
                journal.next_attempt();
                if released {
                    let way = self.force.strategy;
                    if let Some(pin) = &mut journal.status.pin {
                        // The way it was let go by is the way it comes back by.
                        pin.terms = Some(Terms {
                            strategy: way,
                            ..self.decision.view.intent.terms()
                        });
                    }
                } else {
                    journal.status.pin = None;
                }
                let step = if released { Step::PostRules } else { Step::Admitted };
                journal.enter(step, None);
                journal.write(self.decision, None);
                self.decision.report(
                    self.member,
                    step,
                    Why::new(Reason::RuleStarting, words("retried")),
                );
                true
            }
            DirectiveAction::Hold
            | DirectiveAction::Skip
            | DirectiveAction::Retry
            | DirectiveAction::Abort => false,
        }
    }

    /// Whether a rule of this attempt runs before the release, or has an end that is yet to be written down.
    pub(super) fn runs_rule(&mut self) -> bool {
        rules::BEFORE_RELEASE.into_iter().any(|phase| {
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
