//! How rules are asked, how often, and what their failure does.

use crate::{
    cluster::{Cluster, at},
    words::{check, check_cluster, decision},
};
use numo_api::{Reason, conditions::Actor};
use numo_core::action::Action;

/// Node a has its turn; `more` says how far it is.
fn in_pre(rules: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0
         {rules}
         run finalizer {{}}
         {more}"
    )
}

#[test]
fn rules_are_asked_one_after_the_other() {
    let rules = "rule first Pre\n rule second Pre";
    check(
        &in_pre(rules, "change a PreRules pin:4.17.0"),
        "node a PreRules RuleStarting\n > job first/Pre/1 of a",
    );
    check(
        &in_pre(
            rules,
            "change a PreRules pin:4.17.0\n job first/Pre/1 of a running",
        ),
        "node a PreRules RuleRunning\n > nothing",
    );
    check(
        &in_pre(
            rules,
            "change a PreRules pin:4.17.0\n job first/Pre/1 of a Complete",
        ),
        "? evidence first/Pre/1 of a\n > nothing",
    );
    check(
        &in_pre(
            rules,
            "change a PreRules pin:4.17.0\n job first/Pre/1 of a Complete read",
        ),
        "> journal a verdict first/Pre/1 Pass",
    );
    check(
        &in_pre(rules, "change a PreRules pin:4.17.0 verdict:first/Pre/1/Pass"),
        "> job second/Pre/1 of a",
    );
    check(
        &in_pre(
            rules,
            "change a PreRules pin:4.17.0 verdict:first/Pre/1/Pass\n job second/Pre/1 of a Complete read",
        ),
        "> journal a verdict second/Pre/1 Pass PreRelease",
    );
}

#[test]
fn the_order_is_that_of_the_spec() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule first Pre
         rule second Pre
         run finalizer {mutexRules: [{name: second}, {name: first}, {name: second}]}
         change a PreRules pin:4.17.0",
        "> job second/Pre/1 of a",
    );
}

#[test]
fn pre_release_rules_come_after_pre_rules_and_the_gates() {
    let rules = "rule early Pre\n rule late PreRelease";
    check(
        &in_pre(rules, "change a PreRelease pin:4.17.0 verdict:early/Pre/1/Pass"),
        "> job late/PreRelease/1 of a",
    );
    let cordoned = in_pre(rules, "change a PreRelease pin:4.17.0 verdict:early/Pre/1/Pass")
        .replace("node a worker 4.16.0 turn", "node a worker 4.16.0 turn cordoned");
    check(
        &cordoned,
        "node a PreRelease CordonedByOther\n > journal a closed",
    );
}

/// As before its release: it could not be let go, and what its rules do would be done in vain.
#[test]
fn no_rule_is_begun_for_a_node_that_is_not_fit_to_be_let_go() {
    let cluster = |node: &str, more: &str| {
        let rules = "rule early Pre\n rule late PreRelease";
        in_pre(rules, &format!("change a PreRules pin:4.17.0\n {more}")).replace(
            "node a worker 4.16.0 turn",
            &format!("node a worker 4.16.0 turn {node}"),
        )
    };
    check(&cluster("", ""), "> job early/Pre/1 of a");
    for (node, reason) in [
        ("cordoned", "CordonedByOther"),
        ("NotReady", "NodeNotReady"),
        ("state:Degraded", "NodeDegraded"),
    ] {
        check(
            &cluster(node, ""),
            &format!("node a PreRules {reason}\n > journal a closed"),
        );
        // What was begun comes to its end.
        check(
            &cluster(node, "job early/Pre/1 of a Complete read"),
            "> journal a verdict early/Pre/1 Pass PreRelease",
        );
    }
}

