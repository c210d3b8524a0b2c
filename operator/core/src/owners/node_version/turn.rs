//! A node that has its turn with a NodeVersion: what the steps of `turn/steps.rs` are for it. The node is the old one, and once that is
//! gone the new one that has its place. Its release: the machine of the old node goes, and its Node after it.

use super::{
    etcd::heir_gone,
    known::{is_awaited, is_held_for_joins, version},
    late::being_deleted,
    pass::Pass,
    sets::Class,
};
use crate::{
    action::{Event, EventAction, FleetAction},
    admit::{
        gates::{self, Gate, when},
        wave_rules::Rules,
    },
    key::Key,
    ledger,
    observed::{ChangeView, NodeView, RuleView, is_same},
    owner::OwnerKind,
    probe::Look,
    quorum,
    report::NodeReport,
    rules,
    turn::{
        across, closed, contradiction,
        cordon::{Across, OwnDrain},
        directive, failed,
        journal::{self, Journal},
        lease, machine,
        node::Holding,
        phases::Phases,
        shield,
        steps::{self, Next, ON, Parts, STAY},
    },
    why::Why,
};
use numo_api::{
    Phase, Pin, Reason, Step,
    machines::{CspState, Goal, PendingNodeSpec, annotations},
};
use std::borrow::Cow;

/// How long a machine has to go before that is said of it (seconds), as the reference has it.
const LEAVE_SECONDS: i64 = 60;

/// A node on its way through the steps.
pub(super) struct Going<'p, 'a> {
    pub(super) pass: &'p mut Pass<'a>,
    pub(super) change: &'a ChangeView,
    /// The old node, while it is there.
    donor: Option<&'a NodeView>,
    /// The old node, or the new one that has its place.
    node: &'a NodeView,
    rules: Rules<'a>,
}

