//! Approvals: what a person must approve, what that holds for, and when it holds no more; for both kinds of owner that have several
//! nodes.

use crate::{
    cluster::{Cluster, at},
    waves::{CANARY, begun, plan_with, run_with},
    words::{check_cluster, decision},
};
use numo_api::{MutexApprovalSpec, MutexApprovalStatus};
use numo_core::{
    observed::ApprovalView,
    report::ApprovalReport,
    unheard::{Standing, standing},
};

const BEGIN: &str = r#""approval":{"begin":"Manual"}"#;

/// A run and a Plan with these settings and nodes.
fn owners(settings: &str, nodes: &str) -> [Cluster; 2] {
    [run_with(settings, nodes), plan_with(settings, nodes)]
}

fn waits(cluster: &Cluster) -> ApprovalReport {
    let report = decision(cluster).report;
    report.approval.expect("something waits for an approval")
}

/// Approves what waits, `ago` seconds ago, as `edit` has it.
pub fn approve(cluster: &mut Cluster, ago: i64, edit: impl FnOnce(&mut MutexApprovalSpec)) {
    let waits = waits(cluster);
    let wave = match &waits.point {
        numo_core::report::Point::Wave { number, .. } => Some(number.to_string()),
        _ => None,
    };
    let failure = matches!(waits.point, numo_core::report::Point::AfterFailure { .. });
    let mut spec = MutexApprovalSpec {
        owner: cluster.owner().approved(),
        wave,
        after_failure: failure.then_some(true),
        digest: waits.digest,
        reason: "reviewed".to_owned(),
        approved_by: "anna".to_owned(),
    };
    edit(&mut spec);
    let name = format!("a{}", cluster.observed.approvals.len());
    let view = ApprovalView {
        name: name.clone(),
        uid: format!("{name}-uid"),
        created: at(-ago),
        deleting: false,
        spec,
        generation: 1,
        status: MutexApprovalStatus::default(),
    };
    cluster.observed.approvals.insert(name, view);
}

/// Whether the digest of what waits in one cluster is that of the other.
#[track_caller]
fn differ(one: &Cluster, other: &Cluster) {
    assert_ne!(waits(one).digest, waits(other).digest);
}

