//! Admission: who gets the next turn. Every node that does not is reported with the first thing that
//! keeps it from it.

use super::{
    member::Member, run_decision::RunDecision, run_rules, run_view::RunView, targets, ungated, waves::stand,
};
use crate::{
    admit::{
        approval::Approvals,
        domains::Domains,
        gates::{self, Gate},
        not_ready::left_out_at,
        queue::{self, Queue},
        room::{Room, Words},
        rows::Stand,
        schedule::Schedule,
        waves::Waves,
    },
    decision::Decision,
    key::Key,
    ledger::{self, Ledger},
    observed::{ChangeView, NodeView, Observed, RunConfigView},
    owner::Owner,
    owners::mutex_run_config::gates as of_run,
    pace::Whose,
    pools,
    report::Report,
    rules::{self, Admission, Subject},
    turn::{
        directive::{self, Holds, retry_asked},
        journal::{self, Journal},
        lease::expiry,
        reservation,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Phase, Reason, Step, Target, Terms, conditions::Actor, marks::openshift};
use std::collections::BTreeMap;

/// Admits as many nodes as may go, and reports the rest.
pub fn admit<'m>(
    decision: &mut RunDecision<'m>,
    (waves, approvals): (Waves<'m>, Approvals),
    hold: Option<&Why>,
) {
    let view = decision.view;
    let elsewhere = of_run::run::held_elsewhere(view);
    let room = room(view, &view.members, |_| true);
    let may_be_next = |member: &Member<'_>| {
        !elsewhere.contains_key(member.pool.name.as_str()) && !waves.keeps_row_waiting(member.row)
    };
    queue::admit(&mut Waiting {
        decision,
        hold,
        domains: domains(view, &room, may_be_next),
        room,
        waves,
        approvals,
        elsewhere,
        asked_again: None,
        holds: Holds::of(view.changes()),
    });
}

/// The nodes of a run that wait for their turn.
struct Waiting<'w, 'm> {
    decision: &'w mut RunDecision<'m>,
    /// Why nothing begins, if so.
    hold: Option<&'w Why>,
    room: Room<'m>,
    waves: Waves<'m>,
    domains: Option<Domains<'m>>,
    approvals: Approvals,
    /// Pools that other runs hold.
    elsewhere: BTreeMap<&'m str, Why>,
    /// What of phase PreRun is asked again, as a node could begin.
    asked_again: Option<Why>,
    holds: Holds<'m>,
}

impl<'m> Waiting<'_, 'm> {
    /// Its journal, if it is changed, failed a rule after that, and a person wants that rule asked again: a turn like any.
    fn asked_again(&self, member: &Member<'m>) -> Option<&'m ChangeView> {
        let change = member.change.filter(|_| member.rules_asked_again());
        change.filter(|_| self.decision.view.at_target(member))
    }

    /// Reports a node that rolls without its rules, unless a person has left it out.
    fn tell_ungated(&mut self, member: &'m Member<'m>) {
        let decision = &mut *self.decision;
        if !decision.out.report.ungated.contains_key(&member.node.name) {
            let why = ungated::why(decision.view, member);
            decision.out.report.ungated.insert(member.node.name.clone(), why);
        }
        let left_out = member.change.filter(|_| !member.node.ready);
        if left_out.is_some_and(|change| obeys_directive(decision, member, change)) {
            return;
        }
        match left_out.filter(|_| is_left_behind(member)) {
            Some(change) => report_left_out(decision, member, change),
            None => report_ungated(decision, member),
        }
    }
}

impl<'m> Queue<'m> for Waiting<'_, 'm> {
    type One = &'m Member<'m>;

    fn seen(&self) -> (&'m Observed, &'m Answers, Timestamp) {
        let view = self.decision.view;
        (view.observed, self.decision.answers, view.now)
    }

    fn out(&mut self) -> &mut Decision {
        &mut self.decision.out
    }

    fn waiting(&mut self) -> Vec<Self::One> {
        let members = self.decision.view.members.iter();
        members.filter(|member| member.in_flight().is_none()).collect()
    }

