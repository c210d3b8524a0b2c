//! A turn that is closed before its first disruption is given back after a minute, and stands behind the others: of every
//! owner.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster},
};

const PASSED: &str = "verdict:disk/Pre/1/Pass";

/// Node a has its turn; `run` is the spec and what is said of the run.
fn in_turn(run: &str, change: &str, more: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0 age:20
         rule disk Pre
         run finalizer {run}
         change a PreRelease pin:4.17.0 {PASSED} {change}
         {more}"
    )
}

#[test]
fn a_closed_turn_is_restored_after_a_minute_and_begins_anew() {
    check(
        &in_turn("{suspend: true}", "", ""),
        "node a PreRelease Suspended\n wake 60\n > journal a closed",
    );
    check(
        &in_turn("{suspend: true}", "closed:59", ""),
        "node a PreRelease Suspended\n wake 1\n > nothing",
    );
    check(
        &in_turn("{suspend: true}", "closed:60", ""),
        "node a Selected Suspended\n > journal a Selected Suspended attempt 2",
    );
    // What it held goes with it.
    check(
        &in_turn("{suspend: true}", "", "")
            .replace(
                "a PreRelease pin:4.17.0",
                "a Selected reason:Suspended attempt:2 closed:5",
            )
            .replace("verdict:disk/Pre/1/Pass", ""),
        "node a Selected Suspended\n > unshield a\n > release lease a",
    );
}

#[test]
fn a_closed_turn_is_not_restored_under_a_job_that_goes() {
    check(
        &in_turn(
            "{suspend: true}",
            "closed:600",
            "job disk/Pre/1 of a running deleting",
        )
        .replace(PASSED, ""),
        "node a PreRules JobBeingDeleted\n > nothing",
    );
}

#[test]
fn a_rule_that_is_gone_keeps_no_turn() {
    let lost = |closed: &str| {
        in_turn("{mutexRules: [{name: disk}]}", closed, "")
            .replace("rule disk Pre\n", "")
            .replace(PASSED, "")
    };
    check(&lost(""), "node a PreRules RuleNotFound\n > journal a closed");
    check(
        &lost("closed:60"),
        "node a Selected RuleNotFound\n > journal a Selected RuleNotFound attempt 2",
    );
}

#[test]
fn a_job_that_runs_keeps_its_turn_until_it_ends() {
    // Nobody else is to have the node under it.
    check(
        &in_turn("{suspend: true}", "closed:60", "job disk/Pre/1 of a running").replace(PASSED, ""),
        "node a PreRules RuleRunning\n > nothing",
    );
}

#[test]
fn a_list_that_fails_gives_no_turn_back() {
    check(
        &in_turn("{}", "closed:600", "unlisted machineconfigs"),
        "node a PreRelease ListFailed\n > nothing",
    );
}

#[test]
fn what_was_never_listed_ends_no_turn() {
    // A new leader whose API server does not serve the kind for a moment: nobody knows of a version, or of a pool.
    for (lost, kind) in [
        ("cluster 4.17.0", "clusterversions"),
        ("pool worker 4.17.0 ours", "machineconfigpools"),
    ] {
        let blind = in_turn("{}", "closed:600", &format!("absent {kind}")).replace(lost, "");
        check(&blind, "hold ListFailed\n > nothing");
    }
}

#[test]
fn a_version_that_nobody_knows_is_not_another_version() {
    let unknown = in_turn("{}", "", "").replace("cluster 4.17.0", "cluster nonsense");
    check(
        &unknown,
        "hold InvalidVersion\n node a PreRelease InvalidVersion\n > journal a closed",
    );
}

#[test]
fn a_turn_that_goes_on_is_closed_no_more() {
    check(
        &in_turn("{}", "closed:30", ""),
        "> release a rendered-worker-4170",
    );
    // A rule runs: the minute begins anew when something closes it again.
    check(
        &in_turn("{}", "closed:30", "job disk/Pre/1 of a running").replace(PASSED, ""),
        "node a PreRules RuleRunning\n > journal a open",
    );
}

#[test]
fn one_budget_of_pods_does_not_stop_the_fleet() {
    // b is younger, and has its turn before a, which stands back.
    let back = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0 age:5
             run finalizer {{}}
             change a Selected reason:DrainBlocked attempt:2 closed:300
             {more}"
        )
    };
    check(
        &in_turn("{}", "closed:60", "drain a blocked"),
        "node a Selected DrainBlocked ~ shop/db-0
         > journal a Selected DrainBlocked attempt 2",
    );
    check(
        &in_turn("{}", "", "unlisted poddisruptionbudgets"),
        "node a PreRelease DrainBlocked ~ poddisruptionbudgets cannot be listed any more\n > journal a closed",
    );
    check(&back(""), "node a Selected WaitingForTurn\n > admit b");
    // Alone, it is probed without a turn, and has one once the probe passes.
    let alone = |more: &str| back(more).replace("node b worker 4.16.0", "node b worker 4.17.0");
    let mut unprobed = Cluster::parse(&alone(""));
    unprobed.answers.drains.clear();
    check_cluster(
        &unprobed,
        "node a Selected DrainBlocked\n ? drain a\n wake 15\n > nothing",
    );
    check(
        &alone("drain a blocked"),
        "node a Selected DrainBlocked ~ shop/db-0\n > nothing",
    );
    check(&alone("drain a free"), "> journal a Admitted Admitting");
}

