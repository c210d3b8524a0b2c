//! The statuses of owners: each is written once, at the end of a pass, if it differs. The file of a kind says what its status is and
//! which events tell of it; this file says what comes of the write, which is one for all. `others.rs` has the statuses of what is no
//! owner. Nothing here decides.

mod announce;
mod line;
mod maintenance;
mod node_version;
mod others;
mod outcome;
mod plan;
mod run;
mod stood_off;
mod transitions;
mod unwatched;

pub use others::Others;

use self::{
    maintenance::Maintenances,
    outcome::Outcome,
    plan::Plans,
    stood_off::StoodOff,
    unwatched::{Sends, Sent, Unwatched},
};
use super::{context::Context, wakes::Wakes};
use crate::shell::{events::Published, kind::kind_of, status};
use jiff::SignedDuration;
use numo_api::Reason;
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Event, EventAction},
    referred,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long after a status that could not be written.
const STATUS_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// What is known of the statuses of owners beside the statuses themselves.
#[derive(Debug, Default)]
pub struct Statuses {
    plans: Plans,
    maintenances: Maintenances,
    stood_off: StoodOff,
    unwatched: Unwatched,
    /// Statuses that the API server refuses, and in which words that was told.
    refused: BTreeMap<Owner, String>,
}

impl Statuses {
    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.plans.keep_only(owners);
        self.stood_off.keep_only(owners);
        self.maintenances.keep_only(owners);
        self.refused.retain(|owner, _| owners.contains(owner));
    }

    /// The next status of an unwatched owner that the API server has answered; never, while none is under way. Nothing is lost if it is
    /// not waited for to the end.
    pub async fn answered(&mut self) -> Sent {
        self.unwatched.answered().await
    }

    /// Takes in what the API server answered. An owner that was decided again meanwhile is looked at once more.
    pub fn take_in(&mut self, context: &mut Context, wakes: &mut Wakes, sent: Sent) {
        let Sent { owner, decision, .. } = sent;
        let now = context.now();
        match status::keep(&mut context.store, kind_of(&owner), sent.answer) {
            Ok(()) => {
                if sent.is_old {
                    wakes.wake_by(&owner, now);
                }
                self.note_written(context, &owner, sent.events);
            }
            Err(error) => {
                wakes.wake(owner.clone(), now + STATUS_AGAIN);
                self.note_failed(context, &owner, &decision, &error);
            }
        }
    }

    /// Shows what was decided of an owner, and writes its status if that differs; an unwatched owner's is only sent. Whether the status is
    /// there now as it was decided, or as much of it as the definition of the owner stores.
    pub async fn settle(
        &mut self,
        context: &mut Context,
        wakes: &mut Wakes,
        owner: &Owner,
        decision: &Decision,
    ) -> bool {
        let Some(uid) = context.store.observed.uid_of(owner).map(ToOwned::to_owned) else {
            return false;
        };
        let stood_off = &mut self.stood_off;
        if stood_off.leave(context, wakes, (owner, &uid), decision).await {
            return false;
        }
        if !referred::is_watched(owner, &context.store.observed) {
            if self.unwatched.send(context, owner, &uid, decision) == Sends::Waits {
                wakes.wake_again(vec![owner.clone()], context.now());
            }
            return false;
        }
        let outcome = match owner.kind {
            OwnerKind::MutexRunConfig => run::write(context, owner, decision).await,
            OwnerKind::NodeMaintenance(_) => self.maintenances.write(context, owner, decision).await,
            OwnerKind::Plan => self.plans.write(context, owner, decision).await,
            OwnerKind::NodeVersion => node_version::write(context, owner, decision).await,
        };
        let is_written = matches!(outcome, Outcome::Same | Outcome::Written { .. });
        match outcome {
            Outcome::Same => {}
            Outcome::Withheld => wakes.wake_again(vec![owner.clone()], context.now()),
            Outcome::Later(at) => wakes.wake_by(owner, at),
            Outcome::Failed(error) => {
                wakes.wake(owner.clone(), context.now() + STATUS_AGAIN);
                self.note_failed(context, owner, decision, &error);
            }
            Outcome::Written { events, again } => {
                if let Some(again) = again {
                    wakes.wake_by(owner, again);
                }
                wakes.note_change(context.store.take_news());
                self.note_written(context, owner, events);
            }
        }
        is_written
    }

    fn note_written(&mut self, context: &Context, owner: &Owner, events: Vec<Published>) {
        context.metrics.wrote("WriteStatus", "ok");
        self.refused.remove(owner);
        for published in events {
            context.events.publish(published);
        }
    }

    /// A status was not written: it is tried again. One that is refused is told once by an event, as no condition can tell it,
    /// and the metrics have the owner wait for a person.
    fn note_failed(&mut self, context: &Context, owner: &Owner, decision: &Decision, error: &kube::Error) {
        tracing::warn!(%owner, %error, "the status was not written");
        let Some(words) = status::refusal(error) else {
            context.metrics.wrote("WriteStatus", "failed");
            return;
        };
        context.metrics.wrote("WriteStatus", "refused");
        let reason = Reason::WriteRefused.name();
        context.show(owner, decision, (Some(reason), true));
        let note = format!("the status of {owner} is refused {words}");
        let event = Event {
            node: None,
            warning: true,
            reason,
            action: EventAction::Hold,
            note: note.clone(),
        };
        if self.refused.insert(owner.clone(), note.clone()) != Some(note) {
            context.publish(owner, event);
        }
    }
}
