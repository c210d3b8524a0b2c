//! What numo puts on a node for its turn, and somebody takes off: it is put back at once a few times, and then once a minute, and people
//! hear of it. The journal counts, as a mark on the node would go with the rest; of what is on nodes without a turn and on pools, the status of
//! the run. What it is, is not said here.

use super::journal::{self, Journal};
use crate::{
    action::{Event, EventAction, Planned},
    observed::ChangeView,
    time::{has_come, later},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{PutBack, Reason};

/// How often it is put back at once: who takes it off once more does so again and again.
pub(crate) const AT_ONCE: u32 = 3;
/// For how long it stays off then (seconds).
const PAUSE_SECONDS: i64 = 60;
/// How long it must stay on for the count to begin anew (seconds).
const ALONE_SECONDS: i64 = 600;

/// How often of late, and when last.
pub(crate) fn known(noted: Option<&PutBack>, now: Timestamp) -> Option<(u32, Timestamp)> {
    let noted = noted?;
    let at = journal::time(Some(&noted.at)).filter(|at| has_come(*at, now))?;
    (later(at, ALONE_SECONDS) > now).then(|| (u32::try_from(noted.times).unwrap_or(0), at))
}

/// How often of late.
pub(crate) fn times(change: &ChangeView, now: Timestamp) -> u32 {
    known(change.status.put_back.as_ref(), now).map_or(0, |(times, _)| times)
}

/// When it is put back next, if somebody has taken it off so often of late.
pub(crate) fn next(noted: Option<&PutBack>, at_once: u32, now: Timestamp) -> Option<Timestamp> {
    let (_, at) = known(noted, now).filter(|(times, _)| *times >= at_once)?;
    Some(later(at, PAUSE_SECONDS))
}

/// What is noted as it is put back now, and how often that was of late.
pub(crate) fn once_more(noted: Option<&PutBack>, now: Timestamp) -> (PutBack, u32) {
    let times = known(noted, now).map_or(1, |(times, _)| times.saturating_add(1));
    let noted = PutBack {
        times: i32::try_from(times).unwrap_or(i32::MAX),
        at: now.to_string(),
    };
    (noted, times)
}

/// That somebody takes it off a node again and again, and when it is put back next.
pub(crate) fn told(change: &ChangeView, now: Timestamp) -> Option<(Why, Timestamp)> {
    let at = next(change.status.put_back.as_ref(), AT_ONCE, now)?;
    Some((Why::new(Reason::ForeignWriter, words(change)), at))
}

fn words(change: &ChangeView) -> String {
    format!(
        "Node {0}: someone keeps taking off what numo puts on it for its turn (shield, marks or lease), and numo puts it back once a minute; \
         `kubectl get node {0} -o yaml --show-managed-fields` tells who writes",
        change.spec.node_name
    )
}

/// Counts in the journal that it is put back now; people are told once that was often.
pub(crate) fn count(mut journal: Journal<'_>, change: &ChangeView, now: Timestamp) -> Option<Planned> {
    let (noted, times) = once_more(change.status.put_back.as_ref(), now);
    journal.status.put_back = Some(noted);
    let (reason, action) = (Reason::ForeignWriter.name(), EventAction::Restore);
    let event = (times == AT_ONCE).then(|| Event::warning(reason, action, words(change)));
    journal.planned(event.map(|event| event.on(&change.spec.node_name)))
}

/// The journal of a turn that counts that it is put back now.
pub(crate) fn counted(change: &ChangeView, now: Timestamp) -> Option<Planned> {
    let mut journal = Journal::open(change, now);
    // A turn that is closed is so all the same.
    journal
        .status
        .closed_since
        .clone_from(&change.status.closed_since);
    count(journal, change, now)
}
