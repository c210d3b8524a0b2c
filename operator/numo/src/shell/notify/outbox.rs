//! What one notifier is yet to tell: a queue with a bound, and for an Alertmanager the states that go on and the nodes that are to be
//! silenced. It sends nothing.

use super::pace::Pace;
use crate::frontends::{
    mutex_notifier::{NotifierView, SinkKind, Tally, Understood},
    notification::Notification,
    silence::Turns,
};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Notifications that may wait; of more the oldest are dropped.
pub const QUEUE: usize = 256;
/// Alerts that are kept up at once, at most.
pub const FIRING: usize = 256;
/// Ids that are remembered beside those of what goes on.
const REMEMBERED: usize = 4096;
/// How long a notification is worth to be told: what happens while a sink takes nothing for an hour is told after it.
pub const WORTH: Duration = Duration::from_hours(2);

/// What is to be done about what waits first.
#[derive(Debug)]
pub enum Due {
    /// Nothing yet, or nothing waits.
    Nothing,
    /// It is not worth it any more.
    Expired(Arc<Notification>),
    /// The sink is to be asked.
    Now(Arc<Notification>),
}

/// What one notifier is yet to tell.
#[derive(Debug)]
pub struct Outbox {
    /// The notifier as it is now.
    pub view: NotifierView,
    /// What its spec says; else what is wrong with it.
    pub spec: Result<Understood, String>,
    /// What became of notifications.
    pub tally: Tally,
    /// The nodes whose alerts are to be silenced; none if the spec wants no silences.
    pub turns: Arc<Turns>,
    /// The notifier as this process saw it first: what was told before is known from its status.
    first: NotifierView,
    waiting: VecDeque<(Arc<Notification>, Instant)>,
    /// What was taken up, whatever became of it.
    handed: BTreeSet<String>,
    /// What is true now, of what the filter lets through.
    current: BTreeSet<String>,
    /// States that are kept up as alerts.
    firing: BTreeMap<String, Arc<Notification>>,
    /// Alerts that are over, and are yet to be ended.
    over: Vec<Arc<Notification>>,
    /// Alerts that were told at least once.
    told: BTreeSet<String>,
}

impl Outbox {
    /// The outbox of a notifier that was just seen.
    pub fn new(view: NotifierView) -> Self {
        Self {
            spec: view.understood(),
            tally: Tally::of(&view.status),
            turns: Arc::default(),
            first: view.clone(),
            view,
            waiting: VecDeque::new(),
            handed: BTreeSet::new(),
            current: BTreeSet::new(),
            firing: BTreeMap::new(),
            over: Vec::new(),
            told: BTreeSet::new(),
        }
    }

    /// Takes in another spec; true if it is one. What another filter lets through is told from then on.
    pub fn edit(&mut self, view: &NotifierView, at: Timestamp) -> bool {
        if self.view.generation == view.generation {
            return false;
        }
        self.first.status.dealt_with_until = Some(at.to_string());
        self.spec = view.understood();
        self.view = view.clone();
        // Another sink knows of none of them: those that go on are told anew, and at the old one each lapses by itself.
        self.firing.clear();
        self.over.clear();
        self.told.clear();
        true
    }

    /// Takes in all that has happened and goes on; how many notifications were dropped, and whether there is anything new to be told.
    pub fn see(&mut self, all: &[Arc<Notification>], now: Instant) -> (u64, bool) {
        let told: Vec<&Arc<Notification>> = all
            .iter()
            .filter(|one| self.view.tells(&one.owner, &one.occurrence))
            .collect();
        self.current = told.iter().map(|one| one.occurrence.id.clone()).collect();
        let mut is_new = self.end_alerts();
        let mut dropped = 0;
        for one in told {
            if self.keeps_up(one) {
                if self.firing.len() < FIRING {
                    let id = one.occurrence.id.clone();
                    is_new |= self.firing.insert(id, one.clone()).is_none();
                }
            } else if self.handed.insert(one.occurrence.id.clone()) && self.first.is_news(&one.occurrence) {
                self.waiting.push_back((one.clone(), now));
                is_new = true;
                if self.waiting.len() > QUEUE
                    && let Some((oldest, _)) = self.waiting.pop_front()
                {
                    dropped += 1;
                    self.tally.dropped += 1;
                    self.deal(&oldest);
                }
            }
        }
        if self.handed.len() > REMEMBERED {
            let (current, waiting) = (&self.current, &self.waiting);
            let waits = |id: &String| waiting.iter().any(|(one, _)| one.occurrence.id == *id);
            self.handed.retain(|id| current.contains(id) || waits(id));
        }
        (dropped, is_new)
    }

