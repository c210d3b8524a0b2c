//! When nodes may begin, as an owner, a MutexBinding or a MutexWindow says it: openings, freezes, and what is left of an opening. Reads
//! no clock and no time zone database: both are given.
//!
//! An opening belongs to the day on which it begins, also past midnight; its end is outside. A local time that a change of
//! the clocks skips is moved on by as much as it skips; one that comes twice is the first of the two.

use crate::time::words;
use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::{
    SignedDuration, Timestamp, ToSpan as _,
    civil::{Date, DateTime, Time},
    tz::{AmbiguousOffset, TimeZone},
};
use numo_api::{
    hours,
    plan::DAYS,
    time_of_day::{day_of_week, time_of_day},
};

/// An opening of a cron expression lasts seven days at most (seconds): as many are looked back.
const LONGEST_SECONDS: i64 = 7 * 24 * 3600;
/// Times of a cron expression that are looked at one after the other to find a start.
const LOOKED_AT: usize = 256;
/// A change of the clocks moves civil times by no more than so much.
const SHIFT: SignedDuration = SignedDuration::from_hours(2);
/// An opening of a week comes again within so many days, also where a change of the clocks skips one.
const DAYS_AHEAD: i64 = 16;

/// Openings and freezes that were understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    /// None: open whenever no freeze holds.
    openings: Option<Vec<Opening>>,
    freezes: Vec<Freeze>,
    zone: TimeZone,
    /// How much must be left before the end (seconds); none is a forecast's.
    pub min_remaining_seconds: Option<i64>,
}

/// A time at which no node begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub from: Timestamp,
    /// When it ends: that moment is outside.
    pub to: Timestamp,
    /// Why; may be empty.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Opening {
    Weekly {
        /// Sunday first.
        days: [bool; 7],
        /// None is the whole day.
        times: Option<(Time, Time)>,
    },
    Cron {
        /// As it was given, and understood. Compared by the text.
        cron: Cron,
        duration: SignedDuration,
    },
}

/// A cron expression of civil times, in two: what minutes and hours say of a day, and on which dates.
#[derive(Clone, Debug)]
struct Cron {
    text: String,
    /// Times of day, first to last; at least one.
    times: Vec<Time>,
    dates: Dates,
}

/// The dates of a cron expression.
#[derive(Clone, Debug)]
enum Dates {
    Every,
    Never,
    /// Those whose midnight, taken for a time of UTC, is one of these times.
    Of(Box<Crontab>),
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

impl Hours {
    /// Understands hours. `zone` finds a time zone by its name.
    ///
    /// Errors: the field under the one that holds the hours, what was found and what is wanted.
    pub fn parse(given: &hours::Hours, zone: impl FnOnce(&str) -> Option<TimeZone>) -> Result<Self, String> {
        let has_freezes = given.freezes.as_ref().is_some_and(|freezes| !freezes.is_empty());
        match given.openings.as_deref() {
            None if !has_freezes => {
                return Err("openings: found neither openings nor freezes, wanted one of them".to_owned());
            }
            Some([]) => return Err("openings: found none, wanted at least one".to_owned()),
            None | Some(_) => {}
        }
        let openings = given.openings.as_ref().map(|openings| {
            let openings = openings.iter().enumerate();
            openings
                .map(|(index, opening)| {
                    Opening::parse(opening).map_err(|problem| format!("openings[{index}].{problem}"))
                })
                .collect::<Result<Vec<_>, _>>()
        });
        let freezes = given.freezes.iter().flatten().enumerate();
        let freezes = freezes.map(|(index, freeze)| {
            Freeze::parse(freeze).map_err(|problem| format!("freezes[{index}].{problem}"))
        });
        let name = given.time_zone.as_deref().unwrap_or("UTC");
        let zone = if name == "UTC" {
            TimeZone::UTC
        } else {
            zone(name).ok_or_else(|| {
                format!("timeZone: found {name:?}, wanted a time zone such as Europe/Warsaw")
            })?
        };
        let min_remaining_seconds = given.min_remaining_seconds;
        if let Some(found) = min_remaining_seconds.filter(|seconds| *seconds < 0) {
            return Err(format!("minRemainingSeconds: found {found}, wanted 0 or more"));
        }
        Ok(Self {
            openings: openings.transpose()?,
            freezes: freezes.collect::<Result<_, _>>()?,
            zone,
            min_remaining_seconds,
        })
    }

