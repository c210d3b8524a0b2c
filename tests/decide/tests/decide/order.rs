//! Who comes first, and that it depends on nothing but the cluster.

use crate::{
    cluster::{Cluster, now, run_key},
    words::{check, decision, words},
};
use numo_core::{Snapshot, decide, invariant};

#[test]
fn zones_come_one_after_the_other_and_the_oldest_first() {
    let cluster = |order: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 age:9
             node b worker 4.16.0 age:5 zone:z2
             node c worker 4.16.0 age:1 zone:z1
             node d worker 4.16.0 age:7 zone:z1
             run {order}"
        )
    };
    check(&cluster("{}"), "> admit d");
    check(&cluster("{order: Zone}"), "> admit d");
    check(&cluster("{order: Oldest}"), "> admit a");
    check(&cluster("{order: Newest}"), "> admit c");
    check(&cluster("{order: Name}"), "> admit a");
    check(
        &cluster("{order: Zone, maxUnavailable: 4}"),
        "> admit d\n > admit c\n > admit b\n > admit a",
    );
}

#[test]
fn pools_come_in_the_order_of_the_targets() {
    let cluster = |target: &str| {
        format!(
            "cluster 4.17.0
             pool infra 4.17.0 ours
             pool worker 4.17.0 ours
             node a infra 4.16.0
             node b worker 4.16.0
             {target}"
        )
    };
    check(&cluster("target t worker infra"), "> admit b");
    check(&cluster("target t infra worker"), "> admit a");
}

/// A cluster with a little of everything.
const BUSY: &str = "
    cluster 4.17.0
    pool infra 4.17.0 ours
    pool worker 4.17.0 ours
    node a worker 4.16.0 turn
    node b worker 4.17.0 turn
    node c worker 4.16.0 zone:z1
    node d infra 4.16.0 NotReady
    node e worker 4.16.0 cordoned
    node f worker 4.17.0
    rule backup Pre,Post retries:1
    rule check PreRelease
    run finalizer {maxUnavailable: 3}
    change a PreRules pin:4.17.0
    change b Released pin:4.17.0 entries:PreRules,Released
    change f Done
    job backup/Pre/1 of a Failed read
    job backup/Post/1 of b running
    budget all max:5
    budget zones max:1 group:zone";

#[test]
fn the_same_input_gives_the_same_decision() {
    let cluster = Cluster::parse(BUSY);
    assert_eq!(
        format!("{:?}", decision(&cluster)),
        format!("{:?}", decision(&cluster))
    );
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    let lines: Vec<&str> = BUSY.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = Cluster::parse(BUSY);
    let wanted = words(&first, &decision(&first));
    let keeps_order = |line: &&str| !line.trim().starts_with("node") && !line.trim().starts_with("pool");
    for turn in 0..lines.len() {
        // Objects that others refer to stay in front, or the text could not be read.
        let mut turned: Vec<&str> = lines.iter().copied().filter(|line| !keeps_order(line)).collect();
        let by = turn % turned.len();
        turned.rotate_left(by);
        let mut rest: Vec<&str> = lines.iter().copied().filter(keeps_order).collect();
        rest.sort_by_key(|line| {
            let kind = line.split_whitespace().next().unwrap_or_default();
            (!matches!(kind, "rule" | "cluster"), kind != "run")
        });
        turned.extend(rest);
        let cluster = Cluster::parse(&turned.join("\n"));
        assert_eq!(words(&cluster, &decision(&cluster)), wanted);
    }
}

#[test]
fn a_look_at_the_decision_does_not_change_it() {
    let cluster = Cluster::parse(BUSY);
    let owner = numo_core::Owner::run(run_key());
    let snapshot = Snapshot {
        now: now(),
        observed: &cluster.observed,
        owner: &owner,
        asked: None,
    };
    let plain = decide(&snapshot, &cluster.answers);
    let mut linted = decide(&snapshot, &cluster.answers);
    assert_eq!(invariant::lint(&snapshot, &mut linted), Vec::new());
    assert_eq!(plain.actions, linted.actions);
}

#[test]
fn every_node_is_in_the_report() {
    let cluster = Cluster::parse(BUSY);
    let report = decision(&cluster).report;
    assert_eq!(
        report.nodes.keys().collect::<Vec<_>>(),
        cluster.observed.nodes.keys().collect::<Vec<_>>()
    );
}

#[test]
fn a_node_in_two_pools_is_in_every_report() {
    for run in [
        "run finalizer {}",
        "run finalizer deleting {}",
        "run aborted 4.17.0 {}",
    ] {
        check(
            &format!(
                "cluster 4.17.0
                 pool infra 4.17.0 ours
                 pool gpu 4.17.0 ours
                 pool worker 4.17.0 ours
                 node a infra 4.16.0 label:node-role.kubernetes.io/gpu
                 node b worker 4.16.0
                 {run}"
            ),
            "node a Selected NodeInTwoPools",
        );
    }
}
