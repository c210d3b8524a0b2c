//! The part of the shield that is not on the Node: remediation that works through Machines is kept off those of
//! nodes in flight, and the MachineHealthChecks that heed no shield are paused meanwhile. No Machine is ever deleted
//! or changed otherwise.

use super::believed::Believed;
use crate::{
    action::{Action, Change, MachinePatch, MachinePurpose, Planned},
    key::Key,
    mark,
    observed::{Annotated, MachineApi, MachineView, Map, Observed},
    selector,
    why::Why,
};
use numo_api::marks;
use std::collections::{BTreeMap, BTreeSet};

/// What keeps remediation off a Machine.
pub(crate) const MACHINE_SHIELD: [(&str, &str); 1] = [(marks::SKIP_REMEDIATION, "")];
/// What pauses a MachineHealthCheck.
pub(crate) const HEALTH_CHECK_PAUSE: [(&str, &str); 1] = [(marks::HEALTH_CHECK_PAUSED, marks::FIELD_MANAGER)];

/// Whether a MachineHealthCheck selects a Machine: one of its own API and namespace.
pub fn selects(
    ((api, key), check): (&(MachineApi, Key), &Annotated),
    ((of, place), machine): (&(MachineApi, Key), &MachineView),
) -> bool {
    let labels = &machine.object.labels;
    let selected = check.selector.is_null() || selector::matches(&check.selector, labels);
    of == api && place.namespace == key.namespace && selected
}

/// Whether a MachineHealthCheck knows no other way to leave a node alone than to be paused: one of OpenShift that selects its Machine.
fn sees(observed: &Observed, node: &str, check: (&(MachineApi, Key), &Annotated)) -> bool {
    let mut machines = observed.machines_of(node);
    check.0.0 == MachineApi::OpenShift && machines.any(|machine| selects(check, machine))
}

/// Which MachineHealthChecks an owner pauses while a node is in flight: those that see it, unless the owner says that it pauses all that are
/// believed, or none. One that can see no Machine of a Node is somebody else's, whatever the owner says.
pub(crate) fn pauses<'a>(
    observed: &'a Observed,
    owner: &str,
) -> impl Fn(&str, (&(MachineApi, Key), &Annotated)) -> bool + use<'a> {
    let (believed, told) = (Believed::of(observed), observed.told_to_pause(owner));
    move |node, (place, check)| match told {
        Some(all) => all && believed.is_check(place),
        None => sees(observed, node, (place, check)),
    }
}

/// Why an owner does nothing to a node: a mark on its Machine, or on a MachineHealthCheck that is paused for it, cannot be read.
pub(crate) fn unread(observed: &Observed, (node, owner): (&str, &str)) -> Option<Why> {
    let machines = observed.machines_of(node);
    let mut machines = machines.map(|(place, machine)| ("Machine", place, &machine.object));
    let checks = observed.health_checks.iter();
    let checks = checks.map(|(place, check)| ("MachineHealthCheck", place, check));
    let pauses = pauses(observed, owner);
    let mut checks = checks.filter(|(_, place, check)| is_unread(check) && pauses(node, (place, check)));
    let unread = machines.find(|(_, _, object)| is_unread(object));
    let (kind, (api, key), _) = unread.or_else(|| checks.next())?;
    let (object, resource) = (format!("{kind} {key}"), kind.to_lowercase());
    let named = format!("-n {} {resource}s.{} {}", key.namespace, api.group(), key.name);
    Some(mark::unread_on(&object, &named, marks::SHIELDED_BY))
}

fn is_unread(object: &Annotated) -> bool {
    mark::unreadable(&object.annotations, &mark::OF_MACHINES).count() > 0
}

/// What keeps remediation off a node: its Machine is shielded, and the MachineHealthChecks that the owner pauses are paused. A shield or a
/// pause of somebody else is enough: two owners that took it from each other would write for ever.
pub(crate) fn shields(observed: &Observed, (node, owner): (&str, &str)) -> Vec<Action> {
    let pauses = pauses(observed, owner);
    let has_turn = |of: &str| {
        let mut turns = observed.changing();
        turns.any(|change| change.spec.node_name == node && change.spec.owner_ref.uid == of)
    };
    let is_free = |object: &Annotated| match mark::shielded_by(&object.annotations) {
        Some(mark) => mark.owner != owner && !has_turn(&mark.owner),
        None => !is_unread(object),
    };
    let machines = observed.machines_of(node);
    let machines = machines.filter(|(_, machine)| !machine.deleting && is_free(&machine.object));
    let machines = machines.map(|(place, machine)| {
        let changes = on(&machine.object.annotations, owner, &MACHINE_SHIELD);
        patch(place, &machine.object, MachinePurpose::Shield, changes)
    });
    let is_paused = |check: &Annotated| check.annotations.contains_key(marks::HEALTH_CHECK_PAUSED);
    let checks = observed.health_checks.iter();
    let checks = checks.filter(|(_, check)| !is_paused(check) && !is_unread(check));
    let checks = checks.filter(|check| pauses(node, *check));
    let checks = checks.map(|(place, check)| {
        let changes = on(&check.annotations, owner, &HEALTH_CHECK_PAUSE);
        patch(place, check, MachinePurpose::PauseHealthCheck, changes)
    });
    machines.chain(checks).collect()
}

