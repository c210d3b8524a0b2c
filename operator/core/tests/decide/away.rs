//! Nodes that are dead or gone do not stop a fleet, of any owner; and what changed without its rules is told.

use crate::words::check;

/// Node a was released and its time is over; `change` and `more` say the rest.
fn lost(change: &str, run: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 NotReady turn
         node b worker 4.16.0
         run finalizer {run}
         change a {change}
         {more}"
    )
}

#[test]
fn a_released_node_that_stays_away_is_left_out_by_a_persons_word() {
    let held = "Held reason:ChangeTimeout pin:4.17.0 entries:PreRules,Released,Held since:-9000";
    check(
        &lost(held, "{}", ""),
        "node a Held ChangeTimeout ~ `numo skip a` leaves it out\n hold FailureBudgetSpent\n node b Selected FailureBudgetSpent",
    );
    check(
        &lost(&format!("{held} directive:Skip"), "{}", ""),
        "node a Skipped SkippedByPerson ~ alice\n > journal a Skipped SkippedByPerson",
    );
    // Also before its time is over, as it is not Ready.
    check(
        &lost(
            "Released pin:4.17.0 entries:PreRules,Released directive:Skip",
            "{}",
            "",
        ),
        "> journal a Skipped SkippedByPerson",
    );
    // Then the others go on, and it is not called ungated: its rules had passed.
    check(
        &lost(
            "Skipped reason:SkippedByPerson pin:4.17.0 entries:PreRules,Released,Skipped obeyed:1",
            "{}",
            "",
        )
        .replace("NotReady turn", "NotReady"),
        "node a Skipped SkippedByPerson\n > admit b",
    );
}

#[test]
fn a_node_that_is_not_ready_is_left_out_after_its_time_where_that_is_asked() {
    let cluster = |run: &str, dark: i64| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 NotReady dark:{dark}
             node b worker 4.16.0
             run finalizer {run}"
        )
    };
    let leaves_out = "{notReadyPolicy: LeaveOutAfter, leaveOutAfterSeconds: 600}";
    check(&cluster("{}", 9000), "node a Selected NodeNotReady\n > admit b");
    check(
        &cluster(leaves_out, 599),
        "node a Selected NodeNotReady\n > admit b",
    );
    check(
        &cluster(leaves_out, 600),
        "node a Skipped LeftOutNotReady ~ taken up once it is Ready\n > admit b",
    );
    // The run is over without it, and its pool stays paused for it.
    check(
        &cluster(leaves_out, 600).replace("node b worker 4.16.0", "node b worker 4.17.0"),
        "phase Leaving
         node a Skipped LeftOutNotReady
         > hold worker with 1 outdated",
    );
}

#[test]
fn a_failure_budget_may_be_a_percentage_and_counts_who_is_gone() {
    let cluster = |budget: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0
             node c worker 4.16.0
             node d worker 4.16.0
             run finalizer {{failureBudget: {budget}, maxUnavailable: 4}}
             change x Failed reason:NodeGone pin:4.17.0 entries:PreRules,Released,Failed
             {more}"
        )
    };
    check(
        &cluster("1", ""),
        "hold FailureBudgetSpent ~ 1 node(s) failed, spec.failureBudget is 1: x",
    );
    check(&cluster("\"50%\"", ""), "hold -");
    check(
        &cluster("\"25%\"", ""),
        "hold FailureBudgetSpent ~ spec.failureBudget is 1",
    );
}

#[test]
fn nodes_that_left_the_version_unseen_are_ungated() {
    let cluster = |status: &str, node: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.17.0 {node}
             run {{}}
             status 4.16.0 finished {status}"
        )
    };
    check(
        &cluster("settled:4.16.0", ""),
        "phase Idle\n ungated a\n > nothing",
    );
    // One that joined since may have come with the version; and nothing is known of before.
    check(&cluster("settled:4.16.0", "age:0"), "not ungated");
    check(&cluster("", ""), "not ungated");
    // A release that changes nothing on the nodes: they run what they ran.
    check(
        &cluster("settled:4.16.0 still:rendered-worker-4170", ""),
        "not ungated",
    );
    check(&cluster("settled:4.17.0", ""), "not ungated");
    check(
        &cluster("settled:4.16.0", "").replace("run {}", "run {dryRun: true}"),
        "not ungated",
    );
}

#[test]
fn a_dark_node_of_a_plan_waits_and_the_others_go() {
    let plan = |spec: &str, dark: i64| {
        format!(
            "node a worker v0 NotReady dark:{dark}
             node b worker v0
             plan concurrency:1 cordon finalizer spec {spec}"
        )
    };
    let mutex = |fields: &str| format!("{{\"mutex\":{{{fields}}}}}");
    check(&plan("{}", 60), "node a Selected NodeNotReady\n > admit b");
    check(
        &plan(&mutex("\"takeNotReady\":true,\"order\":\"Name\""), 60),
        "> mark the gate",
    );
    check(
        &plan(
            &mutex("\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":30"),
            60,
        ),
        "node a Skipped LeftOutNotReady",
    );
}
