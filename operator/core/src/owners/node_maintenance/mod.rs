//! The decision for one NodeMaintenance: its node is cordoned and drained, kept so while the object exists, and put
//! back as it was when it is deleted. Nothing here reads or writes anything.
//!
//! The parts of a pass are those of `decide.rs`, the steps of the node those of `turn/steps.rs`. Behaviour and words as in node-maintenance-operator (`spec/node-maintenance.md` §2); what is otherwise is in the table of
//! deviations in docs/maintenance.md.

mod intent;
mod keep;
mod known;
mod lease;
mod leave;
mod lint;
mod made_for_other;
mod node;
mod pass;
mod phases;
mod turn;
mod waiting;
mod waves;

use crate::{
    action::{Event, EventAction},
    admit::{
        gates::{self, Gate},
        queue,
    },
    decision::{Decision, Snapshot},
    finalizer, ledger,
    observed::{ChangeView, ForeignController, MaintenanceView, NodeView, Observed},
    owner::{MaintenanceGroup, OwnerKind},
    quorum,
    report::{MaintenancePhase, MaintenanceReport, RunPhase},
    turn::{
        closed, contradiction, cordon, journal,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use known::{MAX_LEASE_ERRORS, last_phase, place, was_given_up};
use numo_api::{Reason, Step, plan::PLAN_GROUP};
use waiting::Waiting;

pub(crate) use lint::Lint;
pub(crate) use pass::Pass;

pub use crate::turn::cordon::MAX_CORRECTIONS;
pub use intent::{inadmissible, invalid, rules_of, schedule};
pub(crate) use known::changes;
pub use known::{id, reservation};

impl<'a> Pass<'a> {
    /// What is known of a NodeMaintenance of this group at the beginning of the pass.
    pub(crate) fn of(
        snapshot: &Snapshot<'a>,
        (view, group): (&'a MaintenanceView, MaintenanceGroup),
        answers: &'a Answers,
    ) -> Self {
        let observed = snapshot.observed;
        let node = in_hand(view, observed).or_else(|| left_behind(view, observed));
        let node = node.unwrap_or(&view.spec.node_name);
        let mut out = Decision::default();
        out.report.phase = RunPhase::Active;
        Self {
            now: snapshot.now,
            observed,
            view,
            node,
            group,
            id: id(&view.uid),
            asked: snapshot.asked == Some(node),
            intent: intent::parse(view, observed),
            answers,
            out,
            report: MaintenanceReport {
                phase: last_phase(view),
                adopted: intent::is_adopted(view, observed),
                ..MaintenanceReport::default()
            },
            over: false,
        }
    }

    /// A turn of the node that cannot be, as journals tell of it, and why. What is over is given back all the same.
    fn doubt(&self, node: &NodeView) -> Option<(&'a ChangeView, Why)> {
        if self.view.deleting {
            return None;
        }
        let turns =
            || changes(self.observed, &self.view.uid).filter(|change| self.observed.is_under_way(change));
        let misnamed = turns().find_map(|change| {
            let (of, why) = contradiction::misnamed(self.observed, change)?;
            (of.name == node.name).then_some((change, why))
        });
        let twice = || {
            let mut twice = contradiction::twice(turns());
            Some((self.turn()?, twice.remove(node.uid.as_str())?))
        };
        misnamed.or_else(twice)
    }

    /// The turn of the maintenance, if it has one.
    fn turn(&self) -> Option<&'a ChangeView> {
        changes(self.observed, &self.view.uid).find(|change| self.observed.is_under_way(change))
    }
}

impl crate::pass::Pass for Pass<'_> {
    /// The operator that numo replaces is live, and numo has nothing in hand; or the object names another node by now.
    fn refuse(&mut self) -> Next {
        let rival = self.observed.stood_off(ForeignController::NodeMaintenance);
        if let Some(why) = rival.filter(|_| self.turn().is_none()) {
            self.out.report.phase = RunPhase::Refused;
            self.report.error.clone_from(&self.view.status.last_error);
            self.out.report.hold = Some(why);
        } else if let Some(why) = made_for_other::made_for_other(self.observed, self.view)
            .filter(|_| !self.view.deleting && self.turn().is_none())
        {
            self.out.report.phase = RunPhase::Refused;
            self.report.error.clone_from(&self.view.status.last_error);
            self.out.report.hold = Some(why);
        } else if !self.view.deleting && self.node != self.view.spec.node_name {
            let message = format!(
                "updating spec.NodeName isn't allowed: found {}, Node {} is in maintenance; set it back, or delete the object",
                self.view.spec.node_name, self.node
            );
            let why = Why::new(Reason::InvalidField, message);
            let turn = self.turn().zip(self.observed.nodes.get(self.node));
            if turn.is_some_and(|(change, node)| !self.is_disrupted(node, change)) {
                // Like any gate it closes the turn, which ends after a while.
                self.intent.problem = Some(why);
                return ON;
            }
            self.say(Step::Held, why, None);
            // Another operator would take a node that is closed.
            if let Some((_, node)) = turn {
                self.keep_lease(node);
            }
        } else {
            return ON;
        }
        self.free_jobs();
        STAY
    }

    fn advance_turns(&mut self) {
        let node = self.observed.nodes.get(self.node);
        if let Some((node, (change, why))) = node.and_then(|node| Some((node, self.doubt(node)?))) {
            self.keep_lease(node);
            self.say(Step::Held, why, Some(change));
            self.over = true;
            return;
        }
        self.end_orphans(node);
        if self.view.deleting {
            self.out.report.phase = RunPhase::Leaving;
        } else if self.adds_finalizer() {
            self.over = true;
            return;
        }
        let turn = self.turn().zip(node);
        let Some((change, node)) = turn.filter(|(turn, node)| turn.spec.node_uid == node.uid) else {
            return;
        };
        if self.view.deleting || other_of_node(self.view, self.observed).is_none() {
            self.advance(node, change);
            self.over = true;
        }
    }

    fn restore_rest(&mut self) {
        let node = self.observed.nodes.get(self.node);
        if self.over {
            return;
        }
        if self.view.deleting {
            // Without our finalizer there may be something left if others hold the object.
            let may_hold = self.has_finalizer() || self.turn().is_some();
            if may_hold && self.put_back(node) {
                self.remove_finalizer();
            }
            self.over = true;
        } else if let Some(node) = node.filter(|_| other_of_node(self.view, self.observed).is_none()) {
            self.over = self.restore_ended(node);
        }
    }

    fn go_on(&mut self) {
        if self.view.deleting {
            self.report.phase = last_phase(self.view);
        }
        if !self.over {
            self.begin();
        }
    }

    fn tidy(&mut self) {
        self.free_jobs();
    }

    fn finish(mut self) -> Decision {
        self.out.report.run_id.clone_from(&self.id);
        self.out.report.maintenance = Some(self.report);
        self.out
    }
}

/// The node that the maintenance has in hand, if its spec names another by now.
fn in_hand<'a>(view: &MaintenanceView, observed: &'a Observed) -> Option<&'a str> {
    let mut changes = changes(observed, &view.uid).filter(|change| observed.is_under_way(change));
    let change = changes.find(|change| change.spec.node_name != view.spec.node_name)?;
    observed.node_of(change).map(|node| node.name.as_str())
}

