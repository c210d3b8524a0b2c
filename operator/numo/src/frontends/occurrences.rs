//! What has happened to an owner, or goes on, that people are told of: from its report and its status alone, each with an id that is the
//! same after every restart. Pure; who is told, and how, is said in `mutex_notifier.rs` and `notification.rs`.
//!
//! A *moment* (a run began) has the time that a status or a journal has of it, so that what is long over is told to nobody who comes later.
//! A *state* (a node is held) is here for as long as it goes on.

use jiff::Timestamp;
use numo_api::{
    ApprovalStatus, Condition, NodeMaintenanceStatus, PlanStatus, Reason, RunResult, RunStatus, Step,
    Transition, conditions::types, machines::NodeVersionStatus,
};
use numo_core::{Owner, names, observed::Observed, report::Report, text::counted};

/// Nodes of one owner that are told of by themselves, at most.
const NODES: usize = 64;
/// Digits of an id.
const ID: usize = 16;
/// Reasons for which an owner is stalled because a person wants it to be.
const WANTED: [Reason; 3] = [Reason::Suspended, Reason::Stopped, Reason::DryRun];

/// One thing that has happened to an owner, or goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The same after every restart; another for each time that it happens.
    pub id: String,
    /// What it is.
    pub transition: Transition,
    /// When it happened or began; none if nothing that outlives this process says so.
    pub at: Option<Timestamp>,
    /// The node, if it is of one.
    pub node: Option<String>,
    /// Why.
    pub reason: String,
    /// In a sentence.
    pub message: String,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The owner.
    pub owner: &'a Owner,
    /// Its uid.
    pub uid: &'a str,
    /// What was decided.
    pub report: &'a Report,
    /// Its status as it is stored.
    pub status: Status<'a>,
    /// What of it waits for approval, as it is stored.
    pub approval: Option<&'a ApprovalStatus>,
}

/// The status of an owner.
#[derive(Clone, Copy, Debug)]
pub enum Status<'a> {
    /// Of a MutexRunConfig: its conditions and its last run.
    Run(&'a [Condition], Option<&'a RunStatus>),
    /// Of a Plan.
    Plan(&'a PlanStatus),
    /// Of a NodeMaintenance.
    Maintenance(&'a NodeMaintenanceStatus),
    /// Of a NodeVersion.
    Version(&'a NodeVersionStatus),
}

/// What matters of a condition.
struct Said<'a> {
    is_true: bool,
    reason: &'a str,
    message: &'a str,
    since: &'a str,
}

impl<'a> Status<'a> {
    fn condition(&self, type_: &str) -> Option<Said<'a>> {
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        let of = |all: &'a [Condition]| {
            let one = all.iter().find(|one| one.type_ == type_)?;
            Some(Said {
                is_true: one.status == "True",
                reason: text(&one.reason),
                message: text(&one.message),
                since: text(&one.last_transition_time),
            })
        };
        match *self {
            Self::Run(all, _) => of(all),
            Self::Maintenance(status) => of(&status.conditions),
            Self::Version(status) => of(&status.conditions),
            Self::Plan(status) => {
                let mut all = status.conditions.iter().flatten();
                let one = all.find(|one| one.type_ == type_)?;
                Some(Said {
                    is_true: one.status == "True",
                    reason: text(&one.reason),
                    message: text(&one.message),
                    since: text(&one.last_transition_time),
                })
            }
        }
    }

    /// The condition, if it is True.
    fn holds(&self, type_: &str) -> Option<Said<'a>> {
        self.condition(type_).filter(|one| one.is_true)
    }
}

/// Everything that has happened to an owner in its last run, and that goes on.
pub fn occurrences(facts: &Facts<'_>) -> Vec<Occurrence> {
    let mut all = Vec::new();
    all.extend(began(facts));
    all.extend(waves(facts));
    all.extend(approval(facts));
    all.extend(nodes(facts, Step::Held, Transition::Held));
    all.extend(failed(facts));
    all.extend(stalled(facts));
    all.extend(left_paused(facts));
    all.extend(finished(facts));
    all
}

/// The same. Of a kind whose status does not say when its run began, the time is that of its first turn: whichever node is in flight
/// now may have begun days later.
pub fn occurrences_of(facts: &Facts<'_>, observed: &Observed) -> Vec<Occurrence> {
    let mut all = occurrences(facts);
    let of_run = all.iter_mut().find(|one| one.transition == Transition::RunBegan);
    if let Some(one) = of_run
        && let Some(at) = began_at(facts, observed)
    {
        one.at = Some(at);
    }
    all
}

