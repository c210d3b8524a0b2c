//! The release, what comes after it, and what a person can say meanwhile (strategy DesiredConfig).

use crate::{
    cluster::{Cluster, now},
    words::{check, decision},
};

const RULES: &str = "rule before Pre,PreRelease\n rule after Post";
const PASSED: &str = "verdict:before/Pre/1/Pass verdict:before/PreRelease/1/Pass";

/// Node a of 4.16.0 with its turn; `node` and `change` say where it is.
fn flying(node: &str, change: &str, run: &str) -> String {
    format!(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker {node} turn
         {RULES}
         run finalizer {run}
         change a {change}"
    )
}

#[test]
fn a_node_is_let_go_when_all_its_rules_have_passed() {
    check(
        &flying("4.16.0", &format!("PreRelease pin:4.17.0 {PASSED}"), "{}"),
        "node a PreRelease Changing\n > release a rendered-worker-4170",
    );
    check(
        &flying("4.16.0", "PreRelease pin:4.17.0 verdict:before/Pre/1/Pass", "{}"),
        "> job before/PreRelease/1 of a",
    );
}

#[test]
fn verdicts_of_an_earlier_attempt_do_not_count() {
    check(
        &flying(
            "4.16.0",
            "PreRules pin:4.17.0 attempt:2 verdict:before/Pre/1/Pass@1 verdict:before/PreRelease/1/Pass@1",
            "{}",
        ),
        "> job before/Pre/2 of a",
    );
}

#[test]
fn a_node_is_not_let_go_while_it_cannot_be_drained() {
    let ready = flying("4.16.0", &format!("PreRelease pin:4.17.0 {PASSED}"), "{}");
    check(
        &format!("{ready}\n drain a blocked"),
        "node a PreRelease DrainBlocked ~ shop/db-0\n wake 15\n > journal a closed",
    );
    let unprobed = ready.replace("{}", "{drainProbe: false}");
    check(
        &format!("{unprobed}\n drain a blocked"),
        "> release a rendered-worker-4170",
    );
}

#[test]
fn a_node_is_not_let_go_while_a_gate_is_closed() {
    let cluster = |node: &str, more: &str| {
        format!(
            "{}\n {more}",
            flying(node, &format!("PreRelease pin:4.17.0 {PASSED}"), "{}")
        )
    };
    check(
        &cluster("4.16.0 cordoned", ""),
        "node a PreRelease CordonedByOther\n > journal a closed",
    );
    check(
        &cluster("4.16.0 NotReady", ""),
        "node a PreRelease NodeNotReady\n > journal a closed",
    );
    check(
        &cluster("4.16.0 state:Degraded", ""),
        "node a PreRelease NodeDegraded\n > journal a closed",
    );
    check(
        &cluster("4.16.0", "budget all max:9 paused"),
        "node a PreRelease Stopped\n > journal a closed",
    );
    check(
        &cluster("4.16.0", "").replace("pool worker 4.17.0 ours", "pool worker 4.17.0 ours unpaused"),
        "node a PreRelease PoolsPausing\n > pause worker again 1",
    );
    check(
        &cluster("4.16.0", "").replace("cluster 4.17.0", "cluster 4.17.0 Partial"),
        "node a PreRelease ControlPlaneUpdating\n > journal a closed",
    );
}

#[test]
fn a_release_is_written_down_and_then_waited_for() {
    let rolling = "4.16.0 desired:4.17.0";
    check(
        &flying(rolling, &format!("PreRelease pin:4.17.0 {PASSED}"), "{}"),
        "node a Released Changing\n > journal a Released",
    );
    check(
        &flying(
            rolling,
            &format!("Released pin:4.17.0 entries:PreRules,Released {PASSED}"),
            "{changeTimeoutSeconds: 100}",
        ),
        "node a Released Changing\n wake 41\n > nothing",
    );
}

#[test]
fn a_node_that_rolls_without_its_rules_is_counted() {
    // Someone unpaused the pool while the rules of the node ran; the MCO took it.
    check(
        &flying("4.16.0 desired:4.17.0", "PreRules pin:4.17.0", "{}"),
        "ungated a ~ someone else released it before MutexRule numo/before had passed in phase Pre
         node a Released Ungated
         > journal a Released Ungated",
    );
}

