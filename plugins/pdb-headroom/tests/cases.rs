//! Cases of `pdb-headroom` against a host in memory.

use numo_rule_sdk::{
    ErrorCode,
    fake::{World, check_rule, input, line},
};
use pdb_headroom::{describe, evaluate, parse};

fn pod(name: &str, extra: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{namespace: a, name: {name}, labels: {{app: db}}{}}}\nspec: {{nodeName: w1}}\n\
         status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}\n",
        if extra.is_empty() {
            String::new()
        } else {
            format!(", {extra}")
        }
    )
}

fn unready(name: &str) -> String {
    pod(name, "").replace("'True'", "'False'")
}

fn pdb(name: &str, spec: &str, status: &str) -> String {
    format!(
        "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{namespace: a, name: {name}, generation: 2}}\n\
         spec: {{{spec}}}\nstatus: {{observedGeneration: 2, {status}}}\n"
    )
}

const DB: &str = "selector: {matchLabels: {app: db}}";

fn check(name: &str, yaml: &str, config: &str, expected: &str) {
    let world = World::new(yaml);
    assert_eq!(line(&evaluate(&input("pre", config), &world)), expected, "{name}");
}

#[test]
fn budgets_are_counted_as_the_eviction_api_counts() {
    let one = "disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3";
    let none = "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3";
    let two = pod("p1", "") + &pod("p2", "");
    let pass = "pass HeadroomSuffices";
    let exhausted = "wait BudgetExhausted BudgetExhausted=a/db";
    let cases: &[(&str, String, &str)] = &[
        ("an empty node", String::new(), pass),
        ("no budget", two.clone(), pass),
        ("one pod, one allowed", pod("p1", "") + &pdb("db", DB, one), pass),
        (
            "one pod, none allowed",
            pod("p1", "") + &pdb("db", DB, none),
            exhausted,
        ),
        (
            "two pods, one allowed, never two",
            two.clone() + &pdb("db", DB, one),
            "wait BudgetTooSmall BudgetTooSmall=a/db",
        ),
        (
            "two pods, one allowed, two when all are healthy",
            two.clone()
                + &pdb(
                    "db",
                    DB,
                    "disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 4",
                ),
            exhausted,
        ),
        (
            "two pods, two allowed",
            two.clone()
                + &pdb(
                    "db",
                    DB,
                    "disruptionsAllowed: 2, currentHealthy: 4, desiredHealthy: 2, expectedPods: 4",
                ),
            pass,
        ),
        (
            "negative",
            pod("p1", "") + &pdb("db", DB, "disruptionsAllowed: -1, expectedPods: 3"),
            exhausted,
        ),
        (
            "maxUnavailable 0",
            pod("p1", "")
                + &pdb(
                    "db",
                    DB,
                    "disruptionsAllowed: 0, currentHealthy: 3, desiredHealthy: 3, expectedPods: 3",
                ),
            "wait BudgetTooSmall BudgetTooSmall=a/db",
        ),
        (
            "status not observed",
            pod("p1", "") + &pdb("db", DB, one).replace("observedGeneration: 2", "observedGeneration: 1"),
            "wait BudgetNotObserved BudgetNotObserved=a/db",
        ),
        (
            "status never written",
            pod("p1", "")
                + "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: a, name: db, generation: 1}, spec: {selector: {}}}\n",
            "wait BudgetNotObserved BudgetNotObserved=a/db",
        ),
        (
            "of another namespace",
            pod("p1", "") + &pdb("db", DB, none).replace("namespace: a", "namespace: b"),
            pass,
        ),
        (
            "another node's pod",
            pod("p1", "").replace("w1", "w2") + &pdb("db", DB, none),
            pass,
        ),
    ];
    for (name, yaml, expected) in cases {
        check(name, yaml, "{}", expected);
    }
}

#[test]
fn selectors_match_as_in_policy_v1() {
    let none = "disruptionsAllowed: 0, desiredHealthy: 2, currentHealthy: 2, expectedPods: 3";
    let pass = "pass HeadroomSuffices";
    let exhausted = "wait BudgetExhausted BudgetExhausted=a/db";
    let bare = pod("p1", "").replace(", labels: {app: db}", "");
    for (selector, expected) in [
        ("selector: {}", exhausted),
        ("minAvailable: 1", pass),
        ("selector: {matchLabels: {app: web}}", pass),
        (
            "selector: {matchExpressions: [{key: app, operator: In, values: [web, db]}]}",
            exhausted,
        ),
        (
            "selector: {matchExpressions: [{key: app, operator: NotIn, values: [db]}]}",
            pass,
        ),
        (
            "selector: {matchExpressions: [{key: tier, operator: NotIn, values: [x]}]}",
            exhausted,
        ),
        (
            "selector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}",
            exhausted,
        ),
        (
            "selector: {matchLabels: {app: db}, matchExpressions: [{key: tier, operator: Exists}]}",
            pass,
        ),
        (
            "selector: {matchExpressions: [{key: app, operator: Like, values: [db]}]}",
            "pass HeadroomSuffices InvalidSelector=a/db",
        ),
    ] {
        check(
            selector,
            &(pod("p1", "") + &pdb("db", selector, none)),
            "{}",
            expected,
        );
    }
    check(
        "an empty selector selects pods without labels",
        &(bare.clone() + &pdb("db", "selector: {}", none)),
        "{}",
        exhausted,
    );
    check("labels do not", &(bare + &pdb("db", DB, none)), "{}", pass);
}

