//! What is judged of the groups of a MutexBudget (`maxGroups`).

use super::{Verdict, breach};
use numo_core::observed::{BudgetView, NodeView, Observed};
use std::collections::BTreeSet;

/// 2: nodes of no more groups are away than `maxGroups` says, once the node is away too.
pub(super) fn away(
    budget: &BudgetView,
    seen: &Observed,
    node: &NodeView,
    is_away: &impl Fn(&NodeView) -> bool,
) -> Verdict {
    let (Some(Ok(allowed)), Some(key)) = (&budget.max_groups, &budget.group_by) else {
        return Ok(());
    };
    if is_away(node) {
        return Ok(());
    }
    if !node.labels.contains_key(key) {
        return breach(
            "2",
            format!(
                "{} was admitted, {} counts groups and it is in none",
                node.name, budget.name
            ),
        );
    }
    let others = seen.nodes.values().filter(|other| is_away(other));
    let groups: BTreeSet<_> = others.chain([node]).map(|one| one.labels.get(key)).collect();
    if groups.len() > *allowed {
        return breach(
            "2",
            format!(
                "{} was admitted, {} allows {allowed} groups and {groups:?} are away",
                node.name, budget.name
            ),
        );
    }
    Ok(())
}
