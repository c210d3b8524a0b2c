//! Which verb ends a wait: commands to copy, for what a person at a terminal may end. Decides nothing, and names no command
//! that the operator or the API server would refuse as things stand.

use super::look::Look;
use numo_api::{Reason, Step, marks};
use numo_core::{
    Owner, OwnerKind,
    report::{NodeReport, Report},
};

/// The owner as a verb takes it, with its namespace.
fn named(owner: &Owner) -> String {
    let kind = match owner.kind {
        OwnerKind::Plan => "plan",
        OwnerKind::MutexRunConfig => "mutexrunconfig",
        OwnerKind::NodeMaintenance(_) => {
            return format!("nodemaintenance/{}", owner.key.name);
        }
    };
    format!("{kind}/{} -n {}", owner.key.name, owner.key.namespace)
}

/// What ends the wait of an owner.
pub fn of_owner(look: &Look, owner: &Owner, report: &Report, reason: Reason) -> Vec<String> {
    let observed = &look.store.observed;
    match reason {
        Reason::Suspended => {
            let by_hand = look
                .annotations(owner)
                .is_some_and(|all| all.contains_key(marks::SUSPEND));
            // What the manifest says is its owner's to change.
            if by_hand {
                vec![format!("numo resume {}", named(owner))]
            } else {
                Vec::new()
            }
        }
        Reason::Aborted => {
            let name = match owner.kind {
                OwnerKind::Plan => format!("plan/{}", owner.key.name),
                _ => owner.key.name.clone(),
            };
            vec![format!("numo abort {name} -n {} --undo", owner.key.namespace)]
        }
        Reason::Stopped => {
            let paused = observed.budgets.values().filter(|budget| budget.paused);
            paused
                .map(|budget| format!("numo start {}", budget.name))
                .collect()
        }
        Reason::FailureBudgetSpent => {
            let mut nodes = report.nodes.iter();
            let held = nodes.find(|(_, node)| node.step == Step::Held);
            held.map_or_else(Vec::new, |(name, node)| of_held(look, name, node))
        }
        _ => Vec::new(),
    }
}

/// What ends the wait of a node.
pub fn of_node(look: &Look, owner: &Owner, report: &Report, name: &str, node: &NodeReport) -> Vec<String> {
    match (node.step, node.why.reason) {
        (Step::Held, _) => of_held(look, name, node),
        (_, Reason::CordonedByOther) => vec![format!("kubectl uncordon {name}")],
        (_, reason) => of_owner(look, owner, report, reason),
    }
}

/// A node that waits for a person: ask again, or go on without it if it was not let go.
fn of_held(look: &Look, name: &str, node: &NodeReport) -> Vec<String> {
    let mut all = vec![format!("numo retry {name}")];
    let was_let_go = look.change_of(node).is_none_or(|change| {
        let mut entries = change.status.entries.iter();
        entries.any(|entry| entry.step == Step::Released)
    });
    if !was_let_go {
        all.push(format!("numo skip {name}"));
    }
    all
}
