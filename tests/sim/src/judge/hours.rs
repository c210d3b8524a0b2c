//! When nodes of an owner may begin (13), told from what people wrote in specs alone. Time zones of these worlds have their one change
//! of the clocks at a known time, so that nothing but numbers is needed.

use super::{Judge, Verdict, breach, fleet};
use crate::world::{self, CLOCKS_CHANGE};
use numo_api::{
    MutexWindowSpec,
    hours::{Hours, Opening},
};
use numo_core::{
    Owner, OwnerKind,
    observed::{NodeView, Observed},
};

/// Seconds.
pub const DAY: i64 = 24 * 3600;
/// How far the time that is to be left is looked at, one moment after the other (seconds).
const STEP: i64 = 30;

impl Judge {
    /// 13: no node is begun, or asked about in its turn, while hours of its owner are closed, or would be too soon.
    pub(super) fn in_hours(&self, seen: &Observed, owner: &Owner, node: &NodeView, begins: bool) -> Verdict {
        let now = world::timestamp(self.decided_at).as_second();
        if let Some(words) = closed(seen, owner, now).or_else(|| windows_closed(seen, node, now)) {
            return breach(
                "13",
                format!("{} of {owner} goes on out of hours: {words}", node.name),
            );
        }
        let soon = || ends_soon(seen, owner, now).or_else(|| windows_end_soon(seen, node, now));
        if begins && let Some(words) = soon() {
            return breach(
                "13",
                format!("{} of {owner} is begun too late: {words}", node.name),
            );
        }
        Ok(())
    }
}

/// The MutexWindows that select the node by the labels that they want of it: these worlds have no other selectors.
fn windows(seen: &Observed, node: &NodeView) -> Vec<Hours> {
    let selects = |spec: &MutexWindowSpec| {
        let selector = spec.node_selector.as_ref();
        selector.is_some_and(|selector| {
            let mut wanted = selector.match_labels.iter().flatten();
            wanted.all(|(key, value)| node.labels.get(key) == Some(value))
        })
    };
    let specs = seen.windows.values().map(|window| &window.spec);
    specs
        .filter(|spec| selects(spec))
        .map(|spec| spec.hours.clone())
        .collect()
}

/// Whether a node may begin under these windows: outside the freezes of all of them, and in an opening of one, where one has any. One of a
/// time zone that nobody knows is never open, whatever others say.
pub fn are_open(windows: &[Hours], at: i64) -> bool {
    if !windows.iter().all(has_zone) {
        return false;
    }
    let only_freezes = |hours: &Hours| Hours {
        openings: None,
        ..hours.clone()
    };
    let only_openings = |hours: &Hours| Hours {
        freezes: None,
        ..hours.clone()
    };
    let mut bounded = windows.iter().filter(|hours| hours.openings.is_some()).peekable();
    windows.iter().all(|hours| is_open(&only_freezes(hours), at))
        && (bounded.peek().is_none() || bounded.any(|hours| is_open(&only_openings(hours), at)))
}

/// What closes the node, whoever would begin it, at a time (seconds of the epoch of UNIX), if anything.
pub fn windows_closed(seen: &Observed, node: &NodeView, at: i64) -> Option<String> {
    let windows = windows(seen, node);
    (!are_open(&windows, at)).then(|| format!("MutexWindows {windows:?}"))
}

/// Less is left than the least that a window says which is open now. One that says nothing asks for no less than nothing.
fn windows_end_soon(seen: &Observed, node: &NodeView, at: i64) -> Option<String> {
    let windows = windows(seen, node);
    let is_bounded = windows.iter().any(|hours| hours.openings.is_some());
    let open = windows.iter().filter(|hours| {
        let openings = Hours {
            freezes: None,
            ..(*hours).clone()
        };
        !is_bounded || hours.openings.is_some() && is_open(&openings, at)
    });
    let least = open.map(|hours| hours.min_remaining_seconds.unwrap_or(0)).min()?;
    let mut moments = (0..least).step_by(usize::try_from(STEP).unwrap_or(1));
    let too_late = moments.any(|ahead| !are_open(&windows, at + ahead))
        || least > 0 && !are_open(&windows, at + least - 1);
    too_late.then(|| format!("MutexWindows {windows:?}"))
}

/// What closes an owner at a time (seconds of the epoch of UNIX), if anything.
pub fn closed(seen: &Observed, owner: &Owner, at: i64) -> Option<String> {
    let (hours, starts) = all(seen, owner);
    let later = starts.into_iter().find(|start| {
        let start = start.parse::<jiff::Timestamp>();
        start.is_ok_and(|start| start.as_second() > at)
    });
    let shut = || hours.into_iter().find(|hours| !is_open(hours, at));
    let words = later.map(|start| format!("startAfter {start}"));
    words.or_else(|| shut().map(|hours| format!("{hours:?}")))
}

/// Hours of which less is left than they say must be.
fn ends_soon(seen: &Observed, owner: &Owner, at: i64) -> Option<String> {
    let (hours, _) = all(seen, owner);
    let too_late = |hours: &&Hours| {
        let least = hours.min_remaining_seconds.unwrap_or(0);
        let mut moments = (0..least).step_by(usize::try_from(STEP).unwrap_or(1));
        moments.any(|ahead| !is_open(hours, at + ahead)) || least > 0 && !is_open(hours, at + least - 1)
    };
    hours.into_iter().find(too_late).map(|hours| format!("{hours:?}"))
}

