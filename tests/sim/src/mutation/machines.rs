//! The faults of what is decided about machines.

use super::Mutation;
use crate::world::TEAM;
use numo_api::{
    Step,
    machines::{CspState, Goal, annotations},
};
use numo_core::{
    Owner, OwnerKind,
    action::{Action, FleetAction, Planned},
    observed::{Observed, is_same},
};

/// Label of control-plane nodes in these worlds.
const MASTER: &str = "node-role.kubernetes.io/master";

/// Shows the nodes to a NodeVersion as they are not.
pub(super) fn change_nodes(mutation: Mutation, owner: &Owner, view: &mut Observed) {
    if owner.kind != OwnerKind::NodeVersion {
        return;
    }
    for node in view.nodes.values_mut() {
        match mutation {
            Mutation::TakesHeirsAtOnce if node.annotations.contains_key(annotations::DONOR) => {
                node.ready = true;
            }
            Mutation::ForgetsLabels => {
                node.labels.remove(TEAM);
            }
            Mutation::ReplacesWorkersFirst => {
                node.labels.remove(MASTER);
            }
            _ => {}
        }
    }
}

/// No cluster autoscaler seems to run.
pub(super) fn hide_autoscaler(view: &mut Observed) {
    view.fleet.autoscalers.clear();
    view.fleet.strategies.clear();
}

/// Every machine is gone of which the provider says nothing that can be gone by.
pub(super) fn take_unknown_for_gone(view: &mut Observed) {
    for heard in view.fleet.provider.states.values_mut() {
        if matches!(heard.said, Err(_) | Ok(CspState::Unknown)) {
            heard.said = Ok(CspState::Terminated);
        }
    }
}

/// A PendingNode of a machine that is to go is deleted instead.
pub(super) fn forget(seen: &Observed, actions: &mut [Planned]) {
    for planned in actions {
        let Action::Fleet(FleetAction::WritePendingNode { name, uid, spec, .. }) = &planned.action else {
            continue;
        };
        let joins = seen.fleet.pending.get(name).is_some_and(|one| !one.leaves());
        if joins && spec.goal == Some(Goal::Leave) {
            let (name, uid) = (name.clone(), uid.clone());
            planned.action = Action::Fleet(FleetAction::DeletePendingNode { name, uid });
        }
    }
}

/// The machines of nodes are deleted that have their turn and were not let go.
pub(super) fn delete_first(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let changes = seen.changes.values();
    let turns = changes.filter(|change| change.spec.owner_ref.uid == uid && change.in_flight());
    for change in turns.filter(|change| change.status.step == Some(Step::PreRules)) {
        let Some(host) = seen.fleet.hosts.get(&change.spec.node_name) else {
            continue;
        };
        actions.push(Planned {
            chain: change.spec.node_name.clone(),
            action: Action::Fleet(FleetAction::DeleteMachine {
                pending: change.spec.node_name.clone(),
                provider_id: host.provider_id.clone(),
            }),
            event: None,
        });
    }
}

/// The Node goes instead of its machine.
pub(super) fn delete_nodes(seen: &Observed, actions: &mut [Planned]) {
    for planned in actions {
        let Action::Fleet(FleetAction::DeleteMachine { provider_id, .. }) = &planned.action else {
            continue;
        };
        let mut hosts = seen.fleet.hosts.iter();
        let host = hosts.find(|(_, host)| is_same(&host.provider_id, provider_id));
        if let Some(node) = host.and_then(|(name, _)| seen.nodes.get(name)) {
            planned.action = Action::Fleet(FleetAction::DeleteNode {
                node: node.name.clone(),
                uid: node.uid.clone(),
            });
        }
    }
}

/// The members of etcd go of nodes that have their turn and were not let go.
pub(super) fn take_members_out(owner: &Owner, seen: &Observed, actions: &mut Vec<Planned>) {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let changes = seen.changes.values();
    let turns = changes.filter(|change| change.spec.owner_ref.uid == uid && change.in_flight());
    for change in turns.filter(|change| change.status.step == Some(Step::PreRules)) {
        let name = &change.spec.node_name;
        let is_master = seen
            .nodes
            .get(name)
            .is_some_and(|node| node.labels.contains_key(MASTER));
        let Some(host) = seen.fleet.hosts.get(name).filter(|_| is_master) else {
            continue;
        };
        actions.push(Planned {
            chain: name.clone(),
            action: Action::Fleet(FleetAction::RemoveEtcdMember {
                node: name.clone(),
                address: host.address.clone(),
                heir: None,
            }),
            event: None,
        });
    }
}
