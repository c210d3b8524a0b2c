//! The last look before anything is written: every planned action is checked against the invariants of
//! the design, independently of how it was decided. A breach is not carried out and is a fault in numo.

use crate::{
    action::{
        Action, JobRequest, MachinePatch, NodePatch, NodePurpose, PlanParts, Planned, PoolPatch, PoolPurpose,
    },
    decision::{Decision, Snapshot},
    drain,
    intent::InForce,
    ledger::{self, Ledger},
    mark,
    observed::{ChangeView, MaintenanceView, NodeView, Observed, PlanView, RuleView, RunConfigView},
    owner::OwnerKind,
    owners::mutex_run_config::frame::{Frame, Member},
    owners::{node_maintenance, plan},
    place, quorum, rules,
    turn::{
        believed::{Believed, is_marked},
        lease::{holder_of, lease_holder},
        quarantine,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    Outcome, Phase, Step, Strategy, VerdictRecord,
    marks::{self, openshift},
};
use std::cell::OnceCell;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Number of the invariant in the design.
    pub invariant: u8,
    /// What would have happened.
    pub message: String,
}

/// Takes every action out of the decision that would break an invariant, and returns the breaches.
pub fn lint(snapshot: &Snapshot<'_>, decision: &mut Decision) -> Vec<Breach> {
    if decision.actions.is_empty() {
        return Vec::new();
    }
    let observed = snapshot.observed;
    let mut ledger = None;
    match snapshot.owner.kind {
        OwnerKind::MutexRunConfig => {
            let Some(run) = observed.runs.get(&snapshot.owner.key) else {
                decision.actions.clear();
                return Vec::new();
            };
            let sight = Sight {
                snapshot,
                observed,
                run,
                frame: OnceCell::new(),
            };
            keep(decision, |planned| check(&sight, &mut ledger, planned))
        }
        OwnerKind::NodeMaintenance(_) => {
            let Some(view) = observed.maintenances.get(snapshot.owner) else {
                decision.actions.clear();
                return Vec::new();
            };
            keep(decision, |planned| {
                of_maintenance(snapshot, view, &mut ledger, planned)
            })
        }
        OwnerKind::Plan => {
            let Some(view) = observed.plans.get(&snapshot.owner.key) else {
                decision.actions.clear();
                return Vec::new();
            };
            keep(decision, |planned| of_plan(snapshot, view, &mut ledger, planned))
        }
    }
}

