//! What is judged of the settings of owners and of MutexBindings at an admission: who goes first, which nodes never go together, how
//! many may fail, in which order, what is asked before a turn; and of how long a turn is kept.

use super::{Judge, Turn, Verdict, breach, fleet, heard, machines, own_home, target_pools};
use crate::{
    reading::has_turn,
    world::{Primary, World},
};
use numo_api::{
    ApprovalPolicy, ApprovalSettings, MutexSettings, Order, Outcome, Phase, Reason, Step,
    machines::annotations, marks, marks::openshift, mutex_run_config::NotReadyPolicy,
};
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Action, PlanParts},
    observed::{ChangeView, Key, NodeView, Observed},
};
use serde_json::Value;

impl Judge {
    /// What holds at an admission, whoever the owner is.
    pub(super) fn settings_admit(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (key, node): (&Key, &NodeView),
    ) -> Verdict {
        if let Some(leaving) = &node.leaving {
            return breach("leaving", format!("{} was begun: {}", node.name, leaving.why));
        }
        self.never_together(seen, owner, node)?;
        if world.people.journals_deleted {
            return Ok(());
        }
        let change = world.truth.changes.get(key);
        let run_id = change.map_or("", |change| change.spec.target.run_id.as_str());
        heard::not_given_up(seen, owner, (run_id, node))?;
        few_have_failed(world, seen, owner, (run_id, node))?;
        if !self.goes_out_of_order(seen, owner, node) {
            self.first_are_done(world, seen, owner, (run_id, node))?;
            self.wave_by_wave(world, seen, owner, (run_id, node))?;
            self.domain_by_domain(world, seen, owner, (run_id, node))?;
        }
        // A node that has changed and is asked about again begins nothing: only its last rules are asked.
        if change.is_some_and(|change| change.status.step == Some(Step::PostRules)) {
            return Ok(());
        }
        self.with_a_word(world, seen, owner, (run_id, node))
    }

    /// 1: a node that has changed is opened only once the rules of phase BeforeUncordon were asked. What a failure leads to is
    /// the owner's.
    pub(super) fn asked_before_uncordon(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        name: &str,
    ) -> Verdict {
        let Some(node) = seen.nodes.get(name) else {
            return Ok(());
        };
        let Some(key) = self.key_of(owner, node) else {
            return Ok(());
        };
        let (Some(change), Some(round)) = (seen.changes.get(key), self.rounds.get(key)) else {
            return Ok(());
        };
        if !has_changed(world, seen, owner, change, round.at) || world.people.journals_deleted {
            return Ok(());
        }
        for (rule, phase) in fleet::gating(seen, owner, &[Phase::BeforeUncordon]) {
            if !seen.rules.contains_key(&rule) {
                continue;
            }
            let by_job = world.jobs_made.iter().any(|made| {
                let runs = seen.jobs.get(&made.key).is_some_and(|job| job.ended.is_none());
                made.rule == rule
                    && made.phase == phase
                    && made.node_uid == node.uid
                    && made.at >= round.at
                    && !runs
            });
            let mut words = world.answered.iter();
            let by_word = words.any(|one| {
                one.rule == rule && one.phase == phase && one.node_uid == node.uid && one.at >= round.at
            });
            let name_of_rule = rule.to_string();
            let mut verdicts = change.status.verdicts.iter();
            // Where one has failed for good, those after it are not asked.
            let has_failed = verdicts.any(|one| {
                let is_of_rule = one.rule == name_of_rule && one.outcome != Outcome::Pass;
                one.phase == phase && (is_of_rule || one.outcome == Outcome::Failure)
            });
            if !by_job && !by_word && !has_failed {
                return breach("1", format!("{name} is uncordoned, {rule} was not asked before"));
            }
        }
        Ok(())
    }