    fn node(&self, member: Self::One) -> &'m NodeView {
        member.node
    }

    fn change(&self, member: Self::One) -> Option<&'m ChangeView> {
        member.change
    }

    fn schedule(&self) -> &Schedule<'m> {
        &self.decision.view.intent.schedule
    }

    fn whose(&self) -> Option<Whose<'_>> {
        Some(Whose {
            owner_uid: &self.decision.view.run.uid,
            run_id: &self.decision.view.run_id,
        })
    }

    fn is_asked(&self, member: Self::One) -> bool {
        self.decision.view.is_asked(member)
    }

    fn sort_out(&mut self, member: Self::One, _ledger: &mut Ledger<'m>) -> Next {
        let view = self.decision.view;
        if view.at_target(member) && self.asked_again(member).is_none() {
            report_done(self.decision, member);
            return STAY;
        }
        if self.elsewhere.contains_key(member.pool.name.as_str()) {
            return ON;
        }
        if is_ungated(member) {
            self.tell_ungated(member);
            return STAY;
        }
        if let Some(change) = member.left_out().filter(|change| !retry_asked(change)) {
            report_left_out(self.decision, member, change);
            return STAY;
        }
        if let Some(why) = view.given_up(member) {
            self.decision.report(member, Step::Skipped, why);
            return STAY;
        }
        if let Some(at) = view.leaves_out_at(member) {
            self.decision.wake(at);
        }
        // That a node is held is a gate once it is journaled.
        let is_heard = |change: &&ChangeView| {
            change.status.step == Some(Step::Selected) && directive::held(change).is_some()
        };
        if let Some(change) = member.change.filter(|change| !is_heard(change))
            && obeys_directive(self.decision, member, change)
        {
            return STAY;
        }
        ON
    }

    fn against(&mut self, member: Self::One, gate: Gate) -> Option<Why> {
        match gate {
            // What holds the other nodes of the run does not concern these yet.
            Gate::Owner => {
                let elsewhere = self.elsewhere.get(member.pool.name.as_str());
                elsewhere.or(self.hold).cloned()
            }
            Gate::Person => self.holds.on(member.node),
            Gate::Wave => self.waves.refusal_of_row(member.row),
            Gate::Domain => self.domains.as_ref()?.refusal(member.node),
            Gate::Approval => self.approvals.refusal(&self.waves, &member.node.name),
            Gate::Room => {
                let of_wave = || self.waves.no_room(member.node);
                no_room(&self.room, self.decision.view, member.node).or_else(of_wave)
            }
            gate => of_run::node::against(self.decision.view, member, gate),
        }
    }

    fn against_owner(&self) -> Vec<Why> {
        let decision = &self.decision;
        run_rules::all_holds(decision.view, &self.waves, decision.answers)
    }

    /// The MCO drains, and leaves no pod that a probe counts.
    fn tried_again(&self) -> Option<i64> {
        None
    }

    fn admission(&self, member: Self::One) -> Admission {
        let view = self.decision.view;
        if !asks_before_turn(view) || self.asked_again(member).is_some() {
            return Admission::default();
        }
        let attempt = member.change.map_or(0, |change| change.status.attempt);
        let subject = Subject {
            pool: &member.pool.name,
            from_version: member.version.unwrap_or_default(),
            to_version: view.desired.as_deref().unwrap_or_default(),
            run: &view.run_id,
            ..Subject::waiting(view.owner, &view.run.uid, member.node, attempt)
        };
        let rules = &self.decision.wave_rules;
        let rules = rules.of(&member.node.name, &view.intent.rules, view.observed);
        rules::admission(&rules, &subject, view.observed, view.now)
    }

    fn noted(&self, member: Self::One) -> Option<Why> {
        noted(self.decision.view, member)
    }

    fn take_place(&mut self, member: Self::One, is_asked_about: bool) {
        let places = (&mut self.room, &mut self.waves, self.domains.as_mut());
        queue::take_places(places, member.node, is_asked_about);
    }

    fn prepare_turn(&mut self, member: Self::One, _admitted: &Why) -> Next {
        let asked_again = self.asked_again.take();
        self.asked_again = asked_again.or_else(|| run_rules::ask_again_first(self.decision));
        if let Some(why) = &self.asked_again {
            self.decision.report(member, Step::Selected, why.clone());
            return STAY;
        }
        let Some(change) = self.asked_again(member) else {
            return ON;
        };
        ask_again(self.decision, member, change);
        STAY
    }

    fn reservation(&self, member: Self::One) -> (Key, NodeChangeSpec) {
        let view = self.decision.view;
        let target = Target {
            run_id: view.run_id.clone(),
            version: view.desired.clone().unwrap_or_default(),
            pool: member.pool.name.clone(),
        };
        reservation(view.run, member.node, target)
    }

    fn begin_again(&self, journal: &mut Journal<'_>, admitted: &Why) -> Why {
        let why = match journal.status.step {
            None | Some(Step::Selected) => admitted.clone(),
            step => {
                journal.next_attempt();
                let reason = if step == Some(Step::Done) {
                    Reason::ConfigChanged
                } else {
                    Reason::Admitting
                };
                Why::new(reason, format!("attempt {} begins", journal.status.attempt))
            }
        };
        journal.obey();
        journal.status.pin = None;
        why
    }

    fn say(&mut self, member: Self::One, step: Step, why: Why) {
        self.decision.report(member, step, why);
    }

    fn wait(&mut self, member: Self::One, why: Why) {
        if why.reason == Reason::NodeLeaseHeld
            && let Some(lease) = self.decision.view.observed.leases.get(&member.node.name)
        {
            self.decision.wake(expiry(lease));
        }
        self.decision.report(member, Step::Selected, why);
    }
}

