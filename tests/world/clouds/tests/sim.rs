//! The provider `sim` against objects in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is its failure"
)]

use numo_clouds::objects::{Cluster, NAMESPACE, map, text};
use numo_provider_sdk::{
    CreatedNode, Creation, Failure, FailureCode, NodeRole, NodeState, Provider,
    fake::World,
    serde_json::{Value, json},
};
use provider_sim::Sim;

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let group = json!({"image": "v1", "role": "Worker", "autoscaler": "as-workers", "name": "workers"});
    let control = json!({"image": "v1", "role": "ControlPlane", "autoscaler": "", "name": "control"});
    cluster.state().put(map("workers", "group", &group));
    cluster.state().put(map("control", "group", &control));
    let stranger = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "stranger", "namespace": NAMESPACE}, "data": {"image": "theirs", "state": "theirs"}});
    cluster.state().put(stranger);
    cluster
}

fn world(cluster: &Cluster) -> World {
    World {
        objects: Some(Box::new(cluster.clone())),
        config_json: json!({"namespace": NAMESPACE}).to_string(),
        ..World::default()
    }
}

fn create(cluster: &Cluster, request: &str) -> Result<CreatedNode, Failure> {
    match Sim::create_node(&world(cluster), "workers", request, None)? {
        Creation::Created(made) => Ok(made),
        Creation::Pending(pending) => panic!("{pending:?}"),
    }
}

fn data(cluster: &Cluster, name: &str, key: &str) -> String {
    let state = cluster.state();
    let found = state.get("ConfigMap", name).unwrap();
    text(found, &format!("/data/{key}")).to_owned()
}

fn played(cluster: &Cluster, name: &str, state: &str) {
    cluster
        .state()
        .change("ConfigMap", name, &["data", "state"], Value::from(state));
}