#[test]
fn a_node_that_rolls_on_a_pass_of_another_edition_of_its_rule_is_counted() {
    let rolls = |verdicts: &str| {
        let change = format!("PreRelease pin:4.17.0 {verdicts}");
        flying("4.16.0 desired:4.17.0", &change, "{}")
    };
    // The rule was edited since, and somebody let the node go before it was asked again.
    check(
        &rolls("verdict:before/Pre/1/Pass^2 verdict:before/PreRelease/1/Pass"),
        "ungated a ~ MutexRule numo/before had passed in phase Pre
         node a Released Ungated
         > journal a Released Ungated",
    );
    // Once it has passed as it is now, and whenever numo's own release is written down.
    for verdicts in [
        "verdict:before/Pre/1/Pass^2 verdict:before/Pre/2/Pass verdict:before/PreRelease/1/Pass",
        "verdict:before/Pre/1/Pass~99999 verdict:before/PreRelease/1/Pass~99999",
    ] {
        check(&rolls(verdicts), "not ungated\n > journal a Released");
    }
}

#[test]
fn a_node_is_back_when_it_is_done_ready_and_uncordoned() {
    let cluster = |node: &str| {
        flying(
            node,
            &format!("Released pin:4.17.0 entries:PreRules,Released {PASSED}"),
            "{}",
        )
    };
    for node in [
        "4.16.0 desired:4.17.0",
        "4.17.0 NotReady",
        "4.17.0 draining",
        "4.17.0 state:Working",
    ] {
        check(&cluster(node), "node a Released Changing\n > nothing");
    }
    check(
        &cluster("4.16.0 desired:4.17.0 state:Degraded"),
        "node a Released NodeDegraded\n > nothing",
    );
    check(
        &cluster("4.17.0"),
        "node a Ready RuleStarting\n > journal a PostRules",
    );
}

#[test]
fn a_node_that_someone_moved_on_further_is_back_too() {
    // The pool was rendered again and unpaused for a while: the node went past its pin.
    check(
        "cluster 4.17.0
         pool worker 4.17.0b ours
         node a worker 4.17.0b turn
         run finalizer {}
         change a Released pin:4.17.0 entries:PreRules,Released",
        "> journal a PostRules",
    );
}

#[test]
fn post_rules_run_after_the_change_and_soak_follows() {
    let cluster = |change: &str, run: &str| flying("4.17.0", change, run);
    let entries = "pin:4.17.0 entries:PreRules,Released,PostRules";
    check(
        &cluster(&format!("PostRules {entries} {PASSED}"), "{}"),
        "> job after/Post/1 of a",
    );
    let ended = format!("PostRules {entries} {PASSED}\n job after/Post/1 of a Complete read");
    check(
        &cluster(&ended, "{}"),
        "> journal a verdict after/Post/1 Pass Done",
    );
    check(
        &cluster(&ended, "{soakSeconds: 60}"),
        "> journal a verdict after/Post/1 Pass Soaked",
    );
    let soaked = |since: i64| format!("Soaked {entries} since:{since} {PASSED} verdict:after/Post/1/Pass");
    check(
        &cluster(&soaked(-20), "{soakSeconds: 60}"),
        "node a Soaked Soaking\n wake 40\n > nothing",
    );
    check(&cluster(&soaked(-60), "{soakSeconds: 60}"), "> journal a Done");
    // When it ends is said of the node itself: what the run wakes for may be another's.
    let parsed = Cluster::parse(&cluster(&soaked(-20), "{soakSeconds: 60}"));
    let decided = decision(&parsed);
    let until = decided.report.nodes["a"].why.until;
    assert_eq!(
        until.map(jiff::Timestamp::as_second),
        Some(now().as_second() + 40)
    );
}

#[test]
fn a_node_without_post_rules_is_done_when_it_is_back() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules",
        "node a Done Done\n > journal a Done",
    );
}

#[test]
fn a_failed_post_rule_follows_its_policy() {
    let cluster = |policy: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.17.0 turn
             node b worker 4.16.0
             rule after Post policy:{policy}
             run finalizer {{}}
             change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules {more}"
        )
    };
    let failed = "verdict:after/Post/1/Failure";
    check(&cluster("Hold", failed), "> journal a Held RuleFailed");
    check(&cluster("Abort", failed), "> journal a Failed RuleFailed");
    check(&cluster("Skip", failed), "> journal a Skipped SkippedByPolicy");
    check(
        &cluster("Continue", "\n job after/Post/1 of a Failed read"),
        "> journal a verdict after/Post/1 ContinuedAfterFailure Done",
    );
}

