//! A stop that comes between two writes of a round is seen, of whatever kind it is; what is no stop, and what strangers
//! write, has no round decided anew.

use crate::cluster::{Cluster, run_key};
use numo_core::{Owner, observed::Observed, stop};
use std::collections::BTreeSet;

fn standing(observed: &Observed, owner: &Owner) -> BTreeSet<String> {
    stop::standing(observed, owner)
}

/// Whether the round of `run` is decided anew once the cluster is as `after`.
fn stops(before: &str, after: &str) -> bool {
    let common = "cluster 4.17.0
        pool worker 4.17.0 ours
        node a worker 4.16.0 turn
        rule disk Pre";
    let parse = |rest: &str| Cluster::parse(&format!("{common}\n{rest}"));
    let (before, after) = (parse(before), parse(after));
    let owner = after.owner();
    let known = standing(&before.observed, &owner);
    !standing(&after.observed, &owner).is_subset(&known)
}

const RUN: &str = "run finalizer {}\nchange a PreRelease pin:4.17.0";

#[test]
fn whatever_a_person_stops_with_is_seen_between_two_writes() {
    for (what, after) in [
        ("a budget", format!("{RUN}\nbudget all max:1 paused")),
        ("the run", RUN.replace("{}", "{suspend: true}")),
        ("the node", format!("{RUN} directive:Hold")),
        (
            "another node",
            format!("{RUN}\nnode b worker 4.16.0\nchange b PreRules pin:4.17.0 directive:Hold"),
        ),
        ("a rival", format!("{RUN}\nforeign")),
    ] {
        assert!(stops(RUN, &after), "{what}");
        assert!(!stops(&after, &after), "{what}: what was there before is no news");
        assert!(!stops(&after, RUN), "{what}: the end of a stop is none");
    }
    let held = format!("{RUN} directive:Hold");
    let aborted = format!("{RUN} directive:Abort generation:3");
    assert!(stops(&held, &aborted), "another word of the same node");
}

#[test]
fn an_edit_of_a_rule_that_is_referred_to_has_the_round_decided_anew() {
    for owner in [
        RUN,
        "maintenance a finalizer rule:disk",
        "plan concurrency:1 cordon spec {\"mutex\":{\"rules\":[{\"namespace\":\"numo\",\"name\":\"disk\"}]}}",
    ] {
        let before = Cluster::parse(&format!(
            "cluster 4.17.0\nnode a worker 4.16.0\nrule disk Pre\n{owner}"
        ));
        let mut after = before.observed.clone();
        let rule = after.rules.values_mut().next().expect("a rule");
        rule.generation += 1;
        let of = before.owner();
        let known = standing(&before.observed, &of);
        assert!(!standing(&after, &of).is_subset(&known), "{owner}: {known:?}");
        after.rules.clear();
        assert!(!standing(&after, &of).is_subset(&known), "{owner}: gone");
    }
    // Taken out of the spec since, and in force for a node that has its turn.
    let pinned = Cluster::parse(&format!(
        "cluster 4.17.0\nnode a worker 4.16.0\nrule disk Pre\n{RUN}"
    ));
    let mut pinned = pinned;
    let of = pinned.owner();
    for run in pinned.observed.runs.values_mut() {
        run.spec.mutex_rules = None;
    }
    for change in pinned.observed.changes.values_mut() {
        if let Some(pin) = &mut change.status.pin {
            pin.terms = Some(numo_api::Terms {
                strategy: numo_api::Strategy::DesiredConfig,
                rules: vec!["numo/disk".to_owned()],
                soak_seconds: 0,
                change_timeout_seconds: 0,
                drain_probe: true,
                await_workloads: false,
            });
        }
    }
    let known = standing(&pinned.observed, &of);
    let rule = pinned.observed.rules.values_mut().next().expect("a rule");
    rule.generation += 1;
    assert!(!standing(&pinned.observed, &of).is_subset(&known), "{known:?}");
    let mut strange = Cluster::parse(&format!("cluster 4.17.0\nnode a worker 4.16.0\n{RUN}"));
    let of = strange.owner();
    let known = standing(&strange.observed, &of);
    let other = Cluster::parse("cluster 4.17.0\nrule other Pre");
    strange.observed.rules = other.observed.rules;
    assert!(
        standing(&strange.observed, &of).is_subset(&known),
        "nobody refers to it"
    );
}

#[test]
fn a_run_that_is_gone_is_a_stop() {
    let cluster = Cluster::parse(&format!("cluster 4.17.0\n{RUN}"));
    let owner = cluster.owner();
    let mut gone = cluster.observed.clone();
    gone.runs.remove(&run_key());
    assert!(!standing(&gone, &owner).is_subset(&standing(&cluster.observed, &owner)));
}

#[test]
fn what_a_stranger_writes_has_no_round_decided_anew() {
    let held = format!("{RUN} directive:Hold");
    let mut cluster = Cluster::parse(&format!("cluster 4.17.0\n{held}"));
    let owner = cluster.owner();
    let mut changes = std::mem::take(&mut cluster.observed.changes);
    for change in changes.values_mut() {
        change.key.namespace = "team".to_owned();
    }
    cluster.observed.changes = changes;
    assert!(standing(&cluster.observed, &owner).is_empty());
    let other = format!("{RUN} directive:Hold");
    let mut cluster = Cluster::parse(&format!("cluster 4.17.0\n{other}"));
    for change in cluster.observed.changes.values_mut() {
        change.spec.owner_ref.uid = "another".to_owned();
    }
    assert!(standing(&cluster.observed, &owner).is_empty(), "of another owner");
}
