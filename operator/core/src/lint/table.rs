//! The table: which kind of write is checked against what, for every owner.

use super::checks::{
    Breach, Checked, breach, here, in_hours, job_may_run, lease_is_ours, machine_patch, not_stopped,
};
use crate::{
    action::{Action, Eviction, FleetAction, MaintenanceRequest, NodePatch, Planned, PoolPatch},
    admit::schedule::Schedule,
    decision::Decision,
    drain,
    ledger::Ledger,
    mark,
    observed::{ChangeView, NodeView, Observed, OwnerView},
    own_gate,
    owner::{MaintenanceGroup, Owner},
    turn::{across, reservation},
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Step, marks};

/// What every check may look at.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The API server's time.
    pub now: Timestamp,
    /// What was seen.
    pub observed: &'a Observed,
    /// The owner whose decision it is.
    pub owner: &'a Owner,
    /// The same, as it was seen.
    pub view: OwnerView<'a>,
}

impl<'a> Seen<'a> {
    /// The turn of the node, if it has one with the owner.
    pub fn turn(&self, node: &NodeView) -> Option<&'a ChangeView> {
        let mut turns = reservation::of(self.observed, self.owner, self.view.uid);
        turns.find(|change| self.observed.is_under_way(change) && change.spec.node_uid == node.uid)
    }
}

/// What a kind of owner says of the writes that only it makes, and of those that it may not make.
pub trait Checks {
    /// The owner's name on leases of nodes.
    fn holder(&self) -> String;
    /// Whether the node was begun before, by whomever: no budget and no stop keeps it from a turn.
    fn was_begun(&self, _node: &NodeView, _run_id: &str) -> bool {
        false
    }
    /// When its nodes may begin.
    ///
    /// Errors: what cannot be understood of it.
    fn schedule(&self) -> Result<Schedule<'_>, String>;
    /// What else must be so when a node is begun.
    fn begin(&self, node: &NodeView) -> Checked;
    /// A write to a node.
    fn patch_node(&self, node: &NodeView, patch: &NodePatch) -> Checked;
    /// What else must be so when a pod of the node is evicted, which has its turn, and is cordoned.
    fn evict(&self, node: &NodeView) -> Checked;
    /// What else must be so when another operator is to drain the node, which has its turn.
    fn drain_across(&self, node: &NodeView) -> Checked {
        breach(
            4,
            format!("{}: no other operator drains nodes of this owner", node.name),
        )
    }
    /// A write to a pool.
    fn patch_pool(&self, patch: &PoolPatch) -> Checked {
        breach(4, format!("pool {} is nothing to this owner", patch.pool))
    }
    /// What a journal is to say of its turn: the step that begins, where one does.
    fn write_journal(&self, _change: &ChangeView, _step: Option<Step>) -> Checked {
        Ok(())
    }
    /// What is done to machines that are replaced.
    fn of_fleet(&self, _action: &FleetAction) -> Checked {
        breach(4, "this owner has nothing to do with machines".to_owned())
    }
    /// What is done with Plans and their Jobs.
    fn of_plan(&self, _action: &Action) -> Checked {
        breach(4, "this owner has nothing to do with Plans".to_owned())
    }
}

/// Takes every action out of the decision that would break an invariant, with everything later of the same chain, and returns the
/// breaches.
pub fn keep(decision: &mut Decision, seen: Seen<'_>, owner: &dyn Checks) -> Vec<Breach> {
    let mut ledger = None;
    let mut breaches = Vec::new();
    let mut broken_chains = Vec::new();
    decision.actions.retain(|planned| {
        if broken_chains.contains(&planned.chain) {
            return false;
        }
        match check(seen, owner, &mut ledger, planned) {
            Ok(()) => true,
            Err(breach) => {
                breaches.push(breach);
                broken_chains.push(planned.chain.clone());
                false
            }
        }
    });
    breaches
}

