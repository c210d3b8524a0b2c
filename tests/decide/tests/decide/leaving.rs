//! Leaving a run never lets a node go, and puts back what was there.

use crate::{
    cluster::{Cluster, RUN_UID, run_key},
    words::{check, check_cluster, decision, words},
};
use numo_api::marks;
use numo_core::{
    mark::{self, Shielded},
    observed::Key,
    report::{Cause, GivenUp},
};

#[test]
fn when_every_node_is_done_the_pools_are_restored_and_then_the_finalizer() {
    let cluster = |pool: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 {pool}
             node a worker 4.17.0
             run finalizer {{}}
             status 4.17.0
             change a Done"
        )
    };
    check(
        &cluster("ours"),
        "phase Leaving\n result Succeeded\n > unpause worker",
    );
    check(
        &cluster(""),
        "phase Leaving\n result Succeeded\n > finalizer 1 off",
    );
    check(
        &cluster("").replace("run finalizer", "run"),
        "phase Idle\n result Succeeded\n > nothing",
    );
}

#[test]
fn a_pool_with_outdated_nodes_stays_paused_and_says_how_many() {
    let cluster = |pool: &str, run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours {pool}
             node a worker 4.17.0
             node b worker 4.16.0
             node c worker 4.16.0
             run finalizer {run}
             change a Done
             change b Skipped reason:SkippedByPerson
             change c Skipped reason:SkippedByPerson"
        )
    };
    check(
        &cluster("", "{}"),
        "result SucceededWithSkips\n > hold worker with 2 outdated",
    );
    check(
        &cluster("outdated:2", "{}"),
        "phase Held\n result SucceededWithSkips\n > nothing",
    );
    check(
        &cluster("outdated:2", "deleting {}"),
        "phase Leaving\n > finalizer 1 off",
    );
    check(&cluster("", "{onExit: Unpause}"), "> unpause worker");
}

/// Whoever aborts or deletes a run while the control plane updates does not hand the fleet to the machine-config operator:
/// every node is at its pool's configuration then, and rolls as soon as the next one is rendered.
#[test]
fn a_run_that_is_left_before_its_version_is_rendered_keeps_its_pools_paused() {
    let cluster = |pool: &str, run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.16.0 ours {pool}
             node a worker 4.16.0
             node b worker 4.16.0
             run finalizer {run}"
        )
    };
    for run in ["aborted 4.17.0 {}", "deleting {}"] {
        check(
            &cluster("", run),
            "result Aborted\n > hold worker with 2 outdated",
        );
    }
    check(
        &cluster("outdated:2", "aborted 4.17.0 {}"),
        "phase Held\n > nothing",
    );
    check(
        &cluster("outdated:2", "deleting {}"),
        "phase Leaving\n > finalizer 1 off",
    );
    // Where configurations have no version the label of a node counts.
    let mut unversioned = Cluster::parse(&cluster("", "deleting {}"));
    for config in unversioned.observed.configs.values_mut() {
        config.version = None;
    }
    for node in unversioned.observed.nodes.values_mut() {
        let label = (marks::openshift::RELEASE_VERSION.to_owned(), "4.16.0".to_owned());
        node.labels.extend([label]);
    }
    check_cluster(&unversioned, "> hold worker with 2 outdated");
    check(
        &cluster("", "aborted 4.17.0 {onExit: Unpause}"),
        "> unpause worker",
    );
}

#[test]
fn a_pool_that_was_left_is_not_armed_again_for_nodes_that_were_left_out() {
    for run in ["{onExit: Unpause}", "{}"] {
        check(
            &format!(
                "cluster 4.17.0
                 pool worker 4.17.0
                 node a worker 4.17.0
                 node b worker 4.16.0
                 run {run}
                 status 4.17.0 finished
                 change a Done
                 change b Skipped reason:SkippedByPolicy"
            ),
            "phase Idle
             node b Skipped SkippedByPolicy
             > nothing",
        );
    }
}

