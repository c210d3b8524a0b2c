//! What the cloud may have against it: rights, quota, capacity, haste, names, zones that cannot be reached, groups of the wrong kind.

use crate::{Fixture, UID, provider_id, try_until_created, until_created, until_set};
use numo_provider_sdk::{Creation, Failure, FailureCode, NodeState, Provider};
use provider_gcp::Gcp;
use std::collections::BTreeMap;

const REQUEST: &str = "numo-0123456789abcdefghij";

/// Something that a right is needed for: what came of it.
type Try = fn(&Fixture, &str) -> Option<Failure>;

fn told(failure: &Failure, code: FailureCode, words: &[&str]) {
    assert_eq!(failure.code, code, "{failure:?}");
    for word in words {
        assert!(failure.message.contains(word), "{word}: {}", failure.message);
    }
}

#[test]
fn haste_is_told_with_its_seconds_and_harms_nothing() {
    let fixture = Fixture::new();
    let world = fixture.world();
    let old = provider_id(&fixture.workers, "workers-0000");
    fixture.cloud.lock().knobs.throttle = (3, 17);
    let problems = [
        Gcp::node_state(&world, &old).unwrap_err(),
        Gcp::delete_node(&world, &old).unwrap_err(),
        Gcp::create_node(&world, &fixture.workers, REQUEST, None).unwrap_err(),
    ];
    for problem in &problems {
        told(problem, FailureCode::Throttled, &["429", "Queries per minute"]);
        assert_eq!(problem.retry_after_seconds, Some(17));
    }
    assert_eq!(
        (fixture.size(&fixture.workers), fixture.target(&fixture.workers)),
        (2, 2)
    );
    until_created(&world, &fixture.workers, REQUEST);
}

#[test]
fn a_right_that_is_missing_is_named() {
    let old = |fixture: &Fixture| provider_id(&fixture.workers, "workers-0000");
    let tries: [(&str, Try); 9] = [
        ("compute.instances.get", |fixture, old| {
            Gcp::node_state(&fixture.world(), old).err()
        }),
        ("compute.disks.get", |fixture, old| {
            Gcp::node_image(&fixture.world(), old).err()
        }),
        ("compute.instanceGroupManagers.list", |fixture, _| {
            Gcp::groups(&fixture.world(), UID).err()
        }),
        ("compute.instanceTemplates.list", |fixture, _| {
            Gcp::groups(&fixture.world(), UID).err()
        }),
        ("compute.instanceGroupManagers.get", |fixture, _| {
            Gcp::group_image(&fixture.world(), &fixture.workers).err()
        }),
        ("compute.instanceGroupManagers.update", |fixture, _| {
            try_until_created(&fixture.world(), &fixture.workers, REQUEST).err()
        }),
        ("compute.instanceGroupManagers.update", |fixture, old| {
            Gcp::delete_node(&fixture.world(), old).err()
        }),
        ("compute.instanceTemplates.create", |fixture, _| {
            until_set(&fixture.world(), &fixture.workers, &fixture.new_image).err()
        }),
        ("compute.images.get", |fixture, _| {
            until_set(&fixture.world(), &fixture.workers, &fixture.new_image).err()
        }),
    ];
    for (permission, attempt) in tries {
        let fixture = Fixture::new();
        fixture.cloud.lock().knobs.denied.insert(permission.to_owned());
        let before = fixture.made();
        let failure = attempt(&fixture, &old(&fixture));
        told(&failure.unwrap(), FailureCode::Denied, &[permission]);
        assert_eq!(
            (fixture.made(), fixture.size(&fixture.workers)),
            (before, 2),
            "{permission}"
        );
    }
}

#[test]
fn without_quota_it_is_told_and_the_machine_is_found_once_there_is_some() {
    for (code, operation_ticks) in [
        ("QUOTA_EXCEEDED", 3),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 0),
    ] {
        let fixture = Fixture::new();
        {
            let knobs = &mut fixture.cloud.lock().knobs;
            (knobs.quota, knobs.operation_ticks) = (3, operation_ticks);
            code.clone_into(&mut knobs.quota_code);
        }
        let (world, before) = (fixture.world(), fixture.made());
        let failure = try_until_created(&world, &fixture.workers, REQUEST).unwrap_err();
        told(&failure, FailureCode::Exhausted, &[code, REQUEST, "Limit: 3.0"]);
        // Asked again from scratch, it is the same, and nothing more is asked of the group.
        let failure = try_until_created(&world, &fixture.workers, REQUEST).unwrap_err();
        told(&failure, FailureCode::Exhausted, &[code]);
        assert_eq!(fixture.target(&fixture.workers), 3);
        fixture.cloud.lock().knobs.quota = 100;
        let node = until_created(&world, &fixture.workers, REQUEST);
        assert_eq!(fixture.made_since(before), [node.node_name]);
        assert_eq!(fixture.target(&fixture.workers), 3);
    }
}

