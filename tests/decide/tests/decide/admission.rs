//! Who may begin: limits, budgets, the node itself.

use crate::{
    cluster::{Cluster, at, now},
    words::{check, decision},
};
use numo_api::Reason;
use numo_core::{action::Action, ledger::Ledger};

#[test]
fn as_many_nodes_fly_as_the_run_allows() {
    let cluster = |limit: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             node b worker 4.16.0
             node c worker 4.16.0
             node d worker 4.16.0
             rule slow Pre
             change a PreRules pin:4.17.0
             job slow/Pre/1 of a running
             run finalizer {limit}"
        )
    };
    check(&cluster("{}"), "node b Selected WaitingForTurn ~ a\n > nothing");
    check(
        &cluster("{maxUnavailable: 2}"),
        "node c Selected WaitingForTurn\n > admit b",
    );
    check(
        &cluster("{maxUnavailable: 99%}"),
        "node d Selected WaitingForTurn\n > admit b\n > admit c",
    );
    check(&cluster("{maxUnavailable: 20%}"), "> nothing");
    check(
        &cluster("{maxUnavailable: 10}"),
        "> admit b\n > admit c\n > admit d",
    );
    // 0 means 0: nobody begins, and who may end that is told.
    for zero in ["0", "0%"] {
        check(
            &cluster(&format!("{{maxUnavailable: {zero}}}")),
            "node b Selected MaxUnavailableZero ~ MutexRunConfig numo/run spec.maxUnavailable is 0, which lets no node begin; whoever owns the object raises it with `kubectl -n numo edit mutexrunconfig run`
             ends b ClusterAdmin
             > nothing",
        );
    }
}

#[test]
fn a_run_of_zero_ends_turns_that_have_not_begun_and_no_others() {
    let cluster = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn
         node b worker 4.16.0 turn
         rule slow Pre
         change a PreRules pin:4.17.0
         job slow/Pre/1 of a running
         change b Admitted
         run finalizer {maxUnavailable: 0}";
    check(
        cluster,
        "node a PreRules RuleRunning\n > journal b Selected MaxUnavailableZero",
    );
}

#[test]
fn nodes_that_exclude_each_other_are_never_in_flight_together() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 label:shard=1
         node b worker 4.16.0 label:shard=1
         node c worker 4.16.0 label:shard=2
         node d worker 4.16.0
         node e worker 4.16.0
         run finalizer {maxUnavailable: 9, mutexKeys: [shard]}",
        "node b Selected MutexKeyBusy ~ Node a
         > admit a
         > admit c
         > admit d
         > admit e",
    );
}

#[test]
fn a_budget_counts_nodes_that_others_made_unavailable() {
    let cluster = |budget: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             pool master 4.17.0
             node a worker 4.16.0 zone:z1
             node b worker 4.16.0 zone:z2
             node c worker 4.17.0 zone:z2 NotReady
             node m master 4.17.0 zone:z3 cordoned
             run finalizer {{maxUnavailable: 9}}
             {budget}"
        )
    };
    check(&cluster(""), "> admit a\n > admit b");
    check(
        &cluster("budget all max:2"),
        "node a Selected BudgetExhausted ~ MutexBudget all allows 2 of 4 nodes to be unavailable, and 2 are: c (not Ready), m (cordoned)
         > nothing",
    );
    check(&cluster("budget all max:3"), "> admit a");
    check(&cluster("budget all max:75%"), "> admit a");
    check(&cluster("budget all max:99%"), "> admit a");
    check(&cluster("budget all max:100%"), "> admit a\n > admit b");
    check(&cluster("budget all max:1%"), "> nothing");
    check(&cluster("budget all max:0"), "> nothing");
    check(&cluster("budget all nobody max:0"), "> admit a\n > admit b");
    check(
        &cluster("budget all max:many"),
        "node a Selected BudgetExhausted ~ many",
    );
    check(
        &cluster("budget zones max:1 group:zone"),
        "node b Selected BudgetExhausted ~ z2\n > admit a",
    );
    check(&cluster("budget gpu max:0 label:gpu"), "> admit a\n > admit b");
}

