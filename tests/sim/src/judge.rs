//! The judge: asks of the world, after every write of numo, whether the invariants of the design (§6)
//! still hold. It reads nothing of what numo thinks: what was admitted, what passed, what is to be
//! restored it keeps for itself.

mod approvals;
mod asked;
mod copied;
mod domains;
mod drain;
mod end;
mod fleet;
mod groups;
mod heard;
pub mod hours;
mod late;
mod machines;
mod settings;
mod waves;

pub use end::{cordons_as_meant, leases_restored, restored, unmarked};
pub use late::Read;
pub use machines::nothing_leaked;

use crate::{
    reading::{edition, pauser},
    world::{Primary, World, primary},
};
use numo_api::{
    DirectiveAction, Phase, RunResult, RunStatus, Step, TargetRef, marks, marks::openshift,
    mutex_run_config::OnExit,
};
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Action, JobRequest, NodePurpose, PoolPurpose},
    observed::{ChangeView, IntOrPercent, Key, NodeView, Observed, RunConfigView, TargetView},
    report::RunPhase,
};
use std::collections::{BTreeMap, BTreeSet};

/// How young a node may be while it is not where it belongs yet (seconds).
const NEWCOMER_SECONDS: i64 = 1200;

/// The phases of rules that gate a release.
const BEFORE_RELEASE: [Phase; 2] = [Phase::Pre, Phase::PreRelease];

/// How long the writes of one pass may take after a Pass was found fresh (seconds).
const PASS_TAKES: i64 = 120;

/// One node's turn.
#[derive(Clone, Debug)]
struct Turn {
    owner: Owner,
    node: String,
    node_uid: String,
    /// The node stays in service while it changes.
    in_service: bool,
}

/// An attempt of a NodeChange.
#[derive(Clone, Copy, Debug)]
struct Round {
    attempt: i32,
    /// When it began.
    at: i64,
    /// How many Jobs of rules and of Plans had been made before.
    jobs: (usize, usize),
}

impl Round {
    fn new(world: &World, attempt: i32) -> Self {
        Self {
            attempt,
            at: world.now,
            jobs: (world.jobs_made.len(), world.plan_jobs_made.len()),
        }
    }
}

/// What the judge keeps for itself.
#[derive(Debug, Default)]
pub struct Judge {
    /// Turns by NodeChange.
    turns: BTreeMap<Key, Turn>,
    /// The present attempt of each NodeChange.
    rounds: BTreeMap<Key, Round>,
    /// Nodes that were let go, by uid.
    released: BTreeSet<String>,
    /// Turns of Plans and NodeMaintenances whose nodes were disrupted: owner uid and node uid.
    disrupted: BTreeSet<(String, String)>,
    /// NodeChanges of which a person spoke before their first step.
    taken_back: BTreeSet<Key>,
    /// What is kept of machines.
    machines: machines::Machines,
    judged: usize,
    /// When the decision was made whose writes are judged (seconds since the beginning).
    decided_at: i64,
    /// Whether it was made as if there were no node leases.
    without_leases: bool,
    /// When nodes began, by owner and run, and by the uids of the nodes (seconds since the beginning).
    begun: BTreeMap<(Owner, String), BTreeMap<String, i64>>,
    /// What was reported to wait for a person's word.
    reported: Vec<approvals::Reported>,
    /// The journals that this decision ends.
    ends: BTreeSet<Key>,
}

type Verdict = Result<(), String>;

fn breach(invariant: &str, message: impl std::fmt::Display) -> Verdict {
    Err(format!("invariant {invariant}: {message}"))
}

/// 5: a node begins only if its owner cannot go without giving it back: by the finalizer that it has now, or had when that was decided.
fn node_restored(world: &World, seen: &Observed, owner: &Owner, node: &str) -> Verdict {
    let finalizer = match owner.kind {
        OwnerKind::NodeMaintenance(_) => "foregroundDeleteNodeMaintenance",
        OwnerKind::MutexRunConfig | OwnerKind::Plan | OwnerKind::NodeVersion => {
            "numo.openshift-optional.skrzypek.io/restore"
        }
    };
    // Of one that is gone now, what was seen tells.
    let has = |all: &Observed| {
        let view = all.owner(owner);
        view.is_some_and(|view| view.finalizers.iter().any(|found| found == finalizer))
    };
    if has(&world.truth) || has(seen) {
        return Ok(());
    }
    breach(
        "5",
        format!("{node} begins, and {owner} has no finalizer of numo's"),
    )
}

