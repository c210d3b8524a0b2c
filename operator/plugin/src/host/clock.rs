//! `numo:host/clock`: the time of the evaluation. It does not move, so that a recorded evaluation replays.

use jiff::Timestamp;

use super::sandbox::Sandbox;
use crate::bindings::numo::host::clock::{Host, Instant};

impl Host for Sandbox {
    fn now(&mut self) -> wasmtime::Result<Instant> {
        self.budget.count(&self.limits)?;
        Ok(instant(self.moment()))
    }

    fn parse_rfc3339(&mut self, text: String) -> wasmtime::Result<Option<Instant>> {
        self.budget.count(&self.limits)?;
        Ok(parse(&text).map(instant))
    }
}

impl Sandbox {
    /// The moment of the evaluation; 1970 in `describe` and `validate-config`, which must not depend on it.
    pub(super) fn moment(&self) -> Timestamp {
        self.granted
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |granted| granted.services.now)
    }
}

/// `moment` as the component sees it; what is before 1970 is 1970.
pub(super) fn instant(moment: Timestamp) -> Instant {
    match (
        u64::try_from(moment.as_second()),
        u32::try_from(moment.subsec_nanosecond()),
    ) {
        (Ok(seconds), Ok(nanoseconds)) => Instant { seconds, nanoseconds },
        _ => Instant {
            seconds: 0,
            nanoseconds: 0,
        },
    }
}

/// Stricter than jiff, which also reads a blank for `T` and a time zone in brackets.
fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    if bytes.len() > 64 || !matches!(bytes.get(10), Some(b'T' | b't')) || text.contains('[') {
        return None;
    }
    text.parse::<Timestamp>()
        .ok()
        .filter(|moment| moment.as_second() >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_kubernetes_are_read_and_nothing_else() {
        let seconds = |text: &str| parse(text).map(|moment| (moment.as_second(), moment.subsec_nanosecond()));
        assert_eq!(seconds("2026-01-02T03:04:05Z"), Some((1_767_323_045, 0)));
        assert_eq!(seconds("2026-01-02T04:04:05+01:00"), Some((1_767_323_045, 0)));
        assert_eq!(
            seconds("2026-01-02T03:04:05.000001Z"),
            Some((1_767_323_045, 1000))
        );
        for bad in [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "1969-12-31T23:59:59Z",
            "2026-01-02T03:04:05",
            "nonsense",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
