//! Waves, domains and approvals of NodeMaintenances: what a MutexBinding orders among those that it speaks of.
//!
//! The maintenance under test is `nm` of node a; the others are named after their nodes.

use crate::{
    approvals::approve,
    cluster::{Cluster, NAMESPACE, at},
    words::{check_cluster, decision},
};
use numo_api::conditions::Condition;
use serde_json::json;

const WAVES: &str = r#""waves":[{"name":"canary","nodeSelector":{"matchLabels":{"canary":"yes"}}},{"nodeSelector":{"matchLabels":{"blue":"yes"}}}]"#;

const BEGIN: &str = r#""approval":{"begin":"Manual"}"#;

/// Nodes a (of these labels), b, c and d, node a's NodeMaintenance, and a binding of all maintenances with these settings.
fn cluster(of_a: &str, settings: &str, more: &str) -> Cluster {
    Cluster::parse(&format!(
        "node a worker 4.16.0 {of_a}
         node b worker 4.16.0 label:canary=yes label:zone=a
         node c worker 4.16.0 label:canary=yes label:zone=b
         node d worker 4.16.0 label:blue=yes label:zone=b
         maintenance a finalizer label:team=db
         binding gate spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},{settings}}}
         {more}"
    ))
}

/// A NodeMaintenance of this node that waits.
fn waits(node: &str) -> String {
    format!("maintenance {node} name:{node} created:-200 finalizer\n")
}

/// One that is under way, or has drained its node.
fn away(node: &str, step: &str) -> String {
    format!("{}turn {node} {step} of:{node}\n", waits(node))
}

#[test]
fn a_maintenance_waits_while_one_of_an_earlier_wave_exists() {
    for (others, wanted) in [
        // Nobody is in the first wave.
        (String::new(), "> admit a"),
        (waits("d"), "> admit a"),
        (
            waits("b"),
            "hold WaitsForWave ~ wave 2 of 2 begins when wave 1 (canary) is done: b is not\n wave 1 of 2 canary 0/1\n > nothing",
        ),
        (
            waits("b") + &waits("c"),
            "hold WaitsForWave ~ wave 1 (canary) is done: b, c are not\n > nothing",
        ),
        // One that is drained goes on when a person says so.
        (
            away("b", "Drained"),
            "hold WaitsForWave ~ b is not\n ends a ClusterAdmin\n > nothing",
        ),
        (
            away("b", "Drained") + &waits("c"),
            "hold WaitsForWave ~ b, c are not\n ends a OtherNode\n stalled -\n > nothing",
        ),
        // Whoever was left out keeps nobody waiting, and neither does one that is over.
        (away("b", "Skipped reason:SkippedByPerson"), "> admit a"),
        (waits("b").replace("finalizer", "finalizer deleting"), "> admit a"),
        (
            away("b", "Drained").replace("finalizer", "finalizer deleting"),
            "hold WaitsForWave ~ b is not\n > nothing",
        ),
    ] {
        check_cluster(&cluster("label:blue=yes", WAVES, &others), wanted);
    }
    // A node of the first wave waits for nobody, one of none for all.
    check_cluster(
        &cluster("label:canary=yes", WAVES, &away("d", "Drained")),
        "> admit a",
    );
    check_cluster(
        &cluster("", WAVES, &waits("d")),
        "hold WaitsForWave ~ begins when wave 2 is done: d is not\n > nothing",
    );
}

#[test]
fn only_maintenances_of_the_binding_that_has_waves_are_waited_for() {
    let of_team = |settings: &str| {
        format!(
            "\"soakSeconds\":1}}
             binding waves spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\",\"labels\":{{\"matchLabels\":{{\"team\":\"db\"}}}}}},{settings}"
        )
    };
    check_cluster(
        &cluster("label:blue=yes", &of_team(WAVES), &waits("b")),
        "> admit a",
    );
    let of_db = waits("b").replace("finalizer", "finalizer label:team=db");
    check_cluster(
        &cluster("label:blue=yes", &of_team(WAVES), &of_db),
        "hold WaitsForWave ~ b is not\n > nothing",
    );
    let first = "\"first\":{\"matchLabels\":{\"canary\":\"yes\"}}";
    check_cluster(
        &cluster("label:blue=yes", &of_team(first), &of_db),
        "hold FirstNodes ~ Node b goes first\n > nothing",
    );
    check_cluster(
        &cluster("label:blue=yes", &of_team(first), &waits("b")),
        "> admit a",
    );
}

