//! When nodes begin: openings, freezes, what is left of an opening, and a later start. One meaning for every kind of owner.
//!
//! The time of every snapshot is Friday, 2027-01-15 08:00 UTC.

use crate::{
    cluster::{Cluster, at, hours, now},
    words::{check_cluster as check, words},
};
use jiff::Timestamp;
use numo_core::{
    Snapshot,
    admit::{
        hours::Hours,
        union::{State, Union},
    },
    decide, invariant,
    model::{Course, Imagined},
};
use serde_json::{Value, json};

fn parse(spec: Value) -> Result<Hours, String> {
    hours(&serde_json::from_value(spec).expect("hours"))
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

/// How hours stand: `open until …`, `shut until …`, with the name of a freeze.
fn stands(hours: &Hours, at: &str) -> String {
    let until = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    match Union(&[hours]).at(time(at)) {
        State::Open { until: end } => format!("open until {}", until(end)),
        State::Shut { freeze: None, opens } => format!("shut until {}", until(opens)),
        State::Shut {
            freeze: Some(freeze),
            opens,
        } => format!("{} until {}", freeze.name, until(opens)),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a table of literals")]
fn check_times(spec: Value, times: &[(&str, &str)]) {
    let hours = parse(spec.clone()).expect("sound hours");
    for (at, expected) in times {
        assert_eq!(stands(&hours, at), *expected, "{at} of {spec}");
    }
}

#[test]
fn an_opening_over_midnight_belongs_to_the_day_on_which_it_begins() {
    check_times(
        json!({"openings": [{"days": ["fri"], "startTime": "22:00", "endTime": "4am"}]}),
        &[
            ("2027-01-15T21:59:59Z", "shut until 2027-01-15T22:00:00Z"),
            ("2027-01-15T22:00:00Z", "open until 2027-01-16T04:00:00Z"),
            ("2027-01-16T03:59:59Z", "open until 2027-01-16T04:00:00Z"),
            ("2027-01-16T04:00:00Z", "shut until 2027-01-22T22:00:00Z"),
            // The small hours of a Friday are of no opening.
            ("2027-01-15T01:00:00Z", "shut until 2027-01-15T22:00:00Z"),
        ],
    );
}

#[test]
fn a_leap_day_is_a_day_as_any_other() {
    // 2028-02-29 is a Tuesday.
    check_times(
        json!({"openings": [{"days": ["mon", "tue"], "startTime": "22:00", "endTime": "06:00"}]}),
        &[
            ("2028-02-28T23:00:00Z", "open until 2028-02-29T06:00:00Z"),
            ("2028-02-29T06:00:00Z", "shut until 2028-02-29T22:00:00Z"),
            ("2028-02-29T23:59:59Z", "open until 2028-03-01T06:00:00Z"),
            ("2028-03-01T06:00:00Z", "shut until 2028-03-06T22:00:00Z"),
        ],
    );
    check_times(
        json!({"openings": [{"cron": "0 22 29 2 *", "durationSeconds": 14_400}]}),
        &[
            ("2028-02-29T22:00:00Z", "open until 2028-03-01T02:00:00Z"),
            ("2028-03-01T02:00:00Z", "shut until 2032-02-29T22:00:00Z"),
        ],
    );
}

#[test]
fn openings_that_touch_are_one_and_a_week_without_a_gap_has_no_end() {
    check_times(
        json!({"openings": [
            {"days": ["sat"]}, {"days": ["sun"], "startTime": "0", "endTime": "6"},
            {"days": ["fri"], "startTime": "20", "endTime": "0"},
        ]}),
        &[("2027-01-15T20:00:00Z", "open until 2027-01-17T06:00:00Z")],
    );
    check_times(
        json!({"openings": [{"days": ["mo", "tu", "we", "th", "fr", "sa", "su"]}]}),
        &[("2027-01-15T20:00:00Z", "open until never")],
    );
}

/// A row of more openings than a search counts one by one has an end all the same.
#[test]
fn short_openings_in_a_row_are_open_until_the_last_of_them_ends() {
    let crons = |crons: &[(&str, i64)], zone: &str| {
        let crons = crons.iter();
        let openings = crons.map(|(cron, seconds)| json!({"cron": cron, "durationSeconds": seconds}));
        json!({"openings": openings.collect::<Vec<_>>(), "timeZone": zone})
    };
    check_times(
        crons(&[("* 0-1 * * *", 60)], "UTC"),
        &[
            ("2027-01-15T00:00:00Z", "open until 2027-01-15T02:00:00Z"),
            ("2027-01-15T01:30:30Z", "open until 2027-01-15T02:00:00Z"),
            ("2027-01-15T02:00:00Z", "shut until 2027-01-16T00:00:00Z"),
        ],
    );
    // Those that overlap, too, and over midnight.
    check_times(
        crons(&[("*/5 0-20,23 * * *", 900)], "UTC"),
        &[("2027-01-15T23:02:00Z", "open until 2027-01-16T21:10:00Z")],
    );
    // A gap between two of them is one.
    check_times(
        crons(&[("*/2 0-3 * * *", 60)], "UTC"),
        &[
            ("2027-01-15T00:00:30Z", "open until 2027-01-15T00:01:00Z"),
            ("2027-01-15T00:01:00Z", "shut until 2027-01-15T00:02:00Z"),
        ],
    );
    check_times(
        crons(&[("0-58/2 0-1 * * *", 60), ("1-59/2 0-1 * * *", 60)], "UTC"),
        &[("2027-01-15T00:00:00Z", "open until 2027-01-15T02:00:00Z")],
    );
    check_times(
        crons(&[("* * * * *", 60)], "Europe/Warsaw"),
        &[("2027-01-15T00:00:00Z", "open until never")],
    );
    // No end of several that take turns is in sight, and none is made of it that a node could rely on.
    check_times(
        crons(&[("0-58/2 * * * *", 60), ("1-59/2 * * * *", 60)], "UTC"),
        &[("2027-01-15T00:00:00Z", "open until 2027-01-16T00:00:00Z")],
    );
    // The hour that the clocks skip; and the hour that comes twice, whose second time has no start.
    let nights = || crons(&[("* 0-4 * * *", 60)], "Europe/Warsaw");
    check_times(
        nights(),
        &[
            ("2027-03-27T23:30:00Z", "open until 2027-03-28T03:00:00Z"),
            ("2027-10-30T22:30:00Z", "open until 2027-10-31T01:00:00Z"),
            ("2027-10-31T01:10:00Z", "shut until 2027-10-31T02:00:00Z"),
            ("2027-10-31T02:00:00Z", "open until 2027-10-31T04:00:00Z"),
        ],
    );
}

#[test]
fn the_clocks_going_forward_shorten_a_night_and_going_back_lengthen_it() {
    let nights =
        json!({"timeZone": "Europe/Warsaw", "openings": [{"startTime": "22:00", "endTime": "06:00"}]});
    check_times(
        nights,
        &[
            // 2027-03-28 at 02:00 they go to 03:00.
            ("2027-03-27T20:59:59Z", "shut until 2027-03-27T21:00:00Z"),
            ("2027-03-27T21:00:00Z", "open until 2027-03-28T04:00:00Z"),
            ("2027-03-28T20:00:00Z", "open until 2027-03-29T04:00:00Z"),
            // 2027-10-31 at 03:00 they go to 02:00.
            ("2027-10-30T20:00:00Z", "open until 2027-10-31T05:00:00Z"),
        ],
    );
    // What begins in the hour that is skipped begins after it, and what begins in the hour that comes twice begins once.
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"startTime": "02:30", "endTime": "04:00"}]}),
        &[
            ("2027-03-28T00:59:00Z", "shut until 2027-03-28T01:30:00Z"),
            ("2027-03-28T01:30:00Z", "open until 2027-03-28T02:00:00Z"),
            ("2027-10-31T00:29:00Z", "shut until 2027-10-31T00:30:00Z"),
            ("2027-10-31T01:29:00Z", "open until 2027-10-31T03:00:00Z"),
        ],
    );
    // All of it is skipped, and a weekly one comes a week later.
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"days": ["sun"], "startTime": "02:00", "endTime": "03:00"}]}),
        &[("2027-03-22T12:00:00Z", "shut until 2027-04-04T00:00:00Z")],
    );
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"startTime": "02:10", "endTime": "02:40"}]}),
        &[("2027-03-28T01:15:00Z", "shut until 2027-03-29T00:10:00Z")],
    );
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"startTime": "02:00", "endTime": "03:00"}]}),
        &[("2027-03-28T00:30:00Z", "shut until 2027-03-29T00:00:00Z")],
    );
}

