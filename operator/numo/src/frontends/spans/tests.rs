use super::*;
use crate::frontends::sample;
use numo_api::{NodeMaintenanceStatus, PlanStatus, Reason, RunStatus};
use numo_core::{
    MaintenanceGroup, Owner,
    observed::Key,
    report::{NodeReport, Report, WaveOver, WaveReport},
    why::Why,
};
use serde_json::json;

const DAY: &str = "2027-01-15";

fn at(minute: u32) -> String {
    format!("{DAY}T08:{minute:02}:00Z")
}

fn moment(minute: u32) -> Timestamp {
    at(minute).parse().unwrap()
}

/// The journal of a node that had its turn from one minute to another.
fn change(node: &str, (from, to): (u32, u32), step: Step) -> ChangeView {
    let status = json!({
        "step": step.name(), "since": at(to), "attempt": 1, "reason": step.name(), "message": "a rule failed",
        "entries": [
            {"at": at(from), "step": Step::Selected.name()},
            {"at": at(from), "step": Step::Admitted.name()},
            {"at": at(from + 1), "step": Step::PreRules.name()},
            {"at": at(from + 3), "step": Step::Released.name()},
            {"at": at(to), "step": step.name()},
        ],
        "verdicts": [{
            "rule": "ops/backup", "phase": "Pre", "attempt": 1, "round": 1, "outcome": "Pass", "reason": "JobComplete",
            "startedAt": at(from + 1), "at": at(from + 3), "endedAt": at(from + 2), "job": "ops/backup-1",
        }],
    });
    let owner = Owner::run(Key::new("ops", "upgrade"));
    let turn = (Key::new("ops", node), node, "run");
    sample::change(&owner, turn, moment(from), status)
}

/// What is over of a run that goes in these waves and ended in this minute, if it has.
fn told(
    changes: &[&ChangeView],
    waves: &[u32],
    ended: Option<u32>,
    since: u32,
    told: &mut Told,
) -> Vec<Vec<Span>> {
    // Since when a wave of nodes that were at the version is over, nobody knows.
    let known = waves.iter().enumerate().filter(|(_, minute)| **minute > 0);
    let over = known.map(|(index, minute)| WaveOver {
        number: index + 1,
        name: None,
        nodes: 1,
        done: 1,
        at: moment(*minute),
    });
    let report = Report {
        run_id: "run".to_owned(),
        target: Some("4.20.1".to_owned()),
        waves_over: over.collect(),
        ..Report::default()
    };
    let run = RunStatus {
        id: "run".to_owned(),
        target: "4.20.1".to_owned(),
        started_at: Some(at(0)),
        finished_at: ended.map(at),
        result: ended.map(|_| RunResult::Succeeded),
        ..RunStatus::default()
    };
    let ready = numo_api::Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: Some("Succeeded".to_owned()),
        message: None,
        last_transition_time: Some(at(59)),
        observed_generation: None,
    };
    let facts = Facts {
        owner: &Owner::run(Key::new("ops", "upgrade")),
        uid: "uid",
        report: &report,
        status: Status::Run(&[ready], Some(&run)),
        approval: None,
        changes,
    };
    super::over(&facts, moment(since), told)
}

/// A kind whose status knows no runs: the run has the times of its turns, once it is complete.
#[test]
fn a_run_of_a_plan_is_told_when_the_plan_is_complete() {
    let (first, second) = (change("a", (1, 5), Step::Done), change("b", (6, 9), Step::Done));
    let done = NodeReport {
        pool: "".into(),
        step: Step::Done,
        why: Why::new(Reason::Done, ""),
        since: None,
        change: None,
    };
    let report = Report {
        run_id: "run".to_owned(),
        nodes: [("a".to_owned(), done.clone()), ("b".to_owned(), done)].into(),
        ..Report::default()
    };
    let told_of = |complete: &str| {
        let complete = json!({"type": "Complete", "status": complete, "lastTransitionTime": at(10)});
        let conditions = json!([{"type": "Ready", "status": complete["status"]}, complete]);
        let status: PlanStatus =
            serde_json::from_value(json!({"latestHash": "h", "conditions": conditions})).unwrap();
        let facts = Facts {
            owner: &Owner::plan(Key::new("upgrades", "os")),
            uid: "uid",
            report: &report,
            status: Status::Plan(&status),
            approval: None,
            changes: &[&first, &second],
        };
        let all = super::over(&facts, moment(0), &mut Told::default());
        all.iter()
            .map(|spans| shown(std::slice::from_ref(spans))[0].clone())
            .collect::<Vec<_>>()
    };
    let nodes = ["node 1-5 of another", "node 6-9 of another"];
    assert_eq!(told_of("False"), nodes);
    assert_eq!(told_of("True"), [&nodes[..], &["run 1-10 of none"]].concat());
}

/// Each span as `name minute-minute of parent`.
fn shown(all: &[Vec<Span>]) -> Vec<String> {
    let spans: Vec<&Span> = all.iter().flatten().collect();
    let minute = |at: Timestamp| at.to_zoned(jiff::tz::TimeZone::UTC).minute();
    let name = |id: &str| {
        let found = spans.iter().find(|span| span.id == id);
        found.map_or("another", |span| span.name)
    };
    let show = |span: &&Span| {
        let parent = span.parent.as_deref().map_or("none", name);
        format!(
            "{} {}-{} of {parent}",
            span.name,
            minute(span.start),
            minute(span.end)
        )
    };
    spans.iter().map(show).collect()
}

