//! One replacement from end to end, and what it costs.

use super::*;
use numo_clouds::azure::OLD_IMAGE;
use numo_provider_sdk::{NodeRole, NodeState};

const NEW_IMAGE: &str = "/communityGalleries/numo/images/node/versions/2.0.0";

fn image_set(world: &mut World, image: &str) {
    let mut token = None;
    for _ in 0..20 {
        match Cloud::set_group_image(world, &group(), image, token.as_deref()).unwrap() {
            None => return,
            Some(pending) => token = Some(pending.token),
        }
    }
    panic!("the image is not set after 20 calls");
}

fn replaced(azure: &Azure, world: &mut World) {
    let groups = Cloud::groups(world, UID).unwrap();
    assert_eq!(groups.len(), 1);
    let found = &groups[0];
    assert_eq!(
        (found.name.as_str(), found.autoscaling_group_name.as_str()),
        ("pool-a", POOL)
    );
    assert_eq!(
        (found.node_group_name.as_str(), found.role),
        ("Pool_A-group", NodeRole::Worker)
    );
    assert_eq!(found.group_id, group());

    assert_eq!(Cloud::group_image(world, &group()).unwrap(), OLD_IMAGE);
    image_set(world, NEW_IMAGE);
    assert_eq!(Cloud::group_image(world, &group()).unwrap(), NEW_IMAGE);
    let old = State::provider_id(POOL, 1);
    assert_eq!(
        Cloud::node_image(world, &old).unwrap(),
        OLD_IMAGE,
        "nothing happens to machines that are there"
    );

    let node = made(world, "numo-a").unwrap();
    assert_eq!(node.node_name, "pool-a000003", "in lower case");
    assert_eq!(node.provider_id, State::provider_id(POOL, 3));
    assert_eq!(
        Cloud::node_state(world, &node.provider_id).unwrap(),
        NodeState::Ready
    );
    assert_eq!(Cloud::node_image(world, &node.provider_id).unwrap(), NEW_IMAGE);
    assert_eq!(
        Cloud::scaling_group_id(world, &node.provider_id).unwrap(),
        group()
    );
    assert_eq!(staying(azure, POOL), [0, 1, 2, 3]);

    Cloud::delete_node(world, &old).unwrap();
    assert_eq!(Cloud::node_state(world, &old).unwrap(), NodeState::Terminating);
    Cloud::delete_node(world, &old).unwrap();
    let mut states = (0..10).map(|_| Cloud::node_state(world, &old).unwrap());
    assert!(states.any(|state| state == NodeState::Terminated));
    Cloud::delete_node(world, &old).unwrap();
    assert_eq!(staying(azure, POOL), [0, 2, 3]);
    assert_eq!(capacity(azure), 3);
}

fn with_new_image() -> State {
    let mut state = pool();
    state.images.insert(NEW_IMAGE.to_lowercase());
    state
}

#[test]
fn a_machine_is_replaced() {
    let azure = started(with_new_image());
    replaced(&azure, &mut world(&azure));
}

#[test]
fn a_machine_is_replaced_where_azure_answers_with_a_location_and_no_body() {
    let azure = started(State {
        accepted: true,
        ..with_new_image()
    });
    replaced(&azure, &mut world(&azure));
}

#[test]
fn a_machine_that_lists_do_not_show_at_first_is_made_once() {
    let azure = started(State { unseen: 4, ..pool() });
    let node = made(&mut world(&azure), "numo-a").unwrap();
    assert_eq!(number(&node), 3);
    assert_eq!(staying(&azure, POOL), [0, 1, 2, 3]);
}

/// Azure's own minimum for a replacement: read the scale set, list its machines, change it, ask after the change (as often as it takes),
/// read it and list them again; delete. Beyond that the provider writes down whose machine it is, and looks whose group it deletes in.
#[test]
fn a_replacement_takes_two_calls_more_than_the_minimum() {
    let azure = started(State { page: 100, ..pool() });
    let mut world = world(&azure);
    let node = made(&mut world, "numo-a").unwrap();
    let polls = azure
        .state()
        .log
        .iter()
        .filter(|line| line.contains("/operations/"))
        .count();
    let calls = azure.state().log.len();
    assert!(polls > 1, "the operation takes several questions");
    assert_eq!(calls - polls, 5 + 1, "{:#?}", logged(&azure));
    azure.state().log.clear();
    Cloud::delete_node(&world, &node.provider_id).unwrap();
    assert_eq!(azure.state().log.len(), 1 + 1);
}

