//! NodeVersions that are changed, deleted, or given back in the middle: who goes first then, who waits for whom, and who has the cluster
//! autoscaler run again.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::conditions::Actor;

/// A node of the control plane and a worker, and the groups of both.
const BOTH: &str = "node cp1 master v0
     node a worker v0
     version img2 finalizer
     host cp1 img1 group:cp
     host a img1
     group w image:img2
     group cp image:img2 role:ControlPlane
     groups w,cp";

fn both(rest: &str) -> String {
    format!("{BOTH}\n{rest}")
}

/// Two workers, and a NodeVersion that has room for both of them.
fn two(rest: &str) -> String {
    format!(
        "node a worker v0\n node b worker v0
         version img2 finalizer spec {{\"mutex\":{{\"maxUnavailable\":2}}}}
         host a img1\n host b img1\n group w image:img2\n groups w\n {rest}"
    )
}

/// Who is told to end the wait of a node.
fn ends(text: &str, node: &str) -> Actor {
    decision(&Cluster::parse(text)).report.nodes[node].why.who()
}

/// Such a turn began with a machine that was there, made for another image; or the node of the control plane came with an old one.
#[test]
fn no_machine_is_made_for_a_worker_whose_turn_began_before_the_control_plane_was_behind() {
    check(
        &both("replacing a Admitted"),
        "node a PreRules ControlPlaneFirst ~ Node cp1
         > journal a closed",
    );
    // It was written down that one is to be made, and it is not made.
    check(
        &both("replacing a PreRules\n pending request for:a"),
        "node a PreRules ControlPlaneFirst
         > journal a closed",
    );
    // The node of the control plane waits for the place that the worker has.
    let mut cluster = Cluster::parse(&both("replacing a PreRules"));
    for change in cluster.observed.changes.values_mut() {
        change.status.closed_since = Some(at(-61).to_string());
    }
    check_cluster(&cluster, "node a Selected ControlPlaneFirst");
    // A machine that is there is taken, and a node that is cordoned gets its machine.
    check(
        &both("replacing a Admitted\n pending old node:new machine:m-new Creating"),
        "node a PreRules Joining",
    );
    check(
        &both("replacing a Cordoned cordoned\n pods a"),
        "node a PreRules Joining",
    );
    // One that is to go is there, and its API server with it.
    let obsolete = |image: &str| {
        let text = both("replacing a Admitted").replace("version img2", "version img2 surge:2");
        text.replace("host cp1 img1", &format!("host cp1 {image} obsolete"))
    };
    check(&obsolete("img1"), "node a PreRules ControlPlaneFirst ~ Node cp1");
    check(&obsolete("img2"), "node a PreRules Joining");
    let done = both("replacing a Admitted").replace("host cp1 img1", "host cp1 img2");
    check(&done, "node a PreRules Joining\n > intend a machine of G-w");
}

/// The machine that was made for another image is no reason to go before the control plane.
#[test]
fn a_machine_that_was_made_for_what_nobody_asks_for_any_more_is_taken_by_nobody() {
    let made = |image: &str| {
        let turn = format!("replacing b Failed image:{image} reason:Superseded unleased");
        both(&format!(
            "node b worker v0\n host b img1\n {turn}\n pending old for:b node:new machine:m-new Creating"
        ))
        .replace("version img2", "version img2 surge:2")
    };
    check(
        &made("img1"),
        "node a Selected ControlPlaneFirst
         node b Selected ControlPlaneFirst
         > rewrite old Leave m-new
         > admit cp1",
    );
    check(&made("img2"), "> admit a\n > admit cp1");
}

/// A NodeVersion that is deleted before its first turn would leave the cluster without its autoscaler for good.
#[test]
fn the_autoscaler_is_stopped_under_a_finalizer_and_the_finalizer_stays_until_it_runs() {
    let begins = "node cp1 master v0\n node cp2 master v0\n node cp3 master v0
         version img2
         host cp1 img1 group:cp\n host cp2 img2 group:cp\n host cp3 img2 group:cp
         group cp image:img2 role:ControlPlane\n groups cp";
    check(&format!("{begins}\n strategy on"), "> finalizer on");
    check(
        &format!("{begins}\n strategy on").replace("version img2", "version img2 finalizer"),
        "> admit cp1
         > autoscaler off
         > autoscaler 0 of 1 with ./cluster-autoscaler",
    );
    // Whoever waits for a person leaves it running, and needs no finalizer for that.
    let waits = begins.replace("node cp2 master v0", "node cp2 master v0 NotReady");
    check(
        &format!("{waits}\n strategy on"),
        "node cp1 Selected EtcdQuorum
         > nothing",
    );
    let done = "node a worker v0\n version img2 finalizer\n host a img2\n group w image:img2\n groups w";
    check(
        &format!("{done}\n strategy"),
        "> autoscaler on
         > autoscaler 1 of 0 with ./cluster-autoscaler",
    );
    check(
        &format!("{done}\n strategy on"),
        "result Succeeded\n > finalizer 0 off",
    );
}

/// It counts as a machine until it is gone, and it is drained in a turn of its own, for which there is no place.
#[test]
fn a_turn_that_waits_until_a_node_is_gone_is_restored_to_that_node() {
    let text = "node a worker v0\n node b worker v0
         version img2 finalizer spec {\"mutex\":{\"maxUnavailable\":1}}
         host a img1\n host b img1 obsolete\n group w image:img2\n groups w\n replacing a PreRules";
    check(
        text,
        "node a PreRules WaitingForTurn
         node b Selected WaitingForTurn
         > journal a closed",
    );
    let mut cluster = Cluster::parse(text);
    for change in cluster.observed.changes.values_mut() {
        change.status.closed_since = Some(at(-61).to_string());
    }
    check_cluster(&cluster, "node a Selected WaitingForTurn");
    let goes = text.replace("replacing a PreRules", "replacing a Selected unleased");
    check(&goes, "node a Selected WaitingForTurn\n > admit b");
    // It cannot begin: whoever waits for it is told for whom.
    let held = goes.replace("node b worker v0", "node b worker v0 NotReady");
    check(
        &held,
        "node a Selected WaitingForTurn ~ Node b goes first\n > nothing",
    );
    assert_eq!(ends(&held, "a"), Actor::OtherNode);
}

/// Its PendingNode counts as a machine: whoever it was meant for would wait for itself.
#[test]
fn a_node_whose_turn_was_restored_takes_up_the_machine_that_was_to_be_made() {
    let back = two("replacing a Selected unleased\n pending request for:a late:-300");
    check(
        &back,
        "node b Selected WaitingForTurn
         > journal a Admitted Admitting attempt 2",
    );
    // It is left out, and no turn ends what the others wait for: the machine is given up in time.
    let left = two("replacing a PreRules unleased\n pending request for:a late:-300").replace(
        "replacing a PreRules",
        "replacing a Skipped reason:SkippedByPerson",
    );
    check(&left, "node b Selected WaitingForTurn");
    assert_eq!(ends(&left, "b"), Actor::ClusterItself);
    let until = decision(&Cluster::parse(&left)).report.nodes["b"].why.until;
    assert_eq!(until, Some(at(300)));
}

/// A turn that is held has the machine that may be made, until a person says how it goes on.
#[test]
fn who_waits_for_the_machine_of_a_turn_that_is_held_waits_for_a_person() {
    let held = two("replacing a Held reason:RuleFailed unleased");
    let held = held.replace("\"maxUnavailable\":2", "\"maxUnavailable\":2,\"failureBudget\":2");
    check(&held, "node b Selected WaitingForTurn ~ spec.surge allows 1");
    assert_eq!(ends(&held, "b"), Actor::ClusterAdmin);
    let turn = two("replacing a PreRules\n pending request for:a");
    check(&turn, "node b Selected WaitingForTurn");
    assert_eq!(ends(&turn, "b"), Actor::OtherNode);
}
