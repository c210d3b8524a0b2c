//! All that stands against a node's turn, and in what order: the same for every kind of owner.

use crate::cluster::{Cluster, now};
use numo_core::{Snapshot, decide};

/// The reasons against node `a`, worst first, when a person asks about it.
fn against(text: &str) -> Vec<String> {
    let cluster = Cluster::parse(text);
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
    let all = std::iter::once(worst).chain(&asked.report.also);
    all.map(|why| why.reason.name().to_owned()).collect()
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