#[test]
fn a_failed_job_is_tried_again_as_often_as_the_rule_says() {
    let rules = "rule backup Pre retries:1";
    check(
        &in_pre(
            rules,
            "change a PreRules pin:4.17.0\n job backup/Pre/1 of a Failed read",
        ),
        "> journal a verdict backup/Pre/1 Failure",
    );
    check(
        &in_pre(rules, "change a PreRules pin:4.17.0 verdict:backup/Pre/1/Failure"),
        "> job backup/Pre/2 of a",
    );
    let failed = "change a PreRules pin:4.17.0 verdict:backup/Pre/1/Failure verdict:backup/Pre/2/Failure";
    check(
        &in_pre(rules, failed),
        "node a Held RuleFailed
         > journal a Held RuleFailed",
    );
    check(
        &in_pre(&format!("{rules} policy:Abort"), failed),
        "> journal a Failed RuleFailed",
    );
    check(
        &in_pre(&format!("{rules} policy:Skip"), failed),
        "node a Skipped SkippedByPolicy\n > journal a Skipped SkippedByPolicy",
    );
    // Before the release there is nothing to pass over.
    check(
        &in_pre(&format!("{rules} policy:Continue"), failed),
        "> journal a Held RuleFailed",
    );
}

#[test]
fn a_held_node_stays_held_and_writes_nothing() {
    check(
        &in_pre(
            "rule backup Pre",
            "change a Held pin:4.17.0 verdict:backup/Pre/1/Failure reason:RuleFailed",
        ),
        "node a Held RuleFailed ~ `numo retry a`
         node b Selected FailureBudgetSpent
         > nothing",
    );
}

#[test]
fn on_failure_rules_run_before_the_policy() {
    let rules = "rule backup Pre policy:Abort\n rule tell OnFailure";
    let failed = "change a PreRules pin:4.17.0 verdict:backup/Pre/1/Failure";
    check(&in_pre(rules, failed), "> job tell/OnFailure/1 of a");
    check(
        &in_pre(
            rules,
            &format!("{failed}\n job tell/OnFailure/1 of a Failed read"),
        ),
        "> journal a verdict tell/OnFailure/1 Failure",
    );
    check(
        &in_pre(rules, &format!("{failed} verdict:tell/OnFailure/1/Failure")),
        "> journal a Failed RuleFailed",
    );
    check(
        &in_pre(rules, &format!("{failed} verdict:tell/OnFailure/1/Pass")),
        "> journal a Failed RuleFailed",
    );
}

/// The same for the nodes of every owner: what a failure means is one rule.
#[test]
fn a_rule_that_fails_means_the_same_for_a_plan_and_a_maintenance() {
    let kept = |policy: &str, turn: &str| {
        format!(
            "node a worker 4.16.0
             rule backup Pre {policy}
             rule tell OnFailure
             maintenance a finalizer phase:Running rule:backup rule:tell
             kept a
             turn a {turn}"
        )
    };
    let planned = |policy: &str, turn: &str| {
        format!(
            "node a worker v0
             rule backup Pre {policy}
             rule tell OnFailure
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"backup\"}},{{\"name\":\"tell\"}}]}}
             plan concurrency:1 finalizer
             begun a {turn}
             keeps a"
        )
    };
    let failed = "PreRules verdict:backup/Pre/1/Failure";
    let told = "PreRules verdict:backup/Pre/1/Failure verdict:tell/OnFailure/1/Failure";
    for owner in [&kept as &dyn Fn(&str, &str) -> String, &planned] {
        check(
            &owner("", failed),
            "node a Held RuleFailed\n > job tell/OnFailure/1 of a",
        );
        check(
            &owner("", told),
            "node a Held RuleFailed\n > journal a Held RuleFailed",
        );
        let held = told.replace("PreRules", "Held reason:RuleFailed");
        check(
            &owner("", &held),
            "node a Held RuleFailed ~ `numo retry a`\n > nothing",
        );
        check(&owner("policy:Skip", told), "node a Skipped SkippedByPolicy");
    }
    check(&planned("policy:Abort", told), "> journal a Held Aborted");
}

#[test]
fn an_abort_gives_the_run_up() {
    check(
        &in_pre(
            "rule backup Pre",
            "change a Failed pin:4.17.0 verdict:backup/Pre/1/Failure reason:RuleFailed",
        ),
        "phase Leaving
         hold Aborted
         result Aborted
         node a Failed RuleFailed
         node b Selected Aborted
         > unshield a
         > release lease a
         > hold worker with 2 outdated",
    );
}

#[test]
fn a_skipped_node_lets_the_next_one_go() {
    check(
        &in_pre(
            "rule backup Pre",
            "change a Skipped pin:4.17.0 verdict:backup/Pre/1/Failure reason:SkippedByPolicy",
        ),
        "node a Skipped SkippedByPolicy
         > unshield a
         > release lease a
         > admit b",
    );
}

