//! What is newer, and whom it concerns.

use super::*;
use numo_core::MaintenanceGroup;

#[test]
fn an_older_event_does_not_undo_our_own_write() {
    let mut store = Store::new(Settings::default());
    assert!(store.see(Seen::Applied(Kind::MachineConfig, 5, config("a"))));
    store.own(Kind::MachineConfig, 7, config("b"));
    assert!(!store.see(Seen::Applied(Kind::MachineConfig, 6, config("a"))));
    assert_eq!(version_of(&store).as_deref(), Some("b"));
    assert!(!store.see(Seen::Applied(Kind::MachineConfig, 7, config("b"))));
}

/// A person's edit and a status write of ours in the same moment: the watch brings nothing newer than the
/// answer, so the answer must tell.
#[test]
fn an_edit_that_comes_with_the_answer_to_a_status_write_is_news() {
    let mut store = Store::new(Settings::default());
    let run = |suspend, pass: i64| {
        let mut run = numo_api::MutexRunConfig::new("a", numo_api::MutexRunConfigSpec::default());
        run.spec.suspend = suspend;
        run.status = Some(numo_api::MutexRunConfigStatus {
            observed_generation: Some(pass),
            ..numo_api::MutexRunConfigStatus::default()
        });
        Object::Run(Box::new(watched::mutex_run_config::view(run)))
    };
    let kind = Kind::MutexRunConfig;
    assert_eq!(
        store.take_in(Seen::Applied(kind, 5, run(Some(true), 0))),
        Reach::Everyone
    );
    store.own_status(kind, 6, run(Some(true), 1));
    assert_eq!(store.take_news(), Reach::Nobody, "our own status");
    store.own_status(kind, 8, run(None, 2));
    assert_eq!(store.take_in(Seen::Applied(kind, 7, run(None, 1))), Reach::Nobody);
    assert_eq!(store.take_news(), Reach::Everyone, "somebody's edit");
    assert_eq!(store.take_news(), Reach::Nobody, "said once");
}

/// A numo that is rolled back in mid-run does not know every step, phase and result that a later one wrote.
#[test]
fn an_object_of_ours_that_cannot_be_read_is_not_gone() {
    let change = |step: &str| {
        serde_json::json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "NodeChange",
            "metadata": {"name": "a", "namespace": "numo", "uid": "u"},
            "spec": {
                "ownerRef": {"apiVersion": "v1", "kind": "Plan", "name": "p", "uid": "o"},
                "nodeName": "a", "nodeUID": "n", "target": {"version": "1", "runID": "r", "pool": ""},
            },
            "status": {"step": step},
        })
    };
    let settings = || Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    };
    let (kind, key) = (Kind::NodeChange, Key::new("numo", "a"));
    let all = [
        numo_core::OwnerKind::MutexRunConfig,
        numo_core::OwnerKind::Plan,
        numo_core::OwnerKind::NodeMaintenance(MaintenanceGroup::Medik8s),
    ];
    let stops = |store: &Store| {
        let why = all.map(|owner| store.observed.list_failed(owner).map(|why| why.reason));
        why.iter()
            .all(|reason| *reason == Some(numo_api::Reason::ListFailed))
    };
    let list = |store: &mut Store, number, step| {
        store.see(Seen::Listing(kind, String::new()));
        store.see(Seen::Applied(kind, number, item(kind, &change(step))));
        store.see(Seen::Listed(kind, String::new()));
    };
    let mut store = Store::new(settings());
    list(&mut store, 5, "Released");
    assert!(store.observed.changes.contains_key(&key) && !stops(&store));
    list(&mut store, 6, "Levitated");
    assert!(store.observed.changes.contains_key(&key), "what was seen is kept");
    assert!(stops(&store), "nothing begins");
    list(&mut store, 7, "Done");
    assert!(!stops(&store) && store.observed.unread.is_empty());
    // Nor what a journal of a later format means.
    let mut later = change("Released");
    later["status"]["journalVersion"] = serde_json::json!(2);
    store.see(Seen::Applied(kind, 8, item(kind, &later)));
    assert!(stops(&store), "nothing begins");
    let words = store
        .observed
        .list_failed(all[0])
        .map(|why| why.message.to_string());
    assert!(words.is_some_and(|words| words.contains("journalVersion: found 2")));
    later["status"]["journalVersion"] = serde_json::json!(1);
    store.see(Seen::Applied(kind, 9, item(kind, &later)));
    assert!(!stops(&store));
    // After a restart nothing is known of it but what can be read: its node keeps its turn.
    let mut store = Store::new(settings());
    list(&mut store, 6, "Levitated");
    assert!(stops(&store), "nothing begins");
    let seen = &store.observed.changes[&key];
    assert!(seen.in_flight() && seen.spec.node_name == "a" && seen.spec.owner_ref.uid == "o");
    assert!(
        seen.misread
            .as_ref()
            .is_some_and(|words| words.contains("Levitated"))
    );
    store.see(Seen::Deleted(kind, key.clone(), 8));
    assert!(!stops(&store) && store.observed.changes.is_empty());
    // One of a later format, too, by the steps that are known: an unknown one hides none of them, nor does an unknown word of a person.
    later["status"] = serde_json::json!({"journalVersion": 2, "step": "Changed", "entries": [
        {"at": "2026-01-01T00:00:00Z", "step": "Released", "attempt": 1},
        {"at": "2026-01-01T00:01:00Z", "step": "Levitated", "attempt": 1},
    ]});
    later["spec"]["directive"] = serde_json::json!({"action": "Levitate"});
    store.see(Seen::Applied(kind, 9, item(kind, &later)));
    assert!(stops(&store), "nothing begins");
    let seen = &store.observed.changes[&key];
    assert!(seen.in_flight() && seen.spec.directive.is_none());
    let released = numo_core::turn::journal::entered(seen, numo_api::Step::Released);
    assert!(released.is_some() && seen.status.journal_version == 2);
    // Whose turn it is, nobody can tell.
    let mut store = Store::new(settings());
    later["spec"]["ownerRef"] = serde_json::json!("p");
    store.see(Seen::Applied(kind, 9, item(kind, &later)));
    assert!(stops(&store) && store.observed.changes.is_empty());
}

