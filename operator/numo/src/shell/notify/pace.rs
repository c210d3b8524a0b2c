//! When a sink may be asked again: so many times a minute, and after a failure later and later. Pure.

use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The minute of a limit.
const MINUTE: Duration = Duration::from_mins(1);
/// How long after the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// How long after any failure at most, unless the sink says otherwise.
const LONGEST: Duration = Duration::from_mins(1);
/// How long a sink may say that it is to be left alone.
const LONGEST_ASKED: Duration = Duration::from_mins(10);

/// The pace of one notifier.
#[derive(Debug, Default)]
pub struct Pace {
    /// When it was asked in the last minute.
    asked: VecDeque<Instant>,
    /// How many failures there were one after another.
    failures: u32,
    /// Not before.
    not_before: Option<Instant>,
}

impl Pace {
    /// When the sink may be asked next: now, if that is over.
    pub fn next(&self, per_minute: u32) -> Option<Instant> {
        let most = usize::try_from(per_minute).unwrap_or(usize::MAX).max(1);
        let from = self.asked.len().checked_sub(most);
        let full = from.and_then(|from| self.asked.get(from)).map(|at| *at + MINUTE);
        full.max(self.not_before)
    }

    /// It is asked now.
    pub fn ask(&mut self, now: Instant) {
        while self
            .asked
            .front()
            .is_some_and(|at| now.duration_since(*at) >= MINUTE)
        {
            self.asked.pop_front();
        }
        self.asked.push_back(now);
    }

    /// It took what it was given, or will not take that.
    pub fn took(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// It failed. `wait` is how long it asks to be left alone.
    pub fn failed(&mut self, now: Instant, wait: Option<Duration>) {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let wait = wait.map_or(doubled, |wait| wait.clamp(FIRST, LONGEST_ASKED));
        self.not_before = Some(now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_so_many_a_minute() {
        let (mut pace, begun) = (Pace::default(), Instant::now());
        assert_eq!(pace.next(2), None);
        pace.ask(begun);
        pace.ask(begun + Duration::from_secs(10));
        assert_eq!(pace.next(3), None);
        assert_eq!(pace.next(2), Some(begun + MINUTE));
        pace.ask(begun + MINUTE);
        assert_eq!(pace.next(2), Some(begun + Duration::from_secs(70)));
        assert_eq!(pace.next(0), Some(begun + 2 * MINUTE), "at least one");
    }

    #[test]
    fn a_sink_that_fails_is_asked_later_and_later_and_is_heard() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..9 {
            pace.failed(now, None);
            waits.extend(pace.next(9).map(|at| at.duration_since(now).as_secs()));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        for (asked, wanted) in [(120, 120), (0, 1), (1_000_000, 600)] {
            pace.failed(now, Some(Duration::from_secs(asked)));
            assert_eq!(pace.next(9), Some(now + Duration::from_secs(wanted)));
        }
        pace.took();
        assert_eq!(pace.next(9), None);
        pace.failed(now, None);
        assert_eq!(pace.next(9), Some(now + FIRST));
    }
}
