//! Plans: which nodes are begun, what their Jobs come to, and how each node is given back.

use crate::{
    cluster::Cluster,
    waves::begun,
    words::{check, check_cluster, decision},
};
use numo_api::{Step, marks};
use numo_core::action::Action;

/// Two workers.
const TWO: &str = "node a worker v0
     node b worker v0";

fn two(rest: &str) -> String {
    format!("{TWO}\n{rest}")
}

#[test]
fn a_node_is_begun_with_finalizer_turn_lease_and_shield() {
    check(
        &two("plan concurrency:1 cordon"),
        "plan false Resolved
         > finalizer on",
    );
    // By the hash of node, Plan and version; here it is b's turn.
    check(
        &two("plan concurrency:1 cordon finalizer"),
        "node a Selected WaitingForTurn
         > admit b",
    );
    check(
        &two("plan concurrency:2 cordon finalizer"),
        "> admit b
         > admit a",
    );
    check(
        &two("plan concurrency:1 cordon finalizer\n begun a new"),
        "node b Selected WaitingForTurn
         node a Admitted Admitting
         > lease a
         > shield a",
    );
    // Its host name is in status.applying before its Job can look.
    check(
        &two("plan concurrency:1 cordon finalizer\n begun a new\n keeps a"),
        "plan false SyncJob applying a
         wake 0
         > nothing",
    );
    check(
        &two("plan concurrency:1 cordon finalizer applying:a\n begun a new\n keeps a"),
        "> job a",
    );
    check(
        &two("plan concurrency:1 cordon finalizer applying:a\n begun a new\n keeps a\n planjob a running"),
        "node a Released UpgradeStarting
         > journal a Released",
    );
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Released boot:b1
             keeps a cordoned
             planjob a running runs:upgrade"),
        "node a Released Upgrading
         > nothing",
    );
}

#[test]
fn a_plan_with_neither_cordon_nor_drain_takes_no_lease_and_no_budget() {
    check(
        &two("plan concurrency:1 finalizer\n begun a new made:-5\n budget none selector:all max:0"),
        "> shield a",
    );
    check(
        &two("plan concurrency:1 cordon finalizer\n budget none selector:all max:0"),
        "node b Selected BudgetExhausted
         > finalizer 0 off",
    );
}

#[test]
fn a_complete_job_gives_the_node_back_in_one_patch() {
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Released boot:b1
             keeps a cordoned
             planjob a complete"),
        "> restore a uncordoned +p
         > journal a Done
         > release lease a",
    );
    // A cordon that was there before stays.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Released boot:b1
             keeps a prior
             planjob a complete"),
        "> restore a +p
         > journal a Done
         > release lease a",
    );
    // A crash after the patch.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             at a
             begun a Released boot:b1"),
        "> journal a Done",
    );
}

#[test]
fn the_next_node_waits_until_the_last_is_ready() {
    check(
        "node a worker v0 NotReady
         node b worker v0
         plan concurrency:1 cordon finalizer applying:a
         begun a Released boot:b1 entered:Changed
         keeps a cordoned
         planjob a complete",
        "node a Changed NodeNotReady
         node b Selected WaitingForTurn
         > nothing",
    );
}

#[test]
fn a_delay_uncordons_first_and_labels_later() {
    let plan = "plan concurrency:1 cordon finalizer applying:a spec {\"postCompleteDelay\":\"30s\",\"postCompleteLabels\":{\"done\":\"$(LATEST_VERSION)\"}}";
    check(
        &two(&format!(
            "{plan}\n begun a Released boot:b1\n keeps a cordoned\n planjob a complete ended:-5"
        )),
        "> journal a Changed",
    );
    check(
        &two(&format!(
            "{plan}\n begun a Changed boot:b1 entered:Released\n keeps a cordoned\n planjob a complete ended:-5"
        )),
        "> restore a uncordoned",
    );
    check(
        &two(&format!(
            "{plan}\n begun a Changed boot:b1 entered:Released\n keeps a leased\n planjob a complete ended:-5"
        )),
        "node a Uncordoned CompleteDelay
         wake 25
         > nothing",
    );
    check(
        &two(&format!(
            "{plan}\n begun a Changed boot:b1 entered:Released\n keeps a leased\n planjob a complete ended:-31"
        )),
        "> restore a +p +done
         > journal a Done
         > release lease a",
    );
}

#[test]
fn a_node_is_uncordoned_before_labels_that_may_be_refused() {
    let plan =
        "plan concurrency:1 cordon finalizer applying:a spec {\"postCompleteLabels\":{\"done\":\"yes\"}}";
    for (turn, wanted) in [
        (
            "begun a Released boot:b1\n keeps a cordoned",
            "> journal a Changed",
        ),
        (
            "begun a Changed boot:b1 entered:Released\n keeps a cordoned",
            "> restore a uncordoned",
        ),
        (
            "begun a Changed boot:b1 entered:Released\n keeps a leased",
            "> restore a +p +done
             > journal a Done
             > release lease a",
        ),
    ] {
        check(&two(&format!("{plan}\n {turn}\n planjob a complete")), wanted);
    }
    // Who leaves the Plan does not wait for a label that may be refused for ever.
    let deleted = plan.replace(" spec ", " deleting spec ");
    let deleted =
        format!("{deleted}\n begun a Changed boot:b1 entered:Released\n keeps a leased\n planjob a complete");
    check(
        &two(&deleted),
        "> restore a +p
         > journal a Done
         > release lease a",
    );
}

#[test]
fn a_failed_job_is_judged_by_what_is_true_of_the_node() {
    let failed = |node: &str, more: &str, job: &str| {
        format!(
            "{node}
             node b worker v0
             plan concurrency:1 cordon finalizer applying:a {more}
             begun a Released boot:b1
             keeps a cordoned
             planjob a failed {job}"
        )
    };
    let node = "node a worker v0 kubelet:v0 boot:b1";
    check(&failed(node, "", ""), "? evidence ~ apply-p-on-a\n > nothing");
    check(
        &failed(node, "", "exit:3"),
        "plan false JobFailed applying a ~ failed on Node a: BackoffLimitExceeded: it failed
         node a Held JobFailed
         node b Selected WaitingForTurn
         > journal a Held JobFailed",
    );
    check(
        &failed("node a worker v0 kubelet:v0 boot:b1 NotReady", "", "exit:3"),
        "node a Released NodeNotReady
         > nothing",
    );
    // A container of it still runs: neither judged nor deleted, however often it may be tried again.
    for more in ["", "suspended"] {
        check(
            &failed(node, more, "exit:0 runs:upgrade"),
            "node a Released Upgrading
             > nothing",
        );
    }
    // It rebooted: once more.
    check(
        &failed("node a worker v0 kubelet:v0 boot:b2", "", "exit:143"),
        "> journal a Admitted Rebooted attempt 2",
    );
    // The kubelet is at the version: it did its work.
    check(
        &failed("node a worker v0 kubelet:v1 boot:b2", "", "exit:143"),
        "> journal a Changed Rebooted",
    );
    // By policy.
    check(
        &failed(node, "spec {\"mutex\":{\"retries\":1}}", "exit:3"),
        "plan false SyncJob applying a
         node a Admitted JobFailed",
    );
    // The Job of the attempt before is deleted, and only then another one made.
    let again = |job: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a
             begun a Admitted attempt:2 boot:b1 entered:Admitted/JobFailed failed-job:job-a
             keeps a cordoned
             {job}"
        ))
    };
    check(
        &again("planjob a failed"),
        "node a Admitted JobBeingDeleted\n > remove job a",
    );
    check(
        &again("planjob a failed deleting"),
        "node a Admitted JobBeingDeleted\n ends a ClusterItself\n > nothing",
    );
    // One that a finalizer keeps for ten minutes is a person's.
    check(
        &again("planjob a failed deleting deleting-since:-600"),
        "node a Admitted JobBeingDeleted ~ it has been so since\n ends a ClusterAdmin\n > nothing",
    );
    check(&again(""), "> job a");
}

