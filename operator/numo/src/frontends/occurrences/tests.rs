use super::*;
use crate::frontends::sample;
use numo_api::PlanCondition;
use numo_core::{
    MaintenanceGroup,
    observed::{ChangeView, Key},
    report::{ApprovalReport, NodeReport, Point, WaveOver, Why},
};
use serde_json::json;

const AT: &str = "2027-01-15T08:00:00Z";
const LATER: &str = "2027-01-15T09:00:00Z";

fn run() -> Owner {
    Owner::run(Key::new("ops", "upgrade"))
}

fn plan() -> Owner {
    Owner::plan(Key::new("upgrades", "os"))
}

fn maintenance() -> Owner {
    Owner::maintenance(MaintenanceGroup::Medik8s, "fan")
}

fn conditions(list: &[(&str, &str, &str, &str)]) -> Vec<Condition> {
    let list = list.iter().map(|(type_, status, reason, since)| Condition {
        type_: (*type_).to_owned(),
        status: (*status).to_owned(),
        reason: Some((*reason).to_owned()),
        message: Some(format!("{type_} says so")),
        last_transition_time: Some((*since).to_owned()),
        observed_generation: None,
    });
    list.collect()
}

fn node(step: Step, since: Option<&str>) -> NodeReport {
    NodeReport {
        pool: "worker".into(),
        step,
        why: Why::new(Reason::RuleFailed, "a rule failed"),
        since: since.map(ToOwned::to_owned),
        change: None,
    }
}

fn report(nodes: &[(&str, Step, Option<&str>)]) -> Report {
    let nodes = nodes.iter();
    Report {
        run_id: "run".to_owned(),
        nodes: nodes
            .map(|(name, step, since)| ((*name).to_owned(), node(*step, *since)))
            .collect(),
        ..Report::default()
    }
}

fn of(owner: &Owner, report: &Report, status: Status<'_>) -> Vec<Occurrence> {
    of_waiting(owner, report, status, None)
}

fn of_waiting(owner: &Owner, report: &Report, status: Status<'_>, approval: Option<&str>) -> Vec<Occurrence> {
    occurrences(&Facts {
        owner,
        uid: "uid",
        report,
        status,
        approval,
        changes: &[],
    })
}

/// The journal of a node that had its turns at these times, of this run.
fn turns(node: &str, run: &str, at: &[&str]) -> ChangeView {
    let entries = at.iter().map(|at| json!({"at": at, "step": "Admitted"}));
    let turn = (Key::new("ops", node), node, run);
    let status = json!({"entries": entries.collect::<Vec<_>>()});
    sample::change(&plan(), turn, at[0].parse().unwrap(), status)
}

fn of_turns(owner: &Owner, report: &Report, status: Status<'_>, changes: &[ChangeView]) -> Vec<Occurrence> {
    occurrences(&Facts {
        owner,
        uid: "uid",
        report,
        status,
        approval: None,
        changes: &changes.iter().collect::<Vec<_>>(),
    })
}

/// Names of transitions, with their nodes.
fn names(all: &[Occurrence]) -> Vec<String> {
    let name = |one: &Occurrence| match &one.node {
        Some(node) => format!("{} {node}", one.transition.name()),
        None => one.transition.name().to_owned(),
    };
    all.iter().map(name).collect()
}

fn last_run(started: Option<&str>, finished: Option<(&str, RunResult)>) -> RunStatus {
    RunStatus {
        id: "run".to_owned(),
        target: "4.20.1".to_owned(),
        started_at: started.map(ToOwned::to_owned),
        finished_at: finished.map(|(at, _)| at.to_owned()),
        result: finished.map(|(_, result)| result),
        ..RunStatus::default()
    }
}