impl Judge {
    /// Judges one write that was just carried out. `seen` is what the operator saw when it decided.
    pub fn after(&mut self, world: &World, seen: &Observed, owner: &Owner, action: &Action) -> Verdict {
        copied::left_alone(world, seen, owner, action)?;
        // What a person says of a turn that has no step yet takes it back; taken back itself, it gives the turn again.
        let said = seen.changes.values();
        let said = said.filter(|change| change.status.step.is_none() && change.spec.directive.is_some());
        self.taken_back.extend(said.map(|change| change.key.clone()));
        let taken_back = &self.taken_back;
        self.turns.retain(|key, turn| {
            let change = world.truth.changes.get(key);
            let is_there = change.is_some_and(|change| change.spec.node_uid == turn.node_uid);
            let has_step = change.is_some_and(|change| change.status.step.is_some());
            is_there && (has_step || !taken_back.contains(key))
        });
        let owners = || {
            let truth = &world.truth;
            let plans = truth.plans.values().map(|plan| &plan.uid);
            let others = truth.maintenances.values().map(|view| &view.uid);
            let versions = truth.fleet.versions.values().map(|view| &view.uid);
            plans.chain(others).chain(versions)
        };
        self.disrupted
            .retain(|(uid, _)| owners().any(|owner| owner == uid));
        match action {
            Action::CreateChange { key, .. } => {
                self.rounds.insert(key.clone(), Round::new(world, 1));
                let verdict = self.admitted(world, seen, owner, key);
                self.note_begun(world, owner, key, true);
                return verdict;
            }
            Action::WriteJournal { key, status, .. } => {
                return self.journaled(world, seen, owner, key, status);
            }
            Action::CreateJob(request) => {
                self.keeps_off(seen, request)?;
                self.asked_in_hours(seen, owner, request)?;
                return self.job(world, request);
            }
            _ => {}
        }
        if let Some(action) = machines::of_machines(action) {
            self.after_machines(world, seen, owner, action)
        } else if owner.kind == OwnerKind::MutexRunConfig {
            self.after_run(world, seen, owner, action)
        } else {
            self.after_fleet(world, seen, owner, action)
        }
    }

    /// What only a MutexRunConfig writes.
    fn after_run(&mut self, world: &World, seen: &Observed, owner: &Owner, action: &Action) -> Verdict {
        match action {
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Release => {
                self.released(world, seen, owner, &patch.node)?;
                shielded(world, seen, &patch.node)?;
                homes(world)
            }
            Action::PatchPool(patch) if patch.purpose == PoolPurpose::Unpause => {
                if patch.paused == Some((true, false)) {
                    unpaused(world, seen, &owner.key, &patch.pool)?;
                }
                Ok(())
            }
            Action::PatchNode(_) | Action::PatchPool(_) => homes(world),
            _ => Ok(()),
        }
    }

