//! Jobs, their pods and their Events.

use super::*;

#[test]
fn a_job_of_a_plan_is_untouched_until_a_kubelet_may_have_taken_up_a_pod_of_it() {
    let (mut store, number) = (Store::default(), std::cell::Cell::new(0));
    let see = |store: &mut Store, kind: Kind, body: serde_json::Value| {
        number.set(number.get() + 1);
        let object = watched::object(kind, &serde_json::from_value(body).unwrap()).unwrap();
        store.see(Seen::Applied(kind, number.get(), object));
    };
    let job = |status: serde_json::Value| {
        serde_json::json!({
            "apiVersion": "batch/v1", "kind": "Job", "status": status,
            "metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": {
                numo_api::marks::PLAN: "p", numo_api::marks::PLAN_NODE: "a",
            }},
        })
    };
    let pod = |name: &str, status: serde_json::Value| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "status": status,
            "metadata": {"name": name, "namespace": "ns", "labels": {"batch.kubernetes.io/job-name": "j"}},
        })
    };
    let untouched = |store: &Store| store.observed.plan_jobs[&Key::new("ns", "j")].untouched;
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    see(&mut store, Kind::PlanJob, job(json("{}")));
    assert!(untouched(&store), "it has no pod");
    see(&mut store, Kind::PlanJob, job(json(r#"{"active": 1}"#)));
    assert!(!untouched(&store), "its pod is not seen");
    see(
        &mut store,
        Kind::PlanPod,
        pod("one", json(r#"{"phase": "Pending"}"#)),
    );
    assert!(untouched(&store), "no kubelet has taken it up");
    see(
        &mut store,
        Kind::PlanJob,
        job(json(r#"{"active": 1, "terminating": 1}"#)),
    );
    assert!(!untouched(&store), "another pod of it is not seen");
    for status in [
        r#"{"failed": 1}"#,
        r#"{"uncountedTerminatedPods": {"failed": ["x"]}}"#,
    ] {
        see(&mut store, Kind::PlanJob, job(json(status)));
        assert!(!untouched(&store), "a pod of it has ended");
    }
    see(&mut store, Kind::PlanJob, job(json(r#"{"active": 1}"#)));
    assert!(untouched(&store));
    let taken = json(r#"{"phase": "Pending", "startTime": "2030-01-01T00:00:00Z"}"#);
    see(&mut store, Kind::PlanPod, pod("one", taken));
    assert!(!untouched(&store), "a kubelet has taken it up");
}

/// No event tells of a Job that a queue keeps suspended, and it has no pod to look at.
#[test]
fn a_suspended_job_says_so_until_it_begins() {
    let mut store = Store::default();
    let job = |suspended: bool, labels: serde_json::Value| {
        serde_json::json!({
            "metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": labels},
            "spec": {"suspend": suspended},
        })
    };
    let of_plan = serde_json::json!({numo_api::marks::PLAN: "p", numo_api::marks::PLAN_NODE: "a"});
    for (number, suspended) in [(1, true), (2, false)] {
        let of_rule = job(suspended, serde_json::json!({numo_api::marks::JOB_RUN: "r"}));
        store.see(Seen::Applied(Kind::Job, number, item(Kind::Job, &of_rule)));
        let of_plan = job(suspended, of_plan.clone());
        store.see(Seen::Applied(
            Kind::PlanJob,
            number,
            item(Kind::PlanJob, &of_plan),
        ));
        let key = Key::new("ns", "j");
        let rules = store.observed.jobs[&key].trouble.as_ref();
        let plans = store.observed.plan_jobs[&key].trouble.as_ref();
        for trouble in [rules, plans] {
            assert_eq!(
                trouble.map(|(reason, _)| reason.as_str()),
                suspended.then_some("Suspended")
            );
        }
    }
}

/// A Job that somebody deletes goes at once, and its pod in its own time: another one beside it would do the work of the rule twice at once.
#[test]
fn a_rules_job_that_was_deleted_is_there_until_its_pods_have_ended() {
    let (mut store, number) = (Store::default(), std::cell::Cell::new(0));
    let next = || {
        number.set(number.get() + 1);
        number.get()
    };
    let key = Key::new("ns", "j");
    let deleting = |store: &Store| store.observed.jobs.get(&key).map(|job| job.deleting.is_some());
    let labels = serde_json::json!({numo_api::marks::JOB_RUN: "r", "batch.kubernetes.io/job-name": "j"});
    let job = serde_json::json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": labels}});
    let pod = |phase: &str| {
        serde_json::json!({
            "metadata": {"name": "j-1", "namespace": "ns", "labels": labels}, "status": {"phase": phase},
        })
    };
    store.see(Seen::Applied(Kind::Job, next(), item(Kind::Job, &job)));
    store.see(Seen::Applied(Kind::Pod, next(), item(Kind::Pod, &pod("Running"))));
    assert_eq!(deleting(&store), Some(false));
    assert!(store.see(Seen::Deleted(Kind::Job, key.clone(), next())));
    assert_eq!(deleting(&store), Some(true), "its pod still runs");
    assert!(store.see(Seen::Deleted(Kind::Pod, Key::new("ns", "j-1"), next())));
    assert_eq!(deleting(&store), None);
    // The next numo sees the pod alone; one that has ended may stay for ever.
    store.see(Seen::Applied(Kind::Pod, next(), item(Kind::Pod, &pod("Running"))));
    assert_eq!(deleting(&store), Some(true));
    store.see(Seen::Applied(
        Kind::Pod,
        next(),
        item(Kind::Pod, &pod("Succeeded")),
    ));
    assert_eq!(deleting(&store), None);
}

/// A rule may have run for long when its Job is deleted: the pod's age says nothing of how long that is gone.
#[test]
fn a_job_that_is_gone_is_so_since_it_was_seen_to_be_until_its_pod_is_deleted_too() {
    let (mut store, began) = (Store::default(), jiff::Timestamp::now());
    let labels = serde_json::json!({numo_api::marks::JOB_RUN: "r", "batch.kubernetes.io/job-name": "j"});
    let job = serde_json::json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": labels}});
    let mut pod = serde_json::json!({
        "metadata": {"name": "j-1", "namespace": "ns", "labels": labels, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "status": {"phase": "Running"},
    });
    let key = Key::new("ns", "j");
    let since = |store: &Store| store.observed.jobs.get(&key).and_then(|job| job.deleting);
    store.see(Seen::Applied(Kind::Job, 1, item(Kind::Job, &job)));
    store.see(Seen::Applied(Kind::Pod, 2, item(Kind::Pod, &pod)));
    assert_eq!(since(&store), None);
    store.see(Seen::Deleted(Kind::Job, key.clone(), 3));
    let gone = since(&store);
    assert!(gone.is_some_and(|at| at >= began), "{gone:?}");
    store.see(Seen::Applied(Kind::Pod, 4, item(Kind::Pod, &pod)));
    assert_eq!(since(&store), gone, "it is the same moment for ever");
    let deleted = "2030-01-01T00:00:00Z";
    pod["metadata"]["deletionTimestamp"] = serde_json::json!(deleted);
    store.see(Seen::Applied(Kind::Pod, 5, item(Kind::Pod, &pod)));
    assert_eq!(since(&store), Some(deleted.parse().unwrap()));
}

#[test]
fn of_each_job_the_newest_event_is_kept_and_no_more_of_it_than_is_read() {
    let mut store = Store::new(Settings::default());
    let kind = Kind::JobEvent;
    for number in 1..=3 {
        let event = serde_json::json!({
            "metadata": {"name": format!("e{number}"), "namespace": "team"},
            "involvedObject": {"kind": "Job", "name": "job"},
            "reason": "FailedCreate", "message": format!("{number}{}", "x".repeat(100_000)),
        });
        store.see(Seen::Applied(kind, number, item(kind, &event)));
    }
    let kept: Vec<_> = store.job_events.values().collect();
    assert_eq!(kept.len(), 1);
    let message = &kept[0].1.1;
    assert!(
        message.starts_with('3') && message.chars().count() <= 1024,
        "{}",
        message.len()
    );
    store.see(Seen::Deleted(kind, Key::new("team", "e3"), 9));
    assert!(store.job_events.is_empty() && store.event_of.is_empty());
}