#[test]
fn nodes_without_the_label_are_one_group() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node b worker 4.16.0
         node c worker 4.16.0 zone:z1
         run finalizer {maxUnavailable: 9}
         budget zones max:1 group:zone",
        "node b Selected BudgetExhausted ~ without label
         > admit c
         > admit a",
    );
}

#[test]
fn nodes_of_other_owners_count_too() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         pool infra 4.17.0
         node a worker 4.16.0
         node b infra 4.16.0
         target t worker
         run finalizer {}
         change b PreRules owner:other-uid
         budget all max:1",
        "node a Selected BudgetExhausted ~ b
         > nothing",
    );
}

/// Whether the nodes that fill the budget `all` include one that makes room by itself.
fn makes_room(cluster: &str) -> bool {
    let cluster = Cluster::parse(cluster);
    let ledger = Ledger::of(&cluster.observed, now());
    let uses = ledger.uses();
    assert_eq!(uses.len(), 1, "{uses:#?}");
    uses.iter().all(|used| used.makes_room)
}

#[test]
fn a_budget_tells_whether_a_node_in_flight_makes_room() {
    let filled = |a: &str, change: &str| {
        makes_room(&format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {a}
             node b worker 4.16.0
             run finalizer {{}}
             budget all max:1
             {change}"
        ))
    };
    for a in ["cordoned", "NotReady", "leaving:autoscaler"] {
        assert!(!filled(a, ""), "{a}");
    }
    assert!(!filled("turn", "change a Held pin:4.17.0 reason:RuleFailed"));
    assert!(filled("turn", "change a PreRules pin:4.17.0"));
}

#[test]
fn a_paused_budget_stops_admission() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run finalizer {}
         budget all max:9 paused",
        "node a Selected Stopped
         > nothing",
    );
}

#[test]
fn a_node_that_is_not_fit_lets_the_next_one_go() {
    let cluster = |a: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {a}
             node b worker 4.16.0
             run finalizer {{}}"
        )
    };
    check(
        &cluster("cordoned"),
        "node a Selected CordonedByOther\n > admit b",
    );
    check(&cluster("NotReady"), "node a Selected NodeNotReady\n > admit b");
    check(
        &cluster("state:Degraded"),
        "node a Selected NodeDegraded\n > admit b",
    );
    check(
        &cluster("state:Unreconcilable"),
        "node a Selected NodeDegraded\n > admit b",
    );
    check(
        &cluster("state:Working"),
        "node a Selected NodeNotDone\n > admit b",
    );
    check(
        &cluster("leaving:autoscaler"),
        "node a Selected NodeLeaving ~ autoscaler\n > admit b",
    );
    check(
        &cluster("lease:node-maintenance"),
        "node a Selected NodeLeaseHeld ~ node-maintenance\n > admit b",
    );
    check(&cluster("lease:node-maintenance renewed:-3601"), "> admit a");
}

#[test]
fn a_lease_that_will_expire_is_waited_for() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 lease:node-maintenance renewed:-3000
         run finalizer {}",
        "node a Selected NodeLeaseHeld
         wake 601
         > nothing",
    );
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 lease:node-maintenance renewed:-3000
         run finalizer {}
         change a -",
        "node a Selected NodeLeaseHeld
         > journal a Selected NodeLeaseHeld",
    );
    // One whose renewal lies ahead is believed as little as by Plans and maintenances: it would be held until then.
    let ahead = "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 lease:someone renewed:60
         run finalizer {}";
    check(ahead, "> admit a");
}

#[test]
fn an_admitted_node_takes_its_lease_and_shield_and_then_its_pin() {
    let cluster = |node: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {node}
             run finalizer {{}}
             change a -"
        )
    };
    check(
        &cluster(""),
        "node a Admitted Admitting
         > lease a
         > shield a",
    );
    check(
        &cluster("lease:someone renewed:-9000"),
        "> lease a over an expired one\n > shield a",
    );
    check(&cluster("turn"), "> journal a PreRules");
    check(
        &cluster("turn renewed:-1801"),
        "> renew lease a\n > journal a PreRules",
    );
}

#[test]
fn the_lease_of_a_node_in_flight_is_renewed_in_time() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 turn renewed:-1000
         rule backup Pre
         run finalizer {}
         change a Held pin:4.17.0 reason:RuleFailed",
        "node a Held RuleFailed
         wake 801
         > nothing",
    );
}