impl Facts<'_> {
    fn occurrence(
        &self,
        transition: Transition,
        edition: &[&str],
        at: Option<&str>,
        (reason, message): (&str, String),
    ) -> Occurrence {
        let mut parts = vec!["notification", self.uid, transition.name()];
        parts.extend(edition);
        Occurrence {
            id: names::hash(&parts, ID),
            transition,
            at: at.and_then(time),
            node: None,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// A time as statuses and journals have it.
pub(super) fn time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// A run began. Of a Plan or a maintenance: a node has its turn, or had it.
fn began(facts: &Facts<'_>) -> Option<Occurrence> {
    let transition = Transition::RunBegan;
    let progressing = Reason::Progressing.name();
    let to = |target: &str| format!("its nodes go to {target}");
    match facts.status {
        Status::Run(_, run) => {
            let run = run?;
            let started = run.started_at.as_deref()?;
            let said = (progressing, to(&run.target));
            Some(facts.occurrence(transition, &[&run.id], Some(started), said))
        }
        Status::Plan(status) => {
            let hash = status.latest_hash.as_deref().filter(|hash| !hash.is_empty())?;
            let begun = facts.report.nodes.iter().filter(|(_, node)| node.in_flight());
            let (name, node) = begun.min_by_key(|(_, node)| node.since.clone())?;
            let target = status.latest_version.as_deref().unwrap_or_default();
            let said = (progressing, format!("{}, Node {name} first", to(target)));
            Some(facts.occurrence(transition, &[hash], node.since.as_deref(), said))
        }
        Status::Maintenance(_) => {
            let mut nodes = facts.report.nodes.iter();
            let (name, node) = nodes.find(|(_, node)| node.in_flight())?;
            let said = (progressing, format!("Node {name} has its turn"));
            Some(facts.occurrence(transition, &[], node.since.as_deref(), said))
        }
        Status::Version(_) => {
            let begun = facts.report.nodes.iter().filter(|(_, node)| node.in_flight());
            let (name, node) = begun.min_by_key(|(_, node)| node.since.clone())?;
            let target = facts.report.target.as_deref().unwrap_or_default();
            let said = (progressing, format!("{}, Node {name} first", to(target)));
            let run = facts.report.run_id.as_str();
            Some(facts.occurrence(transition, &[run], node.since.as_deref(), said))
        }
    }
}

fn waves(facts: &Facts<'_>) -> Vec<Occurrence> {
    let run = facts.report.run_id.as_str();
    let run = match facts.status {
        Status::Plan(status) => status.latest_hash.as_deref().unwrap_or(run),
        Status::Run(..) | Status::Maintenance(_) | Status::Version(_) => run,
    };
    let over = facts.report.waves_over.iter().map(|wave| {
        let name = wave.name.as_ref();
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        let message = format!(
            "wave {}{name}: {} of {} done",
            wave.number,
            wave.done,
            counted(wave.nodes, "node")
        );
        let (number, at) = (wave.number.to_string(), wave.at.to_string());
        facts.occurrence(
            Transition::WaveDone,
            &[run, &number],
            Some(&at),
            (Reason::Done.name(), message),
        )
    });
    over.collect()
}

/// A person must approve: as soon as that can be done, whatever else its nodes wait for. Once for each thing that is to be approved, and
/// once more when an approval of it has expired. Where numo's own kinds store since when it waits, also when one was withdrawn: the
/// definitions that others have of Plans and NodeMaintenances may not store that.
fn approval(facts: &Facts<'_>) -> Option<Occurrence> {
    let report = facts.report;
    let waits = report.approval.as_ref()?;
    let since = match facts.status {
        Status::Run(..) | Status::Version(_) => {
            let stored = facts.approval.filter(|stored| stored.digest == waits.digest)?;
            stored.since.as_str()
        }
        Status::Plan(_) | Status::Maintenance(_) => "",
    };
    let said = (waits.why.reason.name(), waits.why.message.to_string());
    let transition = Transition::WaitsForApproval;
    let point = waits.point.to_string();
    let edition = [report.run_id.as_str(), &point, &waits.digest, said.0, since];
    Some(facts.occurrence(transition, &edition, None, said))
}

/// Nodes that are at a step.
fn nodes(facts: &Facts<'_>, step: Step, transition: Transition) -> Vec<Occurrence> {
    let nodes = facts.report.nodes.iter().filter(|(_, node)| node.step == step);
    let nodes = nodes.take(NODES).map(|(name, node)| {
        let since = node.since.as_deref();
        let message = format!("Node {name}: {}", node.why.message);
        let said = (node.why.reason.name(), message);
        Occurrence {
            node: Some(name.clone()),
            ..facts.occurrence(transition, &[name, since.unwrap_or_default()], since, said)
        }
    });
    nodes.collect()
}

/// Nodes that failed. A maintenance fails as a whole, with its only node; one whose node is left out has not failed.
fn failed(facts: &Facts<'_>) -> Vec<Occurrence> {
    if let Status::Maintenance(status) = facts.status {
        return maintenance_failed(facts, status).into_iter().collect();
    }
    nodes(facts, Step::Failed, Transition::Failed)
}

fn maintenance_failed(facts: &Facts<'_>, status: &NodeMaintenanceStatus) -> Option<Occurrence> {
    let ready = facts.status.condition(types::READY)?;
    let mut nodes = facts.report.nodes.values();
    let is_left_out = nodes.any(|node| node.step == Step::Skipped);
    let is_failed = status.phase.as_deref() == Some("Failed") && !is_left_out;
    let said = (ready.reason, ready.message.to_owned());
    is_failed.then(|| facts.occurrence(Transition::Failed, &[ready.since], Some(ready.since), said))
}

fn stalled(facts: &Facts<'_>) -> Option<Occurrence> {
    let stalled = facts.status.holds(types::STALLED)?;
    if WANTED.iter().any(|reason| reason.name() == stalled.reason) {
        return None;
    }
    let said = (stalled.reason, stalled.message.to_owned());
    // Who has ended one reason must hear of the next.
    let edition = [stalled.since, stalled.reason];
    Some(facts.occurrence(Transition::Stalled, &edition, Some(stalled.since), said))
}

fn left_paused(facts: &Facts<'_>) -> Option<Occurrence> {
    let held = facts.status.holds(types::POOL_HELD)?;
    let said = (held.reason, held.message.to_owned());
    let transition = Transition::PoolLeftPaused;
    Some(facts.occurrence(transition, &[held.since], Some(held.since), said))
}

/// When an owner was done, if it is now, whatever nodes it left out. A run that was left is not done.
pub fn succeeded(facts: &Facts<'_>) -> Option<Timestamp> {
    let is_left = |run: &RunStatus| run.result == Some(RunResult::Aborted);
    match facts.status {
        Status::Run(_, Some(run)) if is_left(run) => None,
        Status::Run(..) | Status::Plan(_) | Status::Maintenance(_) | Status::Version(_) => {
            finished(facts)?.at
        }
    }
}

/// When the run that ended well had begun: a MutexRunConfig says so, and for other kinds their first turn of it does.
pub fn began_at(facts: &Facts<'_>, observed: &Observed) -> Option<Timestamp> {
    if let Status::Run(_, run) = facts.status {
        return run?.started_at.as_deref().and_then(time);
    }
    let run_id = facts.report.run_id.as_str();
    let changes = observed
        .changes
        .values()
        .filter(|change| change.spec.owner_ref.uid == facts.uid && change.spec.target.run_id == run_id);
    changes
        .filter_map(|change| time(&change.status.entries.first()?.at))
        .min()
}

/// It is over, however it ended: the reason says how.
fn finished(facts: &Facts<'_>) -> Option<Occurrence> {
    let ready = facts.status.condition(types::READY)?;
    let said = (ready.reason, ready.message.to_owned());
    let transition = Transition::Finished;
    match facts.status {
        Status::Run(_, run) => {
            let run = run?;
            let (at, result) = (run.finished_at.as_deref()?, run.result?);
            let said = match result {
                RunResult::Aborted => ("Aborted", "the run was left before it was over".to_owned()),
                RunResult::Succeeded | RunResult::SucceededWithSkips | RunResult::SucceededUngated => said,
            };
            Some(facts.occurrence(transition, &[&run.id, at], Some(at), said))
        }
        Status::Plan(status) => {
            let complete = facts.status.holds(types::COMPLETE)?;
            let hash = status.latest_hash.as_deref().filter(|hash| !hash.is_empty())?;
            let is_any = !facts.report.nodes.is_empty();
            is_any.then(|| facts.occurrence(transition, &[hash, complete.since], Some(complete.since), said))
        }
        Status::Maintenance(status) => {
            let is_over = status.phase.as_deref() == Some("Succeeded") && ready.is_true;
            is_over.then(|| facts.occurrence(transition, &[ready.since], Some(ready.since), said))
        }
        Status::Version(_) => {
            let is_any = !facts.report.nodes.is_empty();
            let edition = [facts.report.run_id.as_str(), ready.since];
            (ready.is_true && is_any).then(|| facts.occurrence(transition, &edition, Some(ready.since), said))
        }
    }
}

#[cfg(test)]
mod tests;
