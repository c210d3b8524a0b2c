//! The last look before anything is written: a decision that was right for one cluster is stopped in
//! another, by the number of the invariant it would break there.

use crate::{
    cluster::{Cluster, now},
    words::decision,
};
use numo_core::{Snapshot, action::Planned, invariant};

/// Decides for `good`, where something is written, and looks at that with the eyes of `bad`.
fn looked_at(good: &str, bad: &str) -> (Vec<u8>, Vec<Planned>) {
    let mut decided = decision(&Cluster::parse(good));
    assert!(!decided.actions.is_empty(), "nothing is written in:\n{good}");
    let cluster = Cluster::parse(bad);
    let owner = cluster.owner();
    let snapshot = Snapshot {
        now: now(),
        observed: &cluster.observed,
        owner: &owner,
        asked: None,
    };
    let breaches = invariant::lint(&snapshot, &mut decided);
    (
        breaches.iter().map(|breach| breach.invariant).collect(),
        decided.actions,
    )
}

/// The one write of `good` is stopped in `bad`.
#[track_caller]
pub fn stopped(good: &str, bad: &str, invariant: u8) {
    let (breaches, left) = looked_at(good, bad);
    assert_eq!(breaches, [invariant], "in:\n{bad}");
    assert!(left.is_empty(), "{left:#?}");
}

const RELEASE: &str = "cluster 4.17.0
     pool worker 4.17.0 ours
     node a worker 4.16.0 turn
     rule before Pre
     run finalizer {}
     change a PreRelease pin:4.17.0 verdict:before/Pre/1/Pass";

#[test]
fn no_node_is_let_go_before_its_rules_and_gates_passed() {
    let (breaches, left) = looked_at(RELEASE, RELEASE);
    assert!(breaches.is_empty() && left.len() == 1, "{breaches:?} {left:#?}");
    for (from, to, invariant) in [
        ("verdict:before/Pre/1/Pass", "", 1),
        ("verdict:before/Pre/1/Pass", "verdict:before/Pre/1/Failure", 1),
        (
            "verdict:before/Pre/1/Pass",
            "attempt:2 verdict:before/Pre/1/Pass@1",
            1,
        ),
        ("rule before Pre", "rule before Pre\n rule late PreRelease", 1),
        ("pin:4.17.0", "pin:4.17.0b", 1),
        ("4.16.0 turn", "4.16.0 turn cordoned", 1),
        ("4.16.0 turn", "4.16.0 turn NotReady", 1),
        ("4.16.0 turn", "4.16.0 turn state:Working", 1),
        ("change a PreRelease", "change a Done", 1),
        ("pool worker 4.17.0 ours", "pool worker 4.17.0 ours unpaused", 5),
        ("run finalizer", "run finalizer aborted 4.17.0", 5),
        ("run finalizer", "run finalizer deleting", 5),
        ("run finalizer", "run finalizer suspended", 13),
        ("rule before Pre", "rule before Pre\n budget all max:9 paused", 13),
    ] {
        assert!(RELEASE.contains(from), "{from}");
        stopped(RELEASE, &RELEASE.replace(from, to), invariant);
    }
    // The node is another one under the same name.
    let mut again = Cluster::parse(RELEASE);
    let node = again.observed.nodes.get_mut("a").expect("node a");
    "another".clone_into(&mut node.uid);
    let mut decided = decision(&Cluster::parse(RELEASE));
    let owner = Cluster::parse(RELEASE).owner();
    let snapshot = Snapshot {
        now: now(),
        observed: &again.observed,
        owner: &owner,
        asked: None,
    };
    assert_eq!(invariant::lint(&snapshot, &mut decided)[0].invariant, 3);
}

#[test]
fn no_node_is_let_go_on_a_pre_run_rule_that_no_longer_stands() {
    let cluster = |verdict: &str| {
        format!("{RELEASE}\n rule start PreRun\n status 4.17.0 verdict:start/PreRun/1/{verdict}")
    };
    for verdict in ["Pass^2", "Failure"] {
        stopped(&cluster("Pass"), &cluster(verdict), 1);
    }
}

#[test]
fn no_node_is_admitted_beyond_a_budget_or_while_stopped() {
    const ADMIT: &str = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.17.0
         run finalizer {}";
    for (from, to, invariant) in [
        ("run finalizer {}", "run finalizer {}\n budget all max:0", 2),
        (
            "b worker 4.17.0",
            "b worker 4.17.0 NotReady\n budget all max:1",
            2,
        ),
        (
            "run finalizer {}",
            "run finalizer {}\n budget all max:9 paused",
            13,
        ),
        ("run finalizer {}", "run finalizer suspended {}", 13),
        ("a worker 4.16.0", "a worker 4.16.0 cordoned", 4),
        ("node a worker 4.16.0", "node c worker 4.16.0", 3),
    ] {
        assert!(ADMIT.contains(from), "{from}");
        stopped(ADMIT, &ADMIT.replace(from, to), invariant);
    }
}

