//! What is judged of Plans, NodeMaintenances and the turns of NodeVersions: what begins a disruption (a Job of a Plan, a cordon, an eviction) needs a
//! turn, the lease, the rules' Pass and nobody's stop. Read from the objects alone: no decision of the core is asked.

use super::{Judge, Turn, Verdict, breach, machines};
use crate::{reading::has_turn, world::World};
use numo_api::{
    DirectiveAction, MutexSettings, Phase, PlanWindow, Reason, Step, machines::annotations, marks,
    node_change::Entry,
};
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Action, NodePurpose, PlanJobRequest, PlanParts},
    observed::{ChangeView, Key, NodeView, Observed},
};
use serde_json::Value;

/// Label of control-plane nodes in these worlds.
const MASTER: &str = "node-role.kubernetes.io/master";

impl Judge {
    pub(super) fn after_fleet(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        action: &Action,
    ) -> Verdict {
        match action {
            Action::CreatePlanJob(request) => self.plan_job(world, seen, owner, request),
            Action::DeletePlanJob { job, uid } => killed(world, seen, job, uid),
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Replace => {
                self.note_pair(world, patch);
                Ok(())
            }
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Cordon => {
                self.cordoned(world, seen, owner, &patch.node)
            }
            Action::PatchNode(patch) if patch.purpose == NodePurpose::Uncordon => {
                let is_open = world
                    .truth
                    .nodes
                    .get(&patch.node)
                    .is_some_and(|node| !node.unschedulable);
                if is_open && world.people.cordoned.contains(&patch.node) {
                    return breach(
                        "4",
                        format!("{} was uncordoned, a person had cordoned it", patch.node),
                    );
                }
                // A node that was never closed is only labelled as done.
                if patch.unschedulable != Some(false) {
                    return Ok(());
                }
                self.asked_before_uncordon(world, seen, owner, &patch.node)
            }
            Action::Evict { node, eviction } => self.evicted(world, seen, owner, (node, eviction)),
            _ => Ok(()),
        }
    }

    /// Whether a Job of the Plan is on the node already: its turn only says so.
    #[allow(clippy::unused_self, reason = "the judge is asked, as for all else")]
    pub(super) fn is_begun_already(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        node: &NodeView,
    ) -> bool {
        if owner.kind != OwnerKind::Plan {
            return false;
        }
        let mut made = world.plan_jobs_made.iter();
        made.any(|made| {
            made.plan == owner.key && made.node_uid == node.uid && seen.plan_jobs.contains_key(&made.key)
        })
    }

    /// 2, 13, ready: limits and stops at an admission.
    pub(super) fn fleet_admits(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        node: &NodeView,
    ) -> Verdict {
        not_leaving(seen, owner, &node.name)?;
        not_stopped(seen, owner, node)?;
        let is_lenient = world.people.limits_edited || world.people.journals_deleted;
        let here = |turn: &&Turn| {
            turn.node_uid != node.uid
                && seen
                    .nodes
                    .get(&turn.node)
                    .is_some_and(|node| node.uid == turn.node_uid)
        };
        let (count, limit) = if owner.kind == OwnerKind::Plan {
            if !node.ready && !settings(seen, owner).any(|one| one.take_not_ready == Some(true)) {
                return breach("ready", format!("{} was begun and is not Ready", node.name));
            }
            self.in_window(seen, owner)?;
            let turns = self.turns.values().filter(|turn| turn.owner == *owner);
            (turns.filter(here).count(), plan_limit(world, seen, owner))
        } else {
            let takes = settings(seen, owner).any(|one| one.take_not_ready == Some(true));
            if owner.kind == OwnerKind::NodeVersion && !node.ready && !takes {
                return breach("ready", format!("{} was begun and is not Ready", node.name));
            }
            // A maintenance has one node: a limit is of all of them.
            let is_counted = |turn: &&Turn| match owner.kind {
                OwnerKind::NodeVersion => turn.owner == *owner,
                kind => turn.owner.kind == kind,
            };
            let turns = self.turns.values().filter(is_counted);
            let limit = limits(seen, owner)
                .map(|limit| number(&limit, seen.nodes.len()))
                .min();
            (turns.filter(here).count(), limit.unwrap_or(usize::MAX))
        };
        if count + 1 > limit && !is_lenient {
            return breach(
                "2",
                format!(
                    "{} was admitted for {owner} as number {} of {limit}",
                    node.name,
                    count + 1
                ),
            );
        }
        Ok(())
    }

