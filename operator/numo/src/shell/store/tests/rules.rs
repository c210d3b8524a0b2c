//! Rules: their room, and what was found out about them.

use super::*;
use numo_core::referred::Referral;

#[test]
fn a_rule_of_others_is_judged_anew_when_a_plan_comes_home_and_goes() {
    let settings = Settings {
        namespace: "home".to_owned(),
        ..Settings::default()
    };
    let (mut store, number) = (Store::new(settings), std::cell::Cell::new(0));
    let see = |store: &mut Store, kind: Kind, body: serde_json::Value| {
        number.set(number.get() + 1);
        let object = watched::object(kind, &serde_json::from_value(body).unwrap()).unwrap();
        store.see(Seen::Applied(kind, number.get(), object));
    };
    let refused = |store: &Store| {
        matches!(
            &store.observed.rules[&Key::new("team", "check")].validity,
            Validity::Invalid(numo_api::Reason::JobsForbidden, words) if words.contains("which has Plans")
        )
    };
    let metadata = serde_json::json!({
        "name": "home", "uid": "n", "annotations": {(numo_api::marks::RULE_JOBS_FROM): "team"},
    });
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    see(&mut store, Kind::Namespace, namespace);
    let rule = serde_json::json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
        "metadata": {"name": "check", "namespace": "team", "uid": "r", "generation": 1},
        "spec": {"jobName": "check", "jobNamespace": "home", "type": "kubernetes", "jobSpec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}}},
    });
    see(&mut store, Kind::MutexRule, rule);
    assert!(!refused(&store), "it is invited");
    let plan = |namespace: &str| {
        serde_json::json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": {"name": "k3s", "namespace": namespace, "uid": "p", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"upgrade": {"image": "i"}},
        })
    };
    see(&mut store, Kind::Plan, plan("elsewhere"));
    assert!(!refused(&store));
    see(&mut store, Kind::Plan, plan("home"));
    assert!(refused(&store));
    store.see(Seen::Deleted(
        Kind::Plan,
        Key::new("home", "k3s"),
        number.get() + 1,
    ));
    assert!(!refused(&store));
}

#[test]
fn a_rule_with_jobs_in_a_namespace_that_is_not_watched_says_so() {
    let mut store = Store::new(Settings::default());
    let spec = serde_json::json!({"jobSpec": {}, "jobNamespace": "one-too-many"});
    let mut rule = MutexRule::new("backup", serde_json::from_value(spec).unwrap());
    rule.metadata.namespace = Some("numo".to_owned());
    let key = project::key(&rule.metadata);
    store.see(Seen::Applied(Kind::MutexRule, 5, Object::Rule(Box::new(rule))));
    store.leave_unwatched("one-too-many");
    let validity = &store.observed.rules[&key].validity;
    assert!(
        matches!(validity, Validity::Invalid(numo_api::Reason::TooManyNamespaces, words) if words.contains("one-too-many")),
        "{validity:?}"
    );
}

/// Labels, annotations and owner references of a rule may be as large as it, and are not kept.
#[test]
fn nothing_of_a_rule_is_kept_that_is_not_weighed() {
    let labels: BTreeMap<String, String> = (0..1000).map(|at| (format!("l{at}"), String::new())).collect();
    let body = serde_json::json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
        "metadata": {
            "name": "a", "namespace": "team", "uid": "u", "generation": 3,
            "labels": labels, "annotations": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p"}],
        },
        "spec": {},
    });
    let mut store = Store::new(Settings::default());
    store.see(Seen::Applied(Kind::MutexRule, 5, item(Kind::MutexRule, &body)));
    let kept = &store.rules[&Key::new("team", "a")].metadata;
    assert_eq!((kept.generation, kept.uid.as_deref()), (Some(3), Some("u")));
    assert!(kept.labels.is_none() && kept.annotations.is_none() && kept.owner_references.is_none());
    // A rule without anything weighs something: there is an end to the number of those that have room.
    let Object::Rule(rule) = item(Kind::MutexRule, &body) else {
        panic!("a rule");
    };
    assert!(watched::mutex_rule::weight(&rule) >= 2048);
}

