//! What keeps nodes of a Plan from their turns, of the Plan and of each node, and how a turn begins.

use super::{edge, leave, pass::Pass, told, upgrade};
use crate::{
    admit::{
        gates::{self, when},
        waves::Waves,
    },
    failures, intent, names,
    observed::{ChangeView, NodeView, PlanJobView},
    own_gate,
    owner::OwnerKind,
    time::later,
    turn::{
        directive, journal, lease,
        node::{Next, ON, STAY},
    },
    why::Why,
};
use numo_api::{Order, Reason, Step, conditions::Actor};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// How old a Plan is before its first node is begun (seconds): what is made in one breath with it may be seen after it.
pub(super) const SETTLED_SECONDS: i64 = 2;

impl<'a> Pass<'a> {
    /// What is made in one breath with a Plan may be seen after it.
    pub(super) fn unsettled(&self) -> Option<Why> {
        let settled = later(self.view.created, SETTLED_SECONDS);
        (self.now < settled && self.flying.is_empty() && self.over.is_empty()).then(|| {
            let message = format!(
                "the Plan is new: MutexBindings that are made together with it are waited for, for {SETTLED_SECONDS} s"
            );
            Why::new(Reason::PlanStarting, message).until(settled)
        })
    }

    /// Why no node is begun at all, worst first.
    pub(super) fn holds<'h>(&'h self, waves: &'h Waves<'_>) -> impl Iterator<Item = Why> + 'h {
        let of_owner = move || gates::of_owner(self.problem(true), self.intent.suspended.as_ref());
        let leaving = self.leaving.iter().cloned();
        leaving
            .chain(std::iter::once_with(of_owner).flatten())
            .chain(when(move || journal::aborted(&self.flying)))
            .chain(when(move || self.failures_spent()))
            .chain(when(move || waves.failures_spent()))
            .chain(when(move || {
                edge::waits(self.view, self.observed, &self.resolved.version)
            }))
            // Who leaves waits for nothing else.
            .take(if self.leaving.is_some() { 1 } else { usize::MAX })
    }

    /// What is wrong with the Plan, its rules or its bindings, and what of it is not known. Which nodes it means, and what they are
    /// labelled with, matters only where nodes `begins`.
    pub(super) fn problem(&self, begins: bool) -> Option<Why> {
        let invalid = self.intent.invalid.as_ref().map(|problem| {
            let reason = if self.in_cycle {
                Reason::PlanCycle
            } else {
                Reason::InvalidField
            };
            Why::new(reason, problem.clone())
        });
        let of_nodes = || {
            let selector = self.intent.of_selector.clone().filter(|_| begins);
            let problem = selector.or_else(|| self.wrong_labels().filter(|_| begins))?;
            Some(Why::new(Reason::InvalidField, problem))
        };
        invalid
            .or_else(|| self.intent.of_secrets.clone())
            .or_else(|| self.unresolved())
            .or_else(of_nodes)
            .or_else(|| self.intent.of_gates.clone())
            .or_else(|| self.gate_lost())
    }

    /// The nodes that have failed in this upgrade, as a failure budget counts them.
    pub(super) fn failed_turns(&self) -> Vec<&'a ChangeView> {
        let current = self.flying.iter().chain(&self.over).copied();
        let current = current.filter(|change| change.spec.target.run_id == self.run_id);
        failures::failed(self.observed, current)
    }

    /// Whether as many nodes have failed as may.
    fn failures_spent(&self) -> Option<Why> {
        if self.intent.failure_budgets.is_empty() {
            return None;
        }
        let nodes = self.observed.nodes.values();
        let selected = nodes.filter(|node| self.selects(node)).count();
        let budget = failures::lowest(&self.intent.failure_budgets, selected)?;
        let failed = self.failed_turns();
        budget.spent(&failures::names(&failed), failures::gone(&failed), "")
    }

    /// What no node could be labelled with.
    fn wrong_labels(&self) -> Option<String> {
        let name = &self.view.key.name;
        if name.len() > names::LABEL_MAX {
            return Some(format!(
                "metadata.name: found {} characters, wanted at most {}: it is part of a label of nodes and Jobs",
                name.len(),
                names::LABEL_MAX
            ));
        }
        let labels = self.view.spec.post_complete_labels.iter().flatten();
        labels.into_iter().find_map(|(key, value)| {
            let problem = names::wrong_label_key(key).or_else(|| {
                let value = leave::filled(value, &self.hash, &self.resolved.version);
                names::wrong_label_value(&value)
            });
            problem.map(|problem| format!("spec.postCompleteLabels[{key}]: {problem}"))
        })
    }

    /// Why nobody knows what the nodes are to go to.
    pub(super) fn unresolved(&self) -> Option<Why> {
        if self.resolved.version.is_empty() {
            let none = || (Reason::VersionUnresolved, "the version is not known".to_owned());
            let (reason, message) = self.resolved.problem.clone().unwrap_or_else(none);
            return Some(Why::new(reason, message));
        }
        self.hash
            .is_empty()
            .then(|| Why::new(Reason::VersionUnresolved, "the hash is not known"))
    }

    /// The Plan had a gate of its own, and somebody has dropped it.
    pub(super) fn gate_lost(&self) -> Option<Why> {
        own_gate::lost(self.owner, self.view.into())
    }

    /// It is outside the window.
    pub(super) fn outside(&self) -> Option<Why> {
        let Some(Ok(window)) = &self.view.window else {
            return None;
        };
        if window.contains(self.now) {
            return None;
        }
        let opens = window.changes_after(self.now);
        let next = opens.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let message = format!(
            "it is outside spec.window ({}), which opens {next}",
            window.words()
        );
        let why = Why::new(Reason::OutsideWindow, message);
        Some(match opens {
            Some(at) => why.until(at),
            None => why.ended_by(Actor::ClusterAdmin),
        })
    }

    /// The order of turns: the reference's by hash, unless one is asked for; those that go first before all.
    pub(super) fn order(&self, nodes: &mut [&NodeView]) {
        let by_hash = |node: &NodeView| {
            let mut digest = Sha256::new();
            for part in [&node.uid, &self.view.uid, &self.hash] {
                digest.update(part.as_bytes());
            }
            <[u8; 32]>::from(digest.finalize())
        };
        nodes.sort_by_cached_key(|node| {
            let (no_zone, zone, age) = match self.intent.order {
                None => (false, "", 0),
                Some(order) => intent::turn(order, node),
            };
            let hash = match self.intent.order {
                None => by_hash(node),
                Some(Order::Zone | Order::Oldest | Order::Newest | Order::Name) => [0; 32],
            };
            let first = !self.intent.is_first(&node.labels);
            (first, no_zone, zone.to_owned(), age, hash, node.name.clone())
        });
    }

    /// Reports a node that was left out, or failed for good, in this upgrade; true if so. It stays so unless a person asks
    /// for it again.
    pub(super) fn report_left_out(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let Some((step, why)) = directive::why_out(change) else {
            return false;
        };
        self.say(node, step, why, Some(change));
        true
    }

    /// Leaves out a node that has no turn, as a person says; true if so.
    pub(super) fn skips(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let Some(why) = directive::newly_skipped(change) else {
            return false;
        };
        let journal = directive::leave_out(change, &why, self.now);
        self.out.actions.extend(journal);
        self.say(node, Step::Skipped, why, Some(change));
        true
    }

    /// A node that is not Ready waits, and the others go on: its Job could start no pod, and would hold the only turn.
    pub(super) fn not_ready(&mut self, node: &NodeView) -> Option<Why> {
        self.intent.not_ready().wait(&mut self.out, node)
    }

    /// Why a node that has no turn is left out for now, as it is not Ready for too long.
    pub(super) fn given_up(&self, node: &NodeView) -> Option<Why> {
        self.intent.not_ready().given_up(node, self.now)
    }

    /// A Windows node needs an image of kubectl of its own.
    pub(super) fn of_windows(&self, node: &NodeView) -> Option<Why> {
        let settings = &self.observed.settings.plan_jobs;
        let by_job = self.intent.cordons && !self.intent.drains;
        let none = told::is_windows(node) && by_job && settings.kubectl_image_windows.is_empty();
        none.then(|| {
            let message = format!(
                "Node {} runs Windows, and there is no image to cordon it with: set SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE_WINDOWS, or drainBy: Numo",
                node.name
            );
            Why::new(Reason::FieldNotServed, message)
        })
    }

    /// Nodes that have their turn with somebody else. Two that leave a node in service may be there together, as the
    /// reference has it.
    pub(super) fn busy(&self) -> BTreeMap<&'a str, &'a ChangeView> {
        let others = self.observed.changing().filter(|change| {
            change.spec.owner_ref.uid != self.view.uid && (self.intent.cordons || !change.spec.in_service)
        });
        others
            .map(|change| (change.spec.node_name.as_str(), change))
            .collect()
    }

    /// Deletes the node's Job if it ended, and the node was done and has lost its label since; true while a Job must go
    /// before the node is begun.
    pub(super) fn remove_old_job(&mut self, node: &NodeView, said: Option<&ChangeView>) -> bool {
        let job = self.jobs.get(&(node.name.as_str(), self.hash.as_str(), false));
        let Some((key, job)) = job.copied().filter(|_| self.is_ready() && self.leaving.is_none()) else {
            return false;
        };
        let was_done = said.is_some_and(|change| change.status.step == Some(Step::Done));
        let goes = job.deleting.is_some() || was_done && job.ended.is_some();
        if !goes {
            return false;
        }
        self.delete_job(node, key, job);
        let what = format!("Job {key} is being deleted: the node is to be upgraded once more");
        let why = self.being_deleted(job, what);
        self.say(node, Step::Selected, why, said);
        true
    }

    /// A Job of the Plan for another version runs on the node: two must not.
    pub(super) fn others_job(&mut self, node: &NodeView) -> Option<Why> {
        let of = node.name.as_str();
        let mut jobs = self.jobs_on(of);
        let runs = |job: &PlanJobView| !job.paused && job.ended.is_none();
        let (key, job) = jobs.find(|(_, job)| job.hash != self.hash && runs(job))?;
        drop(jobs);
        if job.deleting.is_some() {
            // Its pods may still run.
            let what = format!("Job {key} to version {} is being deleted", job.version);
            return Some(self.being_deleted(job, what));
        }
        let message = format!("Job {key} to version {} still runs on Node {of}", job.version);
        if !node.ready {
            // Nobody can see it end.
            let message = format!("{message}, which is not Ready: {}", upgrade::leave_out(of));
            return Some(Why::new(Reason::NodeNotReady, message));
        }
        Some(Why::new(Reason::NodeBusy, message))
    }

    /// Who else holds the lease of a node that would go out of service.
    pub(super) fn leased(&mut self, node: &NodeView) -> Option<Why> {
        if !self.intent.cordons {
            return None;
        }
        let holder = lease::holder_of(OwnerKind::Plan, &self.view.uid);
        lease::wait_for(&mut self.out, (self.observed, self.now), &node.name, &holder)
    }

    /// Before its first turn there is our finalizer, and no journal of a turn in which the node was to stay in service, or was not.
    pub(super) fn prepare_turn(
        &mut self,
        node: &'a NodeView,
        said: Option<&ChangeView>,
        admitted: &Why,
    ) -> Next {
        if !self.has_finalizer() {
            self.add_finalizer();
            self.say(node, Step::Selected, admitted.clone(), said);
            return STAY;
        }
        let Some(change) = said.filter(|change| change.spec.in_service == self.intent.cordons) else {
            return ON;
        };
        // Whether it stays in service is settled when it is made.
        self.forget(node, change);
        self.out.wake(self.now);
        self.say(node, Step::Admitted, admitted.clone(), said);
        STAY
    }
}