#[test]
fn a_turn_that_was_restored_eats_no_retry() {
    let failed = |retries: usize, turn: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a spec {{\"mutex\":{{\"retries\":{retries}}}}}
             begun a Released boot:b1 {turn}
             keeps a cordoned
             planjob a failed exit:3"
        ))
    };
    let (again, held) = ("node a Admitted JobFailed", "node a Held JobFailed");
    // The attempts before it were turns that were closed.
    check(&failed(1, "attempt:3"), again);
    check(&failed(1, "attempt:3 entered:Admitted/JobFailed"), held);
    check(&failed(2, "attempt:3 entered:Admitted/JobFailed"), again);
    check(&failed(1, "attempt:3 entered:Admitted/Rebooted"), again);
    check(&failed(1, "attempt:3 entered:Admitted/Admitting"), again);

    // A full journal has forgotten what became of the attempts before: it is not tried for ever.
    let full = |retries: usize, first: Step| {
        let mut cluster = Cluster::parse(&failed(retries, "attempt:40"));
        let change = cluster.observed.changes.values_mut().next().expect("a turn");
        let entries = &mut change.status.entries;
        let of_last = entries[0].clone();
        let mut told = vec![of_last; 64];
        for (index, entry) in told.iter_mut().enumerate() {
            entry.attempt = 40 - i32::try_from((63 - index) / 2).expect("small");
            entry.reason = (index % 2 == 0).then(|| "JobFailed".to_owned());
            entry.step = if index % 2 == 0 {
                Step::Admitted
            } else {
                Step::Released
            };
        }
        told[0].step = first;
        *entries = told;
        cluster
    };
    check_cluster(&full(40, Step::Admitted), again);
    check_cluster(&full(39, Step::Admitted), held);
    check_cluster(&full(32, Step::Selected), again);
    check_cluster(&full(31, Step::Selected), held);
}

#[test]
fn a_held_node_goes_on_by_a_persons_word_or_an_edit() {
    let held = |begun: &str, more: &str, rest: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {more}
             begun a Held reason:JobFailed entered:Released boot:b1 {begun}
             keeps a cordoned
             {rest}"
        ))
    };
    let job = "planjob a failed exit:3";
    check(
        &held("", "", job),
        "node a Held JobFailed: words of the journal\n > nothing",
    );
    check(
        &held("directive:Retry generation:2", "", job),
        "> journal a Admitted Admitting attempt 2",
    );
    check(
        &held("directive:Retry generation:2", "", ""),
        "> journal a Admitted Admitting attempt 2",
    );
    check(
        &held("made-from:1", "generation:2", job),
        "> journal a Admitted Admitting attempt 2",
    );
    check(
        &held("directive:Skip generation:2", "", job),
        "node a Skipped SkippedByPerson
         > restore a uncordoned
         > journal a Skipped SkippedByPerson
         > release lease a",
    );
}

#[test]
fn a_job_that_vanished_holds_the_node() {
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Released boot:b1
             keeps a cordoned"),
        "node a Held JobLost
         > journal a Held JobLost",
    );
    // One that was complete before does not.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Changed boot:b1 entered:Released
             keeps a cordoned"),
        "> restore a uncordoned +p
         > journal a Done
         > release lease a",
    );
}

#[test]
fn leaving_restores_what_has_not_begun_and_waits_for_what_runs() {
    for leaving in ["deleting", "aborted"] {
        check(
            &two(&format!(
                "plan concurrency:1 cordon finalizer applying:a {leaving}
                 begun a new
                 keeps a"
            )),
            "phase Leaving
             > restore a
             > journal a Failed RunGivenUp
             > release lease a",
        );
        check(
            &two(&format!(
                "plan concurrency:1 cordon finalizer applying:a {leaving}
                 begun a Released boot:b1
                 keeps a cordoned
                 planjob a running runs:upgrade"
            )),
            "node a Released Upgrading
             > nothing",
        );
        check(
            &two(&format!(
                "plan concurrency:1 cordon finalizer applying:a {leaving}
                 begun a Held reason:JobFailed entered:Released boot:b1
                 keeps a cordoned
                 planjob a failed"
            )),
            "> restore a uncordoned
             > journal a Failed RunGivenUp
             > release lease a",
        );
    }
    check(
        &two("plan concurrency:1 cordon finalizer deleting"),
        "> finalizer 0 off",
    );
    // The marks of a turn that nobody knows of any more.
    check(
        &two("plan concurrency:1 cordon finalizer deleting\n keeps a cordoned"),
        "> restore a uncordoned
         > release lease a",
    );
}

#[test]
fn another_version_takes_the_node_up_anew() {
    // What runs is finished, at its own hash.
    check(
        &two("plan version:v2 concurrency:1 cordon finalizer applying:a
             begun a Released hash:old to:v1 boot:b1
             keeps a cordoned
             planjob a running hash:old runs:upgrade"),
        "node a Released Upgrading
         > nothing",
    );
    // A held one is taken up with its cordon.
    check(
        &two("plan version:v2 concurrency:1 cordon finalizer applying:a
             begun a Held hash:old to:v1 reason:JobFailed entered:Released boot:b1
             keeps a cordoned
             planjob a failed hash:old"),
        "> shield a
         > journal a Failed Superseded
         > release lease a",
    );
    check(
        &two("plan version:v2 concurrency:2 cordon finalizer
             begun a Failed hash:old to:v1 reason:Superseded
             keeps a cordoned"),
        "> release lease a
         > admit b
         > admit a",
    );
}

#[test]
fn a_plan_that_was_begun_by_another_is_adopted() {
    // Its Job runs: no gate is asked.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             planjob a running runs:drain
             budget none selector:all max:0"),
        "> admit a",
    );
    // Its Job is paused: it has not begun.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a new
             keeps a
             planjob a paused"),
        "> start a",
    );
    // The cordon is that of its Job.
    check(
        "node a worker v0 cordoned
         plan concurrency:1 cordon finalizer applying:a
         begun a new
         planjob a complete",
        "> lease a\n > journal a",
    );
    check(
        &two("plan concurrency:1 cordon\n at a\n at b"),
        "plan true Complete\n > nothing",
    );
    check(
        &two("plan concurrency:1 cordon\n at a is:disabled\n at b"),
        "not node a
         plan true Complete",
    );
}

/// A Job that has ended runs nowhere: where another owner has its node by now, the Plan waits. One that runs cannot be taken back.
#[test]
fn a_job_that_has_ended_takes_no_node_from_another_owner() {
    let cluster = |job: &str, other: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a
             begun a Failed reason:RunGivenUp
             planjob a {job}{other}"
        ))
    };
    let other = "\n maintenance a name:other\n turn a PreRules of:other";
    check(
        &cluster("failed", other),
        "node a Selected NodeBusy
         > admit b",
    );
    check(&cluster("failed", ""), "> journal a Admitted Admitting attempt 2");
    check(
        &cluster("running", other),
        "> journal a Admitted Admitting attempt 2",
    );
}

/// Whoever begins the Job: what rules keep back and rolls all the same is not called a success.
#[test]
fn a_gated_node_whose_job_another_began_is_ungated() {
    let cluster = |rest: &str| {
        two(&format!(
            "rule disk Pre
             binding gate spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"disk\"}}]}}
             plan concurrency:1 cordon finalizer applying:a
             {rest}"
        ))
    };
    for job in ["running runs:upgrade", "complete"] {
        let begun = cluster(&format!("begun a new\n keeps a\n planjob a {job}"));
        check(
            &begun,
            "ungated a ~ before MutexRule numo/disk had passed in phase Pre\n > journal a Released Ungated",
        );
        let passed = cluster(&format!(
            "begun a new verdict:disk/Pre/1/Pass\n keeps a\n planjob a {job}"
        ));
        check(&passed, "not ungated");
    }
    let told =
        "begun a Released reason:Ungated entered:Released boot:b1\n keeps a cordoned\n planjob a running";
    check(&cluster(told), "ungated a\n node a Released UpgradeStarting");
    // Of a Plan without rules nobody asks who began it.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a\n begun a new\n keeps a\n planjob a complete"),
        "not ungated",
    );
}

/// Its journal has no step before the first verdict: what a person says meanwhile does not free the node for another owner.
#[test]
fn a_turn_without_a_step_goes_on_whatever_a_person_says() {
    let cluster = |words: &str| {
        two(&format!(
            "rule disk Pre
             binding gate spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"disk\"}}]}}
             plan concurrency:1 cordon finalizer applying:a
             begun a new {words}
             keeps a"
        ))
    };
    check(
        &cluster("turn directive:Hold"),
        "node a PreRules HeldByPerson\n node b Selected WaitingForTurn\n not > restore a",
    );
    // Of a node that waits nothing is kept.
    check(
        &cluster("directive:Hold"),
        "node a Selected HeldByPerson\n > restore a\n > release lease a\n > admit b",
    );
}

#[test]
fn concurrency_0_is_complete_and_said() {
    check(
        &two("plan concurrency:0 cordon"),
        "plan true Complete
         hold ConcurrencyZero
         > nothing",
    );
}

