//! What a MutexBinding means for NodeMaintenances: each of its fields does what it says, or is refused.

use crate::{
    cluster::Cluster,
    words::{check, check_cluster},
};
use numo_core::binding;

/// Node a and its NodeMaintenance under a binding with these settings.
fn bound(settings: &str, node: &str, more: &str) -> String {
    let comma = if settings.is_empty() { "" } else { "," };
    format!(
        "node a worker 4.16.0 {node}
         maintenance a finalizer
         binding all spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}}{comma}{settings}}}
         pods a
         {more}"
    )
}

#[test]
fn a_field_that_means_nothing_for_a_maintenance_is_refused_in_words() {
    for (settings, words) in [
        (
            "\"waves\":[{\"nodes\":1}]",
            "spec.waves[0].nodes: found some, wanted nodeSelector",
        ),
        ("\"order\":\"Zone\"", "spec.order: found Zone, wanted none"),
        ("\"retries\":2", "spec.retries: found 2, wanted none"),
        (
            "\"drainBy\":\"Job\"",
            "spec.drainBy: found Job, wanted Numo or none",
        ),
    ] {
        let cluster = Cluster::parse(&bound(settings, "", ""));
        check_cluster(
            &cluster,
            &format!("node a Selected FieldNotServed ~ MutexBinding all {words}\n > nothing"),
        );
        let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
        assert!(!is_ready);
        assert_eq!(why.reason.name(), "FieldNotServed");
        assert!(why.message.starts_with(words), "{}", why.message);
    }
    let cluster = Cluster::parse(&bound("\"drainBy\":\"NodeMaintenance\"", "", ""));
    check_cluster(
        &cluster,
        "node a Selected FieldNotServed ~ spec.drainBy: found NodeMaintenance, wanted Numo or none",
    );
    // What is so anyway is no slip.
    for settings in ["\"retries\":0", "\"drainBy\":\"Numo\""] {
        check(&bound(settings, "", ""), "> admit a");
    }
}

/// Only nodes of a NodeVersion are drained by another operator.
#[test]
fn a_plan_whose_nodes_another_operator_is_to_drain_is_refused_in_words() {
    let words = "drainBy: found NodeMaintenance, wanted Job, Numo or none";
    let cluster = Cluster::parse(
        "node a worker 4.16.0
         plan
         binding all spec {\"ownerSelector\":{\"kind\":\"Plan\"},\"drainBy\":\"NodeMaintenance\"}",
    );
    check_cluster(&cluster, &format!("hold FieldNotServed ~ {words}\n > nothing"));
    let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
    assert!(!is_ready && why.message.contains(words), "{}", why.message);
    check(
        "node a worker 4.16.0
         plan spec {\"mutex\":{\"drainBy\":\"NodeMaintenance\"}}",
        &format!("hold FieldNotServed ~ spec.mutex.{words}"),
    );
}

#[test]
fn these_fields_are_served_for_a_plan() {
    let settings =
        "\"first\":{\"matchLabels\":{\"a\":\"b\"}},\"order\":\"Zone\",\"retries\":2,\"drainBy\":\"Job\"";
    let cluster = Cluster::parse(&format!(
        "node a worker 4.16.0
         plan finalizer
         binding all spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{settings}}}"
    ));
    let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
    assert!(is_ready, "{}", why.message);
}