#[test]
fn a_job_without_an_end_is_a_failure_after_its_timeout() {
    let job = |created: i64| {
        in_pre(
            "rule backup Pre timeout:100",
            &format!("change a PreRules pin:4.17.0\n job backup/Pre/1 of a running created:{created}"),
        )
    };
    // 60 s of grace for the Job controller.
    check(&job(-159), "node a PreRules RuleRunning\n wake 1\n > nothing");
    check(&job(-160), "> journal a verdict backup/Pre/1 Failure");
}

#[test]
fn a_job_that_cannot_start_says_so() {
    check(
        &in_pre(
            "rule backup Pre",
            "change a PreRules pin:4.17.0\n job backup/Pre/1 of a running trouble:ImagePullBackOff",
        ),
        "node a PreRules RuleJobCannotStart ~ ImagePullBackOff\n > nothing",
    );
}

#[test]
fn a_refused_job_is_tried_again_until_the_timeout() {
    let refused = |rest: &str| {
        in_pre(
            "rule backup Pre timeout:100",
            &format!("change a PreRules pin:4.17.0 {rest}"),
        )
    };
    check(
        &refused("\n refused backup/Pre/1 of a 403 at:-2"),
        "node a PreRules JobsForbidden\n wake 3\n > nothing",
    );
    check(
        &refused("\n refused backup/Pre/1 of a 422 at:-2"),
        "node a PreRules RuleJobCannotStart\n > nothing",
    );
    check(
        &refused("\n refused backup/Pre/1 of a 403 at:-5"),
        "> job backup/Pre/1 of a",
    );
    check(
        &refused("since:-101\n refused backup/Pre/1 of a 403"),
        "> journal a verdict backup/Pre/1 Failure",
    );
}

#[test]
fn the_time_of_a_refused_job_begins_with_the_last_verdict() {
    // The first rule ran for 50 minutes; the second one was refused a second ago.
    check(
        &in_pre(
            "rule first Pre\n rule second Pre timeout:100",
            "change a PreRules pin:4.17.0 since:-3000 verdict:first/Pre/1/Pass
             refused second/Pre/1 of a 403",
        ),
        "node a PreRules JobsForbidden\n > nothing",
    );
}

#[test]
fn rule_pods_keep_away_from_the_other_nodes_in_flight() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.17.0 turn
         rule backup Pre
         run finalizer {maxUnavailable: 2}
         change a PreRules pin:4.17.0
         change b Soaked pin:4.17.0 entries:PreRules,Released,Soaked",
        "> job backup/Pre/1 of a avoid b\n > journal b Done",
    );
}

#[test]
fn a_job_of_an_earlier_attempt_is_not_taken_for_one_of_this() {
    // The first attempt was given up while its Job ran; nobody wrote its end down.
    let again = in_pre(
        "rule backup Pre",
        "change a PreRules pin:4.17.0 attempt:2\n job backup/Pre/1 of a Complete read",
    );
    check(&again, "> job backup/Pre/1 of a");
    check(
        &format!("{again}\n job backup/Pre/1 of a Complete read round:2"),
        "> journal a verdict backup/Pre/1 Pass PreRelease",
    );
}

#[test]
fn what_runs_is_written_down_while_the_gates_are_closed() {
    let cordoned = in_pre(
        "rule late PreRelease",
        "change a PreRelease pin:4.17.0\n job late/PreRelease/1 of a Failed read",
    )
    .replace("node a worker 4.16.0 turn", "node a worker 4.16.0 turn cordoned");
    check(&cordoned, "> journal a verdict late/PreRelease/1 Failure");
}

#[test]
fn a_job_of_the_run_itself_stays_until_its_verdict() {
    // Given up for a while: it will be asked for again.
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0
             node a worker 4.16.0
             rule start PreRun
             run finalizer {run} {{}}
             status 4.17.0
             job start/PreRun/1 of - Complete"
        )
    };
    check(&cluster("aborted 4.17.0"), "> finalizer 1 off");
    check(
        &cluster("deleting"),
        "> ttl start/PreRun/1 of - 86400\n > finalizer 1 off",
    );
}