    /// A time as people at the place of the openings read it, and as everybody does.
    pub fn clock(&self, at: Timestamp) -> String {
        clock(&self.zone, at)
    }

    /// The time zone of the openings.
    pub const fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The freezes.
    pub(super) fn freezes(&self) -> &[Freeze] {
        &self.freezes
    }

    /// Whether they have openings: without, nodes begin whenever no freeze holds.
    pub(super) const fn has_openings(&self) -> bool {
        self.openings.is_some()
    }

    /// Whether they have openings, of which none is on a date that comes.
    pub(crate) fn never_open(&self) -> bool {
        let never =
            |one: &Opening| matches!(one, Opening::Cron { cron, .. } if matches!(cron.dates, Dates::Never));
        self.openings.as_ref().is_some_and(|all| all.iter().all(never))
    }

    /// When the last of its own openings ends that are open at this time, with those of a day that follow one of a cron without a gap;
    /// none if none is.
    pub(super) fn opening_ends(&self, at: Timestamp) -> Option<Timestamp> {
        let openings = self.openings.iter().flatten();
        openings.filter_map(|opening| opening.ends(at, &self.zone)).max()
    }

    /// When the first of its own openings begins after this time.
    pub(super) fn opening_starts_after(&self, at: Timestamp) -> Option<Timestamp> {
        let openings = self.openings.iter().flatten();
        openings
            .filter_map(|opening| opening.starts_after(at, &self.zone))
            .min()
    }
}

/// A time as people of this zone read it, and as everybody does.
pub fn clock(zone: &TimeZone, at: Timestamp) -> String {
    match zone.iana_name() {
        None | Some("UTC") => at.strftime("%a %Y-%m-%d %H:%M UTC").to_string(),
        Some(name) => {
            let local = at.to_zoned(zone.clone());
            format!(
                "{} {name} ({})",
                local.strftime("%a %Y-%m-%d %H:%M"),
                at.strftime("%H:%M UTC")
            )
        }
    }
}

impl Freeze {
    fn parse(given: &hours::Freeze) -> Result<Self, String> {
        let time = |field: &str, found: &str| {
            found
                .parse::<Timestamp>()
                .map_err(|_| format!("{field}: found {found:?}, wanted a time such as 2026-12-19T00:00:00Z"))
        };
        let (from, to) = (time("from", &given.from)?, time("to", &given.to)?);
        if to <= from {
            return Err(format!("to: found {to}, wanted a time after from ({from})"));
        }
        Ok(Self {
            name: given.name.clone(),
            from,
            to,
            reason: given.reason.clone().unwrap_or_default(),
        })
    }
}

impl Opening {
    fn parse(given: &hours::Opening) -> Result<Self, String> {
        match (&given.cron, given.duration_seconds) {
            (Some(_), _)
                if given.days.is_some() || given.start_time.is_some() || given.end_time.is_some() =>
            {
                Err("cron: found it beside days, startTime or endTime, wanted either".to_owned())
            }
            (Some(text), Some(seconds)) if (1..=LONGEST_SECONDS).contains(&seconds) => Ok(Self::Cron {
                cron: Cron::parse(text)?,
                duration: SignedDuration::from_secs(seconds),
            }),
            (Some(_), found) => Err(format!(
                "durationSeconds: found {}, wanted how long it is open from each time of cron on, {LONGEST_SECONDS} s at most",
                found.map_or_else(|| "none".to_owned(), |seconds| seconds.to_string())
            )),
            (None, Some(_)) => Err("cron: found none beside durationSeconds, wanted both".to_owned()),
            (None, None) => Self::parse_weekly(given),
        }
    }