    /// 13: a node of a Plan is begun in its window, whose last second is inside; windows of these worlds are of every day.
    fn in_window(&self, seen: &Observed, owner: &Owner) -> Verdict {
        let plan = seen.plans.get(&owner.key);
        let Some(PlanWindow {
            start_time, end_time, ..
        }) = plan.and_then(|plan| plan.spec.window.as_ref())
        else {
            return Ok(());
        };
        let now = crate::world::timestamp(self.decided_at).as_second();
        let now = now.rem_euclid(24 * 3600);
        let (from, to) = (
            second_of_day(start_time.as_ref()),
            second_of_day(end_time.as_ref()),
        );
        let is_inside = if from <= to {
            from <= now && now <= to
        } else {
            now >= from || now <= to
        };
        if !is_inside {
            return breach("13", format!("a node of {owner} is begun outside its window"));
        }
        Ok(())
    }

    /// 1, 5, 11, 13, alone: what holds at everything that disrupts a node.
    pub(super) fn may_disrupt(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        node: &NodeView,
    ) -> Verdict {
        not_leaving(seen, owner, &node.name)?;
        not_stopped(seen, owner, node)?;
        let turn = self
            .turns
            .values()
            .find(|turn| turn.owner == *owner && turn.node_uid == node.uid);
        let Some(turn) = turn else {
            // A turn that a person took back and gave again has no first journal of its own.
            let is_given = self.taken_back.iter().any(|key| {
                let change = world.truth.changes.get(key);
                change.is_some_and(|change| change.spec.node_uid == node.uid && has_turn(change))
            });
            if is_given || world.people.journals_deleted {
                return Ok(());
            }
            self.of_its_own(owner, node)?;
            return breach(
                "1",
                format!("{} is disrupted for {owner} without a turn", node.name),
            );
        };
        self.alone(world, turn)?;
        if turn.in_service {
            return Ok(());
        }
        self.leased(world, seen, owner, node)
    }

    /// 11: the lease of the node is ours, and holds.
    pub(super) fn leased(&self, world: &World, seen: &Observed, owner: &Owner, node: &NodeView) -> Verdict {
        // The lease of a node goes with it.
        let is_there = world
            .truth
            .nodes
            .get(&node.name)
            .is_some_and(|now| now.uid == node.uid);
        if self.without_leases || !is_there {
            return Ok(());
        }
        let uid = seen.uid_of(owner).unwrap_or_default();
        let holder = match owner.kind {
            OwnerKind::NodeMaintenance(_) => marks::MAINTENANCE_HOLDER.to_owned(),
            kind => format!("numo/{}/{uid}", kind.name()),
        };
        let lease = world.truth.leases.get(&node.name);
        let now = world.time().as_second();
        let holds = lease.is_some_and(|lease| {
            lease.holder == holder
                && lease
                    .renewed
                    .is_some_and(|at| now - at.as_second() <= lease.duration_seconds)
        });
        if holds {
            return Ok(());
        }
        let found = lease.map_or("nobody", |lease| lease.holder.as_str());
        breach(
            "11",
            format!(
                "{} is disrupted for {owner}, its lease is held by {found}",
                node.name
            ),
        )
    }

    /// What holds at the first disruption of a turn, and is noted then.
    fn first(&mut self, world: &World, seen: &Observed, owner: &Owner, node: &NodeView) -> Verdict {
        let uid = seen.uid_of(owner).unwrap_or_default().to_owned();
        if !self.disrupted.insert((uid, node.uid.clone())) {
            return Ok(());
        }
        self.has_quorum(world, seen, owner, node)
    }

    /// 10: never two nodes of the control plane away by numo, and for a maintenance a majority is left.
    fn has_quorum(&self, world: &World, seen: &Observed, owner: &Owner, node: &NodeView) -> Verdict {
        if !node.labels.contains_key(MASTER) || !node.ready || world.people.journals_deleted {
            return Ok(());
        }
        let members: Vec<&NodeView> = seen
            .nodes
            .values()
            .filter(|node| node.labels.contains_key(MASTER))
            .collect();
        let is_away = |other: &NodeView| {
            let mut disrupted = self.disrupted.iter();
            !other.ready || other.unschedulable || disrupted.any(|(_, uid)| *uid == other.uid)
        };
        let away = members
            .iter()
            .find(|other| other.uid != node.uid && is_away(other));
        if let Some(other) = away {
            return breach(
                "10",
                format!("{} is taken away, and {} is away", node.name, other.name),
            );
        }
        let left = members.len() - 1;
        if matches!(owner.kind, OwnerKind::NodeMaintenance(_)) && left < members.len() / 2 + 1 {
            return breach(
                "10",
                format!(
                    "{} is taken away, {left} of {} would be left",
                    node.name,
                    members.len()
                ),
            );
        }
        Ok(())
    }

