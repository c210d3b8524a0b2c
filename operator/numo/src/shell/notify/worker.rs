//! The task of one notifier: it sends what its outbox has, one after another, tries again what failed, keeps alerts and silences up, and
//! writes the status, all in its own time. Nobody waits for it.

use super::{
    episode::Episode,
    outbox::{Due, Outbox},
    pace::Pace,
    silencer::{Silencer, Whose},
    sink::{Answered, Known, Reach, Sink},
};
use crate::{
    frontends::{
        mutex_notifier::{self, SinkKind, Understood, Verdict},
        notification::{ALERT_LASTS, Notification, slack},
    },
    shell::{
        events::{Events, Published},
        kind::Kind,
        leader::Fence,
        metrics::Metrics,
        status,
    },
};
use jiff::Timestamp;
use numo_api::{MutexNotifierStatus, Reason};
use numo_core::observed::Key;
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// How often the Secret and the authorities are read again.
const CHECK: Duration = Duration::from_mins(1);
/// How often alerts are renewed that go on.
const RENEW: Duration = Duration::from_mins(1);
/// How long after one status the next is written, if it only counts on.
const WRITE: Duration = Duration::from_secs(10);
/// How long after a status of another spec.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the sink is left alone beside what is said here: the process may have lost its lease.
const NOT_LEADING: Duration = Duration::from_secs(1);

/// What the dispatcher and the task of a notifier share.
#[derive(Debug)]
pub struct Post {
    outbox: Mutex<Outbox>,
    /// There is something new.
    news: Notify,
}

impl Post {
    /// The post of a notifier that was just seen.
    pub fn new(outbox: Outbox) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            news: Notify::new(),
        }
    }

    /// What is yet to be told. Not to be kept over a wait.
    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the task look.
    pub fn wake(&self) {
        self.news.notify_one();
    }
}

/// The task of one notifier.
pub struct Worker {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) post: Arc<Post>,
    pub(super) reach: Reach,
    pub(super) fence: Fence,
    pub(super) metrics: Metrics,
    pub(super) events: Events,
}

/// What the task knows beside its outbox.
struct State {
    sink: Result<Sink, Verdict>,
    known: Known,
    /// What is to be said of it.
    verdict: Verdict,
    /// When the Secret is read again, and of which generation the spec was then.
    check: (Instant, i64),
    pace: Pace,
    /// When alerts are renewed.
    renew: Instant,
    silencer: Silencer,
    /// Whether the sink took something since the last look.
    is_reached: bool,
    episode: Episode,
    /// The status as it was written last, and when.
    written: (MutexNotifierStatus, Option<Instant>),
}