#[test]
fn a_run_began_is_held_and_over() {
    let ready = conditions(&[("Ready", "False", "Progressing", AT)]);
    let held = [
        ("a", Step::Held, Some(AT)),
        ("b", Step::Failed, Some(LATER)),
        ("c", Step::Selected, None),
    ];
    let begun = last_run(Some(AT), None);
    for (conditions, nodes, run_status, wanted) in [
        (&ready, &[][..], None, vec![]),
        (&ready, &[], Some(last_run(None, None)), vec![]),
        (&ready, &[], Some(begun.clone()), vec!["RunBegan"]),
        (
            &ready,
            &held,
            Some(begun.clone()),
            vec!["RunBegan", "Held a", "Failed b"],
        ),
        (
            &conditions(&[
                ("Ready", "False", "RuleFailed", AT),
                ("Stalled", "True", "RuleFailed", AT),
            ]),
            &held[..1],
            Some(begun.clone()),
            vec!["RunBegan", "Held a", "Stalled"],
        ),
        (
            &conditions(&[
                ("Ready", "False", "Suspended", AT),
                ("Stalled", "True", "Suspended", AT),
            ]),
            &[],
            Some(begun.clone()),
            vec!["RunBegan"],
        ),
        (
            &conditions(&[
                ("Ready", "False", "PoolHeld", AT),
                ("Stalled", "False", "PoolHeld", AT),
                ("PoolHeld", "True", "PoolHeld", AT),
            ]),
            &[],
            Some(last_run(Some(AT), Some((LATER, RunResult::Aborted)))),
            vec!["RunBegan", "PoolLeftPaused", "Finished"],
        ),
    ] {
        let found = of(
            &run(),
            &report(nodes),
            Status::Run(conditions, run_status.as_ref()),
        );
        assert_eq!(names(&found), wanted);
    }
    let over = last_run(Some(AT), Some((LATER, RunResult::Aborted)));
    let found = of(&run(), &report(&[]), Status::Run(&ready, Some(&over)));
    let finished = found.last().unwrap();
    assert_eq!((finished.at, finished.reason.as_str()), (time(LATER), "Aborted"));
}

/// The status of a Plan that is complete, or not, since then.
fn planned((complete, since): (&str, &str), hash: &str) -> PlanStatus {
    let condition = |(type_, status): (&str, &str)| PlanCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(since.to_owned()),
        ..PlanCondition::default()
    };
    PlanStatus {
        conditions: Some(
            [("Ready", "False"), ("Complete", complete)]
                .map(condition)
                .to_vec(),
        ),
        latest_version: Some("v2".to_owned()),
        latest_hash: Some(hash.to_owned()),
        applying: None,
        approval: None,
    }
}

#[test]
fn a_plan_began_with_its_first_node_and_is_over_when_it_is_complete() {
    let waiting = [("a", Step::Selected, None)];
    let flying = [("a", Step::Changed, Some(LATER)), ("b", Step::Admitted, Some(AT))];
    let done = [("a", Step::Done, Some(AT))];
    let had = [turns("a", "run", &[AT])];
    for (nodes, complete, hash, changes, wanted) in [
        (&waiting[..], "False", "h", &[][..], vec![]),
        (&flying, "False", "", &had, vec![]),
        (&flying, "False", "h", &had, vec!["RunBegan"]),
        (&done, "True", "h", &had, vec!["Finished"]),
        // Nobody had anything to change.
        (&done, "True", "h", &[], vec![]),
        (&done, "True", "h", &[turns("a", "before", &[AT])], vec![]),
        (&[], "True", "h", &had, vec![]),
    ] {
        let status = planned((complete, AT), hash);
        let found = of_turns(&plan(), &report(nodes), Status::Plan(&status), changes);
        assert_eq!(names(&found), wanted, "{nodes:?}");
    }
    let began = |nodes: &[(&str, Step, Option<&str>)], hash: &str| {
        let status = planned(("False", AT), hash);
        of(&plan(), &report(nodes), Status::Plan(&status)).remove(0)
    };
    let one = began(&flying, "h");
    assert_eq!(one.at, time(AT), "the first of them");
    assert_eq!(one.id, began(&flying[..1], "h").id, "it began once");
    assert_ne!(one.id, began(&flying, "i").id);
}

