//! How a machine is made, and why one is not.

use crate::setup::{Aws1, NEW, WORKERS, id_of, tag};
use numo_clouds::aws::State;
use numo_provider_sdk::{Creation, Failure, FailureCode, NodeState, Provider};
use provider_aws::Aws;

fn refused(set_up: impl FnOnce(&mut State)) -> (Aws1, Failure) {
    let aws = Aws1::new();
    set_up(&mut aws.cloud.state());
    let failure = aws.create(WORKERS, "numo-1a").unwrap_err();
    assert_eq!(
        aws.cloud.state().made_for("numo-1a").len(),
        0,
        "{}",
        failure.message
    );
    assert_eq!(aws.cloud.state().groups[WORKERS].desired, 3);
    (aws, failure)
}

fn change(state: &mut State, change: impl FnOnce(&mut numo_clouds::aws::Group)) {
    change(state.groups.get_mut(WORKERS).unwrap());
}

#[test]
fn a_machine_gets_the_tags_of_its_group_from_the_start_and_its_load_balancer() {
    let aws = Aws1::new();
    change(&mut aws.cloud.state(), |group| {
        group
            .tags
            .push(("aws:cloudformation:stack-name".to_owned(), "s".to_owned(), true));
        group
            .tags
            .push(("not-for-instances".to_owned(), "x".to_owned(), false));
    });
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    let state = aws.cloud.state();
    let run = state
        .calls
        .iter()
        .find(|call| call.action == "RunInstances")
        .unwrap();
    let keys: Vec<&String> = (1..)
        .map_while(|at| run.parameters.get(&format!("TagSpecification.1.Tag.{at}.Key")))
        .collect();
    assert!(keys.contains(&&"kubernetes.io/cluster/c1".to_owned()), "{keys:?}");
    assert!(
        !keys
            .iter()
            .any(|key| key.starts_with("aws:") || *key == "not-for-instances")
    );
    assert_eq!(run.parameters["ClientToken"], "numo-numo-1a");
    assert_eq!(run.parameters["LaunchTemplate.Version"], "$Default");
    assert_eq!(state.groups[WORKERS].registered, [id_of(&node)]);
}

#[test]
fn a_node_is_called_by_its_private_dns_name_if_asked_for() {
    let aws = Aws1::new();
    *aws.settings.borrow_mut() = r#"{"region": "eu-central-1", "nodeName": "private-dns"}"#.to_owned();
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    assert!(node.node_name.ends_with(".ec2.internal"), "{}", node.node_name);
    let found = aws
        .call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
        .unwrap();
    assert_eq!(found, Some(node));
}

#[test]
fn a_full_group_is_named_with_its_field_and_nothing_is_made() {
    let (_, failure) = refused(|state| change(state, |group| group.max = 3));
    assert_eq!(failure.code, FailureCode::Exhausted);
    for part in [WORKERS, "MaxSize", "found 3", "wanted 4"] {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
}

#[test]
fn a_group_that_is_filled_meanwhile_keeps_the_machine_until_there_is_room() {
    let aws = Aws1::new();
    let fill = |state: &mut State| change(state, |group| group.max = 3);
    aws.cloud.state().meddles.push((5, Box::new(fill)));
    let failure = aws.create(WORKERS, "numo-1a").unwrap_err();
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(
        failure.message.contains("MaxSize") && failure.message.contains("i-"),
        "{}",
        failure.message
    );
    change(&mut aws.cloud.state(), |group| group.max = 4);
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1);
    // The group is full of this very machine now: asked again from scratch, it is found.
    assert_eq!(aws.create(WORKERS, "numo-1a").unwrap(), node);
}

#[test]
fn a_machine_that_did_not_fit_is_found_and_deleted_though_it_is_no_member() {
    let aws = Aws1::new();
    let fill = |state: &mut State| change(state, |group| group.max = 3);
    aws.cloud.state().meddles.push((5, Box::new(fill)));
    aws.create(WORKERS, "numo-1a").unwrap_err();
    let found = aws
        .call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
        .unwrap()
        .unwrap();
    aws.call(|world| Aws::delete_node(world, &found.provider_id))
        .unwrap();
    let state = aws.cloud.state();
    assert!(!state.made_for("numo-1a")[0].lives());
    assert_eq!(state.groups[WORKERS].desired, 3);
    assert_eq!(state.members(WORKERS).len(), 3);
}