#[test]
fn a_node_that_is_not_ready_keeps_its_wave_waiting_as_its_own_binding_has_it() {
    let dead = |settings: &str| {
        let mut cluster = cluster("label:blue=yes", &format!("{WAVES}{settings}"), &waits("b"));
        let node = cluster.observed.nodes.get_mut("b").expect("node b");
        (node.ready, node.not_ready_since) = (false, Some(at(-100)));
        cluster
    };
    check_cluster(
        &dead(""),
        "hold WaitsForWave ~ b is not\n ends a OtherNode\n stalled -\n > nothing",
    );
    check_cluster(
        &dead(",\"takeNotReady\":false"),
        "hold WaitsForWave ~ b is not\n ends a ClusterAdmin\n > nothing",
    );
    let after =
        |seconds: i64| format!(",\"notReadyPolicy\":\"LeaveOutAfter\",\"leaveOutAfterSeconds\":{seconds}");
    check_cluster(&dead(&after(101)), "hold WaitsForWave\n > nothing");
    check_cluster(&dead(&after(99)), "> admit a");
}

#[test]
fn a_wave_has_rules_room_and_a_failure_budget_of_its_own() {
    let rules = r#""waves":[{"nodeSelector":{"matchLabels":{"blue":"yes"}},"rules":[{"name":"backup"}]}]"#;
    let turn = "rule backup Pre\n turn a new\n kept a";
    check_cluster(&cluster("label:blue=yes", rules, turn), "> journal a");
    // Labels take it out of none of them in mid-turn.
    for of_a in ["label:blue=yes", ""] {
        let mut begun = cluster(of_a, rules, &turn.replace("a new", "a Admitted"));
        for change in begun.observed.changes.values_mut() {
            change.status.wave_rules = Some(vec![format!("{NAMESPACE}/backup")]);
        }
        check_cluster(&begun, "> job backup/Pre/1 of a");
    }
    // One of no wave remembers that, and labels put it into none.
    check_cluster(&cluster("", rules, turn), "> journal a");
    for of_a in ["label:blue=yes", ""] {
        let mut begun = cluster(of_a, rules, &turn.replace("a new", "a Admitted"));
        for change in begun.observed.changes.values_mut() {
            change.status.wave_rules = Some(Vec::new());
        }
        check_cluster(&begun, "> cordon a with 2 taints");
    }
    check_cluster(
        &cluster("label:blue=yes", rules, ""),
        "hold RuleNotFound ~ MutexBinding gate spec.waves[0].rules[0]\n > nothing",
    );
    let room = WAVES.replace("\"blue\":\"yes\"}}", "\"blue\":\"yes\"}},\"maxUnavailable\":1");
    check_cluster(
        &cluster("label:blue=yes", &room, &away("d", "Drained")),
        "hold WaitingForTurn ~ MutexBinding gate spec.waves[1].maxUnavailable allows 1: d\n > nothing",
    );
    check_cluster(&cluster("label:blue=yes", &room, &waits("d")), "> admit a");
    let zero = WAVES.replace(
        "\"blue\":\"yes\"}}",
        "\"blue\":\"yes\"}},\"maxUnavailable\":\"0%\"",
    );
    check_cluster(
        &cluster("label:blue=yes", &zero, ""),
        "hold MaxUnavailableZero ~ MutexBinding gate spec.waves[1].maxUnavailable is 0, which lets no node of the wave begin; whoever owns the object raises it with `kubectl edit mutexbinding gate`\n > nothing",
    );
    let budget = WAVES.replace("\"blue\":\"yes\"}}", "\"blue\":\"yes\"}},\"failureBudget\":1");
    let budget = format!("{budget},\"failureBudget\":9");
    check_cluster(
        &cluster("label:blue=yes", &budget, &away("d", "Held reason:RuleFailed")),
        "hold FailureBudgetSpent ~ of wave 2\n > nothing",
    );
}

