//! Times that come from objects anyone may have written.

use jiff::Timestamp;

/// So many seconds later; at most the last moment there is. Times come from objects that anyone may have
/// written.
pub fn later(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

/// After how long a person has to look at a wait that should end by itself (seconds).
pub const STUCK_SECONDS: i64 = 600;
