//! A new node of the control plane that is gone before it has the place of the old one. It has joined etcd, and its member would count for ever
//! among those that must agree: which one that is, and on which machine, is written down while the node is there, and it is taken out once the
//! provider says that the machine is gone, too.

use super::{
    etcd::{heir_gone, is_taken_out},
    pass::Pass,
};
use crate::{
    action::{Event, EventAction},
    observed::{ChangeView, FleetQuestion, NodeView, Observed, is_same},
    quorum,
    turn::journal::{self, Journal},
    why::Why,
};
use numo_api::{Pin, Reason, Step, machines::CspState};

/// A new node that is gone in the turn of the old one.
pub(super) struct Lost<'a> {
    /// Its name.
    pub name: &'a str,
    machine: &'a str,
    /// Address of its member of etcd.
    pub member: &'a str,
}

/// The new node of a turn that has left a member of etcd behind; none while a node that is there has its machine or its address.
pub(super) fn lost_heir<'a>(observed: &Observed, change: &'a ChangeView) -> Option<Lost<'a>> {
    let pin = change.status.pin.as_ref()?;
    let (machine, member) = (pin.heir_provider_id.as_deref()?, pin.heir_member.as_deref()?);
    let name = pin.heir.as_deref()?;
    let mut hosts = observed.fleet.hosts.iter();
    let is_there = hosts.any(|(of, host)| {
        let is_unnamed = of == name && host.provider_id.is_empty();
        is_unnamed || is_same(&host.provider_id, machine) || is_same(&host.address, member)
    });
    (!is_there).then_some(Lost {
        name,
        machine,
        member,
    })
}

/// The same, where the provider has said since the turn began that its machine is gone, too.
pub(super) fn surely_lost<'a>(observed: &Observed, change: &'a ChangeView) -> Option<Lost<'a>> {
    let lost = lost_heir(observed, change)?;
    let heard = observed.fleet.provider.states.get(&lost.machine.to_lowercase());
    let is_gone =
        heard.is_some_and(|heard| heard.at >= change.created && heard.said == Ok(CspState::Terminated));
    is_gone.then_some(lost)
}

impl<'a> Pass<'a> {
    /// Notes in a pin which new node an old one has, and of one of the control plane what it may leave behind.
    pub(super) fn pin_heir(&self, pin: &mut Pin, new: &NodeView) {
        let is_other = pin.heir.as_deref() != Some(&new.name);
        pin.heir = Some(new.name.clone());
        let note = |noted: &mut Option<String>, found: &str| {
            if is_other || !found.is_empty() {
                *noted = Some(found.to_owned()).filter(|found| !found.is_empty());
            }
        };
        if quorum::is_control_plane(new) {
            note(&mut pin.heir_provider_id, self.fleet.machine_of(&new.name));
            note(&mut pin.heir_member, self.address_of(new));
        }
    }

    /// Waits until the member of etcd of a new node that is gone is taken out; true as long as it is not. The turn goes on with another one.
    pub(super) fn await_lost(&mut self, change: &'a ChangeView) -> bool {
        let Some(lost) = lost_heir(self.observed, change) else {
            return false;
        };
        if let Some(why) = self.member_of_lost(change) {
            self.say(
                &change.spec.node_name,
                change.status.step.unwrap_or(Step::PreRules),
                why,
                Some(change),
            );
            return true;
        }
        let message = format!(
            "Node {}, which was to take its place, is gone with machine {}, and its member of etcd is taken out",
            lost.name, lost.machine
        );
        let why = Why::new(Reason::JoinFailed, message);
        let mut journal = Journal::open(change, self.now);
        journal.status.pin = journal.status.pin.map(|pin| Pin {
            heir: None,
            heir_provider_id: None,
            heir_member: None,
            ..pin
        });
        let step = match change.status.step {
            // It is let go, and only ends.
            Some(step) if journal::entered(change, Step::Released).is_some() => step,
            _ => Step::PreRules,
        };
        journal.enter(step, Some(&why));
        self.write(journal);
        self.say(&change.spec.node_name, step, why, Some(change));
        true
    }

