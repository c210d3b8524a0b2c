//! All that stands against a node's turn, and in what order: the same for every kind of owner.

use crate::cluster::{Cluster, now};
use numo_api::{Reason, marks};
use numo_core::{Snapshot, decide, report::Why};

/// The reasons against node `a`, worst first, when a person asks about it.
fn against(text: &str) -> Vec<String> {
    let all = said_against(text).into_iter();
    all.map(|why| why.reason.name().to_owned()).collect()
}

/// The same with their words.
fn said_against(text: &str) -> Vec<Why> {
    all_against(&Cluster::parse(text))
}

fn all_against(cluster: &Cluster) -> Vec<Why> {
    let owner = cluster.owner();
    let decided = |asked| {
        let snapshot = Snapshot {
            now: now(),
            observed: &cluster.observed,
            owner: &owner,
            asked,
        };
        decide(&snapshot, &cluster.answers)
    };
    let (asked, other, none) = (decided(Some("a")), decided(Some("b")), decided(None));
    assert!(
        other
            .report
            .also
            .iter()
            .all(|why| !why.message.contains("Node a:"))
    );
    assert!(none.report.also.is_empty());
    // To be asked about changes nothing.
    assert_eq!(asked.report.nodes, none.report.nodes);
    assert_eq!(asked.actions, none.actions);
    assert_eq!(asked.questions, none.questions);
    let worst = &asked.report.nodes["a"].why;
    std::iter::once(worst)
        .chain(&asked.report.also)
        .cloned()
        .collect()
}

/// What stands around node `a`: it is being deleted, not Ready, held by another operator, and its budget is stopped and spent.
const AROUND: &str = "node a worker 4.16.0 NotReady cordoned lease:somebody leaving:gone
     node b worker 4.16.0
     budget all max:0 paused";

#[test]
fn all_that_stands_against_a_node_is_named_in_one_order() {
    let run = format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         {AROUND}
         rule backup Pre
         run {{suspend: true}} finalizer"
    );
    let of_run = [
        "Suspended",
        "Stopped",
        "NodeLeaving",
        "NodeNotReady",
        "NodeLeaseHeld",
        "BudgetExhausted",
    ];
    assert_eq!(against(&run), of_run);
    let plan = format!("{AROUND}\n plan concurrency:1 cordon finalizer suspended");
    assert_eq!(against(&plan), of_run);
    // A node that is not Ready may be maintained.
    let maintenance = format!("{AROUND}\n maintenance a finalizer suspended");
    let of_maintenance = [
        "Suspended",
        "Stopped",
        "NodeLeaving",
        "NodeLeaseHeld",
        "BudgetExhausted",
    ];
    assert_eq!(against(&maintenance), of_maintenance);
}

#[test]
fn all_that_stands_against_a_turn_that_has_begun_is_named() {
    let plan = "node a worker v0 NotReady
         node b worker v0
         budget all max:1 paused
         plan concurrency:1 cordon finalizer suspended applying:a
         begun a new
         keeps a";
    assert_eq!(against(plan), ["Suspended", "Stopped", "NodeNotReady"]);
    let maintenance = "node a worker 4.16.0
         budget all max:1 paused
         maintenance a finalizer suspended
         turn a new
         kept a";
    assert_eq!(against(maintenance), ["Suspended", "Stopped"]);
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn NotReady
         node b worker 4.16.0
         budget all max:1 paused
         rule backup PreRelease
         run {} finalizer
         change a PreRelease pin:4.17.0";
    assert_eq!(against(run), ["Stopped", "NodeNotReady"]);
    // From the first rule on.
    let first = run
        .replace("backup PreRelease", "backup Pre")
        .replace("change a PreRelease", "change a PreRules");
    assert_eq!(against(&first), ["Stopped", "NodeNotReady"]);
    // Of a drain, too.
    let drains = "node a worker 4.16.0
         budget all max:1 paused
         maintenance a finalizer phase:Running counted:9
         kept a cordoned
         turn a Cordoned hold
         pod web on a";
    assert_eq!(against(drains), ["Stopped", "HeldByPerson"]);
}