fn check<'a>(
    seen: Seen<'a>,
    owner: &dyn Checks,
    ledger: &mut Option<Ledger<'a>>,
    planned: &Planned,
) -> Checked {
    let observed = seen.observed;
    if let Some(spec) = planned.action.begins(observed) {
        return begins(seen, owner, ledger, spec);
    }
    match &planned.action {
        Action::WriteJournal { key, status, .. } => match observed.changes.get(key) {
            Some(change) => owner.write_journal(change, status.step),
            None => Ok(()),
        },
        Action::PatchNode(patch) => owner.patch_node(here(observed, &patch.node, Some(&patch.uid))?, patch),
        Action::Evict { node, eviction } => evicts(seen, owner, here(observed, node, None)?, eviction),
        Action::PatchPool(patch) => owner.patch_pool(patch),
        Action::PatchMachine(patch) => machine_patch(observed, seen.view.uid, patch),
        Action::CreateJob(job) => job_may_run(observed, job),
        Action::ReleaseLease { node, .. } => lease_is_ours(observed, node, &owner.holder()),
        Action::CreatePlanJob(_) | Action::StartPlanJob { .. } | Action::DeletePlanJob { .. } => {
            owner.of_plan(&planned.action)
        }
        Action::CreateMaintenance(request) => drains_across(seen, owner, request),
        Action::DeleteMaintenance { name, uid } => deletes_maintenance(seen, name, uid),
        Action::Fleet(action) => owner.of_fleet(action),
        Action::CreateChange { .. }
        | Action::MarkGate { .. }
        | Action::AddFinalizer { .. }
        | Action::RemoveFinalizer { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::SetJobTtl { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. } => Ok(()),
    }
}

/// 2, 5 and 13: a turn begins, for the first time or once more, only where it may, and beyond no budget.
fn begins<'a>(
    seen: Seen<'a>,
    owner: &dyn Checks,
    ledger: &mut Option<Ledger<'a>>,
    spec: &NodeChangeSpec,
) -> Checked {
    let name = &spec.node_name;
    let node = here(seen.observed, name, Some(&spec.node_uid))?;
    if owner.was_begun(node, &spec.target.run_id) {
        return Ok(());
    }
    if seen.view.deleting {
        return breach(
            5,
            format!("{name} would be begun for an owner that is being deleted"),
        );
    }
    if seen.view.suspended || seen.view.annotations.contains_key(marks::SUSPEND) {
        return breach(13, format!("{name} would be begun while its owner is suspended"));
    }
    if own_gate::lost(seen.owner, seen.view).is_some() {
        return breach(
            1,
            format!("{name} would be begun while the gate of its owner is lost"),
        );
    }
    not_stopped(seen.observed, node, "admitted")?;
    in_hours(owner.schedule(), (seen.observed, node), "admitted", seen.now)?;
    owner.begin(node)?;
    if spec.in_service {
        return Ok(());
    }
    let ledger = ledger.get_or_insert_with(|| Ledger::of(seen.observed, seen.now));
    if let Some(why) = ledger.refusal(node) {
        return breach(
            2,
            format!("{name} would be admitted beyond a budget: {}", why.message),
        );
    }
    ledger.take(node);
    Ok(())
}

/// 1, 4 and 13: another operator drains a node in its turn only, for that turn, and by no object that somebody else made.
fn drains_across(seen: Seen<'_>, owner: &dyn Checks, request: &MaintenanceRequest) -> Checked {
    let node = here(seen.observed, &request.node, Some(&request.mark.node))?;
    not_stopped(seen.observed, node, "drained")?;
    let turn = seen
        .turn(node)
        .filter(|change| across::is_of_turn(&request.mark, change));
    if turn.is_none() || request.mark.owner != seen.view.uid {
        return breach(1, format!("{} would be drained out of turn", node.name));
    }
    if across::kept_by_other(seen.observed, node).is_some() {
        let name = &node.name;
        return breach(
            4,
            format!("{name} would be drained by a NodeMaintenance that is not ours"),
        );
    }
    owner.drain_across(node)
}

/// 1 and 4: a NodeMaintenance is deleted that numo made for the owner, and by which no node is kept drained in its turn.
fn deletes_maintenance(seen: Seen<'_>, name: &str, uid: &str) -> Checked {
    let object = Owner::maintenance(MaintenanceGroup::Medik8s, name);
    let found = seen.observed.maintenances.get(&object);
    let mark = found.filter(|view| view.uid == uid).and_then(mark::drains_for);
    let Some(mark) = mark.filter(|mark| mark.owner == seen.view.uid) else {
        return breach(4, format!("{object} with uid {uid} is not ours"));
    };
    let node = seen.observed.nodes.get(name).filter(|node| node.uid == mark.node);
    let turn = node.and_then(|node| seen.turn(node));
    if turn.is_some_and(|change| across::is_of_turn(&mark, change)) {
        return breach(
            1,
            format!("{object} keeps its node drained, and would be deleted"),
        );
    }
    Ok(())
}

/// 1, 12 and 13: a pod is evicted in the turn of its node, which is cordoned, and is not one that numo needs.
fn evicts<'a>(seen: Seen<'a>, owner: &dyn Checks, node: &'a NodeView, eviction: &Eviction) -> Checked {
    let observed = seen.observed;
    not_stopped(observed, node, "drained")?;
    if seen.turn(node).is_none() || !node.unschedulable {
        return breach(1, format!("Pod {} would be evicted out of turn", eviction.pod));
    }
    owner.evict(node)?;
    let pods = observed.pods.get(&node.name);
    let pod = pods.and_then(|pods| pods.get(&eviction.pod));
    if pod.is_none_or(|pod| pod.uid != eviction.uid || drain::is_needed(observed, pod) || pod.mirror) {
        return breach(12, format!("Pod {} is not to be evicted", eviction.pod));
    }
    Ok(())
}