/// A node comes to a Plan that was complete. Whoever is told that it is complete again was told that it began again.
#[test]
fn a_plan_that_goes_on_begins_and_is_over_once_more() {
    let (first, joined) = ("2027-01-15T08:00:00Z", "2027-01-20T08:00:10Z");
    let flying = report(&[("b", Step::PreRules, Some("2027-01-20T10:00:00Z"))]);
    let done = report(&[("a", Step::Done, None), ("b", Step::Done, None)]);
    let before = [turns("a", "run", &[first])];
    let after = [before[0].clone(), turns("b", "run", &["2027-01-20T08:00:09.5Z"])];
    let told = |report: &Report, stands: (&str, &str), changes: &[ChangeView]| {
        let status = planned(stands, "h");
        let mut found = of_turns(&plan(), report, Status::Plan(&status), changes);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    };
    let began = told(&flying, ("False", first), &before[..]);
    let over = told(&done, ("True", "2027-01-15T09:00:00Z"), &before);
    let again = told(&flying, ("False", joined), &after);
    assert_eq!(again.transition, Transition::RunBegan);
    assert_ne!(again.id, began.id);
    // Its journal was written a moment before the status.
    assert_eq!(again.at, time("2027-01-20T08:00:09.5Z"));
    let over_again = told(&done, ("True", "2027-01-20T11:00:00Z"), &after);
    assert_eq!(over_again.transition, Transition::Finished);
    assert_ne!(over_again.id, over.id);
    // A node that comes and has nothing to change ends nothing.
    let later = told(&done, ("True", "2027-01-25T11:00:00Z"), &after);
    assert_eq!(later.id, over_again.id);
    // A person has a node tried again.
    let retried = [
        turns("a", "run", &[first, "2027-01-26T08:00:00Z"]),
        after[1].clone(),
    ];
    let later = told(&done, ("True", "2027-01-26T09:00:00Z"), &retried);
    assert_ne!(later.id, over_again.id);
}

/// Of an owner without times of its runs; another run of it is another.
#[test]
fn a_run_began_with_its_first_turn() {
    let changes = [
        turns("a", "run", &["2027-01-15T08:10:00Z"]),
        turns("b", "run", &["2027-01-15T08:08:00Z"]),
        turns("c", "before", &["2027-01-15T08:01:00Z"]),
    ];
    // One is in flight that began its present step later than all.
    let report = report(&[("e", Step::PreRules, Some(LATER))]);
    let status = planned(("False", AT), "h");
    let found = of_turns(&plan(), &report, Status::Plan(&status), &changes);
    assert_eq!(found[0].at, time("2027-01-15T08:08:00Z"), "{found:?}");
    let changes: Vec<&ChangeView> = changes.iter().collect();
    let facts = Facts {
        owner: &plan(),
        uid: "uid",
        report: &report,
        status: Status::Plan(&status),
        approval: None,
        changes: &changes,
    };
    let behind = behind_since(&facts);
    assert_eq!(behind, time(AT));
    assert_eq!(began_at(&facts, behind), time("2027-01-15T08:08:00Z"));
    // A node that joins ten days later is another run: it has not taken ten days.
    let later = time("2027-01-25T08:00:00Z");
    assert_eq!(began_at(&facts, later), None);
    assert_eq!(began_at(&facts, None), None, "nobody saw it begin");
}

#[test]
fn a_node_version_began_with_its_first_node_and_is_over_when_it_is_ready() {
    let owner = Owner::node_version("workers");
    let flying = report(&[("a", Step::Changed, Some(LATER))]);
    let done = report(&[("a", Step::Done, Some(AT))]);
    let had = [turns("a", "run", &[AT])];
    for (report, ready, changes, wanted) in [
        (&flying, "False", &had[..], vec!["RunBegan"]),
        (&done, "True", &had, vec!["Finished"]),
        (&done, "True", &[], vec![]),
    ] {
        let status = NodeVersionStatus {
            conditions: conditions(&[("Ready", ready, "UpToDate", AT)]),
            ..NodeVersionStatus::default()
        };
        let found = of_turns(&owner, report, Status::Version(&status), changes);
        assert_eq!(names(&found), wanted);
    }
}