/// How far the run is with its domains; none if it asks for no order of such. `may_be_next` says which nodes have their turns now, by
/// all other order.
fn domains<'a>(
    view: &RunView<'a>,
    room: &Room<'a>,
    may_be_next: impl Fn(&Member<'_>) -> bool,
) -> Option<Domains<'a>> {
    let order = view.intent.domains.clone()?;
    let members = view.members.iter().filter(|member| may_be_next(member));
    let behind = members.filter_map(|member| match stand(view, member, false) {
        Stand::Behind { goes_on } => Some((member.node, goes_on)),
        Stand::Done(_) | Stand::LeftOut(_) => None,
    });
    Some(Domains::of(order, behind, room.away()))
}

/// What a rule of phase Admit had against the node when the status was written.
fn noted(view: &RunView<'_>, member: &Member<'_>) -> Option<Why> {
    let run = view.run.status.run.as_ref().filter(|run| run.id == view.run_id)?;
    let mut not_admitted = run.not_admitted.iter();
    let noted = not_admitted.find(|noted| noted.node == member.node.name)?;
    let reason = Reason::named(&noted.reason)?;
    Some(Why::new(reason, noted.message.clone()))
}

/// Carries out what a person said about a node before its turn; true if it is not to have one now.
pub fn obeys_directive(decision: &mut RunDecision<'_>, member: &Member<'_>, change: &ChangeView) -> bool {
    let waits = change.status.pin.is_none()
        && matches!(change.status.step, None | Some(Step::Selected | Step::Admitted));
    let skipped = directive::newly_skipped(change).map(|why| (Step::Skipped, why));
    let held = || directive::held(change).filter(|_| waits);
    let Some((step, why)) = skipped.or_else(|| Some((Step::Selected, held()?))) else {
        return false;
    };
    if change.status.step != Some(step) {
        let mut journal = Journal::open(change, decision.view.now);
        journal.obey();
        journal.enter(step, Some(&why));
        journal.write(decision, None);
    }
    decision.report(member, step, why);
    true
}

