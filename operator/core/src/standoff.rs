//! Beside a live operator that numo replaces: one rule for every owner. The rival is a stop: nothing begins, and nothing new
//! is taken. What is under way comes to its end, a turn that has disrupted nothing is given back (`turn/closed.rs`), and what a
//! person asks to be given back is. What is left, a node that numo has cordoned, is said in its journal with the command that
//! takes the cordon back. Nothing here looks for rivals.

use crate::{
    action::{Action, FleetAction, NodePatch, NodePurpose, Planned},
    decision::{Decision, Snapshot},
    mark,
    observed::{ChangeView, NodeView, Observed},
    owner::{Means, OwnerKind},
    released,
    text::clip,
    time::later,
    turn::contradiction::unheeded,
    turn::journal::{self, Journal},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Phase, Reason, Step,
    machines::{Goal, annotations},
    marks,
};
use std::collections::BTreeSet;

/// How long the lease of a node that numo has disrupted is renewed beside a rival (seconds). After it others may take the node:
/// a lease must not outlive what people remember of it.
pub const LEASE_KEPT_SECONDS: i64 = 24 * 3600;
/// Bytes of the message in a journal.
const MESSAGE_BYTES: usize = 2048;

/// Ends a decision: beside a rival only what finishes or gives back is left of it, and the nodes in flight say why they stand
/// still. Once the rival is gone their journals forget it. `changes` are the owner's journals, `uid` is the owner's.
pub(crate) fn finish<'c>(
    out: &mut Decision,
    snapshot: &Snapshot<'_>,
    rival: Option<&Why>,
    changes: impl IntoIterator<Item = &'c ChangeView>,
    uid: &str,
) {
    let changes = changes.into_iter().filter(|change| change.in_flight());
    // Nothing is written to a journal that is not gone by.
    let changes = changes.filter(|change| unheeded(change, snapshot.owner, None).is_none());
    let changes: Vec<&ChangeView> = changes.collect();
    let Some(why) = rival else {
        return forget(out, &changes, snapshot.now);
    };
    only_finish(out, snapshot.observed, &changes);
    drop_old_leases(out, &changes, snapshot.now);
    for change in changes {
        let node = snapshot.observed.nodes.get(&change.spec.node_name);
        let words = words(why, snapshot.owner.kind, node, uid);
        tell(out, change, &words, snapshot.now);
    }
    out.report.hold = Some(why.clone());
}

/// Takes out what begins something, and whatever would follow on it in its chain.
fn only_finish(out: &mut Decision, observed: &Observed, changes: &[&ChangeView]) {
    let mut ended: BTreeSet<String> = BTreeSet::new();
    out.actions.retain(|Planned { chain, action, .. }| {
        if matches!(action, Action::RenewLease { .. }) {
            return true;
        }
        if !finishes(action, observed, changes) {
            ended.insert(chain.clone());
        }
        !ended.contains(chain)
    });
}

/// Whether a write finishes what is under way, or gives back.
fn finishes(action: &Action, observed: &Observed, changes: &[&ChangeView]) -> bool {
    match action {
        Action::CreateChange { .. }
        | Action::CreateMaintenance(_)
        | Action::AcquireLease { .. }
        | Action::Evict { .. }
        | Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::MarkGate { .. } => false,
        Action::PatchNode(patch) if patch.purpose == NodePurpose::Replace => unmarks_heir(patch, changes),
        Action::PatchNode(patch) => !matches!(
            patch.purpose,
            NodePurpose::Shield
                | NodePurpose::Label
                | NodePurpose::Release
                | NodePurpose::Cordon
                | NodePurpose::Quarantine
        ),
        Action::PatchMachine(patch) => patch.purpose.restores(),
        Action::Fleet(action) => lets_machine_go(action, observed, changes),
        Action::CreateJob(request) => !matches!(
            request.phase,
            Phase::PreRun | Phase::Admit | Phase::Pre | Phase::PreRelease
        ),
        // A Job that has begun may be the rival's; one that was never started is numo's.
        Action::DeletePlanJob { job, .. } => {
            let job = observed.plan_jobs.get(job);
            job.is_some_and(|job| job.paused && job.ended.is_none())
        }
        // The finalizer of node-maintenance-operator is that operator's while it lives.
        Action::AddFinalizer { finalizer, .. } | Action::RemoveFinalizer { finalizer, .. } => {
            *finalizer != marks::MAINTENANCE_FINALIZER
        }
        Action::PatchPool(_)
        | Action::WriteJournal { .. }
        | Action::DeleteChange { .. }
        | Action::DeleteMaintenance { .. }
        | Action::RecordRun { .. }
        | Action::SetJobTtl { .. }
        | Action::RenewLease { .. }
        | Action::ReleaseLease { .. } => true,
    }
}

/// Whether it only takes the mark of the node whose place it has off the new node of a turn that has let the old one go.
fn unmarks_heir(patch: &NodePatch, changes: &[&ChangeView]) -> bool {
    let mut notes = patch.annotations.iter();
    let unmarks = notes.all(|change| change.key == annotations::DONOR && change.to.is_none());
    let is_alone = patch.labels.is_empty() && patch.taints.is_none() && patch.unschedulable.is_none();
    let mut released = released::turns(changes.iter().copied());
    let is_heir = released.any(|(_, pin)| pin.heir.as_deref() == Some(&patch.node));
    unmarks && is_alone && is_heir
}