impl<'a> Pass<'a> {
    /// The rules that a node must pass.
    pub(super) fn rules_of(&self, node: &str) -> Cow<'_, [(Key, Option<&'a RuleView>)]> {
        self.wave_rules.of(node, &self.intent.rules, self.observed)
    }

    /// Moves a node that has its turn one step further.
    pub(super) fn advance(&mut self, change: &'a ChangeView) {
        let donor = self.observed.node_of(change);
        if donor.is_none() && journal::entered(change, Step::Released).is_none() {
            // A machine or a member of etcd that a copied status names is left alone.
            let pin = change.status.pin.as_ref();
            let names_none = pin.is_none_or(|pin| pin.provider_id.is_none() && pin.heir_member.is_none());
            if !self.stands_still(change, names_none.then_some(Reason::NodeGone)) {
                self.end_gone(change);
            }
            return;
        }
        let pin = change.status.pin.as_ref();
        let heir = pin.and_then(|pin| self.observed.nodes.get(pin.heir.as_deref()?));
        match donor.or(heir) {
            Some(node) => {
                let rules = self.rules_of(&change.spec.node_name).into_owned();
                let rules = rules::of_turn(rules, self.leaving.is_some());
                steps::advance(&mut Going {
                    pass: self,
                    change,
                    donor,
                    node,
                    rules,
                });
            }
            None => self.finish_alone(change),
        }
    }

    /// Ends the turn of a node that is gone and whose place no node has: it was to go, or the new one is gone too.
    fn finish_alone(&mut self, change: &'a ChangeView) {
        if self.stands_still(change, None) {
            return;
        }
        let doubt = contradiction::of(change, self.now, true, <Going<'_, '_> as steps::Turn>::before);
        if let Some(why) = doubt.filter(|_| self.leaving.is_none()) {
            return self.say(&change.spec.node_name, Step::Held, why, Some(change));
        }
        if journal::entered(change, Step::Changed).is_none() {
            return self.await_machine(change);
        }
        let held = directive::held(change).filter(|_| self.leaving.is_none());
        if let Some(why) = held {
            return self.say(&change.spec.node_name, Step::Held, why, Some(change));
        }
        if self.leaving.is_none() && self.await_lost(change) {
            return;
        }
        let mut lost = self.words_of_lost(change);
        if let Some(heir) = heir_gone(self.observed, change).filter(|_| lost.is_empty()) {
            lost =
                format!(". Node {heir}, which had its place, is gone, too: there is a node less than before");
        }
        let why = Why::new(Reason::Done, format!("its machine is gone{lost}"));
        self.end_journal(change, Step::Done, &why);
    }

    pub(super) fn end_journal(&mut self, change: &'a ChangeView, step: Step, why: &Why) {
        let mut journal = Journal::open(change, self.now);
        journal.enter(step, Some(why));
        self.write(journal);
        self.say(&change.spec.node_name, step, why.clone(), Some(change));
    }

    /// Has the machine of a node deleted, before it its member of etcd, and after it the Node: a kubelet that runs would make its Node
    /// anew. That the machine is to go is written down first.
    fn release_machine(&mut self, change: &'a ChangeView, donor: &'a NodeView) {
        if self.goes_back(change, donor) {
            return;
        }
        if let Some(why) = self.pinned_other(change, Some(donor)) {
            return self.say(&donor.name, Step::Held, why, Some(change));
        }
        let Some(pending) = self.leaving_of(change) else {
            let why = self.write_leave(change);
            return self.say(&donor.name, Step::Released, why, Some(change));
        };
        // Also where the machine is gone already: its member would count for ever among those that must agree.
        if let Some(why) = self.leave_etcd(change, donor) {
            return self.say(&donor.name, Step::Released, why, Some(change));
        }
        let state = self.state_leaving(pending);
        let known = pending.status.csp_state;
        if known == Some(CspState::Terminated) && state == known {
            let action = FleetAction::DeleteNode {
                node: donor.name.clone(),
                uid: donor.uid.clone(),
            };
            if being_deleted(donor).is_none() {
                self.fleet(&donor.name, action);
            }
            let why = self.node_goes(donor);
            return self.say(&donor.name, Step::Released, why, Some(change));
        }
        self.delete_machine(&donor.name, pending, state);
        let why = self.leaving_machine(pending);
        self.say(&donor.name, Step::Released, why, Some(change));
    }

    /// Writes down that a machine is to go, and returns what its turn waits for.
    fn write_leave(&mut self, change: &'a ChangeView) -> Why {
        let node = &change.spec.node_name;
        let going = Why::new(Reason::MachineLeaving, "its machine is to be deleted");
        let pin = change.status.pin.clone().unwrap_or_default();
        let known = self.observed.nodes.get(node);
        let group = known.map_or("", |node| node.annotation(annotations::SCALING_GROUP_ID));
        let deadline = crate::time::later(self.now, LEAVE_SECONDS);
        let spec = PendingNodeSpec {
            provider_id: pin.provider_id.clone(),
            group_id: Some(group.to_owned()).filter(|group| !group.is_empty()),
            node_name: Some(node.clone()),
            goal: Some(Goal::Leave),
            deadline: Some(deadline.to_string()),
        };
        if let Some(other) = self.fleet.pending.get(node) {
            if is_same(
                other.provider_id(),
                pin.provider_id.as_deref().unwrap_or_default(),
            ) {
                self.write_pending(other, spec, Vec::new());
                return going;
            }
            let message = format!(
                "PendingNode {node} has machine {}, and the one of Node {node} is {}: delete the PendingNode that is wrong",
                other.provider_id(),
                pin.provider_id.unwrap_or_default()
            );
            let why = Why::new(Reason::ProviderContradicts, message);
            self.out.report.problems.push(why.clone());
            return why;
        }
        let action = FleetAction::CreatePendingNode {
            name: node.clone(),
            owner: (self.view.name.clone(), self.view.uid.clone()),
            spec: Box::new(spec),
            turn: Some(change.key.name.clone()),
        };
        self.fleet(node, action);
        going
    }

    /// Waits until the machine is gone.
    fn await_machine(&mut self, change: &'a ChangeView) {
        let name = &change.spec.node_name;
        if let Some(why) = self.pinned_other(change, None) {
            return self.say(name, Step::Held, why, Some(change));
        }
        let Some(pending) = self.leaving_of(change) else {
            let why = self.write_leave(change);
            return self.say(name, Step::Released, why, Some(change));
        };
        if let Some(again) = self.come_again(change) {
            // Once that has its turn, it says how it stands.
            if self.turn_of(again).is_none() {
                let why = self.undeleted(pending);
                let why = why.unwrap_or_else(|| self.waits_for_again(change, again));
                self.say(name, Step::Released, why, Some(change));
            }
            return;
        }
        if let Some(why) = self.leave_etcd_alone(change) {
            return self.say(name, Step::Released, why, Some(change));
        }
        if pending.status.csp_state == Some(CspState::Terminated) {
            let why = Why::new(Reason::MachineLeaving, "its machine is gone");
            let mut journal = Journal::open(change, self.now);
            journal.enter(Step::Changed, Some(&why));
            let note = format!("machine {} of Node {name} is gone", pending.provider_id());
            let event = Event::normal(why.reason.name(), EventAction::Change, note).on(name);
            self.tell(journal, event);
            return self.say(name, Step::Changed, why, Some(change));
        }
        let why = self.leaving_machine(pending);
        self.say(name, Step::Released, why, Some(change));
    }

    /// What keeps the next step of a node that was not let go.
    fn weigh(&mut self, donor: &'a NodeView, change: &'a ChangeView) -> Option<Why> {
        let is_disrupted = journal::entered(change, Step::Cordoned).is_some();
        let not_ready = || {
            let refused = self.intent.not_ready().refusal(donor);
            refused.filter(|_| !is_disrupted)
        };
        let heir_away = || {
            let heir = self.heir_of(donor)?;
            (is_disrupted && !heir.ready).then(|| self.away(heir))
        };
        let no_member = || {
            let heir = self.heir_of(donor).filter(|_| quorum::is_control_plane(donor))?;
            let message = format!(
                "Node {}, which takes its place, is no member of etcd yet",
                heir.name
            );
            (!quorum::is_member(self.observed, heir)).then(|| Why::new(Reason::EtcdQuorum, message))
        };
        let pass = &*self;
        let of_owner = || {
            gates::of_owner(pass.intent.problem.clone(), pass.intent.suspended.as_ref())
                .chain(when(move || pass.no_provider()))
                .chain(when(move || pass.unseen_autoscaler().filter(|_| !is_disrupted)))
                .chain(when(move || pass.nobody_drains_it(donor, change)))
        };
        let against = gates::weigh(self.asked == Some(donor.name.as_str()), |gate| match gate {
            Gate::Owner => of_owner().next(),
            Gate::Window if !is_disrupted => self.intent.schedule.closed_to(donor, self.observed, self.now),
            Gate::Approval if !is_disrupted => self.approvals.refusal(&self.waves, &donor.name),
            Gate::Stop => ledger::stop(self.observed, donor),
            Gate::Unfit => self.unknown_in_turn(donor),
            Gate::Person => directive::held(change),
            Gate::State => not_ready().or_else(heir_away),
            Gate::Quorum => {
                let refused = quorum::refusal_of_turn(self.observed, donor, change);
                refused
                    .or_else(|| self.member_left_behind(donor))
                    .or_else(|| no_member().filter(|_| is_disrupted))
            }
            // They were free when the turn began.
            Gate::Window
            | Gate::Unread
            | Gate::Waits
            | Gate::Leaving
            | Gate::Busy
            | Gate::Lease
            | Gate::Wave
            | Gate::Domain
            | Gate::Approval
            | Gate::Room
            | Gate::Budget
            | Gate::Drain => None,
        });
        let worst = against.and_of_owner(of_owner).worst(&mut self.out.report);
        let ends = worst.iter().filter(|why| is_awaited(why.reason));
        if let Some(until) = ends.filter_map(|why| why.until).min() {
            self.out.wake(until);
        }
        worst
    }

    /// There is nobody to ask about machines.
    pub(super) fn no_provider(&self) -> Option<Why> {
        let words = self.fleet.provider.missing.as_ref()?;
        Some(Why::new(Reason::ProviderUnavailable, words.as_str()))
    }
}