impl Worker {
    /// Works until it is ended.
    pub async fn work(self) {
        self.metrics.know_notifier(&self.name);
        let now = Instant::now();
        let (before, lost) = {
            let outbox = self.post.outbox();
            (outbox.view.status.clone(), outbox.tally.lost())
        };
        let mut state = State {
            sink: Err(unknown()),
            known: None,
            verdict: unknown(),
            check: (now, 0),
            pace: Pace::default(),
            renew: now,
            silencer: Silencer::default(),
            is_reached: false,
            episode: Episode::of(&before, lost),
            written: (before, None),
        };
        loop {
            if !self.fence.holds() {
                state.silencer.look_again();
                tokio::time::sleep(NOT_LEADING).await;
                continue;
            }
            self.check(&mut state).await;
            self.tell_next(&mut state).await;
            self.keep_alerts(&mut state).await;
            self.keep_silences(&mut state).await;
            self.tell_episode(&mut state);
            self.write(&mut state).await;
            let wake = self.next_look(&state);
            tokio::select! {
                () = self.post.news.notified() => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// When there is something to do next if nothing is said.
    fn next_look(&self, state: &State) -> Instant {
        let now = Instant::now();
        let outbox = self.post.outbox();
        let may_ask = state.pace.next(per_minute(&outbox)).map_or(now, |at| at.max(now));
        let mut next = state.check.0;
        if state.sink.is_ok() {
            let has_more = outbox.len() > 0 || outbox.has_new_alerts();
            if has_more {
                next = next.min(may_ask);
            }
            if !outbox.alerts().0.is_empty() {
                next = next.min(state.renew.max(may_ask));
            }
            let round = state.silencer.next(&outbox.turns);
            if let Some(round) = round.filter(|_| wants_silences(&outbox)) {
                next = next.min(round);
            }
        }
        let wanted = self.wanted(&outbox, state);
        next.min(write_at(state, &wanted).unwrap_or(next))
    }

    /// Finds out where the sink is, if that is due.
    async fn check(&self, state: &mut State) {
        let (view, spec) = {
            let outbox = self.post.outbox();
            (outbox.view.clone(), outbox.spec.clone())
        };
        if Instant::now() < state.check.0 && state.check.1 == view.generation {
            return;
        }
        let is_new = state.check.1 != view.generation;
        state.check = (Instant::now() + CHECK, view.generation);
        let found = match spec {
            Err(problem) => Err(Verdict {
                ready: false,
                reason: Reason::InvalidField,
                message: problem,
            }),
            Ok(spec) => self.reach.sink(&view, &spec, &mut state.known).await,
        };
        match &found {
            Err(verdict) => state.verdict = verdict.clone(),
            Ok(_) if state.sink.is_err() || is_new => {
                state.verdict = fine();
                if is_new {
                    state.pace.took();
                    state.silencer.look_again();
                }
            }
            Ok(_) => {}
        }
        state.sink = found;
    }

    /// Tells what waits first, if it is time; what is not worth it any more is given up.
    async fn tell_next(&self, state: &mut State) {
        let (due, spec) = {
            let outbox = self.post.outbox();
            self.metrics.notifications_wait(&self.name, outbox.len());
            let due = outbox.due(&state.pace, Instant::now());
            (due, outbox.spec.clone())
        };
        let notification = match due {
            Due::Nothing => return,
            Due::Expired(notification) => return self.give_up(&notification, "expired"),
            Due::Now(notification) => notification,
        };
        let (Ok(spec), Ok(sink)) = (spec, state.sink.clone()) else {
            return;
        };
        let body = body(&notification, &spec, self.now());
        match self.ask(state, &sink, &body).await {
            Answered::Taken => {
                let mut outbox = self.post.outbox();
                outbox.send(&notification, self.now());
                self.metrics.notified(&self.name, "sent", 1);
                self.metrics.notifications_wait(&self.name, outbox.len());
            }
            Answered::Refused(_) => self.give_up(&notification, "refused"),
            Answered::Later(..) => self.metrics.notified(&self.name, "failed", 1),
        }
    }

    /// Sends a body, and says of the notifier what came of it.
    async fn ask(&self, state: &mut State, sink: &Sink, body: &Value) -> Answered {
        state.pace.ask(Instant::now());
        let answered = sink.send(body, self.now()).await;
        match &answered {
            Answered::Taken => {
                state.pace.took();
                state.verdict = fine();
                state.is_reached = true;
            }
            Answered::Refused(words) => {
                state.pace.took();
                state.verdict = verdict(Reason::SinkRefuses, words);
                tracing::warn!(notifier = self.name, words, "a notification was refused");
            }
            Answered::Later(words, wait) => {
                state.pace.failed(Instant::now(), *wait);
                state.verdict = verdict(Reason::SinkFails, words);
                // The Secret may be another by then.
                let again = state.pace.next(u32::MAX).unwrap_or(state.check.0);
                state.check.0 = state.check.0.min(again);
                tracing::warn!(notifier = self.name, words, "a notification is tried again");
            }
        }
        answered
    }

    fn give_up(&self, notification: &Notification, outcome: &'static str) {
        self.post.outbox().give_up(notification);
        self.metrics.notified(&self.name, outcome, 1);
        tracing::warn!(
            notifier = self.name,
            id = notification.occurrence.id,
            outcome,
            "a notification was given up"
        );
    }

    /// Renews the alerts that go on, and ends those that are over.
    async fn keep_alerts(&self, state: &mut State) {
        let (firing, over, is_new, spec) = {
            let outbox = self.post.outbox();
            let (firing, over) = outbox.alerts();
            (firing, over, outbox.has_new_alerts(), outbox.spec.clone())
        };
        let (Ok(spec), Ok(sink)) = (spec, state.sink.clone()) else {
            return;
        };
        let now = Instant::now();
        let is_due = is_new || (!firing.is_empty() && now >= state.renew);
        if !is_due || state.pace.next(spec.per_minute).is_some_and(|at| at > now) {
            return;
        }
        let at = self.now();
        let alert = |one: &Arc<Notification>, ends: Timestamp| one.alert(&spec.template.render(one), ends);
        let lasts = at.checked_add(ALERT_LASTS).unwrap_or(at);
        let alerts = firing.iter().map(|one| alert(one, lasts));
        let alerts: Vec<Value> = alerts.chain(over.iter().map(|one| alert(one, at))).collect();
        match self.ask(state, &sink, &Value::Array(alerts)).await {
            Answered::Taken => {
                state.renew = now + RENEW;
                let mut outbox = self.post.outbox();
                let new = outbox.told(&firing, &over);
                if new > 0 {
                    outbox.tally.last_sent = Some(at);
                }
                self.metrics.notified(&self.name, "sent", new);
            }
            Answered::Refused(_) => {
                // Those that go on are tried again: an alert that is over is not worth it.
                state.renew = now + RENEW;
                state.pace.failed(now, Some(RENEW));
                let mut outbox = self.post.outbox();
                outbox.told(&[], &over);
                self.metrics.notified(&self.name, "refused", 1);
            }
            Answered::Later(..) => self.metrics.notified(&self.name, "failed", 1),
        }
    }

    /// Makes, renews and ends silences, if that is due.
    async fn keep_silences(&self, state: &mut State) {
        let (spec, turns) = {
            let outbox = self.post.outbox();
            (outbox.spec.clone(), outbox.turns.clone())
        };
        let silencer = &mut state.silencer;
        let (Ok(spec), Ok(sink)) = (spec, &state.sink) else {
            silencer.lose_sight();
            return;
        };
        if let Some(terms) = silencer.terms(&spec)
            && silencer.next(&turns).is_some_and(|at| at <= Instant::now())
        {
            let whose = Whose {
                uid: &self.uid,
                fence: &self.fence,
            };
            let round = silencer.round(sink, (&terms, turns), whose, self.now()).await;
            state.is_reached |= round.is_ok();
            if let Err(answered) = round {
                let outcome = if let Answered::Refused(_) = answered {
                    "refused"
                } else {
                    "failed"
                };
                self.metrics.notified(&self.name, outcome, 1);
                tracing::warn!(notifier = self.name, ?answered, "silences are tried again");
            }
        }
        self.metrics.silences(&self.name, silencer.kept());
    }

    /// Tells by an event that the sink takes nothing, or that it is reached again.
    fn tell_episode(&self, state: &mut State) {
        let verdict = state.silencer.judged(&state.verdict);
        let is_reached = std::mem::take(&mut state.is_reached);
        let lost = self.post.outbox().tally.lost();
        let event = state.episode.tell(&verdict, is_reached, lost, Instant::now());
        let Some(event) = event else { return };
        let (group, version, kind, _) = Kind::MutexNotifier.resource();
        self.events.publish(Published {
            api_version: format!("{group}/{version}"),
            kind,
            owner: Key::new("", &self.name),
            owner_uid: self.uid.clone(),
            pool: None,
            node_uid: None,
            event,
        });
    }

    /// Writes the status, if it differs: at once for another spec, and else now and then.
    async fn write(&self, state: &mut State) {
        let wanted = self.wanted(&self.post.outbox(), state);
        if write_at(state, &wanted).is_none_or(|at| at > Instant::now()) {
            return;
        }
        state.written.1 = Some(Instant::now());
        let key = Key::new("", &self.name);
        let write = &self.reach.connection.write;
        match status::apply(write, Kind::MutexNotifier, &key, &self.uid, &wanted).await {
            Ok(_) => {
                self.metrics.wrote("WriteStatus", "ok");
                state.written.0 = wanted;
            }
            Err(error) => {
                let outcome = if status::refusal(&error).is_some() {
                    "refused"
                } else {
                    "failed"
                };
                self.metrics.wrote("WriteStatus", outcome);
                tracing::warn!(notifier = self.name, %error, "the status was not written");
            }
        }
    }

    fn wanted(&self, outbox: &Outbox, state: &State) -> MutexNotifierStatus {
        let mut view = outbox.view.clone();
        view.status = state.written.0.clone();
        let silencer = &state.silencer;
        let verdict = silencer.judged(&state.verdict);
        mutex_notifier::status(&view, &verdict, &outbox.tally, silencer.kept(), self.now())
    }

    fn now(&self) -> Timestamp {
        self.reach.connection.clock.now()
    }
}

/// When the status is to be written, if it differs.
fn write_at(state: &State, wanted: &MutexNotifierStatus) -> Option<Instant> {
    let (written, at) = &state.written;
    if wanted == written {
        return None;
    }
    let is_judged = wanted.observed_generation == written.observed_generation;
    let next = at.filter(|_| is_judged).map(|at| at + WRITE);
    // What was refused is not written again at once.
    let again = at.map(|at| at + AGAIN);
    Some(next.or(again).unwrap_or_else(Instant::now))
}

/// The body of one notification, in the form of the sink.
fn body(notification: &Notification, spec: &Understood, now: Timestamp) -> Value {
    let text = spec.template.render(notification);
    match spec.sink {
        SinkKind::CloudEvents => notification.cloud_event(&text),
        SinkKind::Slack => slack(&text),
        SinkKind::Alertmanager => {
            // However late it is told.
            let ends = notification.at.max(now).checked_add(ALERT_LASTS);
            Value::Array(vec![notification.alert(&text, ends.unwrap_or(now))])
        }
    }
}

fn per_minute(outbox: &Outbox) -> u32 {
    outbox.spec.as_ref().map_or(1, |spec| spec.per_minute)
}

fn wants_silences(outbox: &Outbox) -> bool {
    outbox.spec.as_ref().is_ok_and(|spec| spec.silences.is_some())
}

fn unknown() -> Verdict {
    verdict(Reason::Validating, "the sink has not been looked at yet")
}

fn verdict(reason: Reason, words: &str) -> Verdict {
    Verdict {
        ready: false,
        reason,
        message: words.to_owned(),
    }
}

fn fine() -> Verdict {
    Verdict {
        ready: true,
        reason: Reason::ValidConfig,
        message: "The sink is told of what spec selects.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
