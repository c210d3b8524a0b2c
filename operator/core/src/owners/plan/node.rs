//! One node of a Plan, from its turn to done: one step further each time, each step derived from what is seen. A crash
//! between any two writes finds the same next step.
//!
//! By default one Job does it all: prepare, cordon or drain, upgrade. With `drainBy: Numo` a Job prepares, numo cordons and
//! drains, and a second Job upgrades.

use super::{
    edge,
    known::{failure, job_name, label, run_id},
    pass::Pass,
    resolve::munged,
};
use crate::{
    action::{
        Action, Change, Event, EventAction, NodePatch, NodePurpose, PlanJobRequest, PlanParts, Planned,
    },
    admit::gates::{self, Gate},
    drain,
    key::Key,
    ledger,
    mark::{self, CordonedBy},
    observed::{ChangeView, JobEnd, NodeView, PlanJobView},
    owner::OwnerKind,
    probe::{self, Look},
    quorum, rules,
    time::later,
    turn::{
        closed,
        directive::{self, retry_asked},
        journal::{self, Journal},
        lease, machine,
        phases::{At, Phases, Went},
        shield,
        ungated::{let_go_by_other, not_passed},
    },
    verdict::Question,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{
    DirectiveAction, Entry, FailurePolicy, Phase, Pin, Reason, Step,
    conditions::Who,
    marks::{self, openshift},
};

/// How often a node that reboots under its Job has it run once more by itself.
const REBOOTS: usize = 3;
/// How often somebody's uncordoning of a node that numo drains is corrected.
const MAX_CORRECTIONS: u32 = 3;
/// How much of the log's end of a failed Job is kept (bytes).
const LOG_BYTES: usize = 2048;
/// How soon a drain that a dry run was against is tried again (seconds).
const PROBE_SECONDS: i64 = 15;

/// Whether the node runs Windows.
pub fn is_windows(node: &NodeView) -> bool {
    node.label(openshift::OS) == "windows"
}

/// Puts back all that an owner has put on a node: its cordon, unless one was there before, its shield, and the marks.
pub fn restoring(node: &NodeView, owner_uid: &str, purpose: NodePurpose) -> NodePatch {
    let mut patch = NodePatch::of(node, purpose);
    if let Some(mark) = mark::cordoned_by(node).filter(|mark| mark.owner == owner_uid) {
        uncordon(&mut patch, node, mark.prior);
    }
    if let Some(mark) = mark::shielded(node).filter(|mark| mark.owner == owner_uid)
        && let Action::PatchNode(shield) = shield::unshield(node, &mark)
    {
        patch.labels.extend(shield.labels);
        patch.annotations.extend(shield.annotations);
    }
    patch
}

/// An event on the Plan.
fn said(reason: &'static str, action: EventAction, note: String) -> Event {
    Event {
        node: None,
        warning: false,
        reason,
        action,
        note,
    }
}

/// How to go on without a node that is out of reach.
pub(super) fn leave_out(node: &str) -> String {
    format!("repair it, and it goes on; `numo skip {node}` leaves it out, so that the other nodes go on")
}

/// Takes the mark of a cordon off, and the cordon with it unless one was there before. The cordon is a Job's, which may be seen after
/// that Job's end: what was seen of it is tested, or the cordon would stay without a mark.
fn uncordon(patch: &mut NodePatch, node: &NodeView, prior: bool) {
    patch.annotations.push(unmarking(node));
    if !prior {
        patch.while_unschedulable = Some(node.unschedulable);
        patch.unschedulable = node.unschedulable.then_some(false);
    }
}

fn unmarking(node: &NodeView) -> Change {
    Change {
        key: marks::CORDONED_BY.to_owned(),
        from: node.annotations.get(marks::CORDONED_BY).cloned(),
        to: None,
    }
}

/// The value of a label of `spec.postCompleteLabels`.
pub(super) fn filled(value: &str, hash: &str, version: &str) -> String {
    value
        .replace("$(LATEST_HASH)", hash)
        .replace("$(LATEST_VERSION)", version)
}

/// One node's turn.
#[derive(Clone, Copy)]
struct Turn<'a> {
    node: &'a NodeView,
    change: &'a ChangeView,
    /// The Job that upgrades, for the hash that the turn is about.
    job: Option<(&'a Key, &'a PlanJobView)>,
    /// That hash; empty where no Job tells it.
    hash: &'a str,
    /// Whether the Plan still goes there.
    is_current: bool,
}

impl Turn<'_> {
    fn entered(&self, step: Step) -> Option<&Entry> {
        journal::entered(self.change, step)
    }

    fn step(&self) -> Step {
        self.change.status.step.unwrap_or(Step::Admitted)
    }

    /// Whether its Job has begun, in this attempt, or was complete before it: then only the rules are asked again.
    fn has_begun(&self) -> bool {
        self.entered(Step::Released).is_some()
            || self.entered(Step::Changed).is_some()
            || self
                .job
                .is_some_and(|(_, job)| !job.paused || job.ended.is_some())
    }

    /// What its journal tells of Jobs since its turn was last given back: until then nothing was disrupted.
    fn told_of_jobs(&self) -> impl Iterator<Item = &Entry> {
        let entries = &self.change.status.entries;
        let given_back = entries.iter().rposition(|entry| entry.step == Step::Selected);
        let failed = [Reason::JobFailed, Reason::JobLost, Reason::Rebooted];
        entries[given_back.unwrap_or(0)..].iter().filter(move |entry| {
            matches!(entry.step, Step::Released | Step::Changed)
                || failed
                    .iter()
                    .any(|reason| entry.reason.as_deref() == Some(reason.name()))
        })
    }

    /// Whether a Job of it has begun in any attempt: the cordon may then be that Job's.
    fn was_begun(&self) -> bool {
        self.told_of_jobs().next().is_some()
    }

    /// Whether its Job was started, and nothing of it can have run.
    fn is_untouched(&self) -> bool {
        self.job
            .is_some_and(|(_, job)| job.untouched && !job.paused && job.ended.is_none() && !job.deleting)
    }

    /// Whether anything may have become of the node in this turn: numo has cordoned it, or a Job may have run on it.
    fn is_disrupted(&self) -> bool {
        let attempt = self.change.status.attempt.max(1);
        let untouched = self.is_untouched();
        let of_untouched =
            |entry: &Entry| untouched && entry.step == Step::Released && entry.attempt == attempt;
        self.entered(Step::Cordoned).is_some()
            || (self.has_begun() && !untouched)
            || self.told_of_jobs().any(|entry| !of_untouched(entry))
    }

    /// Whether the journal tells this of the Job that prepares the node, in this attempt: `Upgrading` once it has begun,
    /// `Prepared` once it is complete.
    fn tells_of_prepare(&self, reason: Reason) -> bool {
        let attempt = self.change.status.attempt.max(1);
        let mut entries = self.change.status.entries.iter();
        entries.any(|entry| {
            entry.step == Step::PreRules
                && entry.attempt == attempt
                && entry.reason.as_deref() == Some(reason.name())
        })
    }

    /// Whether its Job is complete.
    fn is_changed(&self) -> bool {
        self.entered(Step::Changed).is_some()
            || self
                .job
                .is_some_and(|(_, job)| matches!(job.ended, Some(JobEnd::Complete)))
    }

    /// Whether its Job has begun and not ended.
    fn runs(&self) -> bool {
        self.job
            .is_some_and(|(_, job)| !job.paused && job.ended.is_none())
    }

    fn pin(&self) -> Pin {
        self.change.status.pin.clone().unwrap_or_default()
    }
}