#[test]
fn a_machine_that_is_given_up_before_it_came_up_never_comes_up() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.quota = 3;
    let (world, before) = (fixture.world(), fixture.made());
    try_until_created(&world, &fixture.workers, REQUEST).unwrap_err();
    let node = Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap();
    let node = node.expect("the group makes it as soon as there is quota");
    assert_eq!(
        Gcp::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Creating
    );
    Gcp::delete_node(&world, &node.provider_id).unwrap();
    fixture.wait(2);
    fixture.cloud.lock().knobs.quota = 100;
    fixture.wait(20);
    assert_eq!(
        Gcp::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Terminated
    );
    assert_eq!(Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap(), None);
    assert_eq!((fixture.made(), fixture.target(&fixture.workers)), (before, 2));
}

#[test]
fn an_operation_that_fails_is_told_and_can_be_repeated() {
    for operation_ticks in [0, 3] {
        for (code, wanted) in [
            ("QUOTA_EXCEEDED", FailureCode::Exhausted),
            ("RATE_LIMIT_EXCEEDED", FailureCode::Throttled),
            ("INTERNAL_ERROR", FailureCode::Unavailable),
            ("PERMISSIONS_ERROR", FailureCode::Denied),
            ("SOMETHING_NEW", FailureCode::Other),
        ] {
            let fixture = Fixture::new();
            {
                let knobs = &mut fixture.cloud.lock().knobs;
                knobs.operation_ticks = operation_ticks;
                knobs.fail_operation = Some((code.to_owned(), "the cloud's own words".to_owned()));
            }
            let world = fixture.world();
            let failure = try_until_created(&world, &fixture.workers, REQUEST).unwrap_err();
            told(&failure, wanted, &[code, "the cloud's own words"]);
            assert_eq!(fixture.target(&fixture.workers), 2);
            until_created(&world, &fixture.workers, REQUEST);
            assert_eq!(fixture.target(&fixture.workers), 3);
        }
    }
}

#[test]
fn a_machine_that_is_made_anew_is_not_gone() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let path = state.instance_path(&fixture.workers, "workers-0000");
        state.instances.remove(&path);
        let due = state.tick + 1000;
        let group = state.groups.get_mut(&fixture.workers).unwrap();
        let member = group.members.get_mut("workers-0000").unwrap();
        "RECREATING".clone_into(&mut member.action);
        member.due = due;
    }
    let old = provider_id(&fixture.workers, "workers-0000");
    assert_eq!(
        Gcp::node_state(&fixture.world(), &old).unwrap(),
        NodeState::Creating
    );
}

#[test]
fn states_are_those_of_the_contract() {
    let fixture = Fixture::new();
    let (world, id) = (fixture.world(), provider_id(&fixture.workers, "workers-0000"));
    for (status, state) in [
        ("STAGING", NodeState::Creating),
        ("RUNNING", NodeState::Ready),
        ("STOPPING", NodeState::Terminating),
        ("TERMINATED", NodeState::Stopped),
        ("SUSPENDED", NodeState::Stopped),
        ("REPAIRING", NodeState::Unknown),
        ("NEWS", NodeState::Unknown),
    ] {
        {
            let mut cloud = fixture.cloud.lock();
            let path = cloud.instance_path(&fixture.workers, "workers-0000");
            status.clone_into(&mut cloud.instances.get_mut(&path).unwrap().status);
        }
        assert_eq!(Gcp::node_state(&world, &id).unwrap(), state, "{status}");
    }
}

#[test]
fn a_machine_that_is_of_no_group_is_not_deleted() {
    let fixture = Fixture::new();
    let (world, id) = (fixture.world(), provider_id(&fixture.workers, "workers-0000"));
    for (created_by, words) in [
        (None, "of none"),
        (
            Some("projects/1/regions/zone/instanceGroupManagers/workers"),
            "regional",
        ),
        (
            Some("projects/1/zones/zone-b/instanceGroupManagers/control"),
            "zone-b",
        ),
        (Some("../../x"), "wanted projects/P"),
    ] {
        {
            let mut state = fixture.cloud.lock();
            let path = state.instance_path(&fixture.workers, "workers-0000");
            let metadata = created_by.map(|group| ("created-by".to_owned(), group.to_owned()));
            state.instances.get_mut(&path).unwrap().metadata = metadata.into_iter().collect();
        }
        let problem = Gcp::delete_node(&world, &id).unwrap_err();
        assert!(problem.message.contains(words), "{}", problem.message);
        assert!(Gcp::scaling_group_id(&world, &id).is_err());
    }
    assert_eq!(fixture.cloud.lock().count("deleteInstances"), 0);
    assert_eq!(fixture.size(&fixture.workers), 2);
}

#[test]
fn a_project_or_zone_that_the_cloud_misses_is_no_machine_that_is_gone() {
    let fixture = Fixture::new();
    let world = fixture.world();
    for id in [
        "gce://elsewhere/zone-a/workers-0000",
        "gce://numo-test/zone-c/workers-0000",
    ] {
        let problem = Gcp::node_state(&world, id).unwrap_err();
        told(&problem, FailureCode::NotFound, &["was not found"]);
        Gcp::delete_node(&world, id).unwrap_err();
    }
}

