//! A node that has its turn in a run: what the steps of `turn/steps.rs` are for it. It is pinned to its pool's configuration first;
//! its release lets the MCO go, and it is changed once it runs that configuration in its own pool.

use super::{
    admit, gates, in_force::InForce, member::Member, run_decision::RunDecision, run_rules, run_view::RunView,
    waves::Order,
};
use crate::{
    action::{Action, Event, EventAction},
    admit::gates::{Gate, weigh},
    key::Key,
    observed::{ChangeView, ForeignController, LeaseView, RuleView},
    probe::Look,
    report::NodeReport,
    rules,
    turn::{
        contradiction, failed,
        journal::{self, Journal},
        lease, machine,
        node::Holding,
        phases::{At, Phases},
        shield,
        steps::{self, Next, ON, Parts, STAY},
        ungated::not_passed,
    },
    verdict::Question,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Phase, Pin, Reason, Step,
    marks::{self, openshift},
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is the same for every node of a pass.
#[derive(Debug)]
pub struct Pass<'p, 'm> {
    /// Why nothing may begin, if so.
    pub hold: Option<&'p Why>,
    /// Why the run is being left, if it is.
    pub leaving: Option<&'p Why>,
    /// Which nodes go before others, and what a person has approved.
    pub order: &'p Order<'m>,
    /// Nodes that were admitted and are not to begin.
    pub out_of_turn: BTreeMap<&'m str, Why>,
}

/// One node's turn in the making.
pub(super) struct Turn<'t, 'm> {
    pub(super) decision: &'t mut RunDecision<'m>,
    pub(super) pass: &'t Pass<'t, 'm>,
    pub(super) member: &'m Member<'m>,
    pub(super) change: &'m ChangeView,
    /// Home configuration the node is pinned to.
    pub(super) pin: Pin,
    /// What the owner's spec said when the node was pinned.
    pub(super) force: InForce<'m>,
    /// The rules; those that are gone are not waited for when the run is left for good.
    rules: Vec<(Key, Option<&'m RuleView>)>,
    /// Why the node is to give its turn up, if so.
    pub(super) give_up: Option<Why>,
}

/// Moves every node that has its turn one step further. One that has two of them stays where it is.
pub fn advance_all<'m>(decision: &mut RunDecision<'m>, pass: &Pass<'_, 'm>) {
    let view = decision.view;
    let twice = contradiction::twice(view.changes());
    for member in &view.members {
        let Some(change) = member.in_flight() else {
            continue;
        };
        let misnamed = || contradiction::misnamed(view.observed, change).map(|(_, why)| why);
        let doubt = twice.get(member.node.uid.as_str()).cloned().or_else(misnamed);
        match doubt.filter(|_| pass.leaving.is_none()) {
            Some(why) => {
                let seen = (view.observed, view.now);
                lease::keep(&mut decision.out, seen, member.node, &view.holder);
                decision.report(member, Step::Held, why);
            }
            None => advance(decision, pass, member, change),
        }
    }
}

/// Moves a node that has its turn one step further.
fn advance<'m>(
    decision: &mut RunDecision<'m>,
    pass: &Pass<'_, 'm>,
    member: &'m Member<'m>,
    change: &'m ChangeView,
) {
    let view = decision.view;
    let terms = change.status.pin.as_ref().and_then(|pin| pin.terms.as_ref());
    let force = InForce::of(&view.intent, view.observed, terms);
    let rules = rules::of_turn(force.rules.iter().cloned(), pass.leaving.is_some());
    steps::advance(&mut Turn {
        decision,
        pass,
        member,
        change,
        pin: change.status.pin.clone().unwrap_or_default(),
        force,
        rules,
        give_up: pass.leaving.cloned().or_else(|| superseded(view, change)),
    });
}

/// That the cluster goes elsewhere by now. While nobody knows the version, nothing says so.
fn superseded(view: &RunView<'_>, change: &ChangeView) -> Option<Why> {
    let version = view.desired.as_ref().ok()?;
    let target = &change.spec.target;
    (target.run_id != view.run_id).then(|| {
        let message = if *version == target.version {
            format!("the target pools go to other configurations of {version} by now")
        } else {
            format!("the cluster now goes to {version}, not {}", target.version)
        };
        Why::new(Reason::ConfigChanged, message)
    })
}

