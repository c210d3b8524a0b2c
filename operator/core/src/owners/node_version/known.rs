//! What journals and PendingNodes of a NodeVersion are named, and what of them belongs to it.

use crate::{
    key::Key,
    names,
    observed::{
        ChangeView, FleetView, NodeVersionView, NodeView, Observed, PendingNodeView, ScalingGroupView,
    },
    owner::Owner,
    released,
    turn::{
        journal,
        reservation::{self, of_owner},
    },
};
use numo_api::{Entry, NodeChangeSpec, Reason, Step, Target, marks};

/// How long an id of a request is: the provider contract takes 32 characters at most.
const REQUEST_DIGITS: usize = 20;

/// Id of what a NodeVersion asks of its nodes.
pub fn run_id(view: &NodeVersionView) -> String {
    let image = view.spec.image.as_deref().unwrap_or_default();
    let target = format!("{image}\n{}", components(view));
    names::run_id(&view.uid, &target.to_lowercase())
}

/// The ConfigMap of the components that nodes are to have; empty if they are not compared.
pub(super) fn components(view: &NodeVersionView) -> &str {
    view.spec
        .kubernetes_components_reference
        .as_deref()
        .unwrap_or_default()
}

/// The version that it asks for, as journals have it.
pub(super) fn version(view: &NodeVersionView) -> &str {
    let version = view.spec.image_version.as_ref().or(view.spec.image.as_ref());
    version.map_or("", String::as_str)
}

/// The journals of a NodeVersion: those of the operator's own namespace.
pub(crate) fn changes<'a>(observed: &'a Observed, uid: &'a str) -> impl Iterator<Item = &'a ChangeView> {
    of_owner(observed, &observed.settings.namespace, uid)
}

/// The NodeChange of a node that is replaced. It is in the operator's own namespace.
pub fn reservation(view: &NodeVersionView, node: &NodeView, namespace: &str) -> (Key, NodeChangeSpec) {
    let target = Target {
        run_id: run_id(view),
        version: version(view).to_owned(),
        pool: String::new(),
    };
    let owner = Owner::node_version(view.name.as_str());
    reservation::reservation((&owner, &view.uid), node, target, false, namespace)
}

/// Whether a turn of the NodeVersion, under way or over, has let this machine go.
pub(super) fn is_released_machine(observed: &Observed, uid: &str, machine: &str) -> bool {
    released::has_released(changes(observed, uid), machine)
}

/// What ids of requests begin with.
const REQUEST: &str = "numo-";

/// Id of the request for the machine that is to take the place of a node, and name of its PendingNode. It is the same after a
/// crash, and another one after each machine that did not join, and in each attempt: the machine of the one before may have taken the place
/// of another node by now, and a provider gives the same machine for the same request.
pub fn request(change: &ChangeView) -> String {
    numbered(change, failed_joins(change), change.status.attempt)
}

/// Whether a PendingNode is of a machine that was made for the node and failed.
pub(super) fn has_failed(change: &ChangeView, pending: &PendingNodeView) -> bool {
    let entries = change.status.entries.iter();
    let mut failed = entries.filter(|entry| is_failed_join(entry)).enumerate();
    failed.any(|(number, entry)| numbered(change, number, entry.attempt) == pending.name)
}

fn numbered(change: &ChangeView, number: usize, attempt: i32) -> String {
    let number = number.to_string();
    // The first attempt has no number, as ids had none before.
    let attempt = (!matches!(attempt, 0 | 1)).then(|| attempt.to_string());
    let parts: Vec<&str> = ["machine", &change.uid, &number]
        .into_iter()
        .chain(attempt.as_deref())
        .collect();
    format!("{REQUEST}{}", names::hash(&parts, REQUEST_DIGITS))
}

/// Whether a PendingNode has its name of a request of numo's.
pub(super) fn is_request(name: &str) -> bool {
    name.starts_with(REQUEST)
}

/// How many machines did not join that were made for the node, in all its attempts.
pub(super) fn failed_joins(change: &ChangeView) -> usize {
    let entries = change.status.entries.iter();
    entries.filter(|entry| is_failed_join(entry)).count()
}

fn is_failed_join(entry: &Entry) -> bool {
    entry.step == Step::PreRules && entry.reason.as_deref() == Some(Reason::JoinFailed.name())
}

/// The same, in the present attempt.
pub(super) fn failed_joins_now(change: &ChangeView) -> usize {
    let attempt = change.status.attempt.max(1);
    let entries = change.status.entries.iter();
    entries
        .filter(|entry| entry.attempt == attempt && is_failed_join(entry))
        .count()
}

/// Whether the node is held because new machines did not join.
pub(super) fn is_held_for_joins(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Held) && journal::is_for(change, Reason::JoinFailed)
}

/// Whether a group's machines are those of the NodeVersion. Of a group without a ScalingGroup they are the first's, which makes none there.
pub(super) fn has_group(view: &NodeVersionView, fleet: &FleetView, group_id: &str) -> bool {
    match fleet.group(group_id) {
        Some(group) => owns(view, fleet, group),
        None => is_first(view, fleet),
    }
}

/// Whether a ScalingGroup is of the NodeVersion.
pub(super) fn owns(view: &NodeVersionView, fleet: &FleetView, group: &ScalingGroupView) -> bool {
    owner_of(fleet, group).is_some_and(|owner| owner.name == view.name)
}

/// The NodeVersion of a ScalingGroup: the one that it names; where it names none, the only one that there is. None of one that names a NodeVersion
/// that is not there: that may be gone for a moment, and its nodes would get the image of another one, without its rules.
pub(super) fn owner_of<'a>(fleet: &'a FleetView, group: &ScalingGroupView) -> Option<&'a NodeVersionView> {
    if let Some(name) = group.node_version() {
        return fleet.versions.get(name);
    }
    let mut all = fleet.versions.values();
    all.next().filter(|_| all.next().is_none())
}

/// Whether the NodeVersion is the one that sees to what belongs to none.
pub(super) fn is_first(view: &NodeVersionView, fleet: &FleetView) -> bool {
    let mut all = fleet.versions.values().filter(|other| !other.deleting);
    all.next().is_none_or(|first| first.name == view.name)
}

/// The PendingNodes of a NodeVersion: those that say so, and those of its groups that say nothing.
pub(super) fn pending<'a>(
    view: &'a NodeVersionView,
    fleet: &'a FleetView,
) -> impl Iterator<Item = &'a PendingNodeView> {
    fleet.pending.values().filter(move |pending| {
        let known = fleet
            .versions
            .values()
            .any(|other| other.uid == pending.owner_uid);
        if known {
            return pending.owner_uid == view.uid;
        }
        // What nobody has is left to the first: no machine is to be forgotten.
        let owner = fleet
            .group(pending.group_id())
            .and_then(|group| owner_of(fleet, group));
        owner.map_or_else(|| is_first(view, fleet), |owner| owner.name == view.name)
    })
}

/// Name of the NodeChange that a PendingNode is for; empty if it is for none.
pub(super) fn for_change(pending: &PendingNodeView) -> &str {
    pending
        .annotations
        .get(marks::PENDING_FOR)
        .map_or("", String::as_str)
}

/// Whether a node or what is noted on it is waited for: a person is told once that takes too long.
pub(super) const fn is_awaited(reason: Reason) -> bool {
    matches!(reason, Reason::Joining | Reason::AwaitingAnnotation)
}