#[test]
fn jobs_without_a_verdict_go_with_the_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0
         rule backup Pre
         run finalizer {}
         status 4.17.0
         change a Skipped
         job backup/Pre/1 of a Complete
         job backup/Pre/2 of a running
         job backup/Pre/3 of a Complete ttl:60",
        "> ttl backup/Pre/2 of a 86400
         > ttl backup/Pre/1 of a 86400
         > finalizer 1 off",
    );
}

#[test]
fn a_job_that_is_being_deleted_has_no_verdict() {
    check(
        &in_pre(
            "rule backup Pre",
            "change a PreRules pin:4.17.0\n job backup/Pre/1 of a Complete read deleting",
        ),
        "node a PreRules JobBeingDeleted\n ends a ClusterItself\n > nothing",
    );
    // However long its step has gone on: it is being deleted for a moment only.
    check(
        &in_pre(
            "rule backup Pre",
            "change a PreRules pin:4.17.0 since:-3600\n job backup/Pre/1 of a running deleting",
        ),
        "node a PreRules JobBeingDeleted\n ends a ClusterItself\n > nothing",
    );
    check(
        &in_pre(
            "rule backup Pre",
            "change a PreRules pin:4.17.0\n job backup/Pre/1 of a running deleting deleting-since:-600",
        ),
        "node a PreRules JobBeingDeleted ~ it has been so since\n ends a ClusterAdmin\n > nothing",
    );
}

/// Nobody heard of a Job that a finalizer keeps while no node had its turn yet.
#[test]
fn a_job_of_the_run_that_is_deleted_and_does_not_go_is_a_persons_after_a_while() {
    let with = |since: i64| {
        let text = format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             rule start PreRun
             run {{}} finalizer
             status 4.17.0
             job start/PreRun/1 of - running deleting deleting-since:{since}"
        );
        decision(&Cluster::parse(&text))
    };
    let found = with(-599);
    let hold = found.report.hold.expect("a hold");
    assert_eq!(
        (hold.reason, hold.who()),
        (Reason::JobBeingDeleted, Actor::ClusterItself)
    );
    assert_eq!(found.wake_at, Some(at(1)), "a person hears of it in time");
    let found = with(-600);
    let hold = found.report.hold.expect("a hold");
    assert_eq!(
        (hold.reason, hold.who()),
        (Reason::JobBeingDeleted, Actor::ClusterAdmin)
    );
    for words in [
        "Job numo/",
        "rule numo/start, phase PreRun",
        "it has been so since",
        "finalizers",
    ] {
        assert!(hold.message.contains(words), "{}", hold.message);
    }
    let why = &found.report.nodes["a"].why;
    assert_eq!(why.who(), Actor::ClusterAdmin, "{}", why.message);
}

#[test]
fn jobs_go_once_their_verdict_is_in_the_journal() {
    let mut cluster = Cluster::parse(&in_pre(
        "rule backup Pre,PreRelease",
        "change a PreRelease pin:4.17.0 verdict:backup/Pre/1/Pass
         job backup/Pre/1 of a Complete wants-ttl:7",
    ));
    let job = cluster.observed.jobs.keys().next().expect("a Job").to_string();
    let change = cluster.observed.changes.values_mut().next().expect("a change");
    change.status.verdicts[0].job = Some(job);
    check_cluster(
        &cluster,
        "> job backup/PreRelease/1 of a\n > ttl backup/Pre/1 of a 7",
    );
    let job = cluster.observed.jobs.values_mut().next().expect("a Job");
    job.wanted_ttl_seconds = None;
    check_cluster(
        &cluster,
        "> job backup/PreRelease/1 of a\n > ttl backup/Pre/1 of a 86400",
    );
    let job = cluster.observed.jobs.values_mut().next().expect("a Job");
    job.ttl_seconds = Some(0);
    check_cluster(&cluster, "> job backup/PreRelease/1 of a");
}

#[test]
fn nothing_begins_while_the_run_is_suspended() {
    let suspended = |rules: &str, more: &str| in_pre(rules, more).replace("{}", "{suspend: true}");
    check(
        &suspended("rule backup Pre", "change a PreRules pin:4.17.0"),
        "node a PreRules Suspended\n > journal a closed",
    );
    // What runs already is still written down.
    check(
        &suspended(
            "rule backup Pre",
            "change a PreRules pin:4.17.0\n job backup/Pre/1 of a Complete read",
        ),
        "> journal a verdict backup/Pre/1 Pass PreRelease",
    );
    check(
        &suspended("", "change a PreRelease pin:4.17.0"),
        "node a PreRelease Suspended\n > journal a closed",
    );
}