#[test]
fn a_drain_that_cannot_pass_is_known_before_the_last_rules_run() {
    let late =
        |more: &str| in_turn("{}", "", more).replace("rule disk Pre", "rule disk Pre\n rule late PreRelease");
    check(
        &late("drain a blocked"),
        "node a PreRelease DrainBlocked\n > journal a closed",
    );
    check(&late("drain a free"), "> job late/PreRelease/1 of a");
    // And after them once more.
    check(
        &late("drain a blocked").replace(PASSED, &format!("{PASSED} verdict:late/PreRelease/1/Pass")),
        "node a PreRelease DrainBlocked\n > journal a closed",
    );
}

#[test]
fn plans_and_maintenances_know_a_drain_that_cannot_pass_before_the_last_rules_run() {
    let kept = |more: &str| {
        format!(
            "node a worker 4.16.0
             rule late PreRelease
             maintenance a finalizer phase:Running counted:9 rule:late drain {{\"probe\":true}}
             kept a
             turn a Admitted
             pod web on a of:ReplicaSet/web
             {more}"
        )
    };
    let planned = |more: &str| {
        format!(
            "node a worker v0
             rule late PreRelease
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"late\"}}]}}
             plan concurrency:1 drain finalizer applying:a
             begun a Admitted
             keeps a
             pods a
             {more}"
        )
    };
    for at in [&kept as &dyn Fn(&str) -> String, &planned] {
        check(
            &at("drain a blocked"),
            "node a PreRelease DrainBlocked\n > journal a closed",
        );
        check(&at("drain a free"), "> job late/PreRelease/1 of a");
    }
}

#[test]
fn a_pass_that_grows_old_does_not_keep_a_turn_that_the_drain_closes() {
    // Asked again each time, its rules would begin the minute anew for ever.
    let old = |more: &str| in_turn("{}", "closed:60", more).replace(PASSED, &format!("{PASSED}~601"));
    check(
        &old("drain a blocked"),
        "node a Selected DrainBlocked
         > journal a Selected DrainBlocked attempt 2",
    );
    check(&old("drain a free"), "> job disk/Pre/2 of a");
    let kept = |more: &str| {
        format!(
            "node a worker 4.16.0
             rule disk Pre
             maintenance a finalizer phase:Running counted:9 rule:disk drain {{\"probe\":true}}
             kept a
             turn a PreRules closed:60 verdict:disk/Pre/1/Pass~601
             pod web on a of:ReplicaSet/web
             {more}"
        )
    };
    check(
        &kept("drain a blocked"),
        "hold DrainBlocked\n > journal a Selected DrainBlocked attempt 2",
    );
    check(&kept("drain a free"), "> job disk/Pre/2 of a");
}

#[test]
fn a_node_that_was_released_keeps_its_turn_whatever_is_closed() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 turn
         run finalizer {suspend: true}
         change a Released pin:4.17.0 entries:PreRules,Released closed:999",
        "node a Released Changing\n > nothing",
    );
}

#[test]
fn two_plans_that_wait_for_each_other_do_not_share_a_budget_for_ever() {
    // The agent has the only place of the budget, and waits for the servers, which wait for the place.
    let agents = |turn: &str| {
        format!(
            "node s master v0
             node w worker v0
             budget all max:1
             plan concurrency:1 cordon finalizer spec {{\"prepare\":{{\"image\":\"i\",\"args\":[\"prepare\",\"servers\"]}}}}
             other-plan servers
             begun w new {turn}
             keeps w"
        )
    };
    check(
        &agents("closed:60"),
        "node w Selected WaitsForPlan\n > journal w Selected WaitsForPlan attempt 2",
    );
}

/// The servers' version is changed while a node of the agents is cordoned: the servers wait for the only place of the budget,
/// which the agent keeps until it is done. It was prepared before; its upgrade waits for nobody.
#[test]
fn a_cordoned_node_of_a_plan_that_waits_for_another_one_is_brought_to_its_end() {
    let agents = |turn: &str| {
        format!(
            "node s master v0
             node w worker v0
             budget all max:1
             plan concurrency:1 cordon drain finalizer applying:w spec {{\"prepare\":{{\"image\":\"i\",\"args\":[\"prepare\",\"servers\"]}},\"upgrade\":{{\"image\":\"u\"}}}}
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
             other-plan servers
             begun w {turn}
             keeps w cordoned"
        )
    };
    check(
        &agents("Cordoned\n pod web on w of:ReplicaSet/web"),
        "node w Cordoned Draining\n > evict web",
    );
    check(&agents("Drained entered:Cordoned\n pods w"), "> job w Upgrade");
}

#[test]
fn a_maintenance_gives_its_turn_back_too() {
    let cluster = |turn: &str, more: &str| {
        format!(
            "node a worker 4.16.0
             maintenance a finalizer phase:Running
             kept a
             turn a {turn}
             {more}"
        )
    };
    let stopped = "budget all max:9 paused";
    check(&cluster("PreRules", stopped), "hold Stopped\n > journal a closed");
    check(
        &cluster("PreRules closed:60", stopped),
        "hold Stopped\n > journal a Selected Stopped attempt 2",
    );
    check(
        &cluster("Selected reason:Stopped closed:5", stopped),
        "hold Restoring\n > unshield a\n > release lease a",
    );
}