#[test]
fn nothing_begins_before_the_owner_is_approved() {
    for mut cluster in owners(BEGIN, "a; b") {
        let kind = cluster.owner().kind.name().to_lowercase();
        check_cluster(
            &cluster,
            &format!(
                "hold WaitsForApproval
                 node a Selected WaitsForApproval ~ the first node begins when it is approved
                 node b Selected WaitsForApproval ~ `numo approve {kind}/
                 ends a Approver
                 stalled a WaitsForApproval
                 asks the beginning"
            ),
        );
        assert_eq!(begun(&cluster), "");
        approve(&mut cluster, 10, |_| {});
        check_cluster(&cluster, "hold -\n asks -");
        assert_eq!(begun(&cluster), "a b");
        let approved = decision(&cluster).report.approved;
        assert_eq!(approved.first().map(|one| one.by.as_str()), Some("anna"));
        // Deleted, though a finalizer keeps the object.
        for approval in cluster.observed.approvals.values_mut() {
            approval.deleting = true;
        }
        check_cluster(&cluster, "hold WaitsForApproval");
        assert_eq!(begun(&cluster), "");
    }
}

#[test]
fn a_wave_begins_when_it_is_approved_and_each_for_itself() {
    let settings = format!(
        "\"waves\":[{},{{\"nodes\":1,\"growth\":1,\"approval\":\"Manual\"}}]",
        CANARY.replace("\"canary\",", "\"canary\",\"approval\":\"None\",")
    );
    for (mut now, later) in owners(&settings, "a; b; c canary")
        .into_iter()
        .zip(owners(&settings, "a; b; c canary done"))
    {
        // The canaries need no word, and the wave that is not due cannot be approved yet.
        assert_eq!(begun(&now), "c");
        check_cluster(&now, "asks -\n node a Selected WaitsForWave");
        now = later;
        check_cluster(
            &now,
            "hold WaitsForApproval
             node a Selected WaitsForApproval ~ wave 2 of 3 begins when it is approved (
             node b Selected WaitsForWave
             asks wave 2 of 3",
        );
        // By its number or its name, and not that of another.
        let mut other = now.clone();
        approve(&mut other, 10, |spec| spec.wave = Some("3".to_owned()));
        assert_eq!(begun(&other), "");
        approve(&mut other, 10, |spec| spec.wave = None);
        assert_eq!(begun(&other), "");
        approve(&mut now, 10, |_| {});
        assert_eq!(begun(&now), "a");
    }
    let done = owners(&settings, "a done -90; b; c canary done -95");
    for mut cluster in done {
        check_cluster(&cluster, "asks wave 3 of 3");
        approve(&mut cluster, 10, |_| {});
        assert_eq!(begun(&cluster), "b");
    }
}

#[test]
fn a_wave_is_approved_by_its_name_and_what_has_its_turn_goes_on() {
    let settings = format!(
        "\"waves\":[{}]",
        CANARY.replace("\"canary\",", "\"canary\",\"approval\":\"Manual\",")
    );
    for mut cluster in owners(&settings, "a; b canary; c canary flies") {
        check_cluster(
            &cluster,
            "asks wave 1 of 2 (canary)\n node b Selected WaitsForApproval\n not hold Giving",
        );
        let report = decision(&cluster).report;
        assert!(report.nodes["c"].in_flight(), "{report:?}");
        approve(&mut cluster, 10, |spec| spec.wave = Some("canary".to_owned()));
        assert_eq!(begun(&cluster), "b");
    }
}

/// Who edits an owner after its nodes have their turns has them changed by what nobody approved.
#[test]
fn a_turn_that_disrupted_nothing_goes_on_only_while_the_word_holds() {
    let run = run_with(BEGIN, "a flies; b");
    let waiting = "node a worker v0\n node b worker v0\n plan concurrency:9 cordon finalizer\n begun a PreRules entered:Admitted\n keeps a";
    let plan = Cluster::parse(&format!(
        "{waiting}\n binding x spec {{\"ownerSelector\":{{\"kind\":\"Plan\"}},{BEGIN},\"order\":\"Name\"}}"
    ));
    for mut cluster in [run, plan] {
        let kind = cluster.owner().kind.name();
        check_cluster(
            &cluster,
            "node b Selected WaitsForApproval\n not release a\n not cordon a",
        );
        let said = decision(&cluster).report.nodes["a"].why.clone();
        assert_eq!(said.reason.name(), "WaitsForApproval", "{kind}: {said:?}");
        approve(&mut cluster, 10, |_| {});
        let said = decision(&cluster).report.nodes["a"].why.clone();
        assert_ne!(said.reason.name(), "WaitsForApproval", "{kind}: {said:?}");
        // It is edited.
        for run in cluster.observed.runs.values_mut() {
            run.spec.soak_seconds = Some(5);
        }
        for plan in cluster.observed.plans.values_mut() {
            let container = plan.spec.upgrade.get_or_insert_default();
            "another".clone_into(&mut container.image);
        }
        let said = decision(&cluster).report.nodes["a"].why.clone();
        assert_eq!(said.reason.name(), "ApprovalExpired", "{kind}: {said:?}");
    }
    // What is disrupted is brought to its end.
    let disrupted = plan_with(BEGIN, "a flies; b");
    let said = decision(&disrupted).report.nodes["a"].why.clone();
    assert_ne!(said.reason.name(), "WaitsForApproval", "{said:?}");
}

#[test]
fn an_approval_is_for_what_was_approved() {
    for [mut first, mut second] in [owners(BEGIN, "a; b")]
        .into_iter()
        .flat_map(|[run, plan]| [[run.clone(), run], [plan.clone(), plan]])
    {
        approve(&mut first, 10, |_| {});
        let given = first.observed.approvals.clone();
        // A node joins.
        let more = match second.owner().kind.name() {
            "Plan" => plan_with(BEGIN, "a; b; c"),
            _ => run_with(BEGIN, "a; b; c"),
        };
        let mut joined = more.clone();
        joined.observed.approvals = given.clone();
        assert_eq!(begun(&joined), "");
        check_cluster(
            &joined,
            "hold ApprovalExpired ~ The approval of anna for the beginning no longer holds (MutexApproval a0): its nodes are others since; `numo approve
             node a Selected ApprovalExpired
             ends a Approver",
        );
        // The spec is edited.
        second.observed.approvals = given;
        let mut edited = second.clone();
        for run in edited.observed.runs.values_mut() {
            run.spec.soak_seconds = Some(5);
        }
        for binding in edited.observed.bindings.values_mut() {
            binding.spec.settings.soak_seconds = Some(5);
        }
        assert_eq!(begun(&edited), "");
        check_cluster(
            &edited,
            "hold ApprovalExpired ~ the spec, or a MutexBinding of it, was edited since",
        );
        // So is how a MutexBinding has nodes drained.
        let mut drained = second.clone();
        for binding in drained.observed.bindings.values_mut() {
            binding.spec.drain = Some(numo_api::DrainSettings::default());
        }
        if drained.owner().kind.name() == "Plan" {
            check_cluster(&drained, "hold ApprovalExpired");
        }
        // What does not matter to a node may be.
        let mut same = second.clone();
        for run in same.observed.runs.values_mut() {
            run.spec.suspend = Some(false);
        }
        assert_eq!(begun(&same), "a b");
    }
}

#[test]
fn an_approval_is_for_these_rules_and_this_object() {
    let mut cluster = run_with(BEGIN, "a; b");
    approve(&mut cluster, 10, |_| {});
    let mut ruled = cluster.clone();
    for rule in ruled.observed.rules.values_mut() {
        rule.generation += 1;
    }
    check_cluster(
        &ruled,
        "hold ApprovalExpired ~ its rules are others or were edited since",
    );
    // The object was made anew: nobody has said anything of that.
    let mut again = cluster.clone();
    for run in again.observed.runs.values_mut() {
        run.uid = "another".to_owned();
    }
    differ(&again, &run_with(BEGIN, "a; b"));
    assert_eq!(waits(&again).why.reason, numo_api::Reason::WaitsForApproval);
    // One of another object of the same digest, as somebody has written it.
    for edit in [
        |spec: &mut MutexApprovalSpec| spec.owner.name = "other".to_owned(),
        |spec: &mut MutexApprovalSpec| spec.owner.namespace = Some("other".to_owned()),
        |spec: &mut MutexApprovalSpec| spec.owner.kind = "Plan".to_owned(),
        |spec: &mut MutexApprovalSpec| spec.owner.api_group = "other".to_owned(),
        |spec: &mut MutexApprovalSpec| spec.digest.push('0'),
    ] {
        let mut cluster = run_with(BEGIN, "a; b");
        approve(&mut cluster, 10, edit);
        assert_eq!(begun(&cluster), "", "{:?}", cluster.observed.approvals);
    }
}

#[test]
fn an_approval_is_for_a_time() {
    let settings = r#""approval":{"begin":"Manual","ttlSeconds":100}"#;
    for cluster in owners(settings, "a; b") {
        let mut fresh = cluster.clone();
        approve(&mut fresh, 40, |_| {});
        assert_eq!(begun(&fresh), "a b");
        check_cluster(&fresh, "wake 60");
        let mut old = cluster;
        approve(&mut old, 100, |_| {});
        assert_eq!(begun(&old), "");
        check_cluster(
            &old,
            "hold ApprovalExpired ~ it is older than 100 s (
             asks the beginning",
        );
        approve(&mut old, 1, |_| {});
        assert_eq!(begun(&old), "a b");
    }
    let wrong = run_with(r#""approval":{"begin":"Manual","ttlSeconds":0}"#, "a");
    check_cluster(
        &wrong,
        "hold InvalidField ~ spec.approval.ttlSeconds: found 0, wanted 1 or more",
    );
}

#[test]
fn after_a_failure_the_next_node_waits_for_a_word() {
    let settings = r#""approval":{"afterFailure":"Manual"}"#;
    for [calm, mut failed, more] in [
        ["a; b", "a; b held; c", "a held -30; b held; c"].map(|nodes| run_with(settings, nodes)),
        ["a; b", "a; b held; c", "a held -30; b held; c"].map(|nodes| plan_with(settings, nodes)),
    ] {
        assert_eq!(begun(&calm), "a b");
        assert_eq!(begun(&failed), "");
        check_cluster(
            &failed,
            "node a Selected WaitsForApproval ~ Node b has failed, and the next node begins when that is approved (
             asks the next node after the failure of Node b",
        );
        approve(&mut failed, 10, |_| {});
        assert_eq!(begun(&failed), "a c");
        // A further failure is another matter.
        let mut more = more;
        more.observed.approvals = failed.observed.approvals;
        assert_eq!(begun(&more), "");
        check_cluster(
            &more,
            "node c Selected ApprovalExpired ~ its nodes are others since",
        );
    }
}

#[test]
fn what_is_done_waits_for_nobody() {
    for cluster in owners(BEGIN, "a done; b done") {
        check_cluster(&cluster, "asks -");
    }
    let mut unseen = run_with(BEGIN, "a");
    approve(&mut unseen, 10, |_| {});
    unseen
        .observed
        .unlisted
        .insert("mutexapprovals", "no route".to_owned());
    check_cluster(
        &unseen,
        "node a Selected ListFailed ~ mutexapprovals cannot be listed",
    );
}

/// How the approval of this name stands, as its status had it `before`.
fn stands(cluster: &Cluster, name: &str, before: Option<&Standing>) -> Standing {
    let view = &cluster.observed.approvals[name];
    standing(view, Some(&decision(cluster).report), before, at(0))
}

/// Whether an approval holds, and why, as `True Reason words`.
#[track_caller]
fn check_standing(found: &Standing, wanted: &str) {
    let words: Vec<&str> = wanted.splitn(3, ' ').collect();
    let holds = if found.holds { "True" } else { "False" };
    assert_eq!([holds, found.reason.name()], words[..2], "{found:?}");
    assert!(found.message.contains(words[2]), "{found:?}");
}

#[test]
fn an_approval_says_whether_its_owner_goes_on_by_it() {
    let settings = r#""approval":{"begin":"Manual","ttlSeconds":100}"#;
    for cluster in owners(settings, "a; b") {
        let mut now = cluster.clone();
        approve(&mut now, 10, |_| {});
        let held = stands(&now, "a0", None);
        check_standing(
            &held,
            "True ApprovalHolds goes on by it: the beginning is approved",
        );
        // A second one of the same is as good.
        let mut twice = cluster.clone();
        approve(&mut twice, 10, |_| {});
        let mut second = twice.observed.approvals["a0"].clone();
        (second.name, second.created) = ("b".to_owned(), at(-40));
        twice.observed.approvals.insert(second.name.clone(), second);
        check_standing(&stands(&twice, "b", None), "True ApprovalHolds goes on by it");
        // What runs out says so, and is looked at then.
        let mut old = cluster.clone();
        approve(&mut old, 100, |_| {});
        let wanted = "False ApprovalExpired no longer holds for the beginning of ";
        check_standing(&stands(&old, "a0", Some(&held)), wanted);
        check_standing(
            &stands(&old, "a0", None),
            "False ApprovalExpired : it is older than 100 s (",
        );
        check_cluster(&twice, "wake 60");

        let mut edited = now.clone();
        for run in edited.observed.runs.values_mut() {
            run.spec.soak_seconds = Some(5);
        }
        for binding in edited.observed.bindings.values_mut() {
            binding.spec.settings.soak_seconds = Some(5);
        }
        let wanted = "False ApprovalExpired : the spec, or a MutexBinding of it, was edited since";
        let expired = stands(&edited, "a0", Some(&held));
        check_standing(&expired, wanted);
        // It was undone, and holds again.
        check_standing(&stands(&now, "a0", Some(&expired)), "True ApprovalHolds ");

        // The status decides nothing, whoever wrote it.
        for view in edited.observed.approvals.values_mut() {
            view.status = told("True", "ApprovalHolds");
        }
        assert_eq!(begun(&edited), "");
        check_standing(&stands(&edited, "a0", Some(&held)), wanted);
    }
}

/// A status that says this.
fn told(status: &str, reason: &str) -> MutexApprovalStatus {
    let condition = numo_api::Condition {
        type_: "Holds".to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        ..numo_api::Condition::default()
    };
    MutexApprovalStatus {
        conditions: vec![condition],
        ..MutexApprovalStatus::default()
    }
}

#[test]
fn of_what_is_over_the_last_word_stays() {
    let done = owners(BEGIN, "a done; b done");
    for (mut cluster, done) in owners(BEGIN, "a; b").into_iter().zip(done) {
        approve(&mut cluster, 400, |_| {});
        let held = stands(&cluster, "a0", None);
        let mut over = done;
        over.observed.approvals = cluster.observed.approvals.clone();
        let was = stands(&over, "a0", Some(&held));
        check_standing(&was, "True ApprovalOver it held, and ");
        check_standing(&stands(&over, "a0", Some(&was)), "True ApprovalOver ");
        let expired = Standing {
            holds: false,
            reason: numo_api::Reason::ApprovalExpired,
            message: "its nodes are others since".to_owned(),
        };
        assert_eq!(stands(&over, "a0", Some(&expired)), expired);
        // Nobody knows whether one of before approved what is over.
        let unknown = stands(&over, "a0", None);
        check_standing(
            &unknown,
            "False NothingWaits waits for no approval; if it approved anything",
        );
        assert_eq!(stands(&over, "a0", Some(&unknown)), unknown);
        let view = over.observed.approvals.get_mut("a0").unwrap();
        view.spec.digest = "d".to_owned();
        let forged = stands(&over, "a0", None);
        assert!(forged.message.ends_with("waits for no approval"), "{forged:?}");
        let view = &over.observed.approvals["a0"];
        check_standing(
            &standing(view, None, None, at(0)),
            "False OwnerNotFound is not there",
        );
        // A NodeMaintenance is gone when it is over.
        check_standing(
            &standing(view, None, Some(&held), at(0)),
            "True ApprovalOver is not there any more",
        );
    }
}

#[test]
fn an_approval_of_what_does_not_wait_says_what_does() {
    let settings = r#""approval":{"begin":"Manual"},"waves":[{"nodes":1},{"nodes":1,"approval":"Manual"}]"#;
    for cluster in owners(settings, "a; b") {
        for (edit, wanted) in [
            (
                (|spec| spec.wave = Some("2".to_owned())) as fn(&mut MutexApprovalSpec),
                "False ApprovesOther waits for the approval of the beginning, and this is of something else",
            ),
            (
                |spec| spec.after_failure = Some(true),
                "False ApprovesOther and this is of something else",
            ),
            (
                |spec| spec.digest = "d".to_owned(),
                "False ApprovesOther and spec.digest is not that of its status.approval",
            ),
        ] {
            // However old it is.
            for age in [10, 4000] {
                let mut cluster = cluster.clone();
                approve(&mut cluster, age, edit);
                assert_eq!(begun(&cluster), "");
                check_standing(&stands(&cluster, "a0", None), wanted);
            }
        }
    }
    for mut cluster in owners(BEGIN, "a; b") {
        approve(&mut cluster, 4000, |_| {});
        for run in cluster.observed.runs.values_mut() {
            run.spec.approval = None;
        }
        for binding in cluster.observed.bindings.values_mut() {
            binding.spec.settings.approval = None;
        }
        check_standing(
            &stands(&cluster, "a0", None),
            "False NothingWaits waits for no approval",
        );
    }
}

#[test]
fn an_approval_of_a_later_point_holds_though_an_earlier_one_waits() {
    let settings = r#""approval":{"begin":"Manual"},"waves":[{"nodes":2,"approval":"Manual"}]"#;
    for mut cluster in owners(settings, "a; b") {
        approve(&mut cluster, 10, |_| {});
        approve(&mut cluster, 10, |_| {});
        assert_eq!(begun(&cluster), "a b");
        cluster.observed.approvals.remove("a0");
        assert_eq!(begun(&cluster), "");
        check_standing(
            &stands(&cluster, "a1", None),
            "True ApprovalHolds wave 1 of 1 is approved",
        );
    }
}

/// Whom numo leaves out at night would else take the word for all others with it.
#[test]
fn a_node_that_is_left_out_takes_no_word_with_it() {
    for [mut first, mut second] in [
        ["a; b; c", "a; b skipped; c"].map(|nodes| run_with(BEGIN, nodes)),
        ["a; b; c", "a; b skipped; c"].map(|nodes| plan_with(BEGIN, nodes)),
    ] {
        approve(&mut first, 10, |_| {});
        assert_eq!(begun(&first), "a b c");
        second.observed.approvals = first.observed.approvals;
        assert_eq!(begun(&second), "a c");
    }
}

/// The default budget would let nothing begin, whoever approves.
#[test]
fn after_a_failure_a_word_counts_where_nobody_wrote_a_budget() {
    let without_budget = |settings: &str| {
        let mut cluster = run_with(settings, "a; b held; c");
        for run in cluster.observed.runs.values_mut() {
            run.spec.failure_budget = None;
        }
        cluster
    };
    check_cluster(
        &without_budget("\"soakSeconds\":0"),
        "hold FailureBudgetSpent\n > nothing",
    );
    let mut failed = without_budget(r#""approval":{"afterFailure":"Manual"}"#);
    check_cluster(&failed, "asks the next node after the failure of Node b");
    assert_eq!(begun(&failed), "");
    approve(&mut failed, 10, |_| {});
    assert_eq!(begun(&failed), "a c");
}