#[test]
fn a_node_held_after_its_post_rules_stays_held_when_it_goes_away() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn NotReady
         rule after Post
         run finalizer {changeTimeoutSeconds: 10}
         change a Held pin:4.17.0 entries:PreRules,Released,PostRules,Held reason:RuleFailed verdict:after/Post/1/Failure",
        "node a Held RuleFailed\n > nothing",
    );
}

#[test]
fn a_node_that_does_not_come_back_is_held_and_goes_on_when_it_does() {
    let released = |node: &str, step: &str| {
        flying(
            node,
            &format!("{step} pin:4.17.0 entries:PreRules,Released since:-200 {PASSED}"),
            "{changeTimeoutSeconds: 100}",
        )
    };
    check(
        &released("4.16.0 desired:4.17.0 NotReady", "Released"),
        "node a Held ChangeTimeout ~ not Ready
         hold -
         > journal a Held ChangeTimeout",
    );
    check(
        &released("4.16.0 desired:4.17.0 NotReady", "Held reason:ChangeTimeout"),
        "node a Held ChangeTimeout
         hold FailureBudgetSpent
         > nothing",
    );
    check(
        &released("4.17.0", "Held reason:ChangeTimeout"),
        "> journal a PostRules",
    );
}

#[test]
fn a_config_that_moves_on_before_the_release_runs_the_rules_again() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0b ours
         node a worker 4.16.0 turn
         rule before Pre
         run finalizer {}
         change a PreRelease pin:4.17.0 verdict:before/Pre/1/Pass",
        "node a Admitted ConfigChanged
         > journal a Admitted ConfigChanged attempt 2",
    );
}

#[test]
fn a_config_that_moves_on_after_the_release_gives_the_node_another_turn() {
    let cluster = |a: &str, change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0b ours
             node a worker {a}
             rule before Pre
             run finalizer {{}}
             change a {change}"
        )
    };
    let released = "pin:4.17.0 entries:PreRules,Released verdict:before/Pre/1/Pass";
    check(
        &cluster("4.16.0 desired:4.17.0 turn", &format!("Released {released}")),
        "node a Released Changing\n > nothing",
    );
    check(
        &cluster("4.17.0 turn", &format!("Released {released}")),
        "> journal a PostRules",
    );
    check(
        &cluster("4.17.0", &format!("Done {released}")),
        "node a Admitted Admitting
         > journal a Admitted ConfigChanged attempt 2",
    );
    check(
        &cluster(
            "4.17.0 turn",
            "PreRules attempt:2 pin:4.17.0b from:4.17.0 entries:PreRules@1,Released@1,PreRules@2 verdict:before/Pre/1/Pass@1",
        ),
        "> job before/Pre/2 of a",
    );
}

#[test]
fn a_new_version_gives_up_nodes_that_were_not_let_go() {
    let cluster = |node: &str, change: &str| {
        format!(
            "cluster 4.17.0 asks 4.18.0
             pool worker 4.17.0 ours
             node a worker {node} turn
             rule after Post
             run finalizer {{}}
             change a {change}"
        )
    };
    check(
        &cluster("4.16.0", "PreRules pin:4.17.0"),
        "node a Failed RunGivenUp ~ 4.18.0\n > journal a Failed RunGivenUp",
    );
    check(&cluster("4.16.0", "-"), "> journal a Failed RunGivenUp");
    check(
        &cluster(
            "4.16.0 desired:4.17.0",
            "Released pin:4.17.0 entries:PreRules,Released",
        ),
        "node a Released Changing\n > nothing",
    );
    check(
        &cluster("4.17.0", "Released pin:4.17.0 entries:PreRules,Released"),
        "> journal a PostRules",
    );
    check(
        &cluster(
            "4.17.0",
            "PostRules pin:4.17.0 entries:PreRules,Released,PostRules",
        ),
        "> job after/Post/1 of a",
    );
}

