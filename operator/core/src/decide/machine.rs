//! The part of the shield that is not on the Node: remediation that works through Machines is kept off those of
//! nodes in flight, and MachineHealthChecks are paused meanwhile if the owner says so. No Machine is ever deleted
//! or changed otherwise.

use super::{Draft, Frame};
use crate::{
    action::{Action, Change, Event, EventAction, MachinePatch, MachinePurpose},
    mark,
    observed::{Annotated, Key, MachineApi, MachineView, Map, NodeView, Observed},
    pools,
};
use numo_api::marks;
use std::collections::BTreeSet;

/// What keeps remediation off a Machine.
pub(crate) const MACHINE_SHIELD: [(&str, &str); 1] = [(marks::SKIP_REMEDIATION, "")];
/// What pauses a MachineHealthCheck.
pub(crate) const HEALTH_CHECK_PAUSE: [(&str, &str); 1] = [(marks::HEALTH_CHECK_PAUSED, marks::FIELD_MANAGER)];

/// What the node's turn still lacks: its Machine shielded, and the MachineHealthChecks paused if the owner says so.
pub fn shields(frame: &Frame<'_>, node: &NodeView) -> Vec<Action> {
    let observed = frame.observed;
    let owner = &frame.run.uid;
    let machines = shielding(frame.machines_of(&node.name), owner);
    // One that someone paused, be it another run, does nothing already.
    let checks = observed
        .health_checks
        .iter()
        .filter(|(place, check)| {
            !check.annotations.contains_key(marks::HEALTH_CHECK_PAUSED)
                && is_in_the_way(frame, [node.name.as_str()], place, check)
        })
        .map(|(place, check)| {
            let changes = on(&check.annotations, owner, &HEALTH_CHECK_PAUSE);
            patch(place, check, MachinePurpose::PauseHealthCheck, changes)
        });
    machines.chain(checks).collect()
}

/// Whether the run pauses the MachineHealthCheck while these nodes are in flight. By default it pauses those of OpenShift
/// that select the Machine of one of them: they know no other way to leave a node alone. Those of Cluster API heed the
/// shield of the Machine.
fn is_in_the_way<'n>(
    frame: &Frame<'_>,
    nodes: impl IntoIterator<Item = &'n str>,
    (api, key): &(MachineApi, Key),
    check: &Annotated,
) -> bool {
    if let Some(all) = frame.intent.pause_health_checks {
        return all;
    }
    *api == MachineApi::OpenShift
        && nodes.into_iter().any(|node| {
            let mut machines = frame.machines_of(node);
            machines.any(|((of, place), machine)| {
                let selected =
                    check.selector.is_null() || pools::matches(&check.selector, &machine.object.labels);
                of == api && place.namespace == key.namespace && selected
            })
        })
}

/// What keeps remediation off those of these Machines that the owner does not shield yet.
fn shielding<'a>(
    machines: impl Iterator<Item = (&'a (MachineApi, Key), &'a MachineView)>,
    owner: &str,
) -> impl Iterator<Item = Action> {
    machines
        .filter(move |(_, machine)| !machine.deleting && !is_marked(&machine.object.annotations, owner))
        .map(move |(place, machine)| {
            let changes = on(&machine.object.annotations, owner, &MACHINE_SHIELD);
            patch(place, &machine.object, MachinePurpose::Shield, changes)
        })
}

/// What keeps remediation off the Machine of a node, for an owner of another kind than MutexRunConfig.
pub fn machine_shields(observed: &Observed, node: &str, owner: &str) -> Vec<Action> {
    let machines = observed.machines.iter();
    shielding(machines.filter(|(_, machine)| machine.node == node), owner).collect()
}