/// A node that is changed and failed a rule after that has those rules asked again: its next attempt begins
/// there.
fn ask_again(decision: &mut RunDecision<'_>, member: &Member<'_>, change: &ChangeView) {
    let mut journal = Journal::open(change, decision.view.now);
    journal.obey();
    journal.next_attempt();
    if let Some(pin) = &mut journal.status.pin {
        let strategy = pin.terms.as_ref().map(|terms| terms.strategy);
        let terms = decision.terms(member.node);
        pin.terms = Some(Terms {
            strategy: strategy.unwrap_or(terms.strategy),
            ..terms
        });
    }
    journal.enter(Step::PostRules, None);
    journal.write(decision, None);
    let why = Why::new(
        Reason::RuleStarting,
        "its rules after the change are evaluated again",
    );
    decision.report(member, Step::PostRules, why);
}

/// The node is on its way although it never had its turn in this attempt. One that was let go by its rules and was left
/// out since, as it did not come back, is on its way by them.
fn is_ungated(member: &Member<'_>) -> bool {
    let was_released = member.left_out().is_some_and(|change| {
        let entries = &change.status.entries;
        entries.iter().any(|entry| entry.step == Step::Released) && !journal::tells_ungated(change)
    });
    member.is_moving && !was_released
}

/// A person has left out a node that rolled without rules and did not come back: it takes no place from the others.
fn is_left_behind(member: &Member<'_>) -> bool {
    !member.node.ready && member.left_out().is_some_and(|change| !retry_asked(change))
}

/// When a node that rolled without rules has not come back for longer than a change may take.
fn overdue_at(view: &RunView<'_>, member: &Member<'_>) -> Option<Timestamp> {
    left_out_at(member.node, view.intent.change_timeout_seconds)
}

/// Whether a node that rolled without rules goes on by a person's word only.
fn is_overdue(view: &RunView<'_>, member: &Member<'_>) -> bool {
    overdue_at(view, member).is_some_and(|at| at <= view.now)
}

/// Says of a node that it rolls without rules, and who ends that.
fn report_ungated(decision: &mut RunDecision<'_>, member: &Member<'_>) {
    let node = member.node;
    let to = member.desired;
    if pools::failing(node) {
        let state = node.annotation(openshift::STATE);
        let words = node.annotation(openshift::REASON);
        let message = format!("it goes to {to} without rules; the daemon reports {state}: {words}");
        decision.report(member, Step::Released, Why::new(Reason::NodeDegraded, message));
        return;
    }
    if is_overdue(decision.view, member) {
        let limit = decision.view.intent.change_timeout_seconds;
        let message = format!(
            "it goes to {to} without rules, and Node {0} is not Ready for longer than {limit} s (spec.changeTimeoutSeconds): repair it, and it continues; `numo skip {0}` leaves it out, so that the other nodes continue",
            node.name
        );
        let why = Why::new(Reason::Ungated, message).ended_by(Actor::ClusterAdmin);
        decision.report(member, Step::Released, why);
        return;
    }
    if let Some(at) = overdue_at(decision.view, member) {
        decision.wake(at);
    }
    let message = format!("it goes to {to} without rules");
    decision.report(member, Step::Released, Why::new(Reason::Ungated, message));
}