#[test]
fn without_node_leases_the_run_goes_on() {
    check(
        "settings no-leases
         cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         run finalizer {}
         change a -",
        "> shield a\n > journal a",
    );
    // Another operator that has leases has the node all the same.
    check(
        "settings no-leases
         cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 lease:node-maintenance
         run finalizer {}",
        "node a Selected NodeLeaseHeld ~ node-maintenance\n > nothing",
    );
}

/// The namespace was made, or the right was given, and until numo began anew no node was leased.
#[test]
fn node_leases_that_were_refused_are_tried_again() {
    let turn = |settings: &str, more: &str| {
        format!(
            "settings {settings}
             cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 {more}
             rule wait Pre wasm timeout:90000
             run finalizer {{}}
             change a PreRules pin:4.17.0
             evaluation wait/Pre/1 of a Wait:Full/30 said:-1"
        )
    };
    let (waits, tries) = ("node a PreRules RuleWaits\n > nothing", "> lease a");
    check(&turn("no-leases", "shield"), waits);
    check(&turn("no-leases refused:-599", "shield"), waits);
    let found = decision(&Cluster::parse(&turn("no-leases refused:-599", "shield")));
    assert_eq!(found.wake_at, Some(at(1)));
    check(&turn("no-leases refused:-600", "shield"), tries);
    // A clock that was put back.
    check(&turn("no-leases refused:3600", "shield"), tries);
    // Nobody has taken it off the node: it is counted as nobody's fault, and nothing is let go by it.
    let found = decision(&Cluster::parse(&turn("no-leases refused:-600", "shield")));
    let journals = |action: &Action| matches!(action, Action::WriteJournal { .. });
    assert!(
        !found.actions.iter().any(|planned| journals(&planned.action)),
        "{:#?}",
        found.actions
    );
    // That of another operator keeps the node, tried again or not.
    for refused in ["", "refused:-1", "refused:-600"] {
        check(
            &format!(
                "settings no-leases {refused}
                 cluster 4.17.0
                 pool worker 4.17.0 ours
                 node a worker 4.16.0 lease:node-maintenance
                 run finalizer {{}}"
            ),
            "node a Selected NodeLeaseHeld ~ node-maintenance\n > nothing",
        );
    }
}

#[test]
fn failed_nodes_end_admission() {
    let cluster = |run: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 turn
             node b worker 4.16.0
             rule backup Pre
             run finalizer {run}
             change a Held pin:4.17.0 reason:RuleFailed"
        )
    };
    check(
        &cluster("{maxUnavailable: 2}"),
        "hold FailureBudgetSpent
         node b Selected FailureBudgetSpent
         > nothing",
    );
    check(&cluster("{maxUnavailable: 2, failureBudget: 2}"), "> admit b");
}

#[test]
fn a_late_joiner_has_its_turn_like_any_other() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.17.0
         node late worker 4.16.0 age:0
         run finalizer {}
         change a Done",
        "node a Done Done
         > admit late",
    );
    // The run had finished: it runs again, for this node only.
    check(
        "cluster 4.17.0
         pool worker 4.17.0
         node a worker 4.17.0
         node late worker 4.16.0 age:0
         run {}
         status 4.17.0 finished
         change a Done",
        "node a Done Done
         node late Selected PoolsPausing
         > finalizer on
         > pause worker",
    );
}

#[test]
fn nodes_of_other_pools_are_not_touched() {
    check(
        "cluster 4.17.0
         pool infra 4.17.0
         pool master 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         node i infra 4.16.0
         node m master 4.16.0 label:node-role.kubernetes.io/worker
         node w worker 4.16.0 label:kubernetes.io/os=windows
         target t worker
         run finalizer {maxUnavailable: 9}",
        "not node i
         not node m
         not node w
         > admit a",
    );
}

#[test]
fn a_node_that_is_recreated_starts_anew() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0 uid:new lease:ours
         run finalizer {}
         change a PreRules uid:old pin:4.17.0",
        "node a Admitted Admitting
         > journal a Failed NodeGone
         > release lease a
         > admit a",
    );
}

