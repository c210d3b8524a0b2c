//! What the judge says of opening hours, at the edges of days and where clocks change.

use numo_api::hours::Hours;
use numo_sim::{
    judge::hours::{DAY, are_open, change, date, is_on, is_open},
    world,
};

/// Seconds since midnight, UTC, of the day on which the clocks change at 10:00.
fn open(hours: &serde_json::Value, hour: i64, minute: i64) -> bool {
    let hours: Hours = serde_json::from_value(hours.clone()).unwrap();
    let midnight = change() - 10 * 3600;
    is_open(&hours, midnight + hour * 3600 + minute * 60)
}

#[test]
fn clocks_that_change_move_times_and_skip_openings() {
    let of = |zone: &str, from: &str, to: &str| serde_json::json!({"timeZone": zone, "openings": [{"startTime": from, "endTime": to}]});
    // 10:00 to 11:00 is skipped: 10:30 is 11:30 there.
    let hours = of(world::FORWARD, "10:30", "12:00");
    assert!(!open(&hours, 10, 29) && open(&hours, 10, 30) && open(&hours, 10, 59));
    assert!(!open(&hours, 11, 0));
    let hours = of(world::FORWARD, "10:00", "10:30");
    assert!(!open(&hours, 10, 0) && !open(&hours, 10, 29));
    // 10:00 to 11:00 comes twice there: the first is at 09:00.
    let hours = of(world::BACK, "10:30", "12:00");
    assert!(!open(&hours, 9, 29) && open(&hours, 9, 30) && open(&hours, 11, 59));
    assert!(!open(&hours, 12, 0));
}

#[test]
fn a_zone_that_nobody_knows_is_never_open_and_shuts_what_others_open() {
    let of = |given: serde_json::Value| -> Hours { serde_json::from_value(given).unwrap() };
    let always = of(serde_json::json!({"openings": [{"startTime": "00:00", "endTime": "24:00"}]}));
    let nowhere = of(serde_json::json!({"timeZone": world::NOWHERE, "freezes": []}));
    assert!(!is_open(&nowhere, change()));
    assert!(are_open(std::slice::from_ref(&always), change()));
    assert!(!are_open(&[always, nowhere], change()));
}

#[test]
fn a_leap_day_is_a_date_of_every_fourth_year() {
    let day = |text: &str| {
        let at: jiff::Timestamp = format!("{text}T12:00:00Z").parse().unwrap();
        at.as_second().div_euclid(DAY)
    };
    for (text, wanted) in [
        ("1970-01-01", (1, 1)),
        ("2026-01-05", (5, 1)),
        ("2027-12-31", (31, 12)),
        ("2028-02-29", (29, 2)),
        ("2028-03-01", (1, 3)),
        ("2029-02-28", (28, 2)),
        ("2029-03-01", (1, 3)),
        ("2100-03-01", (1, 3)),
    ] {
        assert_eq!(date(day(text)), wanted, "{text}");
    }
    assert!(is_on("0 */2 29 2 *", day("2028-02-29")));
    assert!(!is_on("0 */2 29 2 *", day("2027-03-01")));
    assert!(is_on("0 */2 * * *", day("2027-03-01")));
}

#[test]
fn an_opening_over_midnight_is_of_the_day_on_which_it_begins() {
    let of = |day: &str| serde_json::json!({"openings": [{"days": [day], "startTime": "22:00", "endTime": "09:00"}]});
    // It is a Monday.
    assert!(open(&of("sun"), 8, 59) && !open(&of("sun"), 9, 0) && !open(&of("sun"), 22, 0));
    assert!(!open(&of("mon"), 8, 0) && open(&of("mon"), 22, 0));
}