/// The nodes of the run that are away now: those whose turn counts, and those that roll without rules.
fn room<'a>(view: &RunView<'a>, members: &[Member<'a>], counts: impl Fn(&ChangeView) -> bool) -> Room<'a> {
    let words = Words {
        state: "in flight",
        whose: String::new(),
        limit: "spec.maxUnavailable".to_owned(),
        keys: "spec.mutexKeys".to_owned(),
    };
    let limit = view.intent.max_unavailable;
    let Key { namespace, name } = &view.run.key;
    let closed = ledger::closed_by_zero(
        limit,
        &format!("MutexRunConfig {namespace}/{name} spec.maxUnavailable"),
        &format!("kubectl -n {namespace} edit mutexrunconfig {name}"),
    );
    let mut room = Room::of(limit.of(members.len()), view.intent.mutex_keys, words)
        .closed_by(closed)
        .with_parts(targets::parts(view, members));
    for member in members {
        match member.in_flight() {
            Some(change) if counts(change) => {
                room.keep(member.node, ledger::is_kept(view.observed, change, view.now));
            }
            None if is_ungated(member) && !view.at_target(member) && !is_left_behind(member) => {
                room.keep(member.node, is_overdue(view, member));
            }
            _ => {}
        }
    }
    room
}

/// Why there is no room for the node, in the run or in its canary pool.
fn no_room(room: &Room<'_>, view: &RunView<'_>, node: &NodeView) -> Option<Why> {
    let of_canary = || {
        let why = of_run::node::canary_room(view, room.found())?;
        Some(ledger::ended_by_person(why, room.is_kept()))
    };
    room.refusal(node).or_else(of_canary)
}

/// The nodes that were admitted, have not begun, and are not to begin, with the reason: a gate closed
/// since, or more were admitted than may fly, by a leader that was replaced or by a person. Whoever has
/// begun comes first, and then who was admitted first.
pub fn out_of_turn<'a>(
    view: &RunView<'a>,
    members: &[Member<'a>],
    hold: Option<&Why>,
    report: &mut Report,
) -> BTreeMap<&'a str, Why> {
    let mut waiting: Vec<(&ChangeView, &'a NodeView, &Member<'a>)> = members
        .iter()
        .filter_map(|member| Some((member.in_flight()?, member.node, member)))
        .filter(|(change, ..)| change.status.pin.is_none())
        .collect();
    let mut refused = BTreeMap::new();
    if waiting.is_empty() {
        return refused;
    }
    waiting.sort_by_key(|(change, ..)| (change.created, &change.key));
    let mut room = room(view, members, |change| change.status.pin.is_some());
    let mut ledger = Ledger::of_others(view.observed, view.now, &view.run.uid);
    for (_, node, member) in waiting {
        let against = gates::weigh(view.is_asked(member), |gate| match gate {
            Gate::Owner => hold.cloned(),
            Gate::Room => no_room(&room, view, node),
            Gate::Budget => ledger.refusal(node),
            gate => of_run::node::against(view, member, gate),
        });
        let against = against.and_all(|| ledger.refusals(node));
        if let Some(why) = against.worst(report) {
            refused.insert(node.name.as_str(), why);
        } else {
            ledger.take(node);
            room.take(node, false);
        }
    }
    refused
}

/// The NodeChange of a node in a run: the turn that numo gives, or what a person says of a node that has had none.
pub fn reservation(run: &RunConfigView, node: &NodeView, target: Target) -> (Key, NodeChangeSpec) {
    let owner = Owner::run(run.key.clone());
    reservation::reservation((&owner, &run.uid), node, target, false, &run.key.namespace)
}

/// Reports a node that is at the target.
pub fn report_done(decision: &mut RunDecision<'_>, member: &Member<'_>) {
    let is_of_this_run = |change: &ChangeView| {
        change.status.step == Some(Step::Done) && !journal::is_for(change, Reason::Ungated)
    };
    let reason = if member.change.is_some_and(is_of_this_run) {
        Reason::Done
    } else {
        Reason::UpToDate
    };
    let message = decision.words_of(member.pool).runs.clone();
    decision.report(member, Step::Done, Why::new(reason, message));
}

/// Reports a node that was left out of the run.
pub fn report_left_out(decision: &mut RunDecision<'_>, member: &Member<'_>, change: &ChangeView) {
    let step = change.status.step.unwrap_or(Step::Skipped);
    let reason = journal::reason(change).unwrap_or(Reason::SkippedByPolicy);
    let message = change
        .status
        .message
        .clone()
        .unwrap_or_else(|| reason.meaning().to_owned());
    decision.report(member, step, Why::new(reason, message));
}

/// Whether rules are asked about a node before it has a turn.
fn asks_before_turn(view: &RunView<'_>) -> bool {
    let of_waves = view.intent.waves.iter().flat_map(|wave| &wave.rules);
    let of_waves = of_waves.filter_map(|key| view.observed.rules.get(key));
    let mut rules = view
        .intent
        .rules
        .iter()
        .filter_map(|(_, rule)| *rule)
        .chain(of_waves);
    rules.any(|rule| rule.is_evaluated && rule.runs_in(Phase::Admit))
}
