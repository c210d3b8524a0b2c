//! What Azure refuses, and what numo is told then.

use super::*;
use numo_provider_sdk::{FailureCode, NodeState};

#[test]
fn quota_is_said_and_nothing_is_changed() {
    let azure = started(State { quota: 3, ..pool() });
    let failure = made(&mut world(&azure), "numo-a").unwrap_err();
    assert_eq!(failure.code, FailureCode::Exhausted);
    for words in [POOL, "OperationNotAllowed", "Total Regional Cores quota"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    assert_eq!(capacity(&azure), 3);
    assert_eq!(
        Cloud::find_node(&world(&azure), &group(), "numo-a").unwrap(),
        None
    );
    azure.state().quota = 100;
    made(&mut world(&azure), "numo-a").unwrap();
    assert_eq!(staying(&azure, POOL).len(), 4);
}

#[test]
fn no_room_is_said_and_tried_again_without_a_second_machine() {
    let azure = started(State {
        without_room: 4,
        ..pool()
    });
    let mut world = world(&azure);
    for _ in 0..2 {
        let failure = made(&mut world, "numo-a").unwrap_err();
        assert_eq!(failure.code, FailureCode::Exhausted);
        assert!(
            failure.message.contains("AllocationFailed") && failure.message.contains("sufficient capacity"),
            "{}",
            failure.message
        );
        assert_eq!(capacity(&azure), 4, "raised once");
    }
    let failure = Cloud::find_node(&world, &group(), "numo-a").unwrap_err();
    assert_eq!(
        failure.code,
        FailureCode::Unavailable,
        "it may still come: {}",
        failure.message
    );
    let node = made(&mut world, "numo-a").unwrap();
    assert_eq!(staying(&azure, POOL), [0, 1, 2, number(&node)]);
}

/// A caller that keeps the token of the last Pending through a failure.
#[test]
fn an_old_token_of_a_failed_operation_does_not_block() {
    let azure = started(State {
        without_room: 1,
        ..pool()
    });
    let mut world = world(&azure);
    let Creation::Pending(first) = Cloud::create_node(&world, &group(), "numo-a", None).unwrap() else {
        panic!("made at once");
    };
    let mut failures = 0;
    for _ in 0..30 {
        match Cloud::create_node(&world, &group(), "numo-a", Some(&first.token)) {
            Ok(Creation::Created(_)) => {
                assert_eq!(failures, 1);
                assert_eq!(staying(&azure, POOL).len(), 4);
                return;
            }
            Ok(Creation::Pending(_)) => {}
            Err(failure) => {
                assert_eq!(failure.code, FailureCode::Exhausted);
                failures += 1;
            }
        }
        world.now += 10;
    }
    panic!("never made");
}

#[test]
fn throttling_is_said_with_its_seconds_and_costs_no_machine() {
    for after in 0..8 {
        let azure = started(pool());
        let mut world = {
            let azure = azure.clone();
            world_that(&azure.clone(), after, move || azure.state().throttled = 1)
        };
        let failure = made(&mut world, "numo-a").unwrap_err();
        assert_eq!(
            (failure.code, failure.retry_after_seconds),
            (FailureCode::Throttled, Some(7))
        );
        assert!(failure.message.contains("being throttled"), "{}", failure.message);
        made(&mut world, "numo-a").unwrap();
        assert_eq!(staying(&azure, POOL).len(), 4, "request {after}");
    }
}

#[test]
fn a_missing_permission_is_said_in_azures_words() {
    let old = State::provider_id(POOL, 0);
    let azure = started(State {
        denied: Some("PATCH"),
        ..pool()
    });
    let mut world = world(&azure);
    let failure = made(&mut world, "numo-a").unwrap_err();
    assert_eq!(failure.code, FailureCode::Denied);
    assert!(
        failure.message.contains("AuthorizationFailed") && failure.message.contains(POOL),
        "{}",
        failure.message
    );
    azure.state().denied = Some("POST");
    assert_eq!(
        Cloud::delete_node(&world, &old).unwrap_err().code,
        FailureCode::Denied
    );
    azure.state().denied = Some("GET");
    assert_eq!(
        Cloud::node_state(&world, &old).unwrap_err().code,
        FailureCode::Denied
    );
    assert_eq!(Cloud::groups(&world, UID).unwrap_err().code, FailureCode::Denied);
    assert_eq!(
        Cloud::find_node(&world, &group(), "numo-a").unwrap_err().code,
        FailureCode::Denied
    );
    assert_eq!(staying(&azure, POOL), [0, 1, 2]);
}

#[test]
fn without_the_right_to_ask_after_operations_the_scale_set_tells() {
    let azure = started(pool());
    azure.state().raw = Some(numo_clouds::azure::Raw {
        line: "/operations/".to_owned(),
        status: 403,
        body: br#"{"error":{"code":"AuthorizationFailed","message":"no"}}"#.to_vec(),
    });
    made(&mut world(&azure), "numo-a").unwrap();
    assert_eq!(staying(&azure, POOL).len(), 4);
}

#[test]
fn requests_are_signed_and_the_host_may_refuse_them() {
    let azure = started(pool());
    let unsigned = {
        let sends = native(azure.address());
        World {
            cloud: Some(Box::new(move |request: &Request| {
                let signed = request.authorization.as_ref().unwrap();
                assert_eq!(
                    (signed.scheme.as_str(), signed.credential.as_str()),
                    ("bearer", "prod")
                );
                assert!(request.headers.iter().all(|(name, _)| name != "authorization"));
                sends(&Request {
                    authorization: None,
                    ..request.clone()
                })
            })),
            config_json: r#"{"credential":"prod"}"#.to_owned(),
            ..World::default()
        }
    };
    let failure = Cloud::group_image(&unsigned, &group()).unwrap_err();
    assert_eq!(failure.code, FailureCode::Denied);
    assert!(
        failure.message.contains("AuthenticationFailed"),
        "{}",
        failure.message
    );
    let without_grant = World {
        config_json: config(),
        ..World::default()
    };
    assert_eq!(
        Cloud::group_image(&without_grant, &group()).unwrap_err().code,
        FailureCode::Denied
    );
}

#[test]
fn a_machine_is_terminated_only_if_azure_says_so_in_its_own_words() {
    let azure = started(pool());
    let world = world(&azure);
    let gone = State::provider_id(POOL, 77);
    assert_eq!(Cloud::node_state(&world, &gone).unwrap(), NodeState::Terminated);
    assert_eq!(
        Cloud::node_image(&world, &gone).unwrap_err().code,
        FailureCode::NotFound
    );
    assert_eq!(
        Cloud::node_state(&world, &State::provider_id("no-such-set", 1)).unwrap(),
        NodeState::Terminated
    );
    let elsewhere = gone.replace("000000000001", "000000000002");
    let failure = Cloud::node_state(&world, &elsewhere).unwrap_err();
    assert!(
        failure.message.contains("SubscriptionNotFound"),
        "a wrong subscription says nothing of machines: {}",
        failure.message
    );
    azure.state().raw = Some(numo_clouds::azure::Raw {
        line: "instanceView".to_owned(),
        status: 404,
        body: b"<html>not here</html>".to_vec(),
    });
    Cloud::node_state(&world, &State::provider_id(POOL, 1)).unwrap_err();
}

#[test]
fn what_is_gone_is_deleted_and_what_is_not_the_clusters_is_not() {
    let azure = started(
        pool()
            .with_set("other", "uid-2", "worker", 2)
            .with_set("plain", "", "worker", 1),
    );
    let mut world = world(&azure);
    Cloud::delete_node(&world, &State::provider_id(POOL, 77)).unwrap();
    Cloud::delete_node(&world, &State::provider_id("no-such-set", 1)).unwrap();
    let failure = Cloud::delete_node(&world, &State::provider_id("plain", 0)).unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid);
    assert!(
        failure.message.contains("plain") && failure.message.contains("constellation-uid"),
        "{}",
        failure.message
    );
    world.config_json = r#"{"uid":"uid-1"}"#.to_owned();
    let failure = Cloud::delete_node(&world, &State::provider_id("other", 0)).unwrap_err();
    assert!(
        failure.message.contains("\"uid-2\", wanted uid-1"),
        "{}",
        failure.message
    );
    assert_eq!(
        counted(&azure, "POST", "/plain/delete") + counted(&azure, "POST", "/other/delete"),
        0
    );
    assert_eq!(staying(&azure, "other").len() + staying(&azure, "plain").len(), 3);
    Cloud::delete_node(&world, &State::provider_id(POOL, 0)).unwrap();
    assert_eq!(staying(&azure, POOL), [1, 2]);
}

