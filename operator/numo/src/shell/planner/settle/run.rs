//! The status of a MutexRunConfig: what it is says `frontends/mutex_run_config.rs`; here it is written, and what it says anew is told by
//! events.

use super::{
    outcome::Outcome,
    transitions::{ready_of, transitions},
};
use crate::{
    frontends::mutex_run_config as frontend,
    shell::{events::Published, kind::Kind, planner::context::Context, status},
};
use numo_api::MutexRunConfigStatus;
use numo_core::{
    Decision, Owner,
    action::{Event, EventAction},
    observed::RunConfigView,
    report::Why,
};

/// The status of a run, if it differs from the one that is there.
pub fn due(
    context: &Context,
    owner: &Owner,
    decision: &Decision,
) -> Option<(RunConfigView, MutexRunConfigStatus)> {
    let run = context.store.observed.runs.get(&owner.key).cloned()?;
    let status = frontend::status(&run, &decision.report, context.now());
    context.show(owner, decision, ready_of(&status.conditions));
    (status != run.status && !run.keeps_status).then_some((run, status))
}

/// Writes the status of a run if it differs.
pub async fn write(context: &mut Context, owner: &Owner, decision: &Decision) -> Outcome {
    let Some((run, status)) = due(context, owner, decision) else {
        return Outcome::Same;
    };
    if !context.fence.holds() {
        return Outcome::Withheld;
    }
    let now = context.now();
    let written = status::write(
        &context.connection,
        &mut context.store,
        Kind::MutexRunConfig,
        &owner.key,
        &run.uid,
        &status,
    );
    if let Err(error) = written.await {
        return Outcome::Failed(error);
    }
    Outcome::Written {
        events: events(context, owner, (&run, &status), decision),
        again: frontend::stuck_at(&status).filter(|at| *at > now),
    }
}

/// What is told of a run whose status is another than before.
pub fn events(
    context: &Context,
    owner: &Owner,
    (run, status): (&RunConfigView, &MutexRunConfigStatus),
    decision: &Decision,
) -> Vec<Published> {
    let held = frontend::newly_held(&run.status, status, &decision.report);
    let mut events = held.map_or_else(Vec::new, |why| told_held(context, owner, &why, decision));
    let ungated = frontend::newly_ungated(&run.status, status, &decision.report);
    let ungated = ungated.map(|note| Event {
        node: None,
        warning: true,
        reason: "UpgradeUngated",
        action: EventAction::Release,
        note,
    });
    let conditions = transitions(&run.status.conditions, &status.conditions);
    let told = ungated.into_iter().chain(conditions);
    events.extend(told.filter_map(|event| context.publishable(owner, event)));
    events
}

/// What is told of a run, and of each pool that is paused for it: that an upgrade has begun and is held.
fn told_held(context: &Context, owner: &Owner, why: &Why, decision: &Decision) -> Vec<Published> {
    let mut told = Vec::new();
    let pools = decision.report.pools.iter();
    for pool in pools.filter(|pool| pool.ours && pool.paused) {
        let event = Event {
            node: None,
            warning: true,
            reason: "UpgradeHeld",
            action: EventAction::Pause,
            note: format!(
                "MachineConfigPool {} is paused and held, no node of it changes: {}: {}",
                pool.name, why.reason, why.message
            ),
        };
        let Some(seen) = context.store.observed.pools.get(&pool.name) else {
            continue;
        };
        let Some(of_run) = context.publishable(owner, event) else {
            continue;
        };
        let of_pool = Published {
            pool: Some((seen.name.clone(), seen.uid.clone())),
            ..of_run.clone()
        };
        told.extend([of_run, of_pool]);
    }
    told
}