#[test]
fn a_binding_that_asks_nothing_does_not_say_that_it_gates() {
    let of_plan = |settings: &str| {
        format!(
            "node a worker 4.16.0
             plan finalizer
             binding all spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{settings}}}"
        )
    };
    let of_maintenance = |settings: &str| bound(settings, "", "");
    let says = |text: String, settings: &str, is_idle: bool| {
        let cluster = Cluster::parse(&text);
        let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
        let wanted = if is_idle { "NothingGated" } else { "ValidConfig" };
        assert_eq!((is_ready, why.reason.name()), (!is_idle, wanted), "{settings}");
    };
    // Of every kind.
    for (settings, is_idle) in [
        ("\"rules\":[]", true),
        ("\"mutexKeys\":[]", true),
        ("\"drain\":{}", true),
        ("\"soakSeconds\":0", true),
        ("\"retries\":0", true),
        ("\"first\":{}", true),
        ("\"approval\":{}", true),
        ("\"approval\":{\"begin\":\"None\",\"ttlSeconds\":60}", true),
        ("\"leaveOutAfterSeconds\":60", true),
        ("\"maxUnavailable\":1", false),
        ("\"failureBudget\":1", false),
        ("\"drain\":{\"force\":false}", false),
        ("\"soakSeconds\":1", false),
        ("\"first\":{\"matchLabels\":{\"a\":\"b\"}}", false),
        ("\"approval\":{\"afterFailure\":\"Manual\"}", false),
        ("\"notReadyPolicy\":\"LeaveOutAfter\"", false),
    ] {
        says(of_plan(settings), settings, is_idle);
        says(of_maintenance(settings), settings, is_idle);
    }
    // What holds where nothing is given is another thing for a maintenance: its node need not be Ready.
    for (settings, of_a_plan, of_a_maintenance) in [
        ("\"takeNotReady\":false", true, false),
        ("\"takeNotReady\":true", false, true),
        ("\"notReadyPolicy\":\"Wait\"", true, false),
        ("\"drainBy\":\"Numo\"", false, true),
    ] {
        says(of_plan(settings), settings, of_a_plan);
        says(of_maintenance(settings), settings, of_a_maintenance);
    }
    says(of_plan("\"drainBy\":\"Job\""), "drainBy: Job", true);
}

#[test]
fn a_binding_whose_openings_are_on_no_date_does_not_say_that_it_gates() {
    for (cron, ready) in [("0 0 31 2 *", false), ("0 0 29 2 *", true)] {
        let window =
            format!("\"window\":{{\"openings\":[{{\"cron\":\"{cron}\",\"durationSeconds\":3600}}]}}");
        let cluster = Cluster::parse(&bound(&window, "", ""));
        let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
        let wanted = if ready { "ValidConfig" } else { "InvalidField" };
        assert_eq!((is_ready, why.reason.name()), (ready, wanted), "{}", why.message);
    }
}