/// A Plan in the namespace of numo that names `gate` there, and everything listed but for rules.
fn unlisted() -> (Store, numo_core::Owner) {
    let settings = Settings {
        namespace: "home".to_owned(),
        ..Settings::default()
    };
    let mut store = Store::new(settings);
    store.expect(Kind::MutexRule, "");
    store.see(Seen::Listing(Kind::MutexRule, String::new()));
    let run = serde_json::json!({
        "metadata": {"name": "run", "namespace": "home", "uid": "run", "generation": 1},
        "spec": {"mutexTargets": [], "mutexRules": [{"name": "gate"}, {"name": "none", "namespace": "team"}]},
    });
    store.see(Seen::Applied(
        Kind::MutexRunConfig,
        1,
        item(Kind::MutexRunConfig, &run),
    ));
    let referred = numo_core::referred::rules(&store.observed);
    assert_eq!(referred.len(), 2);
    store.give_room(referred);
    (store, numo_core::Owner::run(Key::new("home", "run")))
}

#[test]
fn rules_that_owners_name_are_read_before_all_are_listed() {
    let (mut store, owner) = unlisted();
    assert!(store.is_complete_but_for_rules() && !store.is_complete());
    assert!(!store.knows_rules_of(&owner));
    let (gate, none) = (Key::new("home", "gate"), Key::new("team", "none"));
    let wanted = [gate.clone(), none.clone()].map(|key| (Kind::MutexRule, key));
    assert_eq!(store.take_missed(), wanted);
    assert!(store.take_missed().is_empty(), "they are being read");
    store.see(Seen::Applied(Kind::MutexRule, 5, heavy("home", "gate", 10, 1)));
    assert!(
        !store.knows_rules_of(&owner),
        "it may be that the other one closes"
    );
    assert!(
        store.see(Seen::Missing(Kind::MutexRule, none.clone())),
        "it is news"
    );
    assert!(store.knows_rules_of(&owner));
    // A stranger's owner waits for the list, whatever it names.
    let stranger = numo_core::Owner::run(Key::new("elsewhere", "run"));
    assert!(!store.knows_rules_of(&stranger));
    store.see(Seen::Listed(Kind::MutexRule, String::new()));
    assert!(store.is_complete() && store.knows_rules_of(&stranger));
    assert!(
        !store.see(Seen::Missing(Kind::MutexRule, none)),
        "the watch knows"
    );
}

#[test]
fn a_rule_that_becomes_referred_to_has_its_room_and_is_read_again() {
    let (mut store, gate) = flooded();
    assert_eq!(refused_for(&store, &gate), Some(numo_api::Reason::NoRoom));
    assert!(
        store
            .unjudged()
            .iter()
            .all(|rule| project::key(&rule.metadata) != gate),
        "an outline is not judged"
    );
    // In outline too it is told in which phases it runs: no node goes on without it.
    assert_eq!(store.observed.rules[&gate].phases, [numo_api::Phase::Post]);
    assert!(store.observed.rules[&gate].runs_in(numo_api::Phase::Post));
    let referred = || [(gate.clone(), Referral::Watched)].into();
    let dealt = store.give_room(referred());
    assert!(dealt.has_moved);
    assert_eq!(dealt.to_read, std::slice::from_ref(&gate));
    assert_eq!(
        store.observed.rules[&gate].validity,
        Validity::Unknown,
        "nobody goes on without it"
    );
    assert!(store.whole_rule(&gate).is_none());
    assert_eq!(
        refused_for(&store, &Key::new("flood-7", "big")),
        Some(numo_api::Reason::NoRoom)
    );
    assert!(store.give_room(referred()).to_read.is_empty(), "it is being read");
    // It comes at the version at which it was seen before.
    let again = heavy("team", "gate", 23_500, 100);
    store.see(Seen::Applied(Kind::MutexRule, 9, again));
    assert!(
        store
            .whole_rule(&gate)
            .is_some_and(|rule| rule.spec.job_spec.is_some())
    );
    assert!(
        store
            .unjudged()
            .iter()
            .any(|rule| project::key(&rule.metadata) == gate)
    );
    // Whoever comes later takes nothing of it.
    store.see(Seen::Applied(
        Kind::MutexRule,
        11,
        heavy("late", "big", 23_500, 200),
    ));
    store.give_room(referred());
    assert!(store.whole_rule(&gate).is_some());
}

#[test]
fn a_status_of_a_rule_without_room_is_no_news() {
    let (mut store, gate) = flooded();
    let words = |store: &Store| store.observed.rules[&gate].validity.clone();
    let before = words(&store);
    store.own_status(Kind::MutexRule, 10, heavy("team", "gate", 23_500, 100));
    assert_eq!((store.take_news(), words(&store)), (Reach::Nobody, before));
    assert!(!store.see(Seen::Applied(
        Kind::MutexRule,
        10,
        heavy("team", "gate", 23_500, 100)
    )));
}