#[test]
fn the_next_run_begins_after_the_last_one_has_ended() {
    check(
        "cluster 4.18.0
         pool worker 4.18.0 ours
         node a worker 4.17.0
         run finalizer {}
         change a Done to:4.17.0",
        "> admit a",
    );
    check(
        "cluster 4.18.0
         pool worker 4.18.0 ours
         node a worker 4.17.0 turn
         node b worker 4.16.0
         rule after Post
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules
         job after/Post/1 of a running to:4.17.0",
        "node b Selected WaitingForTurn
         > nothing",
    );
}

#[test]
fn a_retry_runs_the_rules_again() {
    let held = "reason:RuleFailed directive:Retry";
    check(
        &flying(
            "4.16.0",
            &format!("Held pin:4.17.0 verdict:before/Pre/1/Failure {held}"),
            "{}",
        ),
        "hold -
         > journal a Admitted attempt 2",
    );
    check(
        &flying(
            "4.17.0",
            &format!(
                "Held pin:4.17.0 entries:PreRules,Released,PostRules verdict:after/Post/1/Failure {held}"
            ),
            "{}",
        ),
        "> journal a PostRules attempt 2",
    );
    // It was acted on already.
    check(
        &flying(
            "4.16.0",
            &format!("Held pin:4.17.0 attempt:2 obeyed:2 verdict:before/Pre/2/Failure {held}"),
            "{}",
        ),
        "node a Held RuleFailed\n > nothing",
    );
}

#[test]
fn a_retry_of_a_node_that_is_changing_does_not_skip_the_change() {
    // Its time begins anew in both.
    for step in ["Released", "Held reason:ChangeTimeout"] {
        check(
            &flying(
                "4.16.0 desired:4.17.0 NotReady",
                &format!("{step} pin:4.17.0 entries:PreRules,Released directive:Retry since:-7000"),
                "{}",
            ),
            "node a Released Changing\n > journal a Released",
        );
    }
}

#[test]
fn a_skip_ends_the_turn_of_a_node_that_was_not_let_go() {
    check(
        &flying("4.16.0", "PreRules pin:4.17.0 directive:Skip", "{}"),
        "node a Skipped SkippedByPerson ~ alice\n > journal a Skipped SkippedByPerson",
    );
    check(
        &flying("4.16.0", "Held pin:4.17.0 reason:RuleFailed directive:Skip", "{}"),
        "> journal a Skipped SkippedByPerson",
    );
    check(
        &flying(
            "4.16.0 desired:4.17.0",
            "Released pin:4.17.0 entries:PreRules,Released directive:Skip",
            "{}",
        ),
        "node a Released Changing\n > nothing",
    );
}

#[test]
fn a_hold_keeps_the_node_where_it_is() {
    check(
        &flying(
            "4.16.0",
            &format!("PreRelease pin:4.17.0 {PASSED} directive:Hold"),
            "{}",
        ),
        "node a Held HeldByPerson ~ alice\n > journal a closed",
    );
    check(
        &flying(
            "4.16.0 desired:4.17.0",
            "Released pin:4.17.0 entries:PreRules,Released directive:Hold",
            "{}",
        ),
        "node a Released Changing\n > nothing",
    );
    check(
        &flying(
            "4.17.0",
            "PostRules pin:4.17.0 entries:PreRules,Released,PostRules directive:Hold",
            "{}",
        ),
        "node a Held HeldByPerson\n > nothing",
    );
}

#[test]
fn a_word_for_a_node_that_waits_for_its_lease_counts() {
    let cluster = |directive: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 lease:node-maintenance shield
             run finalizer {{}}
             change a Admitted directive:{directive}"
        )
    };
    check(&cluster("Skip"), "> journal a Skipped SkippedByPerson");
    check(
        &cluster("Hold"),
        "node a Selected HeldByPerson\n > journal a Selected HeldByPerson",
    );
}

#[test]
fn an_abort_by_a_person_gives_the_run_up() {
    check(
        &flying("4.16.0", "PreRules pin:4.17.0 directive:Abort", "{}"),
        "phase Leaving
         hold Aborted
         > journal a Failed RunGivenUp",
    );
    check(
        &flying("4.16.0", "PreRules pin:4.17.0", "x")
            .replace("run finalizer x", "run finalizer aborted 4.17.0 {}"),
        "hold Aborted
         > journal a Failed RunGivenUp",
    );
    // Another run was meant.
    check(
        &flying("4.16.0", "PreRules pin:4.17.0", "x")
            .replace("run finalizer x", "run finalizer aborted 4.16.0 {}"),
        "> job before/Pre/1 of a",
    );
}