/// Takes out what the check is against, with everything later of the same chain.
fn keep(decision: &mut Decision, mut check: impl FnMut(&Planned) -> Result<(), Breach>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut broken_chains = Vec::new();
    decision.actions.retain(|planned| {
        if broken_chains.contains(&planned.chain) {
            return false;
        }
        match check(planned) {
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

/// What the checks look at. The frame is worked out when the first of them needs it: most writes are of a
/// journal or a Job, and a big cluster has many of them.
struct Sight<'s, 'a> {
    snapshot: &'s Snapshot<'a>,
    observed: &'a Observed,
    run: &'a RunConfigView,
    frame: OnceCell<Frame<'a>>,
}

impl<'a> Sight<'_, 'a> {
    fn frame(&self) -> &Frame<'a> {
        self.frame.get_or_init(|| Frame::of(self.snapshot, self.run))
    }
}

fn breach(invariant: u8, message: String) -> Result<(), Breach> {
    Err(Breach { invariant, message })
}

fn check<'a>(
    sight: &Sight<'_, 'a>,
    ledger: &mut Option<Ledger<'a>>,
    planned: &Planned,
) -> Result<(), Breach> {
    match &planned.action {
        Action::CreateChange { spec, .. } => admitted(sight, ledger, &spec.node_name, &spec.node_uid),
        Action::WriteJournal { key, status, .. } => match sight.observed.changes.get(key) {
            Some(change)
                if !change.in_flight() && matches!(status.step, Some(Step::Admitted | Step::PostRules)) =>
            {
                admitted(sight, ledger, &change.spec.node_name, &change.spec.node_uid)
            }
            _ => Ok(()),
        },
        Action::CreateJob(job) => job_may_run(sight.observed, job),
        Action::PatchNode(patch) => node_patch(sight, patch),
        Action::PatchPool(patch) => pool_patch(sight, patch),
        Action::PatchMachine(patch) => machine_patch(sight.observed, &sight.run.uid, patch),
        Action::ReleaseLease { node, .. } => {
            lease_is_ours(sight.observed, node, &lease_holder(&sight.run.uid))
        }
        Action::Evict { eviction, .. } => {
            breach(1, format!("Pod {} would be evicted by a run", eviction.pod))
        }
        Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. } => breach(4, "a run has nothing to do with Plans".to_owned()),
        Action::AddFinalizer { .. }
        | Action::RemoveFinalizer { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::SetJobTtl { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. } => Ok(()),
    }
}

/// 2 and 13: no admission beyond any budget, or while stopped.
fn admitted<'a>(
    sight: &Sight<'_, 'a>,
    ledger: &mut Option<Ledger<'a>>,
    name: &str,
    uid: &str,
) -> Result<(), Breach> {
    let frame = sight.frame();
    let ledger = ledger.get_or_insert_with(|| Ledger::of(sight.observed, sight.snapshot.now));
    let Some(node) = frame.observed.nodes.get(name).filter(|node| node.uid == uid) else {
        return breach(3, format!("{name} ({uid}) does not exist"));
    };
    if let Some(why) = stopped(frame, node) {
        return breach(
            13,
            format!("{name} would be admitted while stopped: {}", why.message),
        );
    }
    if let Some(why) = ledger.refusal(node) {
        return breach(
            2,
            format!("{name} would be admitted beyond a budget: {}", why.message),
        );
    }
    if node.unschedulable {
        return breach(4, format!("{name} is cordoned by someone else"));
    }
    ledger.take(node);
    Ok(())
}

fn stopped(frame: &Frame<'_>, node: &NodeView) -> Option<Why> {
    ledger::stop(frame.observed, node).or_else(|| frame.intent.suspended.clone())
}

/// The checks of a NodeMaintenance's actions.
fn of_maintenance<'a>(
    snapshot: &Snapshot<'a>,
    view: &MaintenanceView,
    ledger: &mut Option<Ledger<'a>>,
    planned: &Planned,
) -> Result<(), Breach> {
    let observed = snapshot.observed;
    let name = &view.spec.node_name;
    let node = observed.nodes.get(name);
    let stop = |node: &NodeView, what: &str| match ledger::stop(observed, node) {
        Some(why) => breach(
            13,
            format!("{name} would be {what} while stopped: {}", why.message),
        ),
        None => Ok(()),
    };
    // A turn begins: for the first time, or once more.
    let begins = |node: &NodeView, ledger: &mut Option<Ledger<'a>>| {
        stop(node, "admitted")?;
        if let Some(why) = quorum::refusal(observed, node) {
            return breach(10, why.message.to_string());
        }
        let ledger = ledger.get_or_insert_with(|| Ledger::of(observed, snapshot.now));
        match ledger.refusal(node) {
            Some(why) => breach(
                2,
                format!("{name} would be admitted beyond a budget: {}", why.message),
            ),
            None => Ok(()),
        }
    };
    match &planned.action {
        Action::CreateChange { spec, .. } => {
            let Some(node) = node.filter(|node| node.uid == spec.node_uid && node.name == spec.node_name)
            else {
                return breach(
                    3,
                    format!("{} ({}) does not exist", spec.node_name, spec.node_uid),
                );
            };
            begins(node, ledger)
        }
        Action::PatchNode(patch) => {
            let Some(node) = observed
                .nodes
                .get(&patch.node)
                .filter(|node| node.uid == patch.uid)
            else {
                return breach(3, format!("{} ({}) does not exist", patch.node, patch.uid));
            };
            maintenance_patch((observed, snapshot.now), view, node, patch)
        }
        Action::Evict { node: of, eviction } => {
            let Some(node) = node.filter(|node| node.name == *of) else {
                return breach(3, format!("{of} is not the node of this maintenance"));
            };
            stop(node, "drained")?;
            if mark::cordoned_by(node).is_none_or(|mark| mark.owner != view.uid) || !node.unschedulable {
                return breach(
                    1,
                    format!(
                        "Pod {} would be evicted from a node that is not cordoned",
                        eviction.pod
                    ),
                );
            }
            let pod = observed.pods.get(of).and_then(|pods| pods.get(&eviction.pod));
            if pod.is_none_or(|pod| pod.uid != eviction.uid || drain::is_needed(observed, pod) || pod.mirror)
            {
                return breach(12, format!("Pod {} is not to be evicted", eviction.pod));
            }
            if view.deleting {
                return breach(13, format!("{name} would be drained while it is given back"));
            }
            Ok(())
        }
        Action::CreateJob(job) => job_may_run(observed, job),
        Action::ReleaseLease { node, .. } => lease_is_ours(observed, node, marks::MAINTENANCE_HOLDER),
        Action::PatchPool(patch) => breach(4, format!("pool {} is nothing to a maintenance", patch.pool)),
        Action::WriteJournal { key, status, .. } => match observed.changes.get(key) {
            Some(change) if !change.in_flight() && status.step == Some(Step::Admitted) => {
                let Some(node) = node.filter(|node| node.uid == change.spec.node_uid) else {
                    return breach(
                        3,
                        format!(
                            "{} ({}) does not exist",
                            change.spec.node_name, change.spec.node_uid
                        ),
                    );
                };
                begins(node, ledger)
            }
            _ => Ok(()),
        },
        Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::MarkGate { .. } => breach(4, "a maintenance has nothing to do with Plans".to_owned()),
        Action::PatchMachine(patch) => machine_patch(observed, &view.uid, patch),
        Action::AddFinalizer { .. }
        | Action::RemoveFinalizer { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::SetJobTtl { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. } => Ok(()),
    }
}

