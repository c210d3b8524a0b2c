//! What metrics and the log call an action, and whose decisions it can change. Nothing is written here.

use crate::shell::store::Reach;
use numo_core::action::Action;

/// Whose decisions our own write can change: the watch will bring nothing new of it.
pub const fn reach(action: &Action) -> Reach {
    match action {
        Action::PatchPool(_) | Action::AddFinalizer { .. } | Action::RemoveFinalizer { .. } => {
            Reach::Everyone
        }
        Action::PatchNode(_)
        | Action::PatchMachine(_)
        | Action::CreateChange { .. }
        | Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::CreateJob(_)
        | Action::SetJobTtl { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. }
        | Action::CreateMaintenance(_)
        | Action::DeleteMaintenance { .. }
        | Action::Fleet(_)
        | Action::Evict { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. }
        | Action::ReleaseLease { .. } => Reach::Busy,
    }
}

/// The name of an action.
pub fn name(action: &Action) -> &'static str {
    match action {
        Action::AddFinalizer { .. } => "AddFinalizer",
        Action::RemoveFinalizer { .. } => "RemoveFinalizer",
        Action::PatchPool(_) => "PatchPool",
        Action::PatchNode(_) => "PatchNode",
        Action::PatchMachine(_) => "PatchMachine",
        Action::CreateChange { .. } => "CreateChange",
        Action::WriteJournal { .. } => "WriteJournal",
        Action::DeleteChange { .. } => "DeleteChange",
        Action::RecordRun { .. } => "RecordRun",
        Action::CreateJob(_) => "CreateJob",
        Action::CreatePlanJob(_) => "CreatePlanJob",
        Action::StartPlanJob { .. } => "StartPlanJob",
        Action::DeletePlanJob { .. } => "DeletePlanJob",
        Action::MarkGate { .. } => "MarkGate",
        Action::CreateMaintenance(_) => "CreateMaintenance",
        Action::DeleteMaintenance { .. } => "DeleteMaintenance",
        Action::Fleet(action) => action.name(),
        Action::Evict { .. } => "Evict",
        Action::SetJobTtl { .. } => "SetJobTtl",
        Action::AcquireLease { .. } => "AcquireLease",
        Action::RenewLease { .. } => "RenewLease",
        Action::ReleaseLease { .. } => "ReleaseLease",
    }
}