/// Every hours that the owner is under, and every time before which nothing of it begins.
fn all<'a>(seen: &'a Observed, owner: &Owner) -> (Vec<&'a Hours>, Vec<&'a String>) {
    if owner.kind == OwnerKind::MutexRunConfig {
        let run = seen.runs.get(&owner.key).map(|run| &run.spec);
        let hours = run.and_then(|spec| spec.window.as_ref());
        let start = run.and_then(|spec| spec.start_after.as_ref());
        return (hours.into_iter().collect(), start.into_iter().collect());
    }
    let hours = fleet::settings(seen, owner).filter_map(|one| one.window.as_ref());
    let starts = fleet::settings(seen, owner).filter_map(|one| one.start_after.as_ref());
    (hours.collect(), starts.collect())
}

/// Whether these worlds have the time zone.
fn has_zone(hours: &Hours) -> bool {
    let zone = hours.time_zone.as_deref();
    zone.is_none_or(|zone| ["UTC", world::FORWARD, world::BACK].contains(&zone))
}

/// Whether these hours let a node begin at a time (seconds of the epoch of UNIX).
pub fn is_open(hours: &Hours, at: i64) -> bool {
    if !has_zone(hours) {
        return false;
    }
    let second = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .map_or(0, jiff::Timestamp::as_second)
    };
    let mut freezes = hours.freezes.iter().flatten();
    if freezes.any(|freeze| second(&freeze.from) <= at && at < second(&freeze.to)) {
        return false;
    }
    let zone = hours.time_zone.as_deref().unwrap_or("UTC");
    let openings = hours.openings.as_ref();
    openings.is_none_or(|all| all.iter().any(|opening| is_in(opening, zone, at)))
}

fn is_in(opening: &Opening, zone: &str, at: i64) -> bool {
    let today = (at + offset(zone, at)).div_euclid(DAY);
    if let (Some(cron), Some(lasts)) = (&opening.cron, opening.duration_seconds) {
        return [today - 1, today].into_iter().any(|day| {
            let mut starts = starts(cron)
                .into_iter()
                .map(|second| instant(zone, day * DAY + second));
            is_on(cron, day) && starts.any(|start| start <= at && at < start + lasts)
        });
    }
    let second = |text: Option<&String>| text.map_or(0, |text| second_of_day(text));
    let (from, to) = (
        second(opening.start_time.as_ref()),
        second(opening.end_time.as_ref()),
    );
    [today - 1, today].into_iter().any(|day| {
        let last = if to <= from { day + 1 } else { day };
        let (start, end) = (day * DAY + from, last * DAY + to);
        let is_skipped = skips(zone, start) && skips(zone, end - 1);
        let begins = opening
            .days
            .as_ref()
            .is_none_or(|days| days.iter().any(|name| weekday(day) == name));
        begins && !is_skipped && instant(zone, start) <= at && at < instant(zone, end)
    })
}

/// Whether an expression has starts on a day since 1970-01-01: these worlds have no days of the week in them.
pub fn is_on(cron: &str, day: i64) -> bool {
    let mut fields = cron.split(' ').skip(2);
    let (day, month) = date(day);
    let mut is = |number: i64| {
        let field = fields.next().unwrap_or("*");
        field == "*" || field == number.to_string()
    };
    is(day) && is(month)
}

/// The day of the month and the month of a day since 1970-01-01.
pub fn date(day: i64) -> (i64, i64) {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut left) = (1970, day);
    while left >= 365 + i64::from(is_leap(year)) {
        left -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + i64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (left + 1, month)
}

/// The seconds of the day of an expression such as `30 */2 * * *`: these worlds have no others.
fn starts(cron: &str) -> Vec<i64> {
    let mut fields = cron.split(' ');
    let minute: i64 = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0);
    let hour = fields.next().unwrap_or_default();
    let hours: Vec<i64> = match hour.strip_prefix("*/") {
        Some(each) => (0..24)
            .step_by(each.parse::<usize>().unwrap_or(24).max(1))
            .collect(),
        None => hour.parse().into_iter().collect(),
    };
    hours.into_iter().map(|hour| hour * 3600 + minute * 60).collect()
}

fn second_of_day(text: &str) -> i64 {
    let (hours, minutes) = text.split_once(':').unwrap_or((text, "0"));
    hours.parse::<i64>().unwrap_or(0) * 3600 + minutes.parse::<i64>().unwrap_or(0) * 60
}

/// The weekday of a day since 1970-01-01, a Thursday.
fn weekday(day: i64) -> &'static str {
    const NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    usize::try_from((day + 4).rem_euclid(7)).map_or("", |index| NAMES[index])
}

/// How far the clocks of a zone are ahead of UTC (seconds).
fn offset(zone: &str, at: i64) -> i64 {
    let (before, after) = offsets(zone);
    if at < change() { before } else { after }
}

fn offsets(zone: &str) -> (i64, i64) {
    match zone {
        world::FORWARD => (0, 3600),
        world::BACK => (3600, 0),
        _ => (0, 0),
    }
}

/// When the clocks of zones change (seconds of the epoch of UNIX).
pub fn change() -> i64 {
    world::timestamp(CLOCKS_CHANGE).as_second()
}

/// Whether the clocks of the zone never show this time.
fn skips(zone: &str, civil: i64) -> bool {
    let (before, after) = offsets(zone);
    civil - before >= change() && civil - after < change()
}

/// When the clocks of the zone show this time first; one that is skipped is moved on by as much.
fn instant(zone: &str, civil: i64) -> i64 {
    let (before, after) = offsets(zone);
    if civil - before < change() || skips(zone, civil) {
        civil - before
    } else {
        civil - after
    }
}
