//! Lists that are complete, that fail, and of kinds that may not be seen.

use super::*;
use std::time::Duration;

#[test]
fn an_invitation_that_comes_later_is_news() {
    let mut store = Store::new(Settings::default());
    let scope = || "team".to_owned();
    store.expect(Kind::PlanJob, "team");
    assert!(store.see(Seen::Unseen(Kind::PlanJob, scope(), "forbidden".to_owned())));
    assert!(
        store.see(Seen::Listed(Kind::PlanJob, scope())),
        "nobody waits for it"
    );
    assert!(store.observed.unseen_plan_jobs.contains_key("team"));
    assert!(!store.see(Seen::Listing(Kind::PlanJob, scope())));
    assert!(
        store.see(Seen::Listed(Kind::PlanJob, scope())),
        "it is seen at last"
    );
    assert!(store.observed.unseen_plan_jobs.is_empty());
}

#[test]
fn a_list_forgets_what_it_does_not_mention_but_for_our_own_writes() {
    let mut store = Store::new(Settings::default());
    store.expect(Kind::MachineConfig, "");
    store.see(Seen::Applied(Kind::MachineConfig, 5, config("a")));
    store.see(Seen::Listing(Kind::MachineConfig, String::new()));
    assert!(!store.is_complete());
    store.see(Seen::Listed(Kind::MachineConfig, String::new()));
    assert!(store.is_complete());
    assert_eq!(version_of(&store), None);
    store.own(Kind::MachineConfig, 9, config("b"));
    store.see(Seen::Listing(Kind::MachineConfig, String::new()));
    store.see(Seen::Listed(Kind::MachineConfig, String::new()));
    assert_eq!(version_of(&store).as_deref(), Some("b"));
    // That list may have been asked for before the write. The next one was not.
    store.see(Seen::Listing(Kind::MachineConfig, String::new()));
    assert!(store.see(Seen::Listed(Kind::MachineConfig, String::new())));
    assert_eq!(version_of(&store), None);
}

/// Somebody deletes it while the watch is broken: no event ever tells, and what was asked for long after the write knows.
#[test]
fn what_numo_wrote_long_before_a_list_is_gone_if_that_does_not_mention_it() {
    let mut store = Store::default();
    let kind = Kind::MachineConfig;
    store.own(kind, 9, config("b"));
    for version in store.versions.values_mut() {
        version.own = version.own.and_then(|at| at.checked_sub(Duration::from_mins(2)));
    }
    store.see(Seen::Listing(kind, String::new()));
    store.see(Seen::Listed(kind, String::new()));
    assert_eq!(version_of(&store), None);
}

#[test]
fn what_the_api_server_does_not_find_is_forgotten_where_only_our_write_told_of_it() {
    let mut store = Store::default();
    let (kind, key) = (Kind::MachineConfig, Key::new("", "rendered"));
    store.see(Seen::Applied(kind, 5, config("a")));
    store.own_is_gone(kind, &key);
    assert_eq!(version_of(&store).as_deref(), Some("a"), "the watch tells");
    store.own(kind, 9, config("b"));
    store.take_news();
    store.own_is_gone(kind, &key);
    assert_eq!(version_of(&store), None);
    assert_eq!(store.take_news(), Reach::Everyone);
}

/// Pods of etcd, of rules and of nodes that are drained are all pods: a list of one says nothing of the others.
#[test]
fn a_list_that_fails_is_not_made_good_by_one_of_another_kind_or_place() {
    let mut store = Store::default();
    let fails = |store: &mut Store, kind: Kind, scope: &str| {
        store.see(Seen::ListFailed(
            kind,
            scope.to_owned(),
            format!("{scope} is forbidden"),
        ));
    };
    let lists = |store: &mut Store, kind: Kind, scope: &str| {
        store.see(Seen::Listing(kind, scope.to_owned()));
        store.see(Seen::Listed(kind, scope.to_owned()));
    };
    let words = |store: &Store, name: &str| store.observed.unlisted.get(name).cloned();
    let etcd = numo_core::observed::ETCD_PODS;
    fails(&mut store, Kind::EtcdPod, "kube-system");
    lists(&mut store, Kind::Pod, "team");
    lists(&mut store, Kind::EtcdPod, "openshift-etcd");
    assert_eq!(words(&store, etcd).as_deref(), Some("kube-system is forbidden"));
    fails(&mut store, Kind::EtcdPod, "openshift-etcd");
    lists(&mut store, Kind::EtcdPod, "openshift-etcd");
    assert_eq!(words(&store, etcd).as_deref(), Some("kube-system is forbidden"));
    lists(&mut store, Kind::EtcdPod, "kube-system");
    assert_eq!(words(&store, etcd), None);
    // The pods of one node that is drained, until nobody drains it any more.
    store.keep_pods("a");
    fails(&mut store, Kind::NodePod, "a");
    lists(&mut store, Kind::NodePod, "b");
    assert_eq!(words(&store, "pods").as_deref(), Some("a is forbidden"));
    store.forget_pods("a");
    assert_eq!(words(&store, "pods"), None);
}