#[test]
fn a_closed_window_begins_nothing_and_holds_what_has_not_begun() {
    let window = "spec {\"window\":{\"days\":[\"mon\"],\"startTime\":\"1\",\"endTime\":\"2\"}}";
    check(
        &two(&format!("plan concurrency:1 cordon finalizer {window}")),
        "plan false Waiting ~ it is outside spec.window
         node a Selected OutsideWindow
         > finalizer 0 off",
    );
    check(
        &two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {window}\n begun a new\n keeps a"
        )),
        "node a PreRelease OutsideWindow
         > journal a closed",
    );
    check(
        &two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {window}
             begun a Released boot:b1\n keeps a cordoned\n planjob a complete"
        )),
        "> restore a uncordoned +p
         > journal a Done
         > release lease a",
    );
}

/// Whoever may write Plans would else keep numo busy for minutes with one.
#[test]
fn a_digest_names_so_many_fields_at_most() {
    let digest = |fields: usize| {
        let mut cluster = Cluster::parse(&two("plan concurrency:1 cordon finalizer"));
        for plan in cluster.observed.plans.values_mut() {
            plan.digest = vec!["spec"; fields].join(",");
        }
        cluster
    };
    check_cluster(
        &digest(65),
        "invalid ~ annotation upgrade.cattle.io/digest: found 65 fields, wanted at most 64
         plan false NotReady: plan is not valid and resolved",
    );
    assert!(!begun(&digest(64)).is_empty());
}

