//! How much of a MutexBudget is in use, by whom.

use super::explanation::{Explanation, NAMED};
use crate::{
    cli::{live::Look, named::Named, remarked::Remark},
    shell::project::Kind,
};
use numo_api::{Reason, conditions::Actor, marks};
use numo_core::{
    ledger::{self, Ledger, Use},
    observed::BudgetView,
    text::counted,
};

/// How much of a budget is in use, by whom, and who waits for it.
pub(super) fn budget(look: &Look, name: &str) -> Explanation {
    let uses = Ledger::of(&look.store.observed, look.now).uses();
    let of_budget: Vec<_> = uses.iter().filter(|used| used.budget.name == name).collect();
    let view = look.store.observed.budgets.get(name);
    let why = why(view, &of_budget);
    let closed = view.is_some_and(|budget| budget.problem().is_some())
        || of_budget.iter().any(|used| used.allowed == Some(0))
        || of_budget
            .iter()
            .find(|used| used.is_full())
            .is_some_and(|used| !used.makes_room);
    let mut one = Explanation::of(Named::of_cluster(Kind::MutexBudget, name), why);
    match one.reason {
        Some(Reason::Stopped) => one.commands = vec![ledger::start_command(name)],
        // No node in flight ends it: it is 0 or invalid, or filled by nodes that are dead, cordoned, held or kept.
        Some(_) if closed => {
            one.ends_by = Some(Actor::ClusterAdmin.phrase());
            one.commands = vec![format!("kubectl edit mutexbudget {name}")];
        }
        _ => {}
    }
    if let Some(message) = of_budget.first().and_then(|used| groups(used)) {
        one.link("groups", message);
    }
    for used in of_budget {
        one.link("in use", usage(used));
    }
    one.directives = view.map_or_else(Vec::new, |view| Remark::kept(view.annotations.get(marks::SAID)));
    one
}

/// Of how many groups of a budget nodes are unavailable, and of how many they may be; none without such a bound.
pub(super) fn groups(used: &Use<'_>) -> Option<String> {
    let allowed = used.groups_allowed?;
    let key = used.budget.group_by.as_deref().unwrap_or_default();
    let away = used.groups_away;
    Some(format!(
        "{away} of {allowed} allowed values of {key} have unavailable nodes"
    ))
}

/// Whether it lets further nodes become unavailable, and why not.
fn why(view: Option<&BudgetView>, of_budget: &[&Use<'_>]) -> (Option<Reason>, String) {
    let problem = view.and_then(BudgetView::problem);
    let full = of_budget.iter().find(|used| used.is_full());
    match (full, problem) {
        _ if view.is_some_and(|budget| budget.paused) => (
            Some(Reason::Stopped),
            view.map_or_else(String::new, ledger::stopped),
        ),
        (_, Some(problem)) => (
            Some(Reason::InvalidField),
            format!("{problem}; until that is fixed no further node of it may become unavailable"),
        ),
        _ if of_budget.is_empty() => (None, "its spec.nodeSelector selects no node".to_owned()),
        (Some(used), _) if used.allowed == Some(0) => (
            Some(Reason::BudgetExhausted),
            view.and_then(ledger::closed)
                .map_or_else(String::new, |why| why.message.to_string()),
        ),
        (Some(used), _) if used.is_shut_by_others() => {
            let key = used.budget.group_by.as_deref().unwrap_or_default();
            let message = match used.group {
                "" => format!(
                    "{} without label {key} may not become unavailable",
                    counted(used.nodes, "node")
                ),
                value => format!(
                    "no further node with {key}={value} may become unavailable: {}",
                    groups(used).unwrap_or_default()
                ),
            };
            (Some(Reason::BudgetExhausted), message)
        }
        (Some(used), _) => (
            Some(Reason::BudgetExhausted),
            format!(
                "unavailable: {} of {}; {} may be",
                used.unavailable.len(),
                counted(used.nodes, "node"),
                used.allowed.unwrap_or(0)
            ),
        ),
        (None, _) => (None, "it lets further nodes become unavailable".to_owned()),
    }
}

/// One group of a budget: how many of its nodes are unavailable, and which.
fn usage(used: &Use<'_>) -> String {
    let group = used
        .budget
        .group_by
        .as_ref()
        .map_or_else(String::new, |key| format!("{key}={}: ", used.group));
    let allowed = used
        .allowed
        .map_or_else(|| "?".to_owned(), |allowed| allowed.to_string());
    let names: Vec<&str> = used.unavailable.iter().copied().take(NAMED).collect();
    let colon = if names.is_empty() { "" } else { ": " };
    format!(
        "{group}{} of {allowed} allowed, of {}{colon}{}",
        used.unavailable.len(),
        counted(used.nodes, "node"),
        names.join(", ")
    )
}