/// The first line of an attempt: pins the node to its pool's configuration.
fn begin(decision: &mut RunDecision<'_>, member: &Member<'_>, change: &ChangeView) {
    let mut journal = Journal::open(change, decision.view.now);
    journal.status.pin = Some(Pin {
        rendered_config: member.pool.config.clone(),
        from_config: member.node.annotation(openshift::CURRENT_CONFIG).to_owned(),
        from_version: member.version.unwrap_or_default().to_owned(),
        terms: Some(decision.terms(member.node)),
        ..Pin::default()
    });
    journal.enter(Step::PreRules, None);
    journal.write(decision, None);
    decision.report(
        member,
        Step::Admitted,
        Why::new(Reason::Admitting, "its turn has come"),
    );
}

impl<'m> Turn<'_, 'm> {
    /// The node was let go: it shall run its pin, or is in the canary pool, or the journal says so.
    pub(super) fn released(&self) -> bool {
        let node = self.member.node;
        self.recorded()
            || self.in_canary()
            || (!self.pin.rendered_config.is_empty()
                && node.annotation(openshift::DESIRED_CONFIG) == self.pin.rendered_config
                && self.pin.rendered_config != self.pin.from_config)
    }

    /// The journal says that the node was let go.
    pub(super) fn recorded(&self) -> bool {
        let mut entries = self.change.status.entries.iter();
        entries.any(|entry| entry.step == Step::Released && entry.attempt == self.released_attempt())
    }

    /// The node carries this run's release label.
    pub(super) fn in_canary(&self) -> bool {
        self.member.node.label(marks::RELEASE) == self.change.spec.target.run_id
    }

    /// The node came back after its release, as the journal says.
    pub(super) fn was_back(&self) -> bool {
        matches!(self.change.status.step, Some(Step::PostRules | Step::Soaked))
            || journal::is_for(self.change, Reason::RuleFailed)
    }

    /// Every rule, as it is now, has passed that must pass before the release.
    pub(super) fn is_gated(&self) -> bool {
        not_passed(&self.force.rules, &self.change.status).is_none()
    }

    /// The attempt the pin belongs to: a retry after the release keeps it.
    pub(super) fn released_attempt(&self) -> i32 {
        let entries = &self.change.status.entries;
        let admitted = entries.iter().rfind(|entry| entry.step == Step::PreRules);
        let released = entries.iter().rfind(|entry| entry.step == Step::Released);
        match (admitted, released) {
            (Some(admitted), Some(released)) if released.attempt >= admitted.attempt => released.attempt,
            _ => self.change.status.attempt,
        }
    }

    pub(super) fn journal(&self) -> Journal<'m> {
        Journal::open(self.change, self.decision.view.now)
    }

    /// Says where the node is.
    pub(super) fn tell(&mut self, step: Step, reason: Reason, message: impl Into<Arc<str>>) {
        self.decision.report(self.member, step, Why::new(reason, message));
    }

    pub(super) fn event(
        &self,
        warning: bool,
        reason: &'static str,
        action: EventAction,
        note: String,
    ) -> Event {
        Event {
            node: Some(self.member.node.name.clone()),
            warning,
            reason,
            action,
            note,
        }
    }

    pub(super) fn plan(&mut self, action: Action, event: Option<Event>) {
        self.decision.act(&self.member.node.name, action, event);
    }

    /// Ends the turn of a node that was not let go, if the run is left or the node has left its pool.
    pub(super) fn gives_up(&mut self) -> bool {
        if self.released() {
            return false;
        }
        let strayed = self.member.strayed.as_ref().map(|(_, why)| why);
        let Some(why) = self.give_up.as_ref().or(strayed) else {
            return false;
        };
        let why = Why::new(Reason::RunGivenUp, why.message.clone());
        self.end(Step::Failed, &why);
        true
    }

    /// What the node was pinned to moved on before the release: the rules run again for what is asked now.
    pub(super) fn replan(&mut self, message: String) {
        let why = Why::new(Reason::ConfigChanged, message);
        let mut journal = self.journal();
        journal.next_attempt();
        journal.status.pin = None;
        journal.enter(Step::Admitted, Some(&why));
        journal.write(self.decision, None);
        self.decision.report(self.member, Step::Admitted, why);
    }

    /// The turn ends here; back to Selected, it was none.
    pub(super) fn end(&mut self, step: Step, why: &Why) {
        let mut journal = self.journal();
        journal.enter(step, Some(why));
        let event = (step != Step::Selected).then(|| {
            self.event(
                step != Step::Done || why.reason == Reason::Ungated,
                why.reason.name(),
                EventAction::Complete,
                why.message.to_string(),
            )
        });
        journal.write(self.decision, event);
        self.decision.report(self.member, step, why.clone());
    }

    /// Ends or begins anew what the node was pinned to, if that is no longer so. The rules run again for what is asked now.
    fn follow_pool(&mut self) -> Next {
        if self.decision.view.at_target(self.member) {
            let why = Why::new(Reason::Ungated, "it is at the target, released by someone else");
            self.end(Step::Done, &why);
            return STAY;
        }
        let pool = self.member.pool;
        if pool.config.is_empty() {
            // Nobody knows what it goes to, and it may go to the same as before: nothing begins meanwhile.
            return ON;
        }
        if self.pin.rendered_config != pool.config {
            let message = format!(
                "pool {} went from {} to {}",
                pool.name, self.pin.rendered_config, pool.config
            );
            self.replan(message);
            return STAY;
        }
        let asked = self.decision.view.intent.strategy;
        if self.force.strategy != asked {
            // Selectors and labels are those of the strategy that is asked for now.
            let message = format!("spec.strategy went from {:?} to {asked:?}", self.force.strategy);
            self.replan(message);
            return STAY;
        }
        ON
    }
}

