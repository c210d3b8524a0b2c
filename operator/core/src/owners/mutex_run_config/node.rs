//! One node's turn, from admission to done: one step further each time, each step derived from what is
//! seen. A crash between any two writes finds the same next step.

use super::{
    admit,
    draft::Draft,
    frame::{Member, at_target},
    labels, machine,
    run_rules::awaited_run_jobs,
};
use crate::{
    action::{Action, Change, Event, EventAction, NodePatch, NodePurpose},
    admit::gates::{Gate, weigh},
    decision::Decision,
    intent::InForce,
    key::Key,
    ledger,
    mark::{self, Shielded},
    observed::{ChangeView, ForeignController, JobView, NodeView, RuleView},
    owners::mutex_run_config::gates,
    pools,
    rules::{self, Progress},
    time::later,
    turn::{
        closed,
        directive::persons_words,
        job,
        journal::{self, Journal},
        lease::{self, lease_holder},
        phases::{At, Phases, Went},
        shield::{shield, unshield},
        ungated::{let_go_by_other, not_passed},
    },
    verdict::Question,
    why::Why,
};
use numo_api::{
    DirectiveAction, FailurePolicy, Phase, Pin, Reason, Step, Strategy, Terms,
    marks::{self, openshift},
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is the same for every node of a pass.
#[derive(Debug)]
pub struct Pass<'m> {
    /// Why nothing may begin, if so.
    pub hold: Option<&'m Why>,
    /// Why the run is being left, if it is.
    pub leaving: Option<&'m Why>,
    /// Nodes that were admitted and are not to begin.
    pub out_of_turn: BTreeMap<&'m str, Why>,
}

/// One node's turn in the making.
struct Turn<'m, 'o> {
    pass: &'m Pass<'m>,
    member: &'m Member<'m>,
    change: &'m ChangeView,
    /// Home configuration the node is pinned to.
    pin: Pin,
    /// What the owner's spec said when the node was pinned.
    force: InForce<'o>,
    /// Why the node is to give its turn up, if so.
    give_up: Option<Why>,
}

/// Moves a node that has its turn one step further.
pub fn advance(draft: &mut Draft<'_>, pass: &Pass<'_>, member: &Member<'_>, change: &ChangeView) {
    // While nobody knows the version, nothing says that the cluster goes to another one.
    let is_other = draft.frame.desired.is_ok() && change.spec.target.run_id != draft.frame.run_id;
    let superseded = is_other.then(|| {
        let version = draft.frame.desired.clone().unwrap_or_default();
        let message = if version == change.spec.target.version {
            format!("the target pools go to other configurations of {version} by now")
        } else {
            format!(
                "the cluster now goes to {version}, not {}",
                change.spec.target.version
            )
        };
        Why::new(Reason::ConfigChanged, message)
    });
    let turn = Turn {
        pass,
        member,
        change,
        pin: change.status.pin.clone().unwrap_or_default(),
        force: InForce::of(
            &draft.frame.intent,
            draft.frame.observed,
            change.status.pin.as_ref().and_then(|pin| pin.terms.as_ref()),
        ),
        give_up: pass.leaving.cloned().or(superseded),
    };
    if change.status.pin.is_none() {
        // Nothing has happened to the node yet: its turn may end without lease and shield.
        if turn.gives_up(draft) || admit::obeys_directive(draft, member, change) {
            return;
        }
        if at_target(&draft.frame, member) {
            turn.end(draft, Step::Done, &admit::up_to_date(member));
            return;
        }
        if let Some(why) = pass.out_of_turn.get(member.node.name.as_str()) {
            turn.end(draft, Step::Selected, why);
            return;
        }
        if take_lease_and_shield(draft, member, change) {
            begin(draft, member, change);
        }
        return;
    }
    if !take_lease_and_shield(draft, member, change) || turn.obeys_directive(draft) {
        return;
    }
    if turn.released() {
        turn.after_release(draft);
    } else {
        turn.before_release(draft);
    }
}

/// Takes the node lease and the shield; true once both are there.
fn take_lease_and_shield(draft: &mut Draft<'_>, member: &Member<'_>, change: &ChangeView) -> bool {
    let frame = &draft.frame;
    let node = member.node;
    let holder = lease_holder(&frame.run.uid);
    // One that others hold is theirs now: it expired while nobody renewed it. What has begun goes on.
    let lease = lease::upkeep(frame.observed, node, &holder, (change.created, frame.now));
    if let Some(due) = lease.due {
        draft.wake(due);
    }
    if let Some(renewal) = lease.renews {
        draft.act(&node.name, renewal, None);
    }
    let mut actions: Vec<Action> = lease.takes.into_iter().collect();
    if mark::shielded(node).is_none_or(|mark| mark.owner != draft.frame.run.uid) {
        actions.push(shield(node, &draft.frame.run.uid));
    }
    actions.extend(machine::shields(&draft.frame, node));
    let rival = draft.frame.observed.stood_off(ForeignController::MutexRunConfig);
    if actions.is_empty() || rival.is_some() {
        // Beside the operator that numo replaces nothing new is taken.
        return true;
    }
    for action in actions {
        // Another node that begins in this pass needs the same health checks paused.
        if !draft.out.actions.iter().any(|planned| planned.action == action) {
            draft.act(&node.name, action, None);
        }
    }
    let step = member.in_flight().and_then(|change| change.status.step);
    draft.report(
        member,
        step.unwrap_or(Step::Admitted),
        Why::new(Reason::Admitting, "lease and shield are being taken"),
    );
    false
}