#[test]
fn another_zone_is_tried_where_one_has_no_room_and_all_of_them_are_exhausted() {
    let aws = Aws1::new();
    let full = ["subnet-a", "subnet-c"].map(str::to_owned);
    aws.cloud.state().full_subnets.extend(full);
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    assert!(node.provider_id.contains("eu-central-1b"), "{}", node.provider_id);

    let (aws, failure) = refused(|state| {
        let all = ["subnet-a", "subnet-b", "subnet-c"].map(str::to_owned);
        state.full_subnets.extend(all);
    });
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(
        failure.message.contains("InsufficientInstanceCapacity"),
        "{}",
        failure.message
    );
    assert_eq!(aws.cloud.state().count("RunInstances"), 3, "each zone once");
    // An hour later all zones are tried again.
    aws.now.set(aws.now.get() + 3600);
    aws.cloud.state().full_subnets.clear();
    aws.create(WORKERS, "numo-1a").unwrap();
}

#[test]
fn a_quota_is_told_as_such() {
    let (_, failure) = refused(|state| state.quota = Some(9));
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(
        failure.message.contains("VcpuLimitExceeded"),
        "{}",
        failure.message
    );
}

#[test]
fn a_template_whose_image_is_gone_is_told() {
    let (_, failure) = refused(|state| {
        state.images.clear();
    });
    assert_eq!(failure.code, FailureCode::NotFound);
    assert!(
        failure.message.contains("InvalidAMIID.NotFound"),
        "{}",
        failure.message
    );
}

#[test]
fn groups_that_one_launch_cannot_repeat_are_refused_by_their_field() {
    let weighted =
        "<member><InstanceType>m5.large</InstanceType><WeightedCapacity>2</WeightedCapacity></member>";
    let chosen =
        "<member><InstanceRequirements><VCpuCount><Min>2</Min></VCpuCount></InstanceRequirements></member>";
    let own = "<member><InstanceType>m6g.large</InstanceType><LaunchTemplateSpecification><LaunchTemplateId>lt-other</LaunchTemplateId></LaunchTemplateSpecification></member>";
    for (overrides, part) in [
        (weighted, "WeightedCapacity"),
        (chosen, "InstanceRequirements"),
        (own, "launch template of its own"),
    ] {
        let (_, failure) =
            refused(|state| change(state, |group| group.overrides = Some(overrides.to_owned())));
        assert_eq!(failure.code, FailureCode::Invalid);
        assert!(failure.message.contains(part), "{}", failure.message);
        assert!(failure.message.contains("Overrides"), "{}", failure.message);
    }
    let (_, failure) = refused(|state| change(state, |group| group.template = None));
    assert!(
        failure.message.contains("LaunchTemplate: found none"),
        "{}",
        failure.message
    );
    let (_, failure) = refused(|state| change(state, |group| group.subnets = String::new()));
    assert!(
        failure.message.contains("VPCZoneIdentifier"),
        "{}",
        failure.message
    );
}

#[test]
fn a_mixed_policy_gives_its_first_type() {
    let aws = Aws1::new();
    let types = "<member><InstanceType>m6i.large</InstanceType></member><member><InstanceType>m5.large</InstanceType></member>";
    change(&mut aws.cloud.state(), |group| {
        group.overrides = Some(types.to_owned());
    });
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    assert_eq!(
        aws.cloud.state().instance(&id_of(&node)).unwrap().kind,
        "m6i.large"
    );
}