#[test]
fn a_rule_that_is_gone_holds_the_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         run finalizer {mutexRules: [{name: gone}]}
         change a PreRules pin:4.17.0",
        "hold RuleNotFound
         node a PreRules RuleNotFound
         > journal a closed",
    );
}

#[test]
fn pods_of_pre_run_rules_keep_away_from_nodes_in_flight() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.17.0 turn
         rule start PreRun
         run finalizer {}
         change b Soaked pin:4.17.0 entries:PreRules,Released,Soaked",
        "> journal b Done
         > job start/PreRun/1 of - avoid b",
    );
}

#[test]
fn pre_run_rules_pass_before_the_first_node() {
    let cluster = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             rule start PreRun
             run finalizer {{}}
             {more}"
        )
    };
    check(
        &cluster(""),
        "hold RuleStarting\n node a Selected RuleStarting\n > job start/PreRun/1 of -",
    );
    // A backup on Monday is of no use for an upgrade on Saturday. One that runs is brought to its end.
    let closed = r#"{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}"#;
    let own = |more: &str| {
        cluster(more).replace(
            "run finalizer {}",
            &format!("run finalizer {{\"window\":{closed}}}"),
        )
    };
    check(&own(""), "hold OutsideWindow\n > nothing");
    check(
        &own("job start/PreRun/1 of - running"),
        "hold RuleRunning\n > nothing",
    );
    check(
        &cluster(&format!("window nights {closed}")),
        "hold OutsideWindow ~ MutexWindow nights\n > nothing",
    );
    // A node that a person left out, and that no window selects, does not open the hours of the others.
    let zone = r#""nodeSelector":{"matchLabels":{"topology.kubernetes.io/zone":"z0"}}"#;
    let of_zone = closed.replacen('{', &format!("{{{zone},"), 1);
    let left_out = format!(
        "window nights {of_zone}\n node b worker 4.16.0 zone:z1\n change b Skipped reason:SkippedByPerson"
    );
    check(
        &cluster(&left_out).replace("node a worker 4.16.0", "node a worker 4.16.0 zone:z0"),
        "hold OutsideWindow ~ MutexWindow nights\n > nothing",
    );
    // Nor is it of use days before somebody has approved the run.
    let unapproved = |more: &str| {
        cluster(more).replace(
            "run finalizer {}",
            "run finalizer {\"approval\":{\"begin\":\"Manual\"}}",
        )
    };
    check(&unapproved(""), "hold WaitsForApproval\n > nothing");
    check(
        &unapproved("job start/PreRun/1 of - running"),
        "hold RuleRunning\n > nothing",
    );
    check(
        &cluster("job start/PreRun/1 of - running"),
        "hold RuleRunning\n > nothing",
    );
    check(
        &cluster("job start/PreRun/1 of - Complete"),
        "hold RuleRunning\n ? evidence start/PreRun/1 of -\n > nothing",
    );
    check(
        &cluster("job start/PreRun/1 of - Complete read"),
        "hold RuleRunning\n > record start/PreRun/1 Pass",
    );
    check(
        &cluster("job start/PreRun/1 of - Failed read"),
        "hold RuleRunning\n > record start/PreRun/1 Failure",
    );
    check(
        &cluster("status 4.17.0 verdict:start/PreRun/1/Failure"),
        "hold RuleFailed\n node a Selected RuleFailed\n > nothing",
    );
    check(&cluster("status 4.17.0 verdict:start/PreRun/1/Pass"), "> admit a");
    // Until the first node is begun its Pass grows old, and one of an earlier edition of the rule never counts.
    let again = "> job start/PreRun/2 of -";
    check(&cluster("status 4.17.0 verdict:start/PreRun/1/Pass~601"), again);
    check(&cluster("status 4.17.0 verdict:start/PreRun/1/Pass^2"), again);
    let begun = |verdict: &str| {
        let lines = format!(
            "status 4.17.0 verdict:start/PreRun/1/{verdict}\n node x worker 4.17.0\n change x Done pin:4.17.0 entries:PreRules,Released,Done"
        );
        cluster(&lines)
    };
    check(&begun("Pass~601"), "> admit a");
    check(&begun("Pass^2"), again);
    // Another run's verdict is not this run's.
    check(
        &cluster("status 4.16.0 verdict:start/PreRun/1/Pass"),
        "> job start/PreRun/1 of -",
    );
}

