//! What people are told while nothing happens: whoever waits is told why, by a reason that is true, and that somebody can
//! end.

use super::{SILENT_SECONDS, Simulation};
use crate::judge;
use numo_api::{Reason, Step, conditions::Actor};
use numo_core::{
    Owner, OwnerKind,
    report::{NodeReport, Report, RunPhase},
};

impl Simulation {
    /// Ten minutes without a write but leases: whoever has nodes that are behind says who can end that.
    pub(super) fn not_silent(&mut self) -> Result<(), String> {
        let now = self.world.now;
        let sees_all = self.listed && now >= self.down_until && self.view.next().is_none();
        if !sees_all || self.is_at_work() {
            self.last_write = now;
        }
        if now - self.last_write < SILENT_SECONDS {
            return Ok(());
        }
        for (owner, report) in &self.reports {
            if self.world.truth.uid_of(owner).is_some() {
                self.stalled(owner, report)?;
            }
        }
        self.judge.leases_have_turns(&self.world)?;
        self.judge.silent(&self.world)
    }

    /// Whether a machine changes, which has its time for that even if it never comes back, or a rule's Job runs: the next write comes by
    /// itself.
    fn is_at_work(&self) -> bool {
        let machines = self.world.machines.iter();
        let mut changing = machines.filter(|(name, machine)| {
            let node = self.world.truth.nodes.get(*name);
            !machine.is_idle() && !machine.drain_blocked && node.is_some()
        });
        let has_time = |node: &NodeReport| node.why.reason == Reason::Changing;
        let mut reports = self.reports.values();
        let truth = &self.world.truth;
        let mut upgrading = truth
            .plan_jobs
            .values()
            .filter(|job| job.ended.is_none() || job.deleting.is_some());
        let now = self.world.time().as_second();
        // A pod that ends has its time for that, and ten minutes more.
        let ends = |at: jiff::Timestamp| at.as_second() + SILENT_SECONDS >= now;
        let mut pods = truth.pods.values().flat_map(|pods| pods.values());
        let mut cloud = self.world.cloud.iter();
        changing.next().is_some()
            || cloud.any(|cloud| cloud.is_at_work(self.world.now))
            || upgrading.next().is_some()
            || pods.any(|pod| pod.deleting.is_some_and(ends))
            || self.world.truth.jobs.values().any(|job| job.ended.is_none())
            || !self.asked.is_empty()
            || reports.any(|report| report.nodes.values().any(has_time))
    }

    /// A run with nodes that are behind, while nothing is at work, is Stalled, or waits for somebody else than a person and says
    /// so; and nobody is told to wait for nodes in flight when there are none.
    fn stalled(&self, owner: &Owner, report: &Report) -> Result<(), String> {
        if self.is_at_work() {
            return Ok(());
        }
        let open = || {
            let nodes = report.nodes.values();
            nodes.filter(|node| !node.step.is_terminal())
        };
        // Whoever waits for another run is told so, and that one says what is to be done.
        let by_other_run = || {
            let waits = report.hold.iter().chain(open().map(|node| &node.why));
            let mut others = self.reports.iter().filter(|(other, _)| *other != owner);
            waits
                .into_iter()
                .any(|why| matches!(why.who(), Actor::OtherRun | Actor::OtherPlan))
                && others.any(|(other, of_other)| {
                    // The clock ends what the other one waits for.
                    let by_clock = of_other.hold.as_ref().is_some_and(|why| why.until.is_some());
                    is_stalled(other.kind, of_other)
                        || by_clock
                        || matches!(of_other.phase, RunPhase::Active | RunPhase::Leaving)
                })
        };
        let ends = report.hold.iter().chain(open().map(|node| &node.why));
        // Whoever waits for a place that others keep is told so, and one of those is Stalled.
        let by_other_turn = || {
            let mut others = self.reports.iter().filter(|(other, _)| *other != owner);
            open().any(|node| node.why.who() == Actor::OtherNode)
                && others.any(|(other, of_other)| {
                    // The clock ends what the other one waits for, or somebody who is no person.
                    let by_itself = of_other.hold.as_ref().is_some_and(|why| {
                        why.until.is_some()
                            || matches!(why.who(), Actor::ClusterItself | Actor::OtherController)
                    });
                    // Or a node in flight does, whose machine is to join until then.
                    let flies = |node: &NodeReport| node.in_flight() && node.why.until.is_some();
                    is_stalled(other.kind, of_other)
                        || by_itself
                        || of_other.nodes.values().any(flies)
                        || Self::says_what_keeps(report, other, of_other)
                })
        };
        let of_others = by_other_run()
            || by_other_turn()
            || report
                .hold
                .as_ref()
                .is_some_and(|hold| matches!(hold.who(), Actor::ClusterItself | Actor::OtherController))
            || open().any(|node| node.why.who() == Actor::OtherController || is_going(node));
        let by_clock = ends.into_iter().any(|why| why.until.is_some());
        let is_behind = report.phase == RunPhase::Active && open().next().is_some();
        let is_new = || {
            let behind = report.nodes.iter().filter(|(_, node)| !node.step.is_terminal());
            behind
                .into_iter()
                .any(|(name, node)| node.why.reason == Reason::RuleWaits && self.was_just_asked(name))
        };
        if is_behind && !is_stalled(owner.kind, report) && !of_others && !by_clock && !is_new() {
            let others = self.reports.iter().filter(|(other, _)| *other != owner);
            let others: Vec<String> = others
                .map(|(other, report)| format!("{other} is {:?}: {:?}", report.phase, report.hold))
                .collect();
            return Err(format!(
                "nothing was written for {} s, nodes of {owner} are behind and it is not Stalled: {report:#?}, {others:#?}",
                self.world.now - self.last_write
            ));
        }
        let mut changes = self.world.truth.changes.values();
        let turns = changes.any(|change| change.in_flight() && change.status.step != Some(Step::Held));
        let ungated = open().any(|node| node.why.reason == Reason::Ungated);
        // Whoever waits for nodes that go before it waits for what keeps those: one of them is told that.
        let by_order = open().any(|node| !node.why.reason.is_of_order()) || self.is_ordered(owner);
        let by_first = open().any(|node| node.why.who() != Actor::OtherNode);
        let is_in_order = |node: &NodeReport| {
            let reason = node.why.reason;
            by_order && reason.is_of_order() || by_first && reason == Reason::ControlPlaneFirst
        };
        let waits = |node: &&NodeReport| {
            node.why.who() == Actor::OtherNode && !Self::is_behind_another(report, node) && !is_in_order(node)
        };
        match open().find(waits) {
            Some(node) if !turns && !ungated => Err(format!(
                "nobody of {owner} is in flight, and a node is told to wait for that: {}: {} (all: {:?})",
                node.why.reason,
                node.why.message,
                report
                    .nodes
                    .iter()
                    .map(|(name, node)| (name, node.step, node.why.reason))
                    .collect::<Vec<_>>()
            )),
            _ => Ok(()),
        }
    }

