//! The targets of a run: the pools that it upgrades, by MutexTargets or by their names, and the limits that targets have of their own.

use crate::{
    key::Key,
    observed::{IntOrPercent, Observed, PoolView, RunConfigView},
    pools::CONTROL_PLANE,
    why::Why,
};
use numo_api::Reason;

/// How many nodes of a target may be in flight at once.
#[derive(Clone, Debug)]
pub(crate) struct TargetLimit<'a> {
    /// The field that says it.
    pub field: String,
    /// The MutexTarget.
    pub target: Key,
    /// Names of its pools.
    pub pools: &'a [String],
    /// How many of its nodes.
    pub limit: IntOrPercent,
}

/// What a reference of a run refers to; its namespace is the run's if it has none.
pub(crate) fn key_of(name: Option<&str>, namespace: Option<&str>, run: &RunConfigView) -> Key {
    Key::referred(name, namespace, &run.key.namespace)
}

/// The pools of all targets, each once, in order.
pub(crate) fn pools<'a>(
    run: &RunConfigView,
    observed: &'a Observed,
    problems: &mut Vec<Why>,
) -> Vec<&'a PoolView> {
    let mut pools: Vec<&PoolView> = Vec::new();
    let references = run.spec.mutex_targets.as_deref().unwrap_or_default();
    if let Some(names) = &run.spec.pools {
        add_named(names, observed, &mut pools, problems);
        if !references.is_empty() {
            let message = "spec.pools: found it beside spec.mutexTargets, wanted one of them";
            problems.push(Why::new(Reason::InvalidField, message));
        }
    } else if references.is_empty() {
        problems.push(Why::new(
            Reason::TargetNotFound,
            "spec.mutexTargets is empty: it must name at least one MutexTarget",
        ));
    }
    for (index, reference) in references.iter().enumerate() {
        let key = key_of(reference.name.as_deref(), reference.namespace.as_deref(), run);
        let field = format!("spec.mutexTargets[{index}]");
        let Some(target) = observed.targets.get(&key) else {
            problems.push(Why::new(
                Reason::TargetNotFound,
                format!("{field}: there is no MutexTarget {key}"),
            ));
            continue;
        };
        if target.pools.is_empty() {
            problems.push(Why::new(
                Reason::TargetNotFound,
                format!(
                    "{field}: MutexTarget {key} spec.machineConfigPools is empty: it must name at least one pool"
                ),
            ));
        }
        let field = format!("MutexTarget {key} spec.machineConfigPools");
        for name in &target.pools {
            add(&field, name, observed, &mut pools, problems);
        }
    }
    if problems.iter().any(|why| loses_pools(why.reason)) {
        keep_remembered(run, observed, &mut pools);
    }
    pools
}

/// Adds the pools that the run names itself.
fn add_named<'a>(
    names: &[String],
    observed: &'a Observed,
    pools: &mut Vec<&'a PoolView>,
    problems: &mut Vec<Why>,
) {
    if names.is_empty() {
        let message = "spec.pools is empty: it must name at least one MachineConfigPool";
        problems.push(Why::new(Reason::PoolNotFound, message));
    }
    for (index, name) in names.iter().enumerate() {
        add(&format!("spec.pools[{index}]"), name, observed, pools, problems);
    }
}

/// Adds the pool that this field names, or what is wrong with it.
fn add<'a>(
    field: &str,
    name: &str,
    observed: &'a Observed,
    pools: &mut Vec<&'a PoolView>,
    problems: &mut Vec<Why>,
) {
    match observed.pools.get(name) {
        None => problems.push(Why::new(
            Reason::PoolNotFound,
            format!("{field}: there is no MachineConfigPool {name}"),
        )),
        Some(_) if CONTROL_PLANE.contains(&name) => problems.push(Why::new(
            Reason::ControlPlanePool,
            format!(
                "{field}: found {name}, wanted a pool of workers; \
                 a paused control-plane pool stops the cluster's own update"
            ),
        )),
        Some(pool) if pools.iter().any(|seen| seen.name == pool.name) => {}
        Some(pool) => pools.push(pool),
    }
}

/// Adds the pools that the run is known to have had. A target that is gone, or whose pool is misspelt, no longer names them. They are
/// still this run's to hold: a slip must not open a gate.
fn keep_remembered<'a>(run: &RunConfigView, observed: &'a Observed, pools: &mut Vec<&'a PoolView>) {
    let known = remembered(run).filter_map(|name| observed.pools.get(name));
    for pool in known.filter(|pool| !CONTROL_PLANE.contains(&pool.name.as_str())) {
        if !pools.iter().any(|seen| seen.name == pool.name) {
            pools.push(pool);
        }
    }
}

/// Whether the targets of a run with this problem may no longer name a pool that they are meant to name.
pub(crate) const fn loses_pools(problem: Reason) -> bool {
    matches!(
        problem,
        Reason::TargetNotFound | Reason::PoolNotFound | Reason::ControlPlanePool
    )
}

/// The pools that the run has had as its targets, as its status has them.
fn remembered(run: &RunConfigView) -> impl Iterator<Item = &str> {
    let settled = run.status.settled.iter().flat_map(|settled| &settled.pools);
    let last = run.status.run.iter().flat_map(|last| &last.pools);
    settled
        .map(String::as_str)
        .chain(last.map(|pool| pool.name.as_str()))
}

/// The limits that targets have of their own. Of a target that is not there nobody knows the nodes: that is a problem of its own.
pub(crate) fn limits<'a>(
    run: &RunConfigView,
    observed: &'a Observed,
    problems: &mut Vec<Why>,
) -> Vec<TargetLimit<'a>> {
    let mut limits = Vec::new();
    for (index, reference) in run.spec.mutex_targets.iter().flatten().enumerate() {
        let Some(given) = &reference.max_unavailable else {
            continue;
        };
        let field = format!("spec.mutexTargets[{index}].maxUnavailable");
        let limit = match IntOrPercent::given(given) {
            Ok(limit) => limit,
            Err(problem) => {
                problems.push(Why::new(Reason::InvalidField, format!("{field}: {problem}")));
                continue;
            }
        };
        let target = key_of(reference.name.as_deref(), reference.namespace.as_deref(), run);
        if let Some(view) = observed.targets.get(&target) {
            limits.push(TargetLimit {
                field,
                target,
                pools: &view.pools,
                limit,
            });
        }
    }
    limits
}