/// Who has raised one budget, or started it, is not to find the next only then.
#[test]
fn every_budget_that_keeps_a_node_is_named_worst_first() {
    let around = "node a worker v0
         node b worker v0 turn
         node c worker v0 cordoned
         budget both max:1
         budget first max:9 paused
         budget never max:0
         budget second max:9 paused
         budget wide max:2";
    for (owner, is_more) in [
        (
            "cluster 4.17.0\n pool worker 4.17.0 ours\n rule backup Pre\n run {maxUnavailable: 9} finalizer\n change b PreRules pin:4.17.0",
            true,
        ),
        ("plan concurrency:9 cordon finalizer", false),
        (
            "version img2 surge:9 finalizer\n host a img1\n group w image:img2\n groups w",
            false,
        ),
        ("maintenance a finalizer", false),
    ] {
        let around = if is_more {
            around.replace("v0", "4.16.0")
        } else {
            around.replace(" turn", " cordoned")
        };
        let all = said_against(&format!("{around}\n {owner}"));
        let of = |reason: Reason| -> Vec<String> {
            let of = all.iter().filter(|why| why.reason == reason);
            of.map(|why| {
                let named = why.message.split_whitespace().nth(1);
                named.unwrap_or_default().to_owned()
            })
            .collect()
        };
        assert_eq!(of(Reason::Stopped), ["first", "second"], "{owner}: {all:#?}");
        let budgets = of(Reason::BudgetExhausted);
        // One that makes room by itself comes last.
        assert_eq!(budgets.len(), 3, "{owner}: {all:#?}");
        assert_eq!(
            *budgets == ["never", "both", "wide"],
            is_more,
            "{owner}: {all:#?}"
        );
    }
}

/// One sentence, whichever kind of owner the node waits for, and from its first look to its turn.
#[test]
fn who_holds_a_lease_and_who_is_not_ready_is_told_in_the_same_words() {
    let of = |node: &str, turn: bool| {
        let begun = |words: &'static str| if turn { words } else { "" };
        let binding = r#"binding x spec {"ownerSelector":{"kind":"NodeMaintenance"},"takeNotReady":false}"#;
        [
            format!(
                "node a worker v0 {node}\n plan concurrency:1 cordon finalizer applying:a\n {}",
                begun("begun a new\n keeps a")
            ),
            format!(
                "node a worker v0 {node}\n version img2 finalizer\n host a img1\n group w image:img2\n groups w\n {}",
                begun("replacing a PreRules")
            ),
            format!(
                "node a worker 4.16.0 {node}\n maintenance a finalizer\n {binding}\n {}",
                begun("turn a new\n kept a")
            ),
        ]
    };
    for turn in [false, true] {
        for cluster in of("NotReady", turn) {
            let words = "Node a is not Ready (takeNotReady: true takes it anyway)";
            crate::words::check(&cluster, &format!("node a ~ {words}"));
        }
    }
    // A maintenance has the words of the operator that it replaces.
    for cluster in of("lease:somebody", false).iter().take(2) {
        crate::words::check(
            cluster,
            "node a ~ Lease medik8s-leases/node-a is held by somebody",
        );
    }
}

