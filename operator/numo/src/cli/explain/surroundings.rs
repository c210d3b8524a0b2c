//! What stands around a node: budgets, windows, lease, cordon, readiness, and pods that a drain would not get past.

use super::{
    budget::groups,
    explanation::{Explanation, NAMED},
    window::{around_windows, own_hours},
};
use crate::cli::{
    live::{self, Look},
    remarked::Remark,
};
use jiff::Timestamp;
use numo_api::{Reason, marks};
use numo_core::{
    Owner,
    drain::DrainOptions,
    forecast::{Surroundings, Weight, forecast},
    ledger::{self, Ledger},
    observed::{NodeView, Observed},
    text::counted,
};

/// What stands around a node: budgets, windows, lease, cordon, readiness, and pods that a drain would not get past.
pub(super) fn around(one: &mut Explanation, look: &Look, seen: &NodeView, owner: Option<&Owner>) {
    let observed = &look.store.observed;
    let uses = Ledger::of(observed, look.now).uses();
    let of_node = |used: &&ledger::Use<'_>| {
        let group = used.budget.group_by.as_ref().map_or("", |key| seen.label(key));
        ledger::covers(used.budget, seen) && used.group == group
    };
    for used in uses.iter().filter(of_node) {
        let allowed = used
            .allowed
            .map_or_else(|| "?".to_owned(), |allowed| allowed.to_string());
        let paused = if used.budget.paused { ", paused" } else { "" };
        let message = format!(
            "MutexBudget {}: {} of {} unavailable, {allowed} allowed{paused}",
            used.budget.name,
            used.unavailable.len(),
            counted(used.nodes, "node")
        );
        let message = match groups(used) {
            Some(groups) => format!("{message}; {groups}"),
            None => message,
        };
        one.link("budget", message);
        if used.budget.paused {
            one.directives
                .extend(Remark::kept(used.budget.annotations.get(marks::SAID)).pop());
        }
    }
    if let Some(owner) = owner {
        own_hours(one, look, owner);
    }
    around_windows(one, look, seen);
    around_lease(one, observed, seen);
    if seen.unschedulable && !one.tells(Reason::CordonedByOther) {
        one.link("node", "it is cordoned");
    }
    if !seen.ready && !one.tells(Reason::NodeNotReady) {
        one.link("node", "it is not Ready");
    }
    if let Some(leaving) = seen.leaving.as_ref().filter(|_| !one.tells(Reason::NodeLeaving)) {
        one.link("node", leaving.why.clone());
    }
    // By the owner's own way to drain; one that drains no node meets nothing.
    let options = match owner {
        Some(owner) => live::drain_options(observed, owner),
        None => Some(DrainOptions::of_machine_config()),
    };
    let found = options.map(|options| forecast(observed, &Surroundings::default(), seen, &options, look.now));
    let obstacles = found.into_iter().flatten().flatten();
    let hard: Vec<_> = obstacles.filter(|one| one.weight < Weight::Costs).collect();
    for obstacle in hard.iter().take(NAMED) {
        one.link("pod", obstacle.message.clone());
    }
    if hard.len() > NAMED {
        one.link("pod", format!("and {} more", hard.len() - NAMED));
    }
}

/// Who holds the lease of a node, and until when.
fn around_lease(one: &mut Explanation, observed: &Observed, seen: &NodeView) {
    if let Some(lease) = observed
        .leases
        .get(&seen.name)
        .filter(|lease| !lease.holder.is_empty())
    {
        let until = lease.renewed.and_then(|renewed| {
            let until = renewed.as_second() + lease.duration_seconds;
            Timestamp::from_second(until).ok()
        });
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        let holder = holder(observed, &lease.holder);
        one.link("lease", format!("{holder} holds the lease of the node{until}"));
    }
}

/// Who holds a lease: numo for an owner, by its name, or whoever it is.
fn holder(observed: &Observed, holder: &str) -> String {
    let Some((_, uid)) = holder.strip_prefix("numo/").and_then(|rest| rest.split_once('/')) else {
        return holder.to_owned();
    };
    let runs = observed.runs.iter();
    let runs = runs.map(|(key, run)| (Owner::run(key.clone()), &run.uid));
    let plans = observed.plans.iter();
    let plans = plans.map(|(key, plan)| (Owner::plan(key.clone()), &plan.uid));
    let mut owners = runs.chain(plans);
    owners.find(|(_, known)| *known == uid).map_or_else(
        || format!("numo ({holder}, which is gone)"),
        |(owner, _)| format!("numo, for {owner},"),
    )
}