#[test]
fn a_list_that_fails_is_not_an_empty_list() {
    let mut store = Store::new(Settings::default());
    let kind = Kind::MachineConfig;
    store.expect(kind, "");
    store.see(Seen::Listing(kind, String::new()));
    store.see(Seen::Applied(kind, 5, config("a")));
    store.see(Seen::Listed(kind, String::new()));
    // It lists anew, and that breaks off.
    store.see(Seen::Listing(kind, String::new()));
    let words = "machineconfigs is forbidden (403)".to_owned();
    assert!(store.see(Seen::ListFailed(kind, String::new(), words)));
    assert_eq!(version_of(&store).as_deref(), Some("a"), "what was seen is kept");
    let run = numo_core::OwnerKind::MutexRunConfig;
    let why = store.observed.list_failed(run).map(|why| why.reason);
    assert_eq!(why, Some(numo_api::Reason::ListFailed));
    assert_eq!(
        store.observed.list_failed(numo_core::OwnerKind::Plan),
        None,
        "a Plan needs none"
    );
    // A list that works says who is gone.
    store.see(Seen::Listing(kind, String::new()));
    assert!(store.see(Seen::Listed(kind, String::new())));
    assert_eq!(
        (version_of(&store), store.observed.list_failed(run)),
        (None, None)
    );
}

#[test]
fn a_kind_that_was_never_served_is_known_to_be_unknown() {
    let mut store = Store::new(Settings::default());
    let kind = Kind::MachineConfigPool;
    store.expect(kind, "");
    store.see(Seen::Listing(kind, String::new()));
    assert!(store.see(Seen::Absent(kind, "404 page not found".to_owned())));
    store.see(Seen::Listed(kind, String::new()));
    assert!(store.is_complete(), "nobody waits where there is no OpenShift");
    assert!(
        store
            .observed
            .never_listed(numo_core::OwnerKind::MutexRunConfig)
            .is_some()
    );
    // It is listed anew, and that works.
    store.see(Seen::Listing(kind, String::new()));
    assert!(store.see(Seen::Listed(kind, String::new())));
    assert_eq!(
        store.observed.never_listed(numo_core::OwnerKind::MutexRunConfig),
        None
    );
}

/// That another operator's kind was never served is known, and keeps no run from going on. KubeVirt's kind of the same plural is another one.
#[test]
fn a_kind_of_another_operator_that_was_never_served_is_known() {
    let mut store = Store::new(Settings::default());
    let words = || "404 page not found".to_owned();
    for kind in [Kind::NodeMaintenance, Kind::KubeVirtMaintenance] {
        store.expect(kind, "");
        store.see(Seen::Listing(kind, String::new()));
        assert!(store.see(Seen::Absent(kind, words())));
        store.see(Seen::Listed(kind, String::new()));
    }
    assert!(store.is_complete(), "nobody waits for it");
    assert_eq!(
        store.observed.never_listed(numo_core::OwnerKind::MutexRunConfig),
        None
    );
    let is_absent = |store: &Store| store.observed.absent.contains_key("nodemaintenances");
    assert!(is_absent(&store));
    for (kind, is_still) in [(Kind::KubeVirtMaintenance, true), (Kind::NodeMaintenance, false)] {
        store.see(Seen::Listing(kind, String::new()));
        assert!(store.see(Seen::Listed(kind, String::new())));
        assert_eq!(is_absent(&store), is_still, "{kind:?}");
    }
    assert!(store.see(Seen::ListFailed(
        Kind::KubeVirtMaintenance,
        String::new(),
        words()
    )));
    assert!(!store.observed.unlisted.contains_key("nodemaintenances"));
}

