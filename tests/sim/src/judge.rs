//! The judge: asks of the world, after every write of numo, whether the invariants of the design (§6)
//! still hold. It reads nothing of what numo thinks: what was admitted, what passed, what is to be
//! restored it keeps for itself.

use crate::world::{Primary, World, primary};
use numo_api::{
    Phase, Step, marks,
    marks::openshift,
    mutex_run_config::{HoldPools, OnExit},
};
use numo_core::{
    Decision,
    action::{Action, JobRequest, NodePurpose, PoolPurpose},
    mark,
    observed::{IntOrPercent, Key, NodeView, Observed, RunConfigView},
};
use std::collections::{BTreeMap, BTreeSet};

/// How young a node may be while it is not where it belongs yet (seconds).
const NEWCOMER_SECONDS: i64 = 1200;

/// How old a Pass may be at a release: what the rules of these worlds have, and the pauses within one pass (seconds).
const PASS_SECONDS: i64 = 600 + 120;

/// One node's turn.
#[derive(Clone, Debug)]
struct Turn {
    run: Key,
    node: String,
    node_uid: String,
}

/// What the judge keeps for itself.
#[derive(Debug, Default)]
pub struct Judge {
    /// Turns by NodeChange.
    turns: BTreeMap<Key, Turn>,
    /// When the present attempt of a NodeChange began.
    rounds: BTreeMap<Key, (i32, i64)>,
    /// Nodes that were let go, by uid.
    released: BTreeSet<String>,
    judged: usize,
}

type Verdict = Result<(), String>;

fn breach(invariant: &str, message: impl std::fmt::Display) -> Verdict {
    Err(format!("invariant {invariant}: {message}"))
}

impl Judge {
    /// Judges one write that was just carried out. `seen` is what the operator saw when it decided.
    pub fn after(&mut self, world: &World, seen: &Observed, owner: &Key, action: &Action) -> Verdict {
        self.turns.retain(|key, turn| {
            let change = world.truth.changes.get(key);
            change.is_some_and(|change| change.spec.node_uid == turn.node_uid)
        });
        match action {
            Action::CreateChange { key, spec } => {
                self.rounds.insert(key.clone(), (1, world.now));
                self.admitted(world, seen, owner, key, &spec.node_name, &spec.node_uid)
            }
            Action::WriteJournal { key, status, .. } => self.journaled(world, seen, owner, key, status),
            Action::CreateJob(request) => self.job(world, request),
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Release => {
                self.released(world, seen, owner, &patch.node)?;
                shielded(world, &patch.node)?;
                homes(world)
            }
            Action::PatchPool(patch) if patch.purpose == PoolPurpose::Unpause => {
                if patch.paused == Some((true, false)) {
                    unpaused(world, seen, owner, &patch.pool)?;
                }
                Ok(())
            }
            Action::PatchNode(_) | Action::PatchPool(_) => homes(world),
            Action::AddFinalizer { .. }
            | Action::Evict { .. }
            | Action::CreatePlanJob(_)
            | Action::StartPlanJob { .. }
            | Action::DeletePlanJob { .. }
            | Action::MarkGate { .. }
            | Action::RemoveFinalizer { .. }
            | Action::PatchMachine(_)
            | Action::DeleteChange { .. }
            | Action::RecordRun { .. }
            | Action::SetJobTtl { .. }
            | Action::AcquireLease { .. }
            | Action::RenewLease { .. }
            | Action::ReleaseLease { .. } => Ok(()),
        }
    }

    fn journaled(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Key,
        key: &Key,
        status: &numo_api::NodeChangeStatus,
    ) -> Verdict {
        if status.verdicts.len() > 32 || status.entries.len() > 64 {
            return breach("bounds", format!("the journal {key} grows"));
        }
        let round = self.rounds.entry(key.clone()).or_insert((1, world.now));
        if status.attempt > round.0 {
            *round = (status.attempt, world.now);
        }
        let goes_on = status
            .step
            .is_some_and(|step| step != Step::Selected && !step.is_terminal());
        if !goes_on {
            self.turns.remove(key);
            return Ok(());
        }
        if self.turns.contains_key(key) {
            return Ok(());
        }
        let spec = world.truth.changes.get(key).map(|change| change.spec.clone());
        let Some(spec) = spec else { return Ok(()) };
        self.admitted(world, seen, owner, key, &spec.node_name, &spec.node_uid)
    }

