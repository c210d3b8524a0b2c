//! The whole replacement of a node, and what it costs.

use crate::{Fixture, UID, provider_id, until_created, until_set};
use numo_provider_sdk::{Creation, NodeRole, NodeState, Provider, host::Request};
use provider_gcp::Gcp;
use std::{cell::RefCell, rc::Rc};

const REQUEST: &str = "numo-0123456789abcdefghij";

#[test]
fn a_node_is_replaced_from_the_list_of_groups_to_the_end_of_the_old_machine() {
    let fixture = Fixture::new();
    {
        let knobs = &mut fixture.cloud.lock().knobs;
        (
            knobs.operation_ticks,
            knobs.make_ticks,
            knobs.boot_ticks,
            knobs.delete_ticks,
        ) = (5, 4, 4, 4);
    }
    let (world, before) = (fixture.world(), fixture.made());
    let groups = Gcp::groups(&world, UID).unwrap();
    let said: Vec<(&str, &str, NodeRole)> = groups
        .iter()
        .map(|group| (group.name.as_str(), group.node_group_name.as_str(), group.role))
        .collect();
    assert_eq!(
        said,
        [
            ("workers", "worker_default", NodeRole::Worker),
            ("control", "control-plane_default", NodeRole::ControlPlane)
        ]
    );
    let workers = &groups[0];
    assert_eq!(workers.group_id, fixture.workers);
    assert_eq!(
        workers.autoscaling_group_name,
        "https://www.googleapis.com/compute/v1/projects/numo-test/zones/zone-a/instanceGroups/workers"
    );
    assert_eq!(
        Gcp::autoscaling_group_name(&workers.group_id).unwrap(),
        workers.autoscaling_group_name
    );
    assert_eq!(
        Gcp::group_image(&world, &workers.group_id).unwrap(),
        fixture.old_image
    );

    until_set(&world, &workers.group_id, &fixture.new_image).unwrap();
    assert_eq!(
        Gcp::group_image(&world, &workers.group_id).unwrap(),
        fixture.new_image
    );
    assert_eq!(fixture.made(), before, "setting the image makes no machine");

    let node = until_created(&world, &workers.group_id, REQUEST);
    assert_eq!(node.node_name, format!("workers-{REQUEST}"));
    assert_eq!(
        node.provider_id,
        format!("gce://numo-test/zone-a/workers-{REQUEST}")
    );
    assert_eq!(
        Gcp::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Creating
    );
    fixture.wait(5);
    assert_eq!(
        Gcp::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Ready
    );
    assert_eq!(
        Gcp::scaling_group_id(&world, &node.provider_id).unwrap(),
        workers.group_id
    );
    assert_eq!(
        Gcp::node_image(&world, &node.provider_id).unwrap(),
        fixture.new_image
    );

    let old = provider_id(&fixture.workers, "workers-0000");
    assert_eq!(Gcp::node_image(&world, &old).unwrap(), fixture.old_image);
    Gcp::delete_node(&world, &old).unwrap();
    fixture.wait(5);
    assert_eq!(Gcp::node_state(&world, &old).unwrap(), NodeState::Terminating);
    fixture.wait(5);
    assert_eq!(Gcp::node_state(&world, &old).unwrap(), NodeState::Terminated);
    Gcp::delete_node(&world, &old).unwrap();

    assert_eq!(fixture.made_since(before), [node.node_name]);
    assert_eq!(
        (fixture.size(&fixture.workers), fixture.target(&fixture.workers)),
        (2, 2)
    );
    assert_eq!(fixture.size(&fixture.control), 1, "the other group is left alone");
    documented(&fixture);
}

/// What the README says that it needs is what the cloud wanted.
fn documented(fixture: &Fixture) {
    let readme = include_str!("../../../../../plugins/gcp/README.md");
    let state = fixture.cloud.lock();
    let mut permissions = state.log.iter().flat_map(|call| &call.permissions).peekable();
    assert!(permissions.peek().is_some());
    for permission in permissions {
        assert!(
            readme.contains(&format!("`{permission}`")),
            "{permission} is not in the README"
        );
    }
}

#[test]
fn a_replaced_node_costs_two_requests_more_than_the_api_wants() {
    let fixture = Fixture::new();
    let world = fixture.world();
    let mut spent = Vec::new();
    let mut last = fixture.calls();
    let mut note = |what: &'static str| {
        let calls = fixture.calls();
        spent.push((what, calls - last));
        last = calls;
    };
    let node = until_created(&world, &fixture.workers, REQUEST);
    note("create");
    assert_eq!(
        Gcp::node_state(&world, &node.provider_id).unwrap(),
        NodeState::Ready
    );
    note("state");
    Gcp::scaling_group_id(&world, &node.provider_id).unwrap();
    note("group");
    Gcp::node_image(&world, &node.provider_id).unwrap();
    note("image");
    let old = provider_id(&fixture.workers, "workers-0001");
    Gcp::delete_node(&world, &old).unwrap();
    note("delete");
    fixture.wait(2);
    assert_eq!(Gcp::node_state(&world, &old).unwrap(), NodeState::Terminated);
    note("gone");
    // The least: createInstances, its operation, the instance; state; group; instance and disk; group and deleteInstances; gone.
    assert_eq!(
        spent.iter().map(|(_, calls)| calls).sum::<usize>(),
        10 + 2,
        "{spent:?}"
    );
    assert_eq!(spent[0], ("create", 4));
}

