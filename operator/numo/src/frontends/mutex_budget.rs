//! MutexBudget: its status. How much of a budget is used changes with every node and is for `numo status`
//! and metrics; the status says only whether the spec can be understood.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexBudgetStatus, Reason};
use numo_core::observed::BudgetView;

/// The status.
pub fn status(budget: &BudgetView, now: Timestamp) -> MutexBudgetStatus {
    let mut conditions = Conditions::over(&budget.status.conditions, budget.generation, now);
    match &budget.max_unavailable {
        Err(problem) => {
            let message = format!("spec.maxUnavailable: {problem}; no node of it is admitted");
            conditions.kstatus(false, false, true, Reason::InvalidField.name(), &message);
        }
        Ok(_) if budget.selector.is_null() => {
            let message = "spec.nodeSelector is absent and selects no node; {} selects all";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        Ok(_) => {
            let message = "The budget holds for all nodes that spec.nodeSelector selects.";
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
    }
    MutexBudgetStatus {
        observed_generation: Some(budget.generation),
        conditions: conditions.done(),
    }
}