#[test]
fn bad_input_is_named_and_nothing_is_begun() {
    for (spec, words) in [
        (
            r#"{"drain":{"deleteEmptydirData":true,"deleteLocalData":true}}"#,
            "invalid ~ spec.drain cannot specify both deleteEmptydirData and deleteLocalData",
        ),
        (
            r#"{"drain":{"podSelector":{"matchExpressions":[{"key":"x","operator":"Near"}]}}}"#,
            "invalid ~ spec.drain.podSelector is not selectable",
        ),
        (
            r#"{"drain":{"timeout":"soon"}}"#,
            "invalid ~ spec.drain.timeout: found \"soon\"",
        ),
        (
            r#"{"drain":{"timeout":-1}}"#,
            "invalid ~ spec.drain.timeout: found -1",
        ),
        (
            r#"{"window":{"days":["noday"],"startTime":"1","endTime":"2"}}"#,
            "invalid ~ spec.window is invalid: spec.window.days[0]",
        ),
        (
            r#"{"postCompleteDelay":"-5s"}"#,
            "invalid ~ spec.postCompleteDelay is negative",
        ),
        (
            r#"{"postCompleteDelay":"5"}"#,
            "invalid ~ spec.postCompleteDelay: found \"5\"",
        ),
        (r#"{"upgrade":{"image":""}}"#, "invalid ~ spec.upgrade.image"),
        (
            r#"{"secrets":[{"name":"s","path":""}]}"#,
            "invalid ~ secrets \"s\" not found",
        ),
        (
            r#"{"version":""}"#,
            "unresolved ~ cannot resolve plan: missing channel and version",
        ),
        (
            r#"{"version":"a/b"}"#,
            "unresolved ~ spec.version: found version \"a/b\"",
        ),
    ] {
        check(
            &two(&format!("plan concurrency:1 cordon finalizer spec {spec}")),
            &format!("{words}\n plan false NotReady: plan is not valid and resolved\n > finalizer 0 off"),
        );
    }
    check(
        &two(
            r#"plan concurrency:1 cordon spec {"nodeSelector":{"matchExpressions":[{"key":"x","operator":"Near"}]}}"#,
        ),
        "plan false SelectNodesFailed ~ spec.nodeSelector: x\n > nothing",
    );
}

#[test]
fn a_channel_is_asked_in_time_and_keeps_its_last_word() {
    check(
        &two("plan channel cordon"),
        "? channel https://channel\n plan false NotReady\n > nothing",
    );
    // Resolved a moment ago, by whomever.
    check(
        &two("plan channel cordon latest:v1 updated:-60"),
        "version v1\n not ? channel\n wake 840",
    );
    check(
        &two("plan channel cordon latest:v1 updated:-901"),
        "version v1\n ? channel https://channel",
    );
    check(
        &two("plan channel cordon latest:v1\n channel v2+k at:-30"),
        "version v2-k\n wake 870",
    );
    check(
        &two("plan channel cordon latest:v1\n channel v2 at:-901"),
        "? channel https://channel",
    );
    check(
        &two("plan channel cordon latest:v1\n channel v2 failed failures:2 at:-3"),
        "version v1\n unresolved spec.channel https://channel: no answer\n wake 7",
    );
    check(
        &two("plan channel cordon latest:v1\n channel v2 failed failures:9 at:-899"),
        "not ? channel",
    );
    check(
        &two("plan channel cordon latest:v1\n channel v2 failed failures:9 at:-900"),
        "? channel https://channel",
    );
}

#[test]
fn agents_wait_for_their_servers() {
    let agents =
        r#"plan concurrency:1 cordon finalizer spec {"prepare":{"image":"i","args":["prepare","servers"]}}"#;
    check(&two(agents), "hold PlanNotFound\n > finalizer 0 off");
    check(
        &format!("node s master v0 kubelet:v1\n{TWO}\n {agents}\n other-plan servers latest:v1"),
        "hold WaitsForPlan ~ is not complete",
    );
    check(
        &two(&format!("{agents}\n other-plan servers")),
        "hold WaitsForPlan ~ is not complete\n > finalizer 0 off",
    );
    let server = "node s master v0 kubelet:v0";
    check(
        &format!("{server}\n{TWO}\n {agents}\n other-plan servers complete"),
        "hold WaitsForPlan ~ example s at v0",
    );
    check(
        &format!("node s master v0 kubelet:v1\n{TWO}\n {agents}\n other-plan servers complete"),
        "hold -",
    );
    // A circle is refused.
    check(
        &two(&format!(
            "{agents}\n other-plan servers spec {{\"prepare\":{{\"image\":\"i\",\"args\":[\"prepare\",\"p\"]}}}}"
        )),
        "invalid ~ spec.prepare.args: Plans wait for each other: p -> servers -> p\n > finalizer 0 off",
    );
}

#[test]
fn never_two_control_plane_nodes_at_once() {
    let servers = "node a master v0
         node b master v0
         node c master v0";
    check(
        &format!("{servers}\n plan concurrency:3 cordon finalizer"),
        "> admit b",
    );
    check(
        &format!("{servers}\n plan concurrency:3 finalizer\n begun a new"),
        "node b Selected EtcdQuorum
         node c Selected EtcdQuorum",
    );
    // One alone is upgraded all the same.
    check(
        "node a master v0\n plan concurrency:3 cordon finalizer",
        "> admit a",
    );
}

#[test]
fn a_plan_that_is_new_says_so_and_one_without_nodes_does_not() {
    let new = |node: &str| format!("{node}\n plan concurrency:1 cordon created:-1");
    check(
        &new("node a worker v0"),
        "hold PlanStarting ~ the Plan is new: MutexBindings that are made together with it are waited for, for 2 s
         node a Selected PlanStarting
         ends a Numo
         wake 1
         > nothing",
    );
    // One that selects nobody, and one all of whose nodes are done.
    let nobody = " spec {\"nodeSelector\":{\"matchLabels\":{\"no\":\"node\"}}}";
    check(
        &format!("{}{nobody}", new("node a worker v0")),
        "hold -\n > nothing",
    );
    check(
        &format!("{}\n at a", new("node a worker v0")),
        "hold -\n > nothing",
    );
}

#[test]
fn gates_of_bindings_and_of_the_plan_itself() {
    let binding =
        |settings: &str| format!("binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{settings}}}");
    let four = "node a worker v0\n node b worker v0\n node c worker v0\n node d worker v0";
    check(
        &format!(
            "{four}\n plan concurrency:4 cordon finalizer\n {}",
            binding("\"maxUnavailable\":\"50%\",\"order\":\"Name\"")
        ),
        "> admit a
         > admit b",
    );
    check(
        &format!(
            "{four}\n plan concurrency:4 cordon finalizer\n {}",
            binding("\"first\":{\"matchLabels\":{\"kubernetes.io/hostname\":\"c\"}}")
        ),
        "node a Selected FirstNodes
         > admit c",
    );
    check(
        &format!(
            "{four}\n plan concurrency:4 cordon finalizer applying:a\n {}
             begun a Held reason:JobFailed entered:Released boot:b1\n keeps a cordoned\n planjob a failed exit:1",
            binding("\"failureBudget\":1")
        ),
        "hold FailureBudgetSpent
         node b Selected FailureBudgetSpent
         > nothing",
    );
    // 0 lets nobody begin: who owns the object is told, and the command.
    let zero = "MutexBinding x spec.maxUnavailable is 0, which lets no node begin; whoever owns the object raises it with `kubectl edit mutexbinding x`";
    check(
        &format!(
            "{four}\n plan concurrency:4 cordon\n {}",
            binding("\"maxUnavailable\":0")
        ),
        &format!(
            "hold MaxUnavailableZero ~ {zero}
             node a Selected MaxUnavailableZero ~ {zero}
             ends a ClusterAdmin
             > nothing"
        ),
    );
    check(
        &format!("{four}\n plan concurrency:4 cordon spec {{\"mutex\":{{\"maxUnavailable\":\"0%\"}}}}"),
        "node a Selected MaxUnavailableZero ~ spec.mutex.maxUnavailable is 0, which lets no node begin; whoever owns the object raises it with `kubectl -n ",
    );
    // One that cannot be understood gates all.
    check(
        &format!(
            "{four}\n plan concurrency:4 cordon finalizer\n {}",
            binding("\"maxUnavailable\":\"many\"")
        ),
        "hold InvalidField ~ MutexBinding x spec.maxUnavailable",
    );
    check(
        &format!("{four}\n plan concurrency:4 cordon gate:0123456789"),
        "hold GateLost
         > nothing",
    );
    // Another's CRD pruned it at the first write.
    check(
        &format!("{four}\n plan concurrency:4 cordon pruned"),
        "hold GateLost
         > nothing",
    );
}

#[test]
fn rules_gate_the_release_and_the_end() {
    check(
        &two(r#"plan concurrency:1 cordon finalizer gate:x spec {"mutex":{"rules":[{"name":"none"}]}}"#),
        "hold RuleNotFound
         > finalizer 0 off",
    );
    let bound = |rest: &str| {
        two(&format!(
            "rule r
             plan concurrency:1 cordon finalizer applying:a
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"rules\":[{{\"name\":\"r\"}}]}}
             {rest}"
        ))
    };
    check(
        &bound("begun a new\n keeps a"),
        "node a PreRules RuleStarting\n > job r/Pre/1 of a",
    );
    check(
        &bound("begun a PreRules verdict:r/Pre/1/Pass\n keeps a"),
        "> job a",
    );
    check(
        &bound("begun a PreRules verdict:r/Pre/1/Failure\n keeps a"),
        "node a Held RuleFailed
         > journal a Held RuleFailed",
    );
}

/// It would drain otherwise than was asked.
#[test]
fn a_plan_whose_binding_says_nonsense_of_the_drain_is_held() {
    let bound = |drain: &str| {
        format!(
            "binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\",\"drain\":{drain}}}"
        )
    };
    let by_label = bound(r#"{"order":"Label"}"#);
    let waiting = |how: &str, more: &str| two(&format!("plan concurrency:1 {how}\n {more}"));
    check(
        &waiting("drain", &by_label),
        "hold InvalidField ~ MutexBinding x spec.drain.orderLabel: found none, wanted a label key
         > nothing",
    );
    check(
        &waiting(
            "drain",
            &bound(r#"{"podSelector":{"matchExpressions":[{"key":"x","operator":"Near"}]}}"#),
        ),
        "hold InvalidField ~ MutexBinding x spec.drain.podSelector: x: found operator \"Near\"
         > nothing",
    );
    // It drains nothing.
    check(&waiting("cordon finalizer", &by_label), "> admit b");
    // In the turn too: nothing is cordoned, or evicted, until it is mended.
    let turn = |more: &str, binding: &str| {
        two(&format!(
            "plan concurrency:1 drain finalizer applying:a\n {binding}\n {more}\n pod web on a of:ReplicaSet/web"
        ))
    };
    let cordoned = "begun a Cordoned\n keeps a cordoned";
    check(
        &turn("begun a PreRules\n keeps a", &by_label),
        "node a PreRules InvalidField ~ MutexBinding x spec.drain.orderLabel
         not > cordon a",
    );
    check(
        &turn(cordoned, &by_label),
        "node a Cordoned InvalidField ~ MutexBinding x spec.drain.orderLabel
         > nothing",
    );
    check(&turn(cordoned, &bound("{}")), "> evict web");
}

#[test]
fn numo_drains_by_option_after_a_job_that_prepares() {
    let plan = r#"plan concurrency:1 finalizer applying:a drain spec {"prepare":{"image":"i"},"upgrade":{"image":"u"}}"#;
    let by_numo = "binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"drainBy\":\"Numo\"}";
    let at = |rest: &str| two(&format!("{plan}\n {by_numo}\n {rest}"));
    check(&at("begun a new\n keeps a"), "> job a Prepare");
    check(
        &at("begun a new\n keeps a\n planjob a complete prepares\n pods a\n drain a free"),
        "node a PreRules Prepared\n > journal a PreRules Prepared",
    );
    check(
        &at(
            "begun a PreRules reason:Prepared\n keeps a\n planjob a complete prepares\n pods a\n drain a free",
        ),
        "> cordon a with the same taints",
    );
    check(
        &at("begun a PreRules reason:Prepared\n keeps a cordoned done\n planjob a complete prepares"),
        "> journal a Cordoned",
    );
    check(
        &at(
            "begun a Cordoned\n keeps a cordoned\n pod web on a of:ReplicaSet/web\n pod up on a of:Job/up label:upgrade.cattle.io/controller=x",
        ),
        "node a Cordoned Draining
         > evict web",
    );
    check(
        &at("begun a Cordoned\n keeps a cordoned\n pods a"),
        "> journal a Drained",
    );
    check(
        &at("begun a Drained entered:Cordoned\n keeps a cordoned\n pods a"),
        "> job a Upgrade",
    );
    check(
        &two(&format!(
            "{plan}\n {}\n begun a PreRules reason:Prepared\n keeps a\n planjob a complete prepares",
            by_numo.replace("\"Numo\"", "\"Numo\",\"drain\":{\"probe\":false}")
        )),
        "> cordon a with the same taints",
    );
    // The last look.
    let probed = |rest: &str| {
        two(&format!(
            "{plan}\n {by_numo}\n begun a PreRules reason:Prepared\n keeps a\n planjob a complete prepares\n {rest}"
        ))
    };
    check(
        &probed("pod web on a of:ReplicaSet/web deleting:-601"),
        "node a PreRules DrainBlocked ~ Pod shop/web is stuck in Terminating
         > journal a closed",
    );
    check(
        &probed("pod web on a of:ReplicaSet/web deleting:-600"),
        "? evictions a 0",
    );
    // A prepare that fails holds the node.
    check(
        &at("begun a new\n keeps a\n planjob a failed prepares exit:1"),
        "node a Held JobFailed",
    );
}

/// What `prepare` does may take long, and a person may have cordoned the node before all.
#[test]
fn a_node_that_a_person_cordoned_is_looked_at_and_its_rules_confirmed_before_it_is_drained() {
    let at = |turn: &str, keeps: &str, pods: &str| {
        format!(
            r#"node a worker v0
               rule before Pre
               plan concurrency:1 finalizer applying:a drain
               binding x spec {{"ownerSelector":{{"kind":"Plan"}},"drainBy":"Numo","rules":[{{"name":"before"}}]}}
               begun a PreRules {turn}
               keeps a {keeps}
               {pods}"#
        )
    };
    let (fresh, old) = ("verdict:before/Pre/1/Pass", "verdict:before/Pre/1/Pass~1800");
    let edited = "verdict:before/Pre/1/Pass^2";
    let (free, stuck) = (
        "pods a\n drain a free",
        "pod web on a of:ReplicaSet/web deleting:-601",
    );
    check(
        &at(fresh, "prior", stuck),
        "node a PreRules DrainBlocked ~ Pod shop/web is stuck in Terminating
         > journal a closed",
    );
    for outdated in [old, edited] {
        check(&at(outdated, "prior", free), "> job before/Pre/2 of a");
        // Of numo's cordon too: it may be of an attempt before, and the rules were asked since.
        check(&at(outdated, "cordoned done", free), "> job before/Pre/2 of a");
    }
    // Once both are so, it is numo's own from then on; the person's cordon is still remembered.
    check(&at(fresh, "prior", free), "> cordon a with the same taints");
    check(&at(fresh, "prior done", free), "> journal a Cordoned");
    check(&at(fresh, "cordoned done", stuck), "> journal a Cordoned");
}

/// A pod that was bound to a node before that was cordoned may be seen after its drain was over: it would go with the node.
#[test]
fn a_drained_node_on_which_an_older_pod_is_seen_late_is_drained_again() {
    let at = |turn: &str, pod: &str| {
        format!(
            r#"node a worker v0
               plan concurrency:1 finalizer applying:a drain
               binding x spec {{"ownerSelector":{{"kind":"Plan"}},"drainBy":"Numo"}}
               begun a {turn}
               keeps a cordoned done
               {pod}"#
        )
    };
    let drained = "Drained entered:Cordoned";
    check(
        &at(drained, "pod web on a of:ReplicaSet/web"),
        "node a Cordoned Draining ~ before it was cordoned\n > journal a Cordoned",
    );
    // What stays on a node that is drained stays.
    check(
        &at(drained, "pod agent on a of:DaemonSet/agent"),
        "not node a Cordoned Draining",
    );
    // It is evicted then.
    let again = "Cordoned entered:Cordoned entered:Drained";
    check(&at(again, "pod web on a of:ReplicaSet/web"), "> evict web");
}

/// Whoever opens a drained node lets pods onto it, also while numo may not close it.
#[test]
fn a_drained_node_that_was_opened_while_its_turn_was_closed_is_drained_again() {
    let at = |turn: &str, keeps: &str, more: &str| {
        format!(
            r#"node a worker v0
               plan concurrency:1 finalizer applying:a drain
               binding x spec {{"ownerSelector":{{"kind":"Plan"}},"drainBy":"Numo"}}
               begun a {turn}
               keeps a {keeps}
               {more}"#
        )
    };
    let stopped = "budget all max:9 paused";
    let drained = "Drained entered:Cordoned";
    check(
        &at(drained, "done", stopped),
        "node a Cordoned Stopped\n > journal a Cordoned ForeignWriter",
    );
    // That is written once, and an open node is never drained.
    let opened = "Cordoned reason:ForeignWriter entered:Cordoned entered:Drained";
    let never = "Cordoned";
    for empty in ["", "\n pods a"] {
        let stopped = format!("{stopped}{empty}");
        check(
            &at(opened, "done", &stopped),
            "node a Cordoned Stopped\n > nothing",
        );
        check(
            &at(never, "done", &stopped),
            "node a Cordoned Stopped\n > journal a Cordoned ForeignWriter",
        );
    }
    // Somebody has closed it again, and the stop is over.
    let web = "pod web on a of:ReplicaSet/web";
    check(
        &at(opened, "cordoned done", &format!("{web} created:-1")),
        "node a Cordoned Draining\n > journal a Cordoned",
    );
    let again = "Cordoned entered:Cordoned entered:Drained entered:Cordoned/ForeignWriter";
    check(
        &at(again, "cordoned done", web),
        "node a Cordoned Draining\n > evict web",
    );
    check(&at(again, "cordoned done", "pods a"), "> journal a Drained");
    // What is drained once more is so, though numo had to close it.
    let twice = "Drained entered:Cordoned entered:Drained entered:Cordoned";
    check(
        &at(twice, "cordoned done corrections:1", "pods a"),
        "> job a Upgrade",
    );
    // numo closes it itself where nothing stops it.
    check(
        &at(drained, "done", ""),
        "node a Cordoned Draining
         > journal a Cordoned ForeignWriter
         > cordon a with the same taints",
    );
}

/// Its rules may take hours after the drain: what is not known is not gone.
#[test]
fn a_drained_node_whose_pods_are_not_known_is_not_let_go() {
    let at = |more: &str| {
        format!(
            r#"node a worker v0
               plan concurrency:1 finalizer applying:a drain
               binding x spec {{"ownerSelector":{{"kind":"Plan"}},"drainBy":"Numo"}}
               begun a Drained entered:Cordoned
               keeps a cordoned done
               {more}"#
        )
    };
    check(&at(""), "node a Drained Draining ~ are being listed\n > nothing");
    check(
        &at("budget all max:9 paused"),
        "node a Drained Stopped\n > nothing",
    );
    check(&at("pods a"), "> job a Upgrade");
}

/// The Job of node a was started, and the node is as `node` says; `more` is of the Plan, `job` of the Job.
fn away(node: &str, more: &str, begun: &str, job: &str) -> String {
    format!(
        "node a worker v0 {node}
         node b worker v0
         plan concurrency:1 cordon finalizer applying:a {more}
         begun a Released boot:b1 {begun}
         keeps a
         planjob a running {job}"
    )
}

#[test]
fn a_turn_whose_job_no_kubelet_takes_up_is_restored() {
    let dead = |begun: &str, job: &str| away("NotReady", "", begun, job);
    check(
        &dead("", "untouched"),
        "node a Released NodeNotReady ~ no kubelet has taken up Job system-upgrade/apply-p-on-a
         node b Selected WaitingForTurn
         wake 60
         > journal a closed",
    );
    check(
        &dead("closed:60", "untouched"),
        "node a Selected NodeNotReady
         > remove job a
         > journal a Selected NodeNotReady attempt 2",
    );
    // Its lease and shield go with it, and b is begun.
    check(
        "node a worker v0 NotReady
         node b worker v0
         plan concurrency:1 cordon finalizer applying:a
         begun a Selected reason:NodeNotReady attempt:2 entered:Released closed:5
         keeps a",
        "node a Selected NodeNotReady
         > restore a
         > release lease a
         > admit b",
    );
    // numo died after it deleted the Job, and before it wrote so.
    let deleted = |closed: i64, node: &str| {
        format!(
            "node a worker v0 {node}
             plan concurrency:1 cordon finalizer applying:a
             begun a Released boot:b1 closed:{closed}
             keeps a"
        )
    };
    for node in ["NotReady", ""] {
        check(
            &deleted(70, node),
            "node a Selected NodeNotReady\n > journal a Selected NodeNotReady attempt 2",
        );
        // It may have run since, and be gone by its TTL; or somebody else has deleted it.
        for closed in [901, 59] {
            check(&deleted(closed, node), "node a Held JobLost");
        }
    }
    // It is back before the minute is over: the minute begins anew the next time.
    check(
        &away("", "", "closed:59", "untouched"),
        "node a Released UpgradeStarting
         > journal a open",
    );
}

#[test]
fn what_may_have_run_on_a_dead_node_keeps_its_turn_and_can_be_skipped() {
    let dead = |begun: &str, job: &str| away("NotReady", "", begun, job);
    check(
        &dead("closed:999", ""),
        "node a Released Upgrading ~ `numo skip a`
         node b Selected WaitingForTurn
         > nothing",
    );
    check(
        &dead("", "runs:upgrade"),
        "node a Released Upgrading ~ `numo skip a`\n > nothing",
    );
    // An earlier Job of it may have changed the node, or numo has cordoned it.
    for begun in ["entered:Admitted/JobFailed", "entered:Cordoned"] {
        check(
            &dead(&format!("{begun} closed:999"), "untouched"),
            "node a Released NodeNotReady ~ `numo skip a`\n > nothing",
        );
    }
    // Whoever asks for nodes that are not Ready waits for them.
    check(
        &away(
            "NotReady",
            "spec {\"mutex\":{\"takeNotReady\":true}}",
            "closed:999",
            "untouched",
        ),
        "node a Released NodeNotReady ~ `numo skip a`",
    );
    // Left out: the others go on, and what its Job cordoned is given back when that is over.
    check(
        &dead("directive:Skip", "runs:upgrade"),
        "node a Skipped SkippedByPerson
         > journal a Skipped SkippedByPerson",
    );
    let skipped = |node: &str, job: &str| {
        format!(
            "node a worker v0 {node}
             node b worker v0
             plan concurrency:1 cordon finalizer applying:a
             begun a Skipped reason:SkippedByPerson directive:Skip entered:Released
             keeps a cordoned
             planjob a {job}"
        )
    };
    check(
        &skipped("NotReady", "running"),
        "node a Skipped SkippedByPerson
         > admit b",
    );
    // Also when nothing else is to be done: the end of its Job is waited for.
    check(
        &skipped("NotReady", "running").replace("applying:a", "applying:a\n at b"),
        "phase Active
         > nothing",
    );
    check(
        &skipped("", "complete"),
        "node a Skipped SkippedByPerson
         > restore a uncordoned
         > release lease a
         > admit b",
    );
    // What runs on a node that is Ready is never left.
    check(
        &away("", "", "directive:Skip", "runs:upgrade"),
        "node a Released Upgrading\n > nothing",
    );
}

#[test]
fn a_node_that_dies_before_its_job_gives_its_turn_back() {
    let turn = |begun: &str| {
        format!(
            "node a worker v0 NotReady
             node b worker v0
             plan concurrency:1 cordon finalizer applying:a
             begun a {begun}
             keeps a"
        )
    };
    check(
        &turn("new"),
        "node a PreRelease NodeNotReady\n wake 60\n > journal a closed",
    );
    check(
        &turn("new closed:60"),
        "node a Selected NodeNotReady\n > journal a Selected NodeNotReady attempt 2",
    );
    // Who asks for a retry of a node that failed has seen it.
    check(&turn("Admitted attempt:2 entered:Admitted/JobFailed"), "> job a");
}

#[test]
fn what_the_jobs_drain_waits_for_is_said() {
    check(
        &two("plan concurrency:1 finalizer applying:a drain
             begun a Released boot:b1
             keeps a cordoned
             planjob a running runs:drain
             pod web-0 on a of:ReplicaSet/web app:web
             pdb web allows:0"),
        "node a Released EvictionBlocked ~ PodDisruptionBudget shop/web
         > nothing",
    );
    check(
        &two("plan concurrency:1 finalizer applying:a cordon
             begun a Released boot:b1
             keeps a cordoned
             planjob a running trouble:ImagePullBackOff"),
        "node a Released UpgradeCannotStart ~ ImagePullBackOff: words",
    );
}

#[test]
fn beside_a_live_controller_and_elsewhere_nothing_is_begun() {
    check(
        &two("plan concurrency:1 cordon\n foreign-plans"),
        "hold ForeignController\n > nothing",
    );
    check(
        &two("plan concurrency:1 cordon suspended"),
        "hold Suspended\n > nothing",
    );
    check(
        &two("plan concurrency:1 cordon finalizer\n begun a new directive:Hold"),
        "node a Selected HeldByPerson",
    );
}

#[test]
fn a_node_whose_label_was_taken_off_is_done_once_more() {
    let plan = "plan concurrency:1 cordon finalizer\n at b";
    check(
        &two(&format!("{plan}\n begun a Done\n planjob a complete")),
        "node a Selected JobBeingDeleted
         > remove job a",
    );
    check(
        &two(&format!("{plan}\n begun a Done\n planjob a complete deleting")),
        "node a Selected JobBeingDeleted
         ends a ClusterItself
         > finalizer 0 off",
    );
    // One that a finalizer keeps for ten minutes is a person's, before the turn as well.
    check(
        &two(&format!(
            "{plan}\n begun a Done\n planjob a complete deleting deleting-since:-600"
        )),
        "node a Selected JobBeingDeleted ~ it has been so since
         ends a ClusterAdmin
         > finalizer 0 off",
    );
    check(
        &two(&format!("{plan}\n begun a Done")),
        "> journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_job_of_another_hash_or_an_earlier_node_stands_for_nothing() {
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n planjob a complete hash:old"),
        "> remove job a
         > admit a",
    );
    // The node was made again under its name after the Job had ended.
    let anew = "node a worker v0 age:0";
    check(
        &format!("{anew}\n plan concurrency:1 cordon finalizer\n planjob a complete"),
        "> remove job a
         > admit a",
    );
    // The name is taken until it is gone.
    check(
        &format!(
            "{anew}\n plan concurrency:1 cordon finalizer applying:a\n begun a new\n keeps a\n planjob a complete deleting"
        ),
        "node a PreRelease JobBeingDeleted
         > nothing",
    );
}

#[test]
fn a_job_that_has_the_name_and_that_nobody_deletes_is_a_persons_after_a_while() {
    let taken = |since: i64, more: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer
             begun a Admitted made:-700 since:{since}
             keeps a
             planjob a running plan-uid:uid-before {more}"
        ))
    };
    check(
        &taken(-590, ""),
        "node a PreRelease JobBeingDeleted ~ exists already
         ends a ClusterItself
         > nothing",
    );
    check(
        &taken(-600, ""),
        "node a PreRelease UpgradeCannotStart ~ delete it
         ends a ClusterAdmin
         > nothing",
    );
    check(
        &taken(-600, "deleting"),
        "node a PreRelease JobBeingDeleted
         ends a ClusterItself
         > nothing",
    );
}

#[test]
fn a_paused_job_that_does_not_go_is_a_persons_after_a_while() {
    // The turn is given up, or it begins anew.
    for (version, turn, hash) in [
        ("v2", "begun a new hash:old to:v1\n keeps a", "hash:old"),
        ("v1", "begun a new in-service\n keeps a in-service", ""),
    ] {
        let paused = |since: i64| {
            two(&format!(
                "plan version:{version} concurrency:1 cordon finalizer\n at b\n {turn}
                 planjob a paused {hash} deleting deleting-since:{since}"
            ))
        };
        check(
            &paused(-590),
            "node a Admitted JobBeingDeleted
             ends a ClusterItself
             > nothing",
        );
        check(
            &paused(-600),
            "node a Admitted JobBeingDeleted ~ it has been so since
             ends a ClusterAdmin
             > nothing",
        );
    }
}

#[test]
fn a_turn_that_was_made_for_another_cordon_is_made_anew() {
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n begun a Done in-service"),
        "> forget a v1",
    );
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n begun a new in-service\n keeps a in-service"),
        "> restore a
         > forget a v1",
    );
}

#[test]
fn what_is_held_is_restored_while_nothing_may_begin() {
    let superseded = "begun a Failed hash:old to:v1 reason:Superseded\n keeps a cordoned";
    check(
        &two(&format!(
            "plan version:v2 concurrency:1 cordon finalizer suspended\n {superseded}"
        )),
        "hold Suspended
         > restore a uncordoned
         > release lease a",
    );
    // Not under a Job that still runs: its turn is taken up again.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a\n at b\n keeps a cordoned\n planjob a running"),
        "> admit a",
    );
    // Back to a version that was given up for another one before.
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n begun a Failed reason:Superseded"),
        "> journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_node_that_is_complete_and_never_ready_can_be_left() {
    let stuck = |more: &str, directive: &str| {
        format!(
            "node a worker v0 NotReady
             plan concurrency:1 cordon finalizer applying:a {more}
             begun a Changed boot:b1 entered:Released {directive}
             keeps a cordoned"
        )
    };
    check(&stuck("", ""), "node a Changed NodeNotReady\n > nothing");
    check(
        &stuck("", "directive:Skip generation:2"),
        "> restore a uncordoned
         > journal a Skipped SkippedByPerson
         > release lease a",
    );
    check(
        &stuck("deleting", ""),
        "> restore a uncordoned
         > journal a Failed RunGivenUp
         > release lease a",
    );
}

