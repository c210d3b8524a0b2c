//! How many control planes serve tests at once: as many as the machine has time for. Most tests wait most of their time, but some
//! compute, and a fixed number leaves the processors idle in the one case and starves tests in the other.
//!
//! It counts the control planes of this process only, and what the machine does as a whole.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many are let in however busy the machine is.
const ALWAYS: usize = 5;

/// Further ones are let in while at least this share of the processors' time was unused, since the last one was let in, …
const UNUSED: f64 = 0.15;

/// … over at least so long, …
const WINDOW: Duration = Duration::from_secs(2);

/// … and at most so long: how busy it was before says little of now.
const FORGOTTEN: Duration = Duration::from_secs(6);

/// … and this much memory is available, in kB: a control plane takes up to 600 MB, and tests compile beside it.
const MEMORY_KB: u64 = 3_000_000;

/// How often one that waits looks again.
const AGAIN: Duration = Duration::from_millis(400);

static INSIDE: Mutex<Inside> = Mutex::new(Inside {
    count: 0,
    since: None,
});

#[derive(Clone, Copy, Debug)]
struct Inside {
    count: usize,
    /// What the processors had done when the present window began.
    since: Option<(Instant, Used)>,
}

/// What the processors have done since the machine started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    /// Nothing, or what stands back for others (`nice`).
    unused: u64,
    all: u64,
}

/// A control plane serves a test while this lives.
#[derive(Debug)]
pub(crate) struct Place(());

/// Waits until one more control plane may serve a test.
pub(crate) async fn enter() -> Place {
    loop {
        if inside().lets_in(Instant::now(), used(), has_memory()) {
            return Place(());
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = inside();
        inside.count = inside.count.saturating_sub(1);
    }
}

fn inside() -> MutexGuard<'static, Inside> {
    INSIDE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inside {
    /// Counts one more, if there is room for it. Where nobody tells how busy the machine is, there is room for [`ALWAYS`].
    fn lets_in(&mut self, now: Instant, used: Option<Used>, has_memory: bool) -> bool {
        let is_free = self.count < ALWAYS || (has_memory && self.was_unused(now, used));
        if is_free {
            self.count += 1;
            self.since = used.map(|used| (now, used));
        }
        is_free
    }

    /// Whether enough of the window was unused; one that has become too long begins again.
    fn was_unused(&mut self, now: Instant, used: Option<Used>) -> bool {
        let (Some((since, before)), Some(used)) = (self.since, used) else {
            self.since = used.map(|used| (now, used));
            return false;
        };
        let window = now.saturating_duration_since(since);
        if window > FORGOTTEN {
            self.since = Some((now, used));
        }
        window >= WINDOW && used.share_since(before) >= UNUSED
    }
}

impl Used {
    /// The share that was unused since then, 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "ticks of seconds")]
    fn share_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.unused.saturating_sub(before.unused) as f64 / all as f64
    }
}

/// None where the system does not tell it so.
fn used() -> Option<Used> {
    used_of(&fs::read_to_string("/proc/stat").ok()?)
}

/// proc(5): `cpu  user nice system idle iowait irq softirq steal …`.
fn used_of(stat: &str) -> Option<Used> {
    let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = ticks
        .split_whitespace()
        .map_while(|one| one.parse().ok())
        .collect();
    let [_, nice, _, idle, waiting, ..] = ticks[..] else {
        return None;
    };
    Some(Used {
        unused: nice + idle + waiting,
        // What guests take is part of the first two.
        all: ticks.iter().take(8).sum(),
    })
}

/// Whether there is memory for one more. Not, where nobody tells it.
pub(crate) fn has_memory() -> bool {
    fs::read_to_string("/proc/meminfo").is_ok_and(|text| available_kb(&text) >= Some(MEMORY_KB))
}

fn available_kb(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "that is how it is given")]
    fn used(unused: u64, all: u64) -> Option<Used> {
        Some(Used { unused, all })
    }

    #[test]
    fn more_are_let_in_only_while_the_processors_have_time() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let mut inside = Inside {
            count: 0,
            since: None,
        };
        for _ in 0..ALWAYS {
            assert!(inside.lets_in(began, used(0, 100), false));
        }
        assert!(!inside.lets_in(at(1), used(90, 200), true), "too early to tell");
        assert!(!inside.lets_in(at(4), used(40, 500), true), "busy");
        assert!(!inside.lets_in(at(5), used(300, 600), false), "no memory");
        assert!(inside.lets_in(at(5), used(300, 600), true));
        // Only what was unused since then counts, and only of late.
        assert!(!inside.lets_in(at(9), used(310, 1000), true));
        assert!(!inside.lets_in(at(12), used(311, 1300), true));
        assert!(inside.lets_in(at(15), used(500, 1600), true));
        assert_eq!(inside.count, ALWAYS + 2);
    }

    #[test]
    fn where_nobody_tells_how_busy_it_is_some_are_let_in() {
        let mut inside = Inside {
            count: ALWAYS,
            since: None,
        };
        assert!(!inside.lets_in(Instant::now(), None, true));
        inside.count -= 1;
        assert!(inside.lets_in(Instant::now(), None, false));
    }

    #[test]
    fn what_linux_tells_is_read() {
        let stat = "cpu  10 20 30 40 5 6 7 8 1 2\ncpu0 1 2 3 4\n";
        assert_eq!(used_of(stat), used(65, 126));
        assert_eq!(used_of("cpu  10 20\n"), None);
        assert_eq!(used_of(""), None);
        let memory = "MemTotal: 9 kB\nMemAvailable:   123 kB\n";
        assert_eq!(available_kb(memory), Some(123));
        assert_eq!(available_kb("MemTotal: 9 kB\n"), None);
    }
}