/// The last turn of a wave takes as long as the wave soaks: nothing remembers a maintenance that is gone.
#[test]
fn the_turns_of_a_wave_soak_as_long_as_the_wave() {
    let soaks = WAVES.replace("\"canary\":\"yes\"}}", "\"canary\":\"yes\"}},\"soakSeconds\":300");
    let over = |of_a: &str| {
        let mut cluster = cluster(of_a, &soaks, "turn a Cordoned since:-60");
        let view = cluster.observed.maintenances.values_mut().next();
        view.expect("a maintenance").deleting = true;
        cluster
    };
    check_cluster(&over("label:canary=yes"), "> journal a Soaked");
    check_cluster(&over("label:blue=yes"), "not > journal a Soaked");
}

#[test]
fn a_domain_is_finished_before_the_next_begins() {
    let zones = "\"domains\":{\"key\":\"zone\"}";
    check_cluster(&cluster("label:zone=b", zones, ""), "> admit a");
    check_cluster(&cluster("label:zone=b", zones, &waits("d")), "> admit a");
    check_cluster(
        &cluster("label:zone=b", zones, &waits("b")),
        "hold OtherDomain ~ Node b of zone=a is not done, and nodes of b come after that\n > nothing",
    );
    check_cluster(
        &cluster("label:zone=a", zones, &away("d", "Drained")),
        "hold OtherDomain ~ Node d of zone=b has its turn\n ends a ClusterAdmin\n > nothing",
    );
    check_cluster(
        &cluster(
            "label:zone=b",
            "\"domains\":{\"key\":\"zone\",\"atOnce\":2}",
            &away("b", "Drained"),
        ),
        "> admit a",
    );
    check_cluster(&cluster("", zones, ""), "hold NoDomain\n > nothing");
}

#[test]
fn a_maintenance_begins_when_a_person_has_approved_it() {
    let gated = |settings: &str, more: &str| cluster("", settings, more);
    let mut cluster = gated(BEGIN, &waits("b"));
    check_cluster(
        &cluster,
        "hold WaitsForApproval ~ the first node begins when it is approved (MutexBinding gate spec.approval.begin): `numo approve nodemaintenance/nm --reason TEXT`
         ends a Approver
         asks the beginning
         > nothing",
    );
    approve(&mut cluster, 10, |_| {});
    check_cluster(&cluster, "asks -\n > admit a");
    assert_eq!(decision(&cluster).report.approved.len(), 1);
    // Another one that comes meanwhile changes nothing.
    let mut other = gated(BEGIN, "");
    other.observed.approvals = cluster.observed.approvals.clone();
    check_cluster(&other, "> admit a");
    // The approval is for this node, these rules and these drain settings.
    for edited in [
        "\"approval\":{\"begin\":\"Manual\"},\"drain\":{\"force\":false}",
        "\"approval\":{\"begin\":\"Manual\"},\"rules\":[{\"name\":\"backup\"}]",
    ] {
        let mut edited = gated(edited, "rule backup Pre");
        edited.observed.approvals = cluster.observed.approvals.clone();
        check_cluster(
            &edited,
            "hold ApprovalExpired ~ a MutexBinding of it, was edited\n > nothing",
        );
    }
    // It is of this object only.
    for view in cluster.observed.maintenances.values_mut() {
        view.uid = format!("another-{}", view.uid);
    }
    check_cluster(&cluster, "hold WaitsForApproval\n > nothing");
}

