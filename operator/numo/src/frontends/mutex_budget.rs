//! MutexBudget: its status: whether the spec can be understood, and how much of it is in use over all groups. Which nodes those are,
//! group by group, is for `numo status` and metrics.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{MutexBudgetStatus, Reason};
use numo_core::{ledger::Use, observed::BudgetView};

/// The status. `uses` may be those of other budgets too.
pub fn status(budget: &BudgetView, uses: &[Use<'_>], now: Timestamp) -> MutexBudgetStatus {
    let mut conditions = Conditions::over(&budget.status.conditions, budget.generation, now);
    match budget.problem() {
        Some(problem) => {
            let message = format!("{problem}; no node begins that the budget selects");
            conditions.kstatus(false, false, true, Reason::InvalidField.name(), &message);
        }
        None if budget.selector.is_null() => {
            let message = "spec.nodeSelector is absent and selects no node; {} selects all";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        None if uses.iter().all(|one| one.budget.name != budget.name) => {
            let message = "spec.nodeSelector selects no node; nodes that come later are counted";
            conditions.kstatus(true, false, false, Reason::NoNodes.name(), message);
        }
        None => {
            let message = "The budget holds for all nodes that spec.nodeSelector selects.";
            conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        }
    }
    let uses = || uses.iter().filter(|one| one.budget.name == budget.name);
    let mut allowed: Vec<Option<usize>> = uses().map(|one| one.allowed).collect();
    // Nodes of as many groups as may be, those that allow the most.
    allowed.sort_unstable_by(|one, other| other.cmp(one));
    allowed.truncate(budget.groups_allowed().unwrap_or(usize::MAX));
    let allowed: Option<usize> = allowed.into_iter().sum();
    let groups = budget.groups_allowed().and_then(|_| uses().next());
    let in_use: usize = uses().map(|one| one.unavailable.len()).sum();
    MutexBudgetStatus {
        observed_generation: Some(budget.generation),
        allowed: allowed.and_then(|allowed| i64::try_from(allowed).ok()),
        in_use: i64::try_from(in_use).ok(),
        groups_in_use: groups.and_then(|one| i64::try_from(one.groups_away).ok()),
        conditions: conditions.done(),
    }
}
