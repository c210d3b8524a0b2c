//! Pools are paused before anything rolls, and rules start only when the cluster is ready.

use crate::words::check;

#[test]
fn pools_are_paused_before_anything_else() {
    check(
        "cluster 4.16.0 asks 4.17.0
         pool infra 4.16.0
         pool worker 4.16.0
         node a worker 4.16.0
         node b infra 4.16.0
         rule backup Pre",
        "phase Active
         hold PoolsPausing
         node a Selected PoolsPausing
         node b Selected PoolsPausing
         > finalizer on
         > pause infra
         > pause worker",
    );
}

#[test]
fn an_update_that_status_shows_and_spec_does_not_arms_too() {
    check(
        "cluster 4.17.0 Partial
         pool worker 4.16.0
         node a worker 4.16.0",
        "> finalizer on
         > pause worker",
    );
}

#[test]
fn a_pool_rendered_for_another_version_arms() {
    check(
        "cluster 4.17.0
         pool worker 4.16.0
         node a worker 4.17.0",
        "> finalizer on
         > pause worker",
    );
}

#[test]
fn nothing_is_written_while_everything_is_up_to_date() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0",
        "phase Idle
         hold -
         node a Done UpToDate
         > nothing",
    );
}

#[test]
fn no_node_is_admitted_before_the_control_plane_is_completed() {
    let hold = "hold ControlPlaneUpdating
         node a Selected ControlPlaneUpdating
         > nothing";
    check(
        "cluster 4.16.0 asks 4.17.0
         pool worker 4.16.0 ours
         node a worker 4.16.0",
        hold,
    );
    check(
        "cluster 4.17.0 Partial
         pool worker 4.17.0 ours
         node a worker 4.16.0",
        hold,
    );
}

#[test]
fn no_node_is_admitted_before_every_pool_is_rendered() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool infra 4.16.0 ours
         node a worker 4.16.0",
        "hold PoolNotRendered
         > nothing",
    );
}

#[test]
fn a_ready_cluster_admits_the_first_node() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0",
        "hold -
         node a Admitted Admitting
         node b Selected WaitingForTurn
         > admit a",
    );
}

#[test]
fn a_pool_paused_by_someone_else_is_a_veto() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 paused by:sriov
         node a worker 4.16.0",
        "hold PoolPausedByOther ~ sriov
         > nothing",
    );
}

#[test]
fn adopt_paused_works_on_a_paused_pool_and_remembers_that_it_was() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 paused by:alice
         node a worker 4.16.0
         run {adoptPaused: true}",
        "> finalizer on
         > pause worker that was paused",
    );
}

#[test]
fn a_finalizer_that_somebody_takes_off_while_marks_are_there_comes_back_at_once() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule backup
             change a PreRules pin:4.17.0
             job backup/Pre/1 of a running
             {run}"
        )
    };
    check(&cluster("run {}"), "> nothing");
    check(&cluster("run bare {}"), "> finalizer on");
    // Also of a run that was left, and whose pool stays paused.
    let held = "cluster 4.17.0
         pool worker 4.17.0 ours outdated:1
         node a worker 4.16.0
         run bare aborted 4.17.0 {}";
    check(held, "phase Held\n > finalizer on");
    // A dry run writes nothing, and what is being deleted takes no finalizer any more.
    check(&cluster("run bare deleting {}"), "not > finalizer on");
}

#[test]
fn an_adopted_pool_stays_paused_at_the_end() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours prior-paused
         node a worker 4.17.0
         run finalizer {adoptPaused: true}",
        "result Succeeded
         > leave worker paused",
    );
}

#[test]
fn a_pool_that_someone_unpaused_is_paused_again_three_times() {
    let cluster = |marks: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours unpaused by:alice {marks}
             node a worker 4.16.0
             run finalizer {{}}"
        )
    };
    check(&cluster(""), "hold PoolsPausing\n > pause worker again 1");
    check(&cluster("corrections:2"), "> pause worker again 3");
    check(
        &cluster("corrections:3"),
        "hold ForeignWriter ~ alice\n > nothing",
    );
}

#[test]
fn an_adopted_pool_that_a_person_unpaused_is_unpaused_at_the_end() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours prior-paused unpaused by:alice
         node a worker 4.16.0
         run finalizer {adoptPaused: true}",
        "> pause worker again 1",
    );
}

#[test]
fn a_pool_unpaused_when_every_node_has_the_version_holds_releases_too() {
    // The node's rendered config is older content of the same version.
    check(
        "cluster 4.17.0
         pool worker 4.17.0b ours unpaused
         node a worker 4.17.0 turn
         change a PreRelease pin:4.17.0b from:4.17.0
         run finalizer {}",
        "node a PreRelease PoolsPausing
         > pause worker again 1",
    );
}

#[test]
fn the_pool_of_an_owner_that_is_gone_is_taken_over_with_its_memory() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 of:gone prior-paused outdated:2
         node a worker 4.16.0
         run finalizer {}",
        "> pause worker that was paused",
    );
}

#[test]
fn a_run_waits_for_the_pool_of_another_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 of:other-uid
         node a worker 4.16.0
         target t worker
         other-run {mutexTargets: [{name: t}]}",
        "phase Refused
         hold PoolHeldByRun ~ numo/other
         > nothing",
    );
}

#[test]
fn nodes_that_roll_already_go_on_and_are_counted() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0
         node b worker 4.16.0",
        "ungated a ~ its pool was not paused when it began, and no rule was evaluated
         node a Released Ungated
         node b Selected WaitingForTurn ~ a
         > nothing",
    );
}