    fn parse_weekly(given: &hours::Opening) -> Result<Self, String> {
        if given.days.is_none() && given.start_time.is_none() && given.end_time.is_none() {
            let wanted = "wanted days, startTime and endTime, or cron and durationSeconds";
            return Err(format!("days: found an opening that says nothing, {wanted}"));
        }
        let mut days = [given.days.is_none(); 7];
        for (index, found) in given.days.iter().flatten().enumerate() {
            let day = day_of_week(found).ok_or_else(|| {
                format!("days[{index}]: found {found:?}, wanted a day such as mon or monday")
            })?;
            days[day] = true;
        }
        let time = |field: &str, found: &str| {
            time_of_day(found)
                .ok_or_else(|| format!("{field}: found {found:?}, wanted a time such as 22:00 or 10pm"))
        };
        let times = match (&given.start_time, &given.end_time) {
            (None, None) => None,
            (Some(start), Some(end)) => Some((time("startTime", start)?, time("endTime", end)?)),
            (Some(_), None) => return Err("endTime: found none beside startTime, wanted both".to_owned()),
            (None, Some(_)) => return Err("startTime: found none beside endTime, wanted both".to_owned()),
        };
        Ok(Self::Weekly { days, times })
    }

    /// When it ends, if it is open at this time: of a cron with the openings of that day that follow without a gap.
    fn ends(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Weekly { days, times } => {
                let today = at.to_zoned(zone.clone()).date();
                let spans = [-1, 0].into_iter().filter_map(|ahead| {
                    let date = today.checked_add(i64::from(ahead).days()).ok()?;
                    span(date, *days, *times, zone)
                });
                let open = spans.filter(|(start, end)| *start <= at && at < *end);
                open.map(|(_, end)| end).max()
            }
            Self::Cron { cron, duration } => {
                let start = cron.last_start(at, *duration, zone)?;
                let end = start.checked_add(*duration).ok()?;
                if at >= end {
                    return None;
                }
                let last = cron.last_of_row(start, *duration, zone);
                last.checked_add(*duration).ok()
            }
        }
    }

    /// When it opens next after this time.
    fn starts_after(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Weekly { days, times } => {
                let today = at.to_zoned(zone.clone()).date();
                let spans = (0..DAYS_AHEAD).filter_map(|ahead| {
                    let date = today.checked_add(ahead.days()).ok()?;
                    span(date, *days, *times, zone)
                });
                spans.map(|(start, _)| start).filter(|start| *start > at).min()
            }
            Self::Cron { cron, .. } => cron.starts_after(at, zone),
        }
    }
}

/// The opening that begins on a date, if one does and any of it is left by a change of the clocks.
fn span(
    date: Date,
    days: [bool; 7],
    times: Option<(Time, Time)>,
    zone: &TimeZone,
) -> Option<(Timestamp, Timestamp)> {
    let day = usize::try_from(date.weekday().to_sunday_zero_offset()).ok()?;
    if !*days.get(day)? {
        return None;
    }
    let (start, end) = times.unwrap_or((Time::midnight(), Time::midnight()));
    let last = if end <= start { date.tomorrow().ok()? } else { date };
    let is_skipped = |time: DateTime| {
        let offset = zone.to_ambiguous_timestamp(time).offset();
        matches!(offset, AmbiguousOffset::Gap { .. })
    };
    let end_is_skipped = || {
        let last_second = last.to_datetime(end).checked_sub(1.second());
        last_second.is_ok_and(is_skipped)
    };
    if is_skipped(date.to_datetime(start)) && end_is_skipped() {
        return None;
    }
    let at = |date: Date, time: Time| {
        let zoned = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
        Some(zoned.timestamp())
    };
    let (start, end) = (at(date, start)?, at(last, end)?);
    (start < end).then_some((start, end))
}