impl<'a> Pass<'a> {
    /// Moves a node that has its turn one step further.
    pub(super) fn advance(&mut self, node: &'a NodeView, change: &'a ChangeView) {
        let is_current = change.spec.target.run_id == self.run_id && !self.hash.is_empty();
        let failed = change
            .status
            .pin
            .as_ref()
            .and_then(|pin| pin.failed_job.as_deref());
        let found = self.jobs_on(&node.name).find(|(_, job)| {
            !job.prepares
                && run_id(&self.view.uid, &job.hash) == change.spec.target.run_id
                && failed != Some(job.uid.as_str())
        });
        let hash: &'a str = found.map_or("", |(_, job)| job.hash.as_str());
        let turn = Turn {
            node,
            change,
            job: found,
            hash,
            is_current,
        };
        if is_current && node.label(&self.label) == self.hash && !turn.runs() {
            return self.finish(&turn, &[]);
        }
        if self.gives_up(&turn) || self.begin_anew(&turn) {
            return;
        }
        if !self.take_lease_and_shield(&turn) {
            return;
        }
        if self.retries(&turn) || self.removes_failed(&turn) {
            return;
        }
        if turn.has_begun() {
            self.after_release(&turn);
        } else {
            self.before_release(&turn);
        }
    }

    fn say_turn(&mut self, turn: &Turn<'a>, step: Step, why: Why) {
        self.say(turn.node, step, why, Some(turn.change));
    }

    fn write(&mut self, journal: Journal<'_>) {
        self.out.actions.extend(journal.planned(None));
    }

    /// The host name is in `status.applying` while the node is being upgraded, and before its Job can look.
    fn applies(&mut self, node: &'a NodeView) -> bool {
        let host = node.label(openshift::HOSTNAME);
        self.applying.insert(&node.name, host.to_owned());
        let written = self.view.status.applying.iter().flatten();
        written.into_iter().any(|known| known == host)
    }

    /// Ends a turn that nothing has come of, or whose node has failed, once nobody wants it any more; true if so.
    fn gives_up(&mut self, turn: &Turn<'a>) -> bool {
        let failed = turn.step() == Step::Held
            || turn
                .job
                .is_some_and(|(_, job)| matches!(job.ended, Some(JobEnd::Failed(..))));
        let directive = turn.change.spec.directive.as_ref();
        let skips = directive.filter(|directive| directive.action == DirectiveAction::Skip);
        // What is complete is finished, unless something keeps it from that which may last for ever.
        let lasts = !turn.node.ready || !self.intent.rules.is_empty() || self.gate_lost().is_some();
        let is_left = self.leaving.is_some() || (skips.is_some() && turn.entered(Step::Changed).is_some());
        let stuck = turn.is_changed() && lasts && is_left;
        let is_lost = self.blind && !turn.runs();
        // A node that is out of reach may never come back: a person may go on without it.
        let is_away = !turn.node.ready && skips.is_some();
        if turn.has_begun() && !failed && !stuck && !is_lost && !is_away {
            // What runs is never killed.
            return false;
        }
        let (step, why) = if let Some(directive) = skips {
            let words = directive::persons_words("skipped", turn.change, directive);
            (Step::Skipped, Why::new(Reason::SkippedByPerson, words))
        } else if let Some(why) = &self.leaving {
            (Step::Failed, Why::new(Reason::RunGivenUp, why.message.clone()))
        } else if !self.hash.is_empty() && !turn.is_current {
            let message = format!(
                "the Plan goes to {} by now (hash {})",
                self.resolved.version, self.hash
            );
            (Step::Failed, Why::new(Reason::Superseded, message))
        } else if !self.selects(turn.node) && !self.intent_is_broken() {
            let message = format!("the Plan does not select Node {} any more", turn.node.name);
            (Step::Skipped, Why::new(Reason::NotSelected, message))
        } else {
            return false;
        };
        if let Some((job, _)) = self.preparing(turn).filter(|_| !is_away) {
            let message = format!("Job {job} runs and comes to its end first: {}", why.message);
            self.say_turn(turn, turn.step(), Why::new(why.reason, message));
            return true;
        }
        if let Some((job, view)) = turn.job.filter(|(_, view)| view.paused && view.ended.is_none()) {
            self.delete_job(turn.node, job, view);
            let why = Why::new(Reason::JobBeingDeleted, format!("Job {job} never began"));
            self.say_turn(turn, step, why);
            return true;
        }
        self.end(turn, step, &why);
        true
    }

    /// Ends the turn, and has another one begin, if nothing runs and the Plan says otherwise by now whether the node is in
    /// service while it changes; true if so.
    fn begin_anew(&mut self, turn: &Turn<'a>) -> bool {
        let same = turn.change.spec.in_service != self.intent.cordons;
        if same || turn.is_changed() || turn.runs() || self.preparing(turn).is_some() {
            return false;
        }
        let failed = self.failed_jobs(turn);
        let paused = turn.job.filter(|(_, job)| job.paused && job.ended.is_none());
        let jobs: Vec<_> = failed.into_iter().chain(paused).collect();
        let message = "whether the Plan cordons has changed: its turn begins anew";
        let why = Why::new(Reason::Superseded, message);
        for (job, view) in &jobs {
            self.delete_job(turn.node, job, view);
        }
        if jobs.is_empty() {
            let patch = restoring(turn.node, &self.view.uid, NodePurpose::Uncordon);
            if !patch.annotations.is_empty() {
                self.act(&turn.node.name, Action::PatchNode(patch), None);
            }
            self.release_lease(turn.node);
            self.forget(turn.node, turn.change);
        }
        self.say_turn(turn, turn.step(), why);
        true
    }

    /// The Job that prepares the node for numo's drain, while it runs.
    fn preparing(&self, turn: &Turn<'a>) -> Option<(&'a Key, &'a PlanJobView)> {
        let mut here = self.jobs_on(&turn.node.name);
        here.find(|(_, job)| {
            job.prepares
                && !job.paused
                && job.ended.is_none()
                && run_id(&self.view.uid, &job.hash) == turn.change.spec.target.run_id
        })
    }

