//! Cases of `prometheus-gate` against a host in memory.

use numo_rule_sdk::{
    ErrorCode, RuleError, Verdict,
    fake::{NOW, World, answer, check_rule, input, line},
    host::{Answer, Sample},
};
use prometheus_gate::{describe, evaluate, parse};

const LOW: &str = r#""query":"q","operator":"LessThan","threshold":5"#;

fn world(values: &[f64]) -> World {
    let mut world = World::new("");
    world.prometheus = Some(Ok(answer(values)));
    world
}

fn check(values: &[f64], rest: &str, expected: &str) {
    let config = format!("{{{LOW}{rest}}}");
    assert_eq!(
        line(&evaluate(&input("pre", &config), &world(values))),
        expected,
        "{values:?} {rest}"
    );
}

#[test]
fn samples_are_compared_with_the_threshold() {
    for (operator, below, equal, above) in [
        ("LessThan", true, false, false),
        ("LessOrEqual", true, true, false),
        ("GreaterThan", false, false, true),
        ("GreaterOrEqual", false, true, true),
        ("Equal", false, true, false),
        ("NotEqual", true, false, true),
    ] {
        for (value, met) in [
            (4.5, below),
            (5.0, equal),
            (5.5, above),
            (f64::NEG_INFINITY, below),
            (f64::INFINITY, above),
        ] {
            let config = format!(r#"{{"query":"q","operator":"{operator}","threshold":5}}"#);
            let expected = if met {
                "pass ThresholdMet"
            } else {
                "wait ThresholdNotMet SampleUnmet"
            };
            assert_eq!(
                line(&evaluate(&input("pre", &config), &world(&[value]))),
                expected,
                "{value} {operator}"
            );
        }
    }
}

#[test]
fn all_samples_must_match_or_any() {
    check(&[1.0, 2.0], "", "pass ThresholdMet");
    check(
        &[1.0, 9.0, 8.0],
        "",
        "wait ThresholdNotMet SampleUnmet SampleUnmet",
    );
    check(&[1.0, 9.0], r#","match":"Any""#, "pass ThresholdMet");
    check(
        &[9.0, 8.0],
        r#","match":"Any""#,
        "wait ThresholdNotMet SampleUnmet SampleUnmet",
    );
    check(&[9.0], r#","unmet":"Block""#, "block ThresholdNotMet SampleUnmet");
}

#[test]
fn not_a_number_is_unmet_unless_the_configuration_says_otherwise() {
    for (rest, alone, with_good) in [
        (
            "",
            "wait ThresholdNotMet SampleNotANumber",
            "wait ThresholdNotMet SampleNotANumber",
        ),
        (
            r#","nan":"Unmet""#,
            "wait ThresholdNotMet SampleNotANumber",
            "wait ThresholdNotMet SampleNotANumber",
        ),
        (r#","nan":"Ignore""#, "wait NoData", "pass ThresholdMet"),
        (
            r#","nan":"Ignore","noData":"Pass""#,
            "pass NoData",
            "pass ThresholdMet",
        ),
        (r#","nan":"Met""#, "pass ThresholdMet", "pass ThresholdMet"),
    ] {
        check(&[f64::NAN], rest, alone);
        check(&[1.0, f64::NAN], rest, with_good);
    }
    let unequal = r#"{"query":"q","operator":"NotEqual","threshold":5}"#;
    let answer = line(&evaluate(&input("pre", unequal), &world(&[f64::NAN])));
    assert_eq!(
        answer, "wait ThresholdNotMet SampleNotANumber",
        "NaN != 5 is no reason to pass"
    );
}

#[test]
fn no_data_waits_passes_or_blocks() {
    check(&[], "", "wait NoData");
    check(&[], r#","noData":"Wait","unmet":"Block""#, "wait NoData");
    check(&[], r#","noData":"Pass""#, "pass NoData");
    check(&[], r#","noData":"Block""#, "block NoData");
}

#[test]
fn a_scalar_and_a_vector_are_both_understood() {
    let mut world = World::new("");
    world.prometheus = Some(Ok(Answer {
        samples: vec![Sample {
            labels: Vec::new(),
            value: 7.0,
        }],
        warnings: Vec::new(),
    }));
    let config = format!("{{{LOW}}}");
    let Ok(Verdict::Wait(wait)) = evaluate(&input("pre", &config), &world) else {
        panic!("no wait")
    };
    assert_eq!(wait.report.summary, "the value is 7, wanted < 5");
    let labels = vec![("__name__".into(), "up".into()), ("job".into(), "a".into())];
    world.prometheus = Some(Ok(Answer {
        samples: vec![Sample { labels, value: 7.0 }],
        warnings: Vec::new(),
    }));
    let Ok(Verdict::Wait(wait)) = evaluate(&input("pre", &config), &world) else {
        panic!("no wait")
    };
    assert_eq!(wait.report.summary, "up{job=\"a\"} is 7, wanted < 5");
}

#[test]
fn a_partial_answer_is_not_believed() {
    let mut world = world(&[1.0]);
    if let Some(Ok(answer)) = &mut world.prometheus {
        answer.warnings.push("a store did not answer".into());
    }
    let ask = |rest: &str| line(&evaluate(&input("pre", &format!("{{{LOW}{rest}}}")), &world));
    assert_eq!(ask(""), "wait AnswerIncomplete");
    assert_eq!(
        ask(r#","noData":"Pass","unmet":"Block""#),
        "wait AnswerIncomplete"
    );
    assert_eq!(ask(r#","warnings":"Ignore""#), "pass ThresholdMet");
}

/// Asks at each second with each value, remembering what was said, and gives the reasons.
fn story(config: &str, steps: &[(u64, f64)]) -> Vec<String> {
    let mut world = world(&[]);
    let mut told = Vec::new();
    for (at, value) in steps {
        world.now = NOW + at;
        world.prometheus = Some(if value.is_finite() {
            Ok(answer(&[*value]))
        } else {
            Err(ErrorCode::Unavailable)
        });
        let verdict = evaluate(&input("pre", config), &world);
        if let Ok(verdict) = &verdict {
            world.remember("pre", world.now, verdict);
        }
        told.push(line(&verdict));
    }
    told
}

#[test]
fn the_threshold_must_hold_for_the_duration() {
    let config = format!(r#"{{{LOW},"forSeconds":60}}"#);
    let holding = "wait Holding";
    let pass = "pass ThresholdMet";
    let unmet = "wait ThresholdNotMet SampleUnmet";
    assert_eq!(
        story(&config, &[(0, 1.0), (30, 1.0), (60, 1.0)]),
        [holding, holding, pass]
    );
    assert_eq!(
        story(&config, &[(0, 1.0), (30, 9.0), (60, 1.0), (90, 1.0), (120, 1.0)]),
        [holding, unmet, holding, holding, pass]
    );
    assert_eq!(
        story(&config, &[(0, 1.0), (60, 1.0), (200, 1.0)]),
        [holding, pass, pass],
        "a pass is asked again"
    );
    assert_eq!(
        story(&config, &[(0, 1.0), (301, 1.0), (361, 1.0)]),
        [holding, holding, pass],
        "a gap begins anew"
    );
    assert_eq!(
        story(&config, &[(0, 1.0), (30, f64::INFINITY), (60, 1.0)]),
        [holding, "host error ErrorCode::Unavailable", pass],
        "a short failure is a gap like another"
    );
}

#[test]
fn what_was_held_elsewhere_does_not_count() {
    let config = format!(r#"{{{LOW},"forSeconds":60}}"#);
    let mut world = world(&[1.0]);
    let first = evaluate(&input("pre", &config), &world).unwrap();
    world.remember("pre", NOW, &first);
    world.now = NOW + 100;
    let ask = |world: &World, config: &str| line(&evaluate(&input("pre", config), world));
    assert_eq!(ask(&world, &config), "pass ThresholdMet");
    assert_eq!(
        ask(&world, &format!(r#"{{{LOW},"forSeconds":61}}"#)),
        "wait Holding",
        "another configuration"
    );
    for change in [
        |entry: &mut numo_rule_sdk::host::Entry| entry.run = "run-0".into(),
        |entry: &mut numo_rule_sdk::host::Entry| entry.phase = "post".into(),
        |entry: &mut numo_rule_sdk::host::Entry| entry.verdict = "error".into(),
        |entry: &mut numo_rule_sdk::host::Entry| entry.verdict = "word of the future".into(),
        |entry: &mut numo_rule_sdk::host::Entry| entry.data_json = Some("{".into()),
        |entry: &mut numo_rule_sdk::host::Entry| entry.data_json = None,
        |entry: &mut numo_rule_sdk::host::Entry| {
            entry.data_json = entry
                .data_json
                .take()
                .map(|data| data.replace(&NOW.to_string(), "9999999999"));
        },
    ] {
        let kept = world.history.clone();
        change(&mut world.history[0]);
        assert_eq!(ask(&world, &config), "wait Holding");
        world.history = kept;
    }
}

#[test]
fn a_holding_wait_says_how_far_it_is_and_when_to_ask() {
    let config = format!(r#"{{{LOW},"forSeconds":60,"retryAfterSeconds":40}}"#);
    let mut world = world(&[1.0]);
    let first = evaluate(&input("pre", &config), &world).unwrap();
    world.remember("pre", NOW, &first);
    world.now = NOW + 45;
    let Ok(Verdict::Wait(wait)) = evaluate(&input("pre", &config), &world) else {
        panic!("no wait")
    };
    assert_eq!((wait.retry_after_seconds, wait.progress_percent), (15, Some(75)));
    assert_eq!(
        wait.report.summary,
        "{instance=\"i0\"} is 1, wanted < 5 for 45 s of 60 s"
    );
}

#[test]
fn placeholders_are_quoted_and_errors_handed_on() {
    let quoted = world(&[1.0]);
    let config = r#"{"query":"up{node=\"${node}\",pool=\"${pool}\"}","operator":"Equal","threshold":1}"#;
    let mut asked = input("pre", config);
    assert!(
        matches!(evaluate(&asked, &quoted), Err(RuleError::Failed(_))),
        "no pool is known"
    );
    asked.pool = Some("a\"} or vector(1)".into());
    assert_eq!(line(&evaluate(&asked, &quoted)), "pass ThresholdMet");
    assert_eq!(quoted.calls(), [r#"up{node="w1",pool="a\"} or vector(1)"}"#]);
    for code in [ErrorCode::Denied, ErrorCode::Unsupported, ErrorCode::Invalid] {
        let mut world = World::new("");
        world.prometheus = Some(Err(code));
        let config = format!(r#"{{{LOW},"noData":"Pass"}}"#);
        assert_eq!(
            line(&evaluate(&input("pre", &config), &world)),
            format!("host error {code:?}")
        );
    }
    let mut world = world(&[1.0]);
    world.history_error = Some(ErrorCode::Unavailable);
    let config = format!(r#"{{{LOW},"forSeconds":60}}"#);
    assert_eq!(
        line(&evaluate(&input("pre", &config), &world)),
        "host error ErrorCode::Unavailable"
    );
    assert!(line(&evaluate(&input("on-failure", &config), &world)).starts_with("failed: unknown phase"));
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-prometheus-gate.yaml"),
        &[
            r#"{"query":"up","operator":"Equal","threshold":1}"#,
            r#"{"query":"up","operator":"Equal","threshold":-1.5e3,"forSeconds":600,"maxGapSeconds":60,"match":"Any","noData":"Block","nan":"Met","warnings":"Ignore","unmet":"Block"}"#,
        ],
        &[
            ("{}", "/query"),
            ("{}", "/operator"),
            ("{}", "/threshold"),
            (r#"{"query":"","operator":"Equal","threshold":1}"#, "/query"),
            (
                r#"{"query":"up{a=\"${what}\"}","operator":"Equal","threshold":1}"#,
                "/query",
            ),
            (r#"{"query":"up","operator":"==","threshold":1}"#, "/operator"),
            (
                r#"{"query":"up","operator":"Equal","threshold":"1"}"#,
                "/threshold",
            ),
            (
                r#"{"query":"up","operator":"Equal","threshold":1,"forSeconds":-1}"#,
                "/forSeconds",
            ),
            (
                r#"{"query":"up","operator":"Equal","threshold":1,"nan":"Pass"}"#,
                "/nan",
            ),
            (
                r#"{"query":"up","operator":"Equal","threshold":1,"noData":"Ignore"}"#,
                "/noData",
            ),
            (
                r#"{"query":"up","operator":"Equal","threshold":1,"for":"5m"}"#,
                "/for",
            ),
        ],
    );
}