/// Takes an owner's shields off the Machines of nodes that do not need them any more, and resumes the MachineHealthChecks that
/// it paused once they select no Machine of a node that does.
pub fn remediation_unshields(
    observed: &Observed,
    owner: &str,
    is_over: impl Fn(&str) -> bool,
) -> Vec<Planned> {
    let believed = Believed::of(observed);
    let machines = unshields(&believed, owner, &is_over);
    let is_needed = |check: (&(MachineApi, Key), &Annotated)| {
        let mut machines = observed.machines_of_nodes();
        machines.any(|machine| !is_over(&machine.1.node) && selects(check, machine))
    };
    let checks = believed.checks(owner).filter(|check| !is_needed(*check));
    let checks = checks.map(|check| end_pause(observed, owner, check));
    machines.chain(checks).collect()
}

/// Takes an owner's shields off the Machines of nodes that do not need them any more.
pub(crate) fn unshields<'s>(
    believed: &'s Believed<'_>,
    owner: &'s str,
    is_over: impl Fn(&str) -> bool,
) -> impl Iterator<Item = Planned> {
    let over = believed
        .machines(owner)
        .filter(move |(_, machine)| is_over(&machine.node));
    over.map(|(place, machine)| {
        let changes = off(&machine.object.annotations, &MACHINE_SHIELD);
        planned(place, &machine.object, MachinePurpose::Unshield, changes)
    })
}

/// Ends an owner's pause of a MachineHealthCheck. It is resumed, or left to another owner with a node in flight that the check
/// would see: one write, as remediation acts on what it finds between two.
pub(crate) fn end_pause(
    observed: &Observed,
    owner: &str,
    (place, check): (&(MachineApi, Key), &Annotated),
) -> Planned {
    if let Some(heir) = heir(observed, owner, (place, check)) {
        let mark = mark::shielding(&check.annotations, heir, std::iter::empty());
        return planned(place, check, MachinePurpose::HandOverHealthCheck, vec![mark]);
    }
    let changes = off(&check.annotations, &HEALTH_CHECK_PAUSE);
    planned(place, check, MachinePurpose::ResumeHealthCheck, changes)
}

/// Another owner with a node in flight that the MachineHealthCheck would see, and that would pause the check for it: only one of
/// OpenShift, as those of Cluster API heed the shield of the Machine. Who keeps no pause must be given none: two such owners
/// would give it to each other for ever.
fn heir<'a>(
    observed: &'a Observed,
    owner: &str,
    (place, check): (&(MachineApi, Key), &Annotated),
) -> Option<&'a str> {
    if place.0 != MachineApi::OpenShift {
        return None;
    }
    let seen: BTreeSet<&str> = observed.owners().map(|(_, view)| view.uid).collect();
    let pauses = |of: &str| seen.contains(of) && observed.told_to_pause(of) != Some(false);
    let turns: BTreeMap<&str, &str> = observed
        .changing()
        .map(|change| (change.spec.node_name.as_str(), change.spec.owner_ref.uid.as_str()))
        .filter(|(_, of)| *of != owner && pauses(of))
        .collect();
    let mut machines = observed.machines.iter().filter(|machine| {
        turns.contains_key(machine.1.node.as_str())
            && selects((place, check), *machine)
            && observed.is_machine_of(machine.0, &machine.1.node)
    });
    turns.get(machines.next()?.1.node.as_str()).copied()
}

/// What gives one object back, in a chain of its own: what is refused on one stops no other.
fn planned(
    place: &(MachineApi, Key),
    object: &Annotated,
    purpose: MachinePurpose,
    annotations: Vec<Change>,
) -> Planned {
    let chain = chain_of(place, purpose);
    Planned::of(chain, patch(place, object, purpose, annotations))
}

fn chain_of((api, key): &(MachineApi, Key), purpose: MachinePurpose) -> String {
    let kind = if purpose.is_of_health_check() {
        "health check"
    } else {
        "machine"
    };
    format!("{kind} {api:?} {key}")
}

/// The chain of a write that a node needs for its turn: the node's own, but for the pause of a MachineHealthCheck. Other nodes may
/// need the same pause, and none of them waits for what is refused on another.
pub(super) fn chain_in_turn(node: &str, action: &Action) -> String {
    match action {
        Action::PatchMachine(patch) if patch.purpose.is_of_health_check() => {
            chain_of(&(patch.api, patch.key.clone()), patch.purpose)
        }
        _ => node.to_owned(),
    }
}

/// Puts annotations on, and a mark that remembers what was there.
pub(crate) fn on(annotations: &Map, owner: &str, pairs: &[(&str, &str)]) -> Vec<Change> {
    let found = pairs.iter().map(|(key, _)| (*key, annotations.get(*key)));
    let mut changes = mark::set(annotations, pairs);
    changes.push(mark::shielding(annotations, owner, found));
    changes
}

/// Puts back what was there before the mark, and takes the mark off.
pub(crate) fn off(annotations: &Map, pairs: &[(&str, &str)]) -> Vec<Change> {
    let mut changes = mark::shielded_by(annotations)
        .map(|mark| mark::restore(annotations, &mark, pairs))
        .unwrap_or_default();
    changes.push(mark::unshielding(annotations));
    changes
}

/// The patch of a Machine or a MachineHealthCheck.
pub(crate) fn patch(
    (api, key): &(MachineApi, Key),
    object: &Annotated,
    purpose: MachinePurpose,
    annotations: Vec<Change>,
) -> Action {
    Action::PatchMachine(MachinePatch {
        api: *api,
        key: key.clone(),
        uid: object.uid.clone(),
        purpose,
        annotations,
        has_annotations: object.has_annotations,
    })
}