    /// Whether somebody waits for a node in flight of another owner and names both, and that node says what a person is to do. The other owner
    /// need not be Stalled: others of its nodes may go on by themselves.
    fn says_what_keeps(report: &Report, other: &Owner, of_other: &Report) -> bool {
        let owner = other.to_string();
        let waits = report.nodes.values().filter(|node| !node.step.is_terminal());
        let names = |message: &str, node: &str| {
            let mut words =
                message.split(|letter: char| !(letter.is_alphanumeric() || "-.".contains(letter)));
            message.contains(&owner) && words.any(|word| word == node)
        };
        let said = waits.filter(|node| node.why.who() == Actor::OtherNode);
        let said: Vec<&str> = said.map(|node| &*node.why.message).collect();
        let mut flying = of_other.nodes.iter().filter(|(_, node)| node.in_flight());
        flying.any(|(name, node)| {
            node.why.who() == Actor::ClusterAdmin && said.iter().any(|message| names(message, name))
        })
    }

    /// Whether a node waits for another of its owner that it names, which has no turn and waits for somebody else.
    fn is_behind_another(report: &Report, node: &NodeReport) -> bool {
        let mut others = report.nodes.iter();
        others.any(|(name, other)| {
            let is_named = node.why.message.ends_with(&format!(": Node {name} goes first"));
            is_named && !other.step.is_terminal() && other.why.who() != Actor::OtherNode
        })
    }

    /// Whether there is a NodeMaintenance beside this one that waits for something else than others of its kind.
    fn is_ordered(&self, owner: &Owner) -> bool {
        let is_maintenance = |owner: &Owner| matches!(owner.kind, OwnerKind::NodeMaintenance(_));
        let others = self
            .reports
            .iter()
            .filter(|(other, _)| *other != owner && is_maintenance(other));
        let mut waits = others.flat_map(|(_, report)| report.nodes.values());
        let ends = |node: &NodeReport| !node.step.is_terminal() && !node.why.reason.is_of_order();
        is_maintenance(owner) && waits.any(ends)
    }

    /// Whether a rule said its first word of the node a short while ago: nobody is stuck yet.
    fn was_just_asked(&self, node: &str) -> bool {
        let uid = self.world.truth.nodes.get(node).map(|node| &node.uid);
        let words = self.world.answered.iter();
        let mut ages = words
            .filter(|one| Some(&one.node_uid) == uid)
            .map(|one| self.world.now - one.at);
        let is_asked = ages.clone().any(|age| age < SILENT_SECONDS);
        is_asked && !ages.any(|age| (SILENT_SECONDS..2 * SILENT_SECONDS).contains(&age))
    }

