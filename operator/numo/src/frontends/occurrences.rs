//! What has happened to an owner, or goes on, that people are told of: from its report and its status alone, each with an id that is the
//! same after every restart. Pure; who is told, and how, is said in `mutex_notifier.rs` and `notification.rs`.
//!
//! A *moment* (a run began) has the time that a status or a journal has of it, so that what is long over is told to nobody who comes later.
//! A *state* (a node is held) is here for as long as it goes on.

use super::shortfall::SHORT;
use jiff::{SignedDuration, Timestamp};
use numo_api::{
    Condition, NodeMaintenanceStatus, PlanStatus, Reason, RunResult, RunStatus, Step, Transition,
    conditions::types, machines::NodeVersionStatus,
};
use numo_core::{Owner, names, observed::ChangeView, report::Report, text::counted, turn::journal};

/// Nodes of one owner that are told of by themselves, at most.
const NODES: usize = 64;
/// Digits of an id.
const ID: usize = 16;
/// How long before a status says that an owner has nodes to change the first of them may have begun: its journal is written before.
const BEFORE_STATUS: SignedDuration = SignedDuration::from_mins(1);
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
    /// Since when what waits for approval does (`approval::since`); none while nothing waits, or nobody knows yet.
    pub approval: Option<&'a str>,
    /// Its journals, and none that a stranger wrote.
    pub changes: &'a [&'a ChangeView],
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

    /// That nothing is left to change, of a kind whose status knows no runs.
    fn completion(&self) -> Option<Said<'a>> {
        let complete = self.condition(types::COMPLETE);
        match self {
            // A numo before has said of it no more than that it is Ready.
            Self::Version(_) => complete.or_else(|| self.condition(types::READY)),
            Self::Run(..) | Self::Plan(_) | Self::Maintenance(_) => complete,
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

impl Facts<'_> {
    /// When turns of the run began, each attempt by itself, in no order.
    fn begun(&self) -> impl Iterator<Item = Timestamp> {
        let run = self.report.run_id.as_str();
        let of_run = self
            .changes
            .iter()
            .filter(move |change| change.spec.target.run_id == run);
        of_run.flat_map(|change| {
            let admitted = change
                .status
                .entries
                .iter()
                .filter(|entry| entry.step == Step::Admitted);
            let admitted = admitted.filter_map(|entry| time(&entry.at));
            journal::begun(change).into_iter().chain(admitted)
        })
    }

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

/// A run began. Of a kind whose status does not say so: a node has its turn. Such an owner begins anew whenever it was done and has nodes to
/// change again.
fn began(facts: &Facts<'_>) -> Option<Occurrence> {
    let to = |target: Option<&str>| format!("its nodes go to {}", target.unwrap_or_default());
    match facts.status {
        Status::Run(_, run) => {
            let run = run?;
            let started = run.started_at.as_deref()?;
            let said = (Reason::Progressing.name(), to(Some(&run.target)));
            Some(facts.occurrence(Transition::RunBegan, &[&run.id], Some(started), said))
        }
        Status::Plan(status) => {
            let hash = status.latest_hash.as_deref().filter(|hash| !hash.is_empty())?;
            let target = to(status.latest_version.as_deref());
            began_anew(facts, (hash, facts.status.completion()?), &target)
        }
        Status::Maintenance(_) => {
            let mut nodes = facts.report.nodes.iter();
            let (name, node) = nodes.find(|(_, node)| node.in_flight())?;
            let said = (Reason::Progressing.name(), format!("Node {name} has its turn"));
            let first = facts.begun().min();
            let mut began = facts.occurrence(Transition::RunBegan, &[], node.since.as_deref(), said);
            began.at = first.or(began.at);
            Some(began)
        }
        Status::Version(_) => {
            let run = facts.report.run_id.as_str();
            let target = to(facts.report.target.as_deref());
            began_anew(facts, (run, facts.status.completion()?), &target)
        }
    }
}

/// The first turn since the owner was not done any more, as this condition says. Its time is that of this turn: whichever node is in flight
/// now may have begun days later.
fn began_anew(facts: &Facts<'_>, (run, done): (&str, Said<'_>), target: &str) -> Option<Occurrence> {
    if done.is_true {
        return None;
    }
    let flying = facts.report.nodes.iter().filter(|(_, node)| node.in_flight());
    let (name, node) = flying.min_by_key(|(_, node)| node.since.clone())?;
    let said = (Reason::Progressing.name(), format!("{target}, Node {name} first"));
    let edition = [run, done.since];
    let mut began = facts.occurrence(Transition::RunBegan, &edition, node.since.as_deref(), said);
    let since = time(done.since).and_then(|since| since.checked_sub(BEFORE_STATUS).ok());
    let is_of_this = |at: &Timestamp| since.is_none_or(|since| *at >= since);
    began.at = facts.begun().filter(is_of_this).min().or(began.at);
    Some(began)
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
/// once more when an approval of it has expired or was withdrawn.
fn approval(facts: &Facts<'_>) -> Option<Occurrence> {
    let report = facts.report;
    let waits = report.approval.as_ref()?;
    let since = facts.approval?;
    let said = (waits.why.reason.name(), waits.why.message.to_string());
    let transition = Transition::WaitsForApproval;
    let point = waits.point.to_string();
    let edition = [report.run_id.as_str(), &point, &waits.digest, said.0, since];
    // What is no time is none.
    Some(facts.occurrence(transition, &edition, Some(since), said))
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

/// When an owner had its last success, if it is done now, though none of its nodes had to change. A run that was left is none, and neither
/// is one that left nodes out or changed some without their rules, until a person has acknowledged that.
pub fn succeeded(facts: &Facts<'_>) -> Option<Timestamp> {
    let Over { since, said, .. } = over(facts)?;
    let is_short = SHORT.iter().any(|reason| reason.name() == said.0);
    match facts.status {
        Status::Run(_, Some(run)) if run.result == Some(RunResult::Aborted) => None,
        _ if is_short => None,
        Status::Run(..) | Status::Plan(_) | Status::Maintenance(_) | Status::Version(_) => {
            since.and_then(time)
        }
    }
}

/// Since when an owner of a kind whose status knows no runs has nodes to change; none once it is done. To be remembered until then: what
/// comes after that is another run of the same id, and a status that is True does not say when it was False.
pub fn behind_since(facts: &Facts<'_>) -> Option<Timestamp> {
    let done = facts.status.completion().filter(|done| !done.is_true)?;
    time(done.since)
}

/// When the run that ended well had begun: a MutexRunConfig says so, and for other kinds their first turn since they had nodes to change
/// (`behind`) does. Nobody knows of a run of those that was over before this process looked.
pub fn began_at(facts: &Facts<'_>, behind: Option<Timestamp>) -> Option<Timestamp> {
    match facts.status {
        Status::Run(_, run) => run?.started_at.as_deref().and_then(time),
        Status::Maintenance(_) => facts.begun().min(),
        Status::Plan(_) | Status::Version(_) => {
            let since = behind?.checked_sub(BEFORE_STATUS).ok()?;
            facts.begun().filter(|at| *at >= since).min()
        }
    }
}

/// That an owner is done.
struct Over<'a> {
    /// Which run of it.
    run: &'a str,
    since: Option<&'a str>,
    said: (&'a str, String),
}

fn over<'a>(facts: &Facts<'a>) -> Option<Over<'a>> {
    let ready = facts.status.condition(types::READY)?;
    let is_any = !facts.report.nodes.is_empty();
    let said = (ready.reason, ready.message.to_owned());
    let of = |run: &'a str, since: &'a str| {
        Some(Over {
            run,
            since: Some(since),
            said,
        })
    };
    let complete = || facts.status.completion().filter(|one| one.is_true && is_any);
    match facts.status {
        Status::Run(_, run) => {
            let run = run?;
            let (at, result) = (run.finished_at.as_deref()?, run.result?);
            let mut over = of(&run.id, at)?;
            if result == RunResult::Aborted {
                over.said = ("Aborted", "the run was left before it was over".to_owned());
            }
            Some(over)
        }
        Status::Plan(status) => {
            let hash = status.latest_hash.as_deref().filter(|hash| !hash.is_empty())?;
            of(hash, complete()?.since)
        }
        Status::Maintenance(status) => {
            let is_over = status.phase.as_deref() == Some("Succeeded") && ready.is_true;
            is_over.then(|| of("", ready.since))?
        }
        Status::Version(_) => of(&facts.report.run_id, complete()?.since),
    }
}

/// It is over, however it ended: the reason says how. Of a kind whose status knows no runs: once for the turns that it had, however often
/// nodes come that have nothing to change.
fn finished(facts: &Facts<'_>) -> Option<Occurrence> {
    let Over { run, since, said } = over(facts)?;
    let last = match facts.status {
        Status::Run(..) | Status::Maintenance(_) => None,
        Status::Plan(_) | Status::Version(_) => Some(facts.begun().max()?.to_string()),
    };
    let mut edition = vec![run];
    edition.retain(|run| !run.is_empty());
    edition.push(last.as_deref().or(since).unwrap_or_default());
    Some(facts.occurrence(Transition::Finished, &edition, since, said))
}

#[cfg(test)]
mod tests;
