//! What one kind of owner can be told every kind can: by the same fields, of a MutexBinding or, for a MutexRunConfig, of its spec.

use crate::{
    cluster::{Cluster, now},
    words::{decision, words},
};
use numo_api::{Reason, Step};
use numo_core::report::NodeReport;

/// Each kind of owner with node a, which waits for its turn, and node b as `b` says: in its turn, or failed in it.
pub const KINDS: [&str; 4] = ["MutexRunConfig", "Plan", "NodeVersion", "NodeMaintenance"];

/// A cluster with an owner of this kind that is told this. `nodes` are options of node a, and of node b.
fn told(kind: &str, settings: &str, nodes: [&str; 2], b: &str) -> Cluster {
    let [of_a, of_b] = nodes;
    let version = if matches!(kind, "MutexRunConfig" | "NodeMaintenance") {
        "4.16.0"
    } else {
        "v0"
    };
    let around = format!("node a worker {version} {of_a}\n node b worker {version} {of_b}");
    let binding = format!(
        "binding x spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},{}}}",
        if settings.is_empty() {
            "\"soakSeconds\":0"
        } else {
            settings
        }
    );
    let failed = b == "failed";
    let begun = b == "begun";
    let text = match kind {
        "MutexRunConfig" => {
            let many = if settings.contains("maxUnavailable") {
                ""
            } else {
                "\"maxUnavailable\": 9,"
            };
            let settings = settings
                .replace(":{", ": {")
                .replace(":[", ": [")
                .replace("\"rules\"", "\"mutexRules\"");
            let change = if failed {
                "change b Held pin:4.17.0 reason:RuleFailed"
            } else if begun {
                "change b PreRules pin:4.17.0"
            } else {
                ""
            };
            let around = if failed || begun {
                around.replace("node b worker 4.16.0", "node b worker 4.16.0 turn")
            } else {
                around
            };
            format!(
                "cluster 4.17.0\n pool worker 4.17.0 ours\n {around}\n run {{{many} {settings}}} finalizer\n {change}"
            )
        }
        "Plan" => {
            let change = if failed {
                "begun b Held reason:JobFailed entered:Released boot:b1\n keeps b cordoned\n planjob b failed exit:1"
            } else if begun {
                "begun b Released boot:b1\n keeps b cordoned\n planjob b running"
            } else {
                ""
            };
            format!("{around}\n plan concurrency:9 cordon finalizer applying:b\n {binding}\n {change}")
        }
        "NodeVersion" => {
            let change = if failed {
                "replacing b Held reason:JoinFailed"
            } else if begun {
                "replacing b PreRules"
            } else {
                ""
            };
            format!(
                "{around}\n version img2 surge:9 finalizer\n host a img1\n host b img1\n group w image:img2\n groups w\n {binding}\n {change}"
            )
        }
        _ => {
            let change = if failed {
                "turn b Held reason:RuleFailed of:other"
            } else if begun {
                "turn b PreRules of:other"
            } else {
                ""
            };
            format!(
                "{around}\n maintenance a finalizer\n maintenance b name:other finalizer\n {binding}\n {change}\n pods a\n pods b"
            )
        }
    };
    Cluster::parse(&text)
}

/// Why node a is where it is.
fn of_a(cluster: &Cluster) -> Reason {
    let found = decision(cluster);
    let node = found.report.nodes.get("a");
    let node = node.unwrap_or_else(|| panic!("no node a: {}", words(cluster, &found).join("\n")));
    node.why.reason
}