#[test]
fn a_scale_set_that_cannot_be_counted_on_makes_no_machines() {
    let azure = started(pool());
    let mut world = world(&azure);
    azure.state().set(POOL).overprovision = true;
    let failure = made(&mut world, "numo-a").unwrap_err();
    assert!(
        failure.code == FailureCode::Invalid
            && failure
                .message
                .contains("overprovision: found true, wanted false"),
        "{}",
        failure.message
    );
    azure.state().set(POOL).overprovision = false;
    azure.state().set(POOL).orchestration = "Flexible".to_owned();
    let failure = made(&mut world, "numo-a").unwrap_err();
    assert!(
        failure.message.contains("found Flexible, wanted Uniform"),
        "{}",
        failure.message
    );
    azure.state().set(POOL).orchestration = "Uniform".to_owned();
    azure.state().set(POOL).says_etag = false;
    let failure = made(&mut world, "numo-a").unwrap_err();
    assert!(
        failure.message.contains("etag: found nothing"),
        "{}",
        failure.message
    );
    azure.state().set(POOL).says_etag = true;
    azure
        .state()
        .set(POOL)
        .tags
        .insert("numo-request-numo-a".to_owned(), "mine".into());
    let failure = made(&mut world, "numo-a").unwrap_err();
    assert!(
        failure.message.contains("tag numo-request-numo-a: found"),
        "{}",
        failure.message
    );
    assert_eq!((capacity(&azure), counted(&azure, "PATCH", POOL)), (3, 0));
}