#[test]
fn a_plan_is_deleted_though_its_jobs_may_not_be_seen() {
    let at = |more: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {more}
             begun a Released boot:b1
             keeps a cordoned
             blind"
        ))
    };
    check(&at(""), "hold PlanJobsForbidden\n > nothing");
    check(
        &at("deleting"),
        "> restore a uncordoned
         > journal a Failed RunGivenUp
         > release lease a",
    );
}

#[test]
fn an_edit_retries_a_node_once() {
    // The pin says from which state of the Plan the attempt was made.
    check(
        &two("plan concurrency:1 cordon finalizer applying:a generation:3
             begun a Held reason:JobFailed entered:Released boot:b1 made-from:3
             keeps a cordoned
             planjob a failed exit:3"),
        "node a Held JobFailed\n > nothing",
    );
}

#[test]
fn a_closed_window_does_not_leave_a_node_cordoned() {
    let window = r#"spec {"window":{"days":["mon"],"startTime":"1","endTime":"2"}}"#;
    let drained = format!(
        "plan concurrency:1 finalizer applying:a drain {window}
         binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\"}}
         begun a Drained entered:Cordoned
         keeps a cordoned
         pods a"
    );
    check(&two(&drained), "> job a Upgrade");
}

#[test]
fn a_window_that_never_opens_is_a_persons_to_mend_and_keeps_no_turn() {
    let window = r#"spec {"window":{"days":[],"startTime":"1","endTime":"2"}}"#;
    let of = |closed: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {window}\n begun a new {closed}\n keeps a"
        ))
    };
    check(
        &of(""),
        "ends a ClusterAdmin\n stalled a OutsideWindow\n > journal a closed",
    );
    check(
        &of("closed:60"),
        "node a Selected OutsideWindow\n > journal a Selected OutsideWindow attempt 2",
    );
}

