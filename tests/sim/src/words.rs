//! A write of numo in words, with its reason.

use crate::world::World;
use numo_core::{
    Decision,
    action::{Action, MachinePurpose, NodePurpose, Planned, PoolPurpose},
    observed::{Key, Observed},
};

/// What numo does, and why.
pub fn deed(world: &World, seen: &Observed, decision: &Decision, planned: &Planned) -> String {
    let what = what(world, seen, &planned.action);
    match why(decision, planned) {
        "" => what,
        why => format!("{what} ({why})"),
    }
}

/// The event's words; else what is plain from the kind of write; else the reason the report gives for the
/// node, or for the run.
fn why<'d>(decision: &'d Decision, planned: &'d Planned) -> &'d str {
    if let Some(event) = &planned.event {
        return &event.note;
    }
    match &planned.action {
        Action::AcquireLease { .. } => "its turn has begun",
        Action::RenewLease { .. } => "its turn goes on",
        Action::ReleaseLease { .. } => "its turn is over",
        Action::SetJobTtl { .. } => "its verdict is written down, or wanted no more",
        Action::RemoveFinalizer { .. } => "nothing is left to restore",
        Action::PatchNode(patch) => match patch.purpose {
            NodePurpose::Shield => "its turn has begun",
            NodePurpose::Unshield => "its turn is over",
            NodePurpose::Label => "so that it stays in its pool until it is let go",
            NodePurpose::Unlabel => "the run is left",
            NodePurpose::Quarantine => "it failed after it was let go",
            NodePurpose::Unquarantine => "it is mended, or its run is over",
            NodePurpose::MindCordon => "the MCO will take it away",
            NodePurpose::Release
            | NodePurpose::BringHome
            | NodePurpose::Recordon
            | NodePurpose::Cordon
            | NodePurpose::Replace
            | NodePurpose::Uncordon => of_report(decision, planned),
        },
        Action::PatchMachine(patch) => match patch.purpose {
            MachinePurpose::Shield | MachinePurpose::PauseHealthCheck => "a turn has begun",
            MachinePurpose::Unshield | MachinePurpose::ResumeHealthCheck => "no turn needs it any more",
            MachinePurpose::HandOverHealthCheck => "a turn of another owner needs it",
        },
        Action::AddFinalizer { .. }
        | Action::PatchPool(_)
        | Action::CreateChange { .. }
        | Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::CreateMaintenance(_)
        | Action::DeleteMaintenance { .. }
        | Action::RecordRun { .. }
        | Action::Evict { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. }
        | Action::Fleet(_)
        | Action::CreateJob(_) => of_report(decision, planned),
    }
}

fn of_report<'d>(decision: &'d Decision, planned: &Planned) -> &'d str {
    let of_node = decision.report.nodes.get(&planned.chain).map(|node| &node.why);
    let why = of_node.or(decision.report.hold.as_ref());
    why.map_or("", |why| &*why.message)
}

/// A Job by what it is for.
pub fn job(world: &World, key: &Key) -> String {
    let made = world.jobs_made.iter().rfind(|made| made.key == *key);
    made.map_or_else(
        || key.to_string(),
        |made| {
            let whom = if made.node.is_empty() {
                "the run"
            } else {
                &made.node
            };
            format!("the Job of rule {} for {whom}", made.rule.name)
        },
    )
}