    fn intent_is_broken(&self) -> bool {
        self.intent.of_selector.is_some()
    }

    /// Gives everything of a node back and ends its turn. One that the next version is to take up keeps its marks; one
    /// whose Job may still run, out of reach, keeps them until that is over (`give_back`).
    fn end(&mut self, turn: &Turn<'a>, step: Step, why: &Why) {
        let uid = &self.view.uid;
        let may_run = turn.runs() || self.preparing(turn).is_some();
        if may_run {
            // Whoever opened the node now would let pods onto one that changes.
        } else if why.reason != Reason::Superseded {
            let patch = restoring(turn.node, uid, NodePurpose::Uncordon);
            if !patch.annotations.is_empty() {
                self.act(&turn.node.name, Action::PatchNode(patch), None);
            }
        } else if (turn.has_begun() || turn.was_begun())
            && let Some(mark) = mark::cordoned_by(turn.node).filter(|mark| mark.owner == *uid && !mark.done)
        {
            // The next turn must not take the Job's cordon for a person's.
            let mut patch = NodePatch::of(turn.node, NodePurpose::Shield);
            patch.annotations.push(Change {
                key: marks::CORDONED_BY.to_owned(),
                from: turn.node.annotations.get(marks::CORDONED_BY).cloned(),
                to: Some(mark::render(&CordonedBy { done: true, ..mark })),
            });
            self.act(&turn.node.name, Action::PatchNode(patch), None);
        }
        let mut journal = Journal::open(turn.change, self.now);
        journal.obey();
        journal.enter(step, Some(why));
        self.write(journal);
        if !may_run {
            self.release_lease(turn.node);
        }
        self.say_turn(turn, step, why.clone());
    }

    fn release_lease(&mut self, node: &NodeView) {
        let holder = lease::holder_of(OwnerKind::Plan, &self.view.uid);
        if let Some(action) = lease::release(self.observed, &node.name, &holder) {
            self.act(&node.name, action, None);
        }
    }

    /// Takes lease and shield, and remembers what cordon there was; true once that is so, or cannot be had.
    fn take_lease_and_shield(&mut self, turn: &Turn<'a>) -> bool {
        let node = turn.node;
        let uid = &self.view.uid;
        let mut actions = Vec::new();
        if !turn.change.spec.in_service {
            let holder = lease::holder_of(OwnerKind::Plan, uid);
            let lease = lease::upkeep(self.observed, node, &holder, (turn.change.created, self.now));
            if let Some(due) = lease.due {
                self.out.wake(due);
            }
            if let Some((lease, until)) = lease.held {
                self.out.wake(until);
                // What runs cannot be taken back: it goes on, and the lease is taken again when it can be.
                if !turn.has_begun() {
                    let message = format!("the lease of Node {} is held by {}", node.name, lease.holder);
                    let why = Why::new(Reason::NodeLeaseHeld, message).until(until);
                    self.close(turn, turn.step(), why);
                    return false;
                }
            }
            actions.extend(lease.renews.into_iter().chain(lease.takes));
        }
        if self.intent.is_stood_off() {
            // Beside the operator that numo replaces nothing new is taken; the turn is closed by what comes next.
            for action in actions {
                if let Action::RenewLease { .. } = &action {
                    self.act(&node.name, action, None);
                }
            }
            return true;
        }
        // A node that is complete is on its way back: its marks are being taken off.
        let begins = !turn.is_changed();
        if begins && let Some(patch) = self.marking(turn) {
            actions.push(Action::PatchNode(patch));
        }
        if begins {
            actions.extend(machine::remediation_shields(self.observed, &node.name, uid));
        }
        let holds = actions
            .iter()
            .all(|action| matches!(action, Action::RenewLease { .. }));
        for action in actions {
            self.act(&node.name, action, None);
        }
        if !holds {
            if turn.has_begun() {
                self.applies(node);
            }
            let why = Why::new(Reason::Admitting, "lease and shield are being taken");
            self.say_turn(turn, turn.step(), why);
        }
        holds
    }

    /// The patch that begins a turn: shield, and the mark of the cordon that is coming, with what was there before.
    fn marking(&self, turn: &Turn<'a>) -> Option<NodePatch> {
        let (node, uid) = (turn.node, &self.view.uid);
        // A mark of somebody who has the node in hand as well is his: it is ours once he has put it back.
        let is_others = |owner: &str| {
            let mut turns = self.observed.changing();
            owner != uid
                && turns
                    .any(|change| change.spec.node_name == node.name && change.spec.owner_ref.uid == owner)
        };
        let shields = mark::shielded(node).is_none_or(|mark| mark.owner != *uid && !is_others(&mark.owner));
        let known = mark::cordoned_by(node);
        // Until it is cordoned for us, what people make of it is what was there before.
        let is_free = !turn.has_begun()
            && turn.entered(Step::Cordoned).is_none()
            && turn.step() != Step::Held
            && !turn.was_begun();
        let cordons = !turn.change.spec.in_service
            && known.as_ref().is_none_or(|mark| {
                (mark.owner != *uid && !is_others(&mark.owner))
                    || (is_free && mark.owner == *uid && !mark.done && mark.prior != node.unschedulable)
            });
        if !shields && !cordons {
            return None;
        }
        let mut patch = NodePatch::of(node, NodePurpose::Shield);
        if shields && let Action::PatchNode(shield) = shield::shield(node, uid) {
            patch = shield;
        }
        if cordons {
            // Of a node that is being upgraded already, the cordon is that of its Job.
            let prior = node.unschedulable && !turn.has_begun();
            let mark = match known {
                // Over the mark of an owner that is gone, what was there before it is what counts.
                Some(mark) if mark.owner != *uid => CordonedBy {
                    owner: uid.clone(),
                    done: true,
                    ..mark
                },
                _ => CordonedBy {
                    owner: uid.clone(),
                    prior,
                    taints: Vec::new(),
                    corrections: 0,
                    done: false,
                },
            };
            patch.annotations.push(Change {
                key: marks::CORDONED_BY.to_owned(),
                from: node.annotations.get(marks::CORDONED_BY).cloned(),
                to: Some(mark::render(&mark)),
            });
            // A person's cordon of this very moment must not be taken for the Job's.
            patch.while_unschedulable = (!node.unschedulable && !turn.has_begun()).then_some(false);
        }
        Some(patch)
    }