    /// At rest, whoever is not done waits for a reason that is true and that someone can end.
    pub(super) fn legitimate(&self) -> Result<(), String> {
        for (owner, report) in &self.reports {
            if self.world.truth.uid_of(owner).is_none() {
                continue;
            }
            self.stalled(owner, report)?;
            for (name, node) in &report.nodes {
                let Some(view) = self.world.truth.nodes.get(name) else {
                    continue;
                };
                let machine = self.world.machines.get(name);
                let someone = report.in_flight() > 0
                    || report
                        .nodes
                        .values()
                        .any(|other| other.why.reason == Reason::Ungated);
                let holds = match node.why.reason {
                    Reason::NodeNotReady | Reason::Draining => !view.ready,
                    Reason::CordonedByOther => view.unschedulable,
                    Reason::WaitingForTurn | Reason::MutexKeyBusy => {
                        someone
                            || node.why.who() == Actor::ClusterAdmin
                            || Self::is_behind_another(report, node)
                    }
                    Reason::WaitsForApproval | Reason::ApprovalExpired => self.world.has_to_speak(owner),
                    // A Job that does not end is a person's to delete.
                    Reason::RuleRunning if node.why.who() == Actor::ClusterAdmin => {
                        let of = [numo_core::names::node_hash(name), numo_core::names::node_hash("")];
                        let mut jobs = self.world.truth.jobs.values();
                        jobs.any(|job| job.ended.is_none() && of.contains(&job.node))
                    }
                    Reason::NodeLeaseHeld => self.world.truth.leases.contains_key(name),
                    Reason::DrainBlocked => {
                        machine.is_some_and(|machine| machine.drain_blocked)
                            || self.world.blocked(name, None).is_some()
                            || !view.ready
                    }
                    Reason::Changing | Reason::ComingHome | Reason::Ungated | Reason::NodeNotDone => {
                        machine.is_some_and(|machine| !machine.is_idle())
                    }
                    Reason::OutsideWindow | Reason::Frozen | Reason::StartsLater => {
                        let plan = self.world.truth.plans.get(&owner.key);
                        let now = self.world.time().as_second();
                        plan.is_some_and(|plan| plan.spec.window.is_some())
                            || judge::hours::closed(&self.world.truth, owner, now).is_some()
                            || judge::hours::windows_closed(&self.world.truth, view, now).is_some()
                    }
                    Reason::PoolsPausing
                    | Reason::Admitting
                    | Reason::PlanStarting
                    | Reason::RuleStarting
                    | Reason::RuleRunning
                    | Reason::ConfigChanged
                    | Reason::Soaking
                    | Reason::Restoring
                    | Reason::Progressing
                    | Reason::Upgrading
                    | Reason::UpgradeStarting
                    | Reason::Prepared
                    | Reason::JobBeingDeleted
                    | Reason::Rebooted
                    | Reason::CompleteDelay
                    | Reason::PoolNotRendered
                    | Reason::ControlPlaneUpdating
                    | Reason::InvariantBreach => false,
                    _ => true,
                };
                if !holds {
                    let all = report.nodes.iter();
                    let all =
                        all.map(|(name, node)| format!("{name} {} {}", node.step.name(), node.why.reason));
                    return Err(format!(
                        "at rest, {name} of {owner} waits: {} {}: {} (all: {})",
                        node.step.name(),
                        node.why.reason,
                        node.why.message,
                        all.collect::<Vec<_>>().join(", ")
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether somebody is about to take the node away, which ends the wait for it.
fn is_going(node: &NodeReport) -> bool {
    node.why.reason == Reason::NodeLeaving && node.why.who() == Actor::ClusterItself
}

/// Whether the owner says that a person must act, as its condition Stalled has it: what holds the owner comes before what its
/// nodes say.
pub(super) fn is_stalled(kind: OwnerKind, report: &Report) -> bool {
    let person = |who| matches!(who, Actor::ClusterAdmin | Actor::Approver | Actor::RuleAuthor);
    match (kind, &report.hold) {
        (OwnerKind::MutexRunConfig, Some(hold)) => person(hold.who()),
        (OwnerKind::MutexRunConfig, None) => report.wedged().is_some(),
        (OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion, hold) => {
            hold.as_ref()
                .is_some_and(|hold| hold.who() == Actor::ClusterAdmin)
                || report.wedged().is_some()
        }
        (OwnerKind::Plan, hold) => {
            let by_person = hold.as_ref().is_some_and(|hold| person(hold.who()));
            let held = report.nodes.values().find(|node| node.step == Step::Held);
            let by_held = held.is_some_and(|node| person(node.why.who()));
            let may_be_stuck = hold.is_none() || report.in_flight() > 0;
            by_person || by_held || (may_be_stuck && report.wedged().is_some())
        }
    }
}