#[test]
fn a_window_closes_a_turn_of_any_attempt_before_its_first_disruption() {
    let window = r#"spec {"window":{"days":["mon"],"startTime":"1","endTime":"2"}}"#;
    let of = |begun: &str| {
        two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {window}\n begun a new {begun}\n keeps a"
        ))
    };
    for begun in ["", "attempt:3"] {
        check(&of(begun), "node a PreRelease OutsideWindow\n > journal a closed");
    }
    // What was done to the node in an earlier attempt is brought to its end.
    check(
        &two(&format!(
            "plan concurrency:1 cordon finalizer applying:a {window}
             begun a PreRules attempt:2 entered:Cordoned boot:b1
             keeps a cordoned"
        )),
        "> job a",
    );
}

#[test]
fn a_budget_that_lets_no_pod_go_is_seen_before_the_job_drains() {
    let of = |more: &str| {
        two(&format!(
            "plan concurrency:1 drain finalizer applying:a\n begun a new {more}\n keeps a\n pods a"
        ))
    };
    check(&of(""), "? evictions a 0\n > nothing");
    let blocked = |more: &str| format!("{}\n drain a blocked", of(more));
    check(
        &blocked(""),
        "node a PreRelease DrainBlocked\n > journal a closed",
    );
    check(
        &blocked("closed:60"),
        "node a Selected DrainBlocked\n > journal a Selected DrainBlocked attempt 2",
    );
    check(&format!("{}\n drain a free", of("")), "> job a");
    // Pods that are deleted ask no budget.
    let deletes = r#"spec {"drain":{"disableEviction":true}}"#;
    check(
        &two(&format!(
            "plan concurrency:1 finalizer applying:a {deletes}\n begun a new\n keeps a\n pods a"
        )),
        "> job a",
    );
}