#[test]
fn pods_that_no_drain_evicts_or_no_budget_guards_do_not_count() {
    let none = pdb(
        "db",
        DB,
        "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3",
    );
    let owner = |kind: &str, version: &str, controller: bool| {
        format!(
            "ownerReferences: [{{apiVersion: {version}, kind: {kind}, name: o, controller: {controller}}}]"
        )
    };
    let pass = "pass HeadroomSuffices";
    let exhausted = "wait BudgetExhausted BudgetExhausted=a/db";
    for (name, pod, expected) in [
        (
            "mirror",
            pod("p1", "annotations: {kubernetes.io/config.mirror: x}"),
            pass,
        ),
        (
            "mirror with an empty hash",
            pod("p1", "annotations: {kubernetes.io/config.mirror: ''}"),
            pass,
        ),
        ("DaemonSet", pod("p1", &owner("DaemonSet", "apps/v1", true)), pass),
        (
            "owned but not controlled by a DaemonSet",
            pod("p1", &owner("DaemonSet", "apps/v1", false)),
            exhausted,
        ),
        (
            "someone else's DaemonSet",
            pod("p1", &owner("DaemonSet", "apps.kruise.io/v1", true)),
            exhausted,
        ),
        (
            "StatefulSet",
            pod("p1", &owner("StatefulSet", "apps/v1", true)),
            exhausted,
        ),
        (
            "terminating",
            pod("p1", "deletionTimestamp: '2026-01-01T00:00:00Z'"),
            pass,
        ),
        ("succeeded", pod("p1", "").replace("Running", "Succeeded"), pass),
        ("failed", pod("p1", "").replace("Running", "Failed"), pass),
        ("pending", pod("p1", "").replace("Running", "Pending"), pass),
        (
            "unknown phase",
            pod("p1", "").replace("Running", "Unknown"),
            exhausted,
        ),
    ] {
        check(name, &(pod + &none), "{}", expected);
    }
}

#[test]
fn unready_pods_follow_the_unhealthy_pod_eviction_policy() {
    let enough = "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3";
    let too_few = "disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 2, expectedPods: 3";
    let zero = "disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 1";
    let pass = "pass HeadroomSuffices";
    let exhausted = "wait BudgetExhausted BudgetExhausted=a/db";
    for (policy, status, expected) in [
        ("", enough, pass),
        ("", too_few, exhausted),
        ("", zero, exhausted),
        (", unhealthyPodEvictionPolicy: IfHealthyBudget", enough, pass),
        (
            ", unhealthyPodEvictionPolicy: IfHealthyBudget",
            too_few,
            exhausted,
        ),
        (", unhealthyPodEvictionPolicy: AlwaysAllow", enough, pass),
        (", unhealthyPodEvictionPolicy: AlwaysAllow", too_few, pass),
    ] {
        check(
            &format!("{policy} {status}"),
            &(unready("p1") + &pdb("db", &format!("{DB}{policy}"), status)),
            "{}",
            expected,
        );
    }
    let no_condition = pod("p1", "").replace("{type: Ready, status: 'True'}", "");
    check(
        "a pod without the condition is not Ready",
        &(no_condition + &pdb("db", DB, enough)),
        "{}",
        pass,
    );
    let mixed = pod("p1", "") + &unready("p2");
    let one = "disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 4";
    check(
        "only the ready one of two is counted",
        &(mixed + &pdb("db", DB, one)),
        "{}",
        pass,
    );
}

#[test]
fn a_pod_with_several_budgets_is_refused_however_much_they_allow() {
    let plenty = "disruptionsAllowed: 9, currentHealthy: 9, desiredHealthy: 0, expectedPods: 9";
    let two = pdb("db", DB, plenty) + &pdb("all", "selector: {}", plenty);
    check(
        "ready",
        &(pod("p1", "") + &two),
        "{}",
        "wait SeveralBudgets SeveralBudgets=a/p1",
    );
    check(
        "unready",
        &(unready("p1") + &two),
        "{}",
        "wait SeveralBudgets SeveralBudgets=a/p1",
    );
    check(
        "pending",
        &(pod("p1", "").replace("Running", "Pending") + &two),
        "{}",
        "pass HeadroomSuffices",
    );
}