    /// 2, 13: limits, budgets and stops at an admission.
    fn admitted(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Key,
        key: &Key,
        name: &str,
        uid: &str,
    ) -> Verdict {
        let Some(run) = seen.runs.get(owner) else {
            return breach("2", "an admission without a run");
        };
        let Some(node) = seen.nodes.get(name).filter(|node| node.uid == uid) else {
            return breach("3", format!("{name} was admitted and does not exist"));
        };
        stopped(seen, run, node)?;
        if run.deleting {
            return breach(
                "13",
                format!("{name} was admitted while its run is being deleted"),
            );
        }
        let others: Vec<&Turn> = self
            .turns
            .values()
            .filter(|turn| turn.run == *owner && turn.node_uid != uid)
            .filter(|turn| {
                seen.nodes
                    .get(&turn.node)
                    .is_some_and(|node| node.uid == turn.node_uid)
            })
            .collect();
        let limit = limit(world, seen, run);
        if others.len() + 1 > limit && !world.people.limits_edited && !world.people.journals_deleted {
            return breach(
                "2",
                format!("{name} was admitted as number {} of {limit}", others.len() + 1),
            );
        }
        for label in run.spec.mutex_keys.iter().flatten() {
            let value = node.labels.get(label);
            let twin = others.iter().find(|turn| {
                value.is_some() && seen.nodes.get(&turn.node).and_then(|node| node.labels.get(label)) == value
            });
            if let Some(twin) = twin {
                return breach(
                    "2",
                    format!("{name} flies with {}, both {label}={value:?}", twin.node),
                );
            }
        }
        self.within_budgets(seen, node)?;
        let turn = Turn {
            run: owner.clone(),
            node: name.to_owned(),
            node_uid: uid.to_owned(),
        };
        self.turns.insert(key.clone(), turn);
        Ok(())
    }

    fn within_budgets(&self, seen: &Observed, node: &NodeView) -> Verdict {
        let flies = |other: &NodeView| {
            self.turns
                .values()
                .any(|turn| turn.node_uid == other.uid && turn.node == other.name)
        };
        let away = |other: &NodeView| !other.ready || other.unschedulable || flies(other);
        for budget in seen.budgets.values().filter(|budget| budget.selector.is_object()) {
            let group = |other: &NodeView| {
                let key = budget.group_by.as_deref()?;
                other.labels.get(key).cloned()
            };
            let all: Vec<&NodeView> = seen
                .nodes
                .values()
                .filter(|other| group(other) == group(node))
                .collect();
            let count = all.iter().filter(|other| away(other)).count();
            let allowed = match budget.max_unavailable {
                Ok(IntOrPercent::Int(number)) => usize::try_from(number).unwrap_or(0),
                Ok(IntOrPercent::Percent(percent)) => {
                    (all.len() * usize::try_from(percent).unwrap_or(0) / 100).max(1)
                }
                Err(_) => 0,
            };
            if !away(node) && count + 1 > allowed {
                return breach(
                    "2",
                    format!(
                        "{} was admitted, {} allows {allowed} and {count} are away",
                        node.name, budget.name
                    ),
                );
            }
        }
        Ok(())
    }