    /// 2: no two nodes with the same value of a mutex key have their turns together.
    fn never_together(&self, seen: &Observed, owner: &Owner, node: &NodeView) -> Verdict {
        let is_beside = |turn: &&Turn| {
            let other = seen.nodes.get(&turn.node);
            are_beside(&turn.owner, owner)
                && turn.node_uid != node.uid
                && other.is_some_and(|other| other.uid == turn.node_uid)
        };
        for key in keys(seen, owner) {
            let Some(value) = node.labels.get(key) else {
                continue;
            };
            let mut beside = self.turns.values().filter(is_beside);
            let twin = beside.find(|turn| {
                let other = seen.nodes.get(&turn.node);
                other.and_then(|other| other.labels.get(key)) == Some(value)
            });
            if let Some(twin) = twin {
                return breach(
                    "2",
                    format!("{} goes with {}, both {key}={value}", node.name, twin.node),
                );
            }
        }
        Ok(())
    }

    /// Whether those that come after a node of the owner wait for it: it surely is not done, nor left out.
    pub(super) fn keeps_waiting(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (run_id, node): (&str, &NodeView),
    ) -> bool {
        if is_maintenance(owner) {
            return self.is_maintained(seen, owner, node);
        }
        if is_left_out_by_word(seen, owner, node) {
            return false;
        }
        let in_turn = || {
            let mut turns = self.turns.iter();
            turns.any(|(key, turn)| {
                let change = seen.changes.get(key);
                // Its end may be refused by the server, and the next one begun all the same.
                turn.owner == *owner
                    && turn.node_uid == node.uid
                    && !self.ends.contains(key)
                    && change.is_some_and(|one| has_turn(one) && one.spec.target.run_id == run_id)
            })
        };
        // What went dark in its turn keeps it.
        if in_turn() {
            return is_behind(world, seen, owner, node) || is_selected(world, seen, owner, node);
        }
        !is_dark(seen, owner, node) && is_behind(world, seen, owner, node)
    }

    /// Whether another NodeMaintenance of the node keeps those of later nodes waiting: it is yet to begin, or not over.
    fn is_maintained(&self, seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
        let others = seen.maintenances.values();
        let mut others = others.filter(|other| other.owner != *owner && other.spec.node_name == node.name);
        others.any(|other| {
            let mut of_node = seen.changes.iter().filter(|(_, change)| {
                change.spec.owner_ref.uid == other.uid && change.spec.node_uid == node.uid
            });
            let is_in_turn = of_node.any(|(key, change)| has_turn(change) && !self.ends.contains(key));
            is_in_turn || !other.deleting && !is_left_out(seen, &other.owner, node)
        })
    }

    /// First: those that go first are done, or left out.
    fn first_are_done(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (run_id, node): (&str, &NodeView),
    ) -> Verdict {
        let selectors = first(seen, owner);
        let is_first = |node: &NodeView| selectors.iter().any(|selector| selects(selector, node));
        let is_before = machines::goes_before_waves(seen, owner, node);
        if selectors.is_empty() || is_first(node) || is_before || seen.runs.len() > 1 {
            return Ok(());
        }
        for other in seen.nodes.values().filter(|other| is_first(other)) {
            if self.keeps_waiting(world, seen, owner, (run_id, other)) {
                return breach(
                    "first",
                    format!(
                        "{} was begun, {} goes first and is not done",
                        node.name, other.name
                    ),
                );
            }
        }
        Ok(())
    }
}

pub(super) fn is_maintenance(owner: &Owner) -> bool {
    matches!(owner.kind, OwnerKind::NodeMaintenance(_))
}

/// Whether the turns of one owner count for another: the NodeMaintenances of these worlds are under one MutexBinding.
pub(super) fn are_beside(one: &Owner, other: &Owner) -> bool {
    one == other || is_maintenance(one) && one.kind == other.kind
}