impl Going<'_, '_> {
    fn is_obsolete(&self) -> bool {
        let class = self.donor.and_then(|donor| self.pass.sets.class_of(donor));
        class == Some(Class::Obsolete)
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
                to_version: version(pass.view),
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
        let change = self.change;
        self.pass.say(&change.spec.node_name, step, why, Some(change));
    }

    fn end_if_unwanted(&mut self) -> Next {
        let Some(donor) = self.donor.filter(|_| !steps::Turn::is_released(self)) else {
            return ON;
        };
        // Of one that goes on, what it may leave behind is written down first.
        let (pass, change) = (&mut *self.pass, self.change);
        let stays = pass.gives_up(donor, change) || pass.await_lost(change) || pass.pin_member(donor, change);
        if stays { STAY } else { ON }
    }

    /// Lease and shield of the old node.
    fn holding(&self) -> Option<Holding> {
        let (donor, pass) = (self.donor?, &*self.pass);
        let (observed, uid) = (pass.observed, &pass.view.uid);
        let keeps_only = self.is_released() || observed.stop_of_kind(OwnerKind::NodeVersion).is_some();
        let is_shielded = keeps_only || shield::is_on(donor, uid);
        let machines = || machine::shields(observed, (&donor.name, uid));
        // The operator that drains the node by a NodeMaintenance has the lease meanwhile.
        let is_lent = across::has_object(observed, donor, self.change);
        Some(Holding {
            holder: (!is_lent).then(|| lease::holder_of(OwnerKind::NodeVersion, uid)),
            keeps_only,
            shield: (!is_shielded).then(|| shield::shield(donor, uid)),
            machines: if keeps_only { Vec::new() } else { machines() },
        })
    }