#[test]
fn a_node_that_is_gone_gives_its_turn_back() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node b worker 4.16.0
         run finalizer {}
         change a Released pin:4.17.0",
        "> journal a Failed NodeGone
         > admit b",
    );
}

#[test]
fn a_turn_that_was_taken_by_two_leaders_begins_once() {
    // A leader that was replaced made one NodeChange more than may fly: the younger one waits.
    let cluster = |run: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0 label:shard=1
             node b worker 4.16.0 label:shard=1
             run finalizer {run}
             change a - created:-5
             change b - created:-9
             {more}"
        )
    };
    check(
        &cluster("{}", ""),
        "node a Selected WaitingForTurn ~ b
         node b Admitted Admitting
         > journal a Selected WaitingForTurn
         > lease b
         > shield b",
    );
    check(
        &cluster("{maxUnavailable: 2}", ""),
        "> lease a\n > shield a\n > lease b\n > shield b",
    );
    check(
        &cluster("{maxUnavailable: 2, mutexKeys: [shard]}", ""),
        "> journal a Selected MutexKeyBusy\n > lease b\n > shield b",
    );
    check(
        &cluster("{maxUnavailable: 2}", "budget all max:1"),
        "> journal a Selected BudgetExhausted\n > lease b\n > shield b",
    );
    check(
        &cluster("{maxUnavailable: 2}", "budget all max:2"),
        "> lease a\n > shield a\n > lease b\n > shield b",
    );
    // What has begun goes on.
    check(
        &cluster("{}", "").replace("change a - created:-5", "change a PreRules pin:4.17.0"),
        "node b Selected WaitingForTurn ~ a
         > lease a
         > shield a
         > journal a
         > journal b Selected WaitingForTurn",
    );
}

#[test]
fn a_turn_that_has_not_begun_is_restored_when_nothing_may_begin() {
    let cluster = |run: &str, more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             run finalizer {run}
             change a -
             {more}"
        )
    };
    check(
        &cluster("{suspend: true}", ""),
        "node a Selected Suspended\n > journal a Selected Suspended",
    );
    check(
        &cluster("{}", "budget all max:1 paused"),
        "> journal a Selected Stopped",
    );
    check(
        &cluster("{}", "").replace("a worker 4.16.0", "a worker 4.16.0 cordoned"),
        "> journal a Selected CordonedByOther",
    );
    check(
        &cluster("{}", "").replace("a worker 4.16.0", "a worker 4.17.0"),
        "node a Done UpToDate\n > journal a Done UpToDate",
    );
}

#[test]
fn a_persons_word_before_admission_counts() {
    let cluster = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker 4.16.0
             run finalizer {{}}
             change a {change}"
        )
    };
    // A NodeChange that a person made for a node that waits is not a turn.
    check(
        &cluster("- directive:Skip generation:1"),
        "node a Skipped SkippedByPerson
         > journal a Skipped SkippedByPerson
         > admit b",
    );
    check(
        &cluster("- directive:Hold generation:1"),
        "node a Selected HeldByPerson
         > journal a Selected HeldByPerson
         > admit b",
    );
    check(
        &cluster("Selected directive:Hold generation:1 reason:HeldByPerson"),
        "node a Selected HeldByPerson
         > admit b",
    );
    check(
        &cluster("Selected generation:2 reason:HeldByPerson"),
        "node a Admitted Admitting
         node b Selected WaitingForTurn
         > journal a Admitted Admitting",
    );
    // It was said when the node was done; now the node would have another turn.
    check(
        &cluster("Done directive:Skip generation:2"),
        "node a Skipped SkippedByPerson
         > journal a Skipped SkippedByPerson
         > admit b",
    );
    check(
        &cluster("Done directive:Skip generation:2 obeyed:2"),
        "> journal a Admitted ConfigChanged attempt 2",
    );
    check(
        &cluster("- directive:Abort generation:1"),
        "hold Aborted
         node b Selected Aborted",
    );
}