/// Order: the nodes that one decision begins are begun in it.
pub(super) fn in_order(world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
    let Some(order) = order(seen, owner) else {
        return Ok(());
    };
    let begun = decision
        .actions
        .iter()
        .filter_map(|planned| match &planned.action {
            Action::CreateChange { spec, .. } => seen.nodes.get(&spec.node_name),
            _ => None,
        });
    let begun: Vec<&NodeView> = begun.collect();
    for pair in begun.windows(2) {
        let [one, next] = pair else { continue };
        if owner.kind == OwnerKind::MutexRunConfig && own_home(world, one) != own_home(world, next) {
            continue;
        }
        // Those whose place is taken, or is not to be taken, come before any order.
        let has_rank = |node: &NodeView| {
            let marks = [annotations::HEIR, annotations::OBSOLETE];
            marks.iter().any(|key| !node.annotation(key).is_empty())
        };
        if owner.kind == OwnerKind::NodeVersion && (has_rank(one) || has_rank(next)) {
            continue;
        }
        if is_after(order, one, next) {
            return breach(
                "order",
                format!(
                    "{} was begun before {}, the order is {order:?}",
                    one.name, next.name
                ),
            );
        }
    }
    Ok(())
}

/// Soak: a node of a Plan keeps its turn for so long after its Job.
pub(super) fn has_soaked(
    world: &World,
    seen: &Observed,
    owner: &Owner,
    change: &ChangeView,
    step: Option<Step>,
) -> Verdict {
    if step != Some(Step::Done) || owner.kind != OwnerKind::Plan {
        return Ok(());
    }
    let soaks = fleet::settings(seen, owner)
        .filter_map(|one| one.soak_seconds)
        .max();
    let version = seen
        .plans
        .get(&owner.key)
        .and_then(|plan| plan.spec.version.as_deref());
    let made = world.plan_jobs_made.iter().rfind(|made| {
        made.plan == owner.key
            && made.node_uid == change.spec.node_uid
            && Some(made.version.as_str()) == version
    });
    let completed = made.and_then(|made| made.completed_at);
    let Some((soak, at)) = soaks.zip(completed) else {
        return Ok(());
    };
    if world.now - at < soak {
        return breach(
            "soak",
            format!(
                "{} is done {} s after its Job, soakSeconds is {soak}",
                change.spec.node_name,
                world.now - at
            ),
        );
    }
    Ok(())
}

/// Whether a node was begun out of order. Which of two nodes without a zone comes first nobody says.
fn is_after(order: Order, one: &NodeView, next: &NodeView) -> bool {
    match order {
        Order::Name => one.name > next.name,
        Order::Oldest => one.created > next.created,
        Order::Newest => one.created < next.created,
        Order::Zone => {
            let zone = |node: &NodeView| node.labels.get(openshift::ZONE).cloned();
            match (zone(one), zone(next)) {
                (Some(here), Some(there)) => (here, one.created) > (there, next.created),
                _ => false,
            }
        }
    }
}

/// 5: once as many nodes have failed as may, no further one is begun. Counted are those that surely have: a rule's last word was
/// a failure, and the node is held or given up for it.
fn few_have_failed(
    world: &World,
    seen: &Observed,
    owner: &Owner,
    (run_id, node): (&str, &NodeView),
) -> Verdict {
    let selected = seen.nodes.values();
    let selected = selected
        .filter(|node| is_selected(world, seen, owner, node))
        .count();
    let Some(budget) = failure_budget(seen, owner, selected) else {
        return Ok(());
    };
    let failed = failed(seen, owner, (run_id, node)).count();
    if failed >= budget {
        return breach(
            "failures",
            format!(
                "{} was begun, {failed} nodes of {owner} have failed of {budget}",
                node.name
            ),
        );
    }
    Ok(())
}

/// The other nodes that surely have failed in the run.
pub(super) fn failed<'a>(
    seen: &'a Observed,
    owner: &Owner,
    (run_id, node): (&'a str, &'a NodeView),
) -> impl Iterator<Item = &'a ChangeView> + use<'a> {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let are_maintenances = is_maintenance(owner);
    let is_counted = move |change: &ChangeView| {
        let of_owner = change.spec.owner_ref.uid == uid && change.spec.target.run_id == run_id;
        of_owner || are_maintenances && change.spec.owner_ref.kind == "NodeMaintenance"
    };
    let has_failed = move |change: &&ChangeView| {
        let status = &change.status;
        let last = status.verdicts.last();
        is_counted(change)
            && change.spec.directive.is_none()
            && change.spec.node_uid != node.uid
            && seen
                .nodes
                .get(&change.spec.node_name)
                .is_some_and(|node| node.uid == change.spec.node_uid)
            && (status.step == Some(Step::Held)
                || status.step == Some(Step::Failed)
                    && status.reason.as_deref() == Some(Reason::RuleFailed.name()))
            && last.is_some_and(|verdict| {
                verdict.outcome == Outcome::Failure
                    && verdict.round == status.attempt
                    && !matches!(verdict.phase, Phase::OnFailure)
            })
    };
    seen.changes.values().filter(has_failed)
}

