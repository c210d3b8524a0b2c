//! Machines and their health checks: whom numo keeps off a node in flight, and whom it does not select.

use crate::{
    cluster::Cluster,
    words::{check, decision},
};
use numo_api::Reason;
use numo_core::{
    action::{Action, MachinePurpose},
    why::Why,
};

fn cluster(node: &str, change: &str, run: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 {node}
         node b worker 4.16.0
         rule backup Pre
         run {run} finalizer
         {change}
         {more}"
    )
}

const ADMITTED: &str = "change a Admitted";
const RELEASED: &str = "change a Released pin:4.17.0 entries:Admitted,Released verdict:backup/Pre/1/Pass";

#[test]
fn the_machine_of_a_node_is_shielded_before_its_turn_begins() {
    check(
        &cluster("turn", ADMITTED, "{}", "machine m of a"),
        "> shield machine m\n > journal a",
    );
    // Once it is, the turn begins.
    check(
        &cluster("turn", ADMITTED, "{}", "machine m of a shielded:run-uid"),
        "> journal a PreRules",
    );
    // Nothing can be kept off a Machine that is being deleted; the node is not begun with either.
    check(
        &cluster("turn", ADMITTED, "{}", "machine m of a deleting"),
        "node a Selected NodeLeaving",
    );
}

#[test]
fn a_node_whose_machine_is_being_deleted_is_not_selected() {
    check(
        &cluster("", "", "{}", "machine m of a deleting"),
        "node a Selected NodeLeaving\n node b Admitted Admitting",
    );
}

#[test]
fn the_holder_of_kureds_lock_is_not_selected_until_the_lock_ends() {
    check(
        &cluster("", "", "{}", "kured a"),
        "node a Selected NodeLeaving\n node b Admitted Admitting",
    );
    check(
        &cluster("", "", "{}", "kured a ttl:60"),
        "node a Selected NodeLeaving",
    );
    check(
        &cluster("", "", "{}", "kured a ttl:0"),
        "node a Admitted Admitting",
    );
}

#[test]
fn the_holder_of_kureds_lock_counts_against_a_budget() {
    check(
        &cluster("", "", "{}", "kured a\n budget one 1"),
        "node a Selected NodeLeaving\n node b Selected BudgetExhausted",
    );
}

#[test]
fn the_shield_goes_off_the_machine_with_the_turn_and_leaves_what_was_there() {
    check(
        &cluster("", "", "{suspend: true}", "machine m of a shielded:run-uid"),
        "> unshield machine m",
    );
    check(
        &cluster(
            "",
            "",
            "{suspend: true}",
            "machine m of gone openshift shielded:run-uid",
        ),
        "> unshield machine m",
    );
    check(
        &cluster("", "", "{suspend: true}", "machine m of a shielded:another"),
        "> nothing",
    );
}

#[test]
fn health_checks_are_paused_only_if_asked_and_only_while_a_node_is_in_flight() {
    let asked = "{pauseHealthChecks: true}";
    check(
        &cluster("turn", ADMITTED, asked, "healthcheck h"),
        "> pause healthcheck h\n > journal a",
    );
    check(
        &cluster("turn", ADMITTED, "{}", "healthcheck h"),
        "> journal a PreRules",
    );
    // Once, whoever else begins with it.
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0 turn
         rule backup Pre
         run {pauseHealthChecks: true, maxUnavailable: 2} finalizer
         change a Admitted
         change b Admitted
         healthcheck h",
        "> pause healthcheck h\n > journal a\n > journal b",
    );
    // Someone paused it: it does nothing already, and is theirs to resume.
    check(
        &cluster("turn", ADMITTED, asked, "healthcheck h skipped"),
        "> journal a PreRules",
    );
    check(
        &cluster(
            "desired:4.17.0 Working turn",
            RELEASED,
            asked,
            "healthcheck h shielded:run-uid",
        ),
        "> nothing",
    );
    let held = "{pauseHealthChecks: true, suspend: true}";
    check(
        &cluster("", "", held, "healthcheck h shielded:run-uid"),
        "> resume healthcheck h",
    );
    check(
        &cluster("", "", held, "healthcheck h shielded:another"),
        "> nothing",
    );
    // No longer asked for.
    check(
        &cluster(
            "desired:4.17.0 Working turn",
            RELEASED,
            "{}",
            "healthcheck h shielded:run-uid",
        ),
        "> resume healthcheck h",
    );
}

