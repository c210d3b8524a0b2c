//! A node that is cordoned for its maintenance: it is drained, and kept so. It is never let go here.

use super::{
    node::{cordoning, has_taint, taints},
    pass::Pass,
};
use crate::{
    action::{Action, Event, EventAction},
    admit::gates::{self, Gate},
    drain, ledger,
    mark::CordonedBy,
    observed::{ChangeView, NodeView},
    owner::MaintenanceGroup,
    report::{MaintenancePhase, RunPhase},
    turn::{
        cordon::{self, MAX_CORRECTIONS},
        directive,
        journal::{self, Journal},
        own_drain, put_back,
    },
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, marks};

const fn step_of(was_drained: bool) -> Step {
    if was_drained {
        Step::Drained
    } else {
        Step::Cordoned
    }
}

/// Whether the journal says that numo no longer keeps the node closed, as others open it.
fn is_given_up(change: &ChangeView) -> bool {
    change.status.step == Some(Step::Held) && journal::is_for(change, Reason::ForeignWriter)
}

/// What somebody undid of a node that numo has closed, if anything.
fn undone(node: &NodeView, group: MaintenanceGroup) -> Option<String> {
    if !node.unschedulable {
        return Some("uncordoned it".to_owned());
    }
    let missing: Vec<&str> = taints(group)
        .into_iter()
        .filter(|key| !has_taint(&node.taints, key))
        // This one is the node controller's too: it follows spec.unschedulable by itself.
        .filter(|key| *key != marks::UNSCHEDULABLE)
        .collect();
    (!missing.is_empty()).then(|| format!("took taint {} off", missing.join(", ")))
}

pub(super) fn kept() -> Why {
    let message = "the node is kept cordoned and drained until this object is deleted";
    Why::new(Reason::InMaintenance, message)
}