    /// 1, 13: a node is let go only after its rules, by its turn, while it is fit.
    fn released(&mut self, world: &World, seen: &Observed, owner: &Key, name: &str) -> Verdict {
        let Some(run) = seen.runs.get(owner) else {
            return breach("1", "a release without a run");
        };
        let (Some(node), Some(before)) = (world.truth.nodes.get(name), seen.nodes.get(name)) else {
            return breach("1", format!("{name} was let go and does not exist"));
        };
        stopped(seen, run, before)?;
        let turn = self
            .turns
            .iter()
            .find(|(_, turn)| turn.node_uid == node.uid && turn.run == *owner);
        let Some((key, _)) = turn else {
            if world.people.journals_deleted {
                self.released.insert(node.uid.clone());
                return Ok(());
            }
            return breach("1", format!("{name} was let go without a turn"));
        };
        if node.unschedulable || !before.ready {
            return breach("1", format!("{name} was let go cordoned or not Ready"));
        }
        let run_id = world
            .truth
            .changes
            .get(key)
            .map(|change| change.spec.target.run_id.clone());
        let began = self.rounds.get(key).map_or(0, |(_, at)| *at);
        for (rule, phase) in gating(seen, run) {
            let passed = world.jobs_made.iter().any(|made| {
                made.rule == rule
                    && made.phase == phase
                    && made.node_uid == node.uid
                    && Some(&made.run) == run_id.as_ref()
                    && made.completed.is_some_and(|at| world.now - at <= PASS_SECONDS)
                    && seen
                        .rules
                        .get(&rule)
                        .is_some_and(|rule| rule.edition() == made.edition)
                    && (made.at >= began || world.people.journals_deleted)
            });
            if !passed {
                return breach(
                    "1",
                    format!(
                        "{name} was let go, {rule} as it is has not passed in {phase:?} since {began} and within {PASS_SECONDS} s"
                    ),
                );
            }
        }
        let home = own_home(world, node);
        let held = |pool: &String| {
            seen.pools.get(pool).is_some_and(|pool| {
                pool.paused && mark::paused_by(pool).is_some_and(|mark| mark.owner == run.uid)
            })
        };
        match &home {
            Primary::Pool(pool) if held(pool) => {}
            _ => return breach("5", format!("{name} was let go, its pool {home:?} is not held")),
        }
        self.released.insert(node.uid.clone());
        Ok(())
    }

    /// 3: one Job for one identity: owner, node, target, rule, phase, and the attempt of each.
    fn job(&self, world: &World, request: &JobRequest) -> Verdict {
        let Some(new) = world.jobs_made.iter().rfind(|made| made.key == request.job) else {
            return Ok(());
        };
        let turn = self.turns.iter().find(|(_, turn)| turn.node_uid == new.node_uid);
        let began = turn
            .and_then(|(key, _)| self.rounds.get(key))
            .map_or(0, |(_, at)| *at);
        let twins = world.jobs_made.iter().filter(|made| {
            made.uid != new.uid
                && made.run == new.run
                && made.node_uid == new.node_uid
                && made.rule == new.rule
                && made.phase == new.phase
                && made.attempt == new.attempt
                && made.at >= began
                && !made.deleted_by_others
        });
        match twins.count() {
            0 => Ok(()),
            _ if world.people.journals_deleted => Ok(()),
            count => breach("3", format!("{} was made {} times", request.job, count + 1)),
        }
    }

    /// What the node controller did since the last time: nobody falls into the canary pool whom numo did
    /// not let go.
    pub fn watch(&mut self, world: &World) -> Verdict {
        let new = &world.assignments[self.judged.min(world.assignments.len())..];
        self.judged = world.assignments.len();
        for assignment in new.iter().filter(|assignment| assignment.pool == "canary") {
            let Some(node) = world.truth.nodes.get(&assignment.node) else {
                continue;
            };
            if !self.released.contains(&node.uid) && !world.people.moved_nodes {
                return breach(
                    "5",
                    format!(
                        "{} changes in the canary pool and was never let go",
                        assignment.node
                    ),
                );
            }
        }
        Ok(())
    }

    /// 8: every node of a run is in its report.
    pub fn reported(
        &self,
        world: &World,
        seen: &Observed,
        run: &RunConfigView,
        decision: &Decision,
    ) -> Verdict {
        let targets = target_pools(seen, run);
        for node in seen.nodes.values() {
            let Primary::Pool(home) = own_home(world, node) else {
                continue;
            };
            if targets.contains(&home) && !decision.report.nodes.contains_key(&node.name) {
                return breach("8", format!("{} is not in the report of {}", node.name, run.key));
            }
        }
        Ok(())
    }

    /// When nothing is to be done, every node is in its own pool, or in the canary by its turn.
    pub fn at_rest(&self, world: &World) -> Verdict {
        homes(world)
    }
}