    /// A node that is held goes on if a person says so, or has changed the Plan since: its Job is deleted, and made anew.
    fn retries(&mut self, turn: &Turn<'a>) -> bool {
        let asked = retry_asked(turn.change);
        let held = turn.step() == Step::Held;
        let made_from = turn.pin().generation;
        let edited = held && made_from.is_some_and(|made| made < self.view.generation);
        if !asked && !edited {
            return false;
        }
        if turn.has_begun() && !held {
            // What runs is never killed.
            return false;
        }
        let why = if asked && let Some(directive) = &turn.change.spec.directive {
            let words = directive::persons_words("retried", turn.change, directive);
            Why::new(Reason::Admitting, words)
        } else {
            let message = format!("the Plan was changed (generation {})", self.view.generation);
            Why::new(Reason::Admitting, message)
        };
        if turn.is_changed() {
            // The node is upgraded: only its rules are asked again.
            let mut journal = Journal::open(turn.change, self.now);
            journal.obey();
            journal.next_attempt();
            journal.status.pin = Some(self.made_now(turn));
            journal.enter(Step::Changed, Some(&why));
            self.write(journal);
            self.applies(turn.node);
            self.say_turn(turn, Step::Changed, why);
        } else {
            self.again(turn, &why);
        }
        true
    }

    /// The Jobs of a node that failed, or are on their way out.
    fn failed_jobs(&self, turn: &Turn<'a>) -> Vec<(&'a Key, &'a PlanJobView)> {
        let prepares = (turn.node.name.as_str(), self.hash.as_str(), true);
        let both = turn.job.into_iter().chain(self.jobs.get(&prepares).copied());
        both.filter(|(_, job)| job.deleting || matches!(job.ended, Some(JobEnd::Failed(..))))
            .collect()
    }

    /// Deletes the Job of the attempt before; true until it is gone.
    fn removes_failed(&mut self, turn: &Turn<'a>) -> bool {
        let Some(uid) = turn.pin().failed_job else {
            return false;
        };
        let found = self.jobs.values().find(|(_, job)| job.uid == uid);
        let Some((job, view)) = found.copied() else {
            return false;
        };
        self.delete_job(turn.node, job, view);
        self.applies(turn.node);
        let message = format!("Job {job} of the attempt before is being deleted");
        self.say_turn(turn, turn.step(), Why::new(Reason::JobBeingDeleted, message));
        true
    }

    /// Begins the next attempt of a node; its Job is deleted first.
    fn again(&mut self, turn: &Turn<'a>, why: &Why) {
        self.applies(turn.node);
        let failed = self.failed_jobs(turn);
        let mut journal = Journal::open(turn.change, self.now);
        journal.obey();
        journal.next_attempt();
        // Written down before it is deleted: one that is gone without a word is lost.
        journal.status.pin = Some(Pin {
            failed_job: failed.first().map(|(_, job)| job.uid.clone()),
            ..self.made_now(turn)
        });
        journal.enter(Step::Admitted, Some(why));
        self.write(journal);
        self.say_turn(turn, Step::Admitted, why.clone());
    }

    /// What keeps the next step of a node that has not begun.
    fn closed(&mut self, turn: &Turn<'a>) -> Option<Why> {
        let invalid = || {
            let problem = self.intent.invalid.clone()?;
            Some(Why::new(Reason::InvalidField, problem))
        };
        // Its Job could start no pod.
        let not_ready = || {
            let gone = !turn.node.ready && !self.intent.take_not_ready && !turn.is_disrupted();
            gone.then(|| {
                let message = format!("Node {}: found not Ready, wanted Ready", turn.node.name);
                Why::new(Reason::NodeNotReady, message)
            })
        };
        // What was cordoned, or has run already, is brought to its end: the other Plan may wait for the place that this node
        // fills in a budget.
        let waits = || {
            // Each turn that is given back begins another attempt: their number says nothing of what was done to the node.
            let waits =
                || edge::waits(self.view, self.observed, &self.resolved.version).or_else(|| self.outside());
            (!turn.is_disrupted()).then(waits).flatten()
        };
        let against = gates::weigh(self.asked == Some(turn.node.name.as_str()), |gate| match gate {
            Gate::Owner => {
                let suspended = self.intent.suspended.clone();
                suspended
                    .or_else(invalid)
                    .or_else(|| self.intent.of_gates.clone())
                    .or_else(|| self.gate_lost())
            }
            Gate::Waits => {
                let secrets = self.intent.of_secrets.clone();
                secrets.or_else(|| self.unresolved()).or_else(waits)
            }
            Gate::Stop => ledger::stop(self.observed, turn.node),
            Gate::Person => directive::held(turn.change),
            Gate::State => not_ready(),
            Gate::Quorum => quorum::refusal_of_turn(self.observed, turn.node, turn.change),
            // They were free when the turn began, and what came since waits for this node.
            Gate::Unfit
            | Gate::Leaving
            | Gate::Busy
            | Gate::Lease
            | Gate::First
            | Gate::Room
            | Gate::Budget
            | Gate::Drain => None,
        });
        against.worst(&mut self.out.report)
    }