/// A Pass grows old before the first node is begun, and is asked for again once a node could begin: while none can, for days
/// perhaps, each Job would be made for nothing.
#[test]
fn a_pre_run_rule_is_not_asked_again_while_no_node_can_begin() {
    let cluster = |run: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             rule start PreRun
             run finalizer {run}
             status 4.17.0 verdict:start/PreRun/1/Pass~601
             {more}"
        )
    };
    let monday = r#"{"window":{"openings":[{"days":["mon"],"startTime":"22","endTime":"23"}]}}"#;
    check(
        &cluster(monday, "node a worker 4.16.0"),
        "hold OutsideWindow\n node a Selected OutsideWindow\n > nothing",
    );
    check(
        &cluster("{}", "node a worker 4.16.0 cordoned"),
        "node a Selected CordonedByOther\n > nothing",
    );
    // One that was begun to be asked comes to its end, whatever has closed since.
    check(
        &cluster(
            monday,
            "node a worker 4.16.0\n job start/PreRun/2 of - Complete read",
        ),
        "hold RuleRunning\n > record start/PreRun/2 Pass",
    );
    // It is asked once for all nodes that could begin.
    check(
        &cluster(
            "{maxUnavailable: 2}",
            "node a worker 4.16.0\n node b worker 4.16.0",
        ),
        "hold RuleStarting
         node a Selected RuleStarting
         node b Selected RuleStarting
         > job start/PreRun/2 of -",
    );
}

/// What the run asked once stands as it is now, also for a node that has its turn.
#[test]
fn a_pre_run_rule_that_no_longer_stands_holds_nodes_in_flight() {
    let cluster = |verdict: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule start PreRun
             run finalizer {{}}
             status 4.17.0 {verdict}
             change a PreRelease pin:4.17.0
             drain a free
             {more}"
        )
    };
    let release = "> release a rendered-worker-4170";
    check(&cluster("verdict:start/PreRun/1/Pass", ""), release);
    check(&cluster("verdict:start/PreRun/1/Pass~99999", ""), release);
    // Edited since: it is asked again, and nobody is let go meanwhile.
    check(
        &cluster("verdict:start/PreRun/1/Pass^2", ""),
        "node a PreRelease RuleRunning\n > journal a closed\n > job start/PreRun/2 of - avoid a",
    );
    check(
        &cluster("verdict:start/PreRun/1/Pass^2 verdict:start/PreRun/2/Failure", ""),
        "node a PreRelease RuleFailed\n hold RuleFailed\n > journal a closed",
    );
    // Its age sends nobody back who has a turn.
    check(
        &cluster("verdict:start/PreRun/1/Pass~99999", "")
            .replace("change a PreRelease pin:4.17.0", "change a Admitted"),
        "> journal a PreRules",
    );
    // A rule that was added in mid-run holds the nodes that come after.
    check(
        &cluster("", ""),
        &format!("hold RuleStarting\n {release}\n > job start/PreRun/1 of - avoid a"),
    );
}

#[test]
fn a_failed_rule_of_the_run_holds_it_gives_it_up_or_is_asked_again() {
    let cluster = |policy: &str, run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             rule start PreRun {policy}
             run finalizer {run} {{}}
             status 4.17.0 verdict:start/PreRun/1/Failure"
        )
    };
    check(
        &cluster("", ""),
        "phase Active\n hold RuleFailed ~ numo retry -n numo mutexrunconfig/run\n > nothing",
    );
    check(
        &cluster("policy:Abort", ""),
        "phase Leaving\n hold Aborted ~ numo retry\n result Aborted\n > hold worker with 1 outdated",
    );
    check(&cluster("", "retried 4.17.0/2"), "> job start/PreRun/2 of -");
    check(
        &cluster("policy:Abort", "retried 4.17.0/2"),
        "> job start/PreRun/2 of -",
    );
    // What a person asked of an earlier run is not asked of this one.
    check(&cluster("", "retried 4.16.0/2"), "hold RuleFailed\n > nothing");
    check(&cluster("", "retried 4.17.0/none"), "hold RuleFailed\n > nothing");
}