/// It may wait for long, and `kubectl get nodechanges` says so all the while.
#[test]
fn a_node_that_was_skipped_and_is_retried_waits_in_its_journal_too() {
    let retried = "reason:SkippedByPerson generation:2 obeyed:1 directive:Retry";
    let run = |change: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             run finalizer {{suspend: true}}
             change a {change}"
        )
    };
    check(
        &run(&format!("Skipped {retried}")),
        "node a Selected Suspended\n > journal a Selected Admitting",
    );
    // Once written it is not written again.
    check(
        &run("Selected reason:Admitting generation:2 obeyed:2 directive:Retry"),
        "node a Selected Suspended\n > nothing",
    );
    // Whose turn comes now begins: that is the one write.
    check(
        &run(&format!("Skipped {retried}")).replace("suspend: true", ""),
        "node a Admitted Admitting\n > journal a Admitted Admitting attempt 2",
    );
    // What a turn did to a node before it was left out stays to be read.
    check(
        &run(&format!(
            "Skipped {retried} entries:PreRules,Released,Skipped pin:4.17.0"
        )),
        "node a Selected Suspended\n > nothing",
    );
    let plan = |change: &str| {
        format!(
            "node a worker v0
             node b worker v0
             plan concurrency:1 cordon finalizer
             budget all selector:all max:1 paused
             begun a {change}"
        )
    };
    check(
        &plan(&format!("Skipped {retried}")),
        "node a Selected Stopped\n node b Selected Stopped\n > journal a Selected Admitting",
    );
}

/// A journal in mid-run may have been written by a numo that had another name for the reason.
#[test]
fn a_reason_of_a_numo_before_the_first_release_is_understood() {
    for (old, new) in [
        ("GivingBack", Reason::Restoring),
        ("NothingAsked", Reason::NothingGated),
        ("ChannelAsked", Reason::ChannelQueried),
    ] {
        assert_eq!(Reason::named(old), Some(new));
        assert_eq!(Reason::named(new.name()), Some(new));
    }
}

#[test]
fn nodes_that_go_first_are_waited_for() {
    let cluster = |b: &str, rest: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             node a worker 4.16.0
             node b worker {b} label:first=yes
             rule backup Pre
             run {{first: {{matchLabels: {{first: \"yes\"}}}}, maxUnavailable: 2, soakSeconds: 60}} finalizer
             {rest}"
        )
    };
    check(
        &cluster("4.16.0", ""),
        "node a Selected FirstNodes ~ Node b goes first (spec.first)
         > admit b",
    );
    // It has changed, and is not done.
    let soaks = "change b Soaked pin:4.17.0 entries:Admitted,Released,PostRules,Soaked since:-10";
    check(&cluster("4.17.0 turn", soaks), "node a Selected FirstNodes");
    check(&cluster("4.17.0", ""), "> admit a");
    // A node that was left out is not waited for.
    check(
        &cluster("4.16.0", "change b Skipped reason:SkippedByPerson"),
        "> admit a",
    );
    // One that is not Ready is, and a person ends that.
    check(
        &cluster("4.16.0 NotReady", ""),
        "node a Selected FirstNodes\n node b Selected NodeNotReady\n > nothing",
    );
}

/// A slip in a selector or a label opens a gate that looks shut: it is said before a node is lost to it.
#[test]
fn an_order_or_a_limit_that_speaks_of_no_node_is_told_of() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule backup Pre
         run {first: {matchLabels: {canray: \"yes\"}}, mutexKeys: [zoen, kubernetes.io/hostname]} finalizer",
        "note spec.first selects none of 1 node: no node goes first
         note spec.mutexKeys: none of 1 node has the label \"zoen\": it keeps no two of them apart",
    );
}

/// A key that no label can have would part no nodes: two of one zone would be in flight.
#[test]
fn a_mutex_key_that_cannot_be_one_holds_the_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule backup Pre
         run {mutexKeys: [\"a b\"]} finalizer",
        "hold InvalidField ~ spec.mutexKeys: found \"a b\", wanted a label key",
    );
}

#[test]
fn a_selector_of_first_nodes_that_cannot_be_read_holds_the_run() {
    check(
        "cluster 4.17.0
         pool worker 4.17.0 ours
         node a worker 4.16.0
         rule backup Pre
         run {first: {matchExpressions: [{key: a, operator: Equals}]}} finalizer",
        "hold InvalidField ~ spec.first: a: found operator",
    );
}