/// Whether the turn has come to its end by itself: the Job of the Plan is complete, or the maintenance is over.
pub(super) fn has_changed(
    world: &World,
    seen: &Observed,
    owner: &Owner,
    change: &ChangeView,
    since: i64,
) -> bool {
    let is_held = matches!(
        change.status.step,
        Some(Step::Held | Step::Failed | Step::Skipped)
    );
    if change.spec.directive.is_some() || is_held {
        return false;
    }
    let Some(plan) = seen.plans.get(&owner.key) else {
        // One whose lease another took has failed, as with the operator that it replaces.
        let lease = seen.leases.get(&change.spec.node_name);
        let is_ours = lease.is_none_or(|lease| lease.holder == marks::MAINTENANCE_HOLDER);
        return matches!(owner.kind, OwnerKind::NodeMaintenance(_)) && is_ours;
    };
    let mut made = world.plan_jobs_made.iter();
    let is_complete = made.any(|made| {
        made.plan == owner.key
            && made.node_uid == change.spec.node_uid
            && made.at >= since
            && made.completed_at.is_some()
            && made.parts != PlanParts::Prepare
            && Some(&made.version) == plan.spec.version.as_ref()
    });
    owner.kind == OwnerKind::Plan
        && is_complete
        && !plan.deleting
        && !plan.annotations.contains_key(marks::ABORT)
}

fn failure_budget(seen: &Observed, owner: &Owner, selected: usize) -> Option<usize> {
    let number = |limit: &Value| fleet::number(limit, selected).max(1);
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key)?;
            let given = run.spec.failure_budget.as_ref();
            let given = given.and_then(|given| serde_json::to_value(given).ok());
            let is_approved = run.spec.approval.as_ref().is_some_and(is_after_failure);
            given.as_ref().map(number).or((!is_approved).then_some(1))
        }
        OwnerKind::Plan | OwnerKind::NodeVersion => {
            let all = || fleet::settings(seen, owner);
            let given = all().filter_map(|one| one.failure_budget.as_ref());
            let given = given.filter_map(|given| serde_json::to_value(given).ok());
            let by_default = all().any(|one| *one != MutexSettings::default()) && !is_approved(all());
            let given = given.map(|given| number(&given)).min();
            given.or(by_default.then_some(1))
        }
        OwnerKind::NodeMaintenance(_) => None,
    }
}

/// Whether a person approves what begins after a failure: only a budget that somebody wrote holds beside that.
fn is_approved<'a>(mut all: impl Iterator<Item = &'a MutexSettings>) -> bool {
    all.any(|one| one.approval.as_ref().is_some_and(is_after_failure))
}

fn is_after_failure(approval: &ApprovalSettings) -> bool {
    approval.after_failure == Some(ApprovalPolicy::Manual)
}

/// The label keys of which no value has two turns at once.
fn keys<'a>(seen: &'a Observed, owner: &Owner) -> Vec<&'a String> {
    if owner.kind == OwnerKind::MutexRunConfig {
        let run = seen.runs.get(&owner.key);
        return run
            .into_iter()
            .flat_map(|run| run.spec.mutex_keys.iter().flatten())
            .collect();
    }
    let all = fleet::settings(seen, owner);
    all.flat_map(|one| one.mutex_keys.iter().flatten()).collect()
}

/// Whether some nodes of the owner go first.
pub(super) fn has_first(seen: &Observed, owner: &Owner) -> bool {
    !first(seen, owner).is_empty()
}

