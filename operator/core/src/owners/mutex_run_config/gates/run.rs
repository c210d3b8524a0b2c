//! Gates that hold a whole run.

use crate::{
    admit::{gates::when, waves::Waves},
    failures, ledger, mark,
    observed::{ForeignController, Observed, PoolView, RunConfigView},
    owners::mutex_run_config::gates::written::{
        MAX_CORRECTIONS, WRITERS, is_of_a_run, stripped, unlabelled_by_other,
    },
    owners::mutex_run_config::run_view::RunView,
    pools::{self, BUILT_IN, CONTROL_PLANE, Home},
    selector, targets,
    turn::reservation,
    why::{Cause, Why},
};
use numo_api::{Reason, Strategy, conditions::Actor, marks};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::owners::mutex_run_config::gates::watched::not_watched;

/// Every reason for which a run is refused. The tests of the core compare this with what refuses, and end to end each has a
/// run that is broken by it.
pub const REFUSALS: &[Reason] = &[
    Reason::ExternalControlPlane,
    Reason::RuleNotFound,
    Reason::RuleInvalid,
    Reason::LabelTooLong,
    Reason::TargetNotFound,
    Reason::PoolNotFound,
    Reason::ControlPlanePool,
    Reason::CanaryNotFound,
    Reason::CanaryIsTarget,
    Reason::InvalidField,
    Reason::FieldNotServed,
    Reason::OpenShiftMissing,
    Reason::InvalidVersion,
    Reason::SelectorMatchesControlPlane,
    Reason::LayeredPool,
    Reason::CanaryPaused,
    Reason::CanaryPopulated,
    Reason::CanaryContentDiffers,
    Reason::PoolHeldByRun,
];

/// Why no node may be let go, and nothing written but what holds the pools, until somebody mends the run or the cluster.
pub fn refusal(view: &RunView<'_>) -> Option<Why> {
    let mut problems = view.intent.problems.iter();
    let problem = problems.find(|why| why.reason != Reason::Validating).cloned();
    external(view)
        .or(problem)
        .or_else(|| view.desired.as_ref().err().cloned())
        .or_else(|| control_plane_selected(view))
        .or_else(|| layered(view))
        .or_else(|| canary(view))
        .or_else(|| all_held_by_run(view))
}

/// Whether the pools of a refused run are paused and held once an upgrade of them begins. They are, unless the owner asks
/// for the opposite before anything was held, or there is nothing that may be paused.
pub fn holds_when_refused(view: &RunView<'_>, refusal: &Why) -> bool {
    let pausable = !matches!(
        refusal.reason,
        // Its control plane has no pools of its own; and what another run holds is held.
        Reason::ExternalControlPlane | Reason::PoolHeldByRun
    );
    view.has_marks() || (pausable && !view.intent.roll_on_refusal)
}

/// Why no node may be admitted or let go now.
pub(crate) fn hold(
    view: &RunView<'_>,
    leaving: Option<&Why>,
    refusal: Option<&Why>,
    waves: &Waves<'_>,
) -> Option<Why> {
    leaving.cloned().or_else(|| holds(view, refusal, waves).next())
}

/// All of it, worst first.
pub(crate) fn all_holds(view: &RunView<'_>, waves: &Waves<'_>) -> Vec<Why> {
    holds(view, refusal(view).as_ref(), waves).collect()
}

/// The same of a run that is not left.
fn holds<'h>(
    view: &'h RunView<'_>,
    refusal: Option<&'h Why>,
    waves: &'h Waves<'_>,
) -> impl Iterator<Item = Why> + 'h {
    let given = refusal.into_iter().cloned();
    // Of a run that is refused, they may roll.
    let pauses = refusal.is_none() && !view.intent.dry_run;
    given
        .chain(view.observed.stood_off(ForeignController::MutexRunConfig))
        .chain(view.intent.problems.iter().cloned())
        .chain(when(move || paused_by_other(view)))
        .chain(when(move || foreign_writer(view)))
        .chain(view.intent.suspended.clone())
        .chain(when(move || dry_run(view)))
        .chain(when(move || pools_pausing(view)).filter(move |_| pauses))
        .chain(when(move || held_by_run(view, view.intent.canary?)))
        // Before what others end: with a node held in the canary pool that is never out of it.
        .chain(when(move || failures(view)))
        .chain(when(move || waves.failures_spent()))
        .chain(when(move || canary_pausing(view)))
        .chain(when(move || control_plane(view)))
}

