//! When, in what order and with whose word an owner's nodes begin: its hours, the wave under way, and what waits for approval. Printed as
//! decided; nothing here decides.

use crate::cli::live::Look;
use jiff::Timestamp;
use numo_api::{Condition, Reason, conditions::types};
use numo_core::{
    Owner,
    calendar::Calendar,
    report::{ApprovalReport, WaveReport},
};
use serde::Serialize;

/// The wave under way, in words and in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaveLine {
    #[serde(skip)]
    pub(super) words: String,
    pub(super) number: usize,
    pub(super) of: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) nodes: usize,
    pub(super) done: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) soak_until: Option<String>,
    pub(super) notes: Vec<String>,
}

impl WaveLine {
    pub(super) fn of(wave: &WaveReport) -> Self {
        Self {
            words: wave.to_string(),
            number: wave.number,
            of: wave.of,
            name: wave.name.clone(),
            nodes: wave.nodes,
            done: wave.done,
            soak_until: wave.soak_until.map(|at| at.to_string()),
            notes: wave.notes.clone(),
        }
    }
}

/// How hours of an owner stand.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HoursLine {
    /// What has them, such as `spec.window`.
    pub(super) name: String,
    pub(super) open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closes_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) opens_at: Option<Timestamp>,
    #[serde(skip)]
    pub(super) words: String,
}

impl HoursLine {
    pub(super) fn of(look: &Look, owner: &Owner) -> Vec<Self> {
        let standing = Calendar::of(owner, &look.store.observed).standing(look.now);
        let each = standing.into_iter().map(|one| Self {
            name: one.name,
            open: one.is_open,
            closes_at: one.closes,
            opens_at: one.opens,
            words: one.words,
        });
        each.collect()
    }
}

/// What waits for a MutexApproval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApprovalLine {
    pub(super) waits: String,
    pub(super) reason: Reason,
    pub(super) digest: String,
}

impl ApprovalLine {
    pub(super) fn of(waits: &ApprovalReport) -> Self {
        Self {
            waits: waits.point.to_string(),
            reason: waits.why.reason,
            digest: waits.digest.clone(),
        }
    }
}

/// The same in lines for people. Who waits for no hours gives none.
pub(super) fn lines(
    hours: &[HoursLine],
    wave: Option<&WaveLine>,
    approval: Option<&ApprovalLine>,
) -> Vec<String> {
    let hours = hours.iter();
    let hours = hours.map(|hours| format!("hours   {}: {}", hours.name, hours.words));
    let notes = wave.into_iter().flat_map(|wave| &wave.notes);
    let notes = notes.map(|note| format!("waves   {note}"));
    let wave = wave.map(|wave| format!("wave    {}", wave.words));
    let approval = approval.map(|approval| format!("waits   for approval of {}", approval.waits));
    hours.chain(wave).chain(notes).chain(approval).collect()
}

/// When the status of the condition Ready last changed: since when an owner is done, or is not.
pub(super) fn ready_since(conditions: &[Condition]) -> Option<String> {
    let mut all = conditions.iter();
    let ready = all.find(|condition| condition.type_ == types::READY);
    ready.and_then(|ready| ready.last_transition_time.clone())
}
