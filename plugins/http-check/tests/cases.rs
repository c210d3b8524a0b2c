//! Cases of `http-check` against a host in memory.

use http_check::{describe, evaluate, parse};
use numo_rule_sdk::{
    ErrorCode, Verdict,
    fake::{World, check_rule, input, line},
    host::Response,
};

const URL: &str = r#""url":"https://x.example.com/health""#;

fn world(status: u16, body: &str) -> World {
    let mut world = World::new("");
    world.http = Some(Ok(Response {
        status,
        headers: Vec::new(),
        body: body.into(),
    }));
    world
}

fn check(status: u16, body: &str, rest: &str, expected: &str) {
    let config = format!("{{{URL}{rest}}}");
    assert_eq!(
        line(&evaluate(&input("pre", &config), &world(status, body))),
        expected,
        "{status} {body} {rest}"
    );
}

#[test]
fn statuses_are_compared() {
    let unexpected = "wait StatusUnexpected StatusUnexpected";
    for (status, rest, expected) in [
        (200, "", "pass ResponseAsWanted"),
        (204, "", "pass ResponseAsWanted"),
        (299, "", "pass ResponseAsWanted"),
        (300, "", unexpected),
        (301, "", unexpected),
        (199, "", unexpected),
        (500, "", unexpected),
        (200, r#","statuses":[204]"#, unexpected),
        (204, r#","statuses":[200,204]"#, "pass ResponseAsWanted"),
        (404, r#","statuses":["4xx",200]"#, "pass ResponseAsWanted"),
        (
            503,
            r#","unmet":"Block""#,
            "block StatusUnexpected StatusUnexpected",
        ),
        (204, r#","method":"HEAD""#, "pass ResponseAsWanted"),
    ] {
        check(status, "not JSON", rest, expected);
    }
}

#[test]
fn values_are_compared_by_pointer() {
    let body = r#"{"state":"ok","n":3,"f":1.0,"big":18446744073709551615,"nil":null,"list":[1,{"a":true}],"a/b":{"~":1}}"#;
    for (entry, met) in [
        (r#""pointer":"/state","value":"ok""#, true),
        (r#""pointer":"/state","value":"OK""#, false),
        (r#""pointer":"/state","operator":"NotEqual","value":"bad""#, true),
        (r#""pointer":"/gone","operator":"NotEqual","value":"bad""#, false),
        (
            r#""pointer":"/state","operator":"In","value":["fine","ok"]"#,
            true,
        ),
        (
            r#""pointer":"/gone","operator":"In","value":["fine","ok"]"#,
            false,
        ),
        (r#""pointer":"/state","operator":"NotIn","value":["bad"]"#, true),
        (r#""pointer":"/state","operator":"NotIn","value":["ok"]"#, false),
        (r#""pointer":"/gone","operator":"NotIn","value":["bad"]"#, false),
        (r#""pointer":"/nil","operator":"Exists""#, true),
        (r#""pointer":"/nil","value":null"#, true),
        (r#""pointer":"/nil","operator":"DoesNotExist""#, false),
        (r#""pointer":"/gone","operator":"DoesNotExist""#, true),
        (r#""pointer":"/gone","operator":"Exists""#, false),
        (r#""pointer":"/gone","value":null"#, false),
        (r#""pointer":"/n","operator":"GreaterThan","value":2"#, true),
        (r#""pointer":"/n","operator":"GreaterThan","value":3"#, false),
        (r#""pointer":"/n","operator":"GreaterOrEqual","value":3"#, true),
        (r#""pointer":"/n","operator":"LessThan","value":3.5"#, true),
        (r#""pointer":"/n","operator":"LessOrEqual","value":2.9"#, false),
        (r#""pointer":"/state","operator":"GreaterThan","value":0"#, false),
        (r#""pointer":"/gone","operator":"LessThan","value":1"#, false),
        (r#""pointer":"/f","value":1"#, true),
        (
            r#""pointer":"/big","operator":"GreaterThan","value":18446744073709551614"#,
            true,
        ),
        (r#""pointer":"/list","value":[1.0,{"a":true}]"#, true),
        (r#""pointer":"/list/1/a","value":true"#, true),
        (r#""pointer":"/list/01/a","value":true"#, false),
        (r#""pointer":"/list/-","operator":"DoesNotExist""#, true),
        (r#""pointer":"/a~1b/~0","value":1"#, true),
        (r#""pointer":"","operator":"Exists""#, true),
    ] {
        let expected = if met {
            "pass ResponseAsWanted"
        } else {
            "wait ValueUnexpected ValueUnexpected"
        };
        check(200, body, &format!(r#","json":[{{{entry}}}]"#), expected);
    }
}

#[test]
fn all_values_must_be_met_and_the_status_comes_first() {
    let json = r#","json":[{"pointer":"/a","value":1},{"pointer":"/b","value":2},{"pointer":"/c","operator":"Exists"}]"#;
    check(
        200,
        r#"{"a":1}"#,
        json,
        "wait ValueUnexpected ValueUnexpected ValueUnexpected",
    );
    check(
        500,
        r#"{"a":1,"b":2,"c":3}"#,
        json,
        "wait StatusUnexpected StatusUnexpected",
    );
    for body in ["", "<html>", "{", "\u{feff}{}"] {
        check(200, body, json, "wait BodyNotJson");
    }
}

#[test]
fn messages_say_what_was_found_without_the_query() {
    let config =
        r#"{"url":"https://x.example.com/n/${node}?token=${run}","json":[{"pointer":"/a","value":1}]}"#;
    let world = world(200, r#"{"a":"one"}"#);
    let Ok(Verdict::Wait(wait)) = evaluate(&input("pre", config), &world) else {
        panic!("no wait")
    };
    assert_eq!(
        wait.report.summary,
        r#"https://x.example.com/n/w1: 1 of 1 value unexpected: /a is "one", wanted Equal 1"#
    );
    assert_eq!(world.requests()[0].url, "https://x.example.com/n/w1?token=run-1");
}

#[test]
fn the_request_carries_what_was_configured() {
    let world = world(200, "");
    let config = format!(
        r#"{{{URL},"headers":{{"accept":"application/json"}},"credential":"c","timeoutMilliseconds":700}}"#
    );
    assert_eq!(
        line(&evaluate(&input("post", &config), &world)),
        "pass ResponseAsWanted"
    );
    let request = &world.requests()[0];
    assert_eq!(
        request.headers,
        [("accept".to_owned(), "application/json".to_owned())]
    );
    assert_eq!(request.credential.as_deref(), Some("c"));
    assert_eq!(request.timeout_milliseconds, Some(700));
}

#[test]
fn errors_are_handed_on() {
    for code in [
        ErrorCode::Denied,
        ErrorCode::Unavailable,
        ErrorCode::TooLarge,
        ErrorCode::Invalid,
    ] {
        let mut world = World::new("");
        world.http = Some(Err(code));
        assert_eq!(
            line(&evaluate(&input("pre", &format!("{{{URL}}}")), &world)),
            format!("host error {code:?}")
        );
    }
    let world = world(200, "");
    assert!(
        line(&evaluate(&input("later", &format!("{{{URL}}}")), &world)).starts_with("failed: unknown phase")
    );
    let mut no_node = input("pre-run", r#"{"url":"https://x.example.com/${node}"}"#);
    no_node.node = None;
    assert!(line(&evaluate(&no_node, &world)).starts_with("failed:"));
    assert!(world.requests().is_empty());
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-http-check.yaml"),
        &[
            r#"{"url":"http://x"}"#,
            r#"{"url":"https://[::1]:8443/a?b=${pool}","method":"HEAD","statuses":["2xx",301]}"#,
            r#"{"url":"https://x/","json":[{"pointer":"","operator":"Exists"},{"pointer":"/a","value":null}]}"#,
        ],
        &[
            ("{}", "/url"),
            (r#"{"url":"ftp://x"}"#, "/url"),
            (r#"{"url":"https://"}"#, "/url"),
            (r#"{"url":"https:///path"}"#, "/url"),
            (r#"{"url":"https://u:p@x/"}"#, "/url"),
            (r#"{"url":"https://${node}/"}"#, "/url"),
            (r#"{"url":"https://x/#a"}"#, "/url"),
            (r#"{"url":"https://x/a b"}"#, "/url"),
            (r#"{"url":"https://x/${host}"}"#, "/url"),
            (r#"{"url":"https://x","method":"POST"}"#, "/method"),
            (
                r#"{"url":"https://x","headers":{"Authorization":"Bearer x"}}"#,
                "/headers/Authorization",
            ),
            (
                r#"{"url":"https://x","headers":{"Proxy-X":"y"}}"#,
                "/headers/Proxy-X",
            ),
            (r#"{"url":"https://x","headers":{"a/b":"y"}}"#, "/headers/a~1b"),
            (r#"{"url":"https://x","headers":{"a":"b\r\nc: d"}}"#, "/headers/a"),
            (
                r#"{"url":"https://x","timeoutMilliseconds":0}"#,
                "/timeoutMilliseconds",
            ),
            (r#"{"url":"https://x","statuses":[]}"#, "/statuses"),
            (r#"{"url":"https://x","statuses":[200,99]}"#, "/statuses/1"),
            (r#"{"url":"https://x","statuses":["6xx"]}"#, "/statuses/0"),
            (
                r#"{"url":"https://x","method":"HEAD","json":[{"pointer":"/a","value":1}]}"#,
                "/json",
            ),
            (r#"{"url":"https://x","json":[{"value":1}]}"#, "/json/0/pointer"),
            (
                r#"{"url":"https://x","json":[{"pointer":"a","value":1}]}"#,
                "/json/0/pointer",
            ),
            (
                r#"{"url":"https://x","json":[{"pointer":"/a"}]}"#,
                "/json/0/value",
            ),
            (
                r#"{"url":"https://x","json":[{"pointer":"/a","operator":"Exists","value":1}]}"#,
                "/json/0/value",
            ),
            (
                r#"{"url":"https://x","json":[{"pointer":"/a","operator":"In","value":1}]}"#,
                "/json/0/value",
            ),
            (
                r#"{"url":"https://x","json":[{"pointer":"/a","operator":"LessThan","value":"1"}]}"#,
                "/json/0/value",
            ),
            (
                r#"{"url":"https://x","json":[{"pointer":"/a","operator":"Like","value":"1"}]}"#,
                "/json/0/operator",
            ),
        ],
    );
}