/// 13: nothing begins while it is stopped.
fn stopped(seen: &Observed, run: &RunConfigView, node: &NodeView) -> Verdict {
    if run.spec.suspend == Some(true) || run.annotations.contains_key(marks::SUSPEND) {
        return breach("13", format!("{} begins while its run is suspended", node.name));
    }
    if seen
        .budgets
        .values()
        .any(|budget| budget.paused && budget.selector.is_object())
    {
        return breach("13", format!("{} begins while a budget is paused", node.name));
    }
    Ok(())
}

/// The rules that must pass before a release, in the run as it was seen.
fn gating(seen: &Observed, run: &RunConfigView) -> Vec<(Key, Phase)> {
    let mut gating = Vec::new();
    for reference in run.spec.mutex_rules.iter().flatten() {
        let name = reference.name.clone().unwrap_or_default();
        let key = Key::new(&run.key.namespace, name);
        for phase in [Phase::Pre, Phase::PreRelease] {
            let asked = seen
                .rules
                .get(&key)
                .is_none_or(|rule| rule.phases.contains(&phase));
            if asked {
                gating.push((key.clone(), phase));
            }
        }
    }
    gating
}

/// The pool a node lives in if numo's selectors and labels are thought away.
fn own_home(world: &World, node: &NodeView) -> Primary {
    primary(&world.truth, &node.labels, &|pool| {
        world.people.selectors.get(&pool.name).cloned()
    })
}

fn target_pools(seen: &Observed, run: &RunConfigView) -> BTreeSet<String> {
    let references = run.spec.mutex_targets.iter().flatten();
    references
        .filter_map(|reference| {
            let name = reference.name.clone().unwrap_or_default();
            seen.targets.get(&Key::new(&run.key.namespace, name))
        })
        .flat_map(|target| target.pools.iter().cloned())
        .collect()
}

fn limit(world: &World, seen: &Observed, run: &RunConfigView) -> usize {
    let targets = target_pools(seen, run);
    let all = seen
        .nodes
        .values()
        .filter(|node| matches!(own_home(world, node), Primary::Pool(home) if targets.contains(&home)))
        .count();
    match run.spec.max_unavailable.as_ref().map(serde_json::to_value) {
        Some(Ok(serde_json::Value::Number(number))) => {
            number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
        }
        Some(Ok(serde_json::Value::String(text))) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(0);
            (all * percent / 100).max(1)
        }
        _ => 1,
    }
}

/// 5: no pool is given back while a node of it would roll.
fn unpaused(world: &World, seen: &Observed, owner: &Key, name: &str) -> Verdict {
    let run = seen.runs.get(owner);
    if run.is_some_and(|run| run.spec.on_exit == Some(OnExit::Unpause)) {
        return Ok(());
    }
    let Some(pool) = world.truth.pools.get(name) else {
        return Ok(());
    };
    let outdated = |node: &NodeView| {
        node.annotation(openshift::CURRENT_CONFIG) != pool.config
            || node.annotation(openshift::DESIRED_CONFIG) != pool.config
    };
    for node in world.truth.nodes.values() {
        let rolls =
            |node: &NodeView| outdated(node) && own_home(world, node) == Primary::Pool(name.to_owned());
        if rolls(node) && seen.nodes.get(&node.name).is_some_and(rolls) {
            return breach(
                "5",
                format!("pool {name} was unpaused and {} would roll", node.name),
            );
        }
    }
    Ok(())
}

/// At no time does numo put a node into two custom pools, or into none, or into a wrong one.
fn homes(world: &World) -> Verdict {
    if world.people.moved_nodes {
        return Ok(());
    }
    for node in world.truth.nodes.values() {
        let age = world.time().as_second() - node.created.as_second();
        if age < NEWCOMER_SECONDS {
            continue;
        }
        let now = primary(&world.truth, &node.labels, &|_| None);
        let own = own_home(world, node);
        let canary = now == Primary::Pool("canary".to_owned()) && node.labels.contains_key(marks::RELEASE);
        if now != own && !canary {
            return breach(
                "canary",
                format!("{} lives in {now:?}, and its own is {own:?}", node.name),
            );
        }
    }
    Ok(())
}