/// The first line of an attempt: pins the node to its pool's configuration.
fn begin(draft: &mut Draft<'_>, member: &Member<'_>, change: &ChangeView) {
    let mut journal = Journal::open(change, draft.frame.now);
    journal.status.pin = Some(Pin {
        rendered_config: member.pool.config.clone(),
        from_config: member.node.annotation(openshift::CURRENT_CONFIG).to_owned(),
        from_version: member.version.unwrap_or_default().to_owned(),
        terms: Some(draft.frame.intent.terms()),
        ..Pin::default()
    });
    journal.enter(Step::PreRules, None);
    journal.write(draft, None);
    draft.report(
        member,
        Step::Admitted,
        Why::new(Reason::Admitting, "its turn has come"),
    );
}

impl Turn<'_, '_> {
    /// The node was let go: it shall run its pin, or is in the canary pool, or the journal says so.
    fn released(&self) -> bool {
        let node = self.member.node;
        self.recorded()
            || self.in_canary()
            || (!self.pin.rendered_config.is_empty()
                && node.annotation(openshift::DESIRED_CONFIG) == self.pin.rendered_config
                && self.pin.rendered_config != self.pin.from_config)
    }

    /// The journal says that the node was let go.
    fn recorded(&self) -> bool {
        self.change
            .status
            .entries
            .iter()
            .any(|entry| entry.step == Step::Released && entry.attempt == self.released_attempt())
    }

    /// The node carries this run's release label.
    fn in_canary(&self) -> bool {
        self.member.node.label(marks::RELEASE) == self.change.spec.target.run_id
    }

    /// The node came back after its release, as the journal says.
    fn was_back(&self) -> bool {
        matches!(self.change.status.step, Some(Step::PostRules | Step::Soaked)) || self.held_by_failure()
    }

    /// The node was let go and does not come back: it is not Ready, its daemon gave up, or its time is over.
    fn stays_away(&self) -> bool {
        self.released()
            && !self.was_back()
            && (!self.member.node.ready
                || pools::failing(self.member.node)
                || journal::is_for(self.change, Reason::ChangeTimeout))
    }

    /// Every rule, as it is now, has passed that must pass before the release.
    fn is_gated(&self) -> bool {
        not_passed(&self.force.rules, &self.change.status).is_none()
    }

    /// The attempt the pin belongs to: a retry after the release keeps it.
    fn released_attempt(&self) -> i32 {
        let entries = &self.change.status.entries;
        let admitted = entries.iter().rfind(|entry| entry.step == Step::PreRules);
        let released = entries.iter().rfind(|entry| entry.step == Step::Released);
        match (admitted, released) {
            (Some(admitted), Some(released)) if released.attempt >= admitted.attempt => released.attempt,
            _ => self.change.status.attempt,
        }
    }

    /// The rules; those that are gone are not waited for when the run is left for good.
    fn rules(&self) -> Vec<(Key, Option<&RuleView>)> {
        let rules = self.force.rules.iter();
        rules
            .filter(|(_, rule)| rule.is_some() || self.pass.leaving.is_none())
            .cloned()
            .collect()
    }

    fn progress(&self, draft: &Draft<'_>, phase: Phase) -> Progress {
        let rules = self.rules();
        self.phases(draft, &rules)
            .progress((self.member.node, self.change), phase)
    }

