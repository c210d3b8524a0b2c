//! Nodes that are dead or gone do not stop a fleet, of any owner; and what changed without its rules is told.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster, decision},
};
use numo_api::{Reason, conditions::Actor};

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
    // Once the run is over it comes to rest, also where nothing keeps the pool paused.
    for run in [
        leaves_out.to_owned(),
        leaves_out.replace('}', ", onExit: Unpause}"),
        leaves_out.replace('}', ", adoptPaused: true}"),
    ] {
        check(
            &format!(
                "cluster 4.17.0
                 pool worker 4.17.0
                 node a worker 4.16.0 NotReady dark:9000
                 node b worker 4.17.0
                 run {run}
                 status 4.17.0 finished"
            ),
            "phase Idle
             node a Skipped LeftOutNotReady
             > nothing",
        );
    }
}

#[test]
fn a_node_that_rolled_without_rules_and_stays_away_can_be_left_out() {
    let cluster = |dark: i64, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 desired:4.17.0 NotReady dark:{dark}
             node b worker 4.16.0
             run finalizer {{changeTimeoutSeconds: 900}}
             {more}"
        )
    };
    check(
        &cluster(899, ""),
        "node a Released Ungated\n ends a Node\n ends b OtherNode\n stalled -\n wake 1",
    );
    check(
        &cluster(900, ""),
        "node a Released Ungated ~ `numo skip a` leaves it out
         ends a ClusterAdmin
         node b Selected WaitingForTurn
         ends b ClusterAdmin
         stalled a Ungated",
    );
    check(
        &cluster(60, "change a - directive:Skip"),
        "node a Skipped SkippedByPerson\n ungated a\n > journal a Skipped SkippedByPerson",
    );
    let skipped = "change a Skipped reason:SkippedByPerson obeyed:1";
    check(
        &cluster(60, skipped),
        "node a Skipped SkippedByPerson\n ungated a\n > admit b",
    );
    // It is back and rolls: it takes its place again.
    check(
        &cluster(60, skipped).replace("NotReady dark:60", ""),
        "node a Released Ungated\n node b Selected WaitingForTurn",
    );
}

#[test]
fn a_maintenance_that_is_stalled_is_not_waited_for_in_silence() {
    let cluster = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0
             run finalizer
             budget all max:1
             maintenance b name:other {more}
             turn b PreRules of:other"
        )
    };
    check(&cluster(""), "node a Selected BudgetExhausted\n ends a OtherNode");
    check(
        &cluster("stalled"),
        "node a Selected BudgetExhausted\n ends a ClusterAdmin\n node b Selected NodeBusy\n ends b ClusterAdmin",
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
        "hold FailureBudgetSpent ~ Stopped after 1 failed node (spec.failureBudget 1): x; `numo explain x` says why; `numo skip x`",
    );
    check(&cluster("\"50%\"", ""), "hold -");
    check(
        &cluster("\"25%\"", ""),
        "hold FailureBudgetSpent ~ (spec.failureBudget 1)",
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
    // Also of a run that is refused and lets its pools roll, while some still do and once all have.
    let rolls = |more: &str| {
        let cluster = cluster("settled:4.16.0", more);
        cluster.replace("run {}", "run {onRefusal: Roll, maxUnavailable: lots}")
    };
    check(&rolls(""), "problem InvalidField\n ungated a\n > nothing");
    check(
        &rolls("\n node b worker 4.16.0"),
        "phase Refused\n ungated a ~ its pool was not held (spec.onRefusal: Roll)\n > nothing",
    );
    check(
        &cluster("settled:4.16.0", "").replace("run {}", "run {dryRun: true}"),
        "not ungated",
    );
}

/// It went to a version in between while nobody looked, and its rules are asked for the next one only.
#[test]
fn nodes_that_went_to_a_version_in_between_unseen_are_ungated() {
    let cluster = |more: &str| {
        format!(
            "cluster 4.18.0
             pool worker 4.18.0 ours
             node a worker 4.17.0
             node b worker 4.16.0
             run {{}}
             status 4.18.0 settled:4.16.0 {more}"
        )
    };
    check(&cluster(""), "ungated a ~ no rule was evaluated");
    let released = |to: &str, entries: &str| {
        let change = format!("\n change a Done to:{to}/worker={to} pin:{to} entries:{entries}");
        cluster(&change)
    };
    check(&released("4.17.0", "Released,Done"), "not ungated");
    check(&released("4.17.0", "PreRules,Done"), "ungated a");
    // Its rules of another version say nothing of this one.
    check(&released("4.15.0", "Released,Done"), "ungated a");
    check(
        &cluster("").replace("node a worker 4.17.0", "node a worker 4.17.0 age:0"),
        "not ungated",
    );
}