/// Who resumes an owner that is not as it must be would only then read of it; and a node that begins does not change what is told.
#[test]
fn what_is_wrong_with_an_owner_is_told_before_that_it_is_suspended() {
    let gone = |kind: &str| {
        format!(
            "binding x spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},\"rules\":[{{\"name\":\"gone\"}}]}}"
        )
    };
    let plan = format!(
        "node a worker v0\n plan concurrency:1 cordon finalizer applying:a suspended\n {}",
        gone("Plan")
    );
    let maintenance = format!(
        "node a worker 4.16.0\n maintenance a finalizer suspended\n {}",
        gone("NodeMaintenance")
    );
    let version = format!(
        "node a worker v0\n version img2 finalizer paused\n host a img1\n group w image:img2\n groups w\n {}",
        gone("NodeVersion")
    );
    for (owner, turn) in [
        (plan, "begun a new\n keeps a"),
        (maintenance, "turn a new\n kept a"),
        (version, "replacing a PreRules"),
    ] {
        for cluster in [owner.clone(), format!("{owner}\n {turn}")] {
            let first = |cluster: &str| against(cluster).into_iter().next();
            assert_eq!(against(&cluster)[..2], ["RuleNotFound", "Suspended"], "{cluster}");
            // What is wrong may be of what is not seen.
            let resumed = cluster.replace(" suspended", "").replace(" paused", "");
            let blind = format!("{resumed}\n unlisted nodes");
            assert_eq!(first(&blind).as_deref(), Some("ListFailed"), "{blind}");
        }
    }
}

/// A stop of all nodes that are behind holds the run as well: it is one reason.
#[test]
fn what_stops_the_owner_as_a_whole_is_not_told_twice() {
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 cordoned
         node b worker 4.16.0
         budget all max:1 paused
         run finalizer {}";
    assert_eq!(against(run), ["Stopped", "CordonedByOther"]);
}

#[test]
fn a_stop_is_worse_than_a_window_that_is_closed() {
    let window = r#"spec {"window":{"days":["mon"],"startTime":"1","endTime":"2"}}"#;
    let around = "node a worker v0
         node b worker v0
         budget all max:1 paused";
    let waits = format!("{around}\n plan concurrency:1 cordon finalizer {window}");
    assert_eq!(against(&waits), ["Stopped", "OutsideWindow"]);
    let begun = format!(
        "{around}
         plan concurrency:1 cordon finalizer applying:a {window}
         begun a new
         keeps a"
    );
    assert_eq!(against(&begun), ["Stopped", "OutsideWindow"]);
}

/// Whoever mends the first would only then read of the next.
#[test]
fn all_that_keeps_the_owner_as_a_whole_is_named() {
    let plan = r#"node a worker v0
         node b worker v0
         budget all max:9 paused
         plan concurrency:9 cordon finalizer suspended applying:b
         binding x spec {"ownerSelector":{"kind":"Plan"},"rules":[{"name":"gone"}]}
         begun b Held reason:JobFailed entered:Released boot:b1
         keeps b cordoned
         planjob b failed exit:1"#;
    assert_eq!(
        against(plan),
        ["RuleNotFound", "Suspended", "FailureBudgetSpent", "Stopped"]
    );
    // What is given up goes whatever else is so.
    let leaving = plan.replace("suspended", "suspended deleting");
    assert_eq!(against(&leaving)[0], "Deleting");
    assert!(!against(&leaving).contains(&"Suspended".to_owned()));
    let version = r#"node a worker v0
         node b worker v0
         version img2 finalizer paused
         host a img1
         host b img1
         group w image:img2
         groups w
         provider none
         binding x spec {"ownerSelector":{"kind":"NodeVersion"},"soakSeconds":0}
         replacing b Held reason:JoinFailed"#;
    assert_eq!(
        against(version)[..3],
        ["Suspended", "ProviderUnavailable", "FailureBudgetSpent"]
    );
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0 turn
         run {suspend: true, maxUnavailable: 2, mutexRules: [{name: gone}]} finalizer
         change b Held pin:4.17.0 reason:RuleFailed";
    assert_eq!(against(run), ["RuleNotFound", "Suspended", "FailureBudgetSpent"]);
    let maintenance = r#"node a worker 4.16.0
         maintenance a finalizer suspended
         binding x spec {"ownerSelector":{"kind":"NodeMaintenance"},"soakSeconds":0}
         node b worker 4.16.0
         maintenance b name:other finalizer
         turn b Held reason:RuleFailed of:other"#;
    assert_eq!(against(maintenance), ["Suspended", "FailureBudgetSpent"]);
}