#[test]
fn a_template_with_network_interfaces_keeps_their_security_groups() {
    let aws = Aws1::new();
    let groups = vec!["sg-1".to_owned(), "sg-2".to_owned()];
    aws.cloud
        .state()
        .templates
        .get_mut("lt-control")
        .unwrap()
        .versions[0]
        .interface = Some(groups.clone());
    let node = aws.create("control", "numo-1a").unwrap();
    let state = aws.cloud.state();
    let instance = state.instance(&id_of(&node)).unwrap();
    assert_eq!(instance.security_groups, groups);
    assert_eq!(instance.subnet, "subnet-a");
    drop(state);
    aws.cloud
        .state()
        .templates
        .get_mut("lt-control")
        .unwrap()
        .versions[0]
        .odd = true;
    let failure = aws.create("control", "numo-1b").unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid);
    assert!(failure.message.contains("primaryIpv6"), "{}", failure.message);
}

#[test]
fn a_machine_that_ended_while_it_started_is_told_and_not_made_again() {
    let aws = Aws1::new();
    let Creation::Pending(pending) = aws.ask("control", "numo-1a", None).unwrap() else {
        panic!("made at once");
    };
    let id = aws.cloud.state().made_for("numo-1a")[0].id.clone();
    aws.cloud.state().instance_mut(&id).unwrap().end();
    for token in [Some(pending.token), None] {
        let node = aws.create_from("control", "numo-1a", token).unwrap();
        assert_eq!(id_of(&node), id);
        let state = aws
            .call(|world| Aws::node_state(world, &node.provider_id))
            .unwrap();
        assert!(matches!(state, NodeState::Terminating | NodeState::Terminated));
    }
    assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1);
    assert_eq!(aws.cloud.state().count("AttachInstances"), 0);
}

#[test]
fn a_stopped_machine_is_not_attached() {
    let aws = Aws1::new();
    aws.ask("control", "numo-1a", None).unwrap();
    let id = aws.cloud.state().made_for("numo-1a")[0].id.clone();
    "stopped".clone_into(&mut aws.cloud.state().instance_mut(&id).unwrap().state);
    let failure = aws.create("control", "numo-1a").unwrap_err();
    assert!(failure.message.contains("stopped"), "{}", failure.message);
    let state = aws
        .call(|world| Aws::node_state(world, &aws.provider_id(&id)))
        .unwrap();
    assert_eq!(state, NodeState::Stopped);
}

#[test]
fn a_machine_that_somebody_put_into_another_group_is_not_taken() {
    let aws = Aws1::new();
    aws.ask("control", "numo-1a", None).unwrap();
    let id = aws.cloud.state().made_for("numo-1a")[0].id.clone();
    aws.cloud.state().instance_mut(&id).unwrap().group = Some("another-cluster".to_owned());
    let failure = aws.create("control", "numo-1a").unwrap_err();
    assert!(failure.message.contains("another-cluster"), "{}", failure.message);
}

#[test]
fn new_machines_get_the_image_that_was_set_before() {
    let aws = Aws1::new();
    aws.call(|world| Aws::set_group_image(world, WORKERS, NEW, None))
        .unwrap();
    let node = aws.create(WORKERS, "numo-1a").unwrap();
    let image = aws
        .call(|world| Aws::node_image(world, &node.provider_id))
        .unwrap();
    assert_eq!(image, NEW);
}

#[test]
fn odd_names_of_groups_go_through_both_apis() {
    let aws = Aws1::new();
    let odd = "Wörker & <Söhne>/1 +%";
    {
        let mut state = aws.cloud.state();
        let group = state.groups["control"].clone();
        state.groups.insert(odd.to_owned(), group);
        state.groups.get_mut(odd).unwrap().desired = 0;
        state.groups.get_mut(odd).unwrap().min = 0;
        state
            .groups
            .get_mut(odd)
            .unwrap()
            .tags
            .push(tag("note", "a & b = <c>"));
    }
    let node = aws.create(odd, "numo-1a").unwrap();
    let group = aws
        .call(|world| Aws::scaling_group_id(world, &node.provider_id))
        .unwrap();
    assert_eq!(group, odd);
    assert_eq!(
        aws.cloud.state().made_for("numo-1a")[0].tags["note"],
        "a & b = <c>"
    );
    aws.call(|world| Aws::delete_node(world, &node.provider_id))
        .unwrap();
    assert_eq!(aws.cloud.state().groups[odd].desired, 0);
}