/// Each cluster autoscaler is watched by itself: the list of one says nothing of another.
#[test]
fn a_list_of_one_object_forgets_that_one_alone() {
    let mut store = Store::new(Settings::default());
    let deployment = |name: &str| {
        let found: kube::core::DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": "kube-system", "uid": name},
            "spec": {"replicas": 1},
        }))
        .unwrap();
        crate::shell::watched::object(Kind::Autoscaler, &found).unwrap()
    };
    for name in ["one", "other"] {
        let scope = format!("kube-system/{name}");
        store.expect(Kind::Autoscaler, &scope);
        store.see(Seen::Listing(Kind::Autoscaler, scope.clone()));
        store.see(Seen::Applied(Kind::Autoscaler, 5, deployment(name)));
        store.see(Seen::Listed(Kind::Autoscaler, scope));
    }
    assert!(store.is_complete());
    let names = |store: &Store| {
        let all = store.observed.fleet.autoscalers.keys();
        all.map(|key| key.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&store), ["one", "other"]);
    store.see(Seen::Listing(Kind::Autoscaler, "kube-system/one".to_owned()));
    store.see(Seen::Listed(Kind::Autoscaler, "kube-system/one".to_owned()));
    assert_eq!(names(&store), ["other"]);
}

/// The namespace whose list keeps failing is named by the rules that run Jobs there; others go on.
#[test]
fn a_namespace_of_jobs_that_cannot_be_listed_keeps_its_own_rules_alone() {
    let mut store = Store::new(Settings::default());
    for namespace in ["broken", "sound"] {
        for kind in [Kind::Job, Kind::Pod, Kind::JobEvent] {
            store.expect(kind, namespace);
        }
        let rule = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule",
            "metadata": {"name": "one", "namespace": namespace, "uid": namespace, "generation": 1},
            "spec": {"jobName": "one", "type": "kubernetes", "jobSpec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}}},
        });
        store.see(Seen::Applied(Kind::MutexRule, 1, item(Kind::MutexRule, &rule)));
    }
    for kind in [Kind::Job, Kind::Pod, Kind::JobEvent] {
        store.see(Seen::Listed(kind, "sound".to_owned()));
    }
    let words = || "etcdserver: request timed out".to_owned();
    assert!(store.see(Seen::ListFailed(Kind::Job, "broken".to_owned(), words())));
    let key = |namespace: &str| Key::new(namespace, "one");
    let unseen = |store: &Store, namespace: &str| store.observed.rules[&key(namespace)].unseen.clone();
    let said = unseen(&store, "broken").unwrap();
    assert!(
        said.starts_with("jobs of namespace broken cannot be listed: etcdserver"),
        "{said}"
    );
    assert_eq!(unseen(&store, "sound"), None);
    let is_known = |store: &Store, namespace: &str| store.has_listed_jobs_of(&key(namespace), namespace);
    assert_eq!(
        (is_known(&store, "broken"), is_known(&store, "sound")),
        (false, true)
    );
    // It is no news however often it fails, and with whatever words.
    for again in [words(), "10.0.0.1:41532: connection refused".to_owned()] {
        assert!(!store.see(Seen::ListFailed(Kind::Job, "broken".to_owned(), again)));
    }
    // Without Events of a Job its rule goes on.
    for kind in [Kind::JobEvent, Kind::Pod] {
        assert!(!store.see(Seen::ListFailed(kind, "sound".to_owned(), words())));
    }
    assert_eq!(unseen(&store, "sound"), None);
    // A rule that was edited may have a Job there.
    let earlier = |places: &[&str]| {
        let places = places.iter().map(|one| (*one).to_owned()).collect();
        BTreeMap::from([(key("sound"), places)])
    };
    store.await_jobs_of(earlier(&["broken"]));
    assert!(unseen(&store, "sound").is_some() && !is_known(&store, "sound"));
    store.await_jobs_of(earlier(&[]));
    assert_eq!((unseen(&store, "sound"), is_known(&store, "sound")), (None, true));
    assert!(store.see(Seen::Listed(Kind::Job, "broken".to_owned())));
    assert_eq!(unseen(&store, "broken"), None);
    assert!(store.observed.unlisted.is_empty(), "no other owner waits for it");
}