#[test]
fn health_checks_that_select_a_node_of_the_run_are_paused_by_default() {
    let turn = |spec: &str, rest: &str| cluster("turn", ADMITTED, spec, rest);
    let machine = "machine m of a openshift label:workers shielded:run-uid";
    check(
        &turn("{}", &format!("{machine}\n healthcheck h selects:workers")),
        "> pause healthcheck h\n > journal a",
    );
    check(
        &turn("{}", &format!("{machine}\n healthcheck h selects:others")),
        "> journal a PreRules",
    );
    check(
        &turn(
            "{pauseHealthChecks: false}",
            &format!("{machine}\n healthcheck h selects:workers"),
        ),
        "> journal a PreRules",
    );
}

/// A Plan or a maintenance that has its turn on node `a`, with a Machine of it that it shields.
fn turns() -> [(&'static str, &'static str); 2] {
    let plan = "node a worker v0
         plan concurrency:1 cordon finalizer applying:a
         begun a new
         keeps a
         machine m of a openshift label:workers shielded:uid-p";
    let kept = "node a worker 4.16.0
         maintenance a finalizer
         turn a new
         kept a
         machine m of a openshift label:workers shielded:uid-nm";
    [(plan, "> job a"), (kept, "> cordon a with 2 taints")]
}

#[test]
fn health_checks_of_openshift_are_paused_for_nodes_of_plans_and_maintenances() {
    for (turn, next) in turns() {
        let with = |rest: &str| format!("{turn}\n {rest}");
        // Nothing is done to the node before its Machine is left alone.
        check(
            &with("healthcheck h selects:workers"),
            "> pause healthcheck h\n > journal a",
        );
        // One that selects no Machine of the node, and one that somebody paused, are not touched.
        check(&with("healthcheck h selects:others"), next);
        check(&with("healthcheck h selects:workers skipped"), next);
        check(&with("healthcheck h selects:workers shielded:uid-other"), next);
    }
}

/// What is refused on one node held the pause that another one needs, and with it that node.
#[test]
fn a_pause_that_nodes_share_waits_for_no_other_write_of_one_of_them() {
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0 turn
         rule backup Pre
         run {maxUnavailable: 2} finalizer
         change a Admitted
         change b Admitted";
    let plan = "node a worker v0
         node b worker v0
         plan concurrency:2 cordon finalizer applying:a,b
         begun a new
         begun b new";
    let rest = "machine m of a openshift label:workers
         machine n of b openshift label:workers
         healthcheck h selects:workers";
    for owner in [run, plan] {
        let decision = decision(&Cluster::parse(&format!("{owner}\n {rest}")));
        let pauses: Vec<&str> = decision
            .actions
            .iter()
            .filter(|planned| matches!(&planned.action, Action::PatchMachine(patch) if patch.purpose == MachinePurpose::PauseHealthCheck))
            .map(|planned| planned.chain.as_str())
            .collect();
        let [chain] = pauses[..] else {
            panic!("wanted one pause: {pauses:?}");
        };
        assert!(
            !["a", "b"].contains(&chain),
            "the pause is in the chain of node {chain}"
        );
        let own = decision.actions.iter().filter(|planned| planned.chain == "b");
        assert!(own.count() > 0, "node b has writes of its own");
        // Where the pause itself is refused, each of them says so.
        let mut report = decision.report.clone();
        let hold = report.hold.clone();
        report.refused(chain, Why::new(Reason::WriteRefused, "no"));
        let refused = |node: &str| report.nodes[node].why.reason == Reason::WriteRefused;
        assert!(refused("a") && refused("b"), "{:#?}", report.nodes);
        assert_eq!(report.hold, hold);
    }
}