    fn journaled(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        key: &Key,
        status: &numo_api::NodeChangeStatus,
    ) -> Verdict {
        if status.verdicts.len() > 32 || status.entries.len() > 64 {
            return breach("bounds", format!("the journal {key} grows"));
        }
        of_this_time(world, key, status)?;
        heard::within_retries(seen, key, status)?;
        self.note_pin(status);
        if let Some(change) = world.truth.changes.get(key) {
            settings::has_soaked(world, seen, owner, change, status.step)?;
        }
        if machines::is_released_machine(seen, owner, key, status.step) {
            self.lets_go(world, seen, owner, key)?;
        }
        let round = self
            .rounds
            .entry(key.clone())
            .or_insert_with(|| Round::new(world, 1));
        if status.attempt > round.attempt {
            *round = Round::new(world, status.attempt);
        }
        // A turn has no step yet when its first journal says what closes it; a change that a person made is none.
        let said = world.truth.changes.get(key);
        let said = said.is_some_and(|change| change.spec.directive.is_some());
        let goes_on = status
            .step
            .map_or(!said, |step| step != Step::Selected && !step.is_terminal());
        if !goes_on {
            if let Some(turn) = self.turns.remove(key) {
                let of_owner = world.truth.changes.get(key);
                let uid = of_owner.map_or_else(String::new, |change| change.spec.owner_ref.uid.clone());
                self.disrupted.remove(&(uid, turn.node_uid));
            }
            return Ok(());
        }
        if self.turns.contains_key(key) {
            return Ok(());
        }
        let verdict = self.admitted(world, seen, owner, key);
        self.note_begun(world, owner, key, false);
        verdict
    }

    /// 2, 3, 13: limits, budgets and stops at an admission, whoever's it is.
    fn admitted(&mut self, world: &World, seen: &Observed, owner: &Owner, key: &Key) -> Verdict {
        let Some(change) = world.truth.changes.get(key) else {
            return Ok(());
        };
        let (name, uid) = (change.spec.node_name.as_str(), change.spec.node_uid.as_str());
        let Some(node) = seen.nodes.get(name).filter(|node| node.uid == uid) else {
            return breach("3", format!("{name} was admitted and does not exist"));
        };
        node_restored(world, seen, owner, name)?;
        let turn = Turn {
            owner: owner.clone(),
            node: name.to_owned(),
            node_uid: uid.to_owned(),
            in_service: change.spec.in_service,
        };
        let is_begun = self.is_begun_already(world, seen, owner, node) || self.taken_back.contains(key);
        if !is_begun {
            self.alone(world, &turn)?;
            self.settings_admit(world, seen, owner, (key, node))?;
            self.in_hours(seen, owner, node, true)?;
            self.asked_before_turn(world, seen, owner, (key, node))?;
            if owner.kind == OwnerKind::MutexRunConfig {
                self.run_admits(world, seen, &owner.key, node)?;
            } else {
                self.fleet_admits(world, seen, owner, node)?;
            }
            if !turn.in_service {
                self.within_budgets(seen, node)?;
            }
        }
        self.turns.insert(key.clone(), turn);
        Ok(())
    }

    /// One node has one owner at a time; only those that leave it in service may share it.
    fn alone(&self, world: &World, turn: &Turn) -> Verdict {
        if world.people.journals_deleted {
            return Ok(());
        }
        let others = self.turns.values().filter(|other| {
            other.node_uid == turn.node_uid
                && other.owner != turn.owner
                && !(other.in_service && turn.in_service)
        });
        match others.into_iter().next() {
            None => Ok(()),
            Some(other) => breach(
                "alone",
                format!(
                    "{} is with {} and was begun for {}",
                    turn.node, other.owner, turn.owner
                ),
            ),
        }
    }

