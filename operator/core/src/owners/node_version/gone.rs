//! A node whose turn has begun and that is gone before it was let go. One of the control plane leaves a member of etcd behind: where that is,
//! and on which machine, is written down when the turn begins, and it is taken out once the provider says that the machine is gone, too.

use super::{
    etcd::{is_back, member_left},
    lost::lost_heir,
    pass::Pass,
};
use crate::{
    action::{Action, Event, EventAction, FleetQuestion, Planned},
    observed::{ChangeView, NodeView, Observed},
    quorum,
    time::later,
    turn::{
        contradiction, directive,
        journal::{self, Journal},
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Pin, Reason, Step, conditions::Actor, machines::CspState};

/// Whether a node is gone in its turn, was not let go, and may have left a member of etcd: only those of the control plane are pinned before.
fn is_gone_with_member(observed: &Observed, change: &ChangeView) -> bool {
    let pin = change.status.pin.as_ref();
    let is_pinned = pin.is_some_and(|pin| pin.provider_id.is_some());
    observed.node_of(change).is_none()
        && is_pinned
        && journal::entered(change, Step::Released).is_none()
        && !is_back(observed, change)
}

/// Since when the Node of a turn that was not let go is gone, as far as that was written down.
fn gone_since(change: &ChangeView) -> Option<Timestamp> {
    let attempt = change.status.attempt.max(1);
    let mut entries = change
        .status
        .entries
        .iter()
        .filter(|entry| entry.attempt == attempt);
    let noted = entries.rfind(|entry| entry.reason.as_deref() == Some(Reason::NodeGone.name()))?;
    journal::time(Some(&noted.at))
}

impl<'a> Pass<'a> {
    /// Writes down machine and member of etcd of a node of the control plane, before anything is done to it, and those of the new node; true if
    /// that was not written yet.
    pub(super) fn pin_member(&mut self, donor: &NodeView, change: &'a ChangeView) -> bool {
        let (machine, address) = (self.fleet.machine_of(&donor.name), self.address_of(donor));
        let is_disrupted = journal::entered(change, Step::Cordoned).is_some();
        if !quorum::is_control_plane(donor) {
            return false;
        }
        let mut pin = change.status.pin.clone().unwrap_or_default();
        if !is_disrupted && !machine.is_empty() {
            pin.provider_id = Some(machine.to_owned());
            if !address.is_empty() {
                pin.member = Some(address.to_owned());
            }
        }
        // Another one is written down once the member of the one before is taken out.
        if let Some(heir) = self
            .heir_of(donor)
            .filter(|_| lost_heir(self.observed, change).is_none())
        {
            self.pin_heir(&mut pin, heir);
        }
        if pin == Pin::default() {
            return false;
        }
        if change.status.pin.as_ref() == Some(&pin) {
            return false;
        }
        let mut journal = Journal::open(change, self.now);
        journal
            .status
            .closed_since
            .clone_from(&change.status.closed_since);
        journal.status.pin = Some(pin);
        self.write(journal);
        let step = change.status.step.unwrap_or(Step::Admitted);
        let why = Why::new(Reason::Admitting, "its turn has come");
        self.say(&donor.name, step, why, Some(change));
        true
    }

    /// Ends the turn of a node that is gone and was not let go, once it has left no member of etcd behind.
    pub(super) fn end_gone(&mut self, change: &'a ChangeView) {
        let is_given_up = self.leaving.is_some() || directive::skipped(change).is_some();
        let Some(why) = self.member_of_gone(change) else {
            if !is_given_up && self.await_lost(change) {
                return;
            }
            let words = format!("{}{}", journal::gone(change), self.words_of_lost(change));
            let mut ended = journal::end_gone(change, words, self.observed, self.now);
            if let Some(Planned {
                action: Action::WriteJournal { status, .. },
                ..
            }) = &mut ended
            {
                status.pin = self.pin_of_joined(change);
            }
            return self.out.actions.extend(ended);
        };
        // Whoever gives up waits for what comes by itself, and for no person.
        let pin = change.status.pin.as_ref();
        let is_known = pin.is_some_and(|pin| pin.member.is_some());
        let ends_by_itself = why.reason == Reason::MachineLeaving && !why.who().is_person();
        if is_known && (!is_given_up || ends_by_itself) {
            return self.say(&change.spec.node_name, Step::Held, why, Some(change));
        }
        self.leave_member(change, &why);
    }

    /// Whether nothing goes by the journal of a node that is gone, unless its turn ends for this reason all the same. It is said, or a person
    /// ends the turn by a retry.
    pub(super) fn stands_still(&mut self, change: &'a ChangeView, ends: Option<Reason>) -> bool {
        let ends = ends.or(self.leaving.as_ref().map(|why| why.reason));
        let Some(why) = contradiction::unheeded(change, self.owner, ends) else {
            return false;
        };
        let is_copied = contradiction::of_other(change, self.owner).is_none();
        if is_copied && directive::retried(change).is_some() {
            let ended = journal::end_gone(change, journal::gone(change), self.observed, self.now);
            self.out.actions.extend(ended);
        } else {
            self.say(&change.spec.node_name, Step::Held, why, Some(change));
        }
        true
    }

    /// Writes down since when a Node is gone whose machine is still to go: it has as long for that as one has to join.
    fn note_gone(&mut self, change: &ChangeView, name: &str) {
        let why = Why::new(Reason::NodeGone, format!("Node {name} no longer exists"));
        let event = Event::warning(why.reason.name(), EventAction::Hold, &*why.message);
        let mut journal = Journal::open(change, self.now);
        // A person is not waited for yet.
        journal.enter(change.status.step.unwrap_or(Step::Admitted), Some(&why));
        self.tell(journal, event);
    }

    /// Ends the turn of a node whose member of etcd nobody takes out, and says which one that is.
    fn leave_member(&mut self, change: &'a ChangeView, why: &Why) {
        let pin = change.status.pin.clone().unwrap_or_default();
        let member = match &pin.member {
            Some(address) => format!("member {address} of etcd"),
            None => "member of etcd, whose address was never known,".to_owned(),
        };
        let message = format!(
            "{}. numo does not take its {member} out: once machine {} is gone, remove the member if `etcdctl member list` has it, and then \
             delete NodeChange {}",
            why.message,
            pin.provider_id.unwrap_or_default(),
            change.key
        );
        let why = Why::new(Reason::QuorumUnknown, message);
        let mut journal = Journal::open(change, self.now);
        journal.obey();
        journal.enter(Step::Failed, Some(&why));
        let event = Event::warning(why.reason.name(), EventAction::Complete, &*why.message);
        self.tell(journal, event);
        self.say(&change.spec.node_name, Step::Failed, why, Some(change));
    }

    /// Says which members of etcd were left in turns that are over.
    pub(super) fn tell_members_left(&mut self) {
        let left = self.over.iter().filter(|change| {
            change.status.step == Some(Step::Failed)
                && journal::is_for(change, Reason::QuorumUnknown)
                && is_gone_with_member(self.observed, change)
        });
        let words = left.map(|change| change.status.message.clone().unwrap_or_default());
        let said = words.map(|message| Why::new(Reason::QuorumUnknown, message));
        let said: Vec<Why> = said.collect();
        self.out.report.problems.extend(said);
    }

    /// What another node of the control plane waits for: a member of etcd of one that is gone counts among those that must agree.
    pub(super) fn member_left_behind(&self, node: &NodeView) -> Option<Why> {
        let mut flying = self.flying.iter().filter(|_| quorum::is_control_plane(node));
        let gone = flying.find_map(|change| {
            let name = change.spec.node_name.as_str();
            let is_gone = is_gone_with_member(self.observed, change);
            let new = || lost_heir(self.observed, change).map(|lost| lost.name);
            is_gone.then_some(name).or_else(new)
        })?;
        let message = format!("Node {gone} is gone in its turn, and its member of etcd is not taken out yet");
        Some(Why::new(Reason::EtcdQuorum, message))
    }

    /// Why the turn of a node that is gone is not over: its member of etcd is left.
    fn member_of_gone(&mut self, change: &'a ChangeView) -> Option<Why> {
        if !is_gone_with_member(self.observed, change) {
            return None;
        }
        let pin = change.status.pin.as_ref()?;
        let (machine, name) = (pin.provider_id.as_deref()?, &change.spec.node_name);
        if let Some(why) = self.machine_of_gone(change, (name, pin.member.as_deref()), machine) {
            return Some(why);
        }
        let Some(address) = member_left(self.observed, change) else {
            let message = format!("Node {name} is gone, and machine {machine} is, too");
            let is_unknown = pin.member.is_none();
            return is_unknown.then(|| Why::new(Reason::QuorumUnknown, message));
        };
        if let Some(why) = quorum::refusal_of_gone(self.observed, name, change) {
            return Some(why);
        }
        self.take_member_out(change, (name, address), None)
    }

    /// What the machine of a node that is gone does yet; none once it is gone, too.
    pub(super) fn machine_of_gone(
        &mut self,
        change: &ChangeView,
        (name, member): (&str, Option<&str>),
        machine: &str,
    ) -> Option<Why> {
        if let Some(why) = self.no_provider() {
            return Some(why);
        }
        let heard = self.fleet.provider.states.get(&machine.to_lowercase());
        // What was said before the turn began was said of a machine that ran.
        let heard = heard.filter(|heard| heard.at >= change.created);
        let question = FleetQuestion::State {
            provider_id: machine.to_owned(),
        };
        self.ask_again(question, heard, self.fleet.provider.poll_seconds());
        let address = member.unwrap_or("whose address is not known");
        let (reason, found) = match heard.map(|heard| &heard.said) {
            Some(Ok(CspState::Terminated)) => return None,
            None => (Reason::MachineLeaving, "the provider is asked for it".to_owned()),
            Some(Ok(CspState::Terminating)) => (Reason::MachineLeaving, "it is being deleted".to_owned()),
            Some(Ok(state)) => (
                Reason::QuorumUnknown,
                format!(
                    "found {}, wanted Terminated. Have its kubelet join again, or delete the machine; `numo skip {}` ends the turn",
                    state.name(),
                    change.spec.node_name
                ),
            ),
            Some(Err(problem)) => (
                Reason::ProviderUnavailable,
                format!("its state is not known: {problem}"),
            ),
        };
        let message = format!(
            "Node {name} is gone, and its member of etcd {address} is taken out once machine {machine} is gone, too: {found}"
        );
        let why = Why::new(reason, message);
        if reason != Reason::MachineLeaving {
            return Some(why);
        }
        let since = gone_since(change);
        if since.is_none() && member.is_some() {
            self.note_gone(change, name);
        }
        Some(self.leaving_in_time(change, why, since.unwrap_or(self.now)))
    }

    /// The wait for a machine to go, which a person ends once that takes too long.
    fn leaving_in_time(&mut self, change: &ChangeView, why: Why, since: Timestamp) -> Why {
        let due = later(since, self.intent.join_seconds);
        if due > self.now {
            self.out.wake(due);
            return why.until(due);
        }
        let message = format!(
            "{}. That is not so by {due}: see at the provider what keeps the machine, or delete it there; `numo skip {}` ends the turn",
            why.message, change.spec.node_name
        );
        Why::new(why.reason, message).ended_by(Actor::ClusterAdmin)
    }
}