    pub(super) fn key_of(&self, owner: &Owner, node: &NodeView) -> Option<&Key> {
        let mut turns = self.turns.iter();
        let (key, _) = turns.find(|(_, turn)| turn.owner == *owner && turn.node_uid == node.uid)?;
        Some(key)
    }

    /// 1, 3 and the order of Plans: a Job of a Plan begins.
    fn plan_job(&mut self, world: &World, seen: &Observed, owner: &Owner, made: &PlanJobRequest) -> Verdict {
        let Some(node) = seen.nodes.get(&made.node) else {
            return breach(
                "1",
                format!("a Job is made for {}, which does not exist", made.node),
            );
        };
        self.may_disrupt(world, seen, owner, node)?;
        self.job_in_hours(world, seen, owner, (node, made))?;
        let began = self
            .key_of(owner, node)
            .and_then(|key| self.rounds.get(key))
            .map_or(0, |round| round.jobs.1);
        let twins = world.plan_jobs_made.iter().skip(began).filter(|other| {
            other.plan == made.plan
                && other.node_uid == node.uid
                && other.hash == made.hash
                && other.parts == made.parts
                && !other.deleted_by_others
        });
        let count = twins.count();
        if count > 1 && !world.people.journals_deleted {
            return breach("3", format!("{} was made {count} times in one attempt", made.job));
        }
        if let Some(key) = self.key_of(owner, node).cloned() {
            let phases: &[Phase] = if made.parts == PlanParts::Prepare {
                &[Phase::Pre]
            } else {
                &[Phase::Pre, Phase::PreRelease]
            };
            let mut rules = gating(seen, owner, phases);
            rules.extend(self.rules_of_wave(world, seen, owner, (node, phases)));
            self.rules_passed(world, seen, &key, node, &rules)?;
        }
        // A turn of which something may have become of the node goes on, whoever else is not at the version by now.
        let goes_on = self
            .key_of(owner, node)
            .and_then(|key| seen.changes.get(key))
            .is_some_and(|change| {
                let lost = Some(Reason::JobLost.name());
                let mut entries = change.status.entries.iter();
                entries.any(|entry| {
                    matches!(entry.step, Step::Cordoned | Step::Released | Step::Changed)
                        || entry.reason.as_deref() == lost
                })
            });
        if !goes_on {
            after_servers(world, seen, made)?;
        }
        let plan = seen.plans.get(&made.plan);
        if plan.and_then(|plan| plan.spec.version.as_deref()) != Some(made.version.as_str()) {
            return breach(
                "target",
                format!("{} goes to {}, which nobody asks for", made.job, made.version),
            );
        }
        if made.parts == PlanParts::Upgrade && !node.unschedulable {
            return breach("1", format!("{} is upgraded and not cordoned", made.node));
        }
        let drains = plan.is_some_and(|plan| plan.spec.drain.is_some());
        let reopened = world.people.uncordoned.contains(&made.node);
        if drains && !reopened && made.parts == PlanParts::Upgrade {
            let late = |key: &Key, uid: &str| {
                let pods = seen.pods.get(&made.node);
                pods.is_none_or(|pods| pods.get(key).is_none_or(|pod| pod.uid != uid))
            };
            let left = world.pods_to_go(&made.node);
            if let Some((pod, _)) = left.iter().find(|(key, uid)| !late(key, uid)) {
                return breach("1", format!("{} is upgraded, and {pod} is on it", made.node));
            }
        }
        if made.parts == PlanParts::Prepare {
            return Ok(());
        }
        self.first(world, seen, owner, node)
    }

    /// 13: the first Job of a turn begins in hours. What was begun goes on.
    fn job_in_hours(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (node, made): (&NodeView, &PlanJobRequest),
    ) -> Verdict {
        let uid = seen.uid_of(owner).unwrap_or_default();
        let mut others = world.plan_jobs_made.iter();
        let is_begun = others
            .any(|other| other.plan == made.plan && other.node_uid == node.uid && other.key != made.job);
        let is_disrupted = self.disrupted.contains(&(uid.to_owned(), node.uid.clone()));
        if is_begun || is_disrupted || node.unschedulable || world.people.journals_deleted {
            return Ok(());
        }
        self.in_hours(seen, owner, node, false)
    }

