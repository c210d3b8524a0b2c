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
        Err(problem) => problem.clone(),
    }
}

pub(super) fn budgets(look: &Look) -> Vec<BudgetLine> {
    let observed = &look.store.observed;
    let uses = Ledger::of(observed, look.now).uses();
    let lines = uses.into_iter().map(|used| BudgetLine {
        name: used.budget.name.clone(),
        group_by: used.budget.group_by.clone(),
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

/// The table; nothing where no budget could hold a node, unless all is asked for.
pub(super) fn used(lines: &[BudgetLine], output: Layout) -> String {
    let shown: Vec<&BudgetLine> = lines
        .iter()
        .filter(|line| output.is_wide || !line.is_idle())
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let (who, which) = if output.is_wide {
        ("UNAVAILABLE", "SELECTOR")
    } else {
        ("", "")
    };
    let heads = [
        "BUDGET",
        "GROUP",
        "MAX-UNAVAILABLE",
        "ALLOWED",
        "IN-USE",
        "NODES",
        "PAUSED",
        who,
        which,
    ];
    let mut table = Table::new(0, heads, output);
    for line in shown {
        let group = line
            .group_by
            .as_ref()
            .map_or_else(|| "-".to_owned(), |key| format!("{key}={}", line.group));
        let (unavailable, selector) = if output.is_wide {
            (line.unavailable.join(","), line.node_selector.to_string())
        } else {
            (String::new(), String::new())
        };
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
}
