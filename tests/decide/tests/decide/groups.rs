//! Groups of nodes that are away at once: `maxGroups` of a MutexBudget.

use crate::{
    cluster::{Cluster, now},
    words::check,
};
use numo_core::ledger::{Ledger, Use};

/// Two zones that hold the copies of a storage, of which never two are away: `of_a` and `of_c` are the states of the first node of
/// each, and `more` are further lines.
fn storage(of_a: &str, of_c: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool infra 4.17.0
         node a worker 4.16.0 zone:z1 {of_a}
         node b worker 4.16.0 zone:z1
         node c infra 4.16.0 zone:z2 {of_c}
         node d worker 4.16.0 zone:z2
         target t worker
         run finalizer {{maxUnavailable: 9}}
         {more}"
    )
}

const ONE: &str = "budget ceph max:2 group:zone groups:1";

#[test]
fn never_nodes_of_two_groups_at_once() {
    check(
        &storage("", "", ONE),
        "node d Selected BudgetExhausted ~ MutexBudget ceph allows nodes of 1 value of topology.kubernetes.io/zone to be unavailable (spec.maxGroups), and nodes of 1 are: z1: a (in flight), b (in flight)
         ends d OtherNode
         > admit a
         > admit b",
    );
    check(
        &storage("", "", "budget ceph max:2 group:zone groups:2"),
        "> admit a\n > admit b\n > admit d",
    );
    check(
        &storage("", "", "budget ceph max:2 group:zone"),
        "> admit a\n > admit b\n > admit d",
    );
}

/// The machine of a node is replaced: its zone counts, and that of another owner's node.
#[test]
fn nodes_that_are_replaced_are_of_their_groups() {
    let of = |more: &str| {
        format!(
            "node a worker v0 zone:z1
             node b worker v0 zone:z1
             node c worker v0 zone:z2
             version img2 finalizer spec {{\"surge\":9}}
             host a img1
             host b img1
             host c img1
             group w image:img2
             groups w
             {ONE}
             {more}"
        )
    };
    check(
        &of(""),
        "node c Selected BudgetExhausted ~ and nodes of 1 are: z1: a (in flight), b (in flight)
         > admit a
         > admit b",
    );
    check(
        &of("change c PreRules owner:other-uid"),
        "node a Selected BudgetExhausted ~ and nodes of 1 are: z2: c",
    );
}

#[test]
fn groups_with_nodes_of_others_count() {
    // Another owner has a node of zone z2.
    let other = format!("change c PreRules owner:other-uid\n {ONE}");
    check(
        &storage("", "", &other),
        "node a Selected BudgetExhausted ~ and nodes of 1 are: z2: c (with
         ends a OtherNode
         > admit d",
    );
    for (state, why) in [("NotReady", "not Ready"), ("cordoned", "cordoned")] {
        check(
            &storage("", state, ONE),
            &format!(
                "node a Selected BudgetExhausted ~ z2: c ({why})
                 ends a ClusterAdmin
                 > admit d"
            ),
        );
    }
}

#[test]
fn with_more_groups_away_than_may_be_no_node_makes_it_worse() {
    check(
        &storage("NotReady", "cordoned", "budget ceph max:9 group:zone groups:1"),
        "node b Selected BudgetExhausted ~ and nodes of 2 are: z1: a (not Ready); z2: c (cordoned)
         ends b ClusterAdmin
         node d Selected BudgetExhausted
         > nothing",
    );
    // A node that nobody has cordoned by a budget's leave is none of it.
    check(
        &storage(
            "NotReady",
            "cordoned",
            "budget ceph max:9 group:zone groups:1 nobody",
        ),
        "> admit b\n > admit d",
    );
}

#[test]
fn a_node_without_the_label_does_not_begin() {
    let cluster = |of_d: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 zone:z1
             node d worker 4.16.0 {of_d}
             run finalizer {{maxUnavailable: 9}}
             budget ceph max:9 group:zone groups:2"
        )
    };
    check(
        &cluster(""),
        "node d Selected BudgetExhausted ~ Node d has no label topology.kubernetes.io/zone, whose values MutexBudget ceph counts (spec.maxGroups); label it
         ends d ClusterAdmin
         > admit a",
    );
    // Nobody knows of which zone one is that is away: it is a group of its own.
    let one = cluster("NotReady").replace("groups:2", "groups:1");
    check(
        &one,
        "node a Selected BudgetExhausted ~ no value: d (not Ready)\n > nothing",
    );
}

#[test]
fn max_groups_that_cannot_be_understood_lets_nobody_begin() {
    check(
        &storage("", "", "budget ceph max:2 groups:1"),
        "node a Selected BudgetExhausted ~ MutexBudget ceph spec.maxGroups: found 1 without groupBy, wanted groupBy too
         ends a ClusterAdmin
         > nothing",
    );
    check(
        &storage("", "", "budget ceph max:2 group:zone groups:0"),
        "node a Selected BudgetExhausted ~ spec.maxGroups: found 0, wanted 1 or more
         > nothing",
    );
}

/// What is said of each group of the budget: whether it is full, and makes room by itself.
fn told(cluster: &str) -> Vec<(String, bool, bool)> {
    let cluster = Cluster::parse(cluster);
    let ledger = Ledger::of(&cluster.observed, now());
    let told = |used: &Use<'_>| (used.group.to_owned(), used.is_full(), used.makes_room);
    ledger.uses().iter().map(told).collect()
}

#[test]
fn a_budget_tells_which_groups_are_shut_and_whether_they_open_by_themselves() {
    let of = |c: &str, change: &str| {
        told(&storage(
            "",
            c,
            &format!("budget ceph max:9 group:zone groups:1\n {change}"),
        ))
    };
    let one = |group: &str, full: bool, room: bool| (group.to_owned(), full, room);
    assert_eq!(
        of("NotReady", ""),
        [one("z1", true, false), one("z2", false, false)]
    );
    let turn = "change c PreRules owner:other-uid";
    assert_eq!(of("turn", turn), [one("z1", true, true), one("z2", false, true)]);
    // With two nodes of a zone away, one of them dead, the zone does not come back by itself.
    let cluster = storage(
        "",
        "turn",
        &format!("budget ceph max:9 group:zone groups:1\n {turn}"),
    );
    let dead = cluster.replace(
        "node d worker 4.16.0 zone:z2",
        "node d worker 4.16.0 zone:z2 NotReady",
    );
    assert_eq!(told(&dead), [one("z1", true, false), one("z2", false, true)]);
}