    /// 1: a cordon of numo's. One that is put back again was judged before.
    fn cordoned(&mut self, world: &World, seen: &Observed, owner: &Owner, name: &str) -> Verdict {
        let Some(node) = seen.nodes.get(name) else {
            return breach("1", format!("{name} is cordoned and does not exist"));
        };
        self.may_disrupt(world, seen, owner, node)?;
        let uid = seen.uid_of(owner).unwrap_or_default();
        let mark = node.annotations.get(marks::CORDONED_BY);
        let is_again = self.disrupted.contains(&(uid.to_owned(), node.uid.clone()))
            || mark.is_some_and(|mark| mark.contains(uid) && owner.kind != OwnerKind::Plan);
        let is_late = matches!(owner.kind, OwnerKind::Plan | OwnerKind::NodeVersion);
        if !is_again && let Some(key) = self.key_of(owner, node).cloned() {
            let phases: &[Phase] = if is_late {
                &[Phase::Pre]
            } else {
                &[Phase::Pre, Phase::PreRelease]
            };
            let mut rules = gating(seen, owner, phases);
            rules.extend(self.rules_of_wave(world, seen, owner, (node, phases)));
            self.rules_passed(world, seen, &key, node, &rules)?;
            self.in_hours(seen, owner, node, false)?;
        }
        self.first(world, seen, owner, node)
    }

    /// Nobody is kept off a node by a lease of an owner that has no turn with it.
    pub fn leases_have_turns(&self, world: &World) -> Verdict {
        let truth = &world.truth;
        if world.people.orphaned || world.people.journals_deleted {
            return Ok(());
        }
        self.nothing_kept(world)?;
        for (node, lease) in &truth.leases {
            let is_ours = lease.holder.starts_with("numo/") || lease.holder == marks::MAINTENANCE_HOLDER;
            let mut changes = truth.changes.values();
            if is_ours && !changes.any(|change| change.spec.node_name == *node && has_turn(change)) {
                return breach(
                    "15",
                    format!("{} keeps the lease of {node} without a turn", lease.holder),
                );
            }
        }
        Ok(())
    }

    /// An owner that is suspended for a while holds nothing that it has not begun.
    fn nothing_kept(&self, world: &World) -> Verdict {
        let truth = &world.truth;
        for change in truth.changes.values().filter(|change| has_turn(change)) {
            let spec = &change.spec;
            let suspended =
                truth.plans.values().any(|plan| {
                    plan.uid == spec.owner_ref.uid && plan.annotations.contains_key(marks::SUSPEND)
                }) || truth.maintenances.values().any(|view| {
                    view.uid == spec.owner_ref.uid && view.annotations.contains_key(marks::SUSPEND)
                });
            let begun = self
                .disrupted
                .contains(&(spec.owner_ref.uid.clone(), spec.node_uid.clone()));
            // A Job that nobody saw end may have cordoned the node: a new generation of its Plan takes it up, and does not forget that.
            let is_lost = |entry: &Entry| entry.reason.as_deref() == Some(Reason::JobLost.name());
            let prepared =
                change.status.step == Some(Step::Held) || change.status.entries.iter().any(is_lost);
            if suspended && !begun && !prepared && !spec.in_service {
                return breach(
                    "15",
                    format!(
                        "{} is suspended and keeps {} for nothing",
                        spec.owner_ref.name, spec.node_name
                    ),
                );
            }
        }
        Ok(())
    }

    /// At rest: a maintenance that says that it succeeded keeps its node.
    pub(super) fn kept(&self, world: &World) -> Verdict {
        let truth = &world.truth;
        self.nothing_kept(world)?;
        for view in truth.maintenances.values().filter(|view| !view.deleting) {
            let node = truth.nodes.get(&view.spec.node_name);
            let Some(node) = node.filter(|_| view.status.phase.as_deref() == Some("Succeeded")) else {
                continue;
            };
            let taints = node.taints.to_string();
            if view.annotations.contains_key(marks::SUSPEND) || truth.budgets.values().any(|one| one.paused) {
                continue;
            }
            if !node.unschedulable || !taints.contains(marks::MEDIK8S_DRAIN) {
                return breach(
                    "kept",
                    format!("{} succeeded, and {} is open", view.owner, node.name),
                );
            }
            if node.ready && !world.pods_to_go(&node.name).is_empty() {
                return breach(
                    "kept",
                    format!("{} succeeded, and {} has pods", view.owner, node.name),
                );
            }
        }
        Ok(())
    }
}