#[test]
fn a_node_that_stays_away_under_its_job_is_stalled() {
    let of = |dark: i64| away(&format!("NotReady dark:{dark}"), "", "", "runs:upgrade");
    check(
        &of(599),
        "node a Released Upgrading\n ends a Node\n ends b OtherNode\n stalled -\n wake 1",
    );
    check(
        &of(600),
        "node a Released Upgrading ~ `numo skip a` leaves it out
         ends a ClusterAdmin
         node b Selected WaitingForTurn
         ends b ClusterAdmin
         stalled a Upgrading",
    );
}

#[test]
fn nodes_that_wait_for_a_dead_first_node_are_stalled_and_name_it() {
    let of = |node: &str| {
        format!(
            "node a worker v0 {node} label:canary=true
             node b worker v0
             plan concurrency:1 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"first\":{{\"matchLabels\":{{\"canary\":\"true\"}}}}}}"
        )
    };
    check(
        &of(""),
        "node b Selected FirstNodes\n ends b OtherNode\n stalled -\n > admit a",
    );
    check(
        &of("NotReady"),
        "node a Selected NodeNotReady
         node b Selected FirstNodes ~ Node a goes first
         ends b ClusterAdmin
         stalled a NodeNotReady",
    );
}

#[test]
fn others_wait_until_the_turn_of_the_first_node_is_over() {
    let of = |turn: &str| {
        format!(
            "node a worker v0 label:canary=true
             node b worker v0
             plan concurrency:2 cordon finalizer applying:a
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"soakSeconds\":600,\"first\":{{\"matchLabels\":{{\"canary\":\"true\"}}}}}}
             at a
             {turn}"
        )
    };
    check(
        &of("begun a Soaked entered:Released entered:Changed since:-10\n kept a"),
        "node b Selected FirstNodes ~ Node a goes first",
    );
    check(&of(""), "> admit b");
}

#[test]
fn a_node_that_a_new_version_sends_back_keeps_no_cordon_while_others_go_first() {
    let of = |of_a: &str, of_b: &str| {
        format!(
            "node a worker v0 {of_a}
             node b worker v0 {of_b}
             plan version:v2 concurrency:2 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"first\":{{\"matchLabels\":{{\"canary\":\"true\"}}}}}}
             begun a Failed hash:old to:v1 reason:Superseded
             keeps a cordoned
             budget all selector:all max:1"
        )
    };
    // Its cordon would take the one place that b, which goes first, waits for.
    check(
        &of("", "label:canary=true"),
        "> restore a uncordoned\n > release lease a",
    );
    check(&of("label:canary=true", ""), "> release lease a\n > admit a");
    // A first node that a person left out holds nobody back, and a keeps its cordon.
    let skipped = format!(
        "{}\n begun b Skipped reason:SkippedByPerson directive:Skip",
        of("", "label:canary=true")
    );
    check(&skipped, "> release lease a\n > admit a");
}

#[test]
fn a_failure_budget_counts_a_node_that_is_gone_after_its_release_until_a_person_skips_it() {
    let of = |begun: &str| {
        format!(
            "node a worker v0
             node b worker v0
             node c worker v0
             plan concurrency:1 cordon finalizer
             binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"failureBudget\":1}}
             begun a Failed reason:NodeGone {begun}
             gone a"
        )
    };
    check(
        &of("entered:Released boot:b1"),
        "hold FailureBudgetSpent ~ `numo skip a` continues without the node that is gone",
    );
    check(
        &of("entered:Released boot:b1 generation:2 directive:Skip"),
        "hold -",
    );
    // Nothing was done to it: an autoscaler took it away.
    check(&of(""), "hold -");
}