#[test]
fn the_rules_of_numos_own_namespace_have_room_whatever_strangers_wrote() {
    let (mut store, _) = flooded();
    for number in 0..2 {
        let rule = heavy("numo", &format!("own-{number}"), 23_500, 200);
        store.see(Seen::Applied(Kind::MutexRule, 20, rule));
        assert!(
            store
                .whole_rule(&Key::new("numo", format!("own-{number}")))
                .is_some()
        );
    }
    assert!(
        !store.give_room(BTreeMap::new()).has_moved,
        "and they take nobody's"
    );
}

#[test]
fn another_policy_of_signatures_leaves_no_component_judged() {
    let mut store = Store::new(Settings::default());
    let specs = [
        (
            "component",
            serde_json::json!({"type": "wasm", "wasm": {"configMap": {"name": "a", "key": "b"}}}),
        ),
        ("job", serde_json::json!({"jobSpec": {}})),
    ];
    let keys = specs.map(|(name, spec)| {
        let mut rule = MutexRule::new(name, serde_json::from_value(spec).unwrap());
        rule.metadata.namespace = Some("numo".to_owned());
        let (key, edition) = (project::key(&rule.metadata), project::edition(&rule.metadata));
        store.see(Seen::Applied(Kind::MutexRule, 5, Object::Rule(Box::new(rule))));
        store.see(Seen::Judged(key.clone(), edition, Validity::Valid));
        assert_eq!(store.observed.rules[&key].validity, Validity::Valid, "{name}");
        key
    });
    assert!(store.see(Seen::PolicyChanged));
    let [component, job] = keys.map(|key| store.observed.rules[&key].validity.clone());
    assert_eq!((component, job), (Validity::Unknown, Validity::Valid));
    assert_eq!(store.unjudged().len(), 1);
}

fn run_with(rules: &serde_json::Value, suspend: bool) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
        "metadata": {"name": "upgrade", "namespace": "team", "uid": "run", "generation": 1},
        "spec": {"pools": ["worker"], "rules": rules, "suspend": suspend},
    })
}

/// Each is judged like a MutexRule; an edit of the run beside it is no other rule, an edit of it is, and it goes with the run.
#[test]
fn rules_that_stand_in_a_run_are_rules_as_long_as_they_stand_there() {
    let mut store = Store::new(Settings::default());
    let key = Key::new("team", "upgrade_backup");
    let mut number = 1;
    let mut see = |store: &mut Store, body: serde_json::Value| {
        number += 1;
        let kind = Kind::MutexRunConfig;
        store.see(Seen::Applied(kind, number, item(kind, &body)));
    };
    let rules = serde_json::json!([{"name": "backup", "jobSpec": {"a": 1}}, {"name": "disk", "type": "cel", "cel": {"validations": []}}]);
    see(&mut store, run_with(&rules, false));
    let first = store.observed.rules[&key].clone();
    assert_eq!(
        (first.job_name.as_str(), first.job_namespace.as_str()),
        ("upgrade-backup", "team")
    );
    assert!(store.observed.rules[&Key::new("team", "upgrade_disk")].is_evaluated);
    assert_eq!(store.unjudged().len(), 2, "the API server judges them");
    let edition = project::edition(&store.rule(&key).unwrap().metadata);
    assert!(store.judge(&key, edition, Validity::Valid));

    see(&mut store, run_with(&rules, true));
    assert_eq!(store.observed.rules[&key].edition(), first.edition());
    assert_eq!(store.observed.rules[&key].validity, Validity::Valid);

    let other = serde_json::json!([{"name": "backup", "jobSpec": {"a": 2}}]);
    see(&mut store, run_with(&other, true));
    assert_ne!(store.observed.rules[&key].edition(), first.edition());
    assert_eq!(
        store.observed.rules[&key].validity,
        Validity::Unknown,
        "what was judged is another rule"
    );
    assert!(
        !store
            .observed
            .rules
            .contains_key(&Key::new("team", "upgrade_disk"))
    );
    assert!(
        store.missed_rules().next().is_none(),
        "no MutexRule is read for it"
    );

    store.see(Seen::Deleted(
        Kind::MutexRunConfig,
        Key::new("team", "upgrade"),
        u64::MAX,
    ));
    assert!(store.observed.rules.is_empty() && store.rules.is_empty());
}