#[test]
fn a_turn_of_a_maintenance_waits_for_the_word_until_its_cordon() {
    let turn = |step: &str| cluster("", BEGIN, &format!("kept a\n turn a {step}"));
    let mut begun = turn("Admitted");
    check_cluster(&begun, "node a PreRelease WaitsForApproval\n > journal a closed");
    approve(&mut begun, 10, |_| {});
    check_cluster(&begun, "not node a PreRelease WaitsForApproval");
    check_cluster(
        &cluster("", BEGIN, "kept a cordoned\n turn a Cordoned"),
        "not node a Cordoned WaitsForApproval",
    );
}

#[test]
fn a_binding_says_which_of_its_waves_selects_no_node() {
    let said = |settings: &str| {
        let cluster = cluster("", settings, "");
        let (is_ready, why, _) =
            numo_core::binding::state(&cluster.observed.bindings["gate"], &cluster.observed);
        assert!(is_ready, "{why:?}");
        why.message.to_string()
    };
    assert_eq!(said(WAVES), "The binding gates 1 NodeMaintenance.");
    assert_eq!(
        said(&WAVES.replace("\"canary\":\"yes\"", "\"canary\":\"ture\"")),
        "The binding gates 1 NodeMaintenance. spec.waves[0] selects no Node of the cluster: nobody waits for it."
    );
    assert_eq!(
        said(r#""first":{"matchLabels":{"canary":"ture"}},"mutexKeys":["rack"]"#),
        "The binding gates 1 NodeMaintenance. spec.first selects no Node of the cluster: no node goes first. spec.mutexKeys: no Node of \
         the cluster has the label \"rack\": it keeps no two of them apart."
    );
}

#[test]
fn a_wave_of_maintenances_is_approved_one_by_one() {
    let manual = WAVES.replace("\"blue\":\"yes\"}}", "\"blue\":\"yes\"}},\"approval\":\"Manual\"");
    check_cluster(&cluster("label:canary=yes", &manual, ""), "asks -\n > admit a");
    let mut now = cluster("label:blue=yes", &manual, &waits("d"));
    check_cluster(
        &now,
        "hold WaitsForApproval ~ `numo approve nodemaintenance/nm --wave 2 --reason TEXT`\n asks wave 2 of 2\n > nothing",
    );
    approve(&mut now, 10, |_| {});
    check_cluster(&now, "asks -\n > admit a");
    // Approved or not, its wave comes after the first.
    let mut early = cluster("label:blue=yes", &manual, &waits("b"));
    early.observed.approvals = now.observed.approvals.clone();
    check_cluster(&early, "hold WaitsForWave\n asks -\n > nothing");
}

/// Who approves that one goes on after a failure has seen which.
#[test]
fn after_a_failure_the_next_maintenance_waits_for_a_word() {
    let settings = "\"approval\":{\"afterFailure\":\"Manual\"}";
    check_cluster(&cluster("", settings, &away("b", "Drained")), "> admit a");
    let mut failed = cluster("", settings, &away("b", "Held reason:RuleFailed"));
    check_cluster(&failed, "hold WaitsForApproval ~ Node b has failed\n > nothing");
    approve(&mut failed, 10, |_| {});
    check_cluster(&failed, "> admit a");
}

/// node-maintenance-operator drained the node before numo came: the node is kept so, and nobody is asked.
#[test]
fn a_node_that_is_drained_already_waits_for_no_wave_and_no_word() {
    let mut drained = cluster(
        "",
        &format!("{BEGIN},\"first\":{{\"matchLabels\":{{\"canary\":\"yes\"}}}}"),
        &waits("b"),
    );
    check_cluster(&drained, "hold FirstNodes\n asks the beginning");
    let node = drained.observed.nodes.get_mut("a").expect("node a");
    node.unschedulable = true;
    node.taints = json!([{"key": "medik8s.io/drain", "effect": "NoSchedule"}]);
    for view in drained.observed.maintenances.values_mut() {
        view.status.phase = Some("Succeeded".to_owned());
    }
    check_cluster(&drained, "asks -\n > admit a");
    // Nor does it wait for what failed elsewhere: nothing begins.
    let node = drained.observed.nodes["a"].clone();
    let mut failed = cluster("", "\"soakSeconds\":0", &away("b", "Held reason:RuleFailed"));
    check_cluster(&failed, "hold FailureBudgetSpent\n > nothing");
    failed.observed.nodes.insert("a".to_owned(), node);
    for view in failed.observed.maintenances.values_mut() {
        view.status.phase = Some("Succeeded".to_owned());
    }
    check_cluster(&failed, "> admit a");
}

/// A taint is anybody's: who puts it on a node that waits has it begun no sooner.
#[test]
fn a_taint_of_node_maintenance_operator_alone_lets_no_node_begin() {
    let mut tainted = cluster("", BEGIN, "");
    let node = tainted.observed.nodes.get_mut("a").expect("node a");
    node.taints = json!([{"key": "medik8s.io/drain", "effect": "NoSchedule"}]);
    node.unschedulable = true;
    for view in tainted.observed.maintenances.values_mut() {
        view.status.phase = Some("Running".to_owned());
        view.status.conditions = vec![condition("Ready", "False")];
    }
    check_cluster(&tainted, "hold WaitsForApproval\n > nothing");
    // What that operator wrote has no conditions, and numo notes it with the first that it writes.
    for view in tainted.observed.maintenances.values_mut() {
        view.status.adopted = Some(true);
    }
    check_cluster(&tainted, "> admit a");
    // Nobody drains a node anew by that which somebody has opened.
    let node = tainted.observed.nodes.get_mut("a").expect("node a");
    node.unschedulable = false;
    check_cluster(&tainted, "hold WaitsForApproval\n > nothing");
}

fn condition(type_: &str, status: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        ..Condition::default()
    }
}

