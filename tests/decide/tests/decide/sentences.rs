//! What a person reads first of the waits that everybody meets: a sentence that names the object, says how it is, and has the words
//! of whoever stopped it.

use crate::{
    cluster::{Cluster, run_key},
    words::{check, check_cluster},
};
use numo_api::marks;

#[test]
fn a_control_plane_that_updates_is_told_in_a_sentence() {
    let cluster = |version: &str| {
        format!(
            "cluster {version}
             pool worker 4.16.0 ours
             node a worker 4.16.0
             run finalizer {{}}"
        )
    };
    check(
        &cluster("4.16.0 asks 4.17.0"),
        "hold ControlPlaneUpdating ~ the cluster-version operator has not taken up the request for 4.17.0 yet",
    );
    check(
        &cluster("4.17.0 Partial"),
        "hold ControlPlaneUpdating ~ the control plane is still updating to 4.17.0 (ClusterVersion version: 4.17.0 is Partial)",
    );
    check(
        &cluster("4.17.0"),
        "hold PoolNotRendered ~ MachineConfigPool worker has no configuration of 4.17.0 yet: rendered-worker-",
    );
}

#[test]
fn a_node_that_is_not_fit_is_told_as_it_is() {
    let node = |how: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {how}
             run finalizer {{}}"
        )
    };
    check(
        &node("cordoned"),
        "node a Selected CordonedByOther ~ Node a is cordoned, and not by numo; uncordon it to let it change",
    );
    check(
        &node("NotReady"),
        "node a Selected NodeNotReady ~ Node a is not Ready",
    );
}

/// The word of a person as the command line keeps it.
fn word(verb: &str) -> String {
    format!(r#"[{{"at":"2027-01-15T08:00:00Z","verb":"{verb}","by":"ada","reason":"friday evening"}}]"#)
}

#[test]
fn whoever_stopped_it_is_named_with_the_reason() {
    let cluster = |run: &str, more: &str| {
        Cluster::parse(&format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             run finalizer {run} {{}}
             {more}"
        ))
    };
    let mut paused = cluster("", "");
    let run = paused.observed.runs.get_mut(&run_key()).expect("a run");
    run.annotations.insert(
        marks::SUSPEND.to_owned(),
        "pause by ada: friday evening".to_owned(),
    );
    check_cluster(
        &paused,
        "hold Suspended ~ MutexRunConfig numo/run is paused by ada: friday evening",
    );

    let mut aborted = cluster("aborted 4.17.0", "");
    let by_hand = "hold Aborted ~ /abort); to go on, `numo abort run -n numo --undo`";
    check_cluster(&aborted, by_hand);
    let run = aborted.observed.runs.get_mut(&run_key()).expect("a run");
    run.annotations.insert(marks::SAID.to_owned(), word("abort"));
    check_cluster(
        &aborted,
        "hold Aborted ~ by ada: friday evening; to go on, `numo abort run -n numo --undo`",
    );

    let mut stopped = cluster("", "budget stop max:100% paused");
    check_cluster(
        &stopped,
        "node a Selected Stopped ~ MutexBudget stop is paused; start again with `numo start`",
    );
    let budget = stopped.observed.budgets.get_mut("stop").expect("a budget");
    budget.annotations.insert(marks::SAID.to_owned(), word("stop"));
    check_cluster(
        &stopped,
        "node a Selected Stopped ~ MutexBudget stop is paused by ada: friday evening; start again with `numo start`",
    );
}

#[test]
fn one_node_is_no_nodes() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0
         run finalizer {}
         change a PreRules pin:4.17.0",
        "node b Selected WaitingForTurn ~ 1 node is in flight, and spec.maxUnavailable allows 1: a",
    );
}