/// 8: every node of a Plan, and that of a NodeMaintenance, is in its report.
pub(super) fn reported(world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
    let said = &decision.report.nodes;
    let missing = match owner.kind {
        OwnerKind::Plan => {
            let meant = world.people.plans.get(&owner.key);
            let is_gone = seen.plans.get(&owner.key).is_none_or(|plan| plan.deleting);
            let role = meant.map(|meant| meant.role.as_str()).filter(|_| !is_gone);
            let Some(role) = role else { return Ok(()) };
            let mut nodes = seen.nodes.values().filter(|node| node.labels.contains_key(role));
            nodes.find(|node| !said.contains_key(&node.name))
        }
        OwnerKind::NodeMaintenance(_) => {
            let view = seen.maintenances.get(owner).filter(|view| !view.deleting);
            let node = view.and_then(|view| seen.nodes.get(&view.spec.node_name));
            node.filter(|node| !said.contains_key(&node.name))
        }
        OwnerKind::NodeVersion => {
            let view = seen.fleet.versions.get(&owner.key.name);
            let is_there = view.is_some_and(|view| !view.deleting);
            let is_of = |node: &&NodeView| {
                let group = node.annotation(annotations::SCALING_GROUP_ID);
                is_there && machines::has_group(seen, owner, group)
            };
            let mut nodes = seen.nodes.values().filter(is_of);
            nodes.find(|node| !said.contains_key(&node.name))
        }
        OwnerKind::MutexRunConfig => None,
    };
    match missing {
        Some(node) => breach("8", format!("{} is not in the report of {owner}", node.name)),
        None => Ok(()),
    }
}

/// Everything that gates an owner: its own settings and those of the bindings of its kind.
pub(super) fn settings<'a>(seen: &'a Observed, owner: &Owner) -> impl Iterator<Item = &'a MutexSettings> {
    let kind = owner.kind;
    let own = seen.plans.get(&owner.key).filter(|_| kind == OwnerKind::Plan);
    let own = own.and_then(|plan| plan.spec.mutex.as_ref());
    let version = seen.fleet.versions.get(&owner.key.name);
    let version = version.filter(|_| kind == OwnerKind::NodeVersion);
    let own = own.or_else(|| version.and_then(|view| view.spec.mutex.as_ref()));
    let bound = seen.bindings.values();
    let bound = bound.filter(move |one| one.spec.owner_selector.kind == kind.name());
    own.into_iter().chain(bound.map(|one| &one.spec.settings))
}

/// The rules that must pass in these phases.
pub(super) fn gating(seen: &Observed, owner: &Owner, phases: &[Phase]) -> Vec<(Key, Phase)> {
    let own = seen.maintenances.get(owner);
    let own = own.and_then(|view| view.spec.mutex_rules.as_ref());
    let bound = settings(seen, owner).filter_map(|one| one.rules.as_ref());
    let mut all = Vec::new();
    for reference in own.into_iter().chain(bound).flatten() {
        let key = Key::new(
            &seen.settings.namespace,
            reference.name.clone().unwrap_or_default(),
        );
        for phase in phases {
            if seen
                .rules
                .get(&key)
                .is_none_or(|rule| rule.phases.contains(phase))
            {
                all.push((key.clone(), *phase));
            }
        }
    }
    all
}

/// Each `maxUnavailable` that bounds the owner.
fn limits(seen: &Observed, owner: &Owner) -> impl Iterator<Item = Value> {
    let all = settings(seen, owner).filter_map(|one| one.max_unavailable.as_ref());
    all.filter_map(|limit| serde_json::to_value(limit).ok())
}

pub(super) fn number(limit: &Value, of: usize) -> usize {
    match limit {
        Value::Number(number) => number.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0),
        Value::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(0);
            (of * percent / 100).max(1)
        }
        _ => 0,
    }
}

