//! A Job of a node that failed or was lost: judged by what is true of the node, tried once more, or held for a person.

use super::{known::failure, pass::Pass, resolve::munged, told::Turn, upgrade::leave_out};
use crate::{
    action::{Event, EventAction},
    key::Key,
    observed::{ChangeView, JobEnd, PlanJobView},
    turn::{
        directive, failed,
        journal::{self, Journal, MAX_ENTRIES},
    },
    verdict::Question,
    why::Why,
};
use numo_api::{Entry, Pin, Reason, Step};
use std::collections::BTreeSet;

/// How often a node that reboots under its Job has it run once more by itself.
const REBOOTS: usize = 3;
/// How much of the log's end of a failed Job is kept (bytes).
const LOG_BYTES: usize = 2048;

/// How often the node rebooted under its Job.
fn reboots(turn: &Turn<'_>) -> usize {
    let entries = turn.change.status.entries.iter();
    let rebooted = entries.filter(|entry| entry.reason.as_deref() == Some(Reason::Rebooted.name()));
    rebooted.count()
}

/// How often its Job has failed in the attempts before this one. Turns that were given back, reboots and people begin attempts too, and eat
/// no retry. Of attempts that a full journal has forgotten each counts, or the node would be tried for ever; but for those before its turn
/// was last given back, in which nothing ran.
fn failures(change: &ChangeView) -> usize {
    let (entries, attempt) = (&change.status.entries, change.status.attempt.max(1));
    let is_failed = |entry: &&Entry| {
        entry.step == Step::Admitted && entry.reason.as_deref() == Some(Reason::JobFailed.name())
    };
    let failed = entries.iter().filter(is_failed).count();
    if entries.len() < MAX_ENTRIES {
        return failed;
    }
    let restored = entries.iter().rfind(|entry| entry.step == Step::Selected);
    // No failure began the first attempt, or the one in which the turn was given back.
    let first = restored.map_or(1, |entry| entry.attempt.max(1));
    let attempts = entries.iter().map(|entry| entry.attempt);
    let known: BTreeSet<i32> = attempts
        .filter(|known| *known > first && *known <= attempt)
        .collect();
    let all = usize::try_from(attempt.saturating_sub(first)).unwrap_or(0);
    failed + all.saturating_sub(known.len())
}

/// That a reboot cut the Job short, which then runs once more. It may have rebooted while no numo ran to see its Job begin: that is asked
/// once.
fn cut_short(turn: &Turn<'_>, (job, view): (&Key, &PlanJobView)) -> Option<String> {
    let (node, pin, reboots) = (turn.node, turn.pin(), reboots(turn));
    let rebooted = pin.boot_id().is_some_and(|boot| boot != node.boot_id);
    let unseen = pin.boot_id().is_none() && turn.entered(Step::Released).is_none() && !view.prepares;
    if rebooted && reboots < REBOOTS {
        let name = &node.name;
        return Some(format!(
            "Node {name} rebooted under Job {job}, which runs once more"
        ));
    }
    (unseen && reboots == 0).then(|| {
        format!(
            "nobody saw Job {job} begin on Node {}: it runs once more",
            node.name
        )
    })
}

impl<'a> Pass<'a> {
    /// The Job failed: what counts is what is true of the node. A reboot may have cut it short.
    pub(super) fn failed(&mut self, turn: &Turn<'a>, (job, view): (&Key, &PlanJobView), end: &JobEnd) {
        let node = turn.node;
        let pin = turn.pin();
        if turn.step() == Step::Held {
            return self.say_held(turn);
        }
        if !node.ready {
            let message = format!(
                "Job {job} failed; it is judged when Node {} is Ready: {}",
                node.name,
                leave_out(&node.name)
            );
            return self.say_turn(turn, Step::Released, Why::new(Reason::NodeNotReady, message));
        }
        let target = turn.change.spec.target.version.as_str();
        let is_there = munged(&node.kubelet_version) == target;
        let moved = !pin.from_version.is_empty() && munged(&pin.from_version) != target;
        if is_there && moved && !view.prepares {
            let mut journal = Journal::open(turn.change, self.now);
            let message = format!("Job {job} failed, and the kubelet is at {}", node.kubelet_version);
            journal.enter(Step::Changed, Some(&Why::new(Reason::Rebooted, message.clone())));
            self.write(journal);
            return self.say_turn(turn, Step::Changed, Why::new(Reason::Rebooted, message));
        }
        if let Some(message) = cut_short(turn, (job, view)) {
            return self.again(turn, &Why::new(Reason::Rebooted, message));
        }
        let Some(evidence) = self.answers.evidence.get(job) else {
            self.out.questions.push(Question::Evidence {
                job: job.clone(),
                log_tail_bytes: LOG_BYTES,
            });
            let why = Why::new(
                Reason::Upgrading,
                format!("Job {job} failed, its log is being read"),
            );
            return self.say_turn(turn, Step::Released, why);
        };
        let message = failure(job, &node.name, end, evidence.exit_code);
        let by_itself = usize::try_from(self.intent.retries).unwrap_or(0);
        if failures(turn.change) < by_itself {
            return self.again(turn, &Why::new(Reason::JobFailed, message));
        }
        let log_tail = evidence.log_tail.clone();
        self.hold_node(turn, Why::new(Reason::JobFailed, message), log_tail);
    }

    /// Holds the node: its Job has begun and is gone, and nobody has seen its end.
    pub(super) fn lose_job(&mut self, turn: &Turn<'a>) {
        let message = format!(
            "the Job of Node {} is gone, and nothing tells how it ended; `numo retry` runs it again, `numo skip` leaves the node out",
            turn.node.name
        );
        self.hold_node(turn, Why::new(Reason::JobLost, message), None);
    }