#[test]
fn a_cron_expression_opens_for_a_time_at_the_place_of_the_time_zone() {
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"cron": "0 22 * * FRI", "durationSeconds": 21_600}]}),
        &[
            ("2027-01-15T08:00:00Z", "shut until 2027-01-15T21:00:00Z"),
            ("2027-01-15T21:00:00Z", "open until 2027-01-16T03:00:00Z"),
            ("2027-01-16T02:59:59Z", "open until 2027-01-16T03:00:00Z"),
            ("2027-01-16T03:00:00Z", "shut until 2027-01-22T21:00:00Z"),
            ("2027-07-16T19:00:00Z", "shut until 2027-07-16T20:00:00Z"),
        ],
    );
    check_times(
        json!({"openings": [{"cron": "0 0 29 2 *", "durationSeconds": 3600}]}),
        &[("2027-01-15T08:00:00Z", "shut until 2028-02-29T00:00:00Z")],
    );
    // Starts lie close together at night, and the last of them counts.
    check_times(
        json!({"openings": [{"cron": "* 0-3 * * *", "durationSeconds": 36_000}]}),
        &[
            ("2027-01-15T13:58:00Z", "open until 2027-01-15T13:59:00Z"),
            ("2027-01-15T13:59:00Z", "shut until 2027-01-16T00:00:00Z"),
        ],
    );
    // A start that the clocks move on is not missed on the way.
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"cron": "30 2 * * *", "durationSeconds": 1800}]}),
        &[
            ("2027-03-28T01:10:00Z", "shut until 2027-03-28T01:30:00Z"),
            ("2027-03-28T01:40:00Z", "open until 2027-03-28T02:00:00Z"),
        ],
    );
    // Always open, minute by minute.
    check_times(
        json!({"openings": [{"cron": "* * * * *", "durationSeconds": 60}]}),
        &[("2027-03-28T01:10:30Z", "open until never")],
    );
    // A start in the hour that comes twice is the first of the two.
    check_times(
        json!({"timeZone": "Europe/Warsaw", "openings": [{"cron": "30 2 * * *", "durationSeconds": 1800}]}),
        &[
            ("2027-10-31T00:30:00Z", "open until 2027-10-31T01:00:00Z"),
            ("2027-10-31T01:30:00Z", "shut until 2027-11-01T01:30:00Z"),
        ],
    );
}