    /// Takes in the nodes that are out of service; whether others than before are to be silenced.
    pub fn see_turns(&mut self, all: &Turns) -> bool {
        let is_wanted = self.spec.as_ref().is_ok_and(|spec| spec.silences.is_some());
        let of_filter = all
            .iter()
            .filter(|(_, owner)| is_wanted && self.view.is_about(owner));
        let turns: Turns = of_filter
            .map(|(node, owner)| (node.clone(), owner.clone()))
            .collect();
        let is_new = *self.turns != turns;
        if is_new {
            self.turns = Arc::new(turns);
        }
        is_new
    }

    /// Whether it is an alert for as long as it goes on.
    fn keeps_up(&self, one: &Notification) -> bool {
        let sink = self.spec.as_ref().map(|spec| spec.sink);
        sink == Ok(SinkKind::Alertmanager) && one.occurrence.transition.is_state()
    }

    /// Alerts of what does not go on any more are over. Those that were never told need no end.
    fn end_alerts(&mut self) -> bool {
        let (current, told, over) = (&self.current, &mut self.told, &mut self.over);
        let before = over.len();
        self.firing.retain(|id, one| {
            let goes_on = current.contains(id);
            if !goes_on && told.remove(id) && over.len() < FIRING {
                over.push(one.clone());
            }
            goes_on
        });
        self.over.len() > before
    }

    /// What is to be done about what waits first, at this pace.
    pub fn due(&self, pace: &Pace, now: Instant) -> Due {
        let Some((notification, since)) = self.waiting.front().cloned() else {
            return Due::Nothing;
        };
        if now.duration_since(since) > WORTH {
            return Due::Expired(notification);
        }
        let may_ask = |spec: &Understood| pace.next(spec.per_minute).is_none_or(|at| at <= now);
        if self.spec.as_ref().is_ok_and(may_ask) {
            Due::Now(notification)
        } else {
            Due::Nothing
        }
    }

    /// Notes that a notification was told.
    pub fn send(&mut self, notification: &Notification, at: Timestamp) {
        self.tally.sent += 1;
        self.tally.last_sent = Some(at);
        self.deal(notification);
    }

    /// Notes that a notification is told to nobody.
    pub fn give_up(&mut self, notification: &Notification) {
        self.tally.failed += 1;
        self.deal(notification);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Notes that a notification was dealt with, however: none is told after it but by another id.
    fn deal(&mut self, notification: &Notification) {
        let id = &notification.occurrence.id;
        self.waiting.retain(|(one, _)| one.occurrence.id != *id);
        self.tally.deal(notification, &self.current);
        self.bound();
    }

    /// What waits still is not dealt with, whenever something later was.
    fn bound(&mut self) {
        let oldest = self.waiting.iter().map(|(one, _)| one.at).min();
        if let (Some(oldest), Some(until)) = (oldest, self.tally.until) {
            self.tally.until = Some(until.min(oldest));
        }
    }

    /// The alerts that go on, and those that are to be ended.
    pub fn alerts(&self) -> (Vec<Arc<Notification>>, Vec<Arc<Notification>>) {
        (self.firing.values().cloned().collect(), self.over.clone())
    }

    /// Whether some alert was not told yet, or not ended.
    pub fn has_new_alerts(&self) -> bool {
        !self.over.is_empty() || self.firing.keys().any(|id| !self.told.contains(id))
    }

    /// Notes that these alerts were told; how many of them for the first time.
    pub fn told(&mut self, firing: &[Arc<Notification>], over: &[Arc<Notification>]) -> u64 {
        let mut new = 0;
        for one in firing {
            if self.told.insert(one.occurrence.id.clone()) {
                new += 1;
                self.tally.deal(one, &self.current);
                self.tally.sent += 1;
            }
        }
        self.bound();
        self.over.retain(|one| !over.contains(one));
        new
    }
}

#[cfg(test)]
mod tests;
