//! The API server's time. Every deadline is judged by it, because the clocks of the machines that numo
//! runs on may differ from the cluster's (invariant 11).
//!
//! Source: the `Date` header of each response (RFC 9110), which has whole seconds.

use jiff::{SignedDuration, Timestamp};
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// A difference that whole seconds and a slow response explain (milliseconds); below it the local clock
/// is taken as it is.
const TOLERANCE_MILLISECONDS: i64 = 2500;

/// The API server's time, as the offset of the local clock.
#[derive(Clone, Debug, Default)]
pub struct ServerClock {
    offset_milliseconds: Arc<AtomicI64>,
}

impl ServerClock {
    /// Now, by the API server.
    pub fn now(&self) -> Timestamp {
        #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        let local = Timestamp::now();
        local + SignedDuration::from_millis(self.offset_milliseconds.load(Ordering::Relaxed))
    }

    /// Learns from the `Date` header of a response.
    pub fn learn(&self, date: &str) {
        let Ok(server) = jiff::fmt::rfc2822::parse(date) else {
            return;
        };
        #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
        let local = Timestamp::now();
        // The header is cut to the second: half a second is the best guess of what was cut.
        let offset = server.timestamp().as_millisecond() + 500 - local.as_millisecond();
        let offset = if offset.abs() <= TOLERANCE_MILLISECONDS {
            0
        } else {
            offset
        };
        self.offset_milliseconds.store(offset, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_is_corrected_and_a_close_one_is_not() {
        let clock = ServerClock::default();
        let hour_ahead = Timestamp::now() + SignedDuration::from_hours(1);
        clock.learn(&jiff::fmt::rfc2822::to_string(&hour_ahead.to_zoned(jiff::tz::TimeZone::UTC)).unwrap());
        let seen = clock.now().as_second() - Timestamp::now().as_second();
        assert!((3590..=3610).contains(&seen), "{seen}");
        let close = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        clock.learn(&jiff::fmt::rfc2822::to_string(&close).unwrap());
        assert!((clock.now().as_millisecond() - Timestamp::now().as_millisecond()).abs() < 1000);
        clock.learn("not a date");
    }
}
