//! Machines and MachineHealthChecks of the nodes of a run.

use super::{run_decision::RunDecision, run_view::RunView};
use crate::{
    action::{Action, Event, EventAction, MachinePurpose, Planned},
    key::Key,
    observed::{Annotated, MachineApi},
    turn::{
        believed::Believed,
        machine::{self, end_pause, unshields},
    },
};
use std::collections::BTreeSet;

/// Whether the run pauses the MachineHealthCheck while these nodes are in flight. By default it pauses those of OpenShift
/// that select the Machine of one of them: they know no other way to leave a node alone. Those of Cluster API heed the
/// shield of the Machine. One that can see no Machine of a Node is somebody else's, whatever the run says.
fn is_in_the_way<'n>(
    (view, believed): (&RunView<'_>, &Believed<'_>),
    nodes: impl IntoIterator<Item = &'n str>,
    place: &(MachineApi, Key),
    check: &Annotated,
) -> bool {
    if let Some(all) = view.intent.pause_health_checks {
        return all && believed.is_check(place);
    }
    let mut nodes = nodes.into_iter();
    nodes.any(|node| machine::sees(view.observed, node, (place, check)))
}

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
    let paused = ours.into_iter().filter(|(place, check)| {
        let members = view.members.iter().map(|member| member.node.name.as_str());
        let nodes = members.chain(flying.iter().copied());
        !busy || !is_in_the_way((view, &believed), nodes, place, check)
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
