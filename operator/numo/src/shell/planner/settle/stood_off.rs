//! Owners that are left to another operator, which numo replaces and which runs: their status is the other's. It is told once that numo
//! leaves one, and again while nodes are in flight; numo's own last words on the object are taken back, and nothing else is written.

use crate::shell::planner::{context::Context, wakes::Wakes};
use crate::shell::status;
use jiff::{SignedDuration, Timestamp};
use numo_api::Reason;
use numo_core::{
    Decision, Owner,
    action::{Event, EventAction},
    report::Report,
};
use std::collections::{BTreeMap, BTreeSet};

/// How often it is told again that nodes in flight stand still beside another operator.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// Nodes in flight that are named.
const NODES_SHOWN: usize = 10;
/// How often numo corrects its own conditions on an object that another operator has in hand.
const CORRECTIONS: u8 = 3;
/// How long after a correction that could not be written.
const CORRECT_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// Owners that are left to another operator.
#[derive(Debug, Default)]
pub struct StoodOff(BTreeMap<Owner, Left>);

/// An owner that is left to another operator.
#[derive(Clone, Debug, Default)]
struct Left {
    /// When that was told.
    told: Option<Timestamp>,
    /// How often numo's own conditions were corrected.
    corrections: u8,
}

impl StoodOff {
    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.0.retain(|owner, _| owners.contains(owner));
    }

    /// Leaves the owner to another operator if the decision says so; true if it is left.
    pub async fn leave(
        &mut self,
        context: &mut Context,
        wakes: &mut Wakes,
        (owner, uid): (&Owner, &str),
        decision: &Decision,
    ) -> bool {
        let hold = decision.report.hold.as_ref();
        let Some(why) = hold.filter(|why| why.reason == Reason::ForeignController) else {
            self.0.remove(owner);
            return false;
        };
        // The metrics must not freeze at their last word.
        let reason = Reason::ForeignController.name();
        context.show(owner, decision, (Some(reason), true));
        let flying = in_flight(&decision.report);
        let message = words(&why.message, &flying);
        if self.begin_telling(wakes, owner, !flying.is_empty(), context.now()) {
            let event = Event {
                node: None,
                warning: true,
                reason,
                action: EventAction::Hold,
                note: message.clone(),
            };
            context.publish(owner, event);
        }
        self.correct(context, wakes, (owner, uid), &message).await;
        true
    }

    /// Whether it is told now that the owner is left, and when that is told again. It is told once, and again and again while nodes
    /// are in flight.
    fn begin_telling(&mut self, wakes: &mut Wakes, owner: &Owner, flies: bool, now: Timestamp) -> bool {
        let left = self.0.entry(owner.clone()).or_default();
        let again = left.told.and_then(|at| at.checked_add(AGAIN).ok());
        let is_due = again.is_none_or(|again| flies && again <= now);
        let told = left.told.filter(|_| !is_due).unwrap_or(now);
        left.told = Some(told);
        if flies && let Ok(next) = told.checked_add(AGAIN) {
            wakes.wake_by(owner, next);
        }
        is_due
    }

    /// Takes numo's own last words on the object back, a few times: the rest of the status is the other operator's.
    async fn correct(
        &mut self,
        context: &mut Context,
        wakes: &mut Wakes,
        (owner, uid): (&Owner, &str),
        message: &str,
    ) {
        let ready = context.store.ready_of(owner);
        let misleads = ready.is_some_and(|reason| reason != Reason::ForeignController.name());
        let corrections = self.0.get(owner).map_or(0, |left| left.corrections);
        if !misleads || corrections >= CORRECTIONS || !context.fence.holds() {
            return;
        }
        if let Some(left) = self.0.get_mut(owner) {
            left.corrections += 1;
        }
        let (connection, store) = (&context.connection, &mut context.store);
        match status::write_stood_off(connection, store, owner, uid, message).await {
            Ok(()) => context.metrics.wrote("WriteStatus", "ok"),
            Err(error) => {
                tracing::warn!(%owner, %error, "the status was not written");
                context.metrics.wrote("WriteStatus", "failed");
                wakes.wake_by(owner, context.now() + CORRECT_AGAIN);
            }
        }
    }
}

/// The nodes that have their turn, with their steps.
fn in_flight(report: &Report) -> Vec<String> {
    let nodes = report.nodes.iter();
    let flying = nodes.filter(|(_, node)| node.in_flight());
    flying
        .map(|(name, node)| format!("{name} ({})", node.step.name()))
        .collect()
}

/// Why an owner is left to another operator, and which nodes numo still has in hand.
fn words(why: &str, flying: &[String]) -> String {
    if flying.is_empty() {
        return why.to_owned();
    }
    let shown = flying
        .iter()
        .take(NODES_SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = if flying.len() > NODES_SHOWN { ", …" } else { "" };
    format!(
        "{why}; numo begins nothing and keeps what it had in flight: {shown}{more}; `numo explain NODE` has the way back of each"
    )
}
