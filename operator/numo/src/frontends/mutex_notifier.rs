//! MutexNotifier: what is read of it, whom it tells of, and its status. Pure.

use super::{
    conditions::{Conditions, seconds},
    notification::{Notification, Template},
    occurrences::Occurrence,
    silence::Terms,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{
    MutexNotifier, MutexNotifierSpec, MutexNotifierStatus, NotifiedKind, Reason,
    mutex_notifier::{HttpSink, Silences},
};
use numo_core::{Owner, names};
use std::collections::BTreeSet;

/// Ids that a status keeps, at most.
pub const RECENT: usize = 128;
/// How long before what the status says all was dealt with is looked once more: journals are written a moment before they are read.
const SLACK: SignedDuration = SignedDuration::from_mins(1);
/// Notifications a minute where nothing is given.
const PER_MINUTE: u32 = 30;

/// A notifier as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct NotifierView {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The generation of the spec.
    pub generation: i64,
    /// When it was made: it tells nothing that is older.
    pub created: Timestamp,
    /// The spec.
    pub spec: MutexNotifierSpec,
    /// The status as it was seen.
    pub status: MutexNotifierStatus,
}

/// What is read of a notifier.
pub fn view(notifier: MutexNotifier) -> NotifierView {
    let meta = notifier.metadata;
    NotifierView {
        name: meta.name.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        generation: meta.generation.unwrap_or(1),
        created: meta
            .creation_timestamp
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        spec: notifier.spec,
        status: notifier.status.unwrap_or_default(),
    }
}

/// The kinds of sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// CloudEvents by HTTP.
    CloudEvents,
    /// A webhook as Slack has it.
    Slack,
    /// An Alertmanager.
    Alertmanager,
}

impl SinkKind {
    /// As the status has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CloudEvents => "CloudEvents",
            Self::Slack => "Slack",
            Self::Alertmanager => "Alertmanager",
        }
    }
}

/// A spec that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Understood {
    /// The kind of the sink.
    pub sink: SinkKind,
    /// Its URL, if the spec has it.
    pub url: Option<String>,
    /// The text for people.
    pub template: Template,
    /// Notifications a minute.
    pub per_minute: u32,
    /// How nodes that are out of service are silenced, if they are.
    pub silences: Option<Terms>,
}

impl NotifierView {
    /// What the spec says.
    ///
    /// Errors: it cannot be understood; the text names the field, found and wanted. What the schema refuses is refused here too, as
    /// an object may be older than its schema.
    pub fn understood(&self) -> Result<Understood, String> {
        let spec = &self.spec;
        let url = |sink: &Option<HttpSink>| sink.as_ref().map(|sink| sink.url.clone());
        let given = [
            url(&spec.cloud_events).map(|url| (SinkKind::CloudEvents, url)),
            spec.slack.as_ref().map(|_| (SinkKind::Slack, None)),
            spec.alertmanager
                .as_ref()
                .map(|sink| (SinkKind::Alertmanager, sink.url.clone())),
        ];
        let mut given = given.into_iter().flatten();
        let (Some((sink, url)), None) = (given.next(), given.next()) else {
            return Err(
                "spec: found no sink, or several, wanted one of cloudEvents, slack and alertmanager"
                    .to_owned(),
            );
        };
        if url.is_none() && spec.secret_ref.is_none() {
            return Err("spec.secretRef: found none, wanted a Secret with key url".to_owned());
        }
        self.tells_somebody()?;
        let template = Template::parse(spec.template.as_deref());
        let silences = self.silences().map(Terms::parse);
        Ok(Understood {
            sink,
            url,
            template: template.map_err(|problem| format!("spec.template: {problem}"))?,
            per_minute: spec
                .max_per_minute
                .and_then(|most| u32::try_from(most).ok())
                .filter(|most| *most > 0)
                .unwrap_or(PER_MINUTE),
            silences: silences.transpose()?,
        })
    }