/// 4: only the lease that an owner holds itself is given back.
fn lease_is_ours(observed: &Observed, node: &str, holder: &str) -> Result<(), Breach> {
    match observed.leases.get(node) {
        Some(lease) if lease.holder == holder => Ok(()),
        _ => breach(4, format!("the lease of {node} is not ours to give back")),
    }
}

/// The checks of a Plan's actions.
fn of_plan<'a>(
    snapshot: &Snapshot<'a>,
    view: &'a PlanView,
    ledger: &mut Option<Ledger<'a>>,
    planned: &Planned,
) -> Result<(), Breach> {
    let observed = snapshot.observed;
    let here = |name: &str, uid: Option<&str>| {
        let node = observed.nodes.get(name);
        node.filter(|node| uid.is_none_or(|uid| uid == node.uid))
    };
    let turn = |node: &NodeView| {
        let mut turns = plan::changes(observed, view);
        turns.find(|change| change.in_flight() && change.spec.node_uid == node.uid)
    };
    match &planned.action {
        Action::CreateChange { spec, .. } => {
            let Some(node) = here(&spec.node_name, Some(&spec.node_uid)) else {
                return breach(3, format!("{} does not exist", spec.node_name));
            };
            if plan::has_job(observed, view, node, &spec.target.run_id) {
                // It was begun before numo came.
                return Ok(());
            }
            plan_begins(snapshot, view, node, spec.in_service, ledger)
        }
        Action::WriteJournal { key, status, .. } => match observed.changes.get(key) {
            Some(change) if !change.in_flight() && status.step == Some(Step::Admitted) => {
                let Some(node) = here(&change.spec.node_name, Some(&change.spec.node_uid)) else {
                    return breach(3, format!("{} does not exist", change.spec.node_name));
                };
                if plan::has_job(observed, view, node, &change.spec.target.run_id) {
                    return Ok(());
                }
                plan_begins(snapshot, view, node, change.spec.in_service, ledger)
            }
            _ => Ok(()),
        },
        Action::CreatePlanJob(request) => {
            let name = &request.node;
            let Some(node) = here(name, None) else {
                return breach(3, format!("{name} does not exist"));
            };
            if request.hash.is_empty() || request.version.is_empty() {
                return breach(1, format!("{name} would be upgraded to nobody knows what"));
            }
            if observed.plan_jobs.contains_key(&request.job) {
                return breach(3, format!("Job {} exists already", request.job));
            }
            plan_released(snapshot, view, node, turn(node), request.parts)
        }
        Action::StartPlanJob { job, .. } => {
            let node = observed.plan_jobs.get(job).and_then(|job| here(&job.node, None));
            let Some(node) = node else {
                return breach(3, format!("the node of Job {job} does not exist"));
            };
            plan_released(snapshot, view, node, turn(node), PlanParts::All)
        }
        Action::DeletePlanJob { job, .. } => {
            let runs = observed.plan_jobs.get(job).is_some_and(|known| {
                // What no kubelet has taken up, and none can now, does not run.
                let stays = |node: &NodeView| node.ready || !known.untouched;
                !known.paused && known.ended.is_none() && observed.nodes.get(&known.node).is_some_and(stays)
            });
            if runs {
                return breach(5, format!("Job {job} would be killed while it runs"));
            }
            Ok(())
        }
        Action::PatchNode(patch) => {
            let Some(node) = here(&patch.node, Some(&patch.uid)) else {
                return breach(3, format!("{} ({}) does not exist", patch.node, patch.uid));
            };
            plan_patch(snapshot, view, node, turn(node), patch)
        }
        Action::Evict { node: of, eviction } => {
            let Some(node) = here(of, None) else {
                return breach(3, format!("{of} does not exist"));
            };
            if let Some(why) = ledger::stop(observed, node) {
                return breach(
                    13,
                    format!("{of} would be drained while stopped: {}", why.message),
                );
            }
            if turn(node).is_none() || !node.unschedulable {
                return breach(1, format!("Pod {} would be evicted out of turn", eviction.pod));
            }
            let pod = observed.pods.get(of).and_then(|pods| pods.get(&eviction.pod));
            if pod.is_none_or(|pod| pod.uid != eviction.uid || drain::is_needed(observed, pod) || pod.mirror)
            {
                return breach(12, format!("Pod {} is not to be evicted", eviction.pod));
            }
            Ok(())
        }
        Action::CreateJob(job) => job_may_run(observed, job),
        Action::ReleaseLease { node, .. } => {
            lease_is_ours(observed, node, &holder_of(OwnerKind::Plan, &view.uid))
        }
        Action::PatchPool(patch) => breach(4, format!("pool {} is nothing to a Plan", patch.pool)),
        Action::PatchMachine(patch) => machine_patch(observed, &view.uid, patch),
        Action::AddFinalizer { .. }
        | Action::RemoveFinalizer { .. }
        | Action::DeleteChange { .. }
        | Action::RecordRun { .. }
        | Action::SetJobTtl { .. }
        | Action::MarkGate { .. }
        | Action::AcquireLease { .. }
        | Action::RenewLease { .. } => Ok(()),
    }
}