    fn obey(&mut self) -> Next {
        if steps::Turn::is_released(self) {
            return self.obey_released();
        }
        if self.retries() {
            return STAY;
        }
        if failed::is_held(self.change) {
            failed::say_held(self);
            return STAY;
        }
        if is_held_for_joins(self.change) {
            let name = &self.change.spec.node_name;
            let known = self.change.status.message.as_deref().unwrap_or_default();
            let message = format!(
                "{known}; `numo retry {name}` tries once more, `numo skip {name}` leaves the node out"
            );
            steps::Turn::say(self, Step::Held, Why::new(Reason::JoinFailed, message));
            return STAY;
        }
        self.stay_aborted()
    }

    fn leaving(&self) -> Option<Reason> {
        self.pass.leaving.as_ref().map(|why| why.reason)
    }

    /// A node that was released goes, with its marks.
    fn heeds_marks(&self) -> bool {
        self.leaving().is_none() && !self.is_released()
    }

    fn before(step: Step) -> Option<&'static [Step]> {
        match step {
            Step::Ready | Step::Uncordoned => None,
            Step::Drained | Step::Released => Some(&[Step::Cordoned]),
            Step::Changed => Some(&[Step::Released]),
            _ => Some(&[]),
        }
    }

    fn rules_of_wave(&self) -> Option<Vec<String>> {
        self.pass.wave_rules.to_keep(&self.change.spec.node_name)
    }

    fn asked(&self) -> Option<&NodeReport> {
        let asked = self.pass.asked.filter(|asked| *asked == self.node.name)?;
        self.pass.out.report.nodes.get(asked)
    }

    fn is_released(&self) -> bool {
        journal::entered(self.change, Step::Released).is_some()
    }

    fn weigh_gates(&mut self, _phase: Phase) -> Option<Why> {
        let donor = self.donor?;
        self.pass.weigh(donor, self.change)
    }

    fn make_ready(&mut self, closed: Option<&Why>) -> Next {
        let Some(donor) = self.donor else { return ON };
        if self.is_obsolete() {
            return ON;
        }
        if let Some(rival) = self.pass.rival() {
            // The new node is that operator's by now, and what is not disrupted is given back.
            if journal::entered(self.change, Step::Cordoned).is_some() {
                return ON;
            }
            steps::Turn::close(self, Step::PreRules, rival);
            return STAY;
        }
        self.await_heir(donor, closed)
    }

    fn own_drain(&self) -> Option<OwnDrain> {
        Some(self.drains_so(self.donor?))
    }

    fn drain_across(&self) -> Option<Across> {
        self.drains_across(self.donor?)
    }

    /// The drain is behind the node when it is let go.
    fn probe(&mut self) -> Option<Look> {
        None
    }

    /// From here on the turn only finishes: that it was let go is journaled before anything is deleted, with the machine that goes.
    fn release(&mut self) {
        let Some(donor) = self.donor else { return };
        let known = self.change.status.pin.clone().unwrap_or_default();
        let heir = self.pass.heir_of(donor);
        let member = Some(self.pass.address_of(donor)).filter(|_| quorum::is_control_plane(donor));
        let why = Why::new(
            Reason::MachineLeaving,
            "its Node and its machine are to be deleted",
        );
        let mut journal = Journal::open(self.change, self.pass.now);
        journal.status.pin = Some(Pin {
            provider_id: Some(self.pass.fleet.machine_of(&donor.name).to_owned()),
            heir: heir.map(|heir| heir.name.clone()),
            heir_provider_id: known.heir_provider_id,
            heir_member: known.heir_member,
            member: member.filter(|address| !address.is_empty()).map(str::to_owned),
            from_version: donor
                .annotation(annotations::NODE_IMAGE)
                .chars()
                .take(128)
                .collect(),
            ..Pin::default()
        });
        journal.enter(Step::Released, Some(&why));
        let event = Event::normal(why.reason.name(), EventAction::Release, &*why.message);
        self.pass.tell(journal, event.on(&donor.name));
        steps::Turn::say(self, Step::Released, why);
    }

    fn await_change(&mut self) -> Next {
        let (pass, change) = (&mut *self.pass, self.change);
        if let Some(donor) = self.donor {
            pass.release_machine(change, donor);
            return STAY;
        }
        if journal::entered(change, Step::Changed).is_none() {
            pass.await_machine(change);
            return STAY;
        }
        if self.node.annotation(annotations::DONOR) == change.spec.node_name {
            pass.note(self.node, annotations::DONOR, None);
            let message = format!("Node {} has its place", self.node.name);
            steps::Turn::say(self, Step::Changed, Why::new(Reason::MachineLeaving, message));
            return STAY;
        }
        ON
    }

    /// Nothing is uncordoned: the node that was cordoned is gone.
    fn asks(&self, phase: Phase) -> bool {
        phase != Phase::BeforeUncordon
    }

    fn soak(&mut self) -> Next {
        let changed = journal::entered(self.change, Step::Changed);
        let changed = changed.and_then(|entry| journal::time(Some(&entry.at)));
        let since = steps::last_verdict(self.change).max(changed);
        let soak_seconds = self.pass.intent.soak_seconds;
        let since = since.unwrap_or(self.pass.now);
        steps::soak(self, since, soak_seconds)
    }

    fn finish(&mut self) {
        let why = Why::new(Reason::Done, format!("Node {} has its place", self.node.name));
        self.pass.end_journal(self.change, Step::Done, &why);
    }

    fn close(&mut self, step: Step, why: Why) {
        if journal::entered(self.change, Step::Cordoned).is_some() {
            // What is disrupted keeps its turn.
            return self.say(step, why);
        }
        let (pass, change) = (&mut *self.pass, self.change);
        let restored = closed::close(&mut pass.out, change, &why, pass.now);
        self.say(if restored { Step::Selected } else { step }, why);
    }

    /// The node has changed, and nothing is left to do for a NodeVersion that is left.
    fn go_on_failed(&mut self, phase: Phase, why: &Why) -> Option<Next> {
        if self.pass.leaving.is_none() || !phase.is_after_release() {
            return None;
        }
        let why = Why::new(Reason::RuleContinuedAfterFailure, why.message.clone());
        self.pass.end_journal(self.change, Step::Done, &why);
        Some(STAY)
    }

    fn may_leave_out(&self) -> bool {
        !steps::Turn::is_released(self)
    }

    fn leave_out(&mut self, why: Why) {
        match self.donor {
            Some(donor) => self.pass.end(donor, self.change, Step::Skipped, &why),
            None => self.pass.end_journal(self.change, Step::Skipped, &why),
        }
    }

    /// The node is held, and the NodeVersion begins no other one.
    fn abort(&mut self, why: Why) {
        let why = Why::new(Reason::Aborted, why.message);
        self.pass.end_journal(self.change, Step::Held, &why);
    }
}
