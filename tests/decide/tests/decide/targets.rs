//! The targets of a run: pools that it names itself, and limits of a target beside that of the run.

use crate::words::check;

/// A run over the pools worker and infra. `a` and `b` are of worker, `c` to `f` of infra.
fn run(spec: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool infra 4.17.0 ours
         pool master 4.17.0
         node a worker 4.16.0
         node b worker 4.16.0
         node c infra 4.16.0
         node d infra 4.16.0
         node e infra 4.16.0
         node f infra 4.16.0
         run {{{spec}}} finalizer
         {more}"
    )
}

const TARGETS: &str = "target workers worker\n target infra infra";

/// A run whose target infra has this limit.
fn limited(limit: &str, more: &str) -> String {
    run(
        &format!(
            "mutexTargets: [{{name: workers}}, {{name: infra, maxUnavailable: {limit}}}], maxUnavailable: 9"
        ),
        &format!("{TARGETS}\n {more}"),
    )
}

#[test]
fn a_run_that_names_its_pools_upgrades_them_in_that_order() {
    check(
        &run("pools: [infra, worker], maxUnavailable: 5", ""),
        "> admit c\n > admit d\n > admit e\n > admit f\n > admit a",
    );
    check(
        &run("pools: [worker, worker], maxUnavailable: 9", ""),
        "> admit a\n > admit b",
    );
}

#[test]
fn a_run_is_refused_for_pools_that_it_cannot_upgrade() {
    for (spec, words) in [
        (
            "pools: [worker, infar]",
            "PoolNotFound ~ spec.pools[1]: there is no MachineConfigPool infar",
        ),
        (
            "pools: [master, worker]",
            "ControlPlanePool ~ spec.pools[0]: found master, wanted a pool of workers",
        ),
        (
            "pools: []",
            "PoolNotFound ~ spec.pools is empty: it must name at least one MachineConfigPool",
        ),
        (
            "pools: [worker], mutexTargets: [{name: infra}]",
            "InvalidField ~ spec.pools: found it beside spec.mutexTargets, wanted one of them",
        ),
        (
            "mutexTargets: [{name: infra, maxUnavailable: some}]",
            "InvalidField ~ spec.mutexTargets[0].maxUnavailable: found \"some\", wanted a whole number",
        ),
    ] {
        check(&run(spec, TARGETS), &format!("problem {words}\n > nothing"));
    }
}

/// A pool that is misspelt now was a target before, and is held: the slip opens no gate.
#[test]
fn a_pool_that_is_misspelt_is_held_all_the_same() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.16.0
         run {pools: [wroker]}
         status 4.16.0 finished pools:worker",
        "phase Active
         hold PoolNotFound
         node a Selected PoolNotFound
         > finalizer on
         > pause worker",
    );
}

/// Two runs that name one pool themselves: it belongs to the one that paused it.
#[test]
fn a_pool_that_another_run_names_itself_is_held_by_that_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 of:other-uid
         node a worker 4.16.0
         other-run {pools: [worker]}
         run {pools: [worker]}",
        "node a Selected PoolHeldByRun",
    );
}

#[test]
fn nodes_of_a_target_have_its_room_and_the_others_go_on() {
    check(
        &limited("1", ""),
        "node d Selected WaitingForTurn ~ 1 node of MutexTarget numo/infra is in flight, and spec.mutexTargets[1].maxUnavailable allows 1: c
         > admit a
         > admit b
         > admit c",
    );
    // Percentages are of the nodes of the target, rounded down, and never none.
    check(
        &limited("50%", ""),
        "> admit a\n > admit b\n > admit c\n > admit d",
    );
    check(
        &limited("74%", ""),
        "> admit a\n > admit b\n > admit c\n > admit d",
    );
    check(&limited("1%", ""), "> admit a\n > admit b\n > admit c");
    // The limit of the run holds beside it.
    let two = limited("3", "").replace("maxUnavailable: 9", "maxUnavailable: 2");
    check(
        &two,
        "node c Selected WaitingForTurn ~ 2 nodes are in flight, and spec.maxUnavailable allows 2
         > admit a
         > admit b",
    );
    // Who is in flight already takes the room.
    let flying = limited(
        "2",
        "change e PreRules pin:4.17.0\n rule slow Pre\n job slow/Pre/1 of e running",
    )
    .replace("node e infra 4.16.0", "node e infra 4.16.0 turn");
    check(
        &flying,
        "node d Selected WaitingForTurn ~ 2 nodes of MutexTarget numo/infra are in flight
         > admit a
         > admit b
         > admit c",
    );
}

#[test]
fn a_target_of_zero_keeps_its_nodes_and_ends_turns_that_have_not_begun() {
    for zero in ["0", "0%"] {
        check(
            &limited(zero, ""),
            "node c Selected MaxUnavailableZero ~ MutexRunConfig numo/run spec.mutexTargets[1].maxUnavailable is 0, which lets no node of MutexTarget numo/infra begin; whoever owns the object raises it with `kubectl -n numo edit mutexrunconfig run`
             ends c ClusterAdmin
             > admit a
             > admit b",
        );
    }
    let begun = limited("0", "change c Admitted").replace("node c infra 4.16.0", "node c infra 4.16.0 turn");
    check(
        &begun,
        "> journal c Selected MaxUnavailableZero\n > admit a\n > admit b",
    );
}

#[test]
fn a_node_of_two_targets_needs_the_room_of_both() {
    let spec =
        "mutexTargets: [{name: all, maxUnavailable: 3}, {name: infra, maxUnavailable: 2}], maxUnavailable: 9";
    check(
        &run(spec, "target all worker infra\n target infra infra"),
        "node d Selected WaitingForTurn ~ 3 nodes of MutexTarget numo/all are in flight, and spec.mutexTargets[0].maxUnavailable allows 3
         > admit a
         > admit b
         > admit c",
    );
}
