//! MutexBudget: its status: whether the spec can be understood, and how much of it is in use over all groups. Which nodes those are,
//! group by group, is for `numo status` and metrics.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexBudgetStatus, Reason};
use numo_core::{ledger::Use, observed::BudgetView};

/// The status. `uses` may be those of other budgets too.
pub fn status(budget: &BudgetView, uses: &[Use<'_>], now: Timestamp) -> MutexBudgetStatus {
    let mut conditions = Conditions::over(&budget.status.conditions, budget.generation, now);
    match &budget.max_unavailable {
        Err(problem) => {
            let message = format!("{problem}; no node begins that the budget selects");
            conditions.kstatus(false, false, true, Reason::InvalidField.name(), &message);
        }
        Ok(_) if budget.selector.is_null() => {
            let message = "spec.nodeSelector is absent and selects no node; {} selects all";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        Ok(_) if uses.iter().all(|one| one.budget.name != budget.name) => {
            let message = "spec.nodeSelector selects no node; nodes that come later are counted";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        Ok(_) => {
            let message = "The budget holds for all nodes that spec.nodeSelector selects.";
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
    }
    let uses = || uses.iter().filter(|one| one.budget.name == budget.name);
    let allowed: Option<usize> = uses().map(|one| one.allowed).sum();
    let in_use: usize = uses().map(|one| one.unavailable.len()).sum();
    MutexBudgetStatus {
        observed_generation: Some(budget.generation),
        allowed: allowed.and_then(|allowed| i64::try_from(allowed).ok()),
        in_use: i64::try_from(in_use).ok(),
        conditions: conditions.done(),
    }
}
