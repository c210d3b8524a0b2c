//! A journal of which one field is lost, or is another one's, or at its bounds: whatever it is, numo does nothing to the node on its word
//! that it would not do on the word of the sound one. Of every kind of owner, in every part of a turn, for every field of the status, its step,
//! the spec and the annotations.

use crate::cluster::{Cluster, at, job_of};
use numo_api::{NodeChangeSpec, NodeChangeStatus, Step, marks};
use numo_core::{
    Snapshot,
    action::{Action, FleetAction, NodePurpose, PoolPurpose},
    decide, invariant,
    observed::{ChangeView, Key},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A node of each kind of owner, in the parts of its turn; a second node with a turn of its own, whose journal may be mixed up with it.
fn turns() -> Vec<(&'static str, String)> {
    let run = |more: &str| {
        format!(
            "cluster 4.17.0
             pool worker 4.17.0 ours
             rule before Pre
             rule after Post
             node c worker 4.16.0
             run finalizer {{\"drainProbe\": false, \"maxUnavailable\": 2}}
             {more}"
        )
    };
    let plan = |more: &str| {
        format!(
            "rule before Pre
             rule after Post
             plan concurrency:2 cordon finalizer applying:a spec {{\"mutex\":{{\"rules\":[{{\"name\":\"before\",\"namespace\":\"numo\"}},{{\"name\":\"after\",\"namespace\":\"numo\"}}]}}}}
             {more}"
        )
    };
    let drains = |more: &str| {
        format!(
            "plan concurrency:2 drain finalizer applying:a spec {{\"mutex\":{{\"drainBy\":\"Numo\"}}}}
             {more}"
        )
    };
    let version = |more: &str| {
        format!(
            "version img2 surge:4 finalizer
             group w image:img2
             groups w
             rule before Pre
             binding all spec {{\"ownerSelector\":{{\"kind\":\"NodeVersion\"}},\"rules\":[{{\"name\":\"before\"}}]}}
             {more}"
        )
    };
    let hosts = "node a worker v0
             node b worker v0
             node x worker v0
             node y worker v0
             host a img1 heir:x
             host b img1 heir:y
             host x img2 donor:a
             host y img2 donor:b
             pods a
             pods b";
    let version = |more: &str| version(more).replacen("version img2", &format!("{hosts}\n version img2"), 1);
    let maintenance = |more: &str| {
        format!(
            "node a worker 4.16.0
             node b worker 4.16.0
             rule before Pre
             maintenance a finalizer rule:before phase:Running
             {more}
             pods a"
        )
    };
    vec![
        (
            "run waits",
            run(
                "node a worker 4.16.0 turn\n node b worker 4.16.0 turn\n change a PreRules pin:4.17.0\n change b PreRules pin:4.17.0 verdict:before/Pre/1/Pass",
            ),
        ),
        (
            "run passed",
            run(
                "node a worker 4.16.0 turn\n node b worker 4.16.0 turn\n change a PreRules pin:4.17.0 verdict:before/Pre/1/Pass\n change b Admitted",
            ),
        ),
        (
            "run released",
            run(
                "node a worker 4.16.0 desired:4.17.0 Working turn\n node b worker 4.16.0 turn\n change a Released pin:4.17.0 verdict:before/Pre/1/Pass entries:PreRules,Released\n change b Admitted",
            ),
        ),
        (
            "run changed",
            run(
                "node a worker 4.17.0 turn\n node b worker 4.16.0 turn\n change a PostRules pin:4.17.0 verdict:before/Pre/1/Pass entries:PreRules,Released,Changed,PostRules\n change b Admitted",
            ),
        ),
        (
            "plan waits",
            plan(
                "node a worker v0\n node b worker v0\n begun a PreRules\n keeps a\n begun b PreRules verdict:before/Pre/1/Pass\n keeps b",
            ),
        ),
        (
            "plan runs",
            plan(
                "node a worker v0\n node b worker v0\n begun a Released boot:b1 entered:PreRules verdict:before/Pre/1/Pass\n keeps a cordoned\n planjob a running\n begun b Admitted\n keeps b",
            ),
        ),
        (
            "plan changed",
            plan(
                "node a worker v0\n node b worker v0\n begun a Changed boot:b0 of:v0 entered:Released verdict:before/Pre/1/Pass\n keeps a cordoned\n planjob a complete\n begun b Admitted\n keeps b",
            ),
        ),
        (
            "plan drains",
            drains(
                "node a worker v0\n node b worker v0\n begun a Cordoned\n keeps a cordoned done\n begun b Admitted\n keeps b\n pods a\n pod web on a of:ReplicaSet/web\n pods b",
            ),
        ),
        (
            "plan drained",
            drains(
                "node a worker v0\n node b worker v0\n begun a Drained entered:Cordoned\n keeps a cordoned done\n begun b Cordoned\n keeps b cordoned done\n pods a\n pods b",
            ),
        ),
        ("maintenance waits", maintenance("kept a\n turn a PreRules")),
        (
            "maintenance drains",
            maintenance(
                "kept a cordoned\n turn a Cordoned verdict:before/Pre/1/Pass\n pod web on a of:ReplicaSet/web",
            ),
        ),
        (
            "maintenance keeps",
            maintenance("kept a cordoned\n turn a Drained entries:Cordoned verdict:before/Pre/1/Pass"),
        ),
        (
            "version waits",
            version("replacing a PreRules\n replacing b PreRules verdict:before/Pre/1/Pass"),
        ),
        (
            "version drains",
            version(
                "pod web on a of:ReplicaSet/web\n replacing a Cordoned cordoned verdict:before/Pre/1/Pass\n replacing b PreRules",
            ),
        ),
        (
            "version released",
            version(
                "replacing a Released machine:m-a heir:x cordoned\n replacing b Cordoned machine:m-b heir:y cordoned",
            ),
        ),
    ]
}

/// What a decision does.
fn actions(cluster: &Cluster) -> (Vec<Action>, Vec<String>) {
    let owner = cluster.owner();
    let snapshot = Snapshot {
        now: at(0),
        observed: &cluster.observed,
        owner: &owner,
        asked: None,
    };
    let mut found = decide(&snapshot, &cluster.answers);
    let breaches = invariant::lint(&snapshot, &mut found);
    let breaches = breaches.iter().map(|breach| format!("{breach:?}")).collect();
    let actions = found.actions.into_iter().map(|planned| planned.action);
    (actions.collect(), breaches)
}

/// What lets a node go or disrupts it, opens it, or gives back what keeps others off it.
fn harms(cluster: &Cluster) -> BTreeSet<String> {
    let (actions, breaches) = actions(cluster);
    let harms = actions.iter().filter(|action| match action {
        Action::PatchNode(patch) => matches!(
            patch.purpose,
            NodePurpose::Release
                | NodePurpose::Cordon
                | NodePurpose::Uncordon
                | NodePurpose::BringHome
                | NodePurpose::Unshield
        ),
        Action::PatchPool(patch) => matches!(patch.purpose, PoolPurpose::Unpause),
        // A drain that is under way goes on.
        Action::Evict { node, .. } => !cluster.observed.nodes[node].unschedulable,
        Action::CreatePlanJob(_)
        | Action::StartPlanJob { .. }
        | Action::DeletePlanJob { .. }
        | Action::ReleaseLease { .. }
        | Action::RemoveFinalizer { .. } => true,
        Action::Fleet(action) => {
            action.disrupts()
                || matches!(
                    action,
                    FleetAction::CreatePendingNode { .. }
                        | FleetAction::WritePendingNode { .. }
                        | FleetAction::DeleteMachine { .. }
                )
        }
        _ => false,
    });
    let harms = harms.map(|action| format!("{action:?}"));
    harms.chain(breaches).collect()
}

/// What lets a node go or disrupts it. Where a step is one of a turn that is over, or the journal is nobody's, the rest is given back.
fn releases(cluster: &Cluster) -> BTreeSet<String> {
    let (actions, breaches) = actions(cluster);
    let found = actions.iter().filter(|action| match action {
        Action::PatchNode(patch) => matches!(patch.purpose, NodePurpose::Release | NodePurpose::Cordon),
        Action::Evict { node, .. } => !cluster.observed.nodes[node].unschedulable,
        Action::CreatePlanJob(_) | Action::StartPlanJob { .. } => true,
        Action::Fleet(action) => action.disrupts() || matches!(action, FleetAction::DeleteMachine { .. }),
        _ => false,
    });
    let found = found.map(|action| format!("{action:?}"));
    found.chain(breaches).collect()
}

/// As numo writes journals: each says whose it is, and its verdicts which Jobs they are of.
fn signed(change: &mut ChangeView) {
    let status = &mut change.status;
    status.node_change_uid = status.step.map(|_| change.uid.clone());
    for verdict in &mut status.verdicts {
        verdict.job = Some(format!("numo/{}", job_of("before", &change.spec, verdict)));
    }
}

/// The paths of all that is in a value.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{at}/{key}");
                found.push(path.clone());
                paths(value, &path, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                let path = format!("{at}/{index}");
                found.push(path.clone());
                paths(value, &path, found);
            }
        }
        _ => {}
    }
}

/// What may stand there instead.
fn others(value: &Value, of_other: Option<&Value>) -> Vec<Value> {
    let mut all: Vec<Value> = match value {
        Value::Number(_) => [i64::from(i32::MIN), -1, 0, 1, 2, i64::from(i32::MAX)]
            .into_iter()
            .map(Value::from)
            .collect(),
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => vec![
            json!("1970-01-01T00:00:00Z"),
            json!("-009999-01-02T01:59:59Z"),
            json!("9999-12-30T22:00:00Z"),
            json!(at(86_400).to_string()),
            json!(at(-86_400).to_string()),
            json!("yesterday"),
        ],
        Value::String(_) => vec![
            json!(""),
            json!("x"),
            json!("numo/after"),
            json!("Pass"),
            json!("Failure"),
        ],
        Value::Bool(is) => vec![json!(!is)],
        Value::Array(items) => {
            let mut turned = items.clone();
            turned.reverse();
            let twice: Vec<Value> = items.iter().chain(items).cloned().collect();
            vec![json!([]), Value::Array(turned), Value::Array(twice)]
        }
        _ => Vec::new(),
    };
    all.extend(of_other.cloned());
    all
}

/// Takes what is at this path away.
fn removed(whole: &Value, path: &str) -> Value {
    let mut whole = whole.clone();
    let (parent, last) = path.rsplit_once('/').expect("a path");
    match whole.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(last)),
        Some(Value::Array(items)) => drop(items.remove(last.parse().expect("an index"))),
        _ => {}
    }
    whole
}

/// The value with one thing gone, or other than it is, in words.
fn other_values(whole: &Value, of_other: Option<&Value>) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    paths(whole, "", &mut all);
    let mut found = Vec::new();
    for path in all {
        found.push((format!("without {path}"), removed(whole, &path)));
        let value = whole.pointer(&path).expect("it is there");
        let of_other = of_other.and_then(|other| other.pointer(&path));
        for other in others(value, of_other) {
            let mut whole = whole.clone();
            *whole.pointer_mut(&path).expect("it is there") = other.clone();
            found.push((format!("{path} is {other}"), whole));
        }
    }
    found
}

/// Every status in which one thing is other than in this one, in words. That the step is another one is no fault of the journal: where a
/// node is, it says.
fn mangled(sound: &NodeChangeStatus, other: Option<&NodeChangeStatus>) -> Vec<(String, NodeChangeStatus)> {
    let whole = serde_json::to_value(sound).expect("JSON");
    let of_other = other.map(|other| serde_json::to_value(other).expect("JSON"));
    let mut found = other_values(&whole, of_other.as_ref());
    if let Some(mut of_other) = of_other {
        found.push(("the status of the other".to_owned(), of_other.clone()));
        of_other.as_object_mut().expect("fields").remove("nodeChangeUID");
        found.push((
            "the status of the other, as an earlier numo wrote it".to_owned(),
            of_other.clone(),
        ));
        let verdicts = of_other.get_mut("verdicts").and_then(Value::as_array_mut);
        for verdict in verdicts.into_iter().flatten() {
            verdict.as_object_mut().expect("fields").remove("job");
        }
        found.push(("the same, and its verdicts name no Job".to_owned(), of_other));
    }
    for version in [0, -1, 2, i32::MAX] {
        let mut whole = whole.clone();
        whole["journalVersion"] = version.into();
        found.push((format!("journalVersion {version}"), whole));
    }
    let read = found.into_iter().filter_map(|(what, value)| {
        // What cannot be read is not seen at all.
        let status: NodeChangeStatus = serde_json::from_value(value).ok()?;
        (status != *sound && status.step == sound.step).then_some((what, status))
    });
    read.collect()
}

/// The journals of nodes a and b.
fn journals(cluster: &Cluster) -> (Key, Option<Key>) {
    let of = |name: &str| {
        let mut changes = cluster.observed.changes.values();
        changes
            .find(|change| change.spec.node_name == name)
            .map(|change| change.key.clone())
    };
    (of("a").expect("a journal"), of("b"))
}

/// Every spec in which one thing is other than in this one, in words.
fn mangled_spec(sound: &NodeChangeSpec, other: Option<&NodeChangeSpec>) -> Vec<(String, NodeChangeSpec)> {
    let mut whole = serde_json::to_value(sound).expect("JSON");
    let of_other = other.map(|other| serde_json::to_value(other).expect("JSON"));
    // What is absent, and may be there.
    whole["inService"] = sound.in_service.into();
    let mut found = other_values(&whole, of_other.as_ref());
    found.extend(of_other.map(|of_other| ("the spec of the other".to_owned(), of_other)));
    let read = found.into_iter().filter_map(|(what, value)| {
        let spec: NodeChangeSpec = serde_json::from_value(value).ok()?;
        (spec != *sound).then_some((what, spec))
    });
    read.collect()
}

/// Every step, and none.
pub(crate) const STEPS: [Option<Step>; 17] = [
    None,
    Some(Step::Selected),
    Some(Step::Admitted),
    Some(Step::PreRules),
    Some(Step::Cordoned),
    Some(Step::Drained),
    Some(Step::PreRelease),
    Some(Step::Released),
    Some(Step::Changed),
    Some(Step::Ready),
    Some(Step::Uncordoned),
    Some(Step::PostRules),
    Some(Step::Soaked),
    Some(Step::Done),
    Some(Step::Held),
    Some(Step::Failed),
    Some(Step::Skipped),
];

/// The annotations that numo writes to NodeChanges, and others that it reads elsewhere.
const ANNOTATIONS: [&str; 6] = [
    marks::TURN,
    marks::SUSPEND,
    marks::ABORT,
    marks::RETRY,
    marks::SAID,
    marks::SHIELDED_BY,
];

/// Every NodeChange that is other than this one in its step, in its spec or in its annotations, in words.
fn altered(sound: &ChangeView, other: Option<&ChangeView>) -> Vec<(String, ChangeView)> {
    let mut found = Vec::new();
    for step in STEPS.into_iter().filter(|step| *step != sound.status.step) {
        let mut change = sound.clone();
        change.status.step = step;
        found.push((format!("step {step:?}"), change));
    }
    for (what, spec) in mangled_spec(&sound.spec, other.map(|other| &other.spec)) {
        let change = ChangeView {
            spec,
            generation: sound.generation + 1,
            ..sound.clone()
        };
        found.push((format!("spec {what}"), change));
    }
    for key in ANNOTATIONS {
        for value in ["", "true", "{", "{}", "2026-01-01T00:00:00Z"] {
            let mut change = sound.clone();
            change.annotations.insert(key.to_owned(), value.to_owned());
            found.push((format!("annotation {key}={value}"), change));
        }
        let mut change = sound.clone();
        if change.annotations.remove(key).is_some() {
            found.push((format!("without annotation {key}"), change));
        }
    }
    found
}

/// A part of a turn with one NodeChange of node a that is as it is given; what `of` finds in it that the sound one has not.
fn compare(
    cluster: &Cluster,
    all: Vec<(String, ChangeView)>,
    of: fn(&Cluster) -> BTreeSet<String>,
) -> Vec<String> {
    let sound = of(cluster);
    let (a, _) = journals(cluster);
    let wrong = all.into_iter().filter_map(|(what, change)| {
        let mut cluster = cluster.clone();
        cluster.observed.changes.insert(a.clone(), change);
        let more: Vec<String> = of(&cluster).difference(&sound).cloned().collect();
        (!more.is_empty()).then(|| format!("{what}: {more:?}"))
    });
    wrong.collect()
}

/// Each part of a turn, with the journals of its nodes a and b.
fn parts() -> Vec<(&'static str, Cluster, ChangeView, Option<ChangeView>)> {
    let parts = turns().into_iter().map(|(name, text)| {
        let mut cluster = Cluster::parse(&text);
        cluster.observed.changes.values_mut().for_each(signed);
        let (a, b) = journals(&cluster);
        let of = |key: &Key| cluster.observed.changes[key].clone();
        let (a, b) = (of(&a), b.as_ref().map(of));
        (name, cluster, a, b)
    });
    parts.collect()
}

#[track_caller]
fn none_is_wrong(tried: usize, least: usize, wrong: &[String]) {
    assert!(tried > least, "{tried}");
    assert!(
        wrong.is_empty(),
        "{} of {tried}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn no_field_of_a_journal_that_is_lost_or_another_makes_numo_do_more_to_a_node() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (name, cluster, a, b) in parts() {
        let all = mangled(&a.status, b.as_ref().map(|b| &b.status));
        let all: Vec<_> = all
            .into_iter()
            .map(|(what, status)| (what, ChangeView { status, ..a.clone() }))
            .collect();
        tried += all.len();
        let found = compare(&cluster, all, harms);
        wrong.extend(found.into_iter().map(|words| format!("{name}: {words}")));
    }
    none_is_wrong(tried, 1000, &wrong);
}

#[test]
fn no_step_spec_or_annotation_of_a_journal_that_is_another_lets_a_node_go() {
    let (mut wrong, mut tried) = (Vec::new(), 0);
    for (name, cluster, a, b) in parts() {
        let all = altered(&a, b.as_ref());
        tried += all.len();
        let found = compare(&cluster, all, releases);
        wrong.extend(found.into_iter().map(|words| format!("{name}: {words}")));
    }
    none_is_wrong(tried, 1000, &wrong);
}