#[test]
fn a_held_pool_that_a_person_unpaused_is_no_longer_ours() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours outdated:1 unpaused by:alice
             node a worker 4.17.0
             node b worker 4.16.0
             run finalizer {run}
             status 4.17.0 finished
             change a Done
             change b Skipped reason:SkippedByPolicy"
        )
    };
    check(&cluster("{}"), "> unpause worker");
    check(&cluster("deleting {}"), "> unpause worker");
    check(&cluster("aborted 4.17.0 {}"), "> unpause worker");
}

#[test]
fn a_run_can_be_deleted_at_every_step() {
    let rules = "rule before Pre\n rule after Post";
    let cluster = |node: &str, change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker {node}
             {rules}
             run finalizer deleting {{}}
             {change}"
        )
    };
    // Armed, nobody admitted.
    check(
        &cluster("4.16.0", ""),
        "phase Leaving
         hold Deleting
         result Aborted
         node a Selected Deleting
         > hold worker with 1 outdated",
    );
    // Admitted, before lease and shield; a lease someone else holds is no reason to stay.
    for node in ["4.16.0", "4.16.0 lease:node-maintenance"] {
        check(&cluster(node, "change a -"), "> journal a Failed RunGivenUp");
    }
    // Not let go.
    for change in [
        "change a PreRules pin:4.17.0",
        "change a PreRelease pin:4.17.0 verdict:before/Pre/1/Pass",
        "change a Held pin:4.17.0 reason:RuleFailed verdict:before/Pre/1/Failure",
        "change a PreRelease pin:4.17.0 directive:Hold",
    ] {
        check(&cluster("4.16.0 turn", change), "> journal a Failed RunGivenUp");
    }
    // Let go: it is followed until it is back, and its Post rules run.
    check(
        &cluster(
            "4.16.0 desired:4.17.0 turn",
            "change a PreRelease pin:4.17.0 verdict:before/Pre/1/Pass",
        ),
        "> journal a Released",
    );
    let released = "pin:4.17.0 entries:PreRules,Released,PostRules verdict:before/Pre/1/Pass";
    check(
        &cluster(
            "4.16.0 desired:4.17.0 turn",
            &format!("change a Released {released}"),
        ),
        "node a Released Changing\n > nothing",
    );
    check(
        &cluster("4.17.0 turn", &format!("change a Released {released}")),
        "> journal a PostRules",
    );
    check(
        &cluster("4.17.0 turn", &format!("change a PostRules {released}")),
        "> job after/Post/1 of a",
    );
    check(
        &cluster(
            "4.17.0 turn",
            &format!("change a Held {released} reason:RuleFailed verdict:after/Post/1/Failure"),
        ),
        "> journal a Done RuleContinuedAfterFailure",
    );
    check(
        &cluster(
            "4.17.0 turn",
            &format!("change a Soaked {released} verdict:after/Post/1/Pass"),
        )
        .replace("deleting {}", "deleting {soakSeconds: 600}"),
        "> journal a Done",
    );
    // Done: lease, shield and pool go back, the finalizer last.
    check(
        &cluster("4.17.0 turn", &format!("change a Done {released}")),
        "> unshield a\n > release lease a\n > unpause worker",
    );
    check(
        &cluster("4.17.0", &format!("change a Done {released}")).replace(" ours", ""),
        "> finalizer 1 off",
    );
}

#[test]
fn a_node_that_never_returns_does_not_keep_a_deleted_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 NotReady turn
         run finalizer deleting {changeTimeoutSeconds: 100}
         change a Released pin:4.17.0 entries:PreRules,Released since:-101",
        "> journal a Failed ChangeTimeout",
    );
}

#[test]
fn a_deleted_run_does_not_wait_for_rules_that_are_deleted_too() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         run finalizer deleting {mutexRules: [{name: gone}]}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules",
        "> journal a Done",
    );
}

#[test]
fn a_deleted_run_is_left_in_a_namespace_that_is_no_longer_watched() {
    let cluster = |run: &str| {
        format!(
            "settings namespace:elsewhere
             cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.16.0
             run {run}"
        )
    };
    check(
        &cluster("{}"),
        "phase Refused\n hold NamespaceNotAllowed\n > nothing",
    );
    check(&cluster("finalizer deleting {}"), "> finalizer 1 off");
}