#[test]
fn what_is_not_ours_is_not_restored() {
    const OVER: &str = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         run finalizer {}";
    const DONE: &str = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         node b worker 4.16.0
         run finalizer {suspend: true}
         change a Done pin:4.17.0";
    stopped(OVER, &OVER.replace(" ours", ""), 4);
    stopped(OVER, &OVER.replace("a worker 4.17.0", "a worker 4.16.0"), 5);
    // Shield and lease of a node whose turn is over.
    stopped(DONE, &DONE.replace(" turn", ""), 4);
}

#[test]
fn a_rule_has_one_job_for_each_attempt() {
    let asked = RELEASE
        .replace("verdict:before/Pre/1/Pass", "")
        .replace("PreRelease", "PreRules");
    stopped(&asked, &format!("{asked}\n job before/Pre/1 of a running"), 3);
}

#[test]
fn what_follows_a_stopped_write_of_the_same_node_is_not_written_either() {
    const TWO: &str = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0
         run finalizer {maxUnavailable: 2}";
    let (breaches, left) = looked_at(TWO, &TWO.replace("a worker 4.16.0", "a worker 4.16.0 cordoned"));
    assert_eq!(breaches, [4]);
    let chains: Vec<&str> = left.iter().map(|planned| planned.chain.as_str()).collect();
    assert_eq!(chains, ["b"], "the other node goes on");
}

#[test]
fn a_maintenance_is_stopped_too() {
    const ADMIT: &str = "node a worker 4.16.0
         maintenance a finalizer";
    const AGAIN: &str = "node a worker 4.16.0
         maintenance a finalizer
         turn a Selected reason:Admitting attempt:2";
    const CLOSED: &str = "node a worker 4.16.0
         maintenance a finalizer phase:Running counted:9
         kept a cordoned
         turn a Cordoned
         pod web on a of:ReplicaSet/web";
    for begins in [ADMIT, AGAIN] {
        let budget = |more: &str| format!("{begins}\n {more}");
        stopped(begins, &budget("budget all max:9 paused"), 13);
        stopped(begins, &budget("budget all max:0"), 2);
        stopped(
            begins,
            &budget("node b worker 4.16.0 NotReady\n budget all max:1"),
            2,
        );
        let masters = begins.replace("a worker", "a master");
        let etcd =
            "node b master 4.16.0 NotReady\n node c master 4.16.0\n etcd a ready\n etcd b\n etcd c ready";
        stopped(begins, &format!("{masters}\n {etcd}"), 10);
    }
    stopped(CLOSED, &CLOSED.replace("kept a cordoned", "kept a uncordoned"), 1);
    stopped(CLOSED, &format!("{CLOSED}\n budget all max:9 paused"), 13);
    stopped(
        CLOSED,
        &CLOSED.replace("pod web on a of:ReplicaSet/web", "pods a"),
        12,
    );
}

#[test]
fn the_shield_of_a_machine_is_its_owners() {
    const PLAN: &str = "node a worker v0
         machine m of a shielded:uid-p
         plan concurrency:1 cordon finalizer spec {}";
    const KEPT: &str = "node a worker 4.16.0
         machine m of a shielded:uid-nm
         maintenance a finalizer deleting";
    for (good, uid) in [(PLAN, "uid-p"), (KEPT, "uid-nm")] {
        let (breaches, _) = looked_at(good, &good.replace(&format!("shielded:{uid}"), "shielded:other"));
        assert!(breaches.contains(&4), "{good}: {breaches:?}");
    }
}

#[test]
fn no_node_of_a_plan_is_cordoned_before_its_rules_passed() {
    let at = |turn: &str| {
        format!(
            "node a worker 4.16.0
             binding all spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"before\"}}],\"drainBy\":\"Numo\"}}
             plan concurrency:1 finalizer applying:a drain
             rule before Pre
             begun a PreRules {turn}
             keeps a
             pods a
             drain a free"
        )
    };
    let passed = at("verdict:before/Pre/1/Pass");
    let (breaches, left) = looked_at(&passed, &passed);
    assert!(breaches.is_empty() && left.len() == 1, "{breaches:?} {left:#?}");
    stopped(&passed, &at(""), 1);
    stopped(&passed, &at("verdict:before/Pre/1/Failure"), 1);
    // One that somebody took off is put back.
    let (breaches, _) = looked_at(&passed, &at("entered:Cordoned/Draining"));
    assert!(breaches.is_empty(), "{breaches:?}");
}
