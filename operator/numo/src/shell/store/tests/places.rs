//! Which objects of strangers are kept.

use super::*;
use numo_core::{observed::Unread, referred::Referral};

#[test]
fn runs_of_strangers_take_no_more_than_their_share() {
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    });
    let kind = Kind::MutexRunConfig;
    let put = |store: &mut Store, namespace: &str, number: u64| {
        let run = written(kind, (namespace, &number.to_string()), 3000);
        store.see(Seen::Applied(kind, number + 1, run));
    };
    for number in 0..300 {
        put(&mut store, "flood", number);
        put(&mut store, "numo", number);
    }
    let of = |store: &Store, namespace: &str| {
        let runs = store.observed.runs.keys();
        runs.filter(|key| key.namespace == namespace).count()
    };
    assert!(
        (10..250).contains(&of(&store, "flood")),
        "{}",
        of(&store, "flood")
    );
    assert_eq!(of(&store, "numo"), 300, "who is heeded is never turned away");
    assert_eq!(store.turned_away(), [(kind, "flood")].into());
    put(&mut store, "team", 0);
    assert_eq!(of(&store, "team"), 1);
    // What was turned away left nothing behind, and is asked for again once there is a place.
    let kept = of(&store, "flood");
    assert_eq!(store.versions.len(), kept + 301);
    assert!(store.take_lists().is_empty());
    for number in 0..300 {
        store.see(Seen::Deleted(
            kind,
            Key::new("flood", number.to_string()),
            u64::MAX,
        ));
    }
    assert_eq!(store.take_lists(), [(kind, "flood".to_owned())]);
}

#[test]
fn who_only_looks_turns_nobody_away() {
    let mut store = Store::new(Settings {
        only_looks: true,
        ..Settings::default()
    });
    let kind = Kind::MutexRunConfig;
    for number in 0..300 {
        let run = written(kind, ("flood", &number.to_string()), 3000);
        store.see(Seen::Applied(kind, number + 1, run));
    }
    assert_eq!(store.observed.runs.len(), 300);
    assert!(store.turned_away().is_empty());
}

#[test]
fn an_owner_that_was_heeded_when_it_came_is_kept_until_it_is_gone() {
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        run_namespaces: vec!["ours".to_owned()],
        ..Settings::default()
    });
    let kind = Kind::MutexRunConfig;
    let key = Key::new("ours", "run");
    store.see(Seen::Applied(kind, 1, written(kind, ("ours", "run"), 10)));
    // Whoever administers the namespace takes his word back, and strangers fill it.
    store.observed.settings.run_namespaces.clear();
    for number in 0..300 {
        let run = written(kind, ("ours", &number.to_string()), 3000);
        store.see(Seen::Applied(kind, number + 2, run));
    }
    assert!(!store.turned_away().is_empty());
    store.own_status(kind, 400, written(kind, ("ours", "run"), 20));
    store.see(Seen::Applied(kind, 401, written(kind, ("ours", "run"), 30)));
    assert!(
        store.observed.runs.contains_key(&key),
        "it has to give back what it took"
    );
    // What is read late does not come back.
    store.see(Seen::Deleted(kind, key.clone(), 402));
    store.see(Seen::Applied(kind, 401, written(kind, ("ours", "run"), 30)));
    assert!(!store.observed.runs.contains_key(&key));
}

#[test]
fn an_object_that_can_be_read_no_longer_weighs_as_before() {
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    });
    let kind = Kind::MutexRunConfig;
    let key = Key::new("team", "run");
    store.see(Seen::Applied(kind, 1, written(kind, ("team", "run"), 3000)));
    let weight = store.crowd.weight(kind, &key).unwrap();
    let unread = Unread {
        uid: "team/run".to_owned(),
        words: "too large".to_owned(),
    };
    store.see(Seen::Applied(kind, 2, Object::NotRead(key.clone(), unread)));
    assert!(
        store.observed.runs.contains_key(&key),
        "what was seen of it is kept"
    );
    assert_eq!(store.crowd.weight(kind, &key), Some(weight));
}

#[test]
fn of_many_rules_those_are_kept_that_owners_refer_to() {
    let mut store = Store::new(Settings {
        namespace: "numo".to_owned(),
        ..Settings::default()
    });
    let kind = Kind::MutexRule;
    for number in 0..10_000 {
        let rule = written(kind, ("team", &format!("rule-{number}")), 0);
        store.see(Seen::Applied(kind, number + 1, rule));
    }
    let gate = Key::new("team", "rule-9999");
    assert!(
        store.rules.len() < 9000 && !store.rules.contains_key(&gate),
        "{}",
        store.rules.len()
    );
    assert!(store.take_missed().is_empty(), "nobody needs it");
    store.give_room([(gate.clone(), Referral::Watched)].into());
    assert_eq!(store.take_missed(), [(kind, gate.clone())]);
    assert!(store.take_missed().is_empty(), "it is being read");
    store.see(Seen::Applied(
        kind,
        10_000,
        written(kind, ("team", "rule-9999"), 0),
    ));
    assert!(store.rules.contains_key(&gate));
    assert!(store.take_missed().is_empty());
}