#[test]
fn a_run_whose_namespace_is_watched_no_longer_restores_what_it_took() {
    let cluster = |node: &str, more: &str| {
        format!(
            "settings namespace:elsewhere
             cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker {node}
             run finalizer {{}}
             {more}"
        )
    };
    // What had its turn is finished; nothing is let go.
    check(
        &cluster(
            "4.17.0 turn",
            "change a Released pin:4.17.0 entries:PreRules,Released",
        ),
        "hold NamespaceNotAllowed\n > journal a PostRules",
    );
    check(
        &cluster("4.16.0 turn", "change a PreRelease pin:4.17.0"),
        "> journal a Failed RunGivenUp",
    );
    check(&cluster("4.17.0", ""), "> unpause worker");
    // A NodeChange that anyone in that namespace may have written moves nothing.
    check(
        &cluster("4.17.0", "change a PreRules pin:4.17.0").replace(" ours", ""),
        "phase Refused\n hold NamespaceNotAllowed\n > nothing",
    );
}

#[test]
fn a_run_in_a_namespace_that_is_deleted_is_left() {
    check(
        "cluster 4.17.0
         namespace numo terminating
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run finalizer {}",
        "hold NamespaceTerminating
         > hold worker with 1 outdated",
    );
}

#[test]
fn writes_that_are_always_refused_do_not_keep_the_finalizer() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0
         rule after Post
         run finalizer deleting {}
         change a Done verdict:after/Post/1/Pass
         job after/Post/1 of a Complete",
    );
    let job = cluster.observed.jobs.keys().next().expect("a Job").to_string();
    let change = cluster.observed.changes.values_mut().next().expect("a change");
    change.status.verdicts[0].job = Some(job);
    check_cluster(&cluster, "> ttl after/Post/1 of a 86400\n > finalizer 1 off");
}

#[test]
fn the_finalizer_stays_until_lease_and_shield_are_back() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0 turn
         run finalizer deleting {}
         change a Done",
        "> unshield a\n > release lease a",
    );
}

#[test]
fn a_shield_restores_what_was_there() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0 shield
         run {}
         change a Done",
    );
    let node = cluster.observed.nodes.get_mut("a").expect("a node");
    let mark = Shielded {
        owner: RUN_UID.to_owned(),
        prior: [
            (marks::EXCLUDE_FROM_REMEDIATION, Some("true")),
            (marks::SCALE_DOWN_DISABLED, Some("false")),
            (marks::DO_NOT_DISRUPT, None),
        ]
        .map(|(key, value)| (key.to_owned(), value.map(str::to_owned)))
        .into(),
    };
    node.annotations
        .insert(marks::SHIELDED_BY.to_owned(), mark::render(&mark));
    let decision = crate::words::decision(&cluster);
    let [planned] = &decision.actions[..] else {
        panic!("{:?}", decision.actions)
    };
    let numo_core::action::Action::PatchNode(patch) = &planned.action else {
        panic!("{planned:?}")
    };
    assert_eq!(patch.labels, [], "what was true before stays true");
    let changes: Vec<(&str, Option<&str>)> = patch
        .annotations
        .iter()
        .map(|change| (change.key.as_str(), change.to.as_deref()))
        .collect();
    assert_eq!(
        changes,
        [
            (marks::SCALE_DOWN_DISABLED, Some("false")),
            (marks::DO_NOT_DISRUPT, None),
            (marks::SHIELDED_BY, None)
        ]
    );
}

#[test]
fn old_journals_are_forgotten() {
    check(
        "cluster 4.20.0
         pool worker 4.20.0
         node a worker 4.20.0
         run {}
         change a Done to:4.17.0 created:-4000
         change a Done to:4.18.0 created:-3000
         change a Done to:4.19.0 created:-2000
         change a Done to:4.20.0 created:-1000",
        "> forget a 4.17.0",
    );
    check(
        "cluster 4.18.0
         pool worker 4.18.0
         node a worker 4.18.0
         run {}
         change a Done to:4.17.0 created:-2592001
         change a Done to:4.18.0 created:-2592001",
        "> forget a 4.17.0",
    );
}