/// numo takes an expression apart, so that a decision that asks often is quick. The library, asked for the whole, is the witness.
#[test]
fn cron_expressions_open_when_the_library_says_so() {
    let mut options = cronexpr::ParseOptions::default();
    options.fallback_timezone_option = cronexpr::FallbackTimezoneOption::UTC;
    for cron in [
        "*/15 */3 * * *",
        "0 22 * * FRI",
        "59 23 31 * *",
        "0 0 29 2 *",
        "5,35 9-17 * JAN-MAR MON-FRI",
        "0 0 L * *",
        "30 4 1,15 * *",
        "0 12 * * MON#1",
        "0 0 15W * *",
        "* * * * *",
    ] {
        let hours = parse(json!({"openings": [{"cron": cron, "durationSeconds": 60}]})).expect(cron);
        let whole = cronexpr::parse_crontab_with(cron, options).expect(cron);
        // Some 200 moments of four years, at every time of the day.
        let moments = (0..200).map(|step| time("2026-01-01T00:00:00Z").as_second() + step * 631_337);
        for moment in moments {
            let at = Timestamp::from_second(moment).expect("a time");
            let next = whole.find_next(at).expect(cron).timestamp();
            let minute = Timestamp::from_second(moment - moment.rem_euclid(60)).expect("a time");
            let before = Timestamp::from_second(minute.as_second() - 1).expect("a time");
            let is_open = whole.find_next(before).expect(cron).timestamp() == minute;
            match Union(&[&hours]).at(at) {
                State::Open { .. } => assert!(is_open, "{cron} is shut at {at}"),
                State::Shut { opens, .. } => {
                    assert!(!is_open, "{cron} is open at {at}");
                    assert_eq!(opens, Some(next), "{cron} at {at}");
                }
            }
        }
    }
}

#[test]
fn a_freeze_shuts_whatever_opens_and_opens_nothing_itself() {
    let freeze = |name: &str, from: &str, to: &str| json!({"name": name, "from": from, "to": to});
    check_times(
        json!({
            "openings": [{"startTime": "20:00", "endTime": "23:00"}],
            "freezes": [
                freeze("closing", "2027-01-15T21:00:00Z", "2027-01-18T00:00:00+01:00"),
                freeze("audit", "2027-01-17T00:00:00Z", "2027-01-19T21:30:00Z"),
            ],
        }),
        &[
            ("2027-01-15T20:30:00Z", "open until 2027-01-15T21:00:00Z"),
            ("2027-01-15T21:00:00Z", "closing until 2027-01-19T21:30:00Z"),
            ("2027-01-17T12:00:00Z", "audit until 2027-01-19T21:30:00Z"),
            ("2027-01-19T21:30:00Z", "open until 2027-01-19T23:00:00Z"),
        ],
    );
    check_times(
        json!({"freezes": [freeze("closing", "2027-01-16T00:00:00Z", "2027-01-17T00:00:00Z")]}),
        &[
            ("2027-01-15T00:00:00Z", "open until 2027-01-16T00:00:00Z"),
            ("2027-01-16T00:00:00Z", "closing until 2027-01-17T00:00:00Z"),
            ("2027-01-17T00:00:00Z", "open until never"),
        ],
    );
}