impl Cron {
    fn parse(text: &str) -> Result<Self, String> {
        let wanted =
            "wanted minute, hour, day of the month, month and day of the week, such as \"0 22 * * FRI\"";
        let refused = || format!("cron: found {text:?}, {wanted}");
        // A time zone may stand behind the five fields there; here it has a field of its own.
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, of_month, months, of_week] = fields[..] else {
            return Err(refused());
        };
        let is_any = |field: &str| field.starts_with(['*', '?']);
        if !is_any(of_month) && !is_any(of_week) {
            // By cron's rule it would be on at each of both: `0 22 1-7 * SAT` on seven days in a row, too.
            return Err(format!(
                "cron: found {text:?}, with days of the month and of the week, wanted one of them, such as \"0 22 * * SAT#1\""
            ));
        }
        let parsed = |text: &str| {
            let mut options = ParseOptions::default();
            options.fallback_timezone_option = FallbackTimezoneOption::UTC;
            cronexpr::parse_crontab_with(text, options).map_err(|_| refused())
        };
        let of_day = parsed(&format!("{minutes} {hours} * * *"))?;
        let dates = parsed(&format!("0 0 {of_month} {months} {of_week}"))?;
        let dates = if [of_month, months, of_week] == ["*"; 3] {
            Dates::Every
        } else if dates.find_next(Timestamp::UNIX_EPOCH).is_ok() {
            Dates::Of(Box::new(dates))
        } else {
            // The library looks four years ahead, in which each date comes that there is.
            Dates::Never
        };
        Ok(Self {
            text: text.to_owned(),
            times: times_of_day(&of_day).ok_or_else(refused)?,
            dates,
        })
    }

    /// The first start after this time.
    fn starts_after(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A civil time that a change of the clocks has moved on is behind us, and is to come.
        let mut civil = civil(at.checked_sub(SHIFT).ok()?, zone);
        for _ in 0..LOOKED_AT {
            civil = self.civil_after(civil)?;
            let start = in_zone(civil, zone)?;
            if start > at {
                return Some(start);
            }
        }
        None
    }

    /// The last start at or before this time, and no longer before than the duration, which is seven days at most.
    fn last_start(&self, at: Timestamp, duration: SignedDuration, zone: &TimeZone) -> Option<Timestamp> {
        let from = civil(at.checked_sub(duration + SHIFT).ok()?, zone);
        // In the hour that comes twice a civil time ahead of us may be over: it is the first of the two.
        let to = civil(at, zone).checked_add(SHIFT).ok()?;
        // A few days at most: each is looked at, as the next date of the expression may be years away.
        let days = from.date().series(1.day()).take_while(|date| *date <= to.date());
        let dates: Vec<Date> = days.filter(|date| self.has_date(*date)).collect();
        // Of the last day those no later than `to`.
        let behind = |date: &Date| {
            let is_last = *date == to.date();
            let times = self.times.partition_point(|time| !is_last || *time <= to.time());
            self.times.iter().take(times).rev()
        };
        let starts = dates.iter().rev();
        let starts = starts.flat_map(|date| behind(date).map(|time| date.to_datetime(*time)));
        let mut starts = starts
            .take_while(|start| *start > from)
            .filter_map(|start| Some((start, in_zone(start, zone)?)))
            .filter(|(_, start)| *start <= at);
        let (last, mut found) = starts.next()?;
        // Where the clocks go forward, a civil time before it may come later.
        let moved = last.checked_sub(SHIFT).ok()?;
        for (_, start) in starts.take_while(|(civil, _)| *civil > moved) {
            found = found.max(start);
        }
        Some(found)
    }

    /// The last start of the row that this start begins: those of its day that follow each other so closely that the openings between
    /// them leave no gap. The row ends before a change of the clocks.
    fn last_of_row(&self, start: Timestamp, duration: SignedDuration, zone: &TimeZone) -> Timestamp {
        let first = civil(start, zone);
        let from = self.times.partition_point(|time| *time < first.time());
        let row = self.times.get(from..).unwrap_or_default();
        if row.first() != Some(&first.time()) {
            // A change of the clocks has moved it.
            return start;
        }
        let follow = row.windows(2).take_while(|pair| match pair {
            [one, next] => one.duration_until(*next) <= duration,
            _ => false,
        });
        let row = row.iter().take(follow.count() + 1);
        let change = zone.following(start).next().map(|change| change.timestamp());
        let starts = row.rev().filter_map(|time| {
            let start = start.checked_add(first.time().duration_until(*time)).ok()?;
            change.is_none_or(|change| start < change).then_some(start)
        });
        starts.max().unwrap_or(start)
    }

    /// The first civil time of the expression after this one.
    fn civil_after(&self, civil: DateTime) -> Option<DateTime> {
        let date = self.date_from(civil.date())?;
        if date > civil.date() {
            return Some(date.to_datetime(*self.times.first()?));
        }
        let later = self.times.partition_point(|time| *time <= civil.time());
        if let Some(time) = self.times.get(later) {
            return Some(date.to_datetime(*time));
        }
        let date = self.date_from(date.tomorrow().ok()?)?;
        Some(date.to_datetime(*self.times.first()?))
    }

    /// Whether it is a date of the expression.
    fn has_date(&self, date: Date) -> bool {
        match &self.dates {
            Dates::Every => true,
            Dates::Never => false,
            Dates::Of(midnights) => {
                let midnight = in_zone(date.to_datetime(Time::midnight()), &TimeZone::UTC);
                midnight.is_some_and(|midnight| midnights.matches(midnight).unwrap_or(false))
            }
        }
    }

    /// The first date of the expression from this one on.
    fn date_from(&self, date: Date) -> Option<Date> {
        match &self.dates {
            Dates::Every => Some(date),
            Dates::Never => None,
            Dates::Of(midnights) => {
                let midnight = in_zone(date.to_datetime(Time::midnight()), &TimeZone::UTC)?;
                let before = midnight.checked_sub(SignedDuration::from_mins(1)).ok()?;
                Some(midnights.find_next(before).ok()?.date())
            }
        }
    }
}

