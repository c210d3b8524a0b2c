//! The member of etcd of a node of the control plane, which goes before its machine: of a node that is there, and of one whose Node is gone
//! before it could be taken out. By then only the journal knows its address.

use super::pass::Pass;
use crate::{
    action::FleetAction,
    observed::{ChangeView, NodeView, Observed, is_same},
    quorum,
    turn::journal,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, machines::CspState};

impl<'a> Pass<'a> {
    /// Has the member of etcd on a node of the control plane taken out; or why its machine may not go yet.
    pub(super) fn leave_etcd(&mut self, change: &'a ChangeView, donor: &'a NodeView) -> Option<Why> {
        if !quorum::is_control_plane(donor) {
            return None;
        }
        let address = self.address_of(donor);
        if address.is_empty() {
            let message = format!(
                "Node {} has no InternalIP: its member of etcd is not known",
                donor.name
            );
            return Some(Why::new(Reason::QuorumUnknown, message));
        }
        if let Some(why) = quorum::refusal_of_turn(self.observed, donor, change) {
            return Some(why);
        }
        self.take_member_out(change, (&donor.name, address), self.heir_there(change))
    }

    /// The same where the Node is gone before: its member is known by what was journaled when it was let go.
    pub(super) fn leave_etcd_alone(&mut self, change: &'a ChangeView) -> Option<Why> {
        let address = member_left(self.observed, change)?;
        let gone = &change.spec.node_name;
        if let Some(why) = quorum::refusal_of_gone(self.observed, gone, change) {
            return Some(why);
        }
        self.take_member_out(change, (gone, address), self.heir_there(change))
    }

    /// The new node that must vote before the member of the old one goes. None where both are gone: then there is no way back.
    fn heir_there(&self, change: &ChangeView) -> Option<String> {
        let pin = change.status.pin.as_ref()?;
        let is_gone = heir_gone(self.observed, change).is_some();
        pin.heir.clone().filter(|_| !is_gone)
    }

    /// Has the member of etcd at the address of a node taken out; none once that is done. The new node that has its place, if any, votes first.
    pub(super) fn take_member_out(
        &mut self,
        change: &'a ChangeView,
        (node, address): (&str, &str),
        heir: Option<String>,
    ) -> Option<Why> {
        if is_taken_out(self.observed, change, address) {
            return None;
        }
        let told = self.fleet.provider.told.get(address);
        let why = match told.and_then(|told| told.problem.as_ref()) {
            Some(problem) => {
                let message = format!(
                    "the etcd member {address} of Node {node} cannot be taken out, it is tried again: {problem}"
                );
                Why::new(Reason::ProviderUnavailable, message)
            }
            None if node != change.spec.node_name => {
                let message = format!("the member of etcd of Node {node}, which is gone, is taken out first");
                Why::new(Reason::MachineLeaving, message)
            }
            None => Why::new(Reason::MachineLeaving, "its member of etcd is taken out first"),
        };
        if self.may_tell(address) {
            let action = FleetAction::RemoveEtcdMember {
                node: node.to_owned(),
                address: address.to_owned(),
                heir,
            };
            self.fleet(&change.spec.node_name, action);
        }
        Some(why)
    }

    /// The InternalIP of a node; empty if none is known.
    pub(super) fn address_of(&self, node: &NodeView) -> &'a str {
        let host = self.fleet.hosts.get(&node.name);
        host.map_or("", |host| host.address.as_str())
    }
}

/// The new node of a turn, if there is no Node of its name any more.
pub(super) fn heir_gone<'a>(observed: &Observed, change: &'a ChangeView) -> Option<&'a str> {
    let heir = change.status.pin.as_ref()?.heir.as_deref()?;
    (!observed.nodes.contains_key(heir)).then_some(heir)
}

/// Whether a member of etcd was taken out since the node was let go or a machine failed, or since its turn began where it was gone before: another
/// machine may have had its address until then.
pub(super) fn is_taken_out(observed: &Observed, change: &ChangeView, address: &str) -> bool {
    let released = journal::entered(change, Step::Released);
    let mut entries = change.status.entries.iter();
    let failed = entries.rfind(|entry| entry.reason.as_deref() == Some(Reason::JoinFailed.name()));
    let entered = released.into_iter().chain(failed);
    let times = entered.map(|entry| journal::time(Some(&entry.at)).unwrap_or(Timestamp::MAX));
    let since = times.fold(change.created, Timestamp::max);
    let did = observed.fleet.provider.did.get(address);
    did.is_some_and(|did| since <= *did)
}

/// Whether a Node that is there has the machine or the address of the node of this turn: it has come again, and its member is its own.
pub(super) fn is_back(observed: &Observed, change: &ChangeView) -> bool {
    let Some(pin) = &change.status.pin else {
        return false;
    };
    let is = |pinned: &Option<String>, found: &str| pinned.as_deref().is_some_and(|one| is_same(one, found));
    let mut hosts = observed.fleet.hosts.values();
    hosts.any(|host| is(&pin.provider_id, &host.provider_id) || is(&pin.member, &host.address))
}

/// Whether a node is surely gone that was not let go: the provider has said since its turn began that its machine is gone, too.
fn is_gone_with_machine(observed: &Observed, change: &ChangeView) -> bool {
    let pin = change.status.pin.as_ref();
    let machine = pin.and_then(|pin| pin.provider_id.as_deref()).unwrap_or_default();
    let heard = observed.fleet.provider.states.get(&machine.to_lowercase());
    let is_terminated =
        heard.is_some_and(|heard| heard.at >= change.created && heard.said == Ok(CspState::Terminated));
    observed.node_of(change).is_none() && is_terminated && !is_back(observed, change)
}

/// The address of the member of etcd that a node has left behind which was let go and is gone, or is surely gone with its machine; none where
/// a node that is there has it by now.
pub(super) fn member_left<'a>(observed: &Observed, change: &'a ChangeView) -> Option<&'a str> {
    if journal::entered(change, Step::Released).is_none() && !is_gone_with_machine(observed, change) {
        return None;
    }
    let address = change.status.pin.as_ref()?.member.as_deref()?;
    let is_of_turn = |name: &str| {
        let node = observed.nodes.get(name);
        name == change.spec.node_name && node.is_none_or(|node| node.uid == change.spec.node_uid)
    };
    let mut hosts = observed.fleet.hosts.iter();
    let other = hosts.any(|(name, host)| is_same(&host.address, address) && !is_of_turn(name));
    (!other).then_some(address)
}

/// Whether the member of etcd of a node that is gone is yet to be taken out: its machine goes after it.
pub(super) fn keeps_member(observed: &Observed, change: &ChangeView) -> bool {
    let address = member_left(observed, change);
    address.is_some_and(|address| !is_taken_out(observed, change, address))
}