/// The end: nothing of numo is left where it is not needed, and everything is as people meant it.
pub fn restored(world: &World) -> Verdict {
    let truth = &world.truth;
    for pool in truth.pools.values() {
        let meant = world.people.selectors.get(&pool.name);
        if meant != Some(&pool.selector) || mark::prior_selector(pool).is_some() {
            return breach(
                "4",
                format!("pool {} has the selector {}", pool.name, pool.selector),
            );
        }
        let keepers = truth.runs.values().filter(|run| keeps_paused(run));
        let kept = keepers
            .clone()
            .any(|run| target_pools(truth, run).contains(&pool.name));
        // A run without a node leaves its pools alone, and has nothing to give back either.
        let lonely = kept && !truth.nodes.values().any(|node| lives_in_a_target(world, node));
        if lonely {
            continue;
        }
        let paused = world.people.paused.contains(&pool.name) || kept;
        if pool.paused != paused || (mark::paused_by(pool).is_some() && !kept) {
            return breach(
                "4",
                format!(
                    "pool {} is {}paused, meant was {paused}; its mark is {:?}",
                    pool.name,
                    if pool.paused { "" } else { "not " },
                    pool.annotations.get(marks::PAUSED_BY)
                ),
            );
        }
    }
    for node in truth.nodes.values() {
        unmarked(world, node)?;
        if world.people.cordoned.contains(&node.name) && !node.unschedulable {
            return breach("4", format!("the cordon of {} is gone", node.name));
        }
    }
    let machines = truth
        .machines
        .iter()
        .map(|((_, key), machine)| (key, &machine.object.annotations));
    let checks = truth
        .health_checks
        .iter()
        .map(|((_, key), check)| (key, &check.annotations));
    for (key, annotations) in machines.chain(checks) {
        if let Some(mark) = annotations.get(marks::SHIELDED_BY) {
            return breach(
                "4",
                format!("Machine or MachineHealthCheck {key} still carries {mark}"),
            );
        }
    }
    for run in truth.runs.values().filter(|run| !keeps_paused(run)) {
        if run
            .finalizers
            .iter()
            .any(|finalizer| finalizer == marks::FINALIZER)
        {
            return breach("4", format!("the finalizer of {} is left", run.key));
        }
    }
    leases_given_back(world)
}

fn lives_in_a_target(world: &World, node: &NodeView) -> bool {
    let truth = &world.truth;
    let Primary::Pool(home) = own_home(world, node) else {
        return false;
    };
    truth
        .runs
        .values()
        .any(|run| target_pools(truth, run).contains(&home))
}

/// The pools of the run stay paused when it is over.
fn keeps_paused(run: &RunConfigView) -> bool {
    run.spec.hold == Some(HoldPools::Always)
}

/// Nothing of numo is on a node.
pub fn unmarked(world: &World, node: &NodeView) -> Verdict {
    let meant = world.people.labels.get(&node.uid);
    if meant != Some(&node.labels) {
        return breach("4", format!("{} has the labels {:?}", node.name, node.labels));
    }
    if !node.taints.is_null() {
        return breach("4", format!("{} has the taints {}", node.name, node.taints));
    }
    let found: BTreeMap<String, String> = node
        .annotations
        .iter()
        .filter(|(key, _)| !key.starts_with("machineconfiguration.openshift.io/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if world.people.annotations.get(&node.uid) != Some(&found) {
        return breach("4", format!("{} has the annotations {found:?}", node.name));
    }
    Ok(())
}

/// No lease is held by numo.
pub fn leases_given_back(world: &World) -> Verdict {
    let ours = world
        .truth
        .leases
        .iter()
        .find(|(_, lease)| lease.holder.starts_with("numo/"));
    match ours {
        None => Ok(()),
        Some((node, lease)) => breach("4", format!("the lease of {node} is held by {}", lease.holder)),
    }
}

/// Remediation is kept off the Machine of a node that is let go.
fn shielded(world: &World, node: &str) -> Verdict {
    let mut machines = world
        .truth
        .machines
        .iter()
        .filter(|(_, machine)| machine.node == node);
    match machines.find(|(_, machine)| !machine.object.annotations.contains_key(marks::SKIP_REMEDIATION)) {
        None => Ok(()),
        Some(((_, key), _)) => breach(
            "shield",
            format!("{node} was let go, and its Machine {key} is not shielded"),
        ),
    }
}