#[test]
fn one_by_one_needs_one_disruption_for_each_budget() {
    let two = pod("p1", "") + &pod("p2", "");
    let one = "disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3";
    let none = "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3";
    let config = r#"{"evictions":"OneByOne"}"#;
    check(
        "one",
        &(two.clone() + &pdb("db", DB, one)),
        config,
        "pass HeadroomSuffices",
    );
    check(
        "none",
        &(two + &pdb("db", DB, none)),
        config,
        "wait BudgetExhausted BudgetExhausted=a/db",
    );
}

#[test]
fn namespaces_limit_what_is_read() {
    let none = pdb(
        "db",
        DB,
        "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3",
    );
    let world = World::new(&(pod("p1", "") + &none));
    assert_eq!(
        line(&evaluate(&input("pre", r#"{"namespaces":["b"]}"#), &world)),
        "pass HeadroomSuffices"
    );
    assert!(
        world.calls().iter().all(|call| call == "list Pod b"),
        "{:?}",
        world.calls()
    );
    let exhausted = "wait BudgetExhausted BudgetExhausted=a/db";
    assert_eq!(
        line(&evaluate(&input("pre", r#"{"namespaces":["a","a"]}"#), &world)),
        exhausted
    );
    assert_eq!(
        line(&evaluate(&input("pre", r#"{"ignoreNamespaces":["a"]}"#), &world)),
        "pass HeadroomSuffices"
    );
}

#[test]
fn the_message_names_budget_and_pods() {
    let none = pdb(
        "db",
        DB,
        "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 4",
    );
    let world = World::new(&(pod("p1", "") + &pod("p2", "") + &none));
    let Ok(numo_rule_sdk::Verdict::Wait(wait)) =
        evaluate(&input("pre", r#"{"retryAfterSeconds":7}"#), &world)
    else {
        panic!("no wait")
    };
    assert_eq!(
        wait.report.summary,
        "evicting 2 pods of w1 would break 1 PodDisruptionBudget: a/db allows 0 for p1, p2"
    );
    assert_eq!(
        wait.report.findings[0].message,
        "allows 0 of 2 that are needed for p1, p2; 2 of 4 pods are healthy, 2 must be"
    );
    assert_eq!(wait.retry_after_seconds, 7);
}

#[test]
fn all_pages_are_read() {
    let mut yaml: String = (0..7).map(|index| pod(&format!("p{index}"), "")).collect();
    yaml += &pdb(
        "db",
        DB,
        "disruptionsAllowed: 6, currentHealthy: 9, desiredHealthy: 2, expectedPods: 9",
    );
    check(
        "seven pods on three pages",
        &yaml,
        "{}",
        "wait BudgetExhausted BudgetExhausted=a/db",
    );
}

#[test]
fn a_cache_that_lags_behind_lets_nothing_pass() {
    let allows = pdb(
        "db",
        DB,
        "disruptionsAllowed: 1, currentHealthy: 3, desiredHealthy: 2, expectedPods: 3",
    );
    let refuses = pdb(
        "db",
        DB,
        "disruptionsAllowed: 0, currentHealthy: 2, desiredHealthy: 2, expectedPods: 3",
    );
    let mut world = World::new(&(pod("p1", "") + &refuses));
    world.cache = Some(Box::new(World::new(&(pod("p1", "") + &allows))));
    assert_eq!(
        line(&evaluate(&input("pre", "{}"), &world)),
        "wait BudgetExhausted BudgetExhausted=a/db"
    );
}

#[test]
fn errors_are_handed_on() {
    for (kind, code) in [
        ("Pod", ErrorCode::Denied),
        ("PodDisruptionBudget", ErrorCode::Forbidden),
    ] {
        let mut world = World::new(&pod("p1", ""));
        world.errors.push((kind, code));
        assert_eq!(
            line(&evaluate(&input("pre", "{}"), &world)),
            format!("host error {code:?}")
        );
    }
    let world = World::new("");
    assert!(line(&evaluate(&input("post", "{}"), &world)).starts_with("failed: unknown phase"));
    let mut no_node = input("pre", "{}");
    no_node.node = None;
    assert!(line(&evaluate(&no_node, &world)).starts_with("failed:"));
    assert_eq!(
        line(&evaluate(&input("pre", r#"{"evictions":1}"#), &world)),
        "invalid config /evictions"
    );
}

#[test]
fn configuration_schema_and_example_agree() {
    check_rule(
        &describe(),
        parse,
        include_str!("../../../examples/rule-pdb-headroom.yaml"),
        &[
            "{}",
            r#"{"evictions":"OneByOne","namespaces":["a"],"ignoreNamespaces":[],"retryAfterSeconds":5}"#,
        ],
        &[
            ("[]", ""),
            (r#"{"evictions":"Some"}"#, "/evictions"),
            (r#"{"namespaces":"a"}"#, "/namespaces"),
            (r#"{"namespaces":["a",""]}"#, "/namespaces/1"),
            (r#"{"retryAfterSeconds":4}"#, "/retryAfterSeconds"),
            (r#"{"retryafterseconds":30}"#, "/retryafterseconds"),
        ],
    );
}