#[test]
fn health_checks_that_plans_and_maintenances_paused_are_resumed_with_the_last_turn() {
    check(
        "node a worker v0
         plan concurrency:1 cordon finalizer applying:a
         begun a Released boot:b1
         keeps a cordoned
         planjob a complete
         machine m of a openshift label:workers
         healthcheck h selects:workers shielded:uid-p",
        "> restore a uncordoned +p
         > resume healthcheck h
         > journal a Done
         > release lease a",
    );
    // Another node of it is in flight.
    check(
        "node a worker v0
         node b worker v0
         plan concurrency:2 cordon finalizer applying:a,b
         begun a Released boot:b1
         begun b Released boot:b1
         keeps a cordoned
         keeps b cordoned
         planjob a complete
         planjob b running runs:upgrade
         machine m of a openshift label:workers
         machine n of b openshift label:workers shielded:uid-p
         healthcheck h selects:workers shielded:uid-p",
        "> restore a uncordoned +p
         > journal a Done
         > release lease a",
    );
    check(
        "node a worker 4.16.0
         maintenance a finalizer deleting
         turn a Ready
         machine m of a openshift label:workers
         healthcheck h selects:workers shielded:uid-nm",
        "> resume healthcheck h
         > journal a Done Done",
    );
    // The node is gone for good.
    check(
        "maintenance a finalizer
         machine m of a openshift label:workers
         healthcheck h selects:workers shielded:uid-nm",
        "> resume healthcheck h",
    );
}

#[test]
fn a_pause_that_another_owners_turn_needs_is_handed_over() {
    let ends = |run: &str, machine: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0
             rule backup Pre
             run {run} finalizer
             change b Released
             maintenance a finalizer deleting
             turn a Ready
             machine m of a openshift label:workers
             {machine}
             healthcheck h selects:workers shielded:uid-nm"
        )
    };
    let needs = "machine n of b openshift label:workers";
    check(
        &ends("{}", needs),
        "> hand over healthcheck h
         > journal a Done Done",
    );
    let resumed = "> resume healthcheck h
         > journal a Done Done";
    // The check does not see that node, or its owner does not want it paused.
    check(&ends("{}", "machine n of b openshift label:others"), resumed);
    check(&ends("{pauseHealthChecks: false}", needs), resumed);
}

#[test]
fn a_pause_is_handed_to_nobody_who_would_not_keep_it() {
    // A run does not pause those of Cluster API by itself: two of them would hand it to each other for ever.
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0
         rule backup Pre
         run {} finalizer
         change b Released
         maintenance a finalizer deleting
         turn a Ready
         machine m of a label:workers
         machine n of b label:workers
         healthcheck h clusterapi selects:workers shielded:uid-nm",
        "> resume healthcheck h
         > journal a Done Done",
    );
}

#[test]
fn a_pause_stays_while_the_pools_cannot_be_seen() {
    let blind = |change: &str| {
        format!(
            "cluster 4.17.0
             node a worker 4.16.0 turn
             rule backup Pre
             target t worker
             run {{mutexTargets: [{{name: t}}]}} finalizer
             {change}
             machine m of a openshift label:workers shielded:run-uid
             healthcheck h selects:workers shielded:run-uid"
        )
    };
    let released = "change a Released pin:4.17.0 entries:Admitted,Released verdict:backup/Pre/1/Pass";
    let said = |text: &str| {
        let cluster = crate::cluster::Cluster::parse(text);
        crate::words::words(&cluster, &crate::words::decision(&cluster)).join("\n")
    };
    let stays = said(&blind(released));
    assert!(
        !stays.contains("resume") && !stays.contains("unshield"),
        "{stays}"
    );
    // Its turn is over: nobody needs them.
    let goes = said(&blind(""));
    assert!(
        goes.contains("> resume healthcheck h") && goes.contains("> unshield machine m"),
        "{goes}"
    );
}
