//! When a sink that takes nothing is told by an event, and when that it is reached again: once each for as long as that goes on, however
//! often it is tried. Pure.

use crate::frontends::mutex_notifier::Verdict;
use numo_api::{MutexNotifierStatus, Reason, conditions::types};
use numo_core::{
    action::{Event, EventAction},
    text::counted,
};
use std::time::Duration;
use tokio::time::Instant;

/// How long after one Warning the next may follow: a sink that comes and goes is told no oftener.
pub const QUIET: Duration = Duration::from_mins(10);

/// What was told of a sink that takes nothing.
#[derive(Debug, Default)]
pub struct Episode {
    /// A Warning was told, and nothing has been taken since.
    is_told: bool,
    /// No Warning before that.
    quiet_until: Option<Instant>,
    /// How many notifications were lost when the episode was told.
    lost: i64,
}

impl Episode {
    /// As the status has it: what another process has told is not told again.
    pub fn of(status: &MutexNotifierStatus, lost: i64) -> Self {
        let is_bad = |ready: &numo_api::Condition| {
            ready.status == "False" && ready.reason.as_deref() != Some(Reason::Validating.name())
        };
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|one| one.type_ == types::READY);
        Self {
            is_told: ready.is_some_and(is_bad),
            quiet_until: None,
            lost,
        }
    }

    /// The event of a notifier that stands so, if there is one to be told. `is_reached`: its sink took something just now. `lost`: how
    /// many notifications were given up or dropped in all.
    pub fn tell(&mut self, verdict: &Verdict, is_reached: bool, lost: i64, now: Instant) -> Option<Event> {
        if verdict.ready {
            return (is_reached && std::mem::take(&mut self.is_told)).then(|| self.over(lost));
        }
        let is_quiet = self.quiet_until.is_some_and(|until| now < until);
        if self.is_told || is_quiet || verdict.reason == Reason::Validating {
            return None;
        }
        *self = Self {
            is_told: true,
            quiet_until: Some(now + QUIET),
            lost,
        };
        let note = format!("nobody is told: {}", verdict.message);
        Some(Event::warning(verdict.reason.name(), EventAction::Notify, note))
    }

    fn over(&self, lost: i64) -> Event {
        let lost = usize::try_from(lost.saturating_sub(self.lost)).unwrap_or(0);
        let note = match lost {
            0 => "the sink takes notifications again, and none was lost".to_owned(),
            _ => format!(
                "the sink takes notifications again; lost meanwhile: {}",
                counted(lost, "notification")
            ),
        };
        Event::normal("SinkReached", EventAction::Notify, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Condition;

    fn stands(ready: bool, reason: Reason) -> Verdict {
        Verdict {
            ready,
            reason,
            message: "m".to_owned(),
        }
    }

    #[test]
    fn a_failing_sink_is_told_once_and_once_that_it_is_reached() {
        let (mut episode, begun) = (Episode::default(), Instant::now());
        let fails = stands(false, Reason::SinkFails);
        let fine = stands(true, Reason::ValidConfig);
        let minute = Duration::from_mins(1);
        let mut told = Vec::new();
        // What it does in each minute: fails, is thought to be fine after an edit, takes something, fails at once again.
        for (at, verdict, is_reached, lost) in [
            (0, &stands(false, Reason::Validating), false, 0),
            (0, &fine, true, 0),
            (1, &fails, false, 0),
            (2, &fails, false, 1),
            (3, &stands(false, Reason::SecretNotFound), false, 1),
            (4, &fine, false, 1),
            (5, &fine, true, 1),
            (6, &fine, true, 1),
            (7, &fails, false, 1),
            (8, &fine, true, 1),
            (9, &fails, false, 1),
            (11, &fails, false, 1),
            (12, &fine, true, 1),
        ] {
            let event = episode.tell(verdict, is_reached, lost, begun + at * minute);
            told.extend(event.map(|event| (at, event.warning, event.reason, event.note)));
        }
        let words = |at, warning, reason, note: &str| (at, warning, reason, note.to_owned());
        assert_eq!(
            told,
            [
                words(1, true, "SinkFails", "nobody is told: m"),
                words(
                    5,
                    false,
                    "SinkReached",
                    "the sink takes notifications again; lost meanwhile: 1 notification"
                ),
                words(11, true, "SinkFails", "nobody is told: m"),
                words(
                    12,
                    false,
                    "SinkReached",
                    "the sink takes notifications again, and none was lost"
                ),
            ],
            "what came and went within ten minutes is not told"
        );
    }

    #[test]
    fn what_another_process_told_is_not_told_again() {
        for (status, reason, is_told) in [
            ("False", "SinkFails", true),
            ("False", "Validating", false),
            ("True", "ValidConfig", false),
        ] {
            let ready = Condition {
                type_: types::READY.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                ..Condition::default()
            };
            let before = MutexNotifierStatus {
                conditions: vec![ready],
                ..MutexNotifierStatus::default()
            };
            let mut episode = Episode::of(&before, 0);
            let fails = stands(false, Reason::SinkFails);
            let told = episode.tell(&fails, false, 0, Instant::now());
            assert_eq!(told.is_none(), is_told, "{reason}");
            let again = episode.tell(&stands(true, Reason::ValidConfig), true, 0, Instant::now());
            assert!(again.is_some(), "{reason}");
        }
    }
}