    /// 2, 13: limits and stops of a MutexRunConfig.
    fn run_admits(&self, world: &World, seen: &Observed, owner: &Key, node: &NodeView) -> Verdict {
        let (name, uid) = (&node.name, &node.uid);
        let Some(run) = seen.runs.get(owner) else {
            return breach("2", "an admission without a run");
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
            .filter(|turn| turn.owner == Owner::run(owner.clone()) && turn.node_uid != *uid)
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
        if world.people.limits_edited || world.people.journals_deleted || world.people.moved_nodes {
            return Ok(());
        }
        within_targets(world, seen, run, (node, &others))
    }

    /// 3: a node that came again under its name begins anew. `node` has no turn with the owner.
    fn of_its_own(&self, owner: &Owner, node: &NodeView) -> Verdict {
        let mut turns = self.turns.values();
        match turns.find(|turn| turn.owner == *owner && turn.node == node.name) {
            None => Ok(()),
            Some(turn) => breach(
                "3",
                format!(
                    "{} goes on in the turn of {}, which had its name before",
                    node.uid, turn.node_uid
                ),
            ),
        }
    }

    fn within_budgets(&self, seen: &Observed, node: &NodeView) -> Verdict {
        let flies = |other: &NodeView| {
            self.turns
                .values()
                .any(|turn| turn.node_uid == other.uid && turn.node == other.name && !turn.in_service)
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
            groups::away(budget, seen, node, &away)?;
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
    fn released(&mut self, world: &World, seen: &Observed, owner: &Owner, name: &str) -> Verdict {
        let Some(run) = seen.runs.get(&owner.key) else {
            return breach("1", "a release without a run");
        };
        let (Some(node), Some(before)) = (world.truth.nodes.get(name), seen.nodes.get(name)) else {
            return breach("1", format!("{name} was let go and does not exist"));
        };
        stopped(seen, run, before)?;
        let turn = self
            .turns
            .iter()
            .find(|(_, turn)| turn.node_uid == node.uid && turn.owner == *owner);
        let Some((key, _)) = turn else {
            if world.people.journals_deleted {
                self.released.insert(node.uid.clone());
                return Ok(());
            }
            self.of_its_own(owner, node)?;
            return breach("1", format!("{name} was let go without a turn"));
        };
        if node.unschedulable || !before.ready {
            return breach("1", format!("{name} was let go cordoned or not Ready"));
        }
        self.in_hours(seen, owner, before, false)?;
        let mut rules = gating(seen, run, &BEFORE_RELEASE);
        rules.extend(self.rules_of_wave(world, seen, owner, (node, &BEFORE_RELEASE)));
        self.rules_passed(world, seen, key, node, &rules)?;
        self.leased(world, seen, owner, node)?;
        let home = own_home(world, node);
        let held = |pool: &String| {
            seen.pools
                .get(pool)
                .is_some_and(|pool| pool.paused && pauser(pool).as_ref() == Some(&run.uid))
        };
        match &home {
            Primary::Pool(pool) if held(pool) => {}
            _ => return breach("5", format!("{name} was let go, its pool {home:?} is not held")),
        }
        self.released.insert(node.uid.clone());
        Ok(())
    }

    /// 1: each of these rules, as it is, has passed for this node in this attempt, a short while ago.
    fn rules_passed(
        &self,
        world: &World,
        seen: &Observed,
        key: &Key,
        node: &NodeView,
        rules: &[(Key, Phase)],
    ) -> Verdict {
        let began = self.rounds.get(key).map_or(0, |round| round.at);
        let change = world.truth.changes.get(key);
        let run_id = change.map(|change| change.spec.target.run_id.as_str());
        for (rule, phase) in rules {
            let is_late = |at: i64| {
                let seconds = seen.rules.get(rule).map_or(0, |rule| rule.pass_seconds);
                world.now - at > seconds + PASS_TAKES
            };
            let is_of_rule = |told: &str| seen.rules.get(rule).is_some_and(|rule| edition(rule) == told);
            let passed = world.jobs_made.iter().any(|made| {
                made.rule == *rule
                    && made.phase == *phase
                    && made.node_uid == node.uid
                    && Some(made.run.as_str()) == run_id
                    && made.completed.is_some_and(|at| !is_late(at))
                    && is_of_rule(&made.edition)
                    && (made.at >= began || world.people.journals_deleted)
            });
            let may_count = |at: i64, edition: &str| !is_late(at) && is_of_rule(edition) && at >= began;
            let passed = passed || asked::passed(world, (rule, *phase), (&node.uid, run_id), may_count);
            if !passed {
                return breach(
                    "1",
                    format!(
                        "{} goes on, {rule} as it is has not passed in {phase:?} since {began} and within its passSeconds",
                        node.name
                    ),
                );
            }
        }
        Ok(())
    }

    /// 13: no rule of a turn that has changed nothing is asked out of hours.
    fn asked_in_hours(&self, seen: &Observed, owner: &Owner, request: &JobRequest) -> Verdict {
        let node = seen.nodes.get(&request.node);
        let uid = seen.uid_of(owner).unwrap_or_default();
        // Whose node was closed goes on, and a Pass that has grown old is asked for again.
        let is_disrupted = |node: &NodeView| {
            let disrupted = (uid.to_owned(), node.uid.clone());
            node.unschedulable || self.disrupted.contains(&disrupted)
        };
        match node.filter(|node| request.phase == Phase::Pre && !is_disrupted(node)) {
            Some(node) => self.in_hours(seen, owner, node, false),
            None => Ok(()),
        }
    }

    /// 3: one Job for one identity: owner, node, target, rule, phase, and the attempt of each.
    fn job(&self, world: &World, request: &JobRequest) -> Verdict {
        let Some(new) = world.jobs_made.iter().rfind(|made| made.key == request.job) else {
            return Ok(());
        };
        // No rule of this world names another namespace.
        if new.key.namespace != new.rule.namespace {
            return breach(
                "17",
                format!("Job {} of rule {} runs in another namespace", new.key, new.rule),
            );
        }
        let turn = self.turns.iter().find(|(_, turn)| turn.node_uid == new.node_uid);
        let began = turn
            .and_then(|(key, _)| self.rounds.get(key))
            .map_or(0, |round| round.jobs.0);
        let twins = world.jobs_made.iter().skip(began).filter(|made| {
            made.uid != new.uid
                && made.run == new.run
                && made.node_uid == new.node_uid
                && made.rule == new.rule
                && made.phase == new.phase
                && made.attempt == new.attempt
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
    pub fn reported(&self, world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
        heard::waits_no_longer(world, seen, owner, decision)?;
        if owner.kind != OwnerKind::MutexRunConfig {
            return fleet::reported(world, seen, owner, decision);
        }
        let Some(run) = seen.runs.get(&owner.key) else {
            return Ok(());
        };
        if decision.report.phase == RunPhase::Refused {
            return Ok(());
        }
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

    /// A decision that was judged is made once more, and writes nothing.
    pub fn decides_nothing(&mut self, world: &World) {
        self.decided_at = world.now;
        self.ends.clear();
    }

    /// What a decision must hold, whatever becomes of its writes.
    pub fn decided(&mut self, world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
        self.decides_nothing(world);
        self.without_leases = seen.settings.leases_unavailable.is_some();
        for planned in &decision.actions {
            if let Action::WriteJournal { key, status, .. } = &planned.action
                && status.step.is_some_and(Step::is_terminal)
            {
                self.ends.insert(key.clone());
            }
        }
        self.note_waiting(world, seen, owner, decision);
        says_something(seen, decision)?;
        asked::told_its_own(world, seen, owner, decision)?;
        settings::in_order(world, seen, owner, decision)?;
        let run = seen.runs.get(&owner.key);
        let run = run.filter(|_| owner.kind == OwnerKind::MutexRunConfig);
        run.map_or(Ok(()), |run| holds_without_a_rule(world, seen, run, decision))
    }

    /// When nothing is to be done, every node is in its own pool, or in the canary by its turn.
    pub fn at_rest(&self, world: &World) -> Verdict {
        homes(world)?;
        self.kept(world)
    }
}

/// 6: no journal is written that says what it says already.
fn says_something(seen: &Observed, decision: &Decision) -> Verdict {
    for planned in &decision.actions {
        let Action::WriteJournal { key, status, .. } = &planned.action else {
            continue;
        };
        if seen
            .changes
            .get(key)
            .is_some_and(|change| change.status == **status)
        {
            return breach("6", format!("the journal {key} is written, and nothing is new"));
        }
    }
    Ok(())
}

/// 11: a journal has the times of the API server, none of which is to come.
fn of_this_time(world: &World, key: &Key, status: &numo_api::NodeChangeStatus) -> Verdict {
    let entries = status.entries.iter().map(|entry| entry.at.as_str());
    let verdicts = status.verdicts.iter().map(|verdict| verdict.at.as_str());
    let mut times = status.since.as_deref().into_iter().chain(entries).chain(verdicts);
    let is_ahead = |at: &&str| at.parse::<jiff::Timestamp>().is_ok_and(|at| at > world.time());
    match times.find(is_ahead) {
        None => Ok(()),
        Some(at) => breach(
            "11",
            format!("the journal {key} says {at}, it is {}", world.time()),
        ),
    }
}

/// 14: once another version is asked for, no pool of a run is left unpaused because a rule that it names is not there.
fn holds_without_a_rule(world: &World, seen: &Observed, run: &RunConfigView, decision: &Decision) -> Verdict {
    let spec = &run.spec;
    let of_waves = spec.waves.iter().flatten();
    let of_waves = of_waves.flat_map(|wave| wave.rules.iter().flatten());
    let named = spec.mutex_rules.iter().flatten().chain(of_waves);
    let key = |reference: &numo_api::ObjectRef| {
        Key::new(
            reference.namespace.as_deref().unwrap_or(&run.key.namespace),
            reference.name.as_deref().unwrap_or_default(),
        )
    };
    let is_complete = named.map(key).all(|rule| seen.rules.contains_key(&rule));
    if is_complete || run.deleting || spec.dry_run == Some(true) || spec.on_refusal.is_some() {
        return Ok(());
    }
    let Some(asked) = seen
        .cluster_version
        .as_ref()
        .map(|version| version.desired.as_str())
    else {
        return Ok(());
    };
    if is_given_up(seen, run, asked) {
        return Ok(());
    }
    let version = |config: &str| seen.configs.get(config)?.version.as_deref();
    for pool in target_pools(seen, run) {
        let Some(pool) = seen.pools.get(&pool) else {
            continue;
        };
        let rolls = seen.nodes.values().any(|node| {
            let current = version(node.annotation(openshift::CURRENT_CONFIG));
            own_home(world, node) == Primary::Pool(pool.name.clone())
                && current.is_some_and(|current| current != asked)
        });
        let pauses = decision.actions.iter().any(|planned| {
            matches!(&planned.action, Action::PatchPool(patch)
                if patch.pool == pool.name && patch.paused == Some((false, true)))
        });
        if rolls && !pool.paused && !pauses {
            return breach(
                "14",
                format!(
                    "a rule of {} is not there, and pool {} is not paused",
                    run.key, pool.name
                ),
            );
        }
    }
    Ok(())
}

/// A person or a rule gave the run up: its pools roll without rules from then on, whatever becomes of the rules.
fn is_given_up(seen: &Observed, run: &RunConfigView, asked: &str) -> bool {
    let says_so = |of: &RunStatus| of.target == asked && of.result == Some(RunResult::Aborted);
    let by_person = |change: &ChangeView| {
        let directive = change.spec.directive.as_ref();
        change.spec.owner_ref.uid == run.uid
            && directive.is_some_and(|said| said.action == DirectiveAction::Abort)
    };
    run.annotations.contains_key(marks::ABORT)
        || run.status.run.as_ref().is_some_and(says_so)
        || seen.changes.values().any(by_person)
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

/// The rules that must pass in these phases, in the run as it was seen.
fn gating(seen: &Observed, run: &RunConfigView, phases: &[Phase]) -> Vec<(Key, Phase)> {
    let mut gating = Vec::new();
    for reference in run.spec.mutex_rules.iter().flatten() {
        let name = reference.name.clone().unwrap_or_default();
        let key = Key::new(&run.key.namespace, name);
        for phase in phases {
            let asked = seen
                .rules
                .get(&key)
                .is_none_or(|rule| rule.phases.contains(phase));
            if asked {
                gating.push((key.clone(), *phase));
            }
        }
    }
    gating
}

/// The pool a node lives in if numo's selectors and labels are thought away.
fn own_home(world: &World, node: &NodeView) -> Primary {
    primary(&world.truth, &node.labels, |pool| {
        world.people.selectors.get(&pool.name)
    })
}

fn target_pools(seen: &Observed, run: &RunConfigView) -> BTreeSet<String> {
    let references = run.spec.mutex_targets.iter().flatten();
    let targets = references.filter_map(|reference| target(seen, run, reference));
    let of_targets = targets.flat_map(|target| &target.pools);
    let named = run.spec.pools.iter().flatten();
    named.chain(of_targets).cloned().collect()
}

fn target<'a>(seen: &'a Observed, run: &RunConfigView, reference: &TargetRef) -> Option<&'a TargetView> {
    let name = reference.name.clone().unwrap_or_default();
    seen.targets.get(&Key::new(&run.key.namespace, name))
}

/// 2: no more nodes of a target have their turns than it allows.
fn within_targets(
    world: &World,
    seen: &Observed,
    run: &RunConfigView,
    (node, others): (&NodeView, &[&Turn]),
) -> Verdict {
    for reference in run.spec.mutex_targets.iter().flatten() {
        let Some((given, target)) = reference
            .max_unavailable
            .as_ref()
            .zip(target(seen, run, reference))
        else {
            continue;
        };
        let is_of = |node: &NodeView| match own_home(world, node) {
            Primary::Pool(home) => target.pools.contains(&home),
            _ => false,
        };
        if !is_of(node) {
            continue;
        }
        let all = seen.nodes.values().filter(|node| is_of(node)).count();
        let turns = others.iter().filter_map(|turn| seen.nodes.get(&turn.node));
        let found = turns.filter(|node| is_of(node)).count() + 1;
        let limit = number(serde_json::to_value(given).ok(), all);
        if found > limit {
            let words = format!(
                "{} was admitted as number {found} of {limit} of {}",
                node.name, target.key
            );
            return breach("2", words);
        }
    }
    Ok(())
}

fn limit(world: &World, seen: &Observed, run: &RunConfigView) -> usize {
    let targets = target_pools(seen, run);
    let all = seen
        .nodes
        .values()
        .filter(|node| matches!(own_home(world, node), Primary::Pool(home) if targets.contains(&home)))
        .count();
    let limit = run.spec.max_unavailable.as_ref();
    number(limit.and_then(|limit| serde_json::to_value(limit).ok()), all)
}

/// What a limit comes to of so many nodes.
fn number(limit: Option<serde_json::Value>, all: usize) -> usize {
    match limit {
        Some(serde_json::Value::Number(number)) => {
            number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1)
        }
        Some(serde_json::Value::String(text)) => {
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
    // The version that is asked for may not be rendered yet: who does not run it rolls when it is.
    let outdated = |known: &Observed, node: &NodeView| {
        let asked = known.cluster_version.as_ref().map(|cluster| {
            let update = cluster.desired_update.as_deref();
            update
                .filter(|update| !update.is_empty())
                .unwrap_or(&cluster.desired)
        });
        let version = |config: &str| known.configs.get(config)?.version.as_deref();
        let is_rendered = asked.is_none() || version(&pool.config) == asked;
        let current = node.annotation(openshift::CURRENT_CONFIG);
        current != pool.config
            || node.annotation(openshift::DESIRED_CONFIG) != pool.config
            || (!is_rendered && version(current) != asked)
    };
    for node in world.truth.nodes.values() {
        let rolls = |known: &Observed, node: &NodeView| {
            outdated(known, node) && own_home(world, node) == Primary::Pool(name.to_owned())
        };
        if rolls(&world.truth, node) && seen.nodes.get(&node.name).is_some_and(|node| rolls(seen, node)) {
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
        let now = primary(&world.truth, &node.labels, |_| None);
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

/// Remediation is kept off the Machine of a node that is let go.
fn shielded(world: &World, seen: &Observed, node: &str) -> Verdict {
    let mut machines = world
        .truth
        .machines
        .iter()
        .filter(|(_, machine)| machine.node == node)
        // One that has come with its node may be seen after it.
        .filter(|(place, machine)| {
            let known = seen.machines.get(*place);
            known.is_some_and(|known| known.object.uid == machine.object.uid)
        });
    match machines.find(|(_, machine)| !machine.object.annotations.contains_key(marks::SKIP_REMEDIATION)) {
        None => Ok(()),
        Some(((_, key), _)) => breach(
            "shield",
            format!("{node} was let go, and its Machine {key} is not shielded"),
        ),
    }
}