#[test]
fn a_skipped_node_can_be_tried_again() {
    let cluster = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours outdated:1
             node a worker 4.16.0
             run finalizer {{}}
             status 4.17.0 finished
             change a Skipped reason:SkippedByPolicy {change}"
        )
    };
    check(&cluster(""), "phase Held\n result SucceededWithSkips\n > nothing");
    check(
        &cluster("directive:Retry"),
        "> pause worker\n > journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_node_that_someone_else_brought_to_the_target_is_done() {
    check(
        &flying("4.17.0", "PreRules pin:4.17.0", "{}"),
        "ungated a\n > journal a Released Ungated",
    );
    check(
        &flying("4.17.0", "PreRules pin:4.17.0 from:4.17.0", "{}"),
        "node a Done Ungated\n > journal a Done Ungated",
    );
}

#[test]
fn a_node_in_flight_stays_in_the_run_when_it_leaves_the_pool() {
    let cluster = |node: &str, change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             pool infra 4.17.0
             node a infra {node} in:worker turn
             node b worker 4.16.0
             rule after Post
             target t worker
             run finalizer {{}}
             change a {change} pool:worker"
        )
    };
    // It was not let go: its turn ends.
    check(
        &cluster("4.16.0", "PreRules pin:4.17.0"),
        "node a Failed RunGivenUp ~ infra
         node b Selected WaitingForTurn
         > journal a Failed RunGivenUp",
    );
    // It was: it is followed to its end, wherever the MCO brings it.
    check(
        &cluster(
            "4.16.0 desired:4.17.0 to:worker",
            "Released pin:4.17.0 entries:PreRules,Released",
        ),
        "node a Released Changing\n > nothing",
    );
    check(
        &cluster("4.17.0 in:infra", "Released pin:4.17.0 entries:PreRules,Released")
            .replace("in:worker ", ""),
        "> journal a PostRules",
    );
    check(
        &cluster(
            "4.17.0",
            "PostRules pin:4.17.0 entries:PreRules,Released,PostRules",
        ),
        "> job after/Post/1 of a",
    );
}

#[test]
fn a_node_in_flight_stays_in_the_run_when_the_target_is_edited() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool infra 4.17.0 ours
         node a worker 4.17.0 turn
         rule after Post
         target t infra
         run finalizer {}
         change a PostRules pin:4.17.0 entries:PreRules,Released,PostRules pool:worker",
        "> job after/Post/1 of a",
    );
}

#[test]
fn a_node_outside_the_run_gives_lease_and_shield_back() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         pool infra 4.17.0
         node a infra 4.16.0 turn
         node b worker 4.17.0
         target t worker
         run finalizer {}
         change a Failed reason:RunGivenUp pool:worker",
        "> unshield a
         > release lease a",
    );
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         pool infra 4.17.0
         node a infra 4.16.0 lease:ours uid:new
         node b worker 4.17.0
         target t worker
         run {}",
        "> release lease a",
    );
}

#[test]
fn an_edit_of_the_spec_holds_for_nodes_that_are_admitted_after_it() {
    // Rule `late` came into the spec after the node's turn began; `gone` was taken out of it.
    let cluster = |under: &str, verdicts: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             rule before Pre
             rule late Pre
             run finalizer {{}}
             change a PreRelease pin:4.17.0 under:{under} {verdicts}"
        )
    };
    check(
        &cluster("DesiredConfig/before", "verdict:before/Pre/1/Pass"),
        "> release a rendered-worker-4170",
    );
    check(
        &cluster("DesiredConfig/before,late", "verdict:before/Pre/1/Pass"),
        "> job late/Pre/1 of a",
    );
    check(
        &cluster("DesiredConfig/before,gone", "verdict:before/Pre/1/Pass"),
        "node a PreRules RuleNotFound ~ gone\n > nothing",
    );
}

#[test]
fn a_retry_takes_the_spec_as_it_is_by_then() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0 turn
         rule new Post
         run finalizer {}
         change a Held reason:RuleFailed pin:4.17.0 under:DesiredConfig/old entries:PreRules,Released generation:2 obeyed:1 directive:Retry",
        "> journal a PostRules attempt 2",
    );
}

