//! MutexTarget: its status. The nodes are those whose primary pool, by the MCO's rules, is one of the
//! pools; the replaced operator listed every node that matched a label.

use super::conditions::Conditions;
use jiff::Timestamp;
use numo_api::{
    MutexTargetStatus, Reason,
    conditions::types::{NODE_LIST_GATHERED, VALID_CONFIG},
};
use numo_core::{
    mark,
    observed::{Observed, TargetView},
    pools::{self, Home},
};

/// The status, with the messages of the replaced operator.
pub fn status(target: &TargetView, observed: &Observed, now: Timestamp) -> MutexTargetStatus {
    let mut conditions = Conditions::over(&target.status.conditions, target.generation, now);
    let missing: Vec<&str> = target
        .pools
        .iter()
        .filter(|pool| !observed.pools.contains_key(*pool))
        .map(String::as_str)
        .collect();
    let problem = if target.pools.is_empty() {
        Some("spec.machineConfigPools: found no pool, wanted at least one".to_owned())
    } else if missing.is_empty() {
        None
    } else {
        Some(format!(
            "spec.machineConfigPools: found no MachineConfigPool {}, wanted existing ones",
            missing.join(", ")
        ))
    };
    let nodes = if let Some(problem) = problem {
        conditions.set(
            VALID_CONFIG,
            false,
            "MachineConfigPoolFetchFailed",
            problem.clone(),
        );
        conditions.set(
            NODE_LIST_GATHERED,
            false,
            "MachineConfigPoolFetchFailed",
            problem.clone(),
        );
        conditions.kstatus(false, false, true, Reason::PoolNotFound.name(), &problem);
        Vec::new()
    } else {
        let message = "All nodes were successfully fetched.";
        conditions.set(
            VALID_CONFIG,
            true,
            "MachineConfigPoolFetchSucceeded",
            "All MachineConfigPools were successfully fetched.",
        );
        conditions.set(
            NODE_LIST_GATHERED,
            true,
            "MachineConfigPoolFetchSucceeded",
            message,
        );
        conditions.kstatus(true, false, false, Reason::ValidConfig.name(), message);
        members(target, observed)
    };
    MutexTargetStatus {
        observed_generation: Some(target.generation),
        node_count: i64::try_from(nodes.len()).ok(),
        nodes: Some(nodes),
        conditions: conditions.done(),
    }
}

fn members(target: &TargetView, observed: &Observed) -> Vec<String> {
    let selectors: Vec<(&str, serde_json::Value)> = observed
        .pools
        .values()
        .map(|pool| (pool.name.as_str(), mark::own_selector(pool)))
        .collect();
    observed
        .nodes
        .values()
        .filter(|node| {
            let home = pools::home(
                &node.labels,
                selectors.iter().map(|(name, selector)| (*name, selector)),
            );
            matches!(home, Home::Pool(name) if target.pools.iter().any(|pool| pool == name))
        })
        .map(|node| node.name.clone())
        .collect()
}