/// The times of one day at which an expression of minutes and hours says so; none if it never does.
fn times_of_day(of_day: &Crontab) -> Option<Vec<Time>> {
    let day = Timestamp::UNIX_EPOCH;
    let end = day.checked_add(SignedDuration::from_hours(24)).ok()?;
    let mut times = Vec::new();
    let mut at = day.checked_sub(SignedDuration::from_mins(1)).ok()?;
    loop {
        let next = of_day.find_next(at).ok()?;
        at = next.timestamp();
        if at >= end {
            return (!times.is_empty()).then_some(times);
        }
        times.push(next.time());
    }
}

/// The civil time of this moment.
fn civil(at: Timestamp, zone: &TimeZone) -> DateTime {
    at.to_zoned(zone.clone()).datetime()
}

/// The moment of a civil time.
fn in_zone(civil: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    Some(civil.to_zoned(zone.clone()).ok()?.timestamp())
}

impl std::fmt::Display for Hours {
    /// As they were given, for people.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(openings) = &self.openings else {
            return f.write_str("always");
        };
        for (index, opening) in openings.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{opening}")?;
        }
        write!(f, " {}", self.zone.iana_name().unwrap_or("UTC"))
    }
}

impl std::fmt::Display for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Weekly { days, times } => {
                let named = DAYS.iter().zip(days).filter(|(_, on)| **on);
                let named: Vec<&str> = named.map(|(names, _)| names[2]).collect();
                match named.len() {
                    7 => f.write_str("every day")?,
                    _ => f.write_str(&named.join(","))?,
                }
                match times {
                    None => Ok(()),
                    Some((start, end)) => {
                        write!(f, " {}–{}", start.strftime("%H:%M"), end.strftime("%H:%M"))
                    }
                }
            }
            Self::Cron { cron, duration } => {
                write!(f, "{:?} for {}", cron.text, words(duration.as_secs()))
            }
        }
    }
}