    /// Whether there can be an owner that it is about.
    ///
    /// Errors: the field, what was found and what is wanted.
    fn tells_somebody(&self) -> Result<(), String> {
        let Some(namespaces) = &self.spec.namespaces else {
            return Ok(());
        };
        if !namespaces.iter().any(|name| names::is_dns_label(name)) {
            let found = namespaces.first().map(String::as_str).unwrap_or_default();
            return Err(format!(
                "spec.namespaces: found {found:?}, wanted the name of a namespace: nobody is told"
            ));
        }
        let is_in_one =
            |kind: &NotifiedKind| matches!(kind, NotifiedKind::MutexRunConfig | NotifiedKind::Plan);
        match &self.spec.owner_kinds {
            Some(kinds) if !kinds.iter().any(is_in_one) => Err(
                "spec.namespaces: found some beside ownerKinds that are in none, which tells nobody; wanted MutexRunConfig or Plan among them, or no namespaces"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    /// What the spec says of silences, if it wants any.
    pub fn silences(&self) -> Option<&Silences> {
        self.spec.alertmanager.as_ref()?.silences.as_ref()
    }

    /// Whether it tells of this.
    pub fn tells(&self, owner: &Owner, occurrence: &Occurrence) -> bool {
        let transitions = self.spec.transitions.as_ref();
        self.is_about(owner) && transitions.is_none_or(|all| all.contains(&occurrence.transition))
    }

    /// Whether it is about this owner.
    pub fn is_about(&self, owner: &Owner) -> bool {
        let spec = &self.spec;
        let kinds = spec.owner_kinds.as_ref();
        let is_kind = |kind: &NotifiedKind| kind.name() == owner.kind.name();
        kinds.is_none_or(|kinds| kinds.iter().any(is_kind))
            && spec
                .namespaces
                .as_ref()
                .is_none_or(|all| all.contains(&owner.key.namespace))
    }

    /// What is older than this was told before this process began, or is nobody's business any more.
    pub fn baseline(&self) -> Timestamp {
        let until = self.status.dealt_with_until.as_deref();
        let until = until.and_then(|text| text.parse::<Timestamp>().ok());
        let until = until.and_then(|until| until.checked_sub(SLACK).ok());
        until.unwrap_or(self.created).max(self.created)
    }

    /// Whether this is to be told by a numo that has not told anything yet.
    pub fn is_news(&self, occurrence: &Occurrence) -> bool {
        if self.status.recent.contains(&occurrence.id) {
            return false;
        }
        // A time has whole seconds where it was written down so.
        let baseline = self.baseline().as_second();
        occurrence.transition.is_state() || occurrence.at.is_none_or(|at| at.as_second() >= baseline)
    }
}

/// How a notifier stands: its condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the sink takes notifications, as far as it is known.
    pub ready: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}

/// What became of the notifications of one notifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// When one was delivered last.
    pub last_sent: Option<Timestamp>,
    /// How many were delivered.
    pub sent: i64,
    /// How many were given up.
    pub failed: i64,
    /// How many were dropped.
    pub dropped: i64,
    /// Up to when all was dealt with.
    pub until: Option<Timestamp>,
    /// Ids that were dealt with, the newest last.
    pub recent: Vec<String>,
}

impl Tally {
    /// As a status has it: a process that begins counts on.
    pub fn of(status: &MutexNotifierStatus) -> Self {
        let time = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        Self {
            last_sent: time(&status.last_sent_at),
            sent: status.sent.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            dropped: status.dropped.unwrap_or(0),
            until: time(&status.dealt_with_until),
            recent: status.recent.clone(),
        }
    }

    /// How many were told to nobody.
    pub const fn lost(&self) -> i64 {
        self.failed.saturating_add(self.dropped)
    }

    /// Notes that a notification was dealt with. Ids of what goes on (`current`) are kept before others.
    pub fn deal(&mut self, notification: &Notification, current: &BTreeSet<String>) {
        self.until = self.until.max(Some(notification.at));
        let id = &notification.occurrence.id;
        self.recent.retain(|known| known != id);
        self.recent.push(id.clone());
        while self.recent.len() > RECENT {
            let over = self
                .recent
                .iter()
                .position(|id| !current.contains(id))
                .unwrap_or(0);
            self.recent.remove(over);
        }
    }
}

/// The status. `silences`: how many are kept up, if the spec wants any.
pub fn status(
    view: &NotifierView,
    verdict: &Verdict,
    tally: &Tally,
    silences: Option<usize>,
    now: Timestamp,
) -> MutexNotifierStatus {
    let mut conditions = Conditions::over(&view.status.conditions, view.generation, now);
    let Verdict {
        ready,
        reason,
        message,
    } = verdict;
    conditions.kstatus(*ready, false, !ready, reason.name(), message);
    MutexNotifierStatus {
        observed_generation: Some(view.generation),
        sink: view.understood().ok().map(|spec| spec.sink.name().to_owned()),
        last_sent_at: tally.last_sent.map(seconds),
        sent: Some(tally.sent),
        failed: Some(tally.failed),
        dropped: Some(tally.dropped),
        silences: silences.and_then(|number| i64::try_from(number).ok()),
        dealt_with_until: tally.until.map(seconds),
        recent: tally.recent.clone(),
        conditions: conditions.done(),
    }
}

#[cfg(test)]
mod tests;