fn external(view: &RunView<'_>) -> Option<Why> {
    let topology = view.observed.control_plane_topology.as_deref()?;
    (topology == "External").then(|| {
        Why::new(
            Reason::ExternalControlPlane,
            "the control plane is hosted elsewhere (Infrastructure cluster status.controlPlaneTopology is External): there are \
             no MachineConfigPools to steer",
        )
    })
}

/// A custom pool that selects control-plane nodes: `master` wins, and nobody means that.
fn control_plane_selected(view: &RunView<'_>) -> Option<Why> {
    let custom = view.intent.pools.iter().copied().chain(view.intent.canary);
    for pool in custom.filter(|pool| !BUILT_IN.contains(&pool.name.as_str())) {
        let selector = mark::own_selector(pool);
        let nodes = view.observed.nodes.values();
        let masters: Vec<&str> = nodes
            .filter(|node| selector::selects(&selector, &node.labels))
            .filter(|node| {
                matches!(pools::home_now(view.observed, &node.labels), Home::Pool(name) if CONTROL_PLANE.contains(&name))
            })
            .map(|node| node.name.as_str())
            .take(3)
            .collect();
        if !masters.is_empty() {
            let message = format!(
                "MachineConfigPool {} selects control-plane nodes by its spec.nodeSelector ({}); it may select workers only",
                pool.name,
                masters.join(", ")
            );
            return Some(Why::new(Reason::SelectorMatchesControlPlane, message));
        }
    }
    None
}

fn layered(view: &RunView<'_>) -> Option<Why> {
    let built = |pool: &&PoolView| {
        let config = view.observed.layered.iter().find(|(_, of)| **of == pool.name)?;
        let message = format!(
            "MachineOSConfig {} builds an image for MachineConfigPool {}; numo cannot steer a pool that has a MachineOSConfig",
            config.0, pool.name
        );
        Some(Why::new(Reason::LayeredPool, message))
    };
    let mut pools = view.intent.pools.iter().copied().chain(view.intent.canary);
    if let Some(why) = pools.find_map(|pool| built(&pool)) {
        return Some(why);
    }
    let member = view.members.iter().find(|member| member.layered)?;
    let message = format!(
        "Node {} of pool {} runs a layered image; numo cannot steer a pool that has a MachineOSConfig",
        member.node.name, member.pool.name
    );
    Some(Why::new(Reason::LayeredPool, message))
}

/// The canary pool is fit for use: not paused, empty but for our own, of the targets' content.
fn canary(view: &RunView<'_>) -> Option<Why> {
    // Another run's until that is over: it holds this one, and what it did there is no fault of the pool.
    let canary = view
        .intent
        .canary
        .filter(|canary| held_by_run(view, canary).is_none())?;
    let name = &canary.name;
    if canary.paused && mark::paused_by(canary).is_none_or(|mark| mark.owner != view.run.uid) {
        let message = format!(
            "spec.canary.name: MachineConfigPool {name} is paused; a node released into it would never change"
        );
        return Some(Why::new(Reason::CanaryPaused, message));
    }
    let stranger = view.observed.nodes.values().find(|node| {
        selector::selects(&canary.selector, &node.labels)
            && pools::home_now(view.observed, &node.labels) == Home::Pool(name)
            && !view
                .changes()
                .any(|change| change.in_flight() && change.spec.node_uid == node.uid)
            && node.label(marks::RELEASE).is_empty()
    });
    if let Some(node) = stranger {
        let message = format!(
            "spec.canary.name: MachineConfigPool {name} must be empty, and Node {} is in it",
            node.name
        );
        return Some(Why::new(Reason::CanaryPopulated, message));
    }
    view.intent.pools.iter().find(|pool| differs(view, canary, pool)).map(|pool| {
        let message = format!(
            "spec.canary.name: MachineConfigPool {name} renders {}, which is not the content of {} ({}): give it the same \
             machineConfigSelector",
            canary.config, pool.name, pool.config
        );
        Why::new(Reason::CanaryContentDiffers, message)
    })
}