#[test]
fn a_binding_of_one_group_gates_that_group_and_no_other() {
    let of = |kind: &str, group: &str, owner: &str| {
        Cluster::parse(&format!(
            "node a worker 4.16.0
             {owner}
             binding all spec {{\"ownerSelector\":{{\"kind\":\"{kind}\",\"apiGroup\":\"{group}\"}},\"maxUnavailable\":0}}
             pods a"
        ))
    };
    let gated = "node a Selected MaxUnavailableZero\n > nothing";
    let (medik8s, kubevirt) = ("nodemaintenance.medik8s.io", "nodemaintenance.kubevirt.io");
    let (new, old) = ("maintenance a finalizer", "maintenance a finalizer kubevirt");
    check_cluster(&of("NodeMaintenance", medik8s, new), gated);
    check_cluster(&of("NodeMaintenance", kubevirt, new), "> admit a");
    for (group, owner, number) in [
        (medik8s, new, 1),
        (medik8s, old, 0),
        (kubevirt, new, 0),
        (kubevirt, old, 1),
    ] {
        let cluster = of("NodeMaintenance", group, owner);
        let spec = &cluster.observed.bindings["all"].spec;
        assert_eq!(
            binding::owners_of(spec, &cluster.observed).len(),
            number,
            "{group} {owner}"
        );
    }
    let plan = "plan concurrency:1 cordon";
    check_cluster(&of("Plan", "upgrade.cattle.io", plan), gated);
    // A slip gates every owner of the kind.
    let of_maintenance = "nodemaintenance.medik8s.io, nodemaintenance.kubevirt.io or none";
    for (kind, group, owner, wanted) in [
        ("NodeMaintenance", "upgrade.cattle.io", new, of_maintenance),
        ("NodeMaintenance", "", new, of_maintenance),
        ("Plan", medik8s, plan, "upgrade.cattle.io or none"),
    ] {
        let cluster = of(kind, group, owner);
        let words = format!("spec.ownerSelector.apiGroup: found {group:?} with kind {kind}, wanted {wanted}");
        check_cluster(
            &cluster,
            &format!("node a Selected InvalidField ~ {words}\n > nothing"),
        );
        let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
        assert!(!is_ready);
        assert_eq!(&*why.message, words);
    }
}

#[test]
fn a_failure_budget_that_cannot_be_read_is_refused_as_max_unavailable_is() {
    for field in ["maxUnavailable", "failureBudget"] {
        let settings = format!("\"{field}\":\"many\"");
        for kind in ["NodeMaintenance", "Plan"] {
            let text = bound(&settings, "", "").replace("\"NodeMaintenance\"", &format!("\"{kind}\""));
            let cluster = Cluster::parse(&text);
            let (is_ready, why, _) = binding::state(&cluster.observed.bindings["all"], &cluster.observed);
            assert!(!is_ready, "{kind} {field}");
            assert_eq!(why.reason.name(), "InvalidField");
            let words = format!("spec.{field}: found \"many\", wanted a whole number");
            assert!(why.message.starts_with(&words), "{}", why.message);
        }
        let words = format!("node a Selected InvalidField ~ MutexBinding all spec.{field}: found \"many\"");
        check(&bound(&settings, "", ""), &format!("{words}\n > nothing"));
    }
}

/// Another maintenance of the binding, on node b, whose turn is in this step.
fn other(step: &str) -> String {
    format!(
        "node b worker 4.16.0
         maintenance b name:other finalizer
         turn b {step} of:other"
    )
}

#[test]
fn no_further_maintenance_is_begun_once_as_many_have_failed_as_may() {
    let failed = other("Held reason:RuleFailed");
    let budget = |count: &str| format!("\"failureBudget\":{count}");
    check(
        &bound(&budget("1"), "", &failed),
        "node a Selected FailureBudgetSpent ~ Stopped after 1 failed node (MutexBinding all spec.failureBudget 1): b
         > nothing",
    );
    check(
        &bound(&budget("\"10%\""), "", &failed),
        "node a Selected FailureBudgetSpent",
    );
    check(&bound(&budget("2"), "", &failed), "> admit a");
    check(&bound("", "", &failed), "> admit a");
    // What goes on has not failed, and what a person retries has not any more.
    check(&bound(&budget("1"), "", &other("Drained")), "> admit a");
    let retried = other("Held reason:RuleFailed retry generation:2");
    check(&bound(&budget("1"), "", &retried), "> admit a");
    // Who has lost the lease has failed too.
    check(
        &bound(&budget("1"), "", &other("Failed reason:NodeLeaseLost")),
        "node a Selected FailureBudgetSpent",
    );
    // Another binding's failures are its own.
    let elsewhere = bound(&budget("1"), "", &failed).replace(
        "\"kind\":\"NodeMaintenance\"",
        "\"kind\":\"NodeMaintenance\",\"labels\":{\"matchLabels\":{\"team\":\"x\"}}",
    );
    let elsewhere = elsewhere.replace("maintenance a finalizer", "maintenance a finalizer label:team=x");
    check(&elsewhere, "> admit a");
}

#[test]
fn a_spent_failure_budget_stops_no_maintenance_that_has_begun() {
    let failed = other("Held reason:RuleFailed");
    let text = bound(
        "\"failureBudget\":1",
        "cordoned",
        &format!("kept a cordoned\n turn a Cordoned\n {failed}"),
    );
    check(&text, "node a Drained InMaintenance\n > journal a Drained");
}

#[test]
fn a_node_that_is_not_ready_waits_where_a_binding_says_so() {
    for settings in [
        "\"takeNotReady\":false",
        "\"notReadyPolicy\":\"Wait\"",
        "\"takeNotReady\":false,\"notReadyPolicy\":\"LeaveOutAfter\"",
    ] {
        check(
            &bound(settings, "NotReady", ""),
            "node a Selected NodeNotReady ~ Node a is not Ready\n > nothing",
        );
        check(&bound(settings, "", ""), "> admit a");
    }
    // As node-maintenance-operator has it, else.
    for settings in [
        "",
        "\"takeNotReady\":true",
        "\"takeNotReady\":true,\"notReadyPolicy\":\"Wait\"",
    ] {
        check(&bound(settings, "NotReady", ""), "> admit a");
    }
}

#[test]
fn of_several_that_say_whether_a_node_that_is_not_ready_goes_the_strictest_counts() {
    let binding = |kind: &str, name: &str, settings: &str| {
        format!("binding {name} spec {{\"ownerSelector\":{{\"kind\":\"{kind}\"}},{settings}}}\n")
    };
    let two = |kind: &str, first: bool, second: bool| {
        let say = |takes: bool| format!("\"takeNotReady\":{takes}");
        binding(kind, "a", &say(first)) + &binding(kind, "b", &say(second))
    };
    for (first, second) in [(true, false), (false, true)] {
        check(
            &format!(
                "node a worker v0 NotReady\n maintenance a finalizer\n {}",
                two("NodeMaintenance", first, second)
            ),
            "node a Selected NodeNotReady\n > nothing",
        );
        // What a team says of its own Plan does not beat its administrator.
        let own = format!("{{\"takeNotReady\":{first}}}");
        let gate = numo_core::names::hash(&["gate", &own], 10);
        check(
            &format!(
                "node a worker v0 NotReady\n plan concurrency:1 cordon finalizer gate:{gate} spec {{\"mutex\":{own}}}\n {}",
                binding("Plan", "b", &format!("\"takeNotReady\":{second}"))
            ),
            "node a Selected NodeNotReady\n not > admit a",
        );
    }
    let both = two("NodeMaintenance", true, true);
    check(
        &format!("node a worker v0 NotReady\n maintenance a finalizer\n {both}"),
        "> admit a",
    );
}

#[test]
fn of_several_that_say_how_a_node_is_drained_the_strictest_counts_field_by_field() {
    let pods = "pod bare on a\n pod web on a of:ReplicaSet/web";
    let two = |first: &str, second: &str| {
        let binding = |name: &str, drain: &str| {
            format!(
                "binding {name} spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},\"drain\":{{{drain}}}}}\n"
            )
        };
        format!(
            "node a worker v0
             maintenance a finalizer phase:Running counted:9
             kept a cordoned
             turn a Cordoned
             {pods}
             {}{}",
            binding("a", first),
            binding("b", second)
        )
    };
    let refused = "node a Cordoned DrainRefused\n > nothing";
    check(&two("\"force\":true", "\"force\":false"), refused);
    check(&two("\"force\":false", "\"force\":true"), refused);
    // What only one says counts, whatever the other one leaves out.
    check(&two("\"timeoutSeconds\":900", "\"force\":false"), refused);
    check(
        &two("\"maxConcurrent\":100", "\"maxConcurrent\":1"),
        "> evict bare",
    );
    // The shorter limit, by the field that says it; 0 is without one.
    for (first, second, named) in [(0, 9, "b"), (9, 0, "a"), (90, 9, "b"), (9, 90, "a")] {
        let said =
            format!("node a Cordoned DrainTimeout ~ 9 s (MutexBinding {named} spec.drain.timeoutSeconds)");
        check(
            &two(
                &format!("\"timeoutSeconds\":{first}"),
                &format!("\"timeoutSeconds\":{second}"),
            )
            .replace(pods, "pod web on a of:ReplicaSet/web deleting:600"),
            &said,
        );
    }
    // Of some neither is the stricter: nothing is evicted until one is taken back.
    let app = |name: &str| format!("\"podSelector\":{{\"matchLabels\":{{\"app\":\"{name}\"}}}}");
    for (first, second, field) in [
        (app("web"), app("db"), "podSelector"),
        (
            "\"gracePeriodSeconds\":3".to_owned(),
            "\"gracePeriodSeconds\":-1".to_owned(),
            "gracePeriodSeconds",
        ),
        (
            "\"order\":\"Priority\"".to_owned(),
            "\"order\":\"Together\"".to_owned(),
            "order",
        ),
    ] {
        check(
            &two(&first, &second),
            &format!(
                "node a Cordoned InvalidField ~ MutexBinding b spec.drain.{field}: found another than in MutexBinding a spec.drain
                 > nothing"
            ),
        );
        check(&two(&first, &first), "not node a Cordoned InvalidField");
    }
}

#[test]
fn bindings_of_a_plan_say_together_how_numo_drains() {
    let plan = |first: &str, second: &str| {
        let binding = |name: &str, drain: &str| {
            format!(
                "binding {name} spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},\"drainBy\":\"Numo\",\"drain\":{{{drain}}}}}\n"
            )
        };
        format!(
            "node a worker v0
             plan concurrency:1 drain finalizer applying:a
             {}{}
             begun a Cordoned
             keeps a cordoned done
             pod db on a of:ReplicaSet/db
             pod web on a of:ReplicaSet/web",
            binding("a", first),
            binding("b", second)
        )
    };
    check(&plan("\"probe\":true", "\"maxConcurrent\":1"), "> evict db");
    check(
        &plan("\"order\":\"Priority\"", "\"order\":\"Together\""),
        "node a Cordoned InvalidField ~ MutexBinding b spec.drain.order: found another\n > nothing",
    );
    // The Plan's own grace period counts in any case.
    check(
        &plan("\"gracePeriodSeconds\":3", "\"gracePeriodSeconds\":9"),
        "> evict db\n > evict web",
    );
}

#[test]
fn a_node_that_is_not_ready_for_too_long_is_left_out_until_it_is() {
    let settings = "\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":100";
    check(
        &bound(settings, "NotReady dark:60", ""),
        "node a Selected NodeNotReady\n wake 40\n > nothing",
    );
    check(
        &bound(settings, "NotReady dark:100", ""),
        "node a Skipped LeftOutNotReady ~ notReadyPolicy\n maintenance Failed\n > nothing",
    );
    check(&bound(settings, "", ""), "maintenance Running\n > admit a");
}

#[test]
fn a_node_that_is_not_ready_any_more_is_not_cordoned_where_a_binding_says_so() {
    let begun = "kept a\n turn a Admitted";
    check(
        &bound("\"takeNotReady\":false", "NotReady", begun),
        "node a PreRelease NodeNotReady\n > journal a closed",
    );
    check(&bound("", "NotReady", begun), "> cordon a with 2 taints");
}

#[test]
fn a_node_soaks_after_its_maintenance_as_long_as_its_bindings_say() {
    let over = |settings: &str, more: &str| {
        bound(settings, "", more).replace(
            "maintenance a finalizer",
            "maintenance a finalizer deleting phase:Succeeded",
        )
    };
    let soak = "\"soakSeconds\":600";
    // It is open again by now.
    let turn = "kept a\n turn a Drained";
    check(
        &over(soak, turn),
        "node a Soaked Soaking\n wake 600\n > journal a Soaked",
    );
    let soaking =
        |since: i64| format!("kept a renewed:-2000\n turn a Soaked since:-{since} entries:Cordoned,Drained");
    check(
        &over(soak, &soaking(100)),
        "node a Soaked Soaking\n wake 500\n > renew lease a",
    );
    check(
        &over(soak, &soaking(601)),
        "> renew lease a\n > unshield a\n > release lease a\n > journal a Done Done",
    );
    check(
        &over("", turn),
        "> unshield a\n > release lease a\n > journal a Done Done",
    );
    // A node that was never cordoned has nothing to settle.
    check(
        &over(soak, "kept a\n turn a Admitted"),
        "> unshield a\n > release lease a\n > journal a Done Done",
    );
}

#[test]
fn a_node_that_soaks_does_not_ask_its_rules_again() {
    let text = bound(
        "\"soakSeconds\":600,\"rules\":[{\"name\":\"check\"}]",
        "",
        "rule check Pre,Post
         kept a
         turn a Soaked since:-100 entries:Cordoned,Drained verdict:check/Pre/1/Pass verdict:check/Post/1/Pass",
    );
    let text = text.replace(
        "maintenance a finalizer",
        "maintenance a finalizer deleting phase:Succeeded",
    );
    check(&text, "node a Soaked Soaking\n wake 500\n > nothing");
}