/// A daemon that is stuck, or a taint that an autoscaler left behind, ends by nobody's doing.
#[test]
fn a_wait_that_should_end_by_itself_needs_a_person_after_ten_minutes() {
    for (node, reason) in [
        ("state:Working", "NodeNotDone"),
        ("leaving:autoscaler", "NodeLeaving"),
    ] {
        let cluster = |since: i64| {
            Cluster::parse(&format!(
                "cluster 4.17.0
                 pool worker 4.17.0 ours
                 node a worker 4.16.0 {node}
                 run finalizer {{}}
                 status 4.17.0 waits:{reason}/a/{since}"
            ))
        };
        check_cluster(&cluster(-599), &format!("node a Selected {reason}\n wake 1"));
        assert!(decision(&cluster(-599)).report.wedged().is_none());
        let late = decision(&cluster(-600)).report;
        let (name, node) = late.wedged().unwrap();
        assert_eq!((name, node.why.who()), ("a", Actor::ClusterAdmin));
        assert!(node.why.message.contains("since "), "{}", node.why.message);
    }
}

#[test]
fn a_release_that_is_not_accepted_is_a_persons_matter() {
    let cluster = |more: &str| {
        Cluster::parse(&format!(
            "cluster 4.16.0 asks 4.17.0 {more}
             pool worker 4.16.0 ours
             node a worker 4.16.0
             run finalizer {{}}"
        ))
    };
    let who = |cluster: &Cluster| decision(cluster).report.hold.map(|why| (why.reason, why.who()));
    let updating = Reason::ControlPlaneUpdating;
    assert_eq!(who(&cluster("")), Some((updating, Actor::ClusterItself)));
    assert_eq!(who(&cluster("refused")), Some((updating, Actor::ClusterAdmin)));
    check_cluster(
        &cluster("refused"),
        "hold ControlPlaneUpdating ~ ReleaseAccepted is False (PreconditionChecks: failed)",
    );
}

/// What cannot be rendered, and a control plane that fails, do not end by themselves.
#[test]
fn a_cluster_that_says_what_it_fails_at_is_a_persons_matter() {
    check(
        "cluster 4.16.0 asks 4.17.0 failing
         pool worker 4.16.0 ours
         node a worker 4.16.0
         run finalizer {}",
        "hold ControlPlaneUpdating ~ Failing is True (ClusterOperatorDegraded: etcd)\n ends a ClusterAdmin",
    );
    let rendered = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.16.0 ours {more}
             node a worker 4.16.0
             run finalizer {{}}"
        )
    };
    check(&rendered(""), "hold PoolNotRendered\n ends a ClusterItself");
    check(
        &rendered("render-degraded"),
        "hold PoolNotRendered ~ RenderDegraded is True (MergeFailed: no such kernel argument)\n ends a ClusterAdmin",
    );
}

#[test]
fn nodes_that_left_the_configuration_unseen_are_ungated_with_any_config() {
    let cluster = |a: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0b
             node a worker {a}
             run {{trigger: AnyConfig}}
             status 4.17.0/worker=4.17.0 finished settled:4.17.0 still:rendered-worker-4170
             {more}"
        )
    };
    // A MachineConfig was applied while numo was down: another configuration of the same version.
    check(&cluster("4.17.0b", ""), "ungated a");
    check(&cluster("4.17.0", ""), "not ungated");
    let released = |to: &str| {
        let change = format!("change a Done to:4.17.0/worker={to} pin:{to} entries:Released,Done");
        cluster("4.17.0b", &change)
    };
    check(&released("4.17.0b"), "not ungated");
    // Its rules of the configuration before say nothing of this one.
    check(&released("4.17.0"), "ungated a");
    // Who asks for versions only has the rest rolled by the MCO.
    let of_versions = cluster("4.17.0b", "").replace("{trigger: AnyConfig}", "{}");
    check(&of_versions, "not ungated");
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
        "> admit a",
    );
    check(
        &plan(
            &mutex("\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":30"),
            60,
        ),
        "node a Skipped LeftOutNotReady",
    );
}

#[test]
fn who_says_that_a_node_is_waited_for_is_heard_before_a_binding_that_leaves_it_out() {
    let plan = |first: &str| {
        format!(
            "node a worker v0 NotReady dark:60
             node b worker v0
             plan concurrency:1 cordon finalizer
             binding first spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"order\":\"Name\"{first}}}
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":30}}"
        )
    };
    check(&plan(""), "node a Skipped LeftOutNotReady");
    check(
        &plan(",\"notReadyPolicy\":\"Wait\""),
        "node a Selected NodeNotReady",
    );
}

#[test]
fn a_canary_of_a_plan_that_goes_dark_in_its_turn_keeps_the_others_waiting() {
    let waves =
        r#""waves":[{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}}},{"nodeSelector":{}}]"#;
    let plan = |turn: &str| {
        format!(
            "node a worker v0 label:canary=yes NotReady dark:60
             node b worker v0
             node c worker v0
             plan concurrency:2 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":30,{waves}}}
             {turn}"
        )
    };
    check(
        &plan("begun a Cordoned entered:Admitted entered:Cordoned\n keeps a cordoned"),
        "node b Selected WaitsForWave\n node c Selected WaitsForWave",
    );
    // Before its turn nobody waits for it.
    check(
        &plan(""),
        "node a Skipped LeftOutNotReady\n > admit b\n > admit c",
    );
}