/// A canary whose rule said Abort is given back, and the others wait for a person.
#[test]
fn a_rule_that_ends_a_maintenance_ends_those_of_later_waves() {
    let ended = away("b", "Skipped reason:RuleFailed");
    check_cluster(
        &cluster("label:blue=yes", &format!("{WAVES},\"failureBudget\":9"), &ended),
        "hold WaitsForWave ~ b is not\n ends a ClusterAdmin\n > nothing",
    );
    check_cluster(
        &cluster("label:blue=yes", WAVES, &ended),
        "hold FailureBudgetSpent\n > nothing",
    );
    check_cluster(
        &cluster(
            "label:blue=yes",
            "\"approval\":{\"afterFailure\":\"Manual\"}",
            &ended,
        ),
        "hold WaitsForApproval ~ Node b has failed\n > nothing",
    );
}

/// One that waits for a person has those after it say so.
#[test]
fn who_waits_for_a_maintenance_that_is_stalled_waits_for_a_person() {
    let mut stalled = cluster("label:blue=yes", WAVES, &waits("b"));
    for view in stalled.observed.maintenances.values_mut() {
        if view.spec.node_name == "b" {
            view.status.conditions = vec![condition("Stalled", "True")];
        }
    }
    check_cluster(&stalled, "hold WaitsForWave\n ends a ClusterAdmin\n > nothing");
}

/// Two orders could wait for each other for ever.
#[test]
fn two_bindings_that_order_a_maintenance_hold_it() {
    for (one, other) in [
        (WAVES, "\"domains\":{\"key\":\"zone\"}"),
        (
            "\"first\":{\"matchLabels\":{\"canary\":\"yes\"}}",
            "\"domains\":{\"key\":\"zone\"}",
        ),
    ] {
        let second =
            format!("binding other spec {{\"ownerSelector\":{{\"kind\":\"NodeMaintenance\"}},{other}}}");
        check_cluster(
            &cluster("label:zone=a", one, &second),
            "hold InvalidField ~ MutexBinding other spec.domains: found it beside MutexBinding gate spec.\n > nothing",
        );
    }
}