/// Only a person ends them: that other gates end by themselves is not to hide them.
#[test]
fn a_mark_of_a_machine_and_a_name_that_is_taken_are_named_with_the_gates() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 cordoned
         node b worker 4.16.0
         machine m of a openshift
         run {order: Name} finalizer
         change a PreRules pin:4.17.0",
    );
    for change in cluster.observed.changes.values_mut() {
        "other".clone_into(&mut change.spec.owner_ref.uid);
        "gone".clone_into(&mut change.spec.node_uid);
    }
    let mark = (marks::SHIELDED_BY.to_owned(), "a later form".to_owned());
    for machine in cluster.observed.machines.values_mut() {
        machine.object.annotations.extend([mark.clone()]);
    }
    let all = all_against(&cluster);
    let reasons: Vec<&str> = all.iter().map(|why| why.reason.name()).collect();
    assert_eq!(
        reasons,
        ["MarkUnreadable", "JournalContradicts", "CordonedByOther"]
    );
}

/// That an owner has room for nobody is the same gate for every kind of owner.
#[test]
fn a_plan_without_concurrency_has_no_room() {
    let around = "node a worker v0
         node b worker v0
         budget all max:9 paused";
    assert_eq!(
        against(&format!("{around}\n plan concurrency:0 cordon finalizer")),
        ["Stopped", "ConcurrencyZero"]
    );
    let closed = r#"binding x spec {"ownerSelector":{"kind":"Plan"},"maxUnavailable":0}"#;
    assert_eq!(
        against(&format!(
            "{around}\n plan concurrency:1 cordon finalizer\n {closed}"
        )),
        ["Stopped", "MaxUnavailableZero"]
    );
}

/// What stands around node `a`, which waits: a stop, a person's hold, closed hours, its own going, another operator's lease, a wave and a
/// domain that come first, an approval that nobody gave, and budgets that are spent.
const ALL: &str = r#""first":{"matchLabels":{"early":"yes"}},"domains":{"key":"topology.kubernetes.io/zone"},"approval":{"begin":"Manual"},"maxUnavailable":1,"window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#;

/// All gates at once, for each kind of owner, and in one order.
#[test]
fn a_report_names_every_gate_that_stands_against_a_node() {
    let node = |version: &str| {
        format!(
            "node a worker {version} NotReady lease:somebody leaving:gone zone:z2
             node b worker {version} zone:z1 label:early=yes
             budget all max:0 paused"
        )
    };
    let binding = |kind: &str| {
        let reference = format!("\"ownerSelector\":{{\"kind\":\"{kind}\"}}");
        format!("binding x spec {{{reference},\"takeNotReady\":false,{ALL}}}")
    };
    let gates = [
        "Suspended",
        "Stopped",
        "HeldByPerson",
        "OutsideWindow",
        "NodeLeaving",
        "NodeNotReady",
        "NodeLeaseHeld",
        "FirstNodes",
        "OtherDomain",
        "WaitsForApproval",
        "WaitingForTurn",
        "BudgetExhausted",
    ];
    let plan = format!(
        "{}
         plan concurrency:1 cordon finalizer suspended applying:b
         {}
         begun b Released boot:b1
         begun a Selected directive:Hold
         keeps b cordoned
         planjob b running",
        node("v0"),
        binding("Plan")
    );
    assert_eq!(against(&plan), gates);
    let version = format!(
        "{}
         node c worker v0
         version img2 finalizer paused
         host a img1
         host b img1 heir:c
         host c img2 donor:b
         group w image:img2
         groups w
         {}
         replacing b PreRules
         replacing a Selected hold unleased",
        node("v0"),
        binding("NodeVersion")
    );
    assert_eq!(against(&version), gates);
    let run = format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         {}
         run {{suspend: true, {}}} finalizer
         change b PreRules pin:4.17.0
         change a Selected directive:Hold",
        node("4.16.0"),
        ALL.replace(":{", ": {").replace(":[", ": [")
    );
    assert_eq!(against(&run), gates);
    let maintenance = format!(
        "{}
         {}
         maintenance a finalizer suspended
         turn a Selected hold
         maintenance b name:other finalizer
         turn b PreRules of:other",
        node("4.16.0"),
        binding("NodeMaintenance")
    );
    assert_eq!(against(&maintenance), gates);
}