fn what(world: &World, seen: &Observed, action: &Action) -> String {
    let of_change = |key| {
        let change = seen.changes.get(key);
        change.map_or_else(String::new, |change| change.spec.node_name.clone())
    };
    match action {
        Action::Evict { eviction, .. } => format!("asks Pod {} to go", eviction.pod),
        Action::CreatePlanJob(request) => format!("creates Job {}", request.job),
        Action::StartPlanJob { job, .. } => format!("starts Job {job}"),
        Action::DeletePlanJob { job, .. } => format!("deletes Job {job}"),
        Action::Fleet(action) => action.name().to_owned(),
        Action::MarkGate { owner, .. } => format!("remembers the gate of {owner}"),
        Action::AddFinalizer { owner, .. } => format!("puts its finalizer on {}", owner.key),
        Action::RemoveFinalizer { owner, .. } => format!("takes its finalizer off {}", owner.key),
        Action::PatchPool(patch) => {
            let verb = match patch.purpose {
                PoolPurpose::Pause => "pauses",
                PoolPurpose::Unpause => "gives back",
                PoolPurpose::Hold => "keeps paused",
                PoolPurpose::Select => "sets the selector of",
                PoolPurpose::Unselect => "restores the selector of",
            };
            format!("{verb} pool {}", patch.pool)
        }
        Action::PatchNode(patch) => {
            let node = &patch.node;
            match patch.purpose {
                NodePurpose::Shield => format!("shields {node} from remediation and autoscalers"),
                NodePurpose::Unshield => format!("takes the shield off {node}"),
                NodePurpose::Label => format!("puts rule labels on {node}"),
                NodePurpose::Unlabel => format!("takes rule labels off {node}"),
                NodePurpose::Release => format!("lets {node} go"),
                NodePurpose::BringHome => format!("brings {node} home"),
                NodePurpose::Recordon => format!("cordons {node} again, as a person had"),
                NodePurpose::MindCordon => format!("notes whether a person cordoned {node}"),
                NodePurpose::Cordon => format!("cordons {node}"),
                NodePurpose::Replace => format!("notes on {node} what is known of its machine"),
                NodePurpose::Uncordon => format!("uncordons {node}"),
                NodePurpose::Quarantine => format!("taints {node}, which failed"),
                NodePurpose::Unquarantine => format!("takes the taint off {node}"),
            }
        }
        Action::PatchMachine(patch) => {
            let key = &patch.key;
            match patch.purpose {
                MachinePurpose::Shield => format!("shields Machine {key}"),
                MachinePurpose::Unshield => format!("takes the shield off Machine {key}"),
                MachinePurpose::PauseHealthCheck => format!("pauses MachineHealthCheck {key}"),
                MachinePurpose::ResumeHealthCheck => format!("resumes MachineHealthCheck {key}"),
                MachinePurpose::HandOverHealthCheck => format!("hands MachineHealthCheck {key} over"),
            }
        }
        Action::CreateChange { spec, .. } => format!("admits {}", spec.node_name),
        Action::WriteJournal { key, status, .. } => {
            let before = seen.changes.get(key).map(|change| &change.status);
            let mut parts = Vec::new();
            if let Some(verdict) = status
                .verdicts
                .last()
                .filter(|last| before.and_then(|before| before.verdicts.last()) != Some(last))
            {
                let rule = verdict.rule.rsplit('/').next().unwrap_or_default();
                parts.push(format!("{:?} of rule {rule}", verdict.outcome));
            }
            let moved =
                before.is_none_or(|before| before.step != status.step || before.since != status.since);
            if let Some(step) = status.step.filter(|_| moved) {
                parts.push(format!("step {}", step.name()));
            }
            format!("notes for {}: {}", of_change(key), parts.join(", "))
        }
        Action::DeleteChange { key, .. } => format!("forgets an old NodeChange of {}", of_change(key)),
        Action::RecordRun { owner, .. } => format!("notes a verdict for {owner}"),
        Action::CreateJob(job) => {
            let whom = if job.node.is_empty() { "the run" } else { &job.node };
            format!(
                "asks rule {} in phase {} about {whom}, attempt {}",
                job.rule.name,
                job.phase.name(),
                job.attempt
            )
        }
        Action::SetJobTtl { job, .. } => format!("lets {} go", self::job(world, job)),
        Action::AcquireLease { node, .. } => format!("takes the lease of {node}"),
        Action::RenewLease { node, .. } => format!("renews the lease of {node}"),
        Action::ReleaseLease { node, .. } => format!("gives the lease of {node} back"),
        Action::CreateMaintenance(request) => format!("has another operator drain {}", request.node),
        Action::DeleteMaintenance { name, .. } => format!("deletes NodeMaintenance {name}"),
    }
}