#[test]
fn a_node_is_told_when_its_turn_is_over_and_once() {
    let (done, under_way) = (
        change("a", (5, 12), Step::Done),
        change("b", (6, 20), Step::PostRules),
    );
    let mut known = Told::default();
    let all = told(&[&done, &under_way], &[], None, 0, &mut known);
    assert_eq!(
        shown(&all),
        [
            "node 5-12 of another",
            "Admitted 5-6 of node",
            "PreRules 6-8 of node",
            "Released 8-12 of node",
            "rule 6-7 of PreRules",
        ]
    );
    assert!(
        all.iter()
            .flatten()
            .all(|span| span.trace == trace_of("run") && span.id.len() == 16)
    );
    assert_eq!(
        told(&[&done, &under_way], &[], None, 0, &mut known),
        [] as [Vec<Span>; 0]
    );
    // Another process says the same again, but not what ended long before it.
    assert_eq!(told(&[&done], &[], None, 0, &mut Told::default()), all);
    assert_eq!(
        told(&[&done], &[], None, 12, &mut Told::default()),
        [] as [Vec<Span>; 0]
    );
}

#[test]
fn nodes_are_part_of_the_wave_under_way_when_they_began() {
    let (first, second) = (change("a", (1, 9), Step::Done), change("b", (10, 19), Step::Done));
    let all = told(&[&first, &second], &[10, 20], Some(21), 0, &mut Told::default());
    let nodes: Vec<String> = shown(&all)
        .into_iter()
        .filter(|span| !span.contains("of node") && !span.starts_with("rule"))
        .collect();
    assert_eq!(
        nodes,
        [
            "node 1-9 of wave",
            "node 10-19 of wave",
            "wave 1-10 of run",
            "wave 10-20 of run",
            "run 0-21 of none"
        ]
    );
    let parent = |index: usize| all[index][0].parent.clone();
    assert_eq!(
        (parent(0), parent(1)),
        (Some(all[2][0].id.clone()), Some(all[3][0].id.clone()))
    );
}

#[test]
fn a_wave_without_nodes_has_none_of_another() {
    let change = change("b", (10, 19), Step::Done);
    let all = told(&[&change], &[0, 20], Some(21), 0, &mut Told::default());
    let wave = all.iter().flatten().find(|span| span.name == "wave").unwrap();
    assert_eq!(all[0][0].parent, Some(wave.id.clone()));
    assert_eq!((wave.start, wave.end), (moment(10), moment(20)));
}

/// A wave of NodeMaintenances is over when they are gone: no span of it is ever sent, so none is the parent of one.
#[test]
fn the_node_of_a_maintenance_is_part_of_its_run() {
    let done = change("a", (5, 12), Step::Done);
    let status = NodeMaintenanceStatus::default();
    let told = |wave: Option<WaveReport>| {
        let report = Report {
            run_id: "run".to_owned(),
            wave,
            ..Report::default()
        };
        let facts = Facts {
            owner: &Owner::maintenance(MaintenanceGroup::Medik8s, "fan"),
            uid: "uid",
            report: &report,
            status: Status::Maintenance(&status),
            approval: None,
            changes: &[&done],
        };
        super::over(&facts, moment(0), &mut Told::default())
    };
    let wave = WaveReport {
        number: 2,
        of: 3,
        name: None,
        is_rest: false,
        nodes: 4,
        done: 0,
        soak_until: None,
        notes: Vec::new(),
    };
    assert_eq!(told(Some(wave)), told(None));
}

#[test]
fn what_failed_says_why() {
    let failed = change("a", (5, 12), Step::Failed);
    let all = told(&[&failed], &[], None, 0, &mut Told::default());
    assert_eq!(all[0][0].failed.as_deref(), Some("a rule failed"));
    assert!(all[0][1..].iter().all(|span| span.failed.is_none()));
}

/// The journal keeps what came before a retry; the spans are of the last attempt.
#[test]
fn a_node_that_was_retried_is_told_of_its_last_attempt() {
    let mut retried = change("a", (20, 30), Step::Done);
    let first = change("a", (1, 9), Step::Held);
    let of = |attempt: i32, change: &ChangeView| {
        let mut status = change.status.clone();
        status
            .entries
            .iter_mut()
            .for_each(|entry| entry.attempt = attempt);
        status
            .verdicts
            .iter_mut()
            .for_each(|verdict| verdict.round = attempt);
        status
    };
    let (before, mut now) = (of(1, &first), of(2, &retried));
    now.attempt = 2;
    now.entries = before.entries.into_iter().chain(now.entries).collect();
    now.verdicts = before.verdicts.into_iter().chain(now.verdicts).collect();
    retried.status = now;
    let all = told(&[&retried], &[], None, 0, &mut Told::default());
    let all = shown(&all);
    assert_eq!(all[0], "node 20-30 of another");
    assert_eq!(
        all.iter().filter(|span| span.starts_with("rule")).count(),
        1,
        "{all:?}"
    );
    assert_eq!(all.len(), 5, "{all:?}");
}

/// Nodes of a run that another has followed end in their own trace, and what nobody knows a run of has none.
#[test]
fn a_run_that_was_followed_by_another_keeps_its_trace() {
    let (mut old, new) = (
        change("a", (1, 9), Step::Skipped),
        change("b", (10, 19), Step::Done),
    );
    old.spec.target.run_id = "before".to_owned();
    let all = told(&[&old, &new], &[], Some(21), 0, &mut Told::default());
    let traces: Vec<&str> = all.iter().map(|spans| spans[0].trace.as_str()).collect();
    assert_eq!(traces, [trace_of("before"), trace_of("run"), trace_of("run")]);
    assert_eq!(shown(&all[2..]), ["run 0-21 of none"]);
}