fn plan_limit(world: &World, seen: &Observed, owner: &Owner) -> usize {
    let plan = seen.plans.get(&owner.key);
    let concurrency = plan.and_then(|plan| plan.spec.concurrency).unwrap_or(0);
    let role = world
        .people
        .plans
        .get(&owner.key)
        .map(|meant| meant.role.as_str());
    let selected = seen
        .nodes
        .values()
        .filter(|node| role.is_some_and(|role| node.labels.contains_key(role)))
        .count();
    let limits = limits(seen, owner).map(|limit| number(&limit, selected));
    limits.fold(usize::try_from(concurrency).unwrap_or(0), usize::min)
}

/// 5: nothing begins for an owner that goes.
fn not_leaving(seen: &Observed, owner: &Owner, node: &str) -> Verdict {
    let is_leaving = match owner.kind {
        OwnerKind::Plan => seen.plans.get(&owner.key).is_none_or(|plan| plan.deleting),
        OwnerKind::NodeVersion => {
            let view = seen.fleet.versions.get(&owner.key.name);
            view.is_none_or(|view| view.deleting)
        }
        _ => seen.maintenances.get(owner).is_none_or(|view| view.deleting),
    };
    if is_leaving {
        return breach("5", format!("{node} is disrupted for {owner}, which goes"));
    }
    Ok(())
}

/// 13: nothing begins while it is stopped.
fn not_stopped(seen: &Observed, owner: &Owner, node: &NodeView) -> Verdict {
    not_stopped_at_all(seen, owner, &node.name)?;
    let uid = seen.uid_of(owner).unwrap_or_default();
    let changes = seen.changes.values();
    let of_node =
        changes.filter(|change| change.spec.owner_ref.uid == uid && change.spec.node_uid == node.uid);
    let of_node: Vec<&ChangeView> = of_node.collect();
    let in_turn = of_node.iter().any(|change| has_turn(change));
    // A node that waits is held by what was said of it for whatever its owner asked before.
    let held = of_node.iter().any(|change| {
        let directive = change.spec.directive.as_ref();
        (has_turn(change) || !in_turn) && directive.is_some_and(|one| one.action == DirectiveAction::Hold)
    });
    if held {
        return breach("13", format!("{} begins, and a person holds it", node.name));
    }
    Ok(())
}

/// 13: nothing begins while the owner is suspended, or a budget is paused.
pub(super) fn not_stopped_at_all(seen: &Observed, owner: &Owner, what: &str) -> Verdict {
    let annotations = match owner.kind {
        OwnerKind::Plan => seen.plans.get(&owner.key).map(|plan| &plan.annotations),
        OwnerKind::NodeVersion => {
            let view = seen.fleet.versions.get(&owner.key.name);
            view.map(|view| &view.annotations)
        }
        _ => seen.maintenances.get(owner).map(|view| &view.annotations),
    };
    if annotations.is_some_and(|all| all.contains_key(marks::SUSPEND)) {
        return breach("13", format!("{what} begins while {owner} is suspended"));
    }
    let mut budgets = seen.budgets.values();
    if budgets.any(|budget| budget.paused && budget.selector.is_object()) {
        return breach("13", format!("{what} begins while a budget is paused"));
    }
    Ok(())
}

fn second_of_day(text: Option<&String>) -> i64 {
    let (hours, minutes) = text.and_then(|text| text.split_once(':')).unwrap_or(("0", "0"));
    hours.parse::<i64>().unwrap_or(0) * 3600 + minutes.parse::<i64>().unwrap_or(0) * 60
}

/// Agents go after their servers.
fn after_servers(world: &World, seen: &Observed, made: &PlanJobRequest) -> Verdict {
    let meant = world.people.plans.get(&made.plan);
    if meant.is_none_or(|meant| meant.after.is_none()) {
        return Ok(());
    }
    let mut servers = seen
        .nodes
        .values()
        .filter(|node| node.labels.contains_key(MASTER));
    match servers.find(|server| server.kubelet_version != made.version) {
        None => Ok(()),
        Some(server) => breach(
            "order",
            format!(
                "{} goes to {}, and {} is at {}",
                made.node, made.version, server.name, server.kubelet_version
            ),
        ),
    }
}

/// 5: what runs is never killed.
fn killed(world: &World, seen: &Observed, job: &Key, uid: &str) -> Verdict {
    let runs = |all: &Observed| {
        let job = all.plan_jobs.get(job).filter(|job| job.uid == *uid);
        job.is_some_and(|job| {
            job.ended.is_none() && !job.untouched && !job.paused && all.nodes.contains_key(&job.node)
        })
    };
    if runs(&world.truth) && runs(seen) {
        return breach("5", format!("Job {job} is killed while it runs"));
    }
    Ok(())
}