impl Pass<'_> {
    /// Puts the mark of the cordon back that somebody took off: without it nobody would take the cordon off. Whether that is so.
    pub(super) fn marks_again(&mut self, node: &NodeView, change: &ChangeView, mark: &CordonedBy) -> bool {
        if cordon::of(node, &self.view.uid).is_some() || self.intent.is_stood_off() {
            return false;
        }
        self.note_taking(change);
        let step = change.status.step.unwrap_or(Step::Cordoned);
        let told = put_back::told(change, self.now);
        if let Some((why, at)) = told.filter(|(_, at)| *at > self.now) {
            self.wake(at);
            self.say(step, why, Some(change));
            return true;
        }
        self.act(Action::PatchNode(cordon::marking(node, mark)), None);
        self.out.actions.extend(put_back::counted(change, self.now));
        let message = "somebody took the mark of its cordon off, which is being put back";
        self.say(step, Why::new(Reason::Draining, message), Some(change));
        true
    }

    /// The node is cordoned by this maintenance: it is drained, and kept so.
    pub(super) fn keep_drained(&mut self, node: &NodeView, change: &ChangeView, mark: &CordonedBy) {
        // Of this attempt: what was done to the node before it was left out was given back.
        let Some(cordoned) = cordon::since(change) else {
            self.enter(change, Step::Cordoned, None);
            let why = Why::new(Reason::Draining, "it is cordoned");
            self.say(Step::Cordoned, why, Some(change));
            return;
        };
        let was_drained = journal::is_drained(change);
        if was_drained {
            self.report.phase = MaintenancePhase::Succeeded;
        }
        let stop = self.stop(node, change);
        // Beside the operator that numo replaces the node is that one's to close.
        let undone = undone(node, self.group).filter(|_| !self.intent.is_stood_off());
        if let Some(what) = undone {
            match &stop {
                None => self.correct(node, change, mark, &what),
                Some(stop) => self.leave_open(node, change, &what, stop),
            }
            return;
        }
        if (is_given_up(change) || cordon::was_opened(change)) && !self.intent.is_stood_off() {
            // Whoever opened the node has closed it again, or numo has: pods may have come meanwhile.
            self.report.phase = MaintenancePhase::Running;
            self.enter(change, Step::Cordoned, None);
            self.say(Step::Cordoned, own_drain::closed_again(), Some(change));
            return;
        }
        if let Some(why) = self.intent.of_drain.clone() {
            // Which pods are to go cannot be told.
            self.say(step_of(was_drained), why, Some(change));
            return;
        }
        self.drain(node, change, stop, (cordoned, was_drained));
    }

    /// Why nothing more is done to a node that is cordoned: that somebody has stopped it. An edit that is wrong does not.
    fn stop(&mut self, node: &NodeView, change: &ChangeView) -> Option<Why> {
        let against = gates::weigh(self.asked, |gate| match gate {
            Gate::Owner => self.intent.suspended.clone(),
            Gate::Stop => ledger::stop(self.observed, node),
            Gate::Person => directive::held(change),
            // What is disrupted is brought to its end.
            Gate::Unread
            | Gate::Waits
            | Gate::Window
            | Gate::Unfit
            | Gate::Leaving
            | Gate::Busy
            | Gate::State
            | Gate::Quorum
            | Gate::Lease
            | Gate::Wave
            | Gate::Domain
            | Gate::Approval
            | Gate::Room
            | Gate::Budget
            | Gate::Drain => None,
        });
        against.worst(&mut self.out.report)
    }

    /// Journals that a step begins.
    fn enter(&mut self, change: &ChangeView, step: Step, why: Option<&Why>) {
        let mut journal = Journal::open(change, self.now);
        journal.enter(step, why);
        self.out.actions.extend(journal.planned(None));
    }

    /// Evicts what is next, unless it is stopped, and says how the drain comes along.
    fn drain(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        stop: Option<Why>,
        (cordoned, was_drained): (Timestamp, bool),
    ) {
        let known = (self.answers, self.now);
        let options = drain::DrainOptions {
            // Once the node is drained, its volumes are nobody's concern any more.
            await_volume_detach: self.intent.drain.await_volume_detach && !was_drained,
            ..self.intent.drain.clone()
        };
        let place = (self.observed, node);
        let Some(drain) = own_drain::look(&mut self.out, place, &options, cordoned, known) else {
            if was_drained {
                self.say(Step::Drained, kept(), Some(change));
            } else {
                self.say(Step::Cordoned, own_drain::unknown(self.observed), Some(change));
            }
            return;
        };
        self.report.pods = Some((drain.pending.clone(), drain.total));
        let counted = was_drained || drain.pending.is_empty() || self.view.status.eviction_pods.is_some();
        if stop.is_none() && counted {
            own_drain::evict(&mut self.out, node, drain.evict.iter().cloned());
        } else if stop.is_none() {
            // How many there were is written before the first is gone.
            self.wake(self.now);
        }
        self.tell(change, &drain, stop, cordoned, was_drained);
    }

    /// Says how the drain comes along, and journals its end.
    fn tell(
        &mut self,
        change: &ChangeView,
        drain: &drain::Drain,
        stop: Option<Why>,
        cordoned: Timestamp,
        was_drained: bool,
    ) {
        match (&drain.why, was_drained) {
            (None, false) => {
                self.enter(change, Step::Drained, None);
                self.report.phase = MaintenancePhase::Succeeded;
                let why = Why::new(Reason::InMaintenance, "the node is cordoned and drained");
                self.say(Step::Drained, why, Some(change));
            }
            (None, true) => {
                let idle = drain.returning.is_none();
                let why = drain.returning.clone().unwrap_or_else(kept);
                self.out.report.phase = if idle { RunPhase::Idle } else { RunPhase::Active };
                self.say(Step::Drained, why, Some(change));
                // Pods that come back hold nobody up.
                self.report.error = None;
            }
            (Some(why), _) => {
                // Who comes back is worse than who is on the way out.
                let returning = drain
                    .returning
                    .clone()
                    .filter(|_| was_drained && why.reason == Reason::Draining);
                let why = stop.or(returning).unwrap_or_else(|| self.limited(why, cordoned));
                self.say(step_of(was_drained), why, Some(change));
                if was_drained {
                    self.report.error = None;
                    self.report.pods = Some((Vec::new(), drain.total));
                }
            }
        }
    }

    /// A drain that takes longer than it may is said to; it goes on.
    fn limited(&mut self, why: &Why, cordoned: Timestamp) -> Why {
        let field = format!("{}.timeoutSeconds", self.intent.drain_field);
        let limit = (&self.intent.drain, field.as_str());
        own_drain::limited(&mut self.out, why.clone(), limit, (cordoned, self.now))
    }

    /// Says that somebody has opened the node, which a stop forbids to close.
    fn leave_open(&mut self, node: &NodeView, change: &ChangeView, what: &str, stop: &Why) {
        let message = format!(
            "Node {}: someone {what}, and numo does not close it again meanwhile: the node is not kept free of pods; {}",
            node.name, stop.message
        );
        self.fail(
            change,
            Why::new(Reason::ForeignWriter, message).ended_by(stop.who()),
        );
    }

    /// Nobody may take the node for one that is in maintenance.
    fn fail(&mut self, change: &ChangeView, why: Why) {
        self.report.phase = MaintenancePhase::Failed;
        if !is_given_up(change) {
            self.enter(change, Step::Held, Some(&why));
        }
        self.say(Step::Held, why, Some(change));
    }

    /// Puts back a cordon or a taint that somebody took away, a few times.
    fn correct(&mut self, node: &NodeView, change: &ChangeView, mark: &CordonedBy, what: &str) {
        let corrections = mark.corrections.max(put_back::times(change, self.now));
        if corrections >= MAX_CORRECTIONS {
            let message = format!(
                "Node {}: someone {what}, {} times in all, and numo no longer corrects it: the node is not kept free of pods; \
                 close it again, or delete NodeMaintenance {}",
                node.name,
                corrections.saturating_add(1),
                self.view.owner.key
            );
            let why = Why::new(Reason::ForeignWriter, message);
            self.fail(change, why);
            return;
        }
        let note = format!(
            "Node {} is in maintenance and someone {what}: cordoned again",
            node.name
        );
        let event = Event::warning("CordonedAgain", EventAction::Drain, note.as_str()).on(self.node);
        let mut step = change.status.step.unwrap_or(Step::Cordoned);
        if !node.unschedulable {
            step = Step::Cordoned;
            self.report.phase = MaintenancePhase::Running;
            if !cordon::was_opened(change) {
                self.enter(change, step, Some(&own_drain::opened(node)));
            }
        }
        let patch = cordoning(node, self.view, self.group, corrections + 1);
        self.act(Action::PatchNode(patch), Some(event));
        self.say(step, Why::new(Reason::Draining, note), Some(change));
        self.report.error = None;
    }
}
