//! Gates that keep one node from being admitted or let go.

use crate::{
    admit::{gates::Gate, leaving::leaving},
    ledger,
    owners::mutex_run_config::member::Member,
    owners::mutex_run_config::run_view::RunView,
    pools,
    text::counted,
    turn::lease,
    why::Why,
};
use numo_api::{
    Reason,
    marks::{self, openshift},
};

/// What a gate that is the same before the turn and in it, until the node is let go, has against the node.
pub(crate) fn against(view: &RunView<'_>, member: &Member<'_>, gate: Gate) -> Option<Why> {
    let node = member.node;
    match gate {
        Gate::Stop => ledger::stop(view.observed, node),
        // When it is a person's is counted from the run's first seen of it too (`stuck`), which wakes.
        Gate::Leaving => leaving(node, &view.taken, view.now).map(|(why, _)| why),
        Gate::Busy => {
            let other = view.busy.get(node.name.as_str())?;
            Some(ledger::busy(view.observed, &node.name, other, view.now))
        }
        // Its cordon and its state are the doing of the owner that has it: nobody shall be told to uncordon it.
        Gate::State if !view.busy.contains_key(node.name.as_str()) => not_fit(member),
        Gate::Lease => leased(view, member),
        Gate::Window => view.closed_to(node),
        // What a person says of a node in its turn is carried out before (`obeys_directive`). The MCO guards etcd when it takes a
        // master, and numo pauses no pool of those.
        Gate::Owner
        | Gate::Person
        | Gate::Unread
        | Gate::Waits
        | Gate::Unfit
        | Gate::State
        | Gate::Quorum
        | Gate::Wave
        | Gate::Domain
        | Gate::Approval
        | Gate::Room
        | Gate::Budget
        | Gate::Drain => None,
    }
}

/// Why the node is not fit to change now, if so: the MCO takes a node that is cordoned, not Ready or in
/// mid-change all the same, and undoes a person's cordon at the end (`spec/mutex.md` App. C).
fn not_fit(member: &Member<'_>) -> Option<Why> {
    let node = member.node;
    let name = &node.name;
    if member.is_failing {
        let message = format!(
            "Node {name} is {} by the machine-config daemon: {}",
            node.annotation(openshift::STATE),
            node.annotation(openshift::REASON)
        );
        return Some(Why::new(Reason::NodeDegraded, message));
    }
    if !node.ready {
        return Some(Why::new(
            Reason::NodeNotReady,
            format!("Node {name} is not Ready"),
        ));
    }
    if !member.done {
        let message = format!(
            "the machine-config daemon still works on Node {name} (state {:?}, from {} to {})",
            node.annotation(openshift::STATE),
            node.annotation(openshift::CURRENT_CONFIG),
            node.annotation(openshift::DESIRED_CONFIG)
        );
        return Some(Why::new(Reason::NodeNotDone, message));
    }
    if node.unschedulable {
        let message = format!("Node {name} is cordoned, and not by numo; uncordon it to let it change");
        return Some(Why::new(Reason::CordonedByOther, message));
    }
    None
}

/// Who else holds the lease of the node.
fn leased(view: &RunView<'_>, member: &Member<'_>) -> Option<Why> {
    let name = &member.node.name;
    let standing = lease::standing(view.observed, member.lease, &view.holder, view.now);
    lease::refusal(&standing, name)
}

/// CanaryPool: the node must fall into the canary pool when it is let go, and into no other.
pub fn not_for_canary(view: &RunView<'_>, member: &Member<'_>) -> Option<Why> {
    let canary = view.intent.canary?;
    let mut labels = member.node.labels.clone();
    labels.retain(|key, _| !key.starts_with(marks::RULE_LABEL_PREFIX));
    labels.insert(marks::RELEASE.to_owned(), view.run_id.clone());
    match pools::home_now(view.observed, &labels) {
        pools::Home::Pool(name) if name == canary.name => None,
        pools::Home::Pool(_) | pools::Home::None | pools::Home::Several(_) => {
            let message = format!(
                "MachineConfigPool {} does not select Node {} by its spec.nodeSelector yet",
                canary.name, member.node.name
            );
            Some(Why::new(Reason::PoolsPausing, message))
        }
    }
}

/// CanaryPool: the MCO lets only so many nodes of the canary pool change at once.
pub fn canary_room(view: &RunView<'_>, flying: usize) -> Option<Why> {
    let canary = view.intent.canary?;
    let capacity = pools::max_unavailable(canary, flying + 1);
    (flying >= capacity).then(|| {
        let message = format!(
            "in flight: {}; MachineConfigPool {} spec.maxUnavailable lets {capacity} change at once",
            counted(flying, "node"),
            canary.name
        );
        Why::new(Reason::WaitingForTurn, message)
    })
}