#[test]
fn a_machine_of_a_long_base_name_is_found_by_its_request() {
    let fixture = Fixture::new();
    let base = "w".repeat(58);
    fixture
        .cloud
        .lock()
        .groups
        .get_mut(&fixture.workers)
        .unwrap()
        .base = base.clone();
    let (world, before) = (fixture.world(), fixture.made());
    let node = until_created(&world, &fixture.workers, REQUEST);
    assert!(
        node.node_name.len() <= 63 && node.node_name.starts_with(&base[..52]),
        "{node:?}"
    );
    assert_eq!(until_created(&world, &fixture.workers, REQUEST), node);
    assert_eq!(
        Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap(),
        Some(node.clone())
    );
    let other = until_created(&world, &fixture.workers, "numo-0123456789abcdefghik");
    assert_ne!(other.node_name, node.node_name);
    assert_eq!(fixture.made_since(before).len(), 2);
}

#[test]
fn finding_makes_no_machine() {
    let fixture = Fixture::new();
    let (world, before) = (fixture.world(), fixture.made());
    assert_eq!(Gcp::find_node(&world, &fixture.workers, REQUEST).unwrap(), None);
    assert_eq!(fixture.made(), before);
    assert_eq!(fixture.target(&fixture.workers), 2);
    let posts = fixture.cloud.lock().count("createInstances");
    assert_eq!(posts, 0);
}

#[test]
fn ids_do_not_care_for_case() {
    let fixture = Fixture::new();
    let world = fixture.world();
    let group = fixture.workers.to_uppercase();
    assert_eq!(Gcp::group_image(&world, &group).unwrap(), fixture.old_image);
    let old = provider_id(&fixture.workers, "workers-0000").to_uppercase();
    assert_eq!(Gcp::scaling_group_id(&world, &old).unwrap(), fixture.workers);
    assert_eq!(Gcp::node_state(&world, &old).unwrap(), NodeState::Ready);
    until_set(&world, &fixture.workers, &fixture.old_image.to_uppercase()).unwrap();
    assert_eq!(
        fixture.cloud.lock().templates.len(),
        2,
        "the same image needs no template"
    );
}

#[test]
fn every_list_is_read_to_its_last_page() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let template = state.groups[&fixture.workers].template.clone();
        for number in 0..9 {
            state.add_group("zones/zone-a", &format!("more-{number}"), &template, 0);
        }
        for number in 0..7 {
            state.add_template(
                &format!("aaa-{number}"),
                "x",
                &numo_provider_sdk::serde_json::json!({}),
            );
        }
    }
    let world = fixture.world();
    let groups = Gcp::groups(&world, UID).unwrap();
    assert_eq!(groups.len(), 11);
    assert!(groups.is_sorted_by(|one, other| one.group_id < other.group_id));
    assert_eq!(Gcp::groups(&world, "other").unwrap(), []);
    // The last member of a group with pages, while it is no instance yet.
    for paginated in [true, false] {
        let fixture = Fixture::new();
        {
            let mut state = fixture.cloud.lock();
            let template = state.groups[&fixture.workers].template.clone();
            state.knobs.paginated = paginated;
            state.add_group("zones/zone-a", "crowd", &template, 9);
            state.knobs.make_ticks = 1000;
        }
        let crowd = fixture.workers.replace("workers", "crowd");
        let world = fixture.world();
        assert!(matches!(
            Gcp::create_node(&world, &crowd, "z", None).unwrap(),
            Creation::Pending(_)
        ));
        let found = Gcp::find_node(&world, &crowd, "z").unwrap().unwrap();
        assert_eq!(found.node_name, "crowd-z");
        assert_eq!(
            Gcp::node_state(&world, &found.provider_id).unwrap(),
            NodeState::Creating
        );
    }
}

#[test]
fn groups_of_one_name_in_two_zones_get_objects_of_two_names() {
    let fixture = Fixture::new();
    {
        let mut state = fixture.cloud.lock();
        let template = state.groups[&fixture.workers].template.clone();
        state.add_group("zones/zone-b", "workers", &template, 0);
    }
    let groups = Gcp::groups(&fixture.world(), UID).unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["workers-zone-a", "control", "workers-zone-b"]);
}

#[test]
fn requests_are_signed_by_name_and_carry_no_secret() {
    let fixture = Fixture::new();
    let (seen, send) = (
        Rc::new(RefCell::new(Vec::new())),
        numo_clouds::native(fixture.cloud.address()),
    );
    let sent = Rc::clone(&seen);
    let mut world = fixture.world();
    world.config_json = r#"{"project": "numo-test", "credential": "mine"}"#.to_owned();
    world.cloud = Some(Box::new(move |request: &Request| {
        sent.borrow_mut().push(request.clone());
        send(request)
    }));
    Gcp::groups(&world, UID).unwrap();
    until_created(&world, &fixture.workers, REQUEST);
    for request in seen.borrow().iter() {
        let signed = request.authorization.as_ref().unwrap();
        assert_eq!(
            (signed.credential.as_str(), signed.scheme.as_str()),
            ("mine", "bearer")
        );
        assert!(
            request
                .url
                .starts_with("https://compute.googleapis.com/compute/v1/"),
            "{}",
            request.url
        );
        assert!(
            request
                .headers
                .iter()
                .all(|(name, _)| !name.eq_ignore_ascii_case("authorization"))
        );
    }
    let mut unsigned = seen.borrow()[0].clone();
    unsigned.authorization = None;
    let send = numo_clouds::native(fixture.cloud.address());
    assert_eq!(
        send(&unsigned).unwrap().status,
        401,
        "the cloud takes no request that is not signed"
    );
}