    /// Holds the node: its Job was about to be made, and nobody has seen whether it ran.
    pub(super) fn lose_unseen(&mut self, turn: &Turn<'a>) {
        let told = journal::written_at(turn.change, self.now);
        let name = &turn.node.name;
        let message = format!(
            "the Job of Node {name} was about to be made at {told}, and is not there: it may have run while numo was away, and be gone by its \
             TTL; look at the node; `numo retry {name}` runs it again, `numo skip {name}` leaves the node out"
        );
        self.hold_node(turn, Why::new(Reason::JobLost, message), None);
    }

    /// The Jobs of a node that failed, or are on their way out.
    pub(super) fn failed_jobs(&self, turn: &Turn<'a>) -> Vec<(&'a Key, &'a PlanJobView)> {
        let prepares = (turn.node.name.as_str(), self.hash.as_str(), true);
        let both = turn.job.into_iter().chain(self.jobs.get(&prepares).copied());
        both.filter(|(_, job)| job.deleting.is_some() || matches!(job.ended, Some(JobEnd::Failed(..))))
            .collect()
    }

    /// Deletes the Job of the attempt before; true until it is gone.
    pub(super) fn removes_failed(&mut self, turn: &Turn<'a>) -> bool {
        let Some(uid) = turn.pin().failed_job else {
            return false;
        };
        let found = self.jobs.values().find(|(_, job)| job.uid == uid);
        let Some((job, view)) = found.copied() else {
            return false;
        };
        self.delete_job(turn.node, job, view);
        let why = self.being_deleted(view, format!("Job {job} of the attempt before is being deleted"));
        self.say_turn(turn, turn.step(), why);
        true
    }

    /// Begins the next attempt of a node; its Job is deleted first.
    pub(super) fn again(&mut self, turn: &Turn<'a>, why: &Why) {
        self.applies(turn.node);
        let failed = self.failed_jobs(turn);
        let mut journal = directive::next_attempt(turn.change, Step::Admitted, why, self.now);
        // Written down before it is deleted: one that is gone without a word is lost.
        journal.status.pin = Some(Pin {
            failed_job: failed.first().map(|(_, job)| job.uid.clone()),
            ..self.made_now(turn)
        });
        self.write(journal);
        self.say_turn(turn, Step::Admitted, why.clone());
    }

    /// A node that is held goes on if a person says so, or has changed the Plan since: its Job is deleted, and made anew.
    pub(super) fn retries(&mut self, turn: &Turn<'a>) -> bool {
        let asked = directive::retried(turn.change);
        let held = turn.step() == Step::Held;
        let made_from = turn.pin().generation;
        let edited = held && made_from.is_some_and(|made| made < self.view.generation);
        if asked.is_none() && !edited {
            return false;
        }
        if turn.has_begun() && !held {
            // What runs is never killed.
            return false;
        }
        let why = asked.unwrap_or_else(|| {
            let message = format!("the Plan was changed (generation {})", self.view.generation);
            Why::new(Reason::Admitting, message)
        });
        if turn.is_changed() {
            // The node is upgraded: only its rules are asked again.
            let mut journal = directive::next_attempt(turn.change, Step::Changed, &why, self.now);
            journal.status.pin = Some(self.made_now(turn));
            self.write(journal);
            self.applies(turn.node);
            self.say_turn(turn, Step::Changed, why);
        } else {
            self.again(turn, &why);
        }
        true
    }

    /// The pin of an attempt that is made from the Plan as it is now: only a later change of it is a reason for another.
    pub(super) fn made_now(&self, turn: &Turn<'a>) -> Pin {
        Pin {
            generation: Some(self.view.generation),
            ..turn.pin()
        }
    }

    /// Where the node was before its Job, for the judgement after it.
    pub(super) fn pinned(&self, turn: &Turn<'a>) -> Pin {
        let boot_id = Some(turn.node.boot_id.clone()).filter(|id| !id.is_empty());
        Pin {
            from_version: turn.node.kubelet_version.clone(),
            boot_id: boot_id.clone(),
            earlier_boot_id: boot_id,
            generation: Some(self.view.generation),
            ..turn.pin()
        }
    }

    /// Holds the node until a person says what is to become of it.
    pub(super) fn hold_node(&mut self, turn: &Turn<'a>, why: Why, log_tail: Option<String>) {
        let known = turn.step() == Step::Held && journal::is_for(turn.change, why.reason);
        if !known {
            let mut journal = Journal::open(turn.change, self.now);
            journal.enter(Step::Held, Some(&why));
            if journal.status.pin.is_none() {
                journal.status.pin = Some(self.pinned(turn));
            }
            if log_tail.is_some() {
                journal.status.log_tail = log_tail;
            }
            let event = Event::warning(why.reason.name(), EventAction::Hold, why.message.to_string())
                .on(&turn.node.name);
            self.out.actions.extend(journal.planned(Some(event)));
        }
        self.say_turn(turn, Step::Held, why);
    }

    /// Says why the node is held, as its journal has it.
    pub(super) fn say_held(&mut self, turn: &Turn<'a>) {
        if failed::is_held(turn.change) {
            let why = failed::why_held(turn.change);
            return self.say_turn(turn, Step::Held, why);
        }
        let reason = journal::reason(turn.change);
        let message = turn.change.status.message.clone().unwrap_or_default();
        let why = Why::new(reason.unwrap_or(Reason::JobFailed), message);
        self.say_turn(turn, Step::Held, why);
    }
}