/// Whether two pools render different content of one version. While a new version is being rendered one of
/// them may be ahead: then what both had before is compared.
fn differs(view: &RunView<'_>, canary: &PoolView, pool: &PoolView) -> bool {
    let versions = [canary, pool]
        .into_iter()
        .filter_map(|pool| view.config_version(&pool.config));
    for version in versions {
        let (of_canary, of_pool) = (contents(view, canary, version), contents(view, pool, version));
        if !of_canary.is_empty() && !of_pool.is_empty() {
            return of_canary.is_disjoint(&of_pool);
        }
    }
    false
}

/// The content of a pool at a version: what it renders now, or else all it has rendered of that version.
fn contents<'a>(view: &RunView<'a>, pool: &'a PoolView, version: &str) -> BTreeSet<&'a str> {
    if view.config_version(&pool.config) == Some(version) {
        return BTreeSet::from([pools::content(&pool.config)]);
    }
    let rendered = format!("rendered-{}", pool.name);
    let configs = view.observed.configs.iter();
    configs
        .filter(|(_, config)| config.version.as_deref() == Some(version))
        .filter_map(|(name, _)| name.rsplit_once('-'))
        .filter(|(of, _)| *of == rendered)
        .map(|(_, content)| content)
        .collect()
}

/// Other live runs hold all pools of ours. One that holds some of them holds their nodes only.
fn all_held_by_run(view: &RunView<'_>) -> Option<Why> {
    let mut pools = view.intent.pools.iter().map(|pool| held_by_run(view, pool));
    let first = pools.next()??;
    pools.all(|held| held.is_some()).then_some(first)
}

/// Target pools that other live runs hold, with the reason: their nodes are those runs' for now.
pub fn held_elsewhere<'a>(view: &RunView<'a>) -> BTreeMap<&'a str, Why> {
    let pools = view.intent.pools.iter();
    pools
        .filter_map(|pool| Some((pool.name.as_str(), held_by_run(view, pool)?)))
        .collect()
}

/// Another live run holds the pool. One that no longer names it, and has nobody of it in flight, holds it no more:
/// whoever wants it takes it over as it is.
pub fn held_by_run(view: &RunView<'_>, pool: &PoolView) -> Option<Why> {
    let owners = [
        mark::paused_by(pool).map(|mark| mark.owner),
        mark::prior_selector(pool).map(|mark| mark.owner),
    ];
    let mut others = owners
        .into_iter()
        .flatten()
        .filter(|owner| *owner != view.run.uid);
    others.find_map(|owner| {
        let Some(other) = view.observed.runs.values().find(|run| run.uid == owner) else {
            let key = view.observed.unread_run(&owner)?;
            let message = format!(
                "MachineConfigPool {} is held by MutexRunConfig {key}, which cannot be read",
                pool.name
            );
            return Some(Why::new(Reason::PoolHeldByRun, message).ended_by(Actor::ClusterAdmin));
        };
        if !names_pool(view, other, &pool.name) {
            return None;
        }
        let run = other.status.run.as_ref();
        let over = run.is_some_and(|run| run.finished_at.is_some());
        let ended = if over {
            ", whose run is over: a person must delete it, or have it go on, before the pool is free"
        } else {
            ""
        };
        let message = format!(
            "MachineConfigPool {} is held by MutexRunConfig {}{ended}",
            pool.name, other.key
        );
        let why = Why::new(Reason::PoolHeldByRun, message);
        Some(if over {
            why.ended_by(Actor::ClusterAdmin)
        } else {
            why
        })
    })
}

/// The run names the pool as target or canary, or has let nodes of it go that are not done.
fn names_pool(view: &RunView<'_>, run: &RunConfigView, pool: &str) -> bool {
    let observed = view.observed;
    let canary = run.spec.canary.as_ref().and_then(|canary| canary.name.as_deref());
    let named = has_pool(run, observed, pool);
    let flying = || {
        let mut changes = reservation::of_owner(observed, &run.key.namespace, &run.uid);
        changes.any(|change| change.in_flight() && change.spec.target.pool == pool)
    };
    named || canary == Some(pool) || flying()
}