#[test]
fn a_machine_is_replaced() {
    let cluster = cluster();
    cluster.state().page = 1;
    let world = world(&cluster);
    let groups = Sim::groups(&world, "").unwrap();
    let shown: Vec<_> = groups
        .iter()
        .map(|group| {
            (
                group.group_id.as_str(),
                group.node_group_name.as_str(),
                group.autoscaling_group_name.as_str(),
                group.role,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("control", "control", "", NodeRole::ControlPlane),
            ("workers", "workers", "as-workers", NodeRole::Worker)
        ]
    );
    assert_eq!(Sim::set_group_image(&world, "Workers", "v2", None), Ok(None));
    assert_eq!(Sim::group_image(&world, "workers").unwrap(), "v2");
    assert_eq!(Sim::find_node(&world, "workers", "numo-abc123").unwrap(), None);
    let made = create(&cluster, "numo-abc123").unwrap();
    assert_eq!(
        (made.provider_id.as_str(), made.node_name.as_str()),
        ("sim:///numo-abc123", "workers-321cba")
    );
    assert_eq!(
        Sim::find_node(&world, "workers", "numo-abc123").unwrap(),
        Some(made.clone())
    );
    let id = made.provider_id;
    assert_eq!(Sim::node_state(&world, &id).unwrap(), NodeState::Creating);
    played(&cluster, "numo-abc123", "Ready");
    assert_eq!(Sim::node_state(&world, &id).unwrap(), NodeState::Ready);
    assert_eq!(Sim::node_image(&world, &id).unwrap(), "v2");
    assert_eq!(Sim::scaling_group_id(&world, &id).unwrap(), "workers");
    Sim::delete_node(&world, &id).unwrap();
    assert_eq!(Sim::node_state(&world, &id).unwrap(), NodeState::Terminating);
    cluster.state().remove("ConfigMap", "numo-abc123");
    assert_eq!(Sim::node_state(&world, &id).unwrap(), NodeState::Terminated);
    assert_eq!(Sim::delete_node(&world, &id), Ok(()), "it is gone already");
}

#[test]
fn a_machine_is_made_once_whatever_answer_is_lost() {
    for lost in 1..=4 {
        let cluster = cluster();
        cluster.state().lose = Some(lost);
        let first = create(&cluster, "numo-1");
        assert_eq!(first.is_err(), lost <= 3, "get, get the group, create");
        cluster.state().lose = None;
        create(&cluster, "numo-1").unwrap();
        assert_eq!(cluster.state().names("ConfigMap").len(), 4, "lost {lost}");
    }
}

/// The same of what is written of one that is there.
#[test]
fn what_was_written_counts_whatever_answer_is_lost() {
    for (what, wanted) in [("Terminating", "Terminating"), ("v2", "v2")] {
        for lost in 0..=2 {
            let cluster = cluster();
            let id = create(&cluster, "numo-1").unwrap().provider_id;
            let world = world(&cluster);
            let ask = || match what {
                "v2" => Sim::set_group_image(&world, "workers", what, None).map(drop),
                _ => Sim::delete_node(&world, &id),
            };
            cluster.state().forget_calls();
            cluster.state().lose = Some(lost);
            assert_eq!(ask().is_err(), lost <= 1, "{what}: one patch");
            cluster.state().lose = None;
            ask().unwrap();
            let (name, key) = if what == "v2" {
                ("workers", "image")
            } else {
                ("numo-1", "state")
            };
            assert_eq!(data(&cluster, name, key), wanted, "lost {lost}");
            assert_eq!(cluster.state().names("ConfigMap").len(), 4, "lost {lost}");
        }
    }
}

/// An API server of several that is behind: what was made is not there for a while.
#[test]
fn a_machine_that_is_not_read_yet_is_not_made_again() {
    for stale in 1..=4 {
        let cluster = cluster();
        cluster.state().stale = stale;
        cluster.state().lose = Some(3);
        create(&cluster, "numo-1").unwrap_err();
        cluster.state().lose = None;
        let mut tries = 0..10;
        let made = tries.find_map(|_| create(&cluster, "numo-1").ok());
        let made = made.expect("it is read in the end");
        assert_eq!(made.provider_id, "sim:///numo-1");
        assert_eq!(
            cluster.state().names("ConfigMap").len(),
            4,
            "not read {stale} times"
        );
    }
}

#[test]
fn two_at_once_make_one() {
    for call in 1..=3 {
        let cluster = cluster();
        let other = |cluster: &Cluster| drop(create(cluster, "numo-1").unwrap());
        cluster.state().before.insert(call, Box::new(other));
        let made = create(&cluster, "numo-1").unwrap();
        assert_eq!(made.provider_id, "sim:///numo-1");
        assert_eq!(cluster.state().names("ConfigMap").len(), 4, "call {call}");
    }
}

#[test]
fn a_strangers_map_stays_as_it_is() {
    let cluster = cluster();
    let world = world(&cluster);
    let failed = Sim::delete_node(&world, "sim:///stranger").unwrap_err();
    assert_eq!(failed.code, FailureCode::Invalid, "{failed:?}");
    let failed = Sim::delete_node(&world, "sim:///workers").unwrap_err();
    assert!(
        failed.message.contains("capi/workers"),
        "a group is no machine: {failed:?}"
    );
    assert!(Sim::set_group_image(&world, "stranger", "v2", None).is_err());
    assert_eq!(data(&cluster, "stranger", "image"), "theirs");
    assert_eq!(data(&cluster, "stranger", "state"), "theirs");
}

#[test]
fn wrong_input_is_named() {
    let cluster = cluster();
    let world = world(&cluster);
    let code = |result: Result<(), Failure>| result.unwrap_err().code;
    let made = |id: &str| Sim::create_node(&world, id, "numo-1", None).map(drop);
    assert_eq!(code(made("nobody")), FailureCode::NotFound);
    assert_eq!(code(made("a/b")), FailureCode::Invalid);
    let odd = Sim::create_node(&world, "workers", "Numo_1", None).map(drop);
    assert_eq!(code(odd), FailureCode::Invalid);
    for id in ["", "aws:///eu-1a/i-1", "sim:///", "sim:///a/b"] {
        let failed = Sim::node_state(&world, id).unwrap_err();
        assert_eq!(failed.code, FailureCode::Invalid, "{id}");
        assert!(failed.message.contains("wanted sim:///"), "{failed:?}");
        assert_eq!(code(Sim::delete_node(&world, id)), FailureCode::Invalid);
    }
    let none = Sim::node_image(&world, "sim:///nobody").map(drop);
    assert_eq!(code(none), FailureCode::NotFound);
    let none = Sim::set_group_image(&world, "nobody", "v2", None).map(drop);
    assert_eq!(code(none), FailureCode::NotFound);
    let unset = World::default();
    let failed = Sim::groups(&unset, "").unwrap_err();
    assert!(failed.message.contains("namespace"), "{failed:?}");
}

#[test]
fn faults_are_told_by_their_code() {
    let cluster = cluster();
    let world = world(&cluster);
    let id = "sim:///numo-1";
    let asks: [&dyn Fn() -> Result<(), Failure>; 5] = [
        &|| create(&cluster, "numo-1").map(drop),
        &|| Sim::delete_node(&world, id),
        &|| Sim::node_state(&world, id).map(drop),
        &|| Sim::set_group_image(&world, "workers", "v2", None).map(drop),
        &|| Sim::groups(&world, "").map(drop),
    ];
    for ask in asks {
        cluster.state().throttled = 1;
        let failed = ask().unwrap_err();
        assert_eq!(
            (failed.code, failed.retry_after_seconds),
            (FailureCode::Throttled, Some(7)),
            "{failed:?}"
        );
    }
    // A quota is no right that lacks: another code, another pause, and its own words.
    cluster.state().resource_quota = Some(3);
    let failed = create(&cluster, "numo-1").unwrap_err();
    assert_eq!(failed.code, FailureCode::Exhausted, "{failed:?}");
    assert!(failed.message.contains("exceeded quota: team"), "{failed:?}");
    assert_eq!(cluster.state().names("ConfigMap").len(), 3, "nothing was made");
    cluster.state().resource_quota = None;
    cluster.state().denied.insert("create ConfigMap".to_owned());
    let failed = create(&cluster, "numo-1").unwrap_err();
    assert_eq!(failed.code, FailureCode::Denied);
    assert!(failed.message.contains("ConfigMap capi/numo-1"), "{failed:?}");
    cluster.state().endless = true;
    assert!(Sim::groups(&world, "").unwrap_err().message.contains("50 pages"));
    cluster.state().endless = false;
    for odd in ["", "{", "[]", "null", "{\"metadata\": {\"name\": 1}}", "\u{0}"] {
        cluster.state().odd = Some(odd.to_owned());
        assert!(Sim::groups(&world, "").is_err(), "{odd}");
        assert!(Sim::node_state(&world, "sim:///workers").is_err(), "{odd}");
        assert!(create(&cluster, "workers").is_err(), "{odd}");
    }
    cluster.state().odd = Some(r#"{"metadata": {"name": "numo-9"}, "data": [1]}"#.to_owned());
    assert_eq!(
        Sim::node_state(&world, "sim:///stranger").unwrap_err().code,
        FailureCode::Other,
        "the answer is about another"
    );
}