/// 2, 10 and 13: a node of a Plan is begun only where it may be.
fn plan_begins<'a>(
    snapshot: &Snapshot<'a>,
    view: &PlanView,
    node: &'a NodeView,
    in_service: bool,
    ledger: &mut Option<Ledger<'a>>,
) -> Result<(), Breach> {
    let (observed, name) = (snapshot.observed, &node.name);
    if view.deleting {
        return breach(
            5,
            format!("{name} would be begun for a Plan that is being deleted"),
        );
    }
    if let Some(why) = ledger::stop(observed, node) {
        return breach(
            13,
            format!("{name} would be admitted while stopped: {}", why.message),
        );
    }
    if let Some(why) = quorum::refusal_of_change(observed, node) {
        return breach(10, why.message.to_string());
    }
    if in_service {
        return Ok(());
    }
    let ledger = ledger.get_or_insert_with(|| Ledger::of(observed, snapshot.now));
    if let Some(why) = ledger.refusal(node) {
        return breach(
            2,
            format!("{name} would be admitted beyond a budget: {}", why.message),
        );
    }
    ledger.take(node);
    Ok(())
}

/// 1, 10 and 13: a Job begins in the node's turn, after its rules.
fn plan_released(
    snapshot: &Snapshot<'_>,
    view: &PlanView,
    node: &NodeView,
    turn: Option<&ChangeView>,
    parts: PlanParts,
) -> Result<(), Breach> {
    let (observed, name) = (snapshot.observed, &node.name);
    let Some(change) = turn else {
        return breach(1, format!("{name} has no turn"));
    };
    if let Some(why) = ledger::stop(observed, node) {
        return breach(
            13,
            format!("{name} would be upgraded while stopped: {}", why.message),
        );
    }
    if let Some(why) = quorum::refusal_of_turn(observed, node, change) {
        return breach(10, why.message.to_string());
    }
    if plan::is_gate_lost(view) {
        return breach(1, format!("{name}: the gate of its Plan is lost"));
    }
    let phases: &[Phase] = if parts == PlanParts::Prepare {
        &[Phase::Pre]
    } else {
        &[Phase::Pre, Phase::PreRelease]
    };
    plan_passed(snapshot, view, name, change, phases)
}