/// As a Plan is: nodes that were left out are named, and it is over. What comes after that begins and ends anew.
#[test]
fn a_node_version_that_left_nodes_out_is_over_though_it_is_not_ready() {
    let owner = Owner::node_version("workers");
    let status = |complete: &str, since: &str| NodeVersionStatus {
        conditions: conditions(&[
            ("Complete", complete, "NodesLeftOut", since),
            ("Ready", "False", "NodesLeftOut", AT),
            ("Outdated", "True", "NodeVersionsOutOfDate", AT),
        ]),
        ..NodeVersionStatus::default()
    };
    let left = report(&[("a", Step::Done, Some(AT)), ("b", Step::Skipped, None)]);
    let flying = report(&[("a", Step::Done, Some(AT)), ("b", Step::PreRules, Some(LATER))]);
    let had = [turns("a", "run", &[AT])];
    let told = |report: &Report, stands: (&str, &str), changes: &[ChangeView]| {
        let status = status(stands.0, stands.1);
        of_turns(&owner, report, Status::Version(&status), changes)
    };
    let over = told(&left, ("True", LATER), &had);
    assert_eq!(names(&over), ["Finished"]);
    assert_eq!(
        (over[0].at, over[0].reason.as_str()),
        (time(LATER), "NodesLeftOut")
    );
    assert_eq!(over[0].message, "Ready says so");
    let never = told(&left, ("True", LATER), &[]);
    assert_eq!(names(&never), [""; 0], "none of its nodes had a turn");
    let status = status("True", LATER);
    let facts = Facts {
        owner: &owner,
        uid: "uid",
        report: &left,
        status: Status::Version(&status),
        approval: None,
        changes: &[],
    };
    assert_eq!(succeeded(&facts), None, "a node was left out");
    // The node is back, and its turn begins.
    let both = [had[0].clone(), turns("b", "run", &["2027-01-15T10:00:00Z"])];
    let first = told(&flying, ("False", AT), &had);
    let again = told(&flying, ("False", "2027-01-15T10:00:00Z"), &both);
    assert_eq!(names(&again), ["RunBegan"]);
    assert_ne!(again[0].id, first[0].id);
    let over_again = told(&left, ("True", "2027-01-15T11:00:00Z"), &both);
    assert_ne!(over_again[0].id, over[0].id);
}

#[test]
fn a_maintenance_began_failed_and_is_drained() {
    let status = |phase: &str, ready: &str| NodeMaintenanceStatus {
        phase: Some(phase.to_owned()),
        conditions: conditions(&[("Ready", ready, "Draining", AT)]),
        ..NodeMaintenanceStatus::default()
    };
    let draining = [("a", Step::Cordoned, Some(AT))];
    for (nodes, phase, ready, wanted) in [
        (&[][..], "Running", "False", vec![]),
        (&draining, "Running", "False", vec!["RunBegan"]),
        (&[], "Failed", "False", vec!["Failed"]),
        // Its only node is told of once, and one that a person skipped has not failed.
        (&[("a", Step::Failed, None)], "Failed", "False", vec!["Failed"]),
        (&[("a", Step::Skipped, None)], "Failed", "False", vec![]),
        (&draining, "Succeeded", "False", vec!["RunBegan"]),
        (&draining, "Succeeded", "True", vec!["RunBegan", "Finished"]),
    ] {
        let status = status(phase, ready);
        let found = of(&maintenance(), &report(nodes), Status::Maintenance(&status));
        assert_eq!(names(&found), wanted, "{phase} {ready}");
    }
}

#[test]
fn each_wave_is_told_once_with_the_time_at_which_it_had_soaked() {
    let mut report = report(&[]);
    let wave = |number: usize, name: Option<&str>| WaveOver {
        number,
        name: name.map(ToOwned::to_owned),
        nodes: 2,
        done: 1,
        at: AT.parse().unwrap(),
    };
    report.waves_over = vec![wave(1, Some("canary")), wave(2, None)];
    let found = of(&run(), &report, Status::Run(&[], None));
    assert_eq!(names(&found), ["WaveDone", "WaveDone"]);
    assert_eq!(found[0].message, "wave 1 (canary): 1 of 2 nodes done");
    assert_eq!(found[0].at, time(AT));
    assert_ne!(found[0].id, found[1].id);
    report.run_id = "next".to_owned();
    assert_ne!(of(&run(), &report, Status::Run(&[], None))[0].id, found[0].id);
}