/// They are no gates of the list: a lease that another has, a mark that cannot be read, what a person says of the node.
#[test]
fn what_is_looked_for_before_the_gates_of_a_turn_hides_none_of_them() {
    let around = |rest: &str| format!("node a worker v0 NotReady {rest}\n budget all max:1 paused");
    let plan = |rest: &str| {
        format!(
            "{}\n plan concurrency:1 cordon finalizer suspended applying:a\n begun a PreRules",
            around(rest)
        )
    };
    let version = |rest: &str| {
        format!(
            "{}\n version img2 finalizer paused\n host a img1\n group w image:img2\n groups w
             replacing a PreRules unleased",
            around(rest)
        )
    };
    let maintenance = |rest: &str| {
        format!(
            "{}\n maintenance a finalizer suspended\n turn a PreRules unleased",
            around(rest)
        )
    };
    for text in [plan("lease:somebody"), version("lease:somebody")] {
        assert_eq!(
            against(&text),
            ["NodeLeaseHeld", "Suspended", "Stopped", "NodeNotReady"],
            "{text}"
        );
    }
    assert_eq!(
        against(&maintenance("lease:somebody")),
        ["NodeLeaseHeld", "Suspended", "Stopped"]
    );
    let mark = |text: &str| {
        let mut cluster = Cluster::parse(text);
        let node = cluster.observed.nodes.get_mut("a").expect("one");
        node.annotations
            .insert(marks::SHIELDED_BY.to_owned(), "a later form".to_owned());
        let all = all_against(&cluster);
        all.iter().map(|why| why.reason.name()).collect::<Vec<_>>()
    };
    assert_eq!(
        mark(&plan("")),
        ["MarkUnreadable", "Suspended", "Stopped", "NodeNotReady"]
    );
    assert_eq!(mark(&maintenance("")), ["MarkUnreadable", "Suspended", "Stopped"]);
    let held = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn NotReady
         budget all max:1 paused
         run {suspend: true} finalizer
         change a PreRules pin:4.17.0 directive:Hold";
    assert_eq!(
        against(held),
        ["HeldByPerson", "Suspended", "Stopped", "NodeNotReady"]
    );
}

/// Who names the rule again would only then read that the owner is suspended.
#[test]
fn a_rule_that_was_withdrawn_hides_no_gate() {
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         budget all max:1 paused
         rule other Pre
         run {suspend: true} finalizer
         change a PreRules pin:4.17.0 verdict:gone/Pre/1/Failure";
    assert_eq!(against(run), ["RuleWithdrawn", "Suspended", "Stopped"]);
}

/// Who resumes the run would only then read of it.
#[test]
fn a_rule_before_the_run_that_failed_is_named_while_something_else_holds_the_run() {
    let run = |suspend: &str, turn: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {turn}
             rule start PreRun
             run {{{suspend}}} finalizer
             status 4.17.0 verdict:start/PreRun/1/Failure"
        )
    };
    assert_eq!(against(&run("", "")), ["RuleFailed"]);
    assert_eq!(against(&run("suspend: true", "")), ["Suspended", "RuleFailed"]);
    let begun = run("suspend: true", "turn");
    assert_eq!(
        against(&format!("{begun}\n change a PreRules pin:4.17.0")),
        ["Suspended", "RuleFailed"]
    );
    // One that was not asked yet says nothing.
    let unasked = run("suspend: true", "").replace(" verdict:start/PreRun/1/Failure", "");
    assert_eq!(against(&unasked), ["Suspended"]);
}