#[test]
fn what_keeps_a_node_waiting_is_said_by_the_same_field_for_every_owner() {
    let mut wrong = Vec::new();
    let zone = "zone:z1";
    let wave = r#""waves":[{"nodeSelector":{"matchLabels":{"early":"yes"}}}]"#;
    for (settings, nodes, b, wanted) in [
        (r#""maxUnavailable":1"#, ["", ""], "begun", Reason::WaitingForTurn),
        (
            r#""maxUnavailable":"50%""#,
            ["", ""],
            "begun",
            Reason::WaitingForTurn,
        ),
        (r#""maxUnavailable":0"#, ["", ""], "", Reason::MaxUnavailableZero),
        (
            r#""mutexKeys":["topology.kubernetes.io/zone"]"#,
            [zone, zone],
            "begun",
            Reason::MutexKeyBusy,
        ),
        (
            r#""first":{"matchLabels":{"early":"yes"}}"#,
            ["", "label:early=yes"],
            "",
            Reason::FirstNodes,
        ),
        (wave, ["", "label:early=yes"], "", Reason::WaitsForWave),
        (
            r#""domains":{"key":"topology.kubernetes.io/zone"}"#,
            ["zone:z2", zone],
            "",
            Reason::OtherDomain,
        ),
        (
            r#""approval":{"begin":"Manual"}"#,
            ["", ""],
            "",
            Reason::WaitsForApproval,
        ),
        (
            r#""failureBudget":1"#,
            ["", ""],
            "failed",
            Reason::FailureBudgetSpent,
        ),
        (
            r#""failureBudget":"1%""#,
            ["", ""],
            "failed",
            Reason::FailureBudgetSpent,
        ),
        (
            r#""notReadyPolicy":"Wait""#,
            ["NotReady", ""],
            "",
            Reason::NodeNotReady,
        ),
        (
            r#""notReadyPolicy":"LeaveOutAfter","leaveOutAfterSeconds":30"#,
            ["NotReady dark:60", ""],
            "",
            Reason::LeftOutNotReady,
        ),
        (
            r#""window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#,
            ["", ""],
            "",
            Reason::OutsideWindow,
        ),
        (
            r#""startAfter":"2027-01-16T08:00:00Z""#,
            ["", ""],
            "",
            Reason::StartsLater,
        ),
        (r#""rules":[{"name":"gone"}]"#, ["", ""], "", Reason::RuleNotFound),
    ] {
        for kind in KINDS {
            let found = of_a(&told(kind, settings, nodes, b));
            if found != wanted {
                wrong.push(format!("{kind}: {settings}: found {found}, wanted {wanted}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_lets_a_node_begin_is_said_by_the_same_field_for_every_owner() {
    for (settings, nodes, b) in [
        ("", ["", ""], ""),
        (r#""maxUnavailable":2"#, ["", ""], "begun"),
        (
            r#""mutexKeys":["topology.kubernetes.io/zone"]"#,
            ["zone:z1", "zone:z2"],
            "begun",
        ),
        (
            r#""first":{"matchLabels":{"early":"yes"}}"#,
            ["label:early=yes", ""],
            "",
        ),
        (r#""failureBudget":2"#, ["", ""], "failed"),
        (r#""failureBudget":"100%""#, ["", ""], "failed"),
        (r#""startAfter":"2027-01-14T08:00:00Z""#, ["", ""], ""),
        (
            r#""window":{"openings":[{"days":["fri"],"startTime":"6","endTime":"20"}]}"#,
            ["", ""],
            "",
        ),
    ] {
        for kind in KINDS {
            let cluster = told(kind, settings, nodes, b);
            let found = of_a(&cluster);
            assert_eq!(
                found,
                Reason::Admitting,
                "{kind}: {settings}\n{}",
                words(&cluster, &decision(&cluster)).join("\n")
            );
        }
    }
}

/// The turn of node a, which is changed and soaks for ten minutes, for each kind of owner; it began at this time.
pub fn soaking(since: i64) -> [String; 4] {
    let run = format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         node b worker 4.16.0
         run {{soakSeconds: 600}} finalizer
         change a Soaked pin:4.17.0 entries:PreRules,Released,PostRules,Soaked since:{since}"
    );
    let plan = format!(
        "node a worker v0
         node b worker v0
         plan concurrency:1 cordon finalizer applying:a
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"soakSeconds\":600}}
         begun a Changed boot:b0 of:v0 entered:Released since:{since}
         keeps a leased
         planjob a complete ended:{since}"
    );
    let version = format!(
        "node b worker v0
         node x worker v0
         version img2 finalizer
         host x img2
         host b img1
         group w image:img2
         groups w
         binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeVersion\"}},\"soakSeconds\":600}}
         replacing a Changed machine:m-a heir:x unleased since:{since}"
    );
    let maintenance = format!(
        "node a worker 4.16.0
         maintenance a finalizer deleting phase:Succeeded
         binding x spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},\"soakSeconds\":600}}
         kept a
         turn a Soaked since:{since} entries:Cordoned,Drained
         pods a"
    );
    [run, plan, version, maintenance]
}

/// What node a waits for, and for how long (seconds).
fn waits(text: &str) -> (Reason, Option<i64>) {
    let cluster = Cluster::parse(text);
    let found = decision(&cluster);
    let waits = |node: &&NodeReport| node.step != Step::Selected;
    let node = found.report.nodes.values().find(waits);
    let node = node.unwrap_or_else(|| panic!("no turn: {}", words(&cluster, &found).join("\n")));
    let until = node.why.until.map(|until| until.as_second() - now().as_second());
    (node.why.reason, until)
}

#[test]
fn a_node_soaks_by_the_same_field_for_every_owner() {
    for text in soaking(-100) {
        assert_eq!(waits(&text), (Reason::Soaking, Some(500)), "{text}");
    }
    for text in soaking(-600) {
        let cluster = Cluster::parse(&text);
        let found = decision(&cluster);
        let soaks = |node: &NodeReport| node.why.reason == Reason::Soaking;
        assert!(!found.report.nodes.values().any(soaks), "{text}");
    }
}

/// A NodeMaintenance has one node, which is in no order with others: who gives one is told so.
#[test]
fn the_order_of_nodes_is_said_by_the_same_field_for_every_owner_that_has_several() {
    for kind in KINDS {
        for (order, of_young) in [("Oldest", Reason::WaitingForTurn), ("Newest", Reason::Admitting)] {
            let settings = format!("\"maxUnavailable\":1,\"order\":\"{order}\"");
            let wanted = if kind == "NodeMaintenance" {
                Reason::FieldNotServed
            } else {
                of_young
            };
            let found = of_a(&told(kind, &settings, ["age:1", "age:20"], ""));
            assert_eq!(found, wanted, "{kind} {order}");
        }
    }
}

/// A Job of a Plan can be tried again. Others have none of their own: who gives a number to a binding of theirs is told so.
#[test]
fn a_job_that_failed_is_tried_again_as_often_as_the_field_says() {
    let failed = "begun b Released boot:b1\n keeps b cordoned\n planjob b failed exit:1";
    for (retries, wanted) in [(0, Reason::JobFailed), (1, Reason::JobFailed)] {
        let text = format!(
            "node b worker v0\n plan concurrency:1 cordon finalizer applying:b\n \
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"retries\":{retries}}}\n {failed}"
        );
        let cluster = Cluster::parse(&text);
        let found = decision(&cluster);
        let node = &found.report.nodes["b"];
        let step = if retries == 0 { Step::Held } else { Step::Admitted };
        assert_eq!((node.step, node.why.reason), (step, wanted), "{retries}");
    }
    for kind in ["NodeVersion", "NodeMaintenance"] {
        let found = of_a(&told(kind, "\"retries\":1", ["", ""], ""));
        assert_eq!(found, Reason::FieldNotServed, "{kind}");
    }
}