    /// Has the turn of a node of the control plane begin anew that was let go, and whose new node is gone before its own member of etcd is taken
    /// out: nothing is deleted yet, and etcd would be left with a member less. True if so, and as long as it is to be seen whether it may.
    pub(super) fn goes_back(&mut self, change: &'a ChangeView, donor: &'a NodeView) -> bool {
        let Some(heir) = heir_gone(self.observed, change).filter(|_| quorum::is_control_plane(donor)) else {
            return false;
        };
        let address = self.address_of(donor);
        if is_taken_out(self.observed, change, address) {
            return false;
        }
        let lost =
            format!("Node {heir}, which was to take its place, is gone, and its own member of etcd stays");
        let runs = self.being_taken_out(address);
        let runs = runs.map_or_else(|| self.runs_since_release(change), Err);
        let why = match runs {
            Ok(false) => return false,
            Ok(true) => Why::new(Reason::JoinFailed, format!("{lost}: its turn starts over")),
            Err(why) => {
                let why = Why::new(why.reason, format!("{lost}: {}", why.message));
                self.say(&donor.name, Step::Released, why, Some(change));
                return true;
            }
        };
        if let Some(pending) = self.leaving_of(change) {
            // Nothing is to say any more that the machine goes, before the journal does not.
            if !pending.deleting {
                self.delete_pending(&donor.name, pending);
            }
            let why = Why::new(Reason::MachineLeaving, why.message);
            self.say(&donor.name, Step::Released, why, Some(change));
            return true;
        }
        let mut journal = Journal::open(change, self.now);
        journal.next_attempt();
        journal.enter(Step::Admitted, Some(&why));
        let event = Event::warning(why.reason.name(), EventAction::Change, &*why.message);
        self.tell(journal, event.on(&donor.name));
        let why = Why::new(Reason::Admitting, why.message);
        self.say(&donor.name, Step::Admitted, why, Some(change));
        true
    }

    /// That a member of etcd is being taken out at this moment, if so: whether it is out is to be heard first.
    fn being_taken_out(&mut self, address: &str) -> Option<Why> {
        let told = self.fleet.provider.told.get(address)?;
        if told.problem.is_some() || told.again <= self.now {
            return None;
        }
        self.out.wake(told.again);
        let message = "whether that is taken out is being asked";
        Some(Why::new(Reason::MachineLeaving, message))
    }

    /// Whether the provider has said since a node was let go that its machine runs; or what is waited for.
    fn runs_since_release(&mut self, change: &ChangeView) -> Result<bool, Why> {
        if let Some(why) = self.no_provider() {
            return Err(why);
        }
        let pin = change.status.pin.as_ref();
        let machine = pin.and_then(|pin| pin.provider_id.as_deref()).unwrap_or_default();
        let released = journal::entered(change, Step::Released);
        let released = released.and_then(|entry| journal::time(Some(&entry.at)));
        let heard = self.fleet.provider.states.get(&machine.to_lowercase());
        let heard = heard.filter(|heard| released.is_none_or(|at| heard.at >= at));
        let question = FleetQuestion::State {
            provider_id: machine.to_owned(),
        };
        self.ask_again(question, heard, self.fleet.provider.poll_seconds());
        match heard.map(|heard| &heard.said) {
            Some(Ok(state)) => Ok(!matches!(state, CspState::Terminating | CspState::Terminated)),
            Some(Err(problem)) => {
                let message = format!("the state of machine {machine} is not known: {problem}");
                Err(Why::new(Reason::ProviderUnavailable, message))
            }
            None => {
                let message = format!("the provider is asked for machine {machine}");
                Err(Why::new(Reason::MachineLeaving, message))
            }
        }
    }

    /// Why the member of etcd of a new node that is gone is not taken out yet.
    fn member_of_lost(&mut self, change: &'a ChangeView) -> Option<Why> {
        let lost = lost_heir(self.observed, change)?;
        if let Some(why) = self.machine_of_gone(change, (lost.name, Some(lost.member)), lost.machine) {
            return Some(why);
        }
        if let Some(why) = quorum::refusal_of_gone(self.observed, lost.name, change) {
            return Some(why);
        }
        self.take_member_out(change, (lost.name, lost.member), None)
    }

    /// What is added to why a turn ends that leaves a member of etcd of a new node that is gone.
    pub(super) fn words_of_lost(&self, change: &ChangeView) -> String {
        let lost = lost_heir(self.observed, change);
        lost.map_or_else(String::new, |lost| {
            format!(
                ". Node {}, which was to take its place, is gone: numo does not take its member {} of etcd out, so remove it if `etcdctl \
                 member list` has it, once machine {} is gone",
                lost.name, lost.member, lost.machine
            )
        })
    }
}