#[test]
fn a_name_that_somebody_elses_machine_has_is_not_taken_for_the_request() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let group = state.groups[&fixture.workers].clone();
        let other = fixture.workers.replace("workers", "others");
        state.groups.insert(
            other.clone(),
            numo_clouds::gcp::Group {
                members: BTreeMap::default(),
                ..group
            },
        );
        let path = state.instance_path(&fixture.workers, "workers-0000");
        let mut namesake = state.instances[&path].clone();
        namesake.metadata = vec![("created-by".to_owned(), other)];
        let path = state.instance_path(&fixture.workers, &format!("workers-{REQUEST}"));
        state.instances.insert(path, namesake);
    }
    let world = fixture.world();
    for problem in [
        Gcp::create_node(&world, &fixture.workers, REQUEST, None).unwrap_err(),
        Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap_err(),
    ] {
        told(&problem, FailureCode::Other, &["others", "is taken"]);
    }
    assert_eq!(fixture.target(&fixture.workers), 2);
}

#[test]
fn a_machine_that_is_going_is_not_made_twice() {
    let fixture = Fixture::new();
    let world = fixture.world();
    fixture.cloud.lock().knobs.quota = 3;
    try_until_created(&world, &fixture.workers, REQUEST).unwrap_err();
    {
        let mut state = fixture.cloud.lock();
        let group = state.groups.get_mut(&fixture.workers).unwrap();
        let member = group.members.get_mut(&format!("workers-{REQUEST}")).unwrap();
        "DELETING".clone_into(&mut member.action);
        member.due = u64::MAX;
    }
    let problem = Gcp::create_node(&world, &fixture.workers, REQUEST, None).unwrap_err();
    told(&problem, FailureCode::Unavailable, &["taking it away"]);
    assert_eq!(Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap(), None);
}

#[test]
fn a_list_of_groups_that_lacks_a_zone_is_none() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.unreachable = true;
    let problem = Gcp::groups(&fixture.world(), UID).unwrap_err();
    told(&problem, FailureCode::Unavailable, &["could not reach"]);
}

#[test]
fn a_group_that_does_not_fit_is_left_out_and_named() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let template = state.groups[&fixture.workers].template.clone();
        state.add_group("regions/zone", "regional", &template, 0);
        let labels = numo_provider_sdk::serde_json::json!({"constellation-uid": UID, "constellation-role": "jump-host"});
        let image = fixture.old_image.clone();
        let template = state.add_template("jump", &image, &labels);
        state.add_group("zones/zone-a", "jump", &template, 0);
    }
    let world = fixture.world();
    let groups = Gcp::groups(&world, UID).unwrap();
    assert_eq!(groups.len(), 2);
    let lines = world.lines.borrow().join("\n");
    assert!(
        lines.contains("regional") && lines.contains("jump-host"),
        "{lines}"
    );
    let regional = "projects/numo-test/regions/zone/instanceGroupManagers/regional";
    for problem in [
        Gcp::group_image(&world, regional).unwrap_err(),
        Gcp::create_node(&world, regional, REQUEST, None).unwrap_err(),
        Gcp::set_group_image(&world, regional, &fixture.new_image, None).unwrap_err(),
        Gcp::autoscaling_group_name(regional).unwrap_err(),
    ] {
        told(&problem, FailureCode::Invalid, &["regional", "not supported"]);
    }
}

#[test]
fn a_group_that_is_gone_is_told() {
    let fixture = Fixture::new();
    let (world, gone) = (fixture.world(), fixture.workers.replace("workers", "gone"));
    for problem in [
        Gcp::group_image(&world, &gone).unwrap_err(),
        Gcp::create_node(&world, &gone, REQUEST, None).unwrap_err(),
        Gcp::find_node(&world, &gone, REQUEST).unwrap_err(),
        Gcp::set_group_image(&world, &gone, &fixture.new_image, None).unwrap_err(),
    ] {
        told(&problem, FailureCode::NotFound, &["instanceGroupManagers/gone"]);
    }
    let gone = provider_id(&fixture.workers, "workers-9999");
    assert_eq!(Gcp::node_state(&world, &gone).unwrap(), NodeState::Terminated);
    told(
        &Gcp::node_image(&world, &gone).unwrap_err(),
        FailureCode::NotFound,
        &["workers-9999"],
    );
    Gcp::delete_node(&world, &gone).unwrap();
}

#[test]
fn a_pending_answer_says_what_is_awaited() {
    let fixture = Fixture::new();
    fixture.cloud.lock().knobs.operation_ticks = 10;
    let answer = Gcp::create_node(&fixture.world(), &fixture.workers, REQUEST, None).unwrap();
    let Creation::Pending(pending) = answer else {
        panic!("{answer:?}")
    };
    assert!(
        pending.message.contains(REQUEST) && pending.message.contains(&fixture.workers),
        "{pending:?}"
    );
}
