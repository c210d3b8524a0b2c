//! MutexBudgets, and how much of them is in use.

use crate::cli::{
    live::Look,
    output::{self, Cell, Layout, Table},
};
use numo_core::{
    ledger::Ledger,
    observed::{BudgetView, IntOrPercent},
};
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetLine {
    pub(super) name: String,
    pub(super) group_by: Option<String>,
    /// Of how many groups nodes may be unavailable, if that is bounded.
    pub(super) max_groups: Option<usize>,
    /// Of how many they are.
    pub(super) groups_in_use: usize,
    pub(super) group: String,
    /// `spec.nodeSelector` as given.
    pub(super) node_selector: serde_json::Value,
    pub(super) max_unavailable: String,
    pub(super) paused: bool,
    pub(super) nodes: usize,
    pub(super) allowed: Option<usize>,
    pub(super) in_use: usize,
    pub(super) unavailable: Vec<String>,
}

/// `spec.maxUnavailable`; what is wrong with the budget, where it cannot be understood.
fn limit(budget: &BudgetView) -> String {
    match &budget.max_unavailable {
        Ok(IntOrPercent::Int(number)) => number.to_string(),
        Ok(IntOrPercent::Percent(percent)) => format!("{percent}%"),
        // `numo explain` says what is wrong with it.
        Err(_) => "invalid".to_owned(),
    }
}

pub(super) fn budgets(look: &Look) -> Vec<BudgetLine> {
    let observed = &look.store.observed;
    let uses = Ledger::of(observed, look.now).uses();
    let lines = uses.into_iter().map(|used| BudgetLine {
        name: used.budget.name.clone(),
        group_by: used.budget.group_by.clone(),
        max_groups: used.groups_allowed,
        groups_in_use: used.groups_away,
        group: used.group.to_owned(),
        node_selector: used.budget.selector.clone(),
        max_unavailable: limit(used.budget),
        paused: used.budget.paused,
        nodes: used.nodes,
        allowed: used.allowed,
        in_use: used.unavailable.len(),
        unavailable: used.unavailable.iter().map(|&node| node.to_owned()).collect(),
    });
    let mut lines: Vec<BudgetLine> = lines.collect();
    // One that covers no node is shown all the same: it may be what somebody believes in.
    let missing = observed
        .budgets
        .values()
        .filter(|budget| !lines.iter().any(|line| line.name == budget.name));
    let missing: Vec<BudgetLine> = missing
        .map(|budget| BudgetLine {
            name: budget.name.clone(),
            group_by: budget.group_by.clone(),
            max_groups: budget.groups_allowed(),
            groups_in_use: 0,
            group: String::new(),
            node_selector: budget.selector.clone(),
            max_unavailable: limit(budget),
            paused: budget.paused,
            nodes: 0,
            allowed: None,
            in_use: 0,
            unavailable: Vec::new(),
        })
        .collect();
    lines.extend(missing);
    lines
}

impl BudgetLine {
    /// What `numo start` leaves behind: it may hold nobody, whatever happens.
    fn is_idle(&self) -> bool {
        !self.paused && self.max_unavailable == "100%"
    }
}

/// The last columns, those that are shown in front: groups where a budget bounds them, the others where all is asked for.
fn columns<T: Default>([groups, who, which]: [T; 3], is_grouped: bool, output: Layout) -> [T; 3] {
    match (is_grouped, output.is_wide) {
        (true, true) => [groups, who, which],
        (true, false) => [groups, T::default(), T::default()],
        (false, true) => [who, which, T::default()],
        (false, false) => [T::default(), T::default(), T::default()],
    }
}

/// The table; nothing where no budget could hold a node, unless all is asked for.
pub(super) fn used(lines: &[BudgetLine], output: Layout) -> String {
    let shown: Vec<&BudgetLine> = lines
        .iter()
        .filter(|line| output.is_wide || !line.is_idle())
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let is_grouped = shown.iter().any(|line| line.max_groups.is_some());
    let [groups, who, which] = columns(["GROUPS-IN-USE", "UNAVAILABLE", "SELECTOR"], is_grouped, output);
    let heads = [
        "BUDGET",
        "GROUP",
        "MAX-UNAVAILABLE",
        "ALLOWED",
        "IN-USE",
        "NODES",
        "PAUSED",
        groups,
        who,
        which,
    ];
    let mut table = Table::new(0, heads, output);
    for line in shown {
        let group = line
            .group_by
            .as_ref()
            .map_or_else(|| "-".to_owned(), |key| format!("{key}={}", line.group));
        let groups = line.max_groups.map_or_else(
            || "-".to_owned(),
            |max| format!("{} of {max}", line.groups_in_use),
        );
        let last = [groups, line.unavailable.join(","), line.node_selector.to_string()];
        let [groups, unavailable, selector] = columns(last, is_grouped, output);
        let paused = if line.paused {
            Cell::painted("true", output::bad())
        } else {
            "false".into()
        };
        table.row([
            line.name.as_str().into(),
            group.into(),
            line.max_unavailable.as_str().into(),
            line.allowed
                .map_or_else(|| "-".to_owned(), |allowed| allowed.to_string())
                .into(),
            line.in_use.to_string().into(),
            line.nodes.to_string().into(),
            paused,
            groups.into(),
            unavailable.into(),
            selector.into(),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, max: &str, paused: bool) -> BudgetLine {
        BudgetLine {
            name: name.to_owned(),
            group_by: None,
            max_groups: None,
            groups_in_use: 0,
            group: String::new(),
            node_selector: serde_json::json!({}),
            max_unavailable: max.to_owned(),
            paused,
            nodes: 7,
            allowed: None,
            in_use: 0,
            unavailable: Vec::new(),
        }
    }

    #[test]
    fn a_stop_that_is_over_stands_below_no_status() {
        let plain = Layout::default();
        assert_eq!(used(&[line("stop", "100%", false)], plain), "");
        let all = [
            line("stop", "100%", true),
            line("fleet", "10%", false),
            line("old", "100%", false),
        ];
        let shown = used(&all, plain);
        assert!(shown.contains("stop") && shown.contains("fleet"), "{shown}");
        assert!(!shown.contains("old"), "{shown}");
    }

    #[test]
    fn groups_are_shown_where_a_budget_bounds_them() {
        let plain = Layout::default();
        let mut fleet = line("fleet", "2", false);
        assert!(!used(std::slice::from_ref(&fleet), plain).contains("GROUPS-IN-USE"));
        (fleet.max_groups, fleet.groups_in_use) = (Some(2), 1);
        let shown = used(&[fleet, line("other", "1", false)], plain);
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|row| row.split("   ").map(str::trim).collect())
            .collect();
        let last: Vec<Option<&&str>> = rows.iter().map(|row| row.last()).collect();
        assert_eq!(
            last,
            [Some(&"GROUPS-IN-USE"), Some(&"1 of 2"), Some(&"-")],
            "{shown}"
        );
    }
}