/// 1: each rule of a Plan has passed in these phases, and no Pass is too old.
fn plan_passed(
    snapshot: &Snapshot<'_>,
    view: &PlanView,
    name: &str,
    change: &ChangeView,
    phases: &[Phase],
) -> Result<(), Breach> {
    for (key, rule) in plan::rules_of(view, snapshot.observed) {
        let Some(rule) = rule else {
            return breach(1, format!("{name}: rule {key} does not exist"));
        };
        for phase in phases.iter().filter(|phase| rule.runs_in(**phase)) {
            let attempt = change.status.attempt.max(1);
            let last = rules::last_word(&change.status.verdicts, &key, *phase, attempt);
            fresh(name, rule, *phase, last, snapshot.now)?;
        }
    }
    Ok(())
}

/// 1 and 4: a node is cordoned in its turn, and only our own is taken off.
fn plan_patch(
    snapshot: &Snapshot<'_>,
    view: &PlanView,
    node: &NodeView,
    turn: Option<&ChangeView>,
    patch: &NodePatch,
) -> Result<(), Breach> {
    let name = &patch.node;
    let ours = |owner: Option<String>| owner.is_none_or(|owner| owner == view.uid);
    match (patch.purpose, turn) {
        (NodePurpose::Shield | NodePurpose::Cordon, None) => breach(1, format!("{name} has no turn")),
        (NodePurpose::Cordon, Some(change)) => {
            if let Some(why) = ledger::stop(snapshot.observed, node) {
                let message = format!("{name} would be cordoned while stopped: {}", why.message);
                return breach(13, message);
            }
            // The cordon is the first disruption; one that somebody took off is put back whatever the rules say by now.
            let again = mark::cordoned_by(node).is_some_and(|mark| mark.owner == view.uid);
            if again {
                return Ok(());
            }
            plan_passed(snapshot, view, name, change, &[Phase::Pre])
        }
        (NodePurpose::Uncordon, _) => {
            let uncordons = patch.unschedulable == Some(false);
            let mark = mark::cordoned_by(node);
            if uncordons
                && mark
                    .as_ref()
                    .is_none_or(|mark| mark.owner != view.uid || mark.prior)
            {
                return breach(4, format!("the cordon of {name} is not ours"));
            }
            let touches = |key: &str| patch.annotations.iter().any(|change| change.key == key);
            if touches(marks::CORDONED_BY) && !ours(mark.map(|mark| mark.owner)) {
                return breach(4, format!("the mark on {name} is not ours"));
            }
            if touches(marks::SHIELDED_BY) && !ours(mark::shielded(node).map(|mark| mark.owner)) {
                return breach(4, format!("the shield of {name} is not ours"));
            }
            Ok(())
        }
        (NodePurpose::Shield, Some(_)) => Ok(()),
        (other, _) => breach(4, format!("{name}: {other:?} is nothing to a Plan")),
    }
}