    fn phases<'s>(&'s self, draft: &'s Draft<'_>, rules: &'s [(Key, Option<&'s RuleView>)]) -> Phases<'s> {
        Phases {
            owner: draft.frame.owner,
            owner_uid: &draft.frame.run.uid,
            rules,
            pool: &self.member.pool.name,
            to_version: &self.change.spec.target.version,
            observed: draft.frame.observed,
            answers: draft.answers,
            now: draft.frame.now,
        }
    }

    /// Moves rules along; what is asked and written for it goes into the decision.
    fn moves(&self, draft: &mut Draft<'_>, along: impl FnOnce(&Phases<'_>, &mut Decision) -> Went) -> Went {
        let rules = self.rules();
        let mut out = std::mem::take(&mut draft.out);
        let went = along(&self.phases(draft, &rules), &mut out);
        draft.out = out;
        went
    }

    fn journal(&self, draft: &Draft<'_>) -> Journal<'_> {
        Journal::open(self.change, draft.frame.now)
    }

    fn event(&self, warning: bool, reason: &'static str, action: EventAction, note: String) -> Event {
        Event {
            node: Some(self.member.node.name.clone()),
            warning,
            reason,
            action,
            note,
        }
    }

    fn plan(&self, draft: &mut Draft<'_>, action: Action, event: Option<Event>) {
        draft.act(&self.member.node.name, action, event);
    }

    /// Carries out what a person wants done with this node; true if that is all there is to do now.
    fn obeys_directive(&self, draft: &mut Draft<'_>) -> bool {
        let Some(directive) = &self.change.spec.directive else {
            return false;
        };
        let fresh = self.change.status.observed_generation.unwrap_or(1) < self.change.generation;
        let words = |what: &str| persons_words(what, self.change, directive);
        match directive.action {
            DirectiveAction::Hold if self.give_up.is_none() => {
                let why = Why::new(Reason::HeldByPerson, words("held"));
                if !self.released() {
                    if self.runs_rule(draft) {
                        return false;
                    }
                    self.close(draft, Step::Held, why);
                    return true;
                }
                if !at_target(&draft.frame, self.member) {
                    return false;
                }
                draft.report(self.member, Step::Held, why);
                true
            }
            DirectiveAction::Skip if fresh && !self.released() => {
                let why = Why::new(Reason::SkippedByPerson, words("skipped"));
                let mut journal = self.journal(draft);
                journal.obey();
                journal.enter(Step::Skipped, Some(&why));
                journal.write(draft, None);
                draft.report(self.member, Step::Skipped, why);
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
                    let patch = self.bring_home(draft);
                    self.plan(draft, Action::PatchNode(patch), None);
                    draft.report(self.member, Step::Released, why);
                    return true;
                }
                self.end(draft, Step::Skipped, &why);
                true
            }
            // Someone took it back to where it came from: it begins anew.
            DirectiveAction::Retry
                if fresh
                    && self.released()
                    && self.member.done
                    && self.member.current == self.pin.from_config =>
            {
                let mut journal = self.journal(draft);
                journal.obey();
                journal.next_attempt();
                journal.status.pin = None;
                journal.enter(Step::Admitted, None);
                journal.write(draft, None);
                let why = Why::new(Reason::Admitting, words("retried"));
                draft.report(self.member, Step::Admitted, why);
                true
            }
            // It is changing: there are no rules to run again, but it gets its whole time once more.
            DirectiveAction::Retry if fresh && self.released() && !self.was_back() => {
                let mut journal = self.journal(draft);
                journal.obey();
                journal.enter(Step::Released, None);
                journal.write(draft, None);
                let why = Why::new(Reason::Changing, words("given more time"));
                draft.report(self.member, Step::Released, why);
                true
            }
            DirectiveAction::Retry if fresh => {
                let released = self.released();
                let mut journal = self.journal(draft);
                journal.obey();
                journal.next_attempt();
                if released {
                    let way = self.force.strategy;
                    if let Some(pin) = &mut journal.status.pin {
                        // The way it was let go by is the way it comes back by.
                        pin.terms = Some(Terms {
                            strategy: way,
                            ..draft.frame.intent.terms()
                        });
                    }
                } else {
                    journal.status.pin = None;
                }
                let step = if released { Step::PostRules } else { Step::Admitted };
                journal.enter(step, None);
                journal.write(draft, None);
                draft.report(
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

    /// Ends the turn of a node that was not let go, if the run is left or the node has left its pool.
    fn gives_up(&self, draft: &mut Draft<'_>) -> bool {
        if self.released() {
            return false;
        }
        let strayed = self.member.strayed.as_ref().map(|(_, why)| why);
        let Some(why) = self.give_up.as_ref().or(strayed) else {
            return false;
        };
        let why = Why::new(Reason::RunGivenUp, why.message.clone());
        self.end(draft, Step::Failed, &why);
        true
    }

    fn before_release(&self, draft: &mut Draft<'_>) {
        if self.gives_up(draft) {
            return;
        }
        if at_target(&draft.frame, self.member) {
            self.end(
                draft,
                Step::Done,
                &Why::new(Reason::Ungated, "it is at the target, let go by someone else"),
            );
            return;
        }
        if self.pin.rendered_config != self.member.pool.config {
            let message = format!(
                "pool {} went from {} to {}",
                self.member.pool.name, self.pin.rendered_config, self.member.pool.config
            );
            self.replan(draft, message);
            return;
        }
        if self.force.strategy != draft.frame.intent.strategy {
            // Selectors and labels are those of the strategy that is asked for now.
            let message = format!(
                "spec.strategy went from {:?} to {:?}",
                self.force.strategy, draft.frame.intent.strategy
            );
            self.replan(draft, message);
            return;
        }
        if self.change.status.step == Some(Step::Held) && self.held_by_failure() {
            self.report_held(draft);
            return;
        }
        let closed = self
            .pass
            .hold
            .cloned()
            .or_else(|| ledger::stop(draft.frame.observed, self.member.node));
        if !self.passed(draft, Phase::Pre, Step::PreRules, closed.as_ref()) {
            return;
        }
        let against = weigh(draft.frame.is_asked(self.member), |gate| match gate {
            Gate::Owner => self.pass.hold.cloned(),
            Gate::Room => gates::node::not_for_canary(&draft.frame, self.member),
            gate => gates::node::against(&draft.frame, self.member, gate),
        });
        let fit = against.worst(&mut draft.out.report);
        // The drain is tried before the last rules and after them: those may take long, and one that changes the world for
        // a drain that cannot pass has done it in vain.
        let last = self.progress(draft, Phase::PreRelease);
        let asks = matches!(last, Progress::Start(_) | Progress::Evaluate(_));
        if fit.is_none() && asks && !self.probe_drain(draft) {
            return;
        }
        let at = (Phase::PreRelease, Step::PreRelease);
        if !self.go_on(draft, at, fit.as_ref(), last) {
            return;
        }
        if let Some(why) = fit {
            self.close(draft, Step::PreRelease, why);
        // Before Passes are confirmed: a rule that is asked again each time its Pass grows old would keep a turn that the
        // drain closes from ever being given back.
        } else if self.probe_drain(draft) && self.confirmed(draft) {
            self.release(draft);
        }
    }

    /// Reports a turn that is closed before the release, and gives it back once it was for too long.
    fn close(&self, draft: &mut Draft<'_>, step: Step, why: Why) {
        let given_back = closed::close(&mut draft.out, self.change, &why, draft.frame.now);
        let step = if given_back { Step::Selected } else { step };
        draft.report(self.member, step, why);
    }

    /// Whether a rule of this attempt runs before the release, or has an end that is yet to be written down.
    fn runs_rule(&self, draft: &Draft<'_>) -> bool {
        rules::BEFORE_RELEASE.into_iter().any(|phase| {
            let progress = self.progress(draft, phase);
            matches!(
                progress,
                Progress::Wait(..) | Progress::Record(..) | Progress::Ask(_)
            )
        })
    }

    fn held_by_failure(&self) -> bool {
        journal::is_for(self.change, Reason::RuleFailed)
    }

    fn report_held(&self, draft: &mut Draft<'_>) {
        let message = self.change.status.message.clone().unwrap_or_default();
        let ways = format!(
            "{message}; retry, skip or abort it (NodeChange {} spec.directive)",
            self.change.key
        );
        draft.report(self.member, Step::Held, Why::new(Reason::RuleFailed, ways));
    }

    /// What the node was pinned to moved on before the release: the rules run again for what is asked now.
    fn replan(&self, draft: &mut Draft<'_>, message: String) {
        let why = Why::new(Reason::ConfigChanged, message);
        let mut journal = self.journal(draft);
        journal.next_attempt();
        journal.status.pin = None;
        journal.enter(Step::Admitted, Some(&why));
        journal.write(draft, None);
        draft.report(self.member, Step::Admitted, why);
    }

    /// Moves a phase of rules along; true once all have passed.
    ///
    /// `closed` is why no further rule is to begin, if so; what runs already is written down all the same.
    fn passed(&self, draft: &mut Draft<'_>, phase: Phase, step: Step, closed: Option<&Why>) -> bool {
        let progress = self.progress(draft, phase);
        self.go_on(draft, (phase, step), closed, progress)
    }

    /// Whether every rule's Pass is young enough to let the node go on it. One that is not is asked again.
    fn confirmed(&self, draft: &mut Draft<'_>) -> bool {
        let at = (self.member.node, self.change);
        let went = self.moves(draft, |phases, out| {
            phases.confirm(out, at, (&rules::BEFORE_RELEASE, None))
        });
        self.act_on(draft, (Phase::PreRelease, Step::PreRelease), went)
    }

    fn go_on(
        &self,
        draft: &mut Draft<'_>,
        (phase, step): (Phase, Step),
        closed: Option<&Why>,
        progress: Progress,
    ) -> bool {
        let then = match phase {
            Phase::Pre => Some(Step::PreRelease),
            Phase::Post if self.force.soak_seconds > 0 => Some(Step::Soaked),
            Phase::Post => Some(Step::Done),
            _ => None,
        };
        let at = (self.member.node, self.change);
        let went = self.moves(draft, |phases, out| {
            phases.go_on(out, at, At::then(phase, then), closed, progress)
        });
        self.act_on(draft, (phase, step), went)
    }

    /// Acts on how a phase of rules went; true if it passed.
    fn act_on(&self, draft: &mut Draft<'_>, (phase, step): (Phase, Step), went: Went) -> bool {
        match went {
            Went::Passed => return true,
            Went::Waits(why) => draft.report(self.member, step, why),
            Went::Closed(why) => self.close(draft, step, why),
            Went::Failed(policy, why) => self.failed(draft, phase, policy, &why),
        }
        false
    }

    /// A rule failed for good: its policy decides, after the OnFailure rules had their say.
    fn failed(&self, draft: &mut Draft<'_>, phase: Phase, policy: FailurePolicy, why: &Why) {
        let at = (self.member.node, self.change);
        let went = self.moves(draft, |phases, out| {
            phases.pass(out, at, At::then(Phase::OnFailure, None), None)
        });
        match went {
            Went::Passed | Went::Failed(..) => {}
            Went::Waits(other) | Went::Closed(other) => {
                let is_asked = matches!(other.reason, Reason::RuleStarting | Reason::RuleRunning);
                let why = if is_asked { why.clone() } else { other };
                return draft.report(self.member, Step::Held, why);
            }
        }
        if self.give_up.is_some() && phase.is_after_release() {
            self.end(
                draft,
                Step::Done,
                &Why::new(Reason::RuleContinuedAfterFailure, why.message.clone()),
            );
            return;
        }
        match policy {
            FailurePolicy::Abort => self.end(draft, Step::Failed, why),
            FailurePolicy::Skip => {
                self.end(
                    draft,
                    Step::Skipped,
                    &Why::new(Reason::SkippedByPolicy, why.message.clone()),
                );
            }
            FailurePolicy::Hold | FailurePolicy::Continue => {
                if self.change.status.step == Some(Step::Held) && self.held_by_failure() {
                    self.report_held(draft);
                    return;
                }
                let mut journal = self.journal(draft);
                journal.enter(Step::Held, Some(why));
                let note = format!("held: {}", why.message);
                journal.write(
                    draft,
                    Some(self.event(true, "NodeHeld", EventAction::EvaluateRule, note)),
                );
                draft.report(self.member, Step::Held, why.clone());
            }
        }
    }

    /// The turn ends here; back to Selected, it was none.
    fn end(&self, draft: &mut Draft<'_>, step: Step, why: &Why) {
        let mut journal = self.journal(draft);
        journal.enter(step, Some(why));
        let event = (step != Step::Selected).then(|| {
            self.event(
                step != Step::Done || why.reason == Reason::Ungated,
                why.reason.name(),
                EventAction::Complete,
                why.message.to_string(),
            )
        });
        journal.write(draft, event);
        draft.report(self.member, step, why.clone());
    }

    /// Tries by dry run whether every pod of the node could be evicted now; true if so.
    fn probe_drain(&self, draft: &mut Draft<'_>) -> bool {
        if !self.force.drain_probe {
            return true;
        }
        let node = &self.member.node.name;
        match draft.answers.drains.get(node).cloned() {
            Some(None) => true,
            Some(Some(blocked)) => {
                let why = Why::new(Reason::DrainBlocked, blocked);
                self.close(draft, Step::PreRelease, why);
                let again = later(draft.frame.now, DRAIN_PROBE_SECONDS);
                draft.wake(again);
                false
            }
            None => {
                draft
                    .out
                    .questions
                    .push(Question::DrainProbe { node: node.clone() });
                let why = Why::new(Reason::RuleRunning, "its drain is being tried by dry run");
                draft.report(self.member, Step::PreRelease, why);
                false
            }
        }
    }

    /// The patch tests the shield too: it is on while the turn is, so a leader that was replaced lets nobody go.
    fn release(&self, draft: &mut Draft<'_>) {
        let node = self.member.node;
        let patch = match self.force.strategy {
            Strategy::DesiredConfig => NodePatch {
                annotations: vec![
                    same(&node.annotations, marks::SHIELDED_BY),
                    same(&node.annotations, openshift::CURRENT_CONFIG),
                    same(&node.annotations, openshift::STATE),
                    Change {
                        key: openshift::DESIRED_CONFIG.to_owned(),
                        from: node.annotations.get(openshift::DESIRED_CONFIG).cloned(),
                        to: Some(self.pin.rendered_config.clone()),
                    },
                ],
                while_unschedulable: Some(false),
                ..NodePatch::of(node, NodePurpose::Release)
            },
            Strategy::CanaryPool => self.canary_patch(),
        };
        let note = format!(
            "let go to {} ({} -> {})",
            self.pin.rendered_config, self.pin.from_version, self.change.spec.target.version
        );
        let event = self.event(false, "Released", EventAction::Release, note);
        self.plan(draft, Action::PatchNode(patch), Some(event));
        draft.report(
            self.member,
            Step::PreRelease,
            Why::new(Reason::Changing, "it is being let go"),
        );
    }

    /// Rule labels off and release label on, in one patch: the node falls into the canary pool.
    fn canary_patch(&self) -> NodePatch {
        let node = self.member.node;
        let mut labels = labels::rule_labels_off(node);
        labels.push(Change {
            key: marks::RELEASE.to_owned(),
            from: node.labels.get(marks::RELEASE).cloned(),
            to: Some(self.change.spec.target.run_id.clone()),
        });
        NodePatch {
            labels,
            annotations: vec![
                same(&node.annotations, marks::SHIELDED_BY),
                same(&node.annotations, openshift::CURRENT_CONFIG),
                same(&node.annotations, openshift::DESIRED_CONFIG),
                same(&node.annotations, openshift::STATE),
            ],
            while_unschedulable: Some(false),
            ..NodePatch::of(node, NodePurpose::Release)
        }
    }

    fn after_release(&self, draft: &mut Draft<'_>) {
        if !self.recorded() {
            let mut journal = self.journal(draft);
            let why = if self.is_gated() {
                journal.enter(Step::Released, None);
                Why::new(Reason::Changing, "it was let go")
            } else {
                let words = let_go_by_other(&self.force.rules, &self.change.status);
                let why = Why::new(Reason::Ungated, words.as_str());
                journal.enter(Step::Released, Some(&why));
                let all = &mut draft.out.report.ungated;
                all.insert(self.member.node.name.clone(), words);
                why
            };
            let event = (why.reason == Reason::Ungated)
                .then(|| self.event(true, "Ungated", EventAction::Release, why.message.to_string()));
            journal.write(draft, event);
            draft.report(self.member, Step::Released, why);
            return;
        }
        if self.minds_cordon(draft)
            || self.leaves_canary_early(draft)
            || !self.await_change(draft)
            || !self.return_home(draft)
        {
            return;
        }
        if !self.was_back() {
            let mut journal = self.journal(draft);
            journal.enter(Step::PostRules, None);
            let note = format!("runs {} and is Ready", self.change.spec.target.version);
            journal.write(
                draft,
                Some(self.event(false, "Changed", EventAction::Change, note)),
            );
            draft.report(
                self.member,
                Step::Ready,
                Why::new(Reason::RuleStarting, "it is back and Ready"),
            );
            return;
        }
        if self.change.status.step == Some(Step::Held) && self.held_by_failure() && self.give_up.is_none() {
            self.report_held(draft);
            return;
        }
        if !self.passed(draft, Phase::Post, Step::PostRules, None) || !self.soak(draft) {
            return;
        }
        let mut journal = self.journal(draft);
        journal.enter(Step::Done, None);
        let note = format!("done: runs {}", self.change.spec.target.version);
        journal.write(
            draft,
            Some(self.event(false, "Done", EventAction::Complete, note)),
        );
        draft.report(
            self.member,
            Step::Done,
            Why::new(Reason::Done, format!("it runs {}", self.pin.rendered_config)),
        );
    }

    /// A person's cordon that came after the release and before the MCO's own is remembered, for the MCO takes it
    /// away in the end; one that is lifted again by then is forgotten. True if that is all there is to do now.
    ///
    /// The MCO's cordon stands from its drain until the uncordon that it asks for the new configuration; a person's
    /// is one while the last request is still that of the configuration before. That holds for the way into the
    /// canary pool and for the way home.
    fn minds_cordon(&self, draft: &mut Draft<'_>) -> bool {
        let node = self.member.node;
        let asked = node.annotation(openshift::DESIRED_DRAIN);
        let before = asked.strip_prefix("uncordon-");
        let at_rest = (asked.is_empty() || before == Some(self.member.current))
            && asked == node.annotation(openshift::LAST_APPLIED_DRAIN);
        // One that is not taken up yet is not the MCO's to uncordon.
        let taken_up = node.annotation(openshift::DESIRED_CONFIG) != self.member.current;
        let before_change = taken_up && !self.was_back();
        let remembered = mark::remembers_cordon(node);
        // On the way home it is the MCO that took away what was remembered on the way there.
        let forgets = remembered && self.member.current != self.pin.from_config;
        if !at_rest || !before_change || node.unschedulable == remembered || forgets {
            return false;
        }
        let mark = node.unschedulable.then(|| cordon_mark(&draft.frame.run.uid));
        let patch = NodePatch {
            annotations: vec![
                Change {
                    key: marks::CORDONED_BY.to_owned(),
                    from: node.annotations.get(marks::CORDONED_BY).cloned(),
                    to: mark,
                },
                // Once the MCO asks for a drain a cordon is its own.
                same(&node.annotations, openshift::DESIRED_DRAIN),
            ],
            ..NodePatch::of(node, NodePurpose::MindCordon)
        };
        self.plan(draft, Action::PatchNode(patch), None);
        let message = "the cordon that someone set is put back when it is changed";
        draft.report(self.member, Step::Released, Why::new(Reason::Changing, message));
        true
    }

    /// A node in the canary pool that is not to change there: what it was let go to is wanted no more before the MCO
    /// took it up, or someone else's selector puts it into two pools. True if that is all there is to do now.
    fn leaves_canary_early(&self, draft: &mut Draft<'_>) -> bool {
        if self.force.strategy != Strategy::CanaryPool || self.was_back() {
            return false;
        }
        let node = self.member.node;
        let content = |config: &str| pools::content(config).to_owned();
        let untouched = self.member.done
            && content(self.member.current) == content(&self.pin.from_config)
            && content(&self.pin.rendered_config) != content(&self.pin.from_config);
        let outdated = content(&self.pin.rendered_config) != content(&self.member.pool.config);
        if untouched && !self.in_canary() {
            self.replan(draft, "it was taken back before the MCO took it up".to_owned());
            return true;
        }
        // The MCO never takes up a cordoned node, nor another one of the canary while it is there.
        if untouched && (outdated || node.unschedulable) {
            let why = if outdated {
                let message = format!(
                    "pool {} went from {} to {} before it was taken up",
                    self.member.pool.name, self.pin.rendered_config, self.member.pool.config
                );
                Why::new(Reason::ConfigChanged, message)
            } else {
                let message =
                    "someone cordoned it before the MCO took it up; it goes home until it is uncordoned";
                Why::new(Reason::CordonedByOther, message)
            };
            let mut patch = self.bring_home(draft);
            // Tested, not changed: once the MCO has taken it up it is too late.
            patch.annotations = vec![
                same(&node.annotations, openshift::DESIRED_CONFIG),
                same(&node.annotations, openshift::STATE),
            ];
            self.plan(draft, Action::PatchNode(patch), None);
            draft.report(self.member, Step::Released, why);
            return true;
        }
        if !self.in_canary() {
            return false;
        }
        let intent = &draft.frame.intent;
        let why = if super::pool::is_contested(self.member.pool, &draft.frame.run.uid) {
            Some((
                Reason::ForeignWriter,
                "someone else set its node selector, and it would be in two pools",
            ))
        } else if intent.strategy == Strategy::CanaryPool && intent.canary.is_none() {
            // Its rendered configurations died with it.
            Some((Reason::CanaryNotFound, "the canary pool is gone"))
        } else {
            None
        };
        if let Some((reason, why)) = why {
            let patch = self.bring_home(draft);
            let message = format!("it changes in its own pool {}: {why}", self.member.pool.name);
            let event = self.event(true, "BroughtHome", EventAction::Restore, message.clone());
            self.plan(draft, Action::PatchNode(patch), Some(event));
            draft.report(self.member, Step::Released, Why::new(reason, message));
            return true;
        }
        false
    }

    /// The configuration of its own pool that the node goes home to: the one it runs already, if the pool has moved
    /// on and so has the node; never an older one.
    fn home_config(&self) -> &str {
        let newest = &self.member.pool.config;
        if pools::content(self.member.current) == pools::content(newest) {
            newest
        } else {
            &self.pin.rendered_config
        }
    }

    /// Waits until the node runs what it was let go to, the daemon is done and its uncordon was carried out; true once so.
    fn await_change(&self, draft: &mut Draft<'_>) -> bool {
        let node = self.member.node;
        let current = node.annotation(openshift::CURRENT_CONFIG);
        // Content, not names: the canary pool renders the same content under another name. The pool's own
        // configuration counts too: it may have moved on, and someone may have let the MCO go after it.
        let contents = [&self.pin.rendered_config, &self.member.pool.config].map(|name| pools::content(name));
        let through_canary = self.in_canary() || self.force.strategy == Strategy::CanaryPool;
        let moved = current == self.pin.rendered_config
            || self.member.settled()
            || (through_canary && contents.contains(&pools::content(current)));
        let acknowledged =
            node.annotation(openshift::DESIRED_DRAIN) == node.annotation(openshift::LAST_APPLIED_DRAIN);
        if moved && pools::done(node) && acknowledged && node.ready {
            return true;
        }
        if self.was_back() {
            // What it does now is for the next gate to judge, not for this one.
            return true;
        }
        self.wait_for_change(draft);
        false
    }

    fn wait_for_change(&self, draft: &mut Draft<'_>) {
        let node = self.member.node;
        let released = self
            .change
            .status
            .entries
            .iter()
            .rfind(|entry| entry.step == Step::Released);
        let since = journal::time(released.map(|entry| entry.at.as_str())).unwrap_or(draft.frame.now);
        let limit = self.force.change_timeout_seconds;
        let deadline = later(since, limit);
        let state = node.annotation(openshift::STATE);
        let words = match (node.ready, state) {
            (_, "Degraded" | "Unreconcilable") => format!(
                "the daemon reports {state}: {}",
                node.annotation(openshift::REASON)
            ),
            (false, _) => "it is not Ready".to_owned(),
            (true, _) if drains(node) => format!(
                "its drain is under way since the release: pods whose eviction a PodDisruptionBudget refuses, or that \
                 do not end, keep it from changing (desiredDrain {})",
                node.annotation(openshift::DESIRED_DRAIN)
            ),
            (true, state) => format!(
                "current {}, desired {}, state {state}",
                node.annotation(openshift::CURRENT_CONFIG),
                node.annotation(openshift::DESIRED_CONFIG)
            ),
        };
        if draft.frame.now > deadline {
            let message = format!(
                "Node {} has not come back {limit} s after its release (spec.changeTimeoutSeconds): {words}. Repair it, and it goes on. `numo skip {0}` leaves it out, so that the other nodes go on; `numo retry {0}` gives it its whole time once more",
                node.name
            );
            let why = Why::new(Reason::ChangeTimeout, message);
            if self.pass.leaving.is_some() {
                self.end(draft, Step::Failed, &why);
                return;
            }
            if !journal::is_for(self.change, Reason::ChangeTimeout) {
                let mut journal = self.journal(draft);
                journal.enter(Step::Held, Some(&why));
                let event = self.event(
                    true,
                    "ChangeTimeout",
                    EventAction::Change,
                    why.message.to_string(),
                );
                journal.write(draft, Some(event));
            }
            draft.report(self.member, Step::Held, why);
            return;
        }
        draft.wake(later(deadline, 1));
        let reason = if pools::failing(node) {
            Reason::NodeDegraded
        } else {
            Reason::Changing
        };
        draft.report(self.member, Step::Released, Why::new(reason, words));
    }

    /// CanaryPool: brings the node back to its own pool; true once it is there without anything left to change.
    fn return_home(&self, draft: &mut Draft<'_>) -> bool {
        if self.force.strategy == Strategy::DesiredConfig && self.member.node.label(marks::RELEASE).is_empty()
        {
            return self.recordoned(draft);
        }
        let node = self.member.node;
        if !node.label(marks::RELEASE).is_empty() {
            let patch = self.bring_home(draft);
            let note = format!("goes home to pool {}", self.member.pool.name);
            let event = self.event(false, "BroughtHome", EventAction::Restore, note);
            self.plan(draft, Action::PatchNode(patch), Some(event));
            draft.report(
                self.member,
                Step::Changed,
                Why::new(Reason::ComingHome, "it is changed and goes home"),
            );
            return false;
        }
        let at_home =
            node.annotation(openshift::CURRENT_CONFIG) == self.pin.rendered_config || self.member.settled();
        if !at_home && !self.was_back() {
            let message = format!(
                "it goes from the canary pool's configuration to {}",
                self.home_config()
            );
            draft.report(self.member, Step::Changed, Why::new(Reason::ComingHome, message));
            return false;
        }
        self.recordoned(draft)
    }

    fn bring_home(&self, draft: &Draft<'_>) -> NodePatch {
        let node = self.member.node;
        let mut labels = vec![Change {
            key: marks::RELEASE.to_owned(),
            from: node.labels.get(marks::RELEASE).cloned(),
            to: None,
        }];
        if super::pool::needs_labels_to_stay(self.member.pool) {
            labels.extend(labels::labels_to_stay(draft, self.member));
        }
        let mut annotations = vec![Change {
            key: openshift::DESIRED_CONFIG.to_owned(),
            from: node.annotations.get(openshift::DESIRED_CONFIG).cloned(),
            to: Some(self.home_config().to_owned()),
        }];
        // From a drain to its uncordon the cordon is the MCO's.
        if node.unschedulable && !node.annotation(openshift::DESIRED_DRAIN).starts_with("drain-") {
            annotations.push(Change {
                key: marks::CORDONED_BY.to_owned(),
                from: node.annotations.get(marks::CORDONED_BY).cloned(),
                to: Some(cordon_mark(&draft.frame.run.uid)),
            });
        }
        NodePatch {
            labels,
            annotations,
            ..NodePatch::of(node, NodePurpose::BringHome)
        }
    }

    /// A cordon that a person set after the release is put back after the MCO took it away.
    fn recordoned(&self, draft: &mut Draft<'_>) -> bool {
        let node = self.member.node;
        if !mark::remembers_cordon(node) {
            return true;
        }
        let patch = NodePatch {
            annotations: vec![Change {
                key: marks::CORDONED_BY.to_owned(),
                from: node.annotations.get(marks::CORDONED_BY).cloned(),
                to: None,
            }],
            unschedulable: (!node.unschedulable).then_some(true),
            ..NodePatch::of(node, NodePurpose::Recordon)
        };
        self.plan(draft, Action::PatchNode(patch), None);
        draft.report(
            self.member,
            Step::Changed,
            Why::new(Reason::ComingHome, "its cordon is put back"),
        );
        false
    }

    /// Keeps the turn for `soakSeconds`; true once they are over.
    fn soak(&self, draft: &mut Draft<'_>) -> bool {
        let soak = self.force.soak_seconds;
        if soak == 0 || self.give_up.is_some() {
            return true;
        }
        if self.change.status.step != Some(Step::Soaked) {
            let mut journal = self.journal(draft);
            journal.enter(Step::Soaked, None);
            journal.write(draft, None);
            draft.report(
                self.member,
                Step::Soaked,
                Why::new(Reason::Soaking, format!("soaks {soak} s")).until(later(draft.frame.now, soak)),
            );
            return false;
        }
        let since = journal::time(self.change.status.since.as_deref()).unwrap_or(draft.frame.now);
        let until = later(since, soak);
        if draft.frame.now >= until {
            return true;
        }
        draft.wake(until);
        draft.report(
            self.member,
            Step::Soaked,
            Why::new(Reason::Soaking, format!("soaks until {until}")).until(until),
        );
        false
    }
}

/// The daemon asked for a drain that is not done.
fn drains(node: &NodeView) -> bool {
    let asked = node.annotation(openshift::DESIRED_DRAIN);
    asked.starts_with("drain-") && asked != node.annotation(openshift::LAST_APPLIED_DRAIN)
}

fn cordon_mark(owner_uid: &str) -> String {
    format!("{{\"owner\":\"{owner_uid}\",\"prior\":true}}")
}

/// Tests that an annotation is still as it was read.
fn same(annotations: &BTreeMap<String, String>, key: &str) -> Change {
    let found = annotations.get(key).cloned();
    Change {
        key: key.to_owned(),
        from: found.clone(),
        to: found,
    }
}

/// Gives back what a node that no longer has its turn still holds: shield and lease.
pub fn give_back(draft: &mut Draft<'_>, member: &Member<'_>) {
    let node = member.node;
    if member.shielded
        && let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == draft.frame.run.uid)
    {
        draft.act(&node.name, unshield(node, &mark), None);
    }
    release_lease(draft, &node.name);
}

fn release_lease(draft: &mut Draft<'_>, node: &str) {
    let holder = lease_holder(&draft.frame.run.uid);
    if let Some(action) = lease::release(draft.frame.observed, node, &holder) {
        draft.act(node, action, None);
    }
}

/// Ends the journals of nodes that are gone, and takes back what is left on nodes that are in the run no
/// more: shields and leases.
///
/// A cluster that has MachineConfigPools is never without any: where none is seen the list is not believed, and only nodes that are gone
/// end their turns. A run that is being deleted gives back what it has all the same.
pub fn settle_orphans(draft: &mut Draft<'_>) {
    let blind = draft.frame.observed.pools.is_empty() && !draft.frame.run.deleting;
    for change in draft.frame.orphans.clone() {
        let (name, uid) = (&change.spec.node_name, &change.spec.node_uid);
        let node = draft.frame.observed.nodes.get(name);
        if blind && node.is_some_and(|node| node.uid == *uid) {
            continue;
        }
        let message = match node.filter(|node| node.uid == *uid) {
            None => journal::gone(change),
            Some(_) => format!("pool {} of Node {name} no longer exists", change.spec.target.pool),
        };
        let ended = journal::end_gone(change, message, draft.frame.observed, draft.frame.now);
        draft.out.actions.extend(ended);
    }
    if blind {
        return;
    }
    let observed = draft.frame.observed;
    let uid = &draft.frame.run.uid;
    let holder = lease_holder(uid);
    let members: BTreeSet<&str> = draft
        .frame
        .members
        .iter()
        .map(|member| member.node.name.as_str())
        .collect();
    let shielded: Vec<(&NodeView, Shielded)> = observed
        .nodes
        .values()
        .filter(|node| !members.contains(node.name.as_str()))
        .filter_map(|node| mark::shielded(node).map(|mark| (node, mark)))
        .filter(|(_, mark)| mark.owner == *uid)
        .collect();
    let leased: Vec<&String> = observed
        .leases
        .iter()
        .filter(|(node, lease)| lease.holder == holder && !members.contains(node.as_str()))
        .map(|(node, _)| node)
        .collect();
    for (node, mark) in shielded {
        draft.act(&node.name, unshield(node, &mark), None);
    }
    for node in leased {
        release_lease(draft, node);
    }
}

/// Lets Jobs go whose verdict is journaled; when the run is left, all of its Jobs.
pub fn free_jobs(draft: &mut Draft<'_>, all: bool) {
    let frame = &draft.frame;
    // Those that have their TTL are free already: what is left is what runs, and little more.
    let kept: HashMap<String, (&Key, &JobView)> = frame
        .observed
        .jobs
        .iter()
        .filter(|(_, job)| job.ttl_seconds.is_none() && !job.deleting)
        .map(|(key, job)| (key.to_string(), (key, job)))
        .collect();
    if kept.is_empty() {
        return;
    }
    let mut freed: BTreeMap<&Key, &JobView> = frame
        .changes()
        .flat_map(|change| change.status.verdicts.iter())
        .chain(frame.run_verdicts)
        .filter_map(|verdict| kept.get(verdict.job.as_deref()?).copied())
        .collect();
    if all {
        let awaited: BTreeSet<Key> = if frame.run.deleting {
            BTreeSet::new()
        } else {
            awaited_run_jobs(frame).collect()
        };
        freed.extend(frame.jobs().filter(|(key, _)| !awaited.contains(*key)));
    }
    job::free(&mut draft.out, freed);
}

/// How often a drain that could not pass is tried again (seconds).
const DRAIN_PROBE_SECONDS: i64 = 15;