#[test]
fn a_wave_that_waits_for_approval_is_told_of_once() {
    let mut report = report(&[("a", Step::Selected, None), ("b", Step::Selected, None)]);
    let waits = |point: Point, digest: &str, reason: Reason| {
        Some(ApprovalReport {
            point,
            digest: digest.to_owned(),
            why: Why::new(reason, "it waits"),
        })
    };
    report.approval = waits(Point::Begin, "a", Reason::WaitsForApproval);
    // Outside its hours the nodes say that; it can be approved all the same.
    for node in report.nodes.values_mut() {
        node.why = Why::new(Reason::OutsideWindow, "the window is closed");
    }
    let told = |report: &Report, since: &str| of_waiting(&run(), report, Status::Run(&[], None), Some(since));
    // Since when it waits is to be known first.
    assert_eq!(names(&of(&run(), &report, Status::Run(&[], None))), [""; 0]);
    let found = told(&report, AT);
    assert_eq!(names(&found), ["WaitsForApproval"]);
    // An approval was given and withdrawn: whatever the kind of the owner.
    let plan_status = PlanStatus::default();
    let maintenance_status = NodeMaintenanceStatus::default();
    let version_status = NodeVersionStatus::default();
    for (owner, status) in [
        (run(), Status::Run(&[], None)),
        (plan(), Status::Plan(&plan_status)),
        (maintenance(), Status::Maintenance(&maintenance_status)),
        (Owner::node_version("workers"), Status::Version(&version_status)),
    ] {
        let waits = |since: &str| {
            let told = of_waiting(&owner, &report, status, Some(since));
            assert_eq!(names(&told), ["WaitsForApproval"], "{owner}");
            told[0].id.clone()
        };
        assert_ne!(waits(AT), waits(LATER), "{owner}");
        assert_ne!(waits(""), waits("approval 2027-01-15T08:00:00Z"), "{owner}");
    }
    let after = |node: &str| Point::AfterFailure {
        node: node.to_owned(),
    };
    for (approval, words) in [
        (
            waits(after("a"), "a", Reason::WaitsForApproval),
            "a failure waits by itself",
        ),
        (
            waits(after("b"), "a", Reason::WaitsForApproval),
            "and so does the next one",
        ),
        (
            waits(Point::Begin, "b", Reason::WaitsForApproval),
            "so does what has changed",
        ),
        (
            waits(Point::Begin, "a", Reason::ApprovalExpired),
            "and whose approval has expired",
        ),
    ] {
        report.approval = approval;
        let next = told(&report, AT);
        assert_eq!(names(&next), ["WaitsForApproval"]);
        assert_ne!(next[0].id, found[0].id, "{words}");
    }
    report.approval = None;
    assert_eq!(names(&told(&report, AT)), [""; 0]);
}

#[test]
fn an_id_is_the_same_after_a_restart_and_another_each_time() {
    let held = |since: &str, uid: &str| {
        let report = report(&[("a", Step::Held, Some(since))]);
        let facts = Facts {
            owner: &run(),
            uid,
            report: &report,
            status: Status::Run(&[], None),
            approval: None,
            changes: &[],
        };
        occurrences(&facts)[0].id.clone()
    };
    let id = held(AT, "uid");
    assert_eq!(id, "ebd951504ca5653f", "ids are stable over versions");
    assert_eq!(id, held(AT, "uid"));
    assert_ne!(id, held(LATER, "uid"), "held once more");
    assert_ne!(id, held(AT, "other"), "of another owner by this name");
}

#[test]
fn two_nodes_at_once_are_two_and_a_crowd_is_bounded() {
    let names_: Vec<String> = (0..2 * NODES).map(|number| format!("n{number:04}")).collect();
    let nodes: Vec<(&str, Step, Option<&str>)> = names_
        .iter()
        .map(|name| (name.as_str(), Step::Held, Some(AT)))
        .collect();
    let two = of(&run(), &report(&nodes[..2]), Status::Run(&[], None));
    assert_eq!(names(&two), ["Held n0000", "Held n0001"]);
    assert_ne!(two[0].id, two[1].id);
    let all = of(&run(), &report(&nodes), Status::Run(&[], None));
    assert_eq!(all.len(), NODES);
}