/// 1: a rule has passed, of its edition of now, and no longer ago than its Pass counts.
fn fresh(
    node: &str,
    rule: &RuleView,
    phase: Phase,
    last: Option<&VerdictRecord>,
    now: Timestamp,
) -> Result<(), Breach> {
    let (key, phase) = (&rule.key, phase.name());
    match last.filter(|verdict| verdict.outcome == Outcome::Pass) {
        None => breach(1, format!("{node}: rule {key} has not passed in phase {phase}")),
        Some(verdict) if !rules::is_fresh(rule, verdict, now) => breach(
            1,
            format!(
                "{node}: the Pass of rule {key} in phase {phase} is of {} and of edition {}, wanted one of the last {} s and of edition {}",
                verdict.ended_at.as_deref().unwrap_or(&verdict.at),
                verdict.edition.as_deref().unwrap_or("unknown"),
                rule.pass_seconds,
                rule.edition()
            ),
        ),
        Some(_) => Ok(()),
    }
}

/// 1, 4 and 13: a node is cordoned in its turn, after its rules, and only our own is taken off.
fn maintenance_patch(
    (observed, now): (&Observed, Timestamp),
    view: &MaintenanceView,
    node: &NodeView,
    patch: &NodePatch,
) -> Result<(), Breach> {
    let name = &patch.node;
    match patch.purpose {
        NodePurpose::Cordon => {
            let change = node_maintenance::changes(observed, &view.uid)
                .find(|change| change.in_flight() && change.spec.node_uid == node.uid);
            let Some(change) = change else {
                return breach(1, format!("{name} has no turn"));
            };
            if view.deleting {
                return breach(5, format!("{name} would be cordoned while it is given back"));
            }
            let again = mark::cordoned_by(node).is_some_and(|mark| mark.owner == view.uid);
            if again {
                return Ok(());
            }
            if let Some(why) = ledger::stop(observed, node) {
                return breach(
                    13,
                    format!("{name} would be cordoned while stopped: {}", why.message),
                );
            }
            if let Some(why) = quorum::refusal(observed, node) {
                return breach(10, why.message.to_string());
            }
            for (key, rule) in node_maintenance::rules_of(view, observed) {
                let Some(rule) = rule else {
                    return breach(1, format!("{name}: rule {key} does not exist"));
                };
                for phase in [Phase::Pre, Phase::PreRelease]
                    .into_iter()
                    .filter(|phase| rule.runs_in(*phase))
                {
                    let attempt = change.status.attempt.max(1);
                    let last = rules::last_word(&change.status.verdicts, &key, phase, attempt);
                    fresh(name, rule, phase, last, now)?;
                }
            }
            Ok(())
        }
        NodePurpose::Uncordon => match mark::cordoned_by(node) {
            Some(mark) if mark.owner != view.uid => breach(4, format!("the cordon of {name} is not ours")),
            _ => Ok(()),
        },
        NodePurpose::Shield => Ok(()),
        NodePurpose::Unshield => match mark::shielded(node) {
            Some(mark) if mark.owner == view.uid => Ok(()),
            _ => breach(4, format!("the shield of {name} is not ours")),
        },
        other => breach(4, format!("{name}: {other:?} is nothing to a maintenance")),
    }
}

/// 3: one Job for each attempt.
fn job_may_run(observed: &Observed, job: &JobRequest) -> Result<(), Breach> {
    let exists = observed.jobs.get(&job.job).is_some_and(|view| !view.deleting);
    if exists {
        return breach(3, format!("Job {} exists already", job.job));
    }
    let refusal = observed
        .rules
        .get(&job.rule)
        .and_then(|rule| place::refusal(rule, observed));
    match refusal {
        Some((_, message)) => breach(17, format!("Job {}: {message}", job.job)),
        None => Ok(()),
    }
}