#[test]
fn no_stranger_stops_an_owner_by_an_object_that_nobody_can_read() {
    let run = |namespace: &str| {
        let body = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "a", "namespace": namespace, "uid": namespace},
            "spec": {"mutexTargets": "all"},
        });
        item(Kind::MutexRunConfig, &body)
    };
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    });
    let kind = numo_core::OwnerKind::MutexRunConfig;
    store.see(Seen::Applied(Kind::MutexRunConfig, 5, run("team")));
    assert_eq!(store.observed.list_failed(kind), None);
    store.see(Seen::Applied(Kind::MutexRunConfig, 6, run("numo")));
    let words = store
        .observed
        .list_failed(kind)
        .map(|why| why.message.to_string());
    assert!(words.is_some_and(|words| words.contains("mutexrunconfigs numo/a")));
    // Another kind of owner is not stopped by it, and its pools are nobody's to take.
    assert_eq!(store.observed.list_failed(numo_core::OwnerKind::Plan), None);
    assert_eq!(store.observed.unread_run("numo"), Some(&Key::new("numo", "a")));
}

#[test]
fn what_belongs_to_a_turn_reaches_those_that_have_something_under_way() {
    let mut store = Store::new(Settings::default());
    let change = |step: Option<numo_api::Step>, directive| {
        let mut change = numo_api::NodeChange::new("a", numo_api::NodeChangeSpec::default());
        change.spec.directive = directive;
        change.status = Some(numo_api::NodeChangeStatus {
            step,
            ..numo_api::NodeChangeStatus::default()
        });
        Object::Change(Box::new(watched::node_change::view(change)))
    };
    let mut number = 0;
    let mut see = |object| {
        number += 1;
        store.take_in(Seen::Applied(Kind::NodeChange, number, object))
    };
    assert_eq!(see(change(None, None)), Reach::Everyone, "a new one");
    let begun = Some(numo_api::Step::PreRules);
    assert_eq!(see(change(begun, None)), Reach::Busy, "its journal");
    assert_eq!(see(change(begun, None)), Reach::Nobody, "nothing new");
    let directive = numo_api::Directive {
        action: numo_api::DirectiveAction::Retry,
        reason: None,
        by: None,
    };
    assert_eq!(
        see(change(begun, Some(directive))),
        Reach::Everyone,
        "a person's word"
    );
}

#[test]
fn an_equal_object_is_no_news() {
    let mut store = Store::new(Settings::default());
    assert!(store.see(Seen::Applied(Kind::MachineConfig, 5, config("a"))));
    assert!(!store.see(Seen::Applied(Kind::MachineConfig, 6, config("a"))));
}