#[test]
fn nothing_is_asked_for_names() {
    let azure = started(pool());
    assert_eq!(Cloud::group_name(&group()).unwrap(), "pool-a");
    assert_eq!(Cloud::autoscaling_group_name(&group()).unwrap(), POOL);
    assert_eq!(Cloud::autoscaling_cloud_provider(), "azure");
    let description = Cloud::describe();
    assert_eq!(
        (description.name.as_str(), description.hosts.as_slice()),
        ("azure", &["management.azure.com:443".to_owned()][..])
    );
    assert!(azure.state().log.is_empty());
}

#[test]
fn a_finished_request_answers_the_same_again_and_is_found() {
    let azure = started(pool());
    let mut world = world(&azure);
    assert_eq!(Cloud::find_node(&world, &group(), "numo-a").unwrap(), None);
    let node = made(&mut world, "numo-a").unwrap();
    assert_eq!(made(&mut world, "numo-a").unwrap(), node);
    assert_eq!(
        Cloud::find_node(&world, &group(), "numo-a").unwrap(),
        Some(node.clone())
    );
    assert_eq!(
        Cloud::find_node(&world, &group().to_uppercase(), "numo-a")
            .unwrap()
            .map(|node| node.node_name),
        Some(node.node_name)
    );
    assert_eq!(Cloud::find_node(&world, &group(), "numo-b").unwrap(), None);
    assert_eq!(staying(&azure, POOL).len(), 4);
}

#[test]
fn tags_do_not_pile_up() {
    let azure = started(State {
        quota: 1000,
        ..pool()
    });
    let mut world = world(&azure);
    for index in 0..40 {
        let node = made(&mut world, &format!("numo-{index}")).unwrap();
        Cloud::delete_node(&world, &node.provider_id).unwrap();
        world.now += 700;
    }
    let mut state = azure.state();
    assert!(
        state.set(POOL).tags.len() < 10,
        "{:?}",
        state.set(POOL).tags.keys()
    );
    assert_eq!(
        state.set(POOL).tags["constellation-uid"],
        UID,
        "tags of others stay"
    );
    assert_eq!(state.staying(POOL), [0, 1, 2]);
}

#[test]
fn a_machine_with_the_number_of_one_that_is_gone_is_the_new_one() {
    let azure = started(State {
        numbers_again: true,
        ..pool()
    });
    let mut world = world(&azure);
    let first = made(&mut world, "numo-a").unwrap();
    Cloud::delete_node(&world, &State::provider_id(POOL, 1)).unwrap();
    while Cloud::node_state(&world, &State::provider_id(POOL, 1)).unwrap() != NodeState::Terminated {}
    let second = made(&mut world, "numo-b").unwrap();
    assert_eq!((number(&first), number(&second)), (3, 1));
    Cloud::delete_node(&world, &second.provider_id).unwrap();
    while Cloud::node_state(&world, &second.provider_id).unwrap() != NodeState::Terminated {}
    assert_eq!(
        Cloud::find_node(&world, &group(), "numo-b").unwrap(),
        None,
        "it is gone"
    );
    let third = made(&mut world, "numo-c").unwrap();
    assert_eq!(number(&third), 1);
    assert_eq!(
        Cloud::find_node(&world, &group(), "numo-b").unwrap(),
        None,
        "another machine has its number"
    );
    assert_eq!(Cloud::find_node(&world, &group(), "numo-c").unwrap(), Some(third));
}

/// Azure had no room when the capacity was raised; when it has, the new machine gets the number of one that was there then.
#[test]
fn a_number_that_is_used_again_while_a_request_waits_is_the_requests() {
    let azure = started(State {
        numbers_again: true,
        without_room: 1,
        ..pool()
    });
    let mut world = world(&azure);
    let first = Cloud::create_node(&world, &group(), "numo-a", None).unwrap();
    assert!(matches!(first, Creation::Pending(_)));
    let old = State::provider_id(POOL, 1);
    Cloud::delete_node(&world, &old).unwrap();
    while Cloud::node_state(&world, &old).unwrap() != NodeState::Terminated {}
    let node = made(&mut world, "numo-a").unwrap();
    assert_eq!(number(&node), 1);
    assert_eq!(staying(&azure, POOL), [0, 2, 1]);
}

#[test]
fn a_machine_that_lists_do_not_show_for_minutes_is_still_made_once() {
    let azure = started(State { unseen: 20, ..pool() });
    let mut world = world(&azure);
    let begun = world.now;
    let node = made(&mut world, "numo-a").unwrap();
    assert!(
        world.now > begun + 120,
        "longer than a machine is missed before numo does something"
    );
    assert_eq!(staying(&azure, POOL), [0, 1, 2, number(&node)]);
}
