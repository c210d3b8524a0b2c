//! What people have said of nodes and owners, and what they have asked for of nodes that fail or are away: that numo does it, and goes no
//! further than they allow.

use super::{Judge, Verdict, breach, fleet, settings};
use crate::{
    reading::{cordoner, edition, has_turn},
    world::World,
};
use numo_api::{
    Directive, DirectiveAction, NodeChangeStatus, Outcome, Phase, Reason, Step, marks,
    mutex_run_config::NotReadyPolicy,
};
use numo_core::{
    Decision, Owner, OwnerKind,
    observed::{ChangeView, Key, NodeView, Observed},
};

/// So long (seconds) after its time a node that is away may be waited for.
const LATE_SECONDS: i64 = 60;

fn says(change: &ChangeView, action: DirectiveAction) -> bool {
    let said = |one: &Directive| one.action == action;
    change.spec.directive.as_ref().is_some_and(said)
}

/// said: nothing begins of what a person has given up, on whichever node of the owner.
pub(super) fn not_given_up(seen: &Observed, owner: &Owner, (run_id, node): (&str, &NodeView)) -> Verdict {
    let uid = seen.uid_of(owner).unwrap_or_default();
    let mut changes = seen.changes.values();
    let said = changes.find(|change| {
        change.spec.owner_ref.uid == uid
            && change.spec.target.run_id == run_id
            && says(change, DirectiveAction::Abort)
    });
    match said {
        None => Ok(()),
        Some(change) => breach(
            "said",
            format!(
                "{} is begun, and a person has given {owner} up on {}",
                node.name, change.key
            ),
        ),
    }
}

/// retries: no rule has failed more often in one attempt of a node, and since its last Pass, than it may be tried.
pub(super) fn within_retries(seen: &Observed, key: &Key, status: &NodeChangeStatus) -> Verdict {
    for rule in seen.rules.values() {
        let (name, own) = (rule.key.to_string(), edition(rule));
        for phase in &rule.phases {
            let said = status
                .verdicts
                .iter()
                .rev()
                .filter(|one| one.rule == name && one.phase == *phase && one.round == status.attempt);
            let failed = said.take_while(|one| {
                one.outcome == Outcome::Failure && one.edition.as_deref() == Some(own.as_str())
            });
            let failed = failed.count();
            if failed > usize::try_from(rule.retries).unwrap_or(0) + 1 {
                return breach(
                    "retries",
                    format!(
                        "{key}: {name} has failed {failed} times, retries is {}",
                        rule.retries
                    ),
                );
            }
        }
    }
    Ok(())
}

/// said, left out: a node that waits and that a person skips, or that is away for too long, waits no longer.
pub(super) fn waits_no_longer(world: &World, seen: &Observed, owner: &Owner, decision: &Decision) -> Verdict {
    let report = &decision.report;
    let uid = seen.uid_of(owner).unwrap_or_default();
    for (name, said) in &report.nodes {
        // One that rolls without its rules is on its way.
        let waits = said.step == Step::Selected && said.why.reason != Reason::Ungated;
        let Some(node) = seen.nodes.get(name).filter(|_| waits) else {
            continue;
        };
        let of_node =
            |change: &&ChangeView| change.spec.owner_ref.uid == uid && change.spec.node_uid == node.uid;
        let mut changes = seen.changes.values().filter(of_node);
        let skipped = changes.find(|change| {
            let waits = matches!(change.status.step, None | Some(Step::Selected));
            change.spec.target.run_id == report.run_id && waits && says(change, DirectiveAction::Skip)
        });
        if let Some(change) = skipped {
            return breach(
                "said",
                format!("{name} of {owner} waits, and {} says Skip", change.key),
            );
        }
        let mut changes = seen.changes.values().filter(of_node);
        // A node of a pool may be away as it rolls by itself, and its run says other things of it first.
        let is_told_else = owner.kind == OwnerKind::MutexRunConfig && said.why.reason != Reason::NodeNotReady;
        if is_told_else || changes.any(has_turn) || !settings::is_behind(world, seen, owner, node) {
            continue;
        }
        let since = node.not_ready_since.filter(|_| !node.ready);
        let away = since.map(|since| world.time().as_second() - since.as_second());
        if let Some((away, after)) = away.zip(leaves_out_after(seen, owner))
            && away > after + LATE_SECONDS
        {
            return breach(
                "left",
                format!("{name} of {owner} is away for {away} s and waits, it is left out after {after} s"),
            );
        }
    }
    Ok(())
}

/// After how long (seconds) the owner leaves out nodes that are not Ready.
fn leaves_out_after(seen: &Observed, owner: &Owner) -> Option<i64> {
    let after = |policy, seconds| {
        (policy == Some(NotReadyPolicy::LeaveOutAfter))
            .then_some(seconds)
            .flatten()
    };
    if owner.kind == OwnerKind::MutexRunConfig {
        let spec = &seen.runs.get(&owner.key)?.spec;
        return after(spec.not_ready_policy, spec.leave_out_after_seconds);
    }
    let all: Vec<_> = fleet::settings(seen, owner).collect();
    // Who takes such nodes leaves none out.
    if all.iter().any(|one| one.take_not_ready == Some(true)) {
        return None;
    }
    let mut all = all.into_iter();
    all.find_map(|one| after(one.not_ready_policy, one.leave_out_after_seconds))
}