/// Whether what is done to machines, or to the objects that stand for them, is of a machine that a turn has let go. All else is the rival's:
/// its machines, nodes, groups and cluster autoscalers.
fn lets_machine_go(action: &FleetAction, observed: &Observed, changes: &[&ChangeView]) -> bool {
    let is_released_machine = |machine: &str| released::has_released(changes.iter().copied(), machine);
    match action {
        FleetAction::CreatePendingNode { spec, .. } | FleetAction::WritePendingNode { spec, .. } => {
            spec.goal == Some(Goal::Leave)
                && is_released_machine(spec.provider_id.as_deref().unwrap_or_default())
        }
        FleetAction::WritePendingStatus { name, .. } | FleetAction::DeletePendingNode { name, .. } => {
            let pending = observed.fleet.pending.get(name);
            pending.is_some_and(|pending| pending.leaves() && is_released_machine(pending.provider_id()))
        }
        FleetAction::DeleteMachine { provider_id, .. } => is_released_machine(provider_id),
        FleetAction::DeleteNode { node, .. } => {
            let mut released = released::turns(changes.iter().copied());
            released.any(|(change, _)| change.spec.node_name == *node)
        }
        // That of a node that is gone in its turn goes too, and the rival does not know of it.
        FleetAction::RemoveEtcdMember { node, .. } => {
            let mut changes = changes.iter();
            changes.any(|change| change.spec.node_name == *node)
        }
        FleetAction::CreateMachine { .. }
        | FleetAction::SetGroupImage { .. }
        | FleetAction::WriteGroupStatus { .. }
        | FleetAction::CreateGroup { .. }
        | FleetAction::NameGroup { .. }
        | FleetAction::DeleteGroup { .. }
        | FleetAction::EnableAutoscaler { .. }
        | FleetAction::WriteStrategyStatus { .. }
        | FleetAction::SetAutoscaler { .. }
        | FleetAction::DeleteJoiningNode { .. } => false,
    }
}

/// Renews no lease of a turn that has stood still for too long.
fn drop_old_leases(out: &mut Decision, changes: &[&ChangeView], now: Timestamp) {
    let is_old = |node: &str| {
        let mut changes = changes.iter();
        let change = changes.find(|change| change.spec.node_name == node);
        let since = change.and_then(|change| journal::time(change.status.closed_since.as_deref()));
        since.is_some_and(|since| later(since, LEASE_KEPT_SECONDS) <= now)
    };
    let renews_old = |action: &Action| matches!(action, Action::RenewLease { node, .. } if is_old(node));
    out.actions.retain(|planned| !renews_old(&planned.action));
}

/// Why a node stands still, and what takes back the cordon that numo made on it.
fn words(why: &Why, kind: OwnerKind, node: Option<&NodeView>, uid: &str) -> Why {
    let cordoned = |node: &&NodeView| {
        let mark = mark::cordoned_by(node).filter(|mark| mark.owner == uid && !mark.prior);
        // The mark of a run remembers the cordon of a person.
        node.unschedulable && mark.is_some() && kind.means() != Means::MachineConfig
    };
    let Some(node) = node.filter(cordoned) else {
        return why.clone();
    };
    let message = format!(
        "{}; Node {} keeps the cordon that numo made: `numo skip {}` takes it back",
        why.message, node.name, node.name
    );
    Why::new(why.reason, message)
}

/// Says in report and journal that a turn stands still because of the rival, where it does.
fn tell(out: &mut Decision, change: &ChangeView, why: &Why, now: Timestamp) {
    let Some(report) = out.report.nodes.get_mut(&change.spec.node_name) else {
        return;
    };
    let is_numos = matches!(
        report.why.reason,
        Reason::Admitting
            | Reason::Draining
            | Reason::Drained
            | Reason::InMaintenance
            | Reason::UpgradeStarting
            | Reason::ForeignController
    );
    let stands = matches!(
        report.step,
        Step::Admitted | Step::PreRules | Step::Cordoned | Step::Drained | Step::PreRelease
    );
    if !is_numos || !stands {
        return;
    }
    report.why = why.clone();
    let known = journal::is_for(change, why.reason) && change.status.closed_since.is_some();
    if known || change.status.step == Some(Step::Held) || is_written(out, change) {
        return;
    }
    let mut journal = Journal::open(change, now);
    let since = change.status.closed_since.clone();
    journal.status.closed_since = Some(since.unwrap_or_else(|| now.to_string()));
    journal.status.reason = Some(why.reason.name().to_owned());
    journal.status.message = Some(clip(&why.message, MESSAGE_BYTES));
    out.actions.extend(journal.planned(None));
}

/// Takes the rival's reason out of the journals of turns that go on.
fn forget(out: &mut Decision, changes: &[&ChangeView], now: Timestamp) {
    for change in changes {
        if !journal::is_for(change, Reason::ForeignController) || is_written(out, change) {
            continue;
        }
        let mut journal = Journal::open(change, now);
        (journal.status.reason, journal.status.message) = (None, None);
        // Before all else: the journal is read again after it.
        let chain = change.spec.node_name.as_str();
        out.actions.retain(|planned| planned.chain != chain);
        out.actions.extend(journal.planned(None));
    }
}

/// Whether the decision writes the journal already.
fn is_written(out: &Decision, change: &ChangeView) -> bool {
    let writes = |action: &Action| matches!(action, Action::WriteJournal { key, .. } | Action::DeleteChange { key, .. } if *key == change.key);
    out.actions.iter().any(|planned| writes(&planned.action))
}