#[test]
fn a_refused_job_of_the_run_is_given_up_after_its_timeout() {
    let cluster = |timeout: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             rule start PreRun timeout:{timeout}
             run finalizer {{}}
             status 4.17.0
             refused start/PreRun/1 of - 403"
        )
    };
    check(
        &cluster("900").replace("403", "403 quota"),
        "hold RuleJobCannotStart\n > nothing",
    );
    // The API server was not there: nobody's fault, and asked again.
    check(
        &cluster("900").replace("403", "0 quota"),
        "hold RuleStarting ~ not written yet\n > nothing",
    );
    // The run began 600 s ago.
    check(&cluster("900"), "hold JobsForbidden\n > nothing");
    check(&cluster("500"), "> record start/PreRun/1 Failure");
}

#[test]
fn pre_run_rules_wait_for_the_control_plane() {
    check(
        "cluster 4.17.0 Partial
         pool worker 4.16.0 ours
         node a worker 4.16.0
         rule start PreRun
         run finalizer {}",
        "hold ControlPlaneUpdating\n > nothing",
    );
}

#[test]
fn post_run_rules_come_before_the_pools_are_restored_and_hold_nothing() {
    let cluster = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0
             rule end PostRun
             run finalizer {{}}
             change a Done
             {more}"
        )
    };
    check(&cluster(""), "> job end/PostRun/1 of -");
    check(
        &cluster("job end/PostRun/1 of - Failed read"),
        "> record end/PostRun/1 Failure",
    );
    for verdict in ["Pass", "Failure"] {
        check(
            &cluster(&format!("status 4.17.0 verdict:end/PostRun/1/{verdict}")),
            "result Succeeded\n > unpause worker",
        );
    }
}

#[test]
fn verdicts_of_a_run_are_bounded() {
    let mut cluster = Cluster::parse(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule start PreRun retries:10
         run finalizer {}
         status 4.17.0 verdict:start/PreRun/1/Failure
         job start/PreRun/2 of - Failed read",
    );
    let run = cluster
        .observed
        .runs
        .get_mut(&crate::cluster::run_key())
        .expect("the run");
    let verdicts = &mut run.status.run.as_mut().expect("a status").verdicts;
    let old = verdicts[0].clone();
    for number in 0..31 {
        let mut other = old.clone();
        other.rule = format!("numo/other-{number}");
        other.at = at(-60).to_string();
        verdicts.insert(0, other);
    }
    assert_eq!(verdicts.len(), 32);
    let decision = decision(&cluster);
    let Some(Action::RecordRun { run, .. }) = decision.actions.first().map(|planned| &planned.action) else {
        panic!("{:?}", decision.actions)
    };
    assert_eq!(run.verdicts.len(), 32);
    assert_eq!(run.verdicts.last().map(|verdict| verdict.attempt), Some(2));
}

/// Of runs, Plans and the maintenances of a binding alike.
#[test]
fn nodes_with_the_same_value_of_a_mutex_key_never_have_a_turn_together() {
    let nodes =
        "node a worker v0 label:shard=1\n node b worker v0 label:shard=1\n node c worker v0 label:shard=2";
    let binding = |kind: &str| {
        format!("binding gate spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},\"mutexKeys\":[\"shard\"]}}")
    };
    check(
        &format!(
            "{nodes}\n {}\n plan concurrency:3 finalizer\n begun a PreRules\n keeps a",
            binding("Plan")
        ),
        "node b Selected MutexKeyBusy ~ Node a with the same shard=1 is in flight
         node c Admitted Admitting",
    );
    let kept = |node: &str| {
        format!(
            "{}\n {}\n maintenance {node} finalizer\n maintenance b name:other created:-200 finalizer\n turn b Drained of:other",
            nodes.replace("v0", "4.16.0"),
            binding("NodeMaintenance")
        )
    };
    check(
        &kept("a"),
        "hold MutexKeyBusy ~ Node b with the same shard=1 is in maintenance\n > nothing",
    );
    check(&kept("c"), "> admit c");
}
