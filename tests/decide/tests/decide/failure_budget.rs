//! How many nodes of each kind of owner may fail: what is said counts, and where what gates the owner says nothing it is 1. What nothing
//! gates has no bound, as in the operator that is replaced.

use crate::{
    approvals::approve,
    cluster::Cluster,
    waves::begun,
    words::{check_cluster, decision, words},
};
use numo_core::names;

/// Settings of what gates an owner of which one node has failed, and what is said of the budget then; none if the next node begins.
struct Case {
    /// Its own `spec.mutex`, if it can have one.
    own: &'static str,
    /// MutexBindings, by their settings.
    bindings: &'static [&'static str],
    spent: Option<&'static str>,
}

const fn goes_on(own: &'static str, bindings: &'static [&'static str]) -> Case {
    Case {
        own,
        bindings,
        spent: None,
    }
}

const fn stops(own: &'static str, bindings: &'static [&'static str], spent: &'static str) -> Case {
    Case {
        own,
        bindings,
        spent: Some(spent),
    }
}

const AFTER_FAILURE: &str = r#""approval":{"afterFailure":"Manual"}"#;
const SOAK: &str = r#""soakSeconds":0"#;

/// Of a Plan and a NodeVersion.
const OF_OWNERS: [Case; 13] = [
    // Nothing gates it.
    goes_on("", &[]),
    // What is empty gates nothing: a binding of that is NothingGated.
    goes_on("", &[""]),
    goes_on("", &[r#""rules":[]"#]),
    stops(SOAK, &[], "(spec.mutex.failureBudget 1, the default): a; "),
    stops(
        "",
        &[SOAK],
        "(MutexBinding x0 spec.failureBudget 1, the default): a; ",
    ),
    stops(SOAK, &[SOAK], "(spec.mutex.failureBudget 1, the default): a; "),
    // Whoever says it says it for all of them.
    goes_on(SOAK, &[r#""failureBudget":2"#]),
    goes_on(r#""failureBudget":"100%""#, &[SOAK]),
    stops(
        r#""failureBudget":3"#,
        &[r#""failureBudget":1"#],
        "(MutexBinding x0 spec.failureBudget 1): a; ",
    ),
    stops(
        r#""failureBudget":"10%""#,
        &[],
        "(spec.mutex.failureBudget 1): a; ",
    ),
    // 0 counts as 1: what stops at no failure could never begin.
    stops(r#""failureBudget":0"#, &[], "(spec.mutex.failureBudget 1): a; "),
    // That of a wave is no bound of the owner.
    stops(
        r#""waves":[{"nodeSelector":{},"failureBudget":9}]"#,
        &[],
        "(spec.mutex.failureBudget 1, the default): a; ",
    ),
    // A person has the next word: with a budget that is said, both are asked.
    stops(
        r#""approval":{"afterFailure":"Manual"},"failureBudget":1"#,
        &[],
        "(spec.mutex.failureBudget 1): a; ",
    ),
];

/// The bindings of owners of a kind, `x0` and so on.
fn bindings(kind: &str, all: &[&str]) -> String {
    let lines = all.iter().enumerate().map(|(index, settings)| {
        let comma = if settings.is_empty() { "" } else { "," };
        format!("binding x{index} spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}}{comma}{settings}}}\n")
    });
    lines.collect()
}

/// A Plan with nodes a, whose Job has failed, and b.
fn plan(own: &str, all: &[&str]) -> Cluster {
    let gate = names::hash(&["gate", &format!("{{{own}}}")], 10);
    let own = if own.is_empty() {
        String::new()
    } else {
        format!("gate:{gate} spec {{\"mutex\":{{{own}}}}}")
    };
    Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         plan concurrency:9 cordon finalizer applying:a {own}
         {}
         begun a Held reason:JobFailed entered:Released boot:b1
         keeps a cordoned
         planjob a failed exit:1",
        bindings("Plan", all)
    ))
}

/// A NodeVersion with nodes a, whose machine did not join, and b.
fn version(own: &str, all: &[&str]) -> Cluster {
    let own = if own.is_empty() {
        String::new()
    } else {
        format!(",\"mutex\":{{{own}}}")
    };
    Cluster::parse(&format!(
        "node a worker v0
         node b worker v0
         version img2 finalizer spec {{\"surge\":9{own}}}
         host a img1
         host b img1
         group w image:img2
         groups w
         {}
         replacing a Held reason:JoinFailed",
        bindings("NodeVersion", all)
    ))
}

#[test]
fn one_node_of_an_owner_may_fail_where_what_gates_it_says_nothing() {
    for case in &OF_OWNERS {
        for cluster in [plan(case.own, case.bindings), version(case.own, case.bindings)] {
            let shown = words(&cluster, &decision(&cluster)).join("\n");
            let which = format!("{} {:?}: {}\n{shown}", case.own, case.bindings, cluster.owner());
            assert_eq!(
                begun(&cluster),
                if case.spent.is_some() { "" } else { "b" },
                "{which}"
            );
            let Some(spent) = case.spent else { continue };
            let says = format!("FailureBudgetSpent ~ Stopped after 1 failed node {spent}");
            check_cluster(&cluster, &format!("hold {says}\n node b Selected {says}"));
            // How to go on is said too.
            check_cluster(
                &cluster,
                "hold FailureBudgetSpent ~ `numo retry a` or `numo skip a` ends this failure; with a higher failureBudget the other nodes continue",
            );
        }
    }
}

#[test]
fn a_persons_word_after_a_failure_is_the_bound_where_nobody_wrote_one() {
    for of in [plan, version] {
        for (own, all) in [
            (AFTER_FAILURE, &[SOAK][..]),
            (SOAK, &[AFTER_FAILURE]),
            ("", &[AFTER_FAILURE, SOAK]),
        ] {
            let mut cluster = of(own, all);
            check_cluster(&cluster, "node b Selected WaitsForApproval");
            assert_eq!(begun(&cluster), "");
            approve(&mut cluster, 10, |_| {});
            assert_eq!(begun(&cluster), "b", "{own} {all:?}");
        }
    }
}

/// A run is always under its own settings.
#[test]
fn one_node_of_a_run_may_fail_where_it_says_nothing() {
    let run = |settings: &str| {
        Cluster::parse(&format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             node b worker 4.16.0
             rule backup Pre
             run finalizer {{maxUnavailable: 2{settings}}}
             change a Held pin:4.17.0 reason:RuleFailed"
        ))
    };
    for (settings, says) in [
        (
            "",
            "(spec.failureBudget 1, the default): a; `numo explain a` says why; `numo retry a` or `numo skip a` ends this failure; with a higher failureBudget the other nodes continue",
        ),
        (", failureBudget: 1", "(spec.failureBudget 1): a; "),
    ] {
        check_cluster(
            &run(settings),
            &format!("hold FailureBudgetSpent ~ {says}\n > nothing"),
        );
    }
    for settings in [", failureBudget: 2", ", failureBudget: \"100%\""] {
        check_cluster(&run(settings), "> admit b");
    }
}

/// NodeMaintenances of nodes a, which is to begin, and b, of which a rule has failed: each of these bindings speaks of both.
fn maintenance(all: &[&str]) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0
         maintenance a finalizer
         {}
         pods a
         node b worker 4.16.0
         maintenance b name:other finalizer
         turn b Held reason:RuleFailed of:other",
        bindings("NodeMaintenance", all)
    ))
}

#[test]
fn one_maintenance_of_a_binding_may_fail_where_none_of_them_says_more() {
    for (all, spent) in [
        (&[][..], None),
        (&[""], None),
        (
            &[SOAK],
            Some("(MutexBinding x0 spec.failureBudget 1, the default): b; "),
        ),
        (
            &[r#""drain":{"order":"Priority"}"#],
            Some("(MutexBinding x0 spec.failureBudget 1, the default): b; "),
        ),
        (
            &["", SOAK],
            Some("(MutexBinding x1 spec.failureBudget 1, the default): b; "),
        ),
        (&[SOAK, r#""failureBudget":2"#], None),
        (
            &[SOAK, r#""failureBudget":1"#],
            Some("(MutexBinding x1 spec.failureBudget 1): b; "),
        ),
        (&[r#""failureBudget":"100%""#], None),
    ] {
        let cluster = maintenance(all);
        let Some(spent) = spent else {
            check_cluster(&cluster, "> admit a");
            continue;
        };
        check_cluster(
            &cluster,
            &format!("node a Selected FailureBudgetSpent ~ Stopped after 1 failed node {spent}\n > nothing"),
        );
        check_cluster(
            &cluster,
            "node a Selected FailureBudgetSpent ~ `numo retry b` or `numo skip b` ends this failure, deleting its NodeMaintenance gives it up; with a higher failureBudget the other nodes continue",
        );
    }
    let mut asked = maintenance(&[AFTER_FAILURE]);
    check_cluster(&asked, "node a Selected WaitsForApproval\n > nothing");
    approve(&mut asked, 10, |_| {});
    check_cluster(&asked, "> admit a");
}

/// The maintenances of one binding count for it alone.
#[test]
fn a_maintenance_is_not_stopped_by_those_of_another_binding() {
    let mut cluster = maintenance(&[SOAK]);
    let binding = cluster.observed.bindings.get_mut("x0").expect("x0");
    binding.spec.owner_selector.labels = serde_json::from_str(r#"{"matchLabels":{"team":"x"}}"#).ok();
    for view in cluster.observed.maintenances.values_mut() {
        if view.owner.key.name != "other" {
            view.labels.insert("team".to_owned(), "x".to_owned());
        }
    }
    check_cluster(&cluster, "> admit a");
}