#[test]
fn a_held_pool_is_armed_again_for_the_next_version() {
    check(
        "cluster 4.18.0
         pool worker 4.18.0 ours outdated:1
         node a worker 4.16.0
         run finalizer {}
         change a Skipped to:4.17.0 reason:SkippedByPolicy",
        "> pause worker
         > admit a",
    );
}

#[test]
fn a_dry_run_asked_for_in_mid_run_finishes_what_began() {
    let cluster = |nodes: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             {nodes}
             node b worker 4.16.0
             run finalizer {{dryRun: true}}"
        )
    };
    check(
        &cluster("node a worker 4.17.0 turn\n change a Released pin:4.17.0 entries:PreRules,Released"),
        "hold DryRun\n node b Selected DryRun\n > journal a PostRules",
    );
    check(&cluster("node a worker 4.16.0"), "hold DryRun\n > nothing");
    check(
        &cluster("node a worker 4.17.0").replace("node b worker 4.16.0", ""),
        "> unpause worker",
    );
}

#[test]
fn a_dry_run_decides_and_writes_nothing() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         run {dryRun: true}",
        "hold DryRun ~ this run does not pause MachineConfigPool worker, which rolls WITHOUT its rules
         node a Admitted Admitting
         > nothing",
    );
}

/// It pauses nothing, so nobody may read that a pool is held.
#[test]
fn a_dry_run_that_is_refused_says_that_its_pools_roll() {
    let cluster =
        |node: &str, run: &str| format!("cluster 4.17.0\n pool worker 4.17.0\n node a worker {node}\n {run}");
    check(
        &cluster("4.16.0", "run {dryRun: true, mutexRules: [{name: gone}]}"),
        "hold RuleNotFound ~ MachineConfigPool worker rolls WITHOUT rules (spec.dryRun\n not upgrade held\n > nothing",
    );
    check(
        &cluster("4.17.0", "run {dryRun: true, mutexRules: [{name: gone}]}"),
        "phase Idle\n hold RuleNotFound ~ when an upgrade begins, MachineConfigPool worker rolls WITHOUT rules\n > nothing",
    );
    // One that held its pools before goes on holding them.
    check(
        &cluster(
            "4.16.0",
            "run finalizer {dryRun: true, mutexRules: [{name: gone}]}",
        )
        .replace("worker 4.17.0\n", "worker 4.17.0 ours\n"),
        "hold RuleNotFound ~ is paused\n upgrade held RuleNotFound",
    );
}

#[test]
fn a_refused_run_whose_pool_others_unpause_does_not_call_the_pool_paused() {
    let cluster = |corrections: u32| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours unpaused by:argocd corrections:{corrections}
             node a worker 4.16.0
             run finalizer {{mutexRules: [{{name: gone}}]}}"
        )
    };
    check(
        &cluster(2),
        "hold RuleNotFound ~ is paused\n upgrade held RuleNotFound\n > pause worker again 3",
    );
    check(
        &cluster(3),
        "hold RuleNotFound ~ last by argocd; numo no longer pauses it: it rolls WITHOUT rules\n not upgrade held\n > nothing",
    );
}

#[test]
fn an_idle_run_says_what_the_next_upgrade_would_be_refused_for() {
    // Before pools roll that nobody could pause.
    let cluster = |canary: &str| {
        format!(
            "cluster 4.16.0
             pool canary 4.16.0 {canary}
             pool worker 4.16.0
             node a worker 4.16.0
             run {{canary: {{name: canary}}}}"
        )
    };
    check(&cluster("paused"), "phase Idle\n hold CanaryPaused\n > nothing");
    check(
        &format!("{}\n layered worker", cluster("")),
        "phase Idle\n hold LayeredPool\n > nothing",
    );
    check(&cluster(""), "phase Idle\n not hold CanaryPaused\n > nothing");
}

#[test]
fn a_suspended_run_arms_and_admits_nobody() {
    for run in ["run {suspend: true}", "run suspended {}"] {
        check(
            &format!(
                "cluster 4.17.0
                 pool worker 4.17.0
                 node a worker 4.16.0
                 {run}"
            ),
            "hold Suspended
             > finalizer on
             > pause worker",
        );
    }
}

#[test]
fn a_finalizer_without_marks_goes() {
    // The pause was never written: the update was taken back first.
    check(
        "cluster 4.16.0
         pool worker 4.16.0
         node a worker 4.16.0
         run finalizer {}",
        "phase Idle
         > finalizer 1 off",
    );
}

#[test]
fn a_run_without_nodes_says_so() {
    check(
        "cluster 4.17.0
         pool master 4.17.0
         pool worker 4.17.0
         node m master 4.17.0 label:node-role.kubernetes.io/worker",
        "phase Idle
         hold NoNodes
         > nothing",
    );
}

#[test]
fn a_mark_that_outlived_its_pause_is_no_leave_to_roll() {
    // The run that paused the pool is gone; who paused it since is not numo.
    let cluster = |by: &str, run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 of:gone-uid by:{by}
             node a worker 4.16.0
             run {run}"
        )
    };
    check(
        &cluster("sriov", "{}"),
        "hold PoolPausedByOther ~ sriov\n > nothing",
    );
    check(&cluster("numo", "{}"), "> finalizer on\n > pause worker");
    check(
        &cluster("sriov", "{adoptPaused: true}"),
        "> finalizer on\n > pause worker that was paused",
    );
}
