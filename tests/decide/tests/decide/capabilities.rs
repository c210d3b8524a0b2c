//! What one kind of owner can be told every kind can: by the same fields, of a MutexBinding or, for a MutexRunConfig, of its spec.

use crate::{
    cluster::Cluster,
    words::{decision, words},
};
use numo_api::Reason;

/// Each kind of owner with node a, which waits for its turn, and node b as `b` says: in its turn, or failed in it.
const KINDS: [&str; 4] = ["MutexRunConfig", "Plan", "NodeVersion", "NodeMaintenance"];

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
