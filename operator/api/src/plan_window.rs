//! When nodes of a Plan may be begun. Reads no clock and no time zone database: both are given.
//!
//! Formats and meaning as in system-upgrade-controller (`spec/system-upgrade-controller.md` §2): the second of the end is
//! included; an end before the start is of the next morning, and the weekday that counts is always the present one.

use crate::{
    PlanWindow,
    plan::DAYS,
    time_of_day::{day_of_week, time_of_day},
};
use jiff::{SignedDuration, Timestamp, ToSpan as _, civil::Time, tz::TimeZone};

/// Days, time of day, and time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Sunday first.
    days: [bool; 7],
    start: Time,
    end: Time,
    zone: TimeZone,
}

impl Window {
    /// Understands a window. `zone` finds a time zone by its name.
    ///
    /// Errors: the field, what was found and what is wanted.
    pub fn parse(window: &PlanWindow, zone: impl FnOnce(&str) -> Option<TimeZone>) -> Result<Self, String> {
        let mut days = [false; 7];
        for (index, found) in window.days.iter().flatten().enumerate() {
            let day = day_of_week(found).ok_or_else(|| {
                format!("spec.window.days[{index}]: found {found:?}, wanted a day such as mon or monday")
            })?;
            days[day] = true;
        }
        let time = |field: &str, text: &Option<String>| {
            let found = text.as_deref().unwrap_or_default();
            time_of_day(found).ok_or_else(|| {
                format!("spec.window.{field}: found {found:?}, wanted a time such as 22:00 or 10pm")
            })
        };
        let start = time("startTime", &window.start_time)?;
        let end = time("endTime", &window.end_time)?;
        let name = window.time_zone.as_deref().unwrap_or_default();
        let zone = if name.is_empty() {
            TimeZone::UTC
        } else {
            zone(name).ok_or_else(|| {
                format!("spec.window.timeZone: found {name:?}, wanted a time zone such as Europe/Warsaw")
            })?
        };
        Ok(Self {
            days,
            start,
            end,
            zone,
        })
    }

    /// Whether nodes may be begun now.
    pub fn contains(&self, now: Timestamp) -> bool {
        let local = now.to_zoned(self.zone.clone());
        let day = local.weekday().to_sunday_zero_offset();
        if !usize::try_from(day).is_ok_and(|day| self.days[day]) {
            return false;
        }
        let time = Time::constant(local.hour(), local.minute(), local.second(), 0);
        if self.start <= self.end {
            (self.start..=self.end).contains(&time)
        } else {
            time >= self.start || time <= self.end
        }
    }

    /// When the answer may be another one next; none if it never is.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let inside = self.contains(now);
        let local = now.to_zoned(self.zone.clone());
        let mut found: Option<Timestamp> = None;
        for ahead in 0..=8 {
            let date = local.date().checked_add(i64::from(ahead).days()).ok()?;
            // A weekday ends at midnight, whatever the window says.
            for time in [Some(Time::midnight()), Some(self.start), Some(self.end)]
                .into_iter()
                .flatten()
            {
                let Ok(at) = date.to_datetime(time).to_zoned(self.zone.clone()) else {
                    continue;
                };
                let mut at = at.timestamp();
                if time == self.end {
                    // That second is included.
                    at = at.checked_add(SignedDuration::from_secs(1)).ok()?;
                }
                let differs = at > now && self.contains(at) != inside;
                if differs && found.is_none_or(|known| at < known) {
                    found = Some(at);
                }
            }
            if found.is_some() {
                return found;
            }
        }
        found
    }

    /// The time zone of its times.
    pub const fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// As it was given, for people.
    pub fn words(&self) -> String {
        let days: Vec<&str> = DAYS
            .iter()
            .zip(self.days)
            .filter(|(_, on)| *on)
            .map(|(names, _)| names[2])
            .collect();
        let days = if days.is_empty() {
            "no day".to_owned()
        } else {
            days.join(",")
        };
        let zone = self.zone.iana_name().unwrap_or("UTC");
        format!("{days} {}–{} {zone}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(days: &[&str], start: &str, end: &str) -> Result<Window, String> {
        let window = PlanWindow {
            days: Some(days.iter().map(|day| (*day).to_owned()).collect()),
            start_time: Some(start.to_owned()),
            end_time: Some(end.to_owned()),
            time_zone: None,
        };
        Window::parse(&window, |_| None)
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// 2026-11-22 is a Sunday.
    #[test]
    fn the_second_of_the_end_is_included() {
        let window = window(&["su"], "10:00", "11:00").unwrap();
        assert!(!window.contains(at("2026-11-22T09:59:59Z")));
        assert!(window.contains(at("2026-11-22T10:00:00Z")));
        assert!(window.contains(at("2026-11-22T11:00:00.5Z")));
        assert!(!window.contains(at("2026-11-22T11:00:01Z")));
        assert!(!window.contains(at("2026-11-23T10:30:00Z")), "a Monday");
        let next = window.changes_after(at("2026-11-22T09:00:00Z"));
        assert_eq!(next, Some(at("2026-11-22T10:00:00Z")));
        let next = window.changes_after(at("2026-11-22T10:00:00Z"));
        assert_eq!(next, Some(at("2026-11-22T11:00:01Z")));
        let next = window.changes_after(at("2026-11-22T11:00:01Z"));
        assert_eq!(next, Some(at("2026-11-29T10:00:00Z")));
    }

    #[test]
    fn past_midnight_the_present_day_counts() {
        let window = window(&["sunday"], "10pm", "2am").unwrap();
        assert!(window.contains(at("2026-11-22T22:00:00Z")));
        assert!(
            window.contains(at("2026-11-22T01:00:00Z")),
            "the morning of that day"
        );
        assert!(
            !window.contains(at("2026-11-23T01:00:00Z")),
            "Monday is not in days"
        );
        let next = window.changes_after(at("2026-11-22T23:00:00Z"));
        assert_eq!(next, Some(at("2026-11-23T00:00:00Z")));
    }

    #[test]
    fn without_days_it_is_never() {
        let window = window(&[], "0", "23:59:59").unwrap();
        assert!(!window.contains(at("2026-11-22T12:00:00Z")));
        assert_eq!(window.changes_after(at("2026-11-22T12:00:00Z")), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (days, start, end, words) in [
            (&["noday"][..], "1", "2", "spec.window.days[0]: found \"noday\""),
            (&["mon"][..], "", "2", "spec.window.startTime: found \"\""),
            (&["mon"][..], "1", "25", "spec.window.endTime: found \"25\""),
        ] {
            let error = window(days, start, end).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let named = PlanWindow {
            start_time: Some("1".to_owned()),
            end_time: Some("2".to_owned()),
            time_zone: Some("Mars/Base".to_owned()),
            ..PlanWindow::default()
        };
        let error = Window::parse(&named, |_| None).unwrap_err();
        assert!(error.contains("Mars/Base"), "{error}");
    }

    #[test]
    fn a_time_zone_is_kept_through_its_changes() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let given = PlanWindow {
            days: Some(vec!["6".to_owned()]),
            start_time: Some("08:00".to_owned()),
            end_time: Some("09:00".to_owned()),
            time_zone: Some("Europe/Warsaw".to_owned()),
        };
        let window = Window::parse(&given, |_| Some(zone)).unwrap();
        assert!(window.contains(at("2026-11-21T07:30:00Z")), "winter");
        assert!(window.contains(at("2026-07-04T06:30:00Z")), "summer");
        assert!(!window.contains(at("2026-07-04T07:30:00Z")));
    }
}