#[test]
fn a_strategy_that_is_changed_before_the_release_lets_the_rules_run_again() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         rule before Pre
         run finalizer {}
         change a PreRelease pin:4.17.0 under:CanaryPool/before verdict:before/Pre/1/Pass",
        "node a Admitted ConfigChanged ~ spec.strategy\n > journal a Admitted ConfigChanged attempt 2",
    );
}

#[test]
fn a_rule_after_the_change_that_ended_the_turn_is_asked_again() {
    for (step, policy) in [
        ("Failed reason:RuleFailed", "Abort"),
        ("Skipped reason:SkippedByPolicy", "Skip"),
    ] {
        check(
            &format!(
                "cluster 4.17.0
                 pool worker 4.17.0 ours
                 node a worker 4.17.0
                 rule after Post policy:{policy}
                 run finalizer {{}}
                 change a {step} pin:4.17.0 entries:PreRules,Released verdict:after/Post/1/Failure generation:2 obeyed:1 directive:Retry"
            ),
            "node a PostRules RuleStarting\n > journal a PostRules attempt 2",
        );
    }
}

#[test]
fn a_node_that_was_left_out_and_somebody_else_changed_since_is_done() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         rule before Pre policy:Skip
         run finalizer {}
         change a Skipped reason:SkippedByPolicy pin:4.17.0 entries:PreRules verdict:before/Pre/1/Failure generation:2 obeyed:1 directive:Retry",
        "phase Leaving\n result Succeeded\n node a Done UpToDate\n > unpause worker",
    );
}

#[test]
fn a_node_that_someone_took_back_begins_anew_when_it_is_retried() {
    check(
        &flying(
            "4.16.0",
            &format!(
                "Held reason:ChangeTimeout pin:4.17.0 entries:PreRules,Released {PASSED} generation:2 obeyed:1 directive:Retry"
            ),
            "{}",
        ),
        "node a Admitted Admitting\n > journal a Admitted attempt 2",
    );
}

#[test]
fn a_stop_holds_the_next_rule_too() {
    let stopped = format!(
        "{}\n budget all max:9 paused",
        flying("4.16.0", "PreRules pin:4.17.0", "{}")
    );
    check(&stopped, "node a PreRules Stopped\n > journal a closed");
    // And the rules of the run, where it holds every node.
    let run = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule start PreRun
         run finalizer {}
         budget all max:9";
    check(run, "> job start/PreRun/1 of -");
    check(&format!("{run} paused"), "hold Stopped\n > nothing");
}

#[test]
fn a_node_that_fails_on_its_ungated_way_says_so() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 desired:4.17.0 state:Degraded
         node b worker 4.16.0
         run finalizer {}",
        "node a Released NodeDegraded ~ without rules\n node b Selected WaitingForTurn",
    );
}

#[test]
fn a_cordon_between_release_and_drain_is_put_back_in_the_end() {
    let cluster = |node: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker {node}
             rule backup Pre
             change a Released pin:4.17.0 entries:PreRules,Released verdict:backup/Pre/1/Pass"
        )
    };
    let mark =
        "annotation:numo.openshift-optional.skrzypek.io/cordoned-by={\"owner\":\"run-uid\",\"prior\":true}";
    check(
        &cluster("4.16.0 desired:4.17.0 turn cordoned"),
        "> remember the cordon of a",
    );
    // The MCO's own cordon is none of a person's.
    check(
        &cluster("4.16.0 desired:4.17.0 turn cordoned draining"),
        "> nothing",
    );
    // Lifted again before the MCO's came.
    check(
        &cluster(&format!("4.16.0 desired:4.17.0 turn {mark}")),
        "> forget the cordon of a",
    );
    // Drained and back, uncordoned by the MCO, and not Done yet.
    let back = "annotation:machineconfiguration.openshift.io/desiredDrain=uncordon-rendered-worker-4170 \
                annotation:machineconfiguration.openshift.io/lastAppliedDrain=uncordon-rendered-worker-4170";
    check(
        &cluster(&format!("4.16.0 desired:4.17.0 Working turn {back} {mark}")),
        "> nothing",
    );
    // Changed.
    check(
        &cluster(&format!("4.17.0 turn {mark}")),
        "> recordon a Some(true)",
    );
}