#[test]
fn what_the_status_says_wrongly_is_passed_over() {
    let status: PlanStatus =
        serde_json::from_value(json!({"conditions": [{"type": "Complete", "status": "True"}]})).unwrap();
    assert_eq!(of(&plan(), &report(&[]), Status::Plan(&status)), []);
    let odd = last_run(Some("yesterday"), None);
    let found = of(
        &run(),
        &report(&[]),
        Status::Run(
            &conditions(&[("Stalled", "True", "RuleFailed", "noon")]),
            Some(&odd),
        ),
    );
    assert_eq!(names(&found), ["RunBegan", "Stalled"]);
    assert!(found.iter().all(|one| one.at.is_none()));
}

#[test]
fn every_kind_of_owner_is_done_at_the_time_that_its_status_has() {
    let done = report(&[("a", Step::Done, Some(AT))]);
    let ready = |status: &str| conditions(&[("Ready", status, "UpToDate", LATER)]);
    let ended = |result| last_run(Some(AT), Some((LATER, result)));
    let (well, left, goes_on) = (
        ended(RunResult::SucceededWithSkips),
        ended(RunResult::Aborted),
        last_run(Some(AT), None),
    );
    let plan_status = |complete: &str| -> PlanStatus {
        let complete = json!({"type": "Complete", "status": complete, "lastTransitionTime": LATER});
        serde_json::from_value(json!({"latestHash": "h", "conditions": [{"type": "Ready", "status": complete["status"]}, complete]}))
            .unwrap()
    };
    let (complete, incomplete) = (plan_status("True"), plan_status("False"));
    let maintained = |phase: &str, is_ready: &str| NodeMaintenanceStatus {
        phase: Some(phase.to_owned()),
        conditions: ready(is_ready),
        ..NodeMaintenanceStatus::default()
    };
    let (drained, failed) = (maintained("Succeeded", "True"), maintained("Failed", "False"));
    let version = |is_ready: &str| NodeVersionStatus {
        conditions: ready(is_ready),
        ..NodeVersionStatus::default()
    };
    let (replaced, behind) = (version("True"), version("False"));
    let is_ready = ready("True");
    let is_short = conditions(&[("Ready", "False", "NodesLeftOut", LATER)]);
    for (owner, status, is_done) in [
        (run(), Status::Run(&is_short, Some(&well)), false),
        (run(), Status::Run(&is_ready, Some(&well)), true),
        (run(), Status::Run(&is_ready, Some(&left)), false),
        (run(), Status::Run(&is_ready, Some(&goes_on)), false),
        (run(), Status::Run(&is_ready, None), false),
        (plan(), Status::Plan(&complete), true),
        (plan(), Status::Plan(&incomplete), false),
        (maintenance(), Status::Maintenance(&drained), true),
        (maintenance(), Status::Maintenance(&failed), false),
        (Owner::node_version("workers"), Status::Version(&replaced), true),
        (Owner::node_version("workers"), Status::Version(&behind), false),
    ] {
        let facts = Facts {
            owner: &owner,
            uid: "uid",
            report: &done,
            status,
            approval: None,
            changes: &[],
        };
        let wanted = is_done.then(|| time(LATER).unwrap());
        assert_eq!(succeeded(&facts), wanted, "{status:?}");
    }
}

#[test]
fn who_is_stalled_for_another_reason_is_told_of_again() {
    let told = |reason: &str| {
        let conditions = conditions(&[("Stalled", "True", reason, AT)]);
        of(&run(), &report(&[]), Status::Run(&conditions, None))[0]
            .id
            .clone()
    };
    assert_eq!(told("RuleFailed"), told("RuleFailed"));
    assert_ne!(told("RuleFailed"), told("FailureBudgetSpent"));
}