/// Whether a run names the pool as a target. A target that is gone says nothing: what was taken for it is still held.
fn has_pool(run: &RunConfigView, observed: &Observed, pool: &str) -> bool {
    let mut named = run.spec.pools.iter().flatten();
    let mut references = run.spec.mutex_targets.iter().flatten();
    named.any(|name| name == pool)
        || references.any(|reference| {
            let key = targets::key_of(reference.name.as_deref(), reference.namespace.as_deref(), run);
            let target = observed.targets.get(&key);
            target.is_none_or(|target| target.pools.iter().any(|name| name == pool))
        })
}

/// A pool that someone else paused is a veto.
fn paused_by_other(view: &RunView<'_>) -> Option<Why> {
    if view.intent.adopt_paused {
        return None;
    }
    let pool = view.intent.pools.iter().find(|pool| {
        pool.paused
            && mark::paused_by(pool).is_none_or(|mark| mark.owner != view.run.uid && mark::is_outlived(pool))
    })?;
    let who = pool.paused_manager.as_deref().unwrap_or("someone");
    let message = format!(
        "MachineConfigPool {} is paused by {who}, not by numo; unpause it, or set spec.adoptPaused",
        pool.name
    );
    Some(Why::new(Reason::PoolPausedByOther, message))
}

/// A pool that others unpause so often that numo no longer pauses it.
pub fn unpaused_by_other(view: &RunView<'_>) -> Option<Why> {
    view.marked_pools().find_map(|(pool, mark)| {
        (!pool.paused && mark.corrections >= MAX_CORRECTIONS).then(|| {
            let who = pool.paused_manager.as_deref().unwrap_or("someone");
            let message = format!(
                "MachineConfigPool {} was unpaused {} times, last by {who}; numo no longer pauses it",
                pool.name,
                mark.corrections.saturating_add(1)
            );
            contested(Cause::Unpaused(pool.name.clone()), message)
        })
    })
}

fn contested(what: Cause, message: String) -> Why {
    Why::new(Reason::ForeignWriter, message).of(what)
}

/// What numo set was changed by someone more often than numo corrects it.
fn foreign_writer(view: &RunView<'_>) -> Option<Why> {
    let reverted = || {
        view.observed.pools.values().find_map(|pool| {
            let mark = mark::prior_selector(pool).filter(|mark| mark.owner == view.run.uid)?;
            (mark.corrections >= MAX_CORRECTIONS && !is_of_a_run(&pool.selector)).then(|| {
                let who = pool.selector_manager.as_deref().unwrap_or("someone");
                let message = format!(
                    "MachineConfigPool {} spec.nodeSelector was changed {} times, last by {who}; numo no longer sets it",
                    pool.name,
                    mark.corrections.saturating_add(1)
                );
                contested(Cause::Selector(pool.name.clone()), message)
            })
        })
    };
    // Somebody took the mark off: what was there before is known to people only.
    let unmarked = || {
        let ours = view
            .intent
            .canary
            .into_iter()
            .chain(view.intent.pools.iter().copied());
        let mut ours = ours.filter(|_| view.intent.strategy == Strategy::CanaryPool);
        let pool = ours.find(|pool| is_of_a_run(&pool.selector) && mark::prior_selector(pool).is_none())?;
        let message = format!(
            "MachineConfigPool {} has the spec.nodeSelector that numo set and no annotation {} any more; put the pool's own \
             selector back",
            pool.name,
            marks::PRIOR_NODE_SELECTOR
        );
        Some(contested(Cause::Selector(pool.name.clone()), message))
    };
    let unlabelled = || {
        let node = unlabelled_by_other(view)?;
        let message = format!(
            "the rule labels of Node {} were taken off {} times; numo no longer puts them back",
            node.name,
            MAX_CORRECTIONS + 1
        );
        Some(contested(Cause::Labels(node.name.clone()), message))
    };
    let with_marks = || Some(contested(Cause::Command(WRITERS.to_owned()), stripped(view)?));
    unpaused_by_other(view)
        .or_else(reverted)
        .or_else(unmarked)
        .or_else(unlabelled)
        .or_else(with_marks)
}

/// A dry run that was asked for in mid-run begins nothing more and finishes what it began.
fn dry_run(view: &RunView<'_>) -> Option<Why> {
    (view.intent.dry_run && view.has_begun()).then(|| {
        Why::new(
            Reason::DryRun,
            "spec.dryRun is true: nothing new begins, and what has begun is finished",
        )
    })
}

