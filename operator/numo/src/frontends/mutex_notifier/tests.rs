use super::*;
use crate::frontends::notification::Notification;
use numo_api::Transition;
use numo_core::{MaintenanceGroup, observed::Key};
use serde_json::{Value, json};

#[allow(clippy::needless_pass_by_value, reason = "a table of literals")]
fn read(spec: Value, status: Value) -> NotifierView {
    let notifier = json!({"apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier",
        "metadata": {"name": "team", "generation": 2, "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": spec, "status": status});
    view(serde_json::from_value(notifier).unwrap())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn occurrence(transition: Transition, time: Option<&str>) -> Occurrence {
    Occurrence {
        id: format!("{}-{}", transition.name(), time.unwrap_or_default()),
        transition,
        at: time.map(at),
        node: None,
        reason: "Progressing".to_owned(),
        message: "m".to_owned(),
    }
}

#[test]
fn a_spec_has_one_sink_and_a_place_for_it() {
    let secret = json!({"name": "chat"});
    for (spec, wanted) in [
        (
            json!({"cloudEvents": {"url": "https://a.example"}}),
            Ok(SinkKind::CloudEvents),
        ),
        (json!({"slack": {}, "secretRef": secret}), Ok(SinkKind::Slack)),
        (
            json!({"alertmanager": {}, "secretRef": secret}),
            Ok(SinkKind::Alertmanager),
        ),
        (json!({}), Err("spec: found no sink")),
        (
            json!({"slack": {}, "cloudEvents": {"url": "https://a.example"}}),
            Err("spec: found no sink, or several"),
        ),
        (json!({"slack": {}}), Err("spec.secretRef: found none")),
        (json!({"alertmanager": {}}), Err("spec.secretRef: found none")),
        (
            json!({"cloudEvents": {"url": "https://a.example"}, "template": "{who}"}),
            Err("spec.template: found {who}"),
        ),
        (
            json!({"slack": {}, "secretRef": secret, "ownerKinds": ["NodeMaintenance"], "namespaces": ["ops"]}),
            Err("spec.namespaces: found some beside ownerKinds"),
        ),
        (
            json!({"slack": {}, "secretRef": secret, "namespaces": ["A B"]}),
            Err("spec.namespaces: found \"A B\""),
        ),
        (
            json!({"slack": {}, "secretRef": secret, "ownerKinds": ["NodeMaintenance", "Plan"], "namespaces": ["ops"]}),
            Ok(SinkKind::Slack),
        ),
    ] {
        let found = read(spec.clone(), json!({})).understood();
        match (found, wanted) {
            (Ok(found), Ok(sink)) => assert_eq!(found.sink, sink, "{spec}"),
            (Err(said), Err(words)) => assert!(said.starts_with(words), "{spec}: {said}"),
            (found, _) => panic!("{spec}: {found:?}"),
        }
    }
}

#[test]
fn a_filter_lets_through_what_it_names() {
    let run = Owner::run(Key::new("ops", "upgrade"));
    let plan = Owner::plan(Key::new("upgrades", "os"));
    let maintenance = Owner::maintenance(MaintenanceGroup::KubeVirt, "fan");
    let sink = json!({"url": "https://a.example"});
    for (filter, owner, transition, wanted) in [
        (json!({}), &run, Transition::Held, true),
        (json!({}), &maintenance, Transition::Finished, true),
        (json!({"ownerKinds": ["Plan"]}), &run, Transition::Held, false),
        (
            json!({"ownerKinds": ["Plan", "NodeMaintenance"]}),
            &maintenance,
            Transition::Held,
            true,
        ),
        (json!({"namespaces": ["upgrades"]}), &plan, Transition::Held, true),
        (json!({"namespaces": ["upgrades"]}), &run, Transition::Held, false),
        (
            json!({"namespaces": ["upgrades"]}),
            &maintenance,
            Transition::Held,
            false,
        ),
        (
            json!({"transitions": ["Held", "Stalled"]}),
            &plan,
            Transition::Stalled,
            true,
        ),
        (
            json!({"transitions": ["Held", "Stalled"]}),
            &plan,
            Transition::RunBegan,
            false,
        ),
    ] {
        let mut spec = filter.clone();
        spec["cloudEvents"] = sink.clone();
        let found = read(spec, json!({})).tells(owner, &occurrence(transition, None));
        assert_eq!(found, wanted, "{filter} {owner} {transition:?}");
    }
}

#[test]
fn a_new_notifier_tells_what_goes_on_and_nothing_that_was_over_before_it() {
    let new = read(json!({}), json!({}));
    for (transition, time, wanted) in [
        (Transition::Finished, Some("2027-01-15T07:59:59Z"), false),
        (Transition::RunBegan, Some("2026-01-01T00:00:00Z"), false),
        (Transition::Failed, Some("2027-01-15T08:00:00Z"), true),
        (Transition::Finished, Some("2027-01-15T08:00:01Z"), true),
        (Transition::Held, Some("2026-01-01T00:00:00Z"), true),
        (Transition::Stalled, Some("2026-01-01T00:00:00Z"), true),
        (Transition::WaitsForApproval, None, true),
    ] {
        assert_eq!(
            new.is_news(&occurrence(transition, time)),
            wanted,
            "{transition:?} {time:?}"
        );
    }
}

#[test]
fn after_a_restart_nothing_is_lost_and_what_was_told_is_not_told_again() {
    let told = occurrence(Transition::Finished, Some("2027-01-16T12:00:00Z"));
    let held = occurrence(Transition::Held, Some("2027-01-15T09:00:00Z"));
    let status = json!({"dealtWithUntil": "2027-01-16T12:00:00Z", "recent": [told.id, held.id]});
    let again = read(json!({}), status);
    assert!(!again.is_news(&told));
    assert!(!again.is_news(&held), "it goes on, and was told");
    for (transition, time, wanted) in [
        // In the same second.
        (Transition::RunBegan, "2027-01-16T12:00:00Z", true),
        // Written a moment before.
        (Transition::RunBegan, "2027-01-16T11:59:30Z", true),
        (Transition::RunBegan, "2027-01-16T11:00:00Z", false),
        (Transition::Failed, "2027-01-17T00:00:00Z", true),
        (Transition::Held, "2027-01-16T11:00:00Z", true),
    ] {
        let found = again.is_news(&occurrence(transition, Some(time)));
        assert_eq!(found, wanted, "{transition:?} {time}");
    }
    let odd = read(json!({}), json!({"dealtWithUntil": "soon"}));
    assert_eq!(odd.baseline(), at("2027-01-15T08:00:00Z"));
}

#[test]
fn a_tally_keeps_what_goes_on_and_is_bounded() {
    let notification = |id: &str, time: &str| Notification {
        occurrence: Occurrence {
            id: id.to_owned(),
            ..occurrence(Transition::Held, Some(time))
        },
        owner: Owner::plan(Key::new("n", "p")),
        uid: String::new(),
        target: None,
        explanation: Value::Null,
        at: at(time),
    };
    let mut tally = Tally::default();
    let current = BTreeSet::from(["goes-on".to_owned()]);
    tally.deal(&notification("goes-on", "2027-01-15T08:00:00Z"), &current);
    for number in 0..2 * RECENT {
        tally.deal(
            &notification(&number.to_string(), "2027-01-15T09:00:00Z"),
            &current,
        );
    }
    tally.deal(&notification("late", "2027-01-15T08:30:00Z"), &current);
    assert_eq!(tally.recent.len(), RECENT);
    assert_eq!(tally.recent.first().map(String::as_str), Some("goes-on"));
    assert_eq!(tally.recent.last().map(String::as_str), Some("late"));
    assert_eq!(
        tally.until,
        Some(at("2027-01-15T09:00:00Z")),
        "it does not go back"
    );

    let view = read(json!({"slack": {}, "secretRef": {"name": "chat"}}), json!({}));
    let verdict = Verdict {
        ready: true,
        reason: Reason::ValidConfig,
        message: "m".to_owned(),
    };
    let written = status(&view, &verdict, &tally, Some(3), at("2027-01-15T10:00:00Z"));
    assert_eq!(Tally::of(&written), tally, "the next process counts on");
    assert_eq!(written.sink.as_deref(), Some("Slack"));
    assert_eq!(
        (written.observed_generation, written.silences),
        (Some(2), Some(3))
    );
}
