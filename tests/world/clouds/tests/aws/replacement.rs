//! A whole replacement, as numo does one, and how many calls it takes.

use crate::setup::{Aws1, NEW, OLD, WORKERS, id_of};
use numo_provider_sdk::{NodeRole, NodeState, Provider};
use provider_aws::Aws;

#[test]
fn a_node_is_replaced_from_the_list_of_groups_to_the_end_of_its_machine() {
    let aws = Aws1::new();
    let groups = aws.call(|world| Aws::groups(world, "c1")).unwrap();
    let workers = groups
        .iter()
        .find(|group| group.role == NodeRole::Worker)
        .unwrap();
    assert_eq!(workers.group_id, WORKERS);
    assert_eq!(workers.name, "workers-a");

    let image = aws.call(|world| Aws::group_image(world, WORKERS)).unwrap();
    assert_eq!(image, OLD);
    let set = aws
        .call(|world| Aws::set_group_image(world, WORKERS, NEW, None))
        .unwrap();
    assert_eq!(set, None);
    let image = aws.call(|world| Aws::group_image(world, WORKERS)).unwrap();
    assert_eq!(image, NEW);

    let old = aws.member(WORKERS);
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    let new = id_of(&node);
    assert_eq!(node.node_name, new);
    assert_eq!(node.provider_id, aws.provider_id(&new));
    let state = |id: &str| {
        aws.call(|world| Aws::node_state(world, &aws.provider_id(id)))
            .unwrap()
    };
    assert_eq!(state(&new), NodeState::Ready);
    let of_new = aws
        .call(|world| Aws::node_image(world, &node.provider_id))
        .unwrap();
    assert_eq!(of_new, NEW);
    let group = aws
        .call(|world| Aws::scaling_group_id(world, &node.provider_id))
        .unwrap();
    assert_eq!(group, WORKERS);
    assert_eq!(aws.cloud.state().groups[WORKERS].desired, 4);

    aws.call(|world| Aws::delete_node(world, &aws.provider_id(&old)))
        .unwrap();
    assert_eq!(aws.cloud.state().groups[WORKERS].desired, 3);
    assert_eq!(state(&old), NodeState::Terminating);
    assert_eq!(state(&old), NodeState::Terminated);
    assert_eq!(aws.cloud.state().members(WORKERS).len(), 3);
    aws.call(|world| Aws::delete_node(world, &aws.provider_id(&old)))
        .unwrap();
    assert_eq!(
        aws.cloud.state().groups[WORKERS].desired,
        3,
        "deleting it again changes nothing"
    );
}

#[test]
fn a_machine_of_several_zones_takes_six_calls_and_its_deletion_two() {
    let aws = Aws1::new();
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    let calls = [
        "DescribeAutoScalingGroups",
        "DescribeSubnets",
        "DescribeInstances",
        "RunInstances",
        "DescribeInstances",
        "AttachInstances",
    ];
    // Five of these are the least that the API allows: the group, its zones, the machine, that it runs, and its group again.
    assert_eq!(aws.actions(), calls);
    aws.call(|world| Aws::delete_node(world, &node.provider_id))
        .unwrap();
    // One is.
    let deleting = ["DescribeAutoScalingGroups", "TerminateInstanceInAutoScalingGroup"];
    assert_eq!(aws.actions()[calls.len()..], deleting);
}

#[test]
fn a_machine_of_one_subnet_takes_four_calls_and_no_wait_before() {
    let aws = Aws1::new();
    aws.create("control", "numo-1a").unwrap();
    let calls = [
        "DescribeAutoScalingGroups",
        "RunInstances",
        "DescribeInstances",
        "AttachInstances",
    ];
    assert_eq!(aws.actions(), calls);
}

#[test]
fn three_nodes_of_three_zones_are_replaced_and_the_zones_stay_even() {
    let aws = Aws1::new();
    let old: Vec<String> = aws
        .cloud
        .state()
        .members(WORKERS)
        .iter()
        .map(|one| one.id.clone())
        .collect();
    for (at, id) in old.iter().enumerate() {
        aws.create(WORKERS, &format!("numo-{at}")).unwrap();
        aws.call(|world| Aws::delete_node(world, &aws.provider_id(id)))
            .unwrap();
        // Its machine ends.
        aws.call(|world| Aws::node_state(world, &aws.provider_id(id)))
            .unwrap();
        aws.call(|world| Aws::node_state(world, &aws.provider_id(id)))
            .unwrap();
    }
    let state = aws.cloud.state();
    let mut zones: Vec<&str> = state
        .members(WORKERS)
        .iter()
        .map(|one| one.zone.as_str())
        .collect();
    zones.sort_unstable();
    zones.dedup();
    assert!(zones.len() >= 2, "{zones:?}");
    assert_eq!(state.members(WORKERS).len(), 3);
    assert!(state.members(WORKERS).iter().all(|one| !old.contains(&one.id)));
}