#[test]
fn a_failure_budget_counts_what_failed_only() {
    check(
        &two("plan concurrency:1 cordon finalizer
             binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"failureBudget\":1}
             begun a Failed reason:RunGivenUp
             at b"),
        "> journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_finalizer_that_somebody_took_away_is_put_back() {
    check(
        &two("plan concurrency:1 cordon applying:a
             begun a Released boot:b1
             keeps a cordoned
             planjob a running runs:upgrade"),
        "> finalizer on",
    );
}

#[test]
fn labels_that_no_node_can_have_begin_nothing() {
    for (labels, words) in [
        (r#"{"a b":"x"}"#, "spec.postCompleteLabels[a b]: found \"a b\""),
        (
            r#"{"x":"$(LATEST_HASH)-$(LATEST_HASH)"}"#,
            "spec.postCompleteLabels[x]: found",
        ),
        (r#"{"x":"a/b"}"#, "spec.postCompleteLabels[x]: found \"a/b\""),
    ] {
        check(
            &two(&format!(
                "plan concurrency:1 cordon finalizer spec {{\"postCompleteLabels\":{labels}}}"
            )),
            &format!("hold InvalidField ~ {words}\n > finalizer 0 off"),
        );
    }
    // A node that is left out of the Plan meanwhile stays so; the Plan's own label is its own.
    check(
        &two(
            "plan concurrency:1 cordon finalizer applying:a spec {\"postCompleteLabels\":{\"plan.upgrade.cattle.io/p\":\"x\"}}
             begun a Changed boot:b1 entered:Released
             at a is:disabled
             keeps a cordoned",
        ),
        "> restore a uncordoned
         > journal a Done
         > release lease a",
    );
}

#[test]
fn two_nodes_with_one_host_name_are_refused() {
    check(
        "node a worker v0\n node b worker v0 label:kubernetes.io/hostname=a\n plan concurrency:2 cordon finalizer",
        "node a Selected InvalidField ~ have the same label
         node b Selected InvalidField
         > finalizer 0 off",
    );
}

#[test]
fn agents_go_to_the_version_of_their_servers_only() {
    check(
        &format!(
            "node s master v0 kubelet:v1\n{TWO}\n plan version:v2 concurrency:1 cordon finalizer spec {}\n other-plan servers complete",
            r#"{"prepare":{"image":"i","args":["prepare","servers"]}}"#
        ),
        "hold WaitsForPlan ~ wanted the same version",
    );
}

#[test]
fn two_control_plane_nodes_begun_at_one_moment_do_not_wait_for_each_other() {
    let both = |created: &str| {
        format!(
            "node a master v0
             node b master v0
             node c master v0
             maintenance b
             turn b new created:{created}
             plan concurrency:1 cordon finalizer applying:a
             begun a new
             keeps a"
        )
    };
    check(&both("-10"), "> job a");
    check(&both("-90"), "node a PreRelease EtcdQuorum\n > journal a closed");
}

#[test]
fn jobs_of_rules_are_let_go_when_nobody_waits_for_them() {
    check(
        &two("plan concurrency:1 cordon\n at a\n at b\n rulejob r"),
        "> ttl numo/r 7",
    );
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n begun a new\n keeps a\n rulejob r"),
        "wake 0\n > nothing",
    );
}

#[test]
fn the_cordon_of_a_failed_job_is_not_taken_for_a_persons() {
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Admitted attempt:2 entered:Held/JobFailed
             keeps a cordoned"),
        "> job a",
    );
    // The version that follows is told.
    check(
        &two("plan version:v2 concurrency:1 cordon finalizer applying:a
             begun a Held hash:old to:v1 reason:JobFailed entered:Released boot:b1
             keeps a cordoned"),
        "> shield a
         > journal a Failed Superseded
         > release lease a",
    );
}

#[test]
fn a_held_node_stays_so_when_its_job_is_gone() {
    check(
        &two("plan concurrency:1 cordon finalizer applying:a
             begun a Held reason:JobFailed entered:Held/JobFailed boot:b1
             keeps a cordoned"),
        "node a Held JobFailed
         > nothing",
    );
}

#[test]
fn a_job_that_another_controller_began_counts_from_the_first() {
    check(
        &two("plan concurrency:1 cordon finalizer applying:a\n planjob a running"),
        "node b Selected WaitingForTurn
         > admit a",
    );
    // Of another version: it comes to its end first.
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n planjob a running hash:old to:v0"),
        "node a Selected NodeBusy ~ to version v0 still runs
         > finalizer 0 off",
    );
    // A pod of one that is being deleted may still run.
    check(
        &two("plan concurrency:1 cordon finalizer\n at b\n planjob a running hash:old to:v0 deleting"),
        "node a Selected JobBeingDeleted ~ to version v0 is being deleted
         > finalizer 0 off",
    );
    // On a node that is dark nobody sees its end: a person goes on without the node.
    let dark = "node a worker v0 NotReady
         node b worker v0
         plan concurrency:1 cordon finalizer
         at b
         planjob a running hash:old to:v0";
    check(
        dark,
        "node a Selected NodeNotReady ~ `numo skip a` leaves it out
         stalled a NodeNotReady
         > finalizer 0 off",
    );
    check(
        &format!("{dark}\n begun a new directive:Skip"),
        "node a Skipped SkippedByPerson
         > journal a Skipped SkippedByPerson",
    );
}

#[test]
fn a_node_that_waits_is_left_out_when_a_person_says_so() {
    let dead = |first: &str, begun: &str| {
        format!(
            "node a worker v0 NotReady
             node b worker v0
             plan concurrency:1 cordon finalizer
             {first}
             {begun}"
        )
    };
    let again = "begun a Selected reason:NodeNotReady directive:Skip generation:2";
    for begun in ["begun a new directive:Skip", again] {
        check(
            &dead("", begun),
            "node a Skipped SkippedByPerson
             > admit b
             > journal a Skipped SkippedByPerson",
        );
        // The others wait for it no longer, if it was to go first.
        let first = "binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"first\":{\"matchLabels\":{\"kubernetes.io/hostname\":\"a\"}}}";
        check(
            &dead(first, begun),
            "node a Skipped SkippedByPerson
             > journal a Skipped SkippedByPerson
             > admit b",
        );
    }
    // What was asked of an earlier turn says nothing of this one.
    check(
        &dead("", "begun a Selected reason:NodeNotReady directive:Skip"),
        "node a Selected NodeNotReady
         > admit b",
    );
}

#[test]
fn a_node_that_is_going_away_and_stays_is_a_persons_after_ten_minutes() {
    let leaving = |since: &str| {
        format!("node a worker v0 leaving:autoscaler {since}\n plan concurrency:1 cordon finalizer")
    };
    check(
        &leaving(""),
        "node a Selected NodeLeaving
         ends a ClusterItself
         stalled -",
    );
    check(
        &leaving("overdue"),
        "node a Selected NodeLeaving ~ it has been so since
         ends a ClusterAdmin
         stalled a NodeLeaving",
    );
}

#[test]
fn a_turn_waits_while_nobody_knows_the_version() {
    check(
        &two("plan channel concurrency:1 cordon finalizer applying:a
             begun a new hash:old
             keeps a"),
        "node a PreRelease ChannelQueried
         > nothing",
    );
}

#[test]
fn those_that_go_first_do_so_after_an_abort_too() {
    let binding = r#"binding x spec {"ownerSelector":{"kind":"Plan"},"first":{"matchLabels":{"kubernetes.io/hostname":"a"}}}"#;
    check(
        &two(&format!(
            "plan concurrency:2 cordon finalizer\n {binding}\n begun a Failed reason:RunGivenUp"
        )),
        "node b Selected FirstNodes
         > journal a Admitted Admitting attempt 2",
    );
}

#[test]
fn a_superseded_node_is_restored_where_nothing_begins() {
    check(
        &two("plan version:v2 concurrency:0 cordon finalizer
             begun a Failed hash:old to:v1 reason:Superseded
             keeps a cordoned"),
        "hold ConcurrencyZero
         > restore a uncordoned
         > release lease a",
    );
}

/// The MCO or a person takes off the cordon that stood before the turn, and the Job puts on its own: that one goes with the turn.
#[test]
fn a_cordon_of_before_that_somebody_took_off_is_not_kept() {
    let mut cluster = Cluster::parse(
        "node a worker v0
         plan concurrency:1 cordon finalizer applying:a
         begun a Released boot:b1
         keeps a prior
         planjob a running",
    );
    let remembers = |cluster: &Cluster| {
        let decision = decision(cluster);
        let patches = decision
            .actions
            .iter()
            .filter_map(|planned| match &planned.action {
                Action::PatchNode(patch) => Some(patch),
                _ => None,
            });
        let mut marks = patches.flat_map(|patch| &patch.annotations);
        marks
            .find(|change| change.key == marks::CORDONED_BY)
            .and_then(|change| change.to.clone())
    };
    assert_eq!(remembers(&cluster), None, "it stands");
    if let Some(node) = cluster.observed.nodes.get_mut("a") {
        node.unschedulable = false;
    }
    let mark = remembers(&cluster).unwrap_or_default();
    assert!(mark.contains("\"prior\":false"), "{mark}");
}

/// A Plan that was removed by force has left its mark, and another one of its name takes the node up.
#[test]
fn the_cordon_under_the_mark_of_an_owner_that_is_gone_stays_what_it_was() {
    let remembers = |cluster: &Cluster| {
        let decision = decision(cluster);
        let patch = decision.actions.iter().find_map(|planned| match &planned.action {
            Action::PatchNode(patch) => Some(patch.clone()),
            _ => None,
        });
        let mark = patch.into_iter().flat_map(|patch| patch.annotations);
        let mut mark = mark.filter(|change| change.key == marks::CORDONED_BY);
        mark.next().and_then(|change| change.to)
    };
    for [prior, is_cordoned] in [[false, false], [true, true], [true, false], [false, true]] {
        let mut cluster = Cluster::parse(
            "node a worker v0
             plan concurrency:1 cordon finalizer applying:a
             rule before Pre
             binding x spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"rules\":[{\"name\":\"before\"}]}
             begun a PreRules
             keeps a",
        );
        let node = |cluster: &mut Cluster, mark: &str, is_cordoned| {
            let node = cluster.observed.nodes.get_mut("a").expect("node a");
            node.unschedulable = is_cordoned;
            node.annotations
                .insert(marks::CORDONED_BY.to_owned(), mark.to_owned());
        };
        let gone = format!("{{\"owner\":\"gone\",\"prior\":{prior},\"done\":true}}");
        node(&mut cluster, &gone, is_cordoned);
        let mark = remembers(&cluster).expect("a mark");
        // What people make of the cordon in phase Pre is what was there before: numo has not cordoned the node, unless the cordon is of
        // the owner that is gone.
        let is_of_gone = is_cordoned && !prior;
        node(&mut cluster, &mark, true);
        let of_person = remembers(&cluster).unwrap_or_else(|| mark.clone());
        assert_eq!(
            of_person.contains("\"prior\":true"),
            !is_of_gone,
            "{prior} {is_cordoned}: {of_person}"
        );
        node(&mut cluster, &of_person, false);
        let lifted = remembers(&cluster).unwrap_or_else(|| of_person.clone());
        assert!(
            lifted.contains("\"prior\":false"),
            "{prior} {is_cordoned}: {lifted}"
        );
    }
}

/// It would be upgraded once more when the version is back.
#[test]
fn a_node_whose_job_is_gone_is_not_done_while_the_plan_has_no_version() {
    let cluster = |more: &str, version: Option<&str>| {
        let mut cluster = Cluster::parse(&format!(
            "node a worker v0
             plan concurrency:1 finalizer applying:a {more}
             begun a PostRules entered:Released entered:Changed boot:b1
             keeps a"
        ));
        for plan in cluster.observed.plans.values_mut() {
            plan.spec.version = version.map(str::to_owned);
        }
        cluster
    };
    check_cluster(&cluster("", Some("v1")), "node a Done Done");
    let none = "VersionUnresolved ~ waits: cannot resolve plan: missing channel and version";
    check_cluster(
        &cluster("", None),
        &format!("node a PostRules {none}\n > nothing"),
    );
    // It goes elsewhere by now, or nobody wants it any more.
    check_cluster(&cluster("", Some("v2")), "node a Done Done");
    check_cluster(
        &cluster("deleting", None),
        "not node a PostRules VersionUnresolved",
    );
    // Where the Job is there, it tells the hash.
    let mut known = cluster("", Some("v1"));
    let job = Cluster::parse(
        "node a worker v0\n plan concurrency:1 finalizer applying:a\n planjob a complete\n keeps a",
    );
    known.observed.plan_jobs = job.observed.plan_jobs;
    for plan in known.observed.plans.values_mut() {
        plan.spec.version = None;
    }
    check_cluster(&known, "node a Done Done");
}
