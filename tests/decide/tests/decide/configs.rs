//! `trigger: AnyConfig` and `hold: Always`: every rendered configuration is gated, not only another version's.

use crate::words::check;

/// The run after another configuration of the same version was rendered.
const ANY: &str = "run {trigger: AnyConfig}";
/// The pools never open.
const ALWAYS: &str = "run {trigger: AnyConfig, hold: Always}";

#[test]
fn another_configuration_of_the_same_version_arms_only_if_asked_for() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0b
             node a worker 4.17.0
             {run}"
        )
    };
    check(
        &cluster("run {}"),
        "phase Idle\n node a Selected UpToDate\n > nothing",
    );
    check(
        &cluster(ANY),
        "phase Active\n node a Selected PoolsPausing\n > finalizer on\n > pause worker",
    );
}

#[test]
fn each_configuration_is_a_run_of_its_own() {
    // Done in the run before, at the same version: its rules are asked again.
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker 4.17.0
             rule backup Pre
             {ANY}
             status 4.17.0/worker=4.17.0 finished
             change a Done to:4.17.0/worker=4.17.0 pin:4.17.0"
        ),
        "phase Active\n > admit a",
    );
    // What was skipped in the run before is not skipped in this one.
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker 4.16.0
             {ANY}
             change a Skipped reason:SkippedByPerson to:4.17.0/worker=4.17.0"
        ),
        "phase Active\n > admit a",
    );
}

#[test]
fn a_node_in_flight_for_an_earlier_configuration_begins_anew() {
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0c ours
             node a worker 4.17.0 turn
             rule backup Pre
             {ANY}
             change a PreRules to:4.17.0/worker=4.17.0b pin:4.17.0b"
        ),
        "node a Failed RunGivenUp ~ other configurations of 4.17.0\n > journal a Failed RunGivenUp",
    );
}

/// What a person says of a node while the control plane is updated, when nothing is rendered yet, holds once it is: the run has another
/// id then.
#[test]
fn what_was_said_of_a_node_before_it_was_rendered_holds() {
    let cluster = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker 4.16.0
             {ANY}
             {change}"
        )
    };
    check(
        &cluster("change a - to:4.17.0 directive:Hold"),
        "node a Selected HeldByPerson\n > journal a Selected HeldByPerson",
    );
    check(
        &cluster("change a - to:4.17.0 directive:Skip"),
        "> journal a Skipped SkippedByPerson",
    );
    check(
        &cluster("change a Skipped reason:SkippedByPerson to:4.17.0 directive:Skip obeyed:2"),
        "node a Skipped SkippedByPerson\n not > admit a",
    );
    // What was taken back is said no more, and a node that was left out of another version is not left out of this one.
    check(&cluster("change a - to:4.17.0 generation:2"), "> admit a");
    check(&cluster("change a - to:4.16.5 directive:Skip"), "> admit a");
}

/// A word that was taken back is no second turn: the node that is in its turn goes on.
#[test]
fn a_word_that_was_taken_back_contradicts_no_turn() {
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker 4.16.0 turn
             rule backup Pre
             {ANY}
             change a PreRules to:4.17.0/worker=4.17.0b pin:4.17.0b
             change a - to:4.17.0 generation:2"
        ),
        "not JournalContradicts\n > job backup/Pre/1 of a",
    );
}

#[test]
fn what_was_given_up_before_it_was_rendered_stays_given_up() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run {trigger: AnyConfig} aborted 4.17.0",
        "hold Aborted",
    );
    check(
        "cluster 4.17.0
         pool worker 4.17.0b ours
         node a worker 4.17.0
         run {trigger: AnyConfig} aborted 4.17.0/worker=4.17.0",
        "phase Active\n hold -\n > admit a",
    );
}

#[test]
fn held_pools_are_paused_before_there_is_anything_to_do() {
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.17.0
             {ALWAYS}"
        ),
        "phase Idle\n hold -\n node a Done UpToDate\n > finalizer on\n > pause worker",
    );
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0
             {ALWAYS} finalizer"
        ),
        "phase Idle\n hold -\n > nothing",
    );
}

#[test]
fn a_refused_run_holds_an_upgrade_only_once_one_has_begun() {
    let cluster = |rendered: &str| {
        format!(
            "cluster 4.17.0
             pool worker {rendered} ours
             node a worker 4.17.0
             run {{trigger: AnyConfig, hold: Always, mutexRules: [{{name: gone}}]}} finalizer"
        )
    };
    check(
        &cluster("4.17.0"),
        "phase Idle\n hold RuleNotFound\n not upgrade held\n > nothing",
    );
    check(
        &cluster("4.17.0b"),
        "phase Active\n hold RuleNotFound\n upgrade held RuleNotFound\n > nothing",
    );
}

#[test]
fn held_pools_are_paused_again_three_times_and_then_the_writer_is_named() {
    let cluster = |corrections: u32| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours unpaused by:argocd corrections:{corrections}
             node a worker 4.17.0
             {ALWAYS} finalizer"
        )
    };
    check(&cluster(0), "phase Idle\n > pause worker again 1");
    check(
        &cluster(3),
        "phase Idle\n hold ForeignWriter ~ argocd\n > nothing",
    );
}

#[test]
fn a_run_that_is_over_leaves_held_pools_paused_and_forgives() {
    let cluster = |mark: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0b {mark}
             node a worker 4.17.0b
             {ALWAYS} finalizer
             status 4.17.0/worker=4.17.0b
             change a Done to:4.17.0/worker=4.17.0b pin:4.17.0b"
        )
    };
    check(&cluster("ours"), "phase Idle\n > nothing");
    check(&cluster("ours corrections:2"), "> hold worker");
}

#[test]
fn pools_are_restored_when_they_are_held_no_more() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         rule report PostRun
         run {trigger: AnyConfig} finalizer
         status 4.17.0/worker=4.17.0 finished",
        "> unpause worker",
    );
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0
             {ALWAYS} finalizer deleting"
        ),
        "> unpause worker",
    );
    check(
        &format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker 4.17.0
             {ALWAYS} finalizer deleting"
        ),
        "> hold worker with 1 outdated",
    );
}

/// Whether the pools are to stay paused may stand in what this numo cannot read.
#[test]
fn a_run_that_is_partly_read_keeps_its_pools_paused_between_upgrades() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0
             run finalizer {run}
             status 4.17.0 finished
             change a Done"
        )
    };
    check(
        &cluster("misread {trigger: AnyConfig}"),
        "hold InvalidField\n > nothing",
    );
    check(&cluster("{trigger: AnyConfig}"), "> unpause worker");
    check(
        &cluster("misread deleting {trigger: AnyConfig}"),
        "> unpause worker",
    );
}