    fn phases(&self) -> Phases<'_> {
        Phases {
            owner: self.owner,
            owner_uid: &self.view.uid,
            rules: &self.intent.rules,
            pool: "",
            to_version: &self.resolved.version,
            observed: self.observed,
            answers: self.answers,
            now: self.now,
        }
    }

    /// Says that the turn is closed. Before the first disruption it is given back once it was for too long.
    fn close(&mut self, turn: &Turn<'a>, step: Step, why: Why) {
        let preparing = self.preparing(turn);
        if turn.is_disrupted() || preparing.is_some_and(|(_, job)| !job.untouched) {
            return self.say_turn(turn, step, why);
        }
        if closed::expires(turn.change, self.now) {
            // What one prepared may be outdated by the time of the next turn; one that no kubelet takes up is made anew.
            let untouched = turn.job.filter(|_| turn.is_untouched());
            let jobs = self.prepared(turn).into_iter().chain(preparing).chain(untouched);
            for (job, view) in jobs.collect::<Vec<_>>() {
                self.delete_job(turn.node, job, view);
            }
        }
        let given_back = closed::close(&mut self.out, turn.change, &why, self.now);
        let step = if given_back { Step::Selected } else { step };
        self.say_turn(turn, step, why);
    }

    /// The Job that has prepared the node for numo's drain.
    fn prepared(&self, turn: &Turn<'a>) -> Option<(&'a Key, &'a PlanJobView)> {
        let key = (turn.node.name.as_str(), self.hash.as_str(), true);
        let found = self.jobs.get(&key).copied();
        found.filter(|(_, job)| job.ended.is_some() && !job.deleting)
    }

    /// Moves a phase of rules along; true once all have passed.
    fn passed(&mut self, turn: &Turn<'a>, phase: Phase, step: Step, closed: Option<&Why>) -> bool {
        let mut out = std::mem::take(&mut self.out);
        let at = (turn.node, turn.change);
        let went = self.phases().pass(&mut out, at, At::step(phase, step), closed);
        self.out = out;
        self.act_on(turn, step, went)
    }

    /// Whether every Pass of these phases is young enough. One that is not is asked for again.
    fn confirmed(&mut self, turn: &Turn<'a>, phases: &[Phase]) -> bool {
        let mut out = std::mem::take(&mut self.out);
        let at = (turn.node, turn.change);
        let went = self
            .phases()
            .confirm(&mut out, at, (phases, Some(Step::PreRules)));
        self.out = out;
        self.act_on(turn, Step::PreRules, went)
    }

    /// Acts on how a phase of rules went; true if it passed.
    fn act_on(&mut self, turn: &Turn<'a>, step: Step, went: Went) -> bool {
        match went {
            Went::Passed => true,
            Went::Waits(why) => {
                self.say_turn(turn, step, why);
                false
            }
            Went::Closed(why) => {
                self.close(turn, step, why);
                false
            }
            Went::Failed(FailurePolicy::Skip, why) if !turn.has_begun() => {
                let why = Why::new(Reason::SkippedByPolicy, why.message);
                self.end(turn, Step::Skipped, &why);
                false
            }
            Went::Failed(FailurePolicy::Abort, why) => {
                self.hold_node(turn, Why::new(Reason::Aborted, why.message), None);
                false
            }
            Went::Failed(_, why) => {
                self.hold_node(turn, why, None);
                false
            }
        }
    }

    /// Says why the node is held, as its journal has it.
    fn say_held(&mut self, turn: &Turn<'a>) {
        let reason = Reason::ALL
            .iter()
            .find(|reason| journal::is_for(turn.change, **reason));
        let message = turn.change.status.message.clone().unwrap_or_default();
        let why = Why::new(reason.copied().unwrap_or(Reason::JobFailed), message);
        self.say_turn(turn, Step::Held, why);
    }

    /// The pin of an attempt that is made from the Plan as it is now: only a later change of it is a reason for another.
    fn made_now(&self, turn: &Turn<'a>) -> Pin {
        Pin {
            generation: Some(self.view.generation),
            ..turn.pin()
        }
    }

    /// Where the node was before its Job, for the judgement after it.
    fn pinned(&self, turn: &Turn<'a>) -> Pin {
        Pin {
            from_version: turn.node.kubelet_version.clone(),
            boot_id: Some(turn.node.boot_id.clone()).filter(|id| !id.is_empty()),
            generation: Some(self.view.generation),
            ..turn.pin()
        }
    }

    /// Holds the node until a person says what is to become of it.
    fn hold_node(&mut self, turn: &Turn<'a>, why: Why, log_tail: Option<String>) {
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
            let event = Event {
                node: Some(turn.node.name.clone()),
                warning: true,
                reason: why.reason.name(),
                action: EventAction::Hold,
                note: why.message.to_string(),
            };
            self.out.actions.extend(journal.planned(Some(event)));
        }
        self.say_turn(turn, Step::Held, why);
    }

    /// Rules, prepare, cordon and drain, and then the Job.
    fn before_release(&mut self, turn: &Turn<'a>) {
        if turn.step() == Step::Held {
            // Its Job may be gone by now: it is a person's all the same.
            return self.say_held(turn);
        }
        let closed = self.closed(turn);
        if !self.passed(turn, Phase::Pre, Step::PreRules, closed.as_ref()) {
            return;
        }
        let drains = self.intent.drains && !turn.change.spec.in_service;
        if drains {
            if !self.prepare(turn, closed.as_ref()) {
                return;
            }
            if !self.cordon_and_drain(turn, closed.as_ref()) {
                return;
            }
        }
        // A Job that drains meets a budget that lets no pod go only once the node is cordoned.
        let probes = !drains && turn.job.is_none() && !turn.change.spec.in_service && closed.is_none();
        let at = (turn.node, turn.change);
        if probes && self.phases().asks_next(at, Phase::PreRelease) && !self.probe_drain(turn) {
            return;
        }
        if !self.passed(turn, Phase::PreRelease, Step::PreRelease, closed.as_ref()) {
            return;
        }
        if let Some(why) = closed {
            return self.close(turn, Step::PreRelease, why);
        }
        if (probes && !self.probe_drain(turn)) || !self.confirmed(turn, &rules::BEFORE_RELEASE) {
            return;
        }
        let parts = if drains {
            PlanParts::Upgrade
        } else {
            PlanParts::All
        };
        if self.create_job(turn, parts)
            && let Some((job, view)) = turn.job
            && view.paused
        {
            let action = Action::StartPlanJob {
                job: job.clone(),
                uid: view.uid.clone(),
            };
            self.act(&turn.node.name, action, None);
        }
    }

    fn request(&self, turn: &Turn<'a>, parts: PlanParts) -> PlanJobRequest {
        let verb = if parts == PlanParts::Prepare {
            "prepare"
        } else {
            "apply"
        };
        let name = job_name(verb, &self.view.key.name, &turn.node.name, &self.hash);
        PlanJobRequest {
            job: Key::new(&self.view.key.namespace, name),
            plan: self.view.key.clone(),
            node: turn.node.name.clone(),
            hostname: turn.node.label(openshift::HOSTNAME).to_owned(),
            windows: is_windows(turn.node),
            version: self.resolved.version.clone(),
            hash: self.hash.clone(),
            parts,
        }
    }

    /// Creates the Job, once the node is in `status.applying`; true once it is there.
    fn create_job(&mut self, turn: &Turn<'a>, parts: PlanParts) -> bool {
        let starting = || Why::new(Reason::UpgradeStarting, "its Job is about to start");
        if !self.applies(turn.node) {
            self.out.wake(self.now);
            self.say_turn(turn, Step::PreRelease, starting());
            return false;
        }
        let prepares = parts == PlanParts::Prepare;
        let key = (turn.node.name.as_str(), self.hash.as_str(), prepares);
        if let Some((job, view)) = self.jobs.get(&key) {
            if view.deleting {
                let why = Why::new(Reason::JobBeingDeleted, format!("Job {job} is being deleted"));
                self.say_turn(turn, Step::PreRelease, why);
                return false;
            }
            self.say_turn(turn, Step::PreRelease, starting());
            return true;
        }
        let request = self.request(turn, parts);
        if let Some(other) = self.observed.plan_jobs.get(&request.job) {
            let message = format!(
                "Job {} exists already, for Node {} of Plan {}: it is waited for until it is gone",
                request.job, other.node, other.plan
            );
            self.say_turn(turn, Step::PreRelease, Why::new(Reason::JobBeingDeleted, message));
            return false;
        }
        self.act(&turn.node.name, Action::CreatePlanJob(Box::new(request)), None);
        self.say_turn(turn, Step::PreRelease, starting());
        false
    }

    /// Runs what prepares for a drain by numo in a Job of its own; true once it has run. The journal tells that the Job has
    /// begun and that it is complete: a Job is gone after its TTL, whoever has seen its end.
    fn prepare(&mut self, turn: &Turn<'a>, closed: Option<&Why>) -> bool {
        let is_prepared = turn.tells_of_prepare(Reason::Prepared) || turn.entered(Step::Cordoned).is_some();
        if self.view.spec.prepare.is_none() || is_prepared {
            return true;
        }
        let has_begun = turn.tells_of_prepare(Reason::Upgrading);
        // While the turn is closed, numo itself deletes a Job that no kubelet takes up.
        let is_awaited = has_begun && turn.change.status.closed_since.is_none();
        let key = (turn.node.name.as_str(), self.hash.as_str(), true);
        let found = self.jobs.get(&key).copied();
        let Some((job, view)) = found.filter(|(_, view)| is_awaited || !view.deleting) else {
            if is_awaited {
                self.lose_job(turn);
            } else if let Some(why) = closed {
                self.close(turn, Step::PreRules, why.clone());
            } else if self.confirmed(turn, &[Phase::Pre]) {
                let _ = self.create_job(turn, PlanParts::Prepare);
            }
            return false;
        };
        self.applies(turn.node);
        match &view.ended {
            Some(JobEnd::Complete) => {
                let message = format!("Job {job} has prepared Node {}", turn.node.name);
                let why = Why::new(Reason::Prepared, message);
                self.note_prepare(turn, &why);
                self.say_turn(turn, Step::PreRules, why);
            }
            Some(end) => self.failed(turn, (job, view), end),
            None if view.deleting => {
                let why = Why::new(Reason::JobBeingDeleted, format!("Job {job} is being deleted"));
                self.say_turn(turn, Step::PreRules, why);
            }
            None if !has_begun => {
                let message = format!("Job {job} prepares Node {}", turn.node.name);
                self.note_prepare(turn, &Why::new(Reason::Upgrading, message));
                let why = self.upgrading(turn, job, view);
                self.say_turn(turn, Step::PreRules, why);
            }
            None => self.goes_on(turn, Step::PreRules, (job, view)),
        }
        false
    }

    /// Journals how far the Job that prepares the node has come.
    fn note_prepare(&mut self, turn: &Turn<'a>, why: &Why) {
        let mut journal = Journal::open(turn.change, self.now);
        journal.enter(Step::PreRules, Some(why));
        self.write(journal);
    }

    /// Cordons and drains the node; true once it is drained.
    fn cordon_and_drain(&mut self, turn: &Turn<'a>, closed: Option<&Why>) -> bool {
        let node = turn.node;
        self.applies(node);
        let cordoned = turn
            .entered(Step::Cordoned)
            .and_then(|entry| journal::time(Some(&entry.at)));
        let Some(cordoned) = cordoned else {
            if let Some(why) = closed {
                self.close(turn, Step::PreRules, why.clone());
                return false;
            }
            if !node.unschedulable {
                if !self.probe_drain(turn) || !self.confirmed(turn, &[Phase::Pre]) {
                    return false;
                }
                self.cordon(turn, 0);
                return false;
            }
            let mut journal = Journal::open(turn.change, self.now);
            journal.enter(Step::Cordoned, None);
            self.write(journal);
            self.say_turn(turn, Step::Cordoned, Why::new(Reason::Draining, "it is cordoned"));
            return false;
        };
        // Also after the drain: the last rules may take hours, and an open node is not upgraded.
        let times = mark::cordoned_by(node).map_or(0, |mark| mark.corrections);
        let was_drained = turn.entered(Step::Drained).is_some();
        if !node.unschedulable {
            if times >= MAX_CORRECTIONS {
                let message = format!(
                    "Node {}: someone uncordoned it {} times; cordon it, or skip it",
                    node.name,
                    times + 1
                );
                self.say_turn(turn, Step::Cordoned, Why::new(Reason::ForeignWriter, message));
                return false;
            }
            if closed.is_none() {
                self.cordon(turn, times + 1);
                return false;
            }
        }
        if was_drained && times == 0 {
            return true;
        }
        let Some(options) = self.intent.drain.clone() else {
            // Cordoned is all that was asked.
            return true;
        };
        let Some(found) = drain::drain(self.observed, node, &options, cordoned, (self.answers, self.now))
        else {
            let why = Why::new(Reason::Draining, "its pods are being listed");
            self.say_turn(turn, Step::Cordoned, why);
            return false;
        };
        if let Some(at) = found.wake_at {
            self.out.wake(at);
        }
        self.out.questions.extend(found.question);
        if closed.is_none() {
            for eviction in found.evict {
                self.out.actions.push(Planned {
                    chain: format!("evict {}", eviction.uid),
                    action: Action::Evict {
                        node: node.name.clone(),
                        eviction,
                    },
                    event: None,
                });
            }
        }
        let Some(why) = found.why else {
            if was_drained {
                return true;
            }
            let mut journal = Journal::open(turn.change, self.now);
            journal.enter(Step::Drained, None);
            self.write(journal);
            self.say_turn(turn, Step::Drained, Why::new(Reason::Drained, "it is drained"));
            return false;
        };
        let why = match (
            closed,
            options
                .timeout_seconds
                .map(|limit| (limit, later(cordoned, limit))),
        ) {
            (Some(closed), _) => closed.clone(),
            (None, Some((limit, end))) if self.now >= end => {
                let message = format!(
                    "drain did not complete within {limit} s (spec.drain.timeout), it goes on: {}",
                    why.message
                );
                Why::new(Reason::DrainTimeout, message)
            }
            (None, Some((_, end))) => {
                self.out.wake(end);
                why
            }
            (None, None) => why,
        };
        self.say_turn(turn, Step::Cordoned, why);
        false
    }

    /// Looks a last time for what would keep the drain from passing, where that is asked for; true if there is nothing.
    fn probe_drain(&mut self, turn: &Turn<'a>) -> bool {
        let Some(options) = self.intent.drain.clone().filter(|options| options.probe) else {
            return true;
        };
        match probe::look(self.observed, turn.node, &options, (self.answers, self.now)) {
            Look::Passes => return true,
            Look::Blocked(words) => {
                self.out.wake(later(self.now, PROBE_SECONDS));
                self.close(turn, Step::PreRules, Why::new(Reason::DrainBlocked, words));
                return false;
            }
            Look::Asks(question) => self.out.questions.push(question),
            Look::Unknown => {}
        }
        let why = Why::new(Reason::Draining, "its evictions are being tried by dry run");
        self.say_turn(turn, Step::PreRules, why);
        false
    }

    fn cordon(&mut self, turn: &Turn<'a>, corrections: u32) {
        let node = turn.node;
        let mut patch = NodePatch::of(node, NodePurpose::Cordon);
        let known = mark::cordoned_by(node).filter(|mark| mark.owner == self.view.uid);
        let mark = CordonedBy {
            owner: self.view.uid.clone(),
            // Who uncordons a node takes back the cordon of before, too.
            prior: known.is_some_and(|mark| mark.prior && node.unschedulable),
            taints: Vec::new(),
            corrections,
            done: true,
        };
        patch.annotations.push(Change {
            key: marks::CORDONED_BY.to_owned(),
            from: node.annotations.get(marks::CORDONED_BY).cloned(),
            to: Some(mark::render(&mark)),
        });
        patch.unschedulable = Some(true);
        patch.while_unschedulable = Some(false);
        self.act(&node.name, Action::PatchNode(patch), None);
        let why = Why::new(Reason::Draining, "it is being cordoned");
        self.say_turn(turn, Step::Cordoned, why);
    }

    /// A Job of the turn has begun. If its node is out of reach before any kubelet took it up, the turn is closed;
    /// otherwise it is waited for, and people hear how to go on without the node.
    fn goes_on(&mut self, turn: &Turn<'a>, step: Step, (job, view): (&Key, &PlanJobView)) {
        let node = turn.node;
        if node.ready {
            closed::reopen(&mut self.out, turn.change, self.now);
            let why = self.upgrading(turn, job, view);
            return self.say_turn(turn, step, why);
        }
        let leave = leave_out(&node.name);
        if !view.untouched {
            let why = self.upgrading(turn, job, view);
            let message = format!("{}; Node {} is not Ready: {leave}", why.message, node.name);
            // Whatever is to start, it is for the node to come back.
            let reason = match why.reason {
                Reason::UpgradeStarting => Reason::Upgrading,
                other => other,
            };
            let why = Why::new(reason, message);
            if let Some(at) = ledger::given_up_at(node).filter(|at| *at > self.now) {
                self.out.wake(at);
                return self.say_turn(turn, step, why);
            }
            return self.say_turn(turn, step, why.ended_by(Who::ClusterAdmin));
        }
        let message = format!(
            "Node {} is not Ready, and no kubelet has taken up Job {job}",
            node.name
        );
        if self.intent.take_not_ready || turn.is_disrupted() {
            let why = Why::new(Reason::NodeNotReady, format!("{message}: {leave}"));
            return self.say_turn(turn, step, why);
        }
        self.close(turn, step, Why::new(Reason::NodeNotReady, message));
    }

    /// What the Job does, and what it waits for.
    fn upgrading(&mut self, turn: &Turn<'a>, job: &Key, view: &PlanJobView) -> Why {
        if let Some((reason, message)) = &view.trouble {
            let message = format!("Job {job} cannot start a pod: {reason}: {message}");
            return Why::new(Reason::UpgradeCannotStart, message);
        }
        let Some(runs) = &view.runs else {
            return Why::new(Reason::UpgradeStarting, format!("Job {job} starts its pod"));
        };
        if runs == "drain"
            && let Some(options) = self.intent.drain.clone()
            && turn.node.unschedulable
        {
            let found = drain::drain(
                self.observed,
                turn.node,
                &options,
                self.now,
                (self.answers, self.now),
            );
            if let Some(found) = found
                && let Some(why) = found.why
            {
                let message = format!(
                    "Job {job} drains it, {} pods are left: {}",
                    found.pending.len(),
                    why.message
                );
                return Why::new(why.reason, message);
            }
        }
        Why::new(Reason::Upgrading, format!("Job {job} runs: {runs}"))
    }

    /// The Job has begun: it is waited for, and judged.
    fn after_release(&mut self, turn: &Turn<'a>) {
        self.applies(turn.node);
        if turn.entered(Step::Changed).is_some() {
            return self.complete(turn);
        }
        let Some((job, view)) = turn.job else {
            if turn.step() == Step::Held {
                return self.say_held(turn);
            }
            return self.lose_job(turn);
        };
        match &view.ended {
            Some(JobEnd::Complete) if self.is_ungated(turn) => {
                self.note_release(turn);
                let why = Why::new(Reason::Upgrading, "its Job is complete");
                self.say_turn(turn, Step::Released, why);
            }
            Some(JobEnd::Complete) => self.complete(turn),
            Some(end) => self.failed(turn, (job, view), end),
            None if view.deleting => {
                let why = Why::new(Reason::JobBeingDeleted, format!("Job {job} is being deleted"));
                self.say_turn(turn, Step::Released, why);
            }
            None if turn.entered(Step::Released).is_none() => {
                self.note_release(turn);
                let why = self.upgrading(turn, job, view);
                self.say_turn(turn, Step::Released, why);
            }
            None => self.goes_on(turn, Step::Released, (job, view)),
        }
    }

    /// Holds the node: its Job has begun and is gone, and nobody has seen its end.
    fn lose_job(&mut self, turn: &Turn<'a>) {
        let message = format!(
            "the Job of Node {} is gone, and nothing tells how it ended; `numo retry` runs it again, `numo skip` leaves the node out",
            turn.node.name
        );
        self.hold_node(turn, Why::new(Reason::JobLost, message), None);
    }

    /// Journals that the Job has begun, and on which boot.
    fn note_release(&mut self, turn: &Turn<'a>) {
        let why = self.is_ungated(turn).then(|| {
            let words = let_go_by_other(&self.intent.rules, &turn.change.status);
            Why::new(Reason::Ungated, words)
        });
        let mut journal = Journal::open(turn.change, self.now);
        journal.status.pin = Some(self.pinned(turn));
        journal.enter(Step::Released, why.as_ref());
        if let Some(why) = &why {
            let all = &mut self.out.report.ungated;
            all.insert(turn.node.name.clone(), why.message.to_string());
        }
        let event = why.map(|why| Event {
            node: Some(turn.node.name.clone()),
            warning: true,
            reason: "Ungated",
            action: EventAction::Release,
            note: why.message.to_string(),
        });
        self.out.actions.extend(journal.planned(event));
    }

    /// Whether a Job that has begun was begun by somebody else, before the rules of the node had passed.
    fn is_ungated(&self, turn: &Turn<'a>) -> bool {
        turn.entered(Step::Released).is_none()
            && not_passed(&self.intent.rules, &turn.change.status).is_some()
    }

    /// The Job failed: what counts is what is true of the node. A reboot may have cut it short.
    fn failed(&mut self, turn: &Turn<'a>, (job, view): (&Key, &PlanJobView), end: &JobEnd) {
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
        let rebooted = pin.boot_id.as_deref().is_some_and(|boot| boot != node.boot_id);
        let entries = &turn.change.status.entries;
        let reboots = entries
            .iter()
            .filter(|entry| entry.reason.as_deref() == Some(Reason::Rebooted.name()))
            .count();
        // It may have rebooted while no numo ran to see its Job begin: that is asked once.
        let unseen = pin.boot_id.is_none() && turn.entered(Step::Released).is_none() && !view.prepares;
        if (rebooted && reboots < REBOOTS) || (unseen && reboots == 0) {
            let message = if rebooted {
                format!(
                    "Node {} rebooted under Job {job}, which runs once more",
                    node.name
                )
            } else {
                format!(
                    "nobody saw Job {job} begin on Node {}: it runs once more",
                    node.name
                )
            };
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
        let tried = usize::try_from(turn.change.status.attempt.max(1)).unwrap_or(1) - 1;
        let by_itself = usize::try_from(self.intent.retries).unwrap_or(0);
        if tried.saturating_sub(reboots) < by_itself {
            return self.again(turn, &Why::new(Reason::JobFailed, message));
        }
        let log_tail = evidence.log_tail.clone();
        self.hold_node(turn, Why::new(Reason::JobFailed, message), log_tail);
    }

    /// The Job is complete: the node is put back as it was, and its turn ends when it is Ready, its rules have passed and
    /// every delay is over.
    fn complete(&mut self, turn: &Turn<'a>) {
        let node = turn.node;
        if let Some(why) = self.gate_lost() {
            return self.say_turn(turn, Step::Changed, why);
        }
        if turn.step() == Step::Held {
            return self.say_held(turn);
        }
        let asks = |phase| {
            let mut rules = self.intent.rules.iter().filter_map(|(_, rule)| *rule);
            rules.any(|rule| rule.runs_in(phase))
        };
        let (before, after) = (asks(Phase::BeforeUncordon), asks(Phase::Post));
        let ended = turn.job.and_then(|(_, job)| job.ended_at);
        let changed = turn
            .entered(Step::Changed)
            .and_then(|entry| journal::time(Some(&entry.at)));
        let since = ended.or(changed).unwrap_or(self.now);
        let delay = later(since, self.intent.delay_seconds);
        let delays = self.now < delay || self.intent.soak_seconds > 0;
        // Labels that no administrator has listed are refused: no node stays cordoned for them.
        let mut wanted = self.view.spec.post_complete_labels.iter().flatten();
        let labels_later = after || delays || wanted.any(|(key, _)| *key != self.label);
        if (!node.ready || before || labels_later) && changed.is_none() {
            // The Job may be gone before the turn is over.
            let mut journal = Journal::open(turn.change, self.now);
            journal.enter(Step::Changed, None);
            self.write(journal);
            if let Some(planned) = self.out.actions.last_mut()
                && self.now < delay
            {
                let note = format!(
                    "Job completed on Node {}, waiting {} PostCompleteDelay",
                    node.name,
                    super::duration::seconds_text(self.intent.delay_seconds)
                );
                planned.event = Some(said("JobCompleteWaiting", EventAction::Change, note));
            }
            let why = Why::new(Reason::Upgrading, "its Job is complete");
            return self.say_turn(turn, Step::Changed, why);
        }
        if !node.ready {
            let message = format!(
                "its Job is complete, Node {} is not Ready: {}",
                node.name,
                leave_out(&node.name)
            );
            return self.say_turn(turn, Step::Changed, Why::new(Reason::NodeNotReady, message));
        }
        let cordon = mark::cordoned_by(node).filter(|mark| mark.owner == self.view.uid);
        if before && cordon.is_some() && !self.passed(turn, Phase::BeforeUncordon, Step::Ready, None) {
            return;
        }
        if labels_later && let Some(mark) = cordon {
            let mut patch = NodePatch::of(node, NodePurpose::Uncordon);
            uncordon(&mut patch, node, mark.prior);
            self.act(&node.name, Action::PatchNode(patch), None);
            let why = Why::new(Reason::GivingBack, "it is being uncordoned");
            return self.say_turn(turn, Step::Uncordoned, why);
        }
        if after && !self.passed(turn, Phase::Post, Step::PostRules, None) {
            return;
        }
        if self.now < delay {
            self.out.wake(delay);
            let message =
                format!("its Job is complete, it counts as done at {delay} (spec.postCompleteDelay)");
            return self.say_turn(
                turn,
                Step::Uncordoned,
                Why::new(Reason::CompleteDelay, message).until(delay),
            );
        }
        if !self.soak(turn, since) {
            return;
        }
        let hash = if turn.is_current {
            self.hash.clone()
        } else {
            turn.hash.to_owned()
        };
        let version = turn.change.spec.target.version.clone();
        let mut labels = vec![(label(&self.view.key.name), hash.clone())];
        let more = self.view.spec.post_complete_labels.iter().flatten();
        let more = more.filter(|(key, _)| **key != self.label);
        labels.extend(more.map(|(key, value)| (key.clone(), filled(value, &hash, &version))));
        self.finish(turn, &labels);
    }

    /// Keeps the turn for `soakSeconds` after the last verdict, or else the change; true once they are over.
    fn soak(&mut self, turn: &Turn<'a>, since: Timestamp) -> bool {
        if self.intent.soak_seconds == 0 {
            return true;
        }
        let last = turn.change.status.verdicts.last();
        let last = last.and_then(|verdict| journal::time(Some(&verdict.at)));
        let end = later(since.max(last.unwrap_or(since)), self.intent.soak_seconds);
        if self.now >= end {
            return true;
        }
        self.out.wake(end);
        let message = format!("it keeps its turn until {end} (soakSeconds)");
        self.say_turn(turn, Step::Soaked, Why::new(Reason::Soaking, message).until(end));
        false
    }

    /// The last writes of a turn: labels, what was there before, the journal, the lease.
    fn finish(&mut self, turn: &Turn<'a>, labels: &[(String, String)]) {
        let node = turn.node;
        let mut patch = restoring(node, &self.view.uid, NodePurpose::Uncordon);
        let directive = turn.change.spec.directive.as_ref();
        // Labels of the Plan's own may be refused for ever: who gives the node back does not wait for them.
        let is_left = self.leaving.is_some()
            || directive.is_some_and(|directive| directive.action == DirectiveAction::Skip);
        for (key, value) in labels.iter().filter(|(key, _)| !is_left || *key == self.label) {
            let is_there = node.labels.get(key) == Some(value);
            // Somebody has left the node out of the Plan meanwhile.
            let is_disabled = *key == self.label && node.label(key) == marks::PLAN_DISABLED;
            if is_there || is_disabled || *key == self.label && value.is_empty() {
                continue;
            }
            patch.labels.push(Change {
                key: key.clone(),
                from: node.labels.get(key).cloned(),
                to: Some(value.clone()),
            });
        }
        if !patch.labels.is_empty() || !patch.annotations.is_empty() {
            let event = (!labels.is_empty()).then(|| {
                let note = format!("Job completed on Node {}", node.name);
                said("JobComplete", EventAction::Complete, note)
            });
            self.act(&node.name, Action::PatchNode(patch), event);
        }
        let due = machine::remediation_unshields(self.observed, &self.view.uid, |of| of == node.name);
        self.out.actions.extend(due);
        let mut journal = Journal::open(turn.change, self.now);
        journal.enter(Step::Done, None);
        self.write(journal);
        self.release_lease(node);
        let why = Why::new(Reason::Done, "its Job is complete");
        self.say_turn(turn, Step::Done, why);
    }
}
