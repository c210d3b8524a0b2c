//! What became of MutexApprovals, for their statuses. One that approves nothing is also told once by an event on it, soon after it was
//! made, as its author looks nowhere else. Nothing here decides, and no approval is touched.

use super::{context::Context, wakes};
use crate::shell::{events::Published, kind::Kind};
use jiff::Timestamp;
use numo_api::Reason;
use numo_core::{
    Owner,
    action::{Event, EventAction},
    observed::{ApprovalView, Key},
    report::Report,
    unheard::{self, NEW, Standing, Waits},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// How long an approval is given to be heard: what it is for may be seen a moment after it.
const GRACE: Duration = Duration::from_secs(3);

/// The approvals that were not heard yet, and those that were dealt with.
#[derive(Debug, Default)]
pub struct Unheard {
    /// By uid: why it approves nothing, and since when that is so.
    waiting: BTreeMap<String, (Key, String, Instant)>,
    /// uids of those that were heard, or told.
    dealt_with: BTreeSet<String>,
    /// By uid: how each approval stands, as it was decided last.
    standings: BTreeMap<String, Standing>,
}

impl Unheard {
    /// Notes the approvals of an owner that it does not go by. The decision was made with all approvals that are seen.
    pub fn note(&mut self, context: &Context, owner: &Owner, report: &Report) {
        let observed = &context.store.observed;
        if observed.approvals.is_empty() {
            return;
        }
        let (named, now) = (owner.approved(), context.now());
        let waits = report.approval.as_ref();
        let what = waits.map(|waits| waits.point.to_string());
        let waits = match (waits, &what) {
            (Some(waits), Some(what)) => Waits::For {
                what,
                digest: &waits.digest,
                is_expired: waits.why.reason == Reason::ApprovalExpired,
            },
            _ => Waits::Nothing,
        };
        for view in observed
            .approvals
            .values()
            .filter(|view| view.spec.owner == named)
        {
            self.stand(context, view, Some(report), now);
            if report.approved.iter().any(|given| given.name == view.name) {
                self.waiting.remove(&view.uid);
                self.dealt_with.insert(view.uid.clone());
            } else {
                self.weigh(view, &waits, now);
            }
        }
    }

    /// Notes the approvals of owners that are not there, and forgets those that are gone.
    pub fn note_lost(&mut self, context: &Context) {
        let observed = &context.store.observed;
        let uids = observed.approvals.values().map(|view| view.uid.as_str());
        let uids: BTreeSet<&str> = uids.collect();
        self.dealt_with.retain(|uid| uids.contains(uid.as_str()));
        self.waiting.retain(|uid, _| uids.contains(uid.as_str()));
        self.standings.retain(|uid, _| uids.contains(uid.as_str()));
        if uids.is_empty() {
            return;
        }
        let (owners, now) = (wakes::owners(observed), context.now());
        for view in observed.approvals.values() {
            if !owners.iter().any(|owner| owner.approved() == view.spec.owner) {
                self.stand(context, view, None, now);
                self.weigh(view, &Waits::Nowhere, now);
            }
        }
    }

    /// How approvals stand, by uid.
    pub const fn standings(&self) -> &BTreeMap<String, Standing> {
        &self.standings
    }

    /// Notes how an approval stands. While approvals cannot be listed nobody knows.
    fn stand(&mut self, context: &Context, view: &ApprovalView, report: Option<&Report>, now: Timestamp) {
        if context.store.observed.unlisted.contains_key("mutexapprovals") {
            return;
        }
        let before = self.standings.remove(&view.uid).or_else(|| Standing::told(view));
        let standing = unheard::standing(view, report, before.as_ref(), now);
        self.standings.insert(view.uid.clone(), standing);
    }

    /// Notes why an approval is not heard, as it stands now.
    fn weigh(&mut self, view: &ApprovalView, waits: &Waits<'_>, now: Timestamp) {
        let is_new = now.duration_since(view.created) <= NEW;
        let is_told = self.dealt_with.contains(&view.uid);
        let why = unheard::why(&view.spec, waits).filter(|_| is_new && !is_told && !view.deleting);
        let before = self.waiting.remove(&view.uid);
        if let Some(why) = why {
            let since = before.map_or_else(Instant::now, |(_, _, since)| since);
            let one = (Key::new("", &view.name), why, since);
            self.waiting.insert(view.uid.clone(), one);
        }
    }

    /// When the next one is told.
    pub fn next(&self) -> Option<Duration> {
        let first = self.waiting.values().map(|(_, _, since)| *since).min()?;
        Some((first + GRACE).saturating_duration_since(Instant::now()))
    }

    /// Tells of those that were given their time.
    pub fn tell(&mut self, context: &Context) {
        let now = Instant::now();
        let is_due = |_: &String, one: &mut (Key, String, Instant)| now >= one.2 + GRACE;
        let due: Vec<_> = self.waiting.extract_if(.., is_due).collect();
        for (uid, (key, why, _)) in due {
            self.dealt_with.insert(uid.clone());
            let note = format!("it approves nothing: {why}; `numo approve --list -A` shows what waits");
            tracing::warn!(approval = key.name, note, "an approval approves nothing");
            let (group, version, kind, _) = Kind::MutexApproval.resource();
            context.events.publish(Published {
                api_version: format!("{group}/{version}"),
                kind,
                owner: key,
                owner_uid: uid,
                pool: None,
                node_uid: None,
                event: Event::warning("ApprovesNothing", EventAction::Admit, note),
            });
        }
    }
}
