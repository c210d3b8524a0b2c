//! Machines and MachineHealthChecks of the nodes of a run.

use super::{run_decision::RunDecision, run_view::RunView};
use crate::{
    action::{Action, Event, EventAction, MachinePurpose, Planned},
    turn::{
        believed::Believed,
        machine::{self, end_pause, unshields},
    },
};
use std::collections::BTreeSet;

/// The nodes that have their turn with this run, those among them whose pool cannot be seen at this moment.
fn flying<'a>(view: &RunView<'a>) -> BTreeSet<&'a str> {
    let turns = view.observed.changing();
    let own = turns.filter(|change| change.spec.owner_ref.uid == view.run.uid);
    own.map(|change| change.spec.node_name.as_str()).collect()
}

/// Takes the shield off Machines whose node has no turn in this run.
pub fn unshield(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let owner = &view.run.uid;
    let believed = Believed::of(view.observed);
    if believed.machines(owner).next().is_none() {
        return;
    }
    let flying = flying(view);
    let over: Vec<Planned> = unshields(&believed, owner, |node| !flying.contains(node)).collect();
    decision.out.actions.extend(over);
}

/// Resumes the MachineHealthChecks that this run paused, once no node has its turn and none is getting it.
pub fn resume_health_checks(decision: &mut RunDecision<'_>) {
    let view = decision.view;
    let believed = Believed::of(view.observed);
    let ours: Vec<_> = believed.checks(&view.run.uid).collect();
    if ours.is_empty() {
        return;
    }
    let begins =
        |action: &Action| matches!(action, Action::CreateChange { .. } | Action::WriteJournal { .. });
    let flying = flying(view);
    let busy = !flying.is_empty() || decision.out.actions.iter().any(|planned| begins(&planned.action));
    let pauses = machine::pauses(view.observed, &view.run.uid);
    let paused = ours.into_iter().filter(|check| {
        let members = view.members.iter().map(|member| member.node.name.as_str());
        let mut nodes = members.chain(flying.iter().copied());
        !busy || !nodes.any(|node| pauses(node, *check))
    });
    let over: Vec<Planned> = paused
        .map(|check| {
            let planned = end_pause(view.observed, &view.run.uid, check);
            let resumes = matches!(&planned.action, Action::PatchMachine(patch) if patch.purpose == MachinePurpose::ResumeHealthCheck);
            let event = resumes.then(|| Event::normal("HealthCheckResumed", EventAction::Restore, format!("MachineHealthCheck {} is no longer paused by numo", check.0.1)));
            Planned { event, ..planned }
        })
        .collect();
    decision.out.actions.extend(over);
}