#[test]
fn hours_that_cannot_be_understood_name_the_field_and_what_is_wanted() {
    let opening = |opening: Value| json!({"openings": [opening]});
    for (spec, words) in [
        (
            opening(json!({"days": ["someday"]})),
            "openings[0].days[0]: found \"someday\", wanted a day such as mon or monday",
        ),
        (
            opening(json!({"startTime": "25", "endTime": "1"})),
            "openings[0].startTime: found \"25\", wanted a time such as 22:00 or 10pm",
        ),
        (
            opening(json!({"startTime": "1"})),
            "openings[0].endTime: found none beside startTime",
        ),
        (
            opening(json!({"cron": "0 22 * * FRI"})),
            "openings[0].durationSeconds: found none, wanted how long it is open",
        ),
        (
            opening(json!({"cron": "0 22 * * FRI", "durationSeconds": i64::MAX})),
            "openings[0].durationSeconds: found 9223372036854775807, wanted how long it is open from each time of cron on, 604800 s at most",
        ),
        (
            opening(json!({"cron": "0 22 * * FRI", "durationSeconds": 604_801})),
            "openings[0].durationSeconds: found 604801, wanted how long it is open",
        ),
        (
            opening(json!({"cron": "0 22 * * FRI Mars/Base", "durationSeconds": 60})),
            "openings[0].cron: found \"0 22 * * FRI Mars/Base\", wanted minute, hour,",
        ),
        (
            opening(json!({"cron": "61 22 * * FRI", "durationSeconds": 60})),
            "openings[0].cron: found \"61 22 * * FRI\", wanted minute, hour,",
        ),
        (
            opening(json!({"cron": "0 22 1-7 * SAT", "durationSeconds": 60})),
            "openings[0].cron: found \"0 22 1-7 * SAT\", with days of the month and of the week, wanted one of them",
        ),
        (
            opening(json!({"cron": "0 22 * * FRI", "durationSeconds": 60, "days": ["mon"]})),
            "openings[0].cron: found it beside days",
        ),
        (
            json!({}),
            "openings: found neither openings nor freezes, wanted one of them",
        ),
        (
            json!({"openings": null, "freezes": []}),
            "openings: found neither openings nor freezes",
        ),
        (
            opening(json!({"days": null})),
            "openings[0].days: found an opening that says nothing",
        ),
        (
            json!({"timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]}),
            "timeZone: found \"Mars/Base\", wanted a time zone such as Europe/Warsaw",
        ),
        (
            json!({"freezes": [{"name": "x", "from": "2027-01-02T00:00:00Z", "to": "2027-01-01T00:00:00Z"}]}),
            "freezes[0].to: found 2027-01-01T00:00:00Z, wanted a time after from",
        ),
        (
            json!({"freezes": [{"name": "x", "from": "christmas", "to": "2027-01-01T00:00:00Z"}]}),
            "freezes[0].from: found \"christmas\", wanted a time such as",
        ),
    ] {
        let problem = parse(spec.clone()).expect_err("what is wrong");
        assert!(problem.starts_with(words), "{spec}: {problem}");
    }
}

/// Mondays only; it is Friday.
const CLOSED: &str = r#""window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#;
/// Fridays until 08:20 UTC.
const ENDS: &str = r#""window":{"openings":[{"days":["fri"],"startTime":"6","endTime":"8:20"}]}"#;

fn run(settings: &str, rest: &str) -> Cluster {
    Cluster::parse(&format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         rule backup Pre
         run {{{settings}}} finalizer
         {rest}"
    ))
}

fn plan(settings: &str, rest: &str) -> Cluster {
    plan_of("", settings, rest)
}

/// The Plan has these words beside its settings.
fn plan_of(words: &str, settings: &str, rest: &str) -> Cluster {
    let spec = format!(r#"spec {{"mutex":{{{settings}}}}}"#);
    Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         plan concurrency:1 cordon finalizer {words} {spec}
         {rest}"
    ))
}

/// The Plan's settings in a binding.
fn bound(kind: &str, settings: &str) -> String {
    format!(r#"binding nights spec {{"ownerSelector":{{"kind":"{kind}"}},{settings}}}"#)
}

fn maintenance(settings: &str, rest: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0
         maintenance a finalizer
         {}
         {rest}",
        bound("NodeMaintenance", settings)
    ))
}