#[test]
fn other_runs_are_left_alone() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 of:other-uid
         node a worker 4.16.0 turn
         run finalizer deleting {}
         other-run {}
         change a PreRules owner:other-uid pin:4.17.0",
    );
    let holder = numo_core::decide::lease_holder("other-uid");
    cluster.observed.leases.get_mut("a").expect("a lease").holder = holder;
    let node = cluster.observed.nodes.get_mut("a").expect("a node");
    let mark = mark::shielded(node).expect("a shield");
    let mark = Shielded {
        owner: "other-uid".to_owned(),
        ..mark
    };
    node.annotations
        .insert(marks::SHIELDED_BY.to_owned(), mark::render(&mark));
    check_cluster(&cluster, "> finalizer 1 off");
    cluster.observed.runs.remove(&run_key());
    cluster.observed.runs.remove(&Key::new("numo", "other"));
}

#[test]
fn a_run_keeps_its_finalizer_while_its_pools_cannot_be_seen() {
    let said = |more: &str| {
        let cluster = Cluster::parse(&format!(
            "cluster 4.17.0
             node a worker 4.16.0 {more}"
        ));
        words(&cluster, &decision(&cluster)).join("\n")
    };
    let run = "rule backup Pre\n target t worker\n run {mutexTargets: [{name: t}]} finalizer";
    let flies = "change a Released pin:4.17.0 entries:Admitted,Released verdict:backup/Pre/1/Pass";
    let flying = said(&format!("turn\n {run}\n {flies}"));
    assert!(!flying.contains("finalizer"), "{flying}");
    // What the pools carry cannot be seen either.
    let idle = said(&format!("\n {run}"));
    assert!(!idle.contains("finalizer"), "{idle}");
    // A deleted one has no pools to wait for.
    let deleted = said(&format!("\n {run} deleting"));
    assert!(deleted.contains("> finalizer"), "{deleted}");
}

/// Which command takes an owner up again is told beside the sentence, which has the words of people and of rules in it.
#[test]
fn what_gave_an_owner_up_is_told_by_more_than_a_sentence() {
    let of_run = |run: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             {run}
             {more}"
        )
    };
    let of_plan = |turn: &str| {
        format!(
            "node a worker v0
             plan concurrency:1 cordon finalizer
             begun a {turn}
             keeps a"
        )
    };
    let of_version = |turn: &str| {
        format!(
            "node a worker v0
             version img2 finalizer
             host a img1
             group w image:img2
             groups w
             replacing a {turn}"
        )
    };
    let run = "run finalizer {}";
    let (directive, of_turn) = ("directive", "rule of a turn");
    for (cluster, wanted) in [
        (of_run("run finalizer aborted 4.17.0 {}", ""), "annotation"),
        (
            of_run(run, "change a PreRules pin:4.17.0 directive:Abort"),
            directive,
        ),
        (
            of_run(
                &format!("rule backup Pre\n {run}"),
                "change a Failed pin:4.17.0 verdict:backup/Pre/1/Failure reason:RuleFailed",
            ),
            of_turn,
        ),
        (
            of_run(
                &format!("rule start PreRun policy:Abort\n {run}"),
                "status 4.17.0 verdict:start/PreRun/1/Failure",
            ),
            "rule of the run",
        ),
        (of_plan("PreRules directive:Abort"), directive),
        (of_plan("Held reason:Aborted"), of_turn),
        (of_version("PreRules abort"), directive),
        (of_version("Held reason:Aborted"), of_turn),
    ] {
        let cluster = Cluster::parse(&cluster);
        let hold = decision(&cluster).report.hold.expect("it is given up");
        let Some(Cause::GivenUp(by)) = hold.cause.as_deref() else {
            panic!("it is told by what: {hold:?}");
        };
        let found = match by {
            GivenUp::Annotation => "annotation",
            GivenUp::Directive(change) if cluster.observed.changes.contains_key(change) => directive,
            GivenUp::RuleOfTurn(node) if node == "a" => of_turn,
            GivenUp::RuleOfRun => "rule of the run",
            other => panic!("{other:?} names nothing that is there"),
        };
        assert_eq!(found, wanted, "{}", hold.message);
    }
}