fn pools_pausing(view: &RunView<'_>) -> Option<Why> {
    let pools = view.intent.pools.iter();
    let waiting: Vec<&str> = pools
        .filter(|pool| !pool.paused || mark::paused_by(pool).is_none_or(|mark| mark.owner != view.run.uid))
        .filter(|pool| held_by_run(view, pool).is_none())
        .map(|pool| pool.name.as_str())
        .collect();
    (!waiting.is_empty()).then(|| {
        Why::new(
            Reason::PoolsPausing,
            format!("pools are being paused: {}", waiting.join(", ")),
        )
    })
}

/// numo paused the canary pool because its configuration moved on under nodes in it.
fn canary_pausing(view: &RunView<'_>) -> Option<Why> {
    let canary = view.intent.canary.filter(|canary| canary.paused)?;
    let message = format!(
        "MachineConfigPool {} is paused until the nodes that were released to its last configuration are out of it",
        canary.name
    );
    let mut flying = view.changes().filter(|change| change.in_flight()).peekable();
    let any_flies = flying.peek().is_some();
    let are_kept = any_flies && flying.all(|change| ledger::is_kept(view.observed, change, view.now));
    let why = Why::new(Reason::WaitingForTurn, message);
    Some(ledger::ended_by_person(why, are_kept))
}

/// The start predicate: the control plane is done, and each pool is rendered for its version.
/// Source: `spec/mutex.md` §4.8.
pub fn control_plane(view: &RunView<'_>) -> Option<Why> {
    let desired = match &view.desired {
        Ok(desired) => desired,
        Err(why) => return Some(why.clone()),
    };
    let cluster = view.observed.cluster_version.as_ref()?;
    let latest = cluster.latest.as_ref();
    let done = cluster.generation == cluster.observed_generation
        && cluster.desired == *desired
        && latest.is_some_and(|(state, version)| state == "Completed" && version == desired);
    if !done {
        let message = if cluster.generation == cluster.observed_generation {
            let seen = latest.map_or_else(String::new, |(state, version)| {
                format!(" (ClusterVersion version: {version} is {state})")
            });
            format!("the control plane is still updating to {desired}{seen}")
        } else {
            format!(
                "the cluster-version operator has not taken up the request for {desired} yet (ClusterVersion version: \
                 generation {}, observed {})",
                cluster.generation, cluster.observed_generation
            )
        };
        let stuck = match (&cluster.not_accepted, &cluster.failing) {
            (Some(refused), _) => {
                format!("ReleaseAccepted is False ({refused}): withdraw the request or lift what blocks it")
            }
            (None, Some(failing)) => format!("Failing is True ({failing}): fix what fails"),
            (None, None) => return Some(Why::new(Reason::ControlPlaneUpdating, message)),
        };
        let message = format!("{message}; {stuck}");
        return Some(Why::new(Reason::ControlPlaneUpdating, message).ended_by(Actor::ClusterAdmin));
    }
    let pools = view.intent.pools.iter().copied().chain(view.intent.canary);
    for pool in pools {
        let found = view.config_version(&pool.config);
        if found != Some(desired) {
            let message = format!(
                "MachineConfigPool {} has no configuration of {desired} yet: {} is of {}",
                pool.name,
                pool.config,
                found.unwrap_or("no known version")
            );
            let Some(degraded) = &pool.render_degraded else {
                return Some(Why::new(Reason::PoolNotRendered, message));
            };
            let message =
                format!("{message}; RenderDegraded is True ({degraded}): fix what cannot be rendered");
            return Some(Why::new(Reason::PoolNotRendered, message).ended_by(Actor::ClusterAdmin));
        }
    }
    None
}

/// As many nodes have failed as the budget allows.
fn failures(view: &RunView<'_>) -> Option<Why> {
    let budget = failures::lowest(&view.intent.failure_budgets, view.members.len())?;
    // Of all journals of the run, not only of its members: who was deleted in its turn is a member no more.
    let of_run = view
        .changes()
        .filter(|change| change.spec.target.run_id == view.run_id);
    let failed = failures::failed(view.observed, of_run);
    budget.spent(&failures::names(&failed), failures::gone(&failed), "")
}