#[test]
fn no_owner_begins_a_node_while_its_window_is_closed() {
    let nodes = "node a worker 4.16.0\n node b worker 4.16.0";
    check(
        &run(CLOSED, nodes),
        "hold OutsideWindow ~ spec.window is closed (mon 22:00–23:00 UTC); it opens Mon 2027-01-18 22:00 UTC
         node a Selected OutsideWindow
         node b Selected OutsideWindow
         > nothing",
    );
    check(
        &plan(CLOSED, ""),
        "hold OutsideWindow ~ spec.mutex.window is closed
         node a Selected OutsideWindow",
    );
    let by_binding = Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         plan concurrency:1 cordon finalizer
         {}",
        bound("Plan", CLOSED)
    ));
    check(
        &by_binding,
        "hold OutsideWindow ~ MutexBinding nights spec.window is closed
         node a Selected OutsideWindow",
    );
    check(
        &maintenance(CLOSED, ""),
        "node a Selected OutsideWindow
         > nothing",
    );
}

#[test]
fn a_closed_window_is_looked_at_again_when_it_opens() {
    for cluster in [
        run(CLOSED, "node a worker 4.16.0"),
        plan(CLOSED, ""),
        maintenance(CLOSED, ""),
    ] {
        let owner = cluster.owner();
        let decision = decide(
            &Snapshot {
                now: now(),
                observed: &cluster.observed,
                owner: &owner,
                asked: None,
            },
            &cluster.answers,
        );
        let why = &decision.report.nodes["a"].why;
        assert_eq!(why.until, Some(time("2027-01-18T22:00:00Z")), "{owner}");
        assert_eq!(decision.wake_at, why.until, "{owner}");
    }
}