#[test]
fn too_many_tags_are_said_before_the_capacity_is_raised() {
    let azure = started(pool());
    for index in 0..47 {
        azure
            .state()
            .set(POOL)
            .tags
            .insert(format!("team-{index}"), "x".into());
    }
    let failure = made(&mut world(&azure), "numo-a").unwrap_err();
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(
        failure.message.contains("found 50 of the 50"),
        "{}",
        failure.message
    );
    assert_eq!(capacity(&azure), 3);
}

#[test]
fn bad_input_is_refused_before_azure_hears_of_it() {
    let azure = started(pool());
    let mut world = world(&azure);
    let wrong = "gce://project/zone/instance";
    let mut failures = vec![
        Cloud::node_state(&world, wrong).unwrap_err(),
        Cloud::node_image(&world, wrong).unwrap_err(),
        Cloud::delete_node(&world, wrong).unwrap_err(),
        Cloud::scaling_group_id(&world, wrong).unwrap_err(),
        Cloud::group_image(&world, POOL).unwrap_err(),
        Cloud::set_group_image(&world, POOL, "a:b:c:d", None).unwrap_err(),
        Cloud::create_node(&world, POOL, "numo-a", None).unwrap_err(),
        Cloud::create_node(&world, &group(), "Not a request", None).unwrap_err(),
        Cloud::find_node(&world, &group(), "").unwrap_err(),
        Cloud::group_name("x").unwrap_err(),
        Cloud::autoscaling_group_name("/x").unwrap_err(),
        Cloud::groups(&world, "").unwrap_err(),
    ];
    world.config_json = "{}".to_owned();
    failures.push(Cloud::groups(&world, UID).unwrap_err());
    world.config_json = "[]".to_owned();
    failures.push(Cloud::group_image(&world, &group()).unwrap_err());
    for failure in failures {
        assert_eq!(failure.code, FailureCode::Invalid, "{}", failure.message);
        assert!(failure.message.contains("wanted"), "{}", failure.message);
    }
    assert!(azure.state().log.is_empty());
    world.config_json = config();
    let unknown = State::group_id("no-such-set");
    let failure = Cloud::create_node(&world, &unknown, "numo-a", None).unwrap_err();
    assert!(
        failure.code == FailureCode::NotFound && failure.message.contains("no-such-set"),
        "{}",
        failure.message
    );
    assert_eq!(
        Cloud::group_image(&world, &unknown).unwrap_err().code,
        FailureCode::NotFound
    );
    assert_eq!(
        Cloud::find_node(&world, &unknown, "numo-a").unwrap_err().code,
        FailureCode::NotFound
    );
}

#[test]
fn a_machine_that_does_not_boot_is_the_requests_and_fails() {
    let azure = started(pool());
    let mut world = world(&azure);
    assert!(matches!(
        Cloud::create_node(&world, &group(), "numo-a", None).unwrap(),
        Creation::Pending(_)
    ));
    for machine in azure
        .state()
        .set(POOL)
        .machines
        .iter_mut()
        .filter(|machine| machine.instance == 3)
    {
        machine.provisioning = "Failed";
    }
    let node = made(&mut world, "numo-a").unwrap();
    assert_eq!(number(&node), 3);
    assert_eq!(
        Cloud::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Failed
    );
    Cloud::delete_node(&world, &node.provider_id).unwrap();
    assert_eq!(staying(&azure, POOL), [0, 1, 2]);
}
