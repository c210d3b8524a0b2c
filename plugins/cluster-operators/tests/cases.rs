//! Cases of `cluster-operators` against a host in memory.

use cluster_operators::{describe, evaluate, parse};
use numo_rule_sdk::{
    ErrorCode,
    fake::{World, check_rule, input, line},
};

fn operator(name: &str, conditions: &[(&str, &str)]) -> String {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(kind, status)| format!("{{type: {kind}, status: '{status}', reason: R, message: m}}"))
        .collect();
    format!(
        "---\n{{apiVersion: config.openshift.io/v1, kind: ClusterOperator, metadata: {{name: {name}}}, status: {{conditions: [{}]}}}}\n",
        conditions.join(", ")
    )
}

fn healthy(name: &str) -> String {
    operator(
        name,
        &[
            ("Available", "True"),
            ("Degraded", "False"),
            ("Progressing", "True"),
        ],
    )
}

fn check(yaml: &str, config: &str, expected: &str) {
    assert_eq!(
        line(&evaluate(&input("pre", config), &World::new(yaml))),
        expected,
        "{config}\n{yaml}"
    );
}

#[test]
fn each_condition_is_judged() {
    check(&(healthy("a") + &healthy("b")), "{}", "pass OperatorsHealthy");
    for (conditions, expected) in [
        (
            &[("Available", "False"), ("Degraded", "False")][..],
            "wait OperatorsUnavailable OperatorUnavailable=/x",
        ),
        (
            &[("Available", "Unknown"), ("Degraded", "False")],
            "wait OperatorsUnavailable OperatorUnavailable=/x",
        ),
        (
            &[("Degraded", "False")],
            "wait OperatorsUnavailable OperatorUnavailable=/x",
        ),
        (
            &[("Available", "True"), ("Degraded", "True")],
            "wait OperatorsDegraded OperatorDegraded=/x",
        ),
        (
            &[("Available", "True"), ("Degraded", "Unknown")],
            "wait OperatorsDegraded OperatorDegraded=/x",
        ),
        (
            &[("Available", "True")],
            "wait OperatorsDegraded OperatorDegraded=/x",
        ),
        (
            &[],
            "wait OperatorsUnavailable OperatorUnavailable=/x OperatorDegraded=/x",
        ),
    ] {
        check(&(healthy("a") + &operator("x", conditions)), "{}", expected);
    }
    let bare = "---\n{apiVersion: config.openshift.io/v1, kind: ClusterOperator, metadata: {name: x}}\n";
    check(
        bare,
        "{}",
        "wait OperatorsUnavailable OperatorUnavailable=/x OperatorDegraded=/x",
    );
}

#[test]
fn progressing_counts_only_if_asked() {
    let wait = r#"{"progressing":"Wait"}"#;
    check(
        &healthy("a"),
        r#"{"progressing":"Ignore"}"#,
        "pass OperatorsHealthy",
    );
    check(
        &healthy("a"),
        wait,
        "wait OperatorsProgressing OperatorProgressing=/a",
    );
    let still = operator(
        "a",
        &[
            ("Available", "True"),
            ("Degraded", "False"),
            ("Progressing", "False"),
        ],
    );
    check(&still, wait, "pass OperatorsHealthy");
    let silent = operator("a", &[("Available", "True"), ("Degraded", "False")]);
    check(&silent, wait, "wait OperatorsProgressing OperatorProgressing=/a");
}

#[test]
fn allowed_operators_are_told_but_not_waited_for() {
    let down = operator("x", &[("Available", "False"), ("Degraded", "True")]);
    check(
        &down,
        r#"{"allowed":[{"name":"x"}]}"#,
        "pass OperatorsHealthy OperatorUnavailable=/x OperatorDegraded=/x",
    );
    check(
        &down,
        r#"{"allowed":[{"name":"y"}]}"#,
        "wait OperatorsUnavailable OperatorUnavailable=/x OperatorDegraded=/x",
    );
    check(
        &down,
        r#"{"allowed":[{"name":"x","conditions":["Degraded"]}]}"#,
        "wait OperatorsUnavailable OperatorUnavailable=/x OperatorDegraded=/x",
    );
    check(
        &down,
        r#"{"allowed":[{"name":"x","conditions":["Degraded"]},{"name":"x","conditions":["Available"]}]}"#,
        "pass OperatorsHealthy OperatorUnavailable=/x OperatorDegraded=/x",
    );
}

#[test]
fn a_cluster_without_them_waits_or_passes_by_config() {
    for (config, expected) in [
        ("{}", "wait NoClusterOperators"),
        (r#"{"missingKind":"Wait"}"#, "wait NoClusterOperators"),
        (r#"{"missingKind":"Pass"}"#, "pass NoClusterOperators"),
    ] {
        check("", config, expected);
        let mut world = World::new("");
        world.errors.push(("ClusterOperator", ErrorCode::Unsupported));
        assert_eq!(line(&evaluate(&input("pre", config), &world)), expected);
    }
}

#[test]
fn other_errors_are_handed_on_whatever_the_config_says() {
    for code in [
        ErrorCode::Denied,
        ErrorCode::Forbidden,
        ErrorCode::Unavailable,
        ErrorCode::OverBudget,
        ErrorCode::Other,
    ] {
        let mut world = World::new(&healthy("a"));
        world.errors.push(("ClusterOperator", code));
        let answer = line(&evaluate(&input("pre", r#"{"missingKind":"Pass"}"#), &world));
        assert_eq!(answer, format!("host error {code:?}"));
    }
    let mut world = World::new(&(healthy("a") + &healthy("b") + &healthy("c") + &healthy("d")));
    world.fail_after(1, ErrorCode::Unavailable);
    assert_eq!(
        line(&evaluate(&input("pre", "{}"), &world)),
        "host error ErrorCode::Unavailable"
    );
    assert!(line(&evaluate(&input("on-failure", "{}"), &world)).starts_with("failed: unknown phase"));
}

#[test]
fn all_pages_are_read_and_a_stale_cache_is_not_believed() {
    let many: String = (0..9).map(|index| healthy(&format!("o{index}"))).collect();
    check(
        &(many.clone() + &operator("x", &[("Degraded", "False")])),
        "{}",
        "wait OperatorsUnavailable OperatorUnavailable=/x",
    );
    let mut world = World::new(&operator("o1", &[("Available", "True"), ("Degraded", "True")]));
    world.cache = Some(Box::new(World::new(&many)));
    assert_eq!(
        line(&evaluate(&input("pre", "{}"), &world)),
        "wait OperatorsDegraded OperatorDegraded=/o1"
    );
}

#[test]
fn run_phases_need_no_node() {
    let mut input = input("pre-run", "{}");
    input.node = None;
    assert_eq!(
        line(&evaluate(&input, &World::new(&healthy("a")))),
        "pass OperatorsHealthy"
    );
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-cluster-operators.yaml"),
        &[
            "{}",
            r#"{"allowed":[{"name":"x","conditions":[]}],"progressing":"Wait","missingKind":"Pass","retryAfterSeconds":3600}"#,
        ],
        &[
            (r#"{"allowed":["x"]}"#, "/allowed/0"),
            (r#"{"allowed":[{}]}"#, "/allowed/0/name"),
            (
                r#"{"allowed":[{"name":"x","conditions":["Available","Bad"]}]}"#,
                "/allowed/0/conditions/1",
            ),
            (r#"{"progressing":true}"#, "/progressing"),
            (r#"{"missingKind":"Block"}"#, "/missingKind"),
            (r#"{"retryAfterSeconds":3601}"#, "/retryAfterSeconds"),
        ],
    );
}
