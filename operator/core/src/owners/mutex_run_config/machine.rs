//! Machines and MachineHealthChecks of the nodes of a run.

use super::{draft::Draft, frame::Frame};
use crate::{
    action::{Action, Event, EventAction, MachinePurpose},
    key::Key,
    observed::{Annotated, MachineApi, NodeView},
    turn::machine::{
        HEALTH_CHECK_PAUSE, MACHINE_SHIELD, chain, end_pause, is_marked, off, on, patch, selects, shielding,
    },
};
use numo_api::marks;
use std::collections::BTreeSet;

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
    place: &(MachineApi, Key),
    check: &Annotated,
) -> bool {
    if let Some(all) = frame.intent.pause_health_checks {
        return all;
    }
    place.0 == MachineApi::OpenShift
        && nodes.into_iter().any(|node| {
            let mut machines = frame.machines_of(node);
            machines.any(|machine| selects((place, check), machine))
        })
}

/// The nodes that have their turn with this run, those among them whose pool cannot be seen at this moment.
fn flying<'a>(frame: &Frame<'a>) -> BTreeSet<&'a str> {
    let turns = frame.observed.changing();
    let own = turns.filter(|change| change.spec.owner_ref.uid == frame.run.uid);
    own.map(|change| change.spec.node_name.as_str()).collect()
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
    let flying = flying(frame);
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
    let ours = |check: &Annotated| is_marked(&check.annotations, &frame.run.uid);
    if !frame.observed.health_checks.values().any(ours) {
        return;
    }
    let begins =
        |action: &Action| matches!(action, Action::CreateChange { .. } | Action::WriteJournal { .. });
    let flying = flying(frame);
    let busy = !flying.is_empty() || draft.out.actions.iter().any(|planned| begins(&planned.action));
    let paused: Vec<_> = frame
        .observed
        .health_checks
        .iter()
        .filter(|(_, check)| ours(check))
        .filter(|(place, check)| {
            let members = frame.members.iter().map(|member| member.node.name.as_str());
            let nodes = members.chain(flying.iter().copied());
            !busy || !is_in_the_way(frame, nodes, place, check)
        })
        .map(|check| {
            (
                check.0.1.clone(),
                end_pause(frame.observed, &frame.run.uid, check),
            )
        })
        .collect();
    for (key, action) in paused {
        let resumes = matches!(&action, Action::PatchMachine(patch) if patch.purpose == MachinePurpose::ResumeHealthCheck);
        let event = resumes.then(|| Event {
            node: None,
            warning: false,
            reason: "HealthCheckResumed",
            action: EventAction::Restore,
            note: format!("MachineHealthCheck {key} is no longer paused by numo"),
        });
        draft.act(&chain(&key), action, event);
    }
}