impl steps::Turn for Turn<'_, '_> {
    fn parts(&mut self) -> Parts<'_> {
        let view = self.decision.view;
        Parts {
            phases: Phases {
                owner: view.owner,
                owner_uid: &view.run.uid,
                rules: &self.rules,
                pool: &self.member.pool.name,
                to_version: &self.change.spec.target.version,
                observed: view.observed,
                answers: self.decision.answers,
                now: view.now,
            },
            node: self.member.node,
            change: self.change,
            out: &mut self.decision.out,
        }
    }

    fn say(&mut self, step: Step, why: Why) {
        self.decision.report(self.member, step, why);
    }

    /// Nothing has happened yet to a node that is not pinned, unless its journal was lost in mid-change: its turn may end without lease and shield.
    fn end_if_unwanted(&mut self) -> Next {
        if self.change.status.pin.is_some() || self.member.is_moving || self.in_canary() {
            return ON;
        }
        if self.gives_up() || admit::obeys_directive(self.decision, self.member, self.change) {
            return STAY;
        }
        if self.decision.view.at_target(self.member) {
            let message = self.decision.words_of(self.member.pool).runs.clone();
            self.end(Step::Done, &Why::new(Reason::UpToDate, message));
            return STAY;
        }
        if let Some(why) = self.pass.out_of_turn.get(self.member.node.name.as_str()) {
            self.end(Step::Selected, why);
            return STAY;
        }
        ON
    }

    fn holding(&self) -> Option<Holding> {
        let (view, node) = (self.decision.view, self.member.node);
        let uid = &view.run.uid;
        let rival = view.observed.stood_off(ForeignController::MutexRunConfig);
        Some(Holding {
            holder: Some(view.holder.clone()),
            // Beside the operator that numo replaces nothing new is taken.
            keeps_only: rival.is_some(),
            shield: (!shield::is_on(node, uid)).then(|| shield::shield(node, uid)),
            machines: machine::shields(view.observed, (&node.name, uid)),
        })
    }

    /// One that others hold is theirs now: it expired while nobody renewed it. What has begun goes on.
    fn heed_lease(&mut self, _lease: &LeaseView, _until: Timestamp) -> Next {
        ON
    }

    fn obey(&mut self) -> Next {
        if self.change.status.pin.is_none() {
            begin(self.decision, self.member, self.change);
            return STAY;
        }
        if self.obeys_directive() {
            return STAY;
        }
        if self.is_released() {
            return ON;
        }
        if self.gives_up() {
            return STAY;
        }
        self.follow_pool()?;
        if failed::is_held(self.change) {
            failed::say_held(self);
            return STAY;
        }
        ON
    }

    fn leaving(&self) -> Option<Reason> {
        self.pass.leaving.map(|why| why.reason)
    }

    /// A run that goes to another version does not end a person's word.
    fn heeds_hold(&self) -> bool {
        self.pass.leaving.is_none()
    }

    fn before(step: Step) -> Option<&'static [Step]> {
        match step {
            // The MCO goes through these, inside the step Released.
            Step::Cordoned | Step::Drained | Step::Changed | Step::Ready | Step::Uncordoned => None,
            Step::Released => Some(&[Step::PreRules]),
            Step::PostRules | Step::Soaked => Some(&[Step::Released]),
            _ => Some(&[]),
        }
    }

    fn asked(&self) -> Option<&NodeReport> {
        let said = self.decision.said.get(self.member.place)?;
        said.as_ref().filter(|_| self.decision.view.is_asked(self.member))
    }

    fn is_released(&self) -> bool {
        self.released()
    }

    fn weigh_gates(&mut self, phase: Phase) -> Option<Why> {
        let view = self.decision.view;
        let (pass, name) = (self.pass, &self.member.node.name);
        let (waves, approvals) = pass.order;
        let unapproved = || approvals.refusal(waves, name);
        let against = weigh(view.is_asked(self.member), |gate| match gate {
            Gate::Owner => self.pass.hold.cloned(),
            // The canary pool is made ready while the first rules are asked.
            Gate::Room if phase == Phase::Pre => None,
            Gate::Room => gates::node::not_for_canary(view, self.member),
            Gate::Approval => unapproved(),
            gate => gates::node::against(view, self.member, gate),
        });
        let answers = self.decision.answers;
        let against = against.and_of_owner(|| run_rules::all_holds(view, waves, answers));
        against.worst(&mut self.decision.out.report)
    }

    fn probe(&mut self) -> Option<Look> {
        if !self.force.drain_probe {
            return None;
        }
        if let Some(words) = self.decision.view.observed.budgets_unlisted() {
            return Some(Look::Blocked(words));
        }
        let node = &self.member.node.name;
        Some(match self.decision.answers.drains.get(node) {
            Some(None) => Look::Passes,
            Some(Some(words)) => Look::Blocked(words.clone()),
            None => Look::Asks(Question::DrainProbe { node: node.clone() }),
        })
    }

    fn release(&mut self) {
        self.release_node();
    }

    fn await_change(&mut self) -> Next {
        if !self.recorded() {
            self.record_release();
            return STAY;
        }
        self.mind_cordon()?;
        self.leave_canary_early()?;
        self.follow_change()?;
        self.come_home()?;
        if !self.was_back() {
            self.note_change();
            return STAY;
        }
        if failed::is_held(self.change) && self.give_up.is_none() {
            failed::say_held(self);
            return STAY;
        }
        ON
    }

    fn soak(&mut self) -> Next {
        let soak_seconds = self.force.soak_seconds;
        if soak_seconds == 0 || self.give_up.is_some() {
            return ON;
        }
        let now = self.decision.view.now;
        let is_soaking = self.change.status.step == Some(Step::Soaked);
        if !is_soaking {
            let mut journal = self.journal();
            journal.enter(Step::Soaked, None);
            journal.write(self.decision, None);
        }
        let since = Some(self.change.status.since.as_deref()).filter(|_| is_soaking);
        let since = since.and_then(journal::time).unwrap_or(now);
        steps::soak(self, since, soak_seconds)
    }

    fn finish(&mut self) {
        let mut journal = self.journal();
        journal.enter(Step::Done, None);
        let note = format!("done: runs {}", self.change.spec.target.version);
        let event = self.event(false, "Done", EventAction::Complete, note);
        journal.write(self.decision, Some(event));
        let message = format!("it runs {}", self.pin.rendered_config);
        self.say(Step::Done, Why::new(Reason::Done, message));
    }

    /// A run that is left waits for no node that is changed.
    fn go_on_failed(&mut self, phase: Phase, why: &Why) -> Option<Next> {
        if self.give_up.is_none() || !phase.is_after_release() {
            return None;
        }
        let why = Why::new(Reason::RuleContinuedAfterFailure, why.message.clone());
        self.end(Step::Done, &why);
        Some(STAY)
    }

    fn leave_out(&mut self, why: Why) {
        self.end(Step::Skipped, &why);
    }

    /// The node has failed, and with it the run (`RunView::leaving`).
    fn abort(&mut self, why: Why) {
        self.end(Step::Failed, &why);
    }

    /// The journal of a node is in step PreRules from its pin on: the next step is written with the last Pass.
    fn at(&self, phase: Phase) -> At {
        let then = match phase {
            Phase::Pre => Some(Step::PreRelease),
            Phase::Post if self.force.soak_seconds > 0 => Some(Step::Soaked),
            Phase::Post => Some(Step::Done),
            _ => None,
        };
        At::then(phase, then)
    }
}