/// Takes an owner's shields off the Machines of nodes that do not need them any more.
pub fn machine_unshields(observed: &Observed, owner: &str, is_over: impl Fn(&str) -> bool) -> Vec<Action> {
    let ours = observed.machines.iter();
    ours.filter(|(_, machine)| is_marked(&machine.object.annotations, owner) && is_over(&machine.node))
        .map(|(place, machine)| {
            let changes = off(&machine.object.annotations, &MACHINE_SHIELD);
            patch(place, &machine.object, MachinePurpose::Unshield, changes)
        })
        .collect()
}

/// Takes the shield off Machines whose node has no turn in this run.
pub fn unshield(draft: &mut Draft<'_>) {
    let frame = &draft.frame;
    let ours: Vec<_> = frame
        .observed
        .machines
        .iter()
        .filter(|(_, machine)| is_marked(&machine.object.annotations, &frame.run.uid))
        .collect();
    if ours.is_empty() {
        return;
    }
    let flying: BTreeSet<&str> = frame
        .members
        .iter()
        .filter(|member| member.in_flight().is_some())
        .map(|member| member.node.name.as_str())
        .collect();
    let over: Vec<(String, Action)> = ours
        .into_iter()
        .filter(|(_, machine)| !flying.contains(machine.node.as_str()))
        .map(|(place, machine)| {
            let changes = off(&machine.object.annotations, &MACHINE_SHIELD);
            (
                chain(&place.1),
                patch(place, &machine.object, MachinePurpose::Unshield, changes),
            )
        })
        .collect();
    for (chain, action) in over {
        draft.act(&chain, action, None);
    }
}

/// Resumes the MachineHealthChecks that this run paused, once no node has its turn and none is getting it.
pub fn resume_health_checks(draft: &mut Draft<'_>) {
    let frame = &draft.frame;
    let begins =
        |action: &Action| matches!(action, Action::CreateChange { .. } | Action::WriteJournal { .. });
    let busy = frame.in_flight() > 0 || draft.out.actions.iter().any(|planned| begins(&planned.action));
    let paused: Vec<_> = frame
        .observed
        .health_checks
        .iter()
        .filter(|(_, check)| is_marked(&check.annotations, &frame.run.uid))
        .filter(|(place, check)| {
            let nodes = frame.members.iter().map(|member| member.node.name.as_str());
            !busy || !is_in_the_way(frame, nodes, place, check)
        })
        .map(|(place, check)| {
            let changes = off(&check.annotations, &HEALTH_CHECK_PAUSE);
            (
                place.1.clone(),
                patch(place, check, MachinePurpose::ResumeHealthCheck, changes),
            )
        })
        .collect();
    for (key, action) in paused {
        let event = Event {
            node: None,
            warning: false,
            reason: "HealthCheckResumed",
            action: EventAction::Restore,
            note: format!("MachineHealthCheck {key} is no longer paused by numo"),
        };
        draft.act(&chain(&key), action, Some(event));
    }
}

/// Whether a Machine or a MachineHealthCheck carries a mark of this owner.
pub fn has_marks(observed: &Observed, owner: &str) -> bool {
    let machines = observed.machines.values().map(|machine| &machine.object);
    machines
        .chain(observed.health_checks.values())
        .any(|object| is_marked(&object.annotations, owner))
}

fn is_marked(annotations: &Map, owner: &str) -> bool {
    mark::shielded_by(annotations).is_some_and(|mark| mark.owner == owner)
}

fn chain(key: &Key) -> String {
    format!("machine/{key}")
}

fn on(annotations: &Map, owner: &str, pairs: &[(&str, &str)]) -> Vec<Change> {
    let found = pairs.iter().map(|(key, _)| (*key, annotations.get(*key)));
    let mut changes = mark::set(annotations, pairs);
    changes.push(mark::shielding(annotations, owner, found));
    changes
}

fn off(annotations: &Map, pairs: &[(&str, &str)]) -> Vec<Change> {
    let mut changes = mark::shielded_by(annotations)
        .map(|mark| mark::restore(annotations, &mark, pairs))
        .unwrap_or_default();
    changes.push(mark::unshielding(annotations));
    changes
}

fn patch(
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