/// The node that still carries the cordon of a maintenance that goes, though no journal tells of it and the spec may name another one.
fn left_behind<'a>(view: &MaintenanceView, observed: &'a Observed) -> Option<&'a str> {
    if !view.deleting || changes(observed, &view.uid).any(|change| observed.is_under_way(change)) {
        return None;
    }
    let mut nodes = observed.nodes.values();
    let node = nodes.find(|node| cordon::of(node, &view.uid).is_some())?;
    Some(node.name.as_str())
}

/// Whose turn it is among the NodeMaintenances of one node: who has it, then who was first. None if this one's. One that has another node in
/// hand is none of them, whatever its spec names by now.
fn other_of_node<'a>(view: &MaintenanceView, observed: &'a Observed) -> Option<&'a MaintenanceView> {
    let node = in_hand(view, observed).unwrap_or(&view.spec.node_name);
    let has_turn =
        |one: &MaintenanceView| changes(observed, &one.uid).any(|change| observed.is_under_way(change));
    let maintenances = observed.maintenances.values();
    let mut others: Vec<_> = maintenances
        .filter(|other| other.spec.node_name == *node && other.owner != view.owner)
        .filter(|other| in_hand(other, observed).is_none())
        .filter(|other| !other.deleting || has_turn(other))
        .collect();
    let place = |one: &MaintenanceView| place(one, has_turn(one));
    others.sort_by_cached_key(|other| place(other));
    let first = others.into_iter().next()?;
    (place(first) < place(view)).then_some(first)
}

fn group_of(view: &MaintenanceView) -> &'static str {
    match view.owner.kind {
        OwnerKind::NodeMaintenance(group) => group.name(),
        OwnerKind::MutexRunConfig => numo_api::GROUP,
        OwnerKind::Plan => PLAN_GROUP,
        OwnerKind::NodeVersion => numo_api::machines::UPDATE_GROUP,
    }
}