fn node_patch(sight: &Sight<'_, '_>, patch: &NodePatch) -> Result<(), Breach> {
    let name = &patch.node;
    let uid = &sight.run.uid;
    let Some(node) = sight
        .observed
        .nodes
        .get(name)
        .filter(|node| node.uid == patch.uid)
    else {
        return breach(3, format!("{name} ({}) does not exist", patch.uid));
    };
    match patch.purpose {
        NodePurpose::Release => {
            let frame = sight.frame();
            let Some(member) = frame.members.iter().find(|member| member.node.name == *name) else {
                return breach(1, format!("{name} is not a node of this run"));
            };
            released(frame, member)
        }
        NodePurpose::Unshield => match mark::shielded(node) {
            Some(mark) if mark.owner == *uid => Ok(()),
            _ => breach(4, format!("the shield of {name} is not ours")),
        },
        NodePurpose::BringHome if node.label(marks::RELEASE).is_empty() => {
            breach(1, format!("{name} is not in the canary pool"))
        }
        NodePurpose::Unlabel if mark::labelled_by(node).is_none_or(|mark| mark.owner != *uid) => {
            breach(4, format!("the labels of {name} are not ours"))
        }
        NodePurpose::Unquarantine if !quarantine::is_quarantined(node, uid) => {
            breach(4, format!("the quarantine of {name} is not ours"))
        }
        NodePurpose::Recordon if !mark::remembers_cordon(node) => {
            breach(4, format!("no cordon of {name} is ours to put back"))
        }
        NodePurpose::Cordon | NodePurpose::Uncordon => {
            breach(4, format!("{name}: the MCO cordons the nodes of a run"))
        }
        NodePurpose::Shield
        | NodePurpose::Label
        | NodePurpose::BringHome
        | NodePurpose::Unlabel
        | NodePurpose::Recordon
        | NodePurpose::MindCordon
        | NodePurpose::Quarantine
        | NodePurpose::Unquarantine => Ok(()),
    }
}

/// 1: nothing is let go before every rule passed for this owner, node and attempt; 5 and 13.
fn released(frame: &Frame<'_>, member: &Member<'_>) -> Result<(), Breach> {
    let name = &member.node.name;
    let Some(change) = member.in_flight() else {
        return breach(1, format!("{name} has no turn"));
    };
    if change.spec.target.run_id != frame.run_id {
        return breach(1, format!("{name} has its turn in another run"));
    }
    let terms = change.status.pin.as_ref().and_then(|pin| pin.terms.as_ref());
    for (key, rule) in &InForce::of(&frame.intent, frame.observed, terms).rules {
        let Some(rule) = rule else {
            return breach(1, format!("{name}: rule {key} does not exist"));
        };
        for phase in [Phase::Pre, Phase::PreRelease]
            .into_iter()
            .filter(|phase| rule.runs_in(*phase))
        {
            let status = &change.status;
            let last = rules::last_word(&status.verdicts, key, phase, status.attempt);
            fresh(name, rule, phase, last, frame.now)?;
        }
    }
    // What the run asked once stands as it is now, however long ago that was.
    for (key, rule) in &frame.intent.rules {
        let mut verdicts = frame.run_verdicts.iter();
        let name_of_rule = key.to_string();
        let is_asked = verdicts.any(|one| one.phase == Phase::PreRun && one.rule == name_of_rule);
        let Some(rule) = rule.filter(|rule| is_asked && rule.runs_in(Phase::PreRun)) else {
            continue;
        };
        let last = rules::last_word(frame.run_verdicts, key, Phase::PreRun, frame.run_round);
        let passed = last.filter(|verdict| verdict.outcome == Outcome::Pass);
        if passed.is_none_or(|verdict| verdict.edition.as_deref() != Some(rule.edition().as_str())) {
            return breach(
                1,
                format!("{name} would be let go although PreRun rule {key} has not passed as it is now"),
            );
        }
    }
    let pin = change.status.pin.as_ref().map(|pin| pin.rendered_config.as_str());
    if pin != Some(member.pool.config.as_str()) {
        return breach(
            1,
            format!(
                "{name} is pinned to {pin:?}, its pool goes to {}",
                member.pool.config
            ),
        );
    }
    if !member.pool.paused || mark::paused_by(member.pool).is_none_or(|mark| mark.owner != frame.run.uid) {
        return breach(
            5,
            format!("pool {} of {name} is not held by this run", member.pool.name),
        );
    }
    if frame.leaving().is_some() {
        return breach(5, format!("{name} would be let go while the run is being left"));
    }
    if let Some(why) = stopped(frame, member.node) {
        return breach(
            13,
            format!("{name} would be let go while stopped: {}", why.message),
        );
    }
    if member.node.annotation(openshift::STATE) != "Done" || !member.node.ready || member.node.unschedulable {
        return breach(1, format!("{name} is not Ready, schedulable and Done"));
    }
    if frame.intent.strategy == Strategy::CanaryPool {
        return one_pool_after_release(frame, member);
    }
    Ok(())
}

