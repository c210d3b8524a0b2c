//! Times that come from objects anyone may have written, and lengths of time in words.

use jiff::Timestamp;

/// So many seconds later; at most the last moment there is. Times come from objects that anyone may have
/// written.
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// How far apart the clocks of API servers may be (seconds): of two times that are no further apart neither is later.
pub(crate) const APART_SECONDS: i64 = 60;

/// Whether a time has come: one of a clock that was put back has not, and nothing is to count from it.
pub(crate) fn has_come(at: Timestamp, now: Timestamp) -> bool {
    at <= later(now, APART_SECONDS)
}

/// Until when a pause goes on that began at this time; none once it is over, and of one that is yet to begin, as the clock was put back.
pub(crate) fn pause_until(at: Timestamp, seconds: i64, now: Timestamp) -> Option<Timestamp> {
    Some(later(at, seconds)).filter(|end| now < *end && has_come(at, now))
}

/// Brings the next look forward to `at`.
pub(crate) fn wake_by(wake: &mut Option<Timestamp>, at: Timestamp) {
    *wake = Some(wake.map_or(at, |known| known.min(at)));
}

/// A pause (seconds) that doubles with each time, from the first to the longest.
pub(crate) fn doubled((first, longest): (i64, i64), times: u32) -> i64 {
    (first << times.min(16)).min(longest)
}

/// After how long a person has to look at a wait that should end by itself (seconds).
pub const STUCK_SECONDS: i64 = 600;

/// A length of time as a person says it: the two largest units.
pub fn words(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}