impl Pass<'_> {
    /// Whether the maintenance has cordoned the node in its turn.
    fn is_disrupted(&self, node: &NodeView, change: &ChangeView) -> bool {
        let is_told = journal::entered(change, Step::Cordoned).is_some();
        is_told || self.cordon_of(node, Some(change), true).is_some()
    }

    fn has_finalizer(&self) -> bool {
        finalizer::is_on(&self.view.owner, self.view.into())
    }

    /// Puts the finalizer on the object, if it is not there; whether the maintenance waits for it. It is the rival's while that lives, and a
    /// node in hand waits for nobody who takes it off.
    fn adds_finalizer(&mut self) -> bool {
        if self.has_finalizer() || self.intent.is_stood_off() {
            return false;
        }
        finalizer::add(&mut self.out, (&self.view.owner, self.view.into()), "owner");
        if self.turn().is_some() {
            return false;
        }
        if let Some(added) = self.out.actions.last_mut() {
            let event = Event::normal("BeginMaintenance", EventAction::Admit, "Begin a node maintenance");
            added.event = Some(event);
        }
        let why = Why::new(Reason::Admitting, "its finalizer is being set");
        self.say(Step::Selected, why, None);
        true
    }

    /// Gives back what a turn that ended still holds, and says so; whether that is all there is to say.
    fn restore_ended(&mut self, node: &NodeView) -> bool {
        let changes = changes(self.observed, &self.view.uid);
        let change = changes
            .into_iter()
            .find(|change| change.spec.node_uid == node.uid);
        match change {
            Some(change) if change.status.step == Some(Step::Skipped) => self.stay_out(node, change),
            Some(change) if change.status.step.is_some_and(Step::is_terminal) => {
                // It was given up, and nothing is held any more.
                self.report.phase = MaintenancePhase::Failed;
                let message = change.status.message.clone().unwrap_or_default();
                let known = self.view.status.error_on_lease_count.unwrap_or(0);
                self.report.lease_errors = known.max(MAX_LEASE_ERRORS + 1);
                self.put_back(Some(node));
                let why = Why::new(Reason::NodeLeaseLost, message);
                self.say(Step::Failed, why, Some(change));
            }
            None if was_given_up(self.view) => {
                self.report.phase = MaintenancePhase::Failed;
                self.report.lease_errors = self.view.status.error_on_lease_count.unwrap_or(0);
                let message = self.view.status.last_error.clone().unwrap_or_default();
                self.say(Step::Failed, Why::new(Reason::NodeLeaseLost, message), None);
            }
            other => {
                let before = self.out.actions.len();
                // What a person says of a turn that has no step yet takes it back.
                let is_taken_back = other.is_some_and(|change| change.status.step.is_none());
                if closed::stood_back(other).is_some() || is_taken_back {
                    self.stand_back(node);
                }
                if self.out.actions.len() == before {
                    return false;
                }
                let why = Why::new(Reason::Restoring, "lease and shield are removed");
                self.say(Step::Selected, why, other);
            }
        }
        true
    }

    /// Begins the maintenance of the node, or says why not.
    fn begin(&mut self) {
        let (view, observed) = (self.view, self.observed);
        let Some(node) = observed.nodes.get(self.node) else {
            self.report.phase = MaintenancePhase::Failed;
            let message = format!("nodes \"{}\" not found", view.spec.node_name);
            self.say(Step::Failed, Why::new(Reason::NodeNotFound, message), None);
            return;
        };
        if let Some(other) = other_of_node(view, observed) {
            let message = format!(
                "invalid nodeName, a NodeMaintenance for node {} already exists: {} of {}",
                node.name,
                other.owner.key,
                group_of(other)
            );
            self.report.phase = MaintenancePhase::Running;
            self.say(Step::Selected, Why::new(Reason::NodeInMaintenance, message), None);
            return;
        }
        self.report.phase = MaintenancePhase::Running;
        let said = changes(observed, &view.uid).find(|change| change.spec.node_uid == node.uid);
        let order = self.order(node);
        self.report_order(&order);
        queue::admit(&mut Waiting {
            pass: self,
            node,
            said,
            order,
        });
    }

    /// What keeps the maintenance as a whole until its node is cordoned, worst first.
    fn of_owner(&self) -> impl Iterator<Item = Why> + use<> {
        gates::of_owner(self.intent.problem.clone(), self.intent.suspended.as_ref())
    }

    /// What a gate has against the node until it is cordoned.
    fn at_any_time(&self, node: &NodeView, gate: Gate) -> Option<Why> {
        match gate {
            Gate::Owner => self.of_owner().next(),
            Gate::Stop => ledger::stop(self.observed, node),
            Gate::Window => self.intent.schedule.closed_to(node, self.observed, self.now),
            Gate::Quorum => quorum::refusal(self.observed, node),
            // A node that is cordoned, or not Ready, is drained like any: that is what people ask a maintenance for. Who wants the
            // latter to wait says so in a MutexBinding.
            Gate::Person
            | Gate::Unread
            | Gate::Waits
            | Gate::Unfit
            | Gate::Leaving
            | Gate::Busy
            | Gate::State
            | Gate::Lease
            | Gate::Wave
            | Gate::Domain
            | Gate::Approval
            | Gate::Room
            | Gate::Budget
            | Gate::Drain => None,
        }
    }

    /// A node that is not Ready waits where a binding says so: before its cordon, and others go on.
    fn not_ready(&mut self, node: &NodeView) -> Option<Why> {
        self.intent.not_ready.wait(&mut self.out, node)
    }

    /// A node that a person has left out stays so until a person asks for it again.
    fn stay_out(&mut self, node: &NodeView, change: &ChangeView) {
        if self.retries(change) {
            return;
        }
        self.put_back(Some(node));
        self.report.phase = MaintenancePhase::Failed;
        let message = change.status.message.clone().unwrap_or_default();
        let by_policy = journal::is_for(change, Reason::SkippedByPolicy);
        let reason = if by_policy {
            Reason::SkippedByPolicy
        } else {
            Reason::SkippedByPerson
        };
        self.say(Step::Skipped, Why::new(reason, message), Some(change));
    }
}