/// At no moment does a node match two custom pools, or none.
fn one_pool_after_release(frame: &Frame<'_>, member: &Member<'_>) -> Result<(), Breach> {
    let Some(canary) = frame.intent.canary else {
        return breach(1, format!("{}: there is no canary pool", member.node.name));
    };
    let mut labels = member.node.labels.clone();
    labels.retain(|key, _| !key.starts_with(marks::RULE_LABEL_PREFIX));
    labels.insert(marks::RELEASE.to_owned(), frame.run_id.clone());
    let all = frame
        .observed
        .pools
        .values()
        .map(|pool| (pool.name.as_str(), &pool.selector));
    match crate::pools::home(&labels, all) {
        crate::pools::Home::Pool(name) if name == canary.name => Ok(()),
        other => breach(
            1,
            format!(
                "{} would fall into {other:?}, wanted pool {}",
                member.node.name, canary.name
            ),
        ),
    }
}

/// 4: only our own shield or pause is taken off, and nobody's who has only written that it is ours.
fn machine_patch(observed: &Observed, owner_uid: &str, patch: &MachinePatch) -> Result<(), Breach> {
    let believed = Believed::of(observed);
    let place = (patch.api, patch.key.clone());
    let is_ours = if patch.purpose.is_of_health_check() {
        believed.checks(owner_uid).any(|(found, _)| *found == place)
    } else {
        let machine = observed
            .machines
            .get(&place)
            .filter(|machine| is_marked(&machine.object.annotations, owner_uid));
        machine.is_some_and(|machine| believed.is_machine(owner_uid, &place, machine))
    };
    if patch.purpose.gives_back() && !is_ours {
        return breach(4, format!("the mark of {} is not ours", patch.key));
    }
    Ok(())
}

fn pool_patch(sight: &Sight<'_, '_>, patch: &PoolPatch) -> Result<(), Breach> {
    let name = &patch.pool;
    let Some(pool) = sight.observed.pools.get(name) else {
        return breach(4, format!("pool {name} does not exist"));
    };
    let ours = |owner: Option<String>| owner.as_deref() == Some(sight.run.uid.as_str());
    let paused_by_us = || ours(mark::paused_by(pool).map(|mark| mark.owner));
    let selected_by_us = || ours(mark::prior_selector(pool).map(|mark| mark.owner));
    match patch.purpose {
        PoolPurpose::Unpause => {
            if !paused_by_us() {
                return breach(4, format!("pool {name} was not paused by this run"));
            }
            let frame = sight.frame();
            // Of the version that is asked for nothing may be rendered yet: the nodes roll once it is.
            let will_roll = |member: &Member<'_>| {
                let desired = frame.desired.as_deref().ok();
                let rendered = frame.config_version(&member.pool.config);
                let is_behind = |desired| member.version.is_some_and(|version| version != desired);
                member.outdated() || (rendered != desired && desired.is_some_and(is_behind))
            };
            let rolls = frame
                .members
                .iter()
                .filter(|member| member.pool.name == *name && will_roll(member))
                .count();
            let stays = patch.paused.is_some_and(|(_, to)| to);
            if rolls > 0 && pool.paused && !stays && !frame.intent.unpause_on_exit {
                return breach(
                    5,
                    format!("{rolls} nodes of pool {name} would roll without rules"),
                );
            }
            Ok(())
        }
        PoolPurpose::Hold if !paused_by_us() => breach(4, format!("pool {name} was not paused by this run")),
        PoolPurpose::Unselect if !selected_by_us() => {
            breach(4, format!("the selector of pool {name} was not set by this run"))
        }
        PoolPurpose::Select if crate::pools::BUILT_IN.contains(&name.as_str()) => breach(
            4,
            format!("pool {name} is built in, its selector is not numo's to change"),
        ),
        PoolPurpose::Pause | PoolPurpose::Hold | PoolPurpose::Select | PoolPurpose::Unselect => Ok(()),
    }
}