#[test]
fn the_last_look_stops_the_first_disruption_of_a_plans_node_out_of_hours() {
    for (plan, drain_by, rest, disrupts) in [
        ("applying:a", "Job", "keeps a", "> job a"),
        (
            "applying:a drain",
            "Numo",
            "keeps a\n pods a\n drain a free",
            "> cordon a",
        ),
    ] {
        let cluster = |settings: &str, entries: &str| {
            let settings = format!(r#""drainBy":"{drain_by}"{settings}"#);
            plan_of(plan, &settings, &format!("begun a new {entries}\n {rest}"))
        };
        let open = cluster("", "");
        let closed = cluster(&format!(",{CLOSED}"), "");
        let begun = cluster(&format!(",{CLOSED}"), "entered:Cordoned/Draining");
        for (seen, stopped) in [(&open, false), (&closed, true), (&begun, false)] {
            let owner = seen.owner();
            let at = |observed| Snapshot {
                now: now(),
                observed,
                owner: &owner,
                asked: None,
            };
            let mut decided = decide(&at(&open.observed), &open.answers);
            let planned = decided.actions.len();
            let said = words(&open, &decided);
            assert!(said.iter().any(|line| line.starts_with(disrupts)), "{said:#?}");
            let breaches = invariant::lint(&at(&seen.observed), &mut decided);
            assert_eq!(
                decided.actions.len() < planned,
                stopped,
                "{disrupts}: {breaches:#?}"
            );
            assert_eq!(
                breaches.iter().any(|breach| breach.invariant == 13),
                stopped,
                "{breaches:#?}"
            );
        }
    }
}

#[test]
fn a_turn_that_has_changed_nothing_is_restored_when_the_window_closes() {
    let of_run = |change: &str| {
        run(
            CLOSED,
            &format!(
                "node a worker 4.16.0 turn\n node b worker 4.16.0\n change a PreRules pin:4.17.0 {change}"
            ),
        )
    };
    check(&of_run(""), "node a PreRules OutsideWindow\n > journal a closed");
    check(
        &of_run("closed:60"),
        "node a Selected OutsideWindow\n > journal a Selected OutsideWindow attempt 2",
    );
    let of_plan = |begun: &str| plan(CLOSED, &format!("begun a new {begun}\n keeps a"));
    check(
        &of_plan(""),
        "node a PreRelease OutsideWindow\n > journal a closed",
    );
    check(
        &of_plan("closed:60"),
        "node a Selected OutsideWindow\n > journal a Selected OutsideWindow attempt 2",
    );
    let of_maintenance = |turn: &str| maintenance(CLOSED, &format!("turn a new {turn}\n kept a"));
    check(
        &of_maintenance(""),
        "node a PreRelease OutsideWindow\n > journal a closed",
    );
}

/// Fridays until 10:00 UTC, and a freeze that begins at 08:00, which is now.
const FROZEN: &str = r#""window":{"openings":[{"days":["fri"],"startTime":"6","endTime":"10"}],"freezes":[{"name":"closing","from":"2027-01-15T08:00:00Z","to":"2027-01-16T00:00:00Z"}]}"#;

#[test]
fn a_freeze_that_begins_in_mid_window_begins_nothing_and_gives_turns_back() {
    let frozen = "~ freeze closing";
    for before in [
        run(FROZEN, "node a worker 4.16.0"),
        plan(FROZEN, ""),
        maintenance(FROZEN, ""),
    ] {
        check(&before, &format!("node a Selected Frozen {frozen}"));
    }
    let in_turn = |closed: &str| {
        let nodes = "node a worker 4.16.0 turn\n node b worker 4.16.0";
        run(
            FROZEN,
            &format!("{nodes}\n change a PreRules pin:4.17.0 {closed}"),
        )
    };
    check(&in_turn(""), "node a PreRules Frozen\n > journal a closed");
    check(
        &in_turn("closed:60"),
        "node a Selected Frozen\n > journal a Selected Frozen attempt 2",
    );
    let of_plan = |begun: &str| plan(FROZEN, &format!("begun a new {begun}\n keeps a"));
    check(&of_plan(""), "node a PreRelease Frozen\n > journal a closed");
    check(
        &of_plan("closed:60"),
        "node a Selected Frozen\n > journal a Selected Frozen attempt 2",
    );
    let of_maintenance = |turn: &str| maintenance(FROZEN, &format!("turn a new {turn}\n kept a"));
    check(
        &of_maintenance(""),
        "node a PreRelease Frozen\n > journal a closed",
    );
    check(
        &of_maintenance("closed:60"),
        "node a Selected Frozen\n > journal a Selected Frozen attempt 2",
    );
    let of_version = |turn: &str| {
        let text = format!(
            "node a worker v0
             node b worker v0
             version img2 finalizer spec {{\"mutex\":{{{FROZEN}}}}}
             host a img1
             host b img1
             group w image:img2
             groups w
             {turn}"
        );
        Cluster::parse(&text)
    };
    check(&of_version(""), "node a Selected Frozen ~ freeze closing");
    check(
        &of_version("replacing a Admitted"),
        "node b Selected Frozen ~ freeze closing\n > journal a closed",
    );
    check(
        &of_version("replacing a Admitted closed:60"),
        "node a Selected Frozen\n > journal a Selected Frozen attempt 2",
    );
    // What is being changed is brought to its end.
    check(
        &run(
            FROZEN,
            "node a worker 4.17.0 turn\n change a Released pin:4.17.0 from:4.16.0 entries:PreRules,Released",
        ),
        "not ~ Frozen\n > journal a PostRules",
    );
}

#[test]
fn a_node_that_the_hours_sent_back_holds_nothing_and_is_the_next() {
    let sent_back = "Selected reason:OutsideWindow attempt:2 closed:300";
    check(
        &maintenance(CLOSED, &format!("turn a {sent_back}\n kept a")),
        "node a Selected Restoring
         > unshield a
         > release lease a",
    );
    let nodes = "node a worker 4.16.0\n node b worker 4.16.0";
    check(
        &run("", &format!("{nodes}\n change a {sent_back}")),
        "node b Selected WaitingForTurn
         > journal a Admitted Admitting",
    );
    // Others had their turn while its drain could not pass.
    check(
        &run(
            "",
            &format!("{nodes}\n change a Selected reason:Suspended attempt:2 closed:300"),
        ),
        "node a Selected WaitingForTurn
         > admit b",
    );
}

#[test]
fn a_node_that_is_being_changed_is_brought_to_its_end_in_a_closed_window() {
    check(
        &run(
            CLOSED,
            "node a worker 4.17.0 turn\n change a Released pin:4.17.0 from:4.16.0 entries:PreRules,Released",
        ),
        "not ~ OutsideWindow
         > journal a PostRules",
    );
    check(
        &plan(
            CLOSED,
            "begun a Drained entered:Cordoned\n keeps a cordoned\n pods a",
        ),
        "not node a PreRelease OutsideWindow",
    );
    check(
        &maintenance(
            CLOSED,
            "turn a Drained since:-60\n kept a cordoned\n pods a\n pod web-0 on a of:ReplicaSet/web",
        ),
        "> evict web-0",
    );
}

#[test]
fn a_node_begins_only_if_it_would_be_done_before_the_end() {
    let nodes = "node a worker 4.16.0\n node b worker 4.17.0";
    // 20 minutes are left.
    check(&run(ENDS, nodes), "> admit a");
    let bounded = |seconds: i64| ENDS.replace("]}", &format!("],\"minRemainingSeconds\":{seconds}}}"));
    check(&run(&bounded(1200), nodes), "> admit a");
    check(
        &run(&bounded(1201), nodes),
        "node a Selected WindowEndsSoon ~ spec.window closes in 20m00s (Fri 2027-01-15 08:20 UTC), and spec.window.minRemainingSeconds is 1201; nodes begin again Fri 2027-01-22 06:00 UTC
         > nothing",
    );
    check(
        &run(&bounded(86_400), nodes),
        "node a Selected WindowEndsSoon ~ no opening ahead is that long
         ends a ClusterAdmin",
    );
    // A turn that began in time goes on.
    check(
        &run(
            &bounded(1201),
            "node a worker 4.16.0 turn\n change a PreRules pin:4.17.0",
        ),
        "not node a PreRules WindowEndsSoon",
    );
    check(&plan(&bounded(1201), ""), "node a Selected WindowEndsSoon");
    check(&maintenance(&bounded(1201), ""), "node a Selected WindowEndsSoon");
}

/// Of 64 openings in a row and more the end was taken for none, so that a node began that was not done in time.
#[test]
fn no_node_begins_before_the_end_of_many_short_openings_in_a_row() {
    let window =
        r#""window":{"openings":[{"cron":"* 7-8 * * *","durationSeconds":60}],"minRemainingSeconds":3601}"#;
    let late = "node a Selected WindowEndsSoon ~ spec.window closes in 1h00m (Fri 2027-01-15 09:00 UTC)";
    let one_less = window.replace("3601", "3600");
    // 60 of them are left; then 120.
    let longer = window.replace("7-8", "7-9").replace("3601", "7201");
    let nodes = "node a worker 4.16.0\n node b worker 4.17.0";
    check(&run(window, nodes), late);
    check(&run(&one_less, nodes), "> admit a");
    check(&run(&longer, nodes), "node a Selected WindowEndsSoon");
    check(&plan(&longer, ""), "node a Selected WindowEndsSoon");
    check(&maintenance(&longer, ""), "node a Selected WindowEndsSoon");
}

#[test]
fn what_nodes_took_until_now_is_the_forecast_of_the_next() {
    let after = |took: i64| {
        let nodes = "node a worker 4.16.0\n node b worker 4.17.0\n change b Done entries:Admitted,Done";
        let mut cluster = run(ENDS, nodes);
        for change in cluster.observed.changes.values_mut() {
            change.status.entries[0].at = at(-60 - took).to_string();
        }
        cluster
    };
    check(&after(600), "> admit a");
    // A turn that was given back the night before is no part of it.
    let mut restored = after(600);
    for change in restored.observed.changes.values_mut() {
        let mut earlier = change.status.entries[0].clone();
        earlier.at = at(-86_400).to_string();
        for entry in &mut change.status.entries {
            entry.attempt = 2;
        }
        change.status.entries.insert(0, earlier);
    }
    check(&restored, "> admit a");
    check(
        &after(1800),
        "node a Selected WindowEndsSoon ~ a node of it takes up to 30m00s
         > nothing",
    );
    // One of three took three times as long as the others.
    let nodes = "node a worker 4.16.0\n node b worker 4.17.0\n node c worker 4.17.0\n node d worker 4.17.0
        change b Done entries:Admitted,Done\n change c Done entries:Admitted,Done\n change d Done entries:Admitted,Done";
    let mut uneven = run(ENDS, nodes);
    let each = uneven.observed.changes.values_mut().zip([600, 600, 1800]);
    for (change, took) in each {
        change.status.entries[0].at = at(-60 - took).to_string();
    }
    check(
        &uneven,
        "node a Selected WindowEndsSoon ~ a node of it takes up to 30m00s
         > nothing",
    );
}

/// NodeChanges are watched everywhere, and whoever has a namespace may write some there.
#[test]
fn what_strangers_say_that_nodes_took_is_no_forecast() {
    let nodes = "node a worker 4.16.0\n node b worker 4.17.0\n change b Done entries:Admitted,Done";
    let after = |took: i64, namespace: &str, (forged, end): (i64, i64)| {
        let mut cluster = run(ENDS, nodes);
        let known = cluster.observed.changes.values_mut().next().expect("a journal");
        known.status.entries[0].at = at(-60 - took).to_string();
        let known = known.clone();
        for number in 0..20 {
            let mut change = known.clone();
            change.key = numo_core::observed::Key::new(namespace, format!("forged-{number}"));
            change.spec.owner_ref.namespace = Some(namespace.to_owned());
            change.status.entries[0].at = at(end - forged).to_string();
            change.status.entries[1].at = at(end).to_string();
            cluster.observed.changes.insert(change.key.clone(), change);
        }
        cluster
    };
    let late = "node a Selected WindowEndsSoon ~ a node of it takes up to 30m00s\n > nothing";
    check(&after(600, "tenant", (100_000_000, -10)), "> admit a");
    check(&after(1800, "tenant", (1, -10)), late);
    // An end that has not come tells nothing, whoever wrote it.
    check(&after(1800, "numo", (1, 9_999)), late);
    check(&after(600, "numo", (9_999, 9_999)), "> admit a");
}

#[test]
fn a_freeze_and_a_later_start_are_told_with_their_ends() {
    let frozen = r#""window":{"freezes":[{"name":"closing","from":"2027-01-01T00:00:00Z","to":"2027-01-20T00:00:00Z","reason":"year-end closing"}]}"#;
    let words = "Frozen ~ has freeze closing (year-end closing) until Wed 2027-01-20 00:00 UTC; nodes begin again Wed 2027-01-20 00:00 UTC";
    check(
        &run(frozen, "node a worker 4.16.0"),
        &format!("node a Selected {words}"),
    );
    check(&plan(frozen, ""), &format!("node a Selected {words}"));
    check(&maintenance(frozen, ""), &format!("node a Selected {words}"));
    let later = r#""startAfter":"2027-01-15T09:00:00+01:00""#;
    check(&run(later, "node a worker 4.16.0"), "> admit a");
    let later = r#""startAfter":"2027-01-15T10:00:00Z""#;
    let words = "StartsLater ~ startAfter is 2027-01-15T10:00:00Z: no node begins before that";
    check(
        &run(later, "node a worker 4.16.0"),
        &format!("node a Selected {words}"),
    );
    check(&plan(later, ""), &format!("node a Selected {words}"));
    check(&maintenance(later, ""), &format!("node a Selected {words}"));
}

#[test]
fn of_several_hours_all_must_be_open_at_once() {
    let bound_to = |opening: &str| {
        let window = format!(r#""window":{{"openings":[{opening}]}}"#);
        plan(CLOSED, &bound("Plan", &window))
    };
    check(
        &bound_to(r#"{"days":["mon"],"startTime":"22:30","endTime":"23:30"}"#),
        "node a Selected OutsideWindow ~ MutexBinding nights spec.window is closed (mon 22:30–23:30 UTC); it opens Mon 2027-01-18 22:30 UTC",
    );
    check(
        &bound_to(r#"{"days":["fri","mon"],"startTime":"7:30","endTime":"22:30"}"#),
        "node a Selected OutsideWindow ~ spec.mutex.window is closed (mon 22:00–23:00 UTC)",
    );
    // One opens on Tuesdays, the other on Mondays.
    check(
        &bound_to(r#"{"days":["tue"],"startTime":"1","endTime":"2"}"#),
        "node a Selected NeverOpens ~ spec.mutex.window and MutexBinding nights spec.window are never open at once
         ends a ClusterAdmin",
    );
}

#[test]
fn hours_that_cannot_be_understood_hold_every_owner_that_they_mean() {
    let wrong = r#""window":{"timeZone":"Mars/Base","openings":[{"days":["fri"]}]}"#;
    let words = "window.timeZone: found \"Mars/Base\", wanted a time zone such as Europe/Warsaw";
    check(
        &run(wrong, "node a worker 4.16.0"),
        &format!("hold InvalidField ~ spec.{words}\n > nothing"),
    );
    check(
        &plan(wrong, ""),
        &format!("hold InvalidField ~ spec.mutex.{words}"),
    );
    check(
        &maintenance(wrong, ""),
        &format!("node a Selected InvalidField ~ MutexBinding nights spec.{words}\n > nothing"),
    );
    let never = r#""window":{"openings":[{"cron":"0 0 30 2 *","durationSeconds":3600}]}"#;
    check(
        &run(never, "node a worker 4.16.0"),
        "node a Selected NeverOpens\n ends a ClusterAdmin\n > nothing",
    );
}

#[test]
fn a_preview_waits_for_the_opening_and_says_so() {
    let course_of = |cluster: &Cluster| {
        let mut imagined = Imagined::new(cluster.observed.clone(), now());
        imagined.course(&cluster.owner(), |batches| batches < 10, |_, _, _| {})
    };
    let nodes_of = |course: &Course| -> Vec<String> {
        let batches = course.batches.iter();
        batches.map(|batch| batch.nodes.join(",")).collect()
    };
    let nodes = "node a worker 4.16.0\n node b worker 4.16.0";
    let closed = course_of(&run(CLOSED, nodes));
    assert_eq!(nodes_of(&closed), ["a", "b"], "{:?}", closed.last);
    let (begins, why) = closed.begins.expect("the opening");
    assert_eq!(begins, time("2027-01-18T22:00:00Z"));
    assert_eq!(why.reason.name(), "OutsideWindow");

    let open = course_of(&run(r#""startAfter":"2027-01-01T00:00:00Z""#, nodes));
    assert_eq!(nodes_of(&open), ["a", "b"]);
    assert!(open.begins.is_none(), "{:?}", open.begins);

    let never = course_of(&run(
        r#""window":{"openings":[{"cron":"0 0 30 2 *","durationSeconds":60}]}"#,
        nodes,
    ));
    assert!(never.batches.is_empty(), "{:?}", never.batches);
    assert!(never.begins.is_none(), "{:?}", never.begins);
}