/// The labels of the nodes that go first: selectors of these worlds have nothing else.
fn first(seen: &Observed, owner: &Owner) -> Vec<Value> {
    let all: Vec<_> = match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key);
            run.and_then(|run| run.spec.first.as_ref()).into_iter().collect()
        }
        OwnerKind::Plan | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => {
            let all = fleet::settings(seen, owner);
            all.filter_map(|one| one.first.as_ref()).collect()
        }
    };
    let all = all.into_iter().filter_map(|one| serde_json::to_value(one).ok());
    all.map(|mut one| one["matchLabels"].take()).collect()
}

fn order(seen: &Observed, owner: &Owner) -> Option<Order> {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key)?;
            Some(run.spec.order.unwrap_or(Order::Zone))
        }
        OwnerKind::Plan => fleet::settings(seen, owner).find_map(|one| one.order),
        OwnerKind::NodeVersion => {
            let given = fleet::settings(seen, owner).find_map(|one| one.order);
            Some(given.unwrap_or(Order::Name))
        }
        OwnerKind::NodeMaintenance(_) => None,
    }
}

pub(super) fn selects(labels: &Value, node: &NodeView) -> bool {
    let mut labels = labels.as_object().into_iter().flatten();
    labels.all(|(key, value)| node.labels.get(key).map(String::as_str) == value.as_str())
}

pub(super) fn is_selected(world: &World, seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key);
            let targets = run.map(|run| target_pools(seen, run)).unwrap_or_default();
            matches!(own_home(world, node), Primary::Pool(home) if targets.contains(&home))
        }
        OwnerKind::Plan => {
            let meant = world.people.plans.get(&owner.key);
            meant.is_some_and(|meant| node.labels.contains_key(&meant.role))
        }
        OwnerKind::NodeVersion => machines::is_of(seen, owner, node),
        OwnerKind::NodeMaintenance(_) => false,
    }
}

/// Whether the node surely is not where the owner takes it.
pub(super) fn is_behind(world: &World, seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    if !is_selected(world, seen, owner, node) {
        return false;
    }
    if owner.kind == OwnerKind::NodeVersion {
        return machines::is_outdated(seen, owner, node);
    }
    if owner.kind != OwnerKind::Plan {
        let Primary::Pool(home) = own_home(world, node) else {
            return false;
        };
        let pool = seen.pools.get(&home);
        return pool.is_some_and(|pool| node.annotation(openshift::CURRENT_CONFIG) != pool.config);
    }
    let plan = seen.plans.get(&owner.key);
    let version = plan.and_then(|plan| plan.spec.version.as_deref());
    let mut made = world.plan_jobs_made.iter();
    let is_complete = made.any(|made| {
        made.plan == owner.key
            && made.node_uid == node.uid
            && made.completed_at.is_some()
            && Some(made.version.as_str()) == version
    });
    !is_complete && Some(node.kubelet_version.as_str()) != version
}

/// Whether a person or a rule left the node out, or it has been away for too long.
pub(super) fn is_left_out(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    is_left_out_by_word(seen, owner, node) || is_dark(seen, owner, node)
}

/// Whether a person or a rule left the node out.
fn is_left_out_by_word(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let mut changes = seen
        .changes
        .values()
        .filter(|change| change.spec.owner_ref.uid == uid && change.spec.node_uid == node.uid);
    changes.any(|change| {
        change.spec.directive.is_some() || matches!(change.status.step, Some(Step::Skipped | Step::Failed))
    })
}

/// Whether it may have been away for too long.
fn is_dark(seen: &Observed, owner: &Owner, node: &NodeView) -> bool {
    !node.ready && leaves_out(seen, owner)
}

fn leaves_out(seen: &Observed, owner: &Owner) -> bool {
    let after = Some(NotReadyPolicy::LeaveOutAfter);
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key);
            run.is_some_and(|run| run.spec.not_ready_policy == after)
        }
        _ => fleet::settings(seen, owner).any(|one| one.not_ready_policy == after),
    }
}