impl Judge {
    /// What must be so when nothing was written for long, nobody is at work, and the operator sees everything.
    pub fn silent(&self, world: &World) -> Verdict {
        if world.people.orphaned || world.people.journals_deleted {
            return Ok(());
        }
        let truth = &world.truth;
        for change in truth.changes.values() {
            let spec = &change.spec;
            let node = truth.nodes.get(&spec.node_name);
            let Some(node) = node.filter(|node| node.uid == spec.node_uid) else {
                continue;
            };
            let Some(owner) = owner_of(truth, change) else {
                continue;
            };
            let is_fresh = change.status.observed_generation.unwrap_or(1) < change.generation;
            let is_held = change.status.step == Some(Step::Held);
            if is_held && is_fresh && says(change, DirectiveAction::Retry) && !is_stopped(truth, &owner) {
                return breach(
                    "said",
                    format!(
                        "{} is held, and a person has said Retry ({})",
                        node.name, change.key
                    ),
                );
            }
            if is_stopped(truth, &owner) {
                self.is_restored(world, &owner, (change, node))?;
            }
        }
        Ok(())
    }

    /// 13: a stop keeps nothing from being restored: the node of a turn that is over, or that has come to its end, is open again.
    fn is_restored(&self, world: &World, owner: &Owner, (change, node): (&ChangeView, &NodeView)) -> Verdict {
        let truth = &world.truth;
        let uid = truth.uid_of(owner).unwrap_or_default();
        let of_node =
            |other: &&ChangeView| other.spec.owner_ref.uid == uid && other.spec.node_uid == node.uid;
        let has_turn = truth.changes.values().filter(of_node).any(has_turn);
        let is_over = change.status.step.is_some() && !has_turn;
        let round = self.rounds.get(&change.key);
        let is_asked = !fleet::gating(truth, owner, &[Phase::BeforeUncordon]).is_empty();
        let is_lost = change.status.reason.as_deref() == Some(Reason::NodeLeaseLost.name());
        let is_gone = match owner.kind {
            OwnerKind::Plan => {
                round.is_some_and(|round| settings::has_changed(world, truth, owner, change, round.at))
            }
            OwnerKind::NodeMaintenance(_) => truth.maintenances.get(owner).is_some_and(|view| view.deleting),
            OwnerKind::MutexRunConfig | OwnerKind::NodeVersion => false,
        };
        let has_changed = is_gone && !is_asked && !is_lost && node.ready;
        let is_cordoned = cordoner(node).as_deref() == Some(uid)
            && node.unschedulable
            && !world.people.cordoned.contains(&node.name);
        if (is_over || has_changed) && is_cordoned {
            return breach(
                "13",
                format!("{owner} is stopped, and {} is not uncordoned", node.name),
            );
        }
        let mark = node.annotations.get(marks::SHIELDED_BY);
        if is_over && mark.is_some_and(|mark| mark.contains(uid)) {
            return breach(
                "13",
                format!("{owner} is stopped, and {} is still shielded", node.name),
            );
        }
        Ok(())
    }
}

/// Whose a NodeChange is, if that is there.
fn owner_of(truth: &Observed, change: &ChangeView) -> Option<Owner> {
    let uid = &change.spec.owner_ref.uid;
    let runs = truth
        .runs
        .values()
        .map(|run| (&run.uid, Owner::run(run.key.clone())));
    let plans = truth
        .plans
        .values()
        .map(|plan| (&plan.uid, Owner::plan(plan.key.clone())));
    let others = truth
        .maintenances
        .values()
        .map(|one| (&one.uid, one.owner.clone()));
    let versions = truth.fleet.versions.values();
    let versions = versions.map(|one| (&one.uid, Owner::node_version(one.name.as_str())));
    let mut all = runs.chain(plans).chain(others).chain(versions);
    all.find(|(found, _)| *found == uid).map(|(_, owner)| owner)
}

/// Whether a person has stopped the owner, or everybody.
fn is_stopped(truth: &Observed, owner: &Owner) -> bool {
    let run = truth
        .runs
        .get(&owner.key)
        .filter(|_| owner.kind == OwnerKind::MutexRunConfig);
    let by_run =
        run.is_some_and(|run| run.spec.suspend == Some(true) || run.annotations.contains_key(marks::SUSPEND));
    let mut budgets = truth.budgets.values();
    let by_budget = budgets.any(|budget| budget.paused && budget.selector.is_object());
    by_run || by_budget || fleet::not_stopped_at_all(truth, owner, "").is_err()
}
