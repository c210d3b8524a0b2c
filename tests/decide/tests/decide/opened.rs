//! A node that somebody opens in mid-turn gets pods: whoever closes it again, it is let go only once those are gone too. Of every owner that
//! numo drains for.

use crate::{
    chaos::carry,
    cluster::{Cluster, at},
    words::decision_at,
};
use numo_api::{Entry, Reason, Step};
use numo_core::{
    Decision,
    action::Action,
    mark::{self, CordonedBy},
    observed::{ChangeView, NodeView},
    turn::journal,
};

/// A pod that came onto the node while that was open, and which its budget keeps there.
const CAME: &str = "pod web on a of:ReplicaSet/web app:web created:-1\n pdb web allows:0 healthy:1 wants:1";

/// Node a in that step of its turn, which was closed by numo a minute ago, for each owner.
fn turns(step: &str, more: &str) -> Vec<Cluster> {
    let entered = if step == "Drained" { "entered:Cordoned" } else { "" };
    let texts = [
        format!(
            "node a worker v0
             node b worker v0
             plan concurrency:1 finalizer applying:a drain
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
             begun a {step} {entered}
             keeps a cordoned done
             {more}"
        ),
        format!(
            "node a worker v0
             node x worker v0
             version img2 finalizer
             host a img1 heir:x
             host x img2 donor:a
             group w image:img2
             groups w
             replacing a {step} cordoned
             {more}"
        ),
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             maintenance a finalizer phase:Running counted:9
             kept a cordoned
             turn a {step}
             {more}"
        ),
    ];
    texts.iter().map(|text| Cluster::parse(text)).collect()
}

pub fn node(cluster: &mut Cluster) -> &mut NodeView {
    cluster.observed.nodes.get_mut("a").expect("node a")
}

pub fn change(cluster: &Cluster) -> &ChangeView {
    cluster.observed.changes.values().next().expect("its journal")
}

/// One look at it, this many seconds after now, with what comes of it. Every write must be taken: no two are of one journal as it was read.
pub fn look(cluster: &mut Cluster, second: i64) -> Decision {
    let found = decision_at(cluster, second);
    for (index, planned) in found.actions.iter().enumerate() {
        let number = format!("{second}-{index}");
        let taken = carry::carry_out(&mut cluster.observed, &planned.action, at(second), &number);
        assert_eq!(taken, Ok(()), "{}: {:?}", cluster.owner(), planned.action);
    }
    found
}

/// Somebody opens the node, though numo has corrected that so often.
fn open(cluster: &mut Cluster, corrections: u32) {
    let node = node(cluster);
    let mark = mark::cordoned_by(node).expect("its mark");
    let mark = CordonedBy { corrections, ..mark };
    node.annotations
        .insert(numo_api::marks::CORDONED_BY.to_owned(), mark::render(&mark));
    node.unschedulable = false;
}

/// The pod that came is waited for, and afterwards the node goes on.
fn waits_for_what_came(cluster: &mut Cluster, second: i64) {
    let owner = cluster.owner();
    let mut last = None;
    for second in second..second + 6 {
        let found = look(cluster, second);
        let is_over = journal::is_drained(change(cluster)) && node(cluster).unschedulable;
        assert!(!is_over, "{owner}: it is drained, and a pod is on it");
        let words = format!("{found:#?}");
        let is_deed = |action: &Action| {
            matches!(
                action,
                Action::CreatePlanJob(_) | Action::Fleet(_) | Action::DeleteMaintenance { .. }
            )
        };
        assert!(
            !found.actions.iter().any(|one| is_deed(&one.action)),
            "{owner}: {words}"
        );
        last = Some(found);
    }
    let last = last.expect("a look");
    assert_eq!(
        last.report.nodes["a"].why.reason,
        Reason::EvictionBlocked,
        "{owner}"
    );
    cluster
        .observed
        .pods
        .values_mut()
        .for_each(std::collections::BTreeMap::clear);
    for second in second + 6..second + 10 {
        look(cluster, second);
        if journal::is_drained(change(cluster)) {
            return;
        }
    }
    panic!("{owner}: it is never drained: {:#?}", change(cluster).status);
}

#[test]
fn what_came_onto_a_node_that_was_opened_while_numo_was_away_is_waited_for() {
    for step in ["Cordoned", "Drained"] {
        for mut cluster in turns(step, CAME) {
            open(&mut cluster, 0);
            waits_for_what_came(&mut cluster, 0);
        }
    }
}

#[test]
fn what_came_onto_a_node_that_a_person_has_to_close_is_waited_for() {
    for step in ["Cordoned", "Drained"] {
        for mut cluster in turns(step, CAME) {
            open(&mut cluster, 3);
            let mut written = 0;
            for second in 0..9 {
                let found = look(&mut cluster, second);
                written += found.actions.len();
                let why = &found.report.nodes["a"].why;
                assert_eq!(why.reason, Reason::ForeignWriter, "{}", cluster.owner());
            }
            assert!(written <= 1, "{}: {written} writes", cluster.owner());
            node(&mut cluster).unschedulable = true;
            waits_for_what_came(&mut cluster, 9);
        }
    }
}

#[test]
fn a_node_that_is_opened_while_its_turn_is_closed_is_not_drained_and_written_once() {
    let stop = "budget all max:9 paused";
    for step in ["Cordoned", "Drained"] {
        for mut cluster in turns(step, &format!("{stop}\n pods a")) {
            let owner = cluster.owner();
            let entered = |cluster: &Cluster| {
                let entries = change(cluster).status.entries.iter();
                entries
                    .filter(|entry: &&Entry| entry.step == Step::Drained)
                    .count()
            };
            let before = entered(&cluster);
            open(&mut cluster, 0);
            let written: usize = (0..9)
                .map(|second| look(&mut cluster, second).actions.len())
                .sum();
            assert!(written <= 1, "{owner}: {written} writes");
            assert_eq!(entered(&cluster), before, "{owner}: it is drained, and open");
            // A pod came; somebody has closed it again, and the stop is over.
            let other = turns(step, CAME);
            let with_pod = other.into_iter().find(|one| one.owner() == owner).expect("it");
            cluster.observed.pods = with_pod.observed.pods;
            cluster.observed.disruption_budgets = with_pod.observed.disruption_budgets;
            cluster.observed.budgets.clear();
            node(&mut cluster).unschedulable = true;
            waits_for_what_came(&mut cluster, 9);
        }
    }
}
