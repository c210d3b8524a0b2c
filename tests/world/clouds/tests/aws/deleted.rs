//! What is deleted, and above all what is not.

use crate::setup::{Aws1, STRANGE, WORKERS};
use numo_clouds::aws::State;
use numo_provider_sdk::{Failure, FailureCode, NodeState, Provider};
use provider_aws::Aws;

fn delete(aws: &Aws1, id: &str) -> Result<(), Failure> {
    let provider_id = aws.provider_id(id);
    aws.call(|world| Aws::delete_node(world, &provider_id))
}

#[test]
fn a_machine_of_an_unmanaged_group_is_never_deleted() {
    let aws = Aws1::new();
    let id = aws.member(WORKERS);
    let unmanage = |state: &mut State| {
        let tags = &mut state.groups.get_mut(WORKERS).unwrap().tags;
        tags.retain(|(key, _, _)| key != "constellation-uid");
    };
    unmanage(&mut aws.cloud.state());
    let failure = delete(&aws, &id).unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid);
    for part in [id.as_str(), "constellation-uid", "nothing is deleted"] {
        assert!(failure.message.contains(part), "{part}: {}", failure.message);
    }
    let state = aws.cloud.state();
    assert!(state.instance(&id).unwrap().lives());
    assert_eq!(
        state.count("TerminateInstanceInAutoScalingGroup") + state.count("TerminateInstances"),
        0
    );
}

#[test]
fn with_a_uid_a_machine_of_another_cluster_is_never_deleted() {
    let aws = Aws1::new();
    *aws.settings.borrow_mut() = r#"{"region": "eu-central-1", "uid": "c1"}"#.to_owned();
    let id = aws.member(STRANGE);
    let failure = delete(&aws, &id).unwrap_err();
    assert!(
        failure.message.contains("constellation-uid=c1"),
        "{}",
        failure.message
    );
    assert!(aws.cloud.state().instance(&id).unwrap().lives());
    delete(&aws, &aws.member(WORKERS)).unwrap();
}

#[test]
fn a_machine_of_no_group_that_numo_did_not_make_is_never_deleted() {
    let aws = Aws1::new();
    let id = aws.member(WORKERS);
    aws.cloud.state().instance_mut(&id).unwrap().group = None;
    let failure = delete(&aws, &id).unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid);
    assert!(failure.message.contains("numo-request"), "{}", failure.message);
    assert!(aws.cloud.state().instance(&id).unwrap().lives());
}

#[test]
fn the_smallest_size_is_named_with_its_field_and_nothing_is_deleted() {
    let aws = Aws1::new();
    aws.cloud.state().groups.get_mut(WORKERS).unwrap().min = 3;
    let id = aws.member(WORKERS);
    let failure = delete(&aws, &id).unwrap_err();
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(
        failure.message.contains("MinSize: found 3"),
        "{}",
        failure.message
    );
    assert_eq!(aws.actions(), ["DescribeAutoScalingGroups"]);
    assert!(aws.cloud.state().instance(&id).unwrap().lives());

    // Somebody raises it between the look and the deletion.
    let aws = Aws1::new();
    let raise = |state: &mut State| state.groups.get_mut(WORKERS).unwrap().min = 3;
    aws.cloud.state().meddles.push((1, Box::new(raise)));
    let failure = delete(&aws, &aws.member(WORKERS)).unwrap_err();
    assert_eq!(failure.code, FailureCode::Exhausted);
    assert!(failure.message.contains("MinSize"), "{}", failure.message);
}

#[test]
fn a_machine_that_ends_is_not_deleted_again() {
    let aws = Aws1::new();
    aws.cloud.state().groups.get_mut(WORKERS).unwrap().min = 0;
    let id = aws.member(WORKERS);
    for _ in 0..3 {
        delete(&aws, &id).unwrap();
    }
    let state = aws.cloud.state();
    assert_eq!(state.count("TerminateInstanceInAutoScalingGroup"), 1);
    assert_eq!(state.groups[WORKERS].desired, 2);
    assert_eq!(state.members(WORKERS).len(), 2);
}

#[test]
fn a_machine_that_ec2_does_not_know_is_deleted_already() {
    let aws = Aws1::new();
    let gone = "aws:///eu-central-1a/i-00000000000000bad";
    aws.call(|world| Aws::delete_node(world, gone)).unwrap();
    assert_eq!(aws.cloud.state().groups[WORKERS].desired, 3);
}

#[test]
fn a_machine_is_found_on_a_later_page() {
    let aws = Aws1::new();
    aws.cloud.state().page = 1;
    delete(&aws, &aws.member(STRANGE)).unwrap();
    delete(&aws, &aws.member(WORKERS)).unwrap();
    assert_eq!(aws.cloud.state().groups[WORKERS].desired, 2);
}

#[test]
fn a_machine_that_leaves_its_group_meanwhile_is_looked_for_again() {
    let aws = Aws1::new();
    let id = aws.member(WORKERS);
    let leaves = {
        let id = id.clone();
        move |state: &mut State| {
            state.fills = false;
            state.instance_mut(&id).unwrap().group = None;
        }
    };
    aws.cloud.state().meddles.push((1, Box::new(leaves)));
    let failure = delete(&aws, &id).unwrap_err();
    assert_eq!(failure.code, FailureCode::Unavailable);
    assert!(aws.cloud.state().instance(&id).unwrap().lives());
}

#[test]
fn the_case_of_a_provider_id_does_not_matter() {
    let aws = Aws1::new();
    let id = aws.member(WORKERS);
    let provider_id = aws.provider_id(&id).to_uppercase();
    aws.call(|world| Aws::delete_node(world, &provider_id)).unwrap();
    assert!(!aws.cloud.state().instance(&id).unwrap().lives());
}

/// Settings, and what the account is like.
type Case = (&'static str, fn(&mut State));

#[test]
fn a_machine_counts_as_gone_only_where_the_cluster_is() {
    // The keys are those of another account, or the region is another: there is no machine, and no group of the cluster.
    let nothing = |state: &mut State| {
        state.groups.clear();
        state.instances.clear();
    };
    // Another account may have a cluster of its own.
    let of_others = |state: &mut State| {
        state.groups.retain(|name, _| name == STRANGE);
        state
            .instances
            .retain(|instance| instance.group.as_deref() == Some(STRANGE));
    };
    let with_uid = r#"{"region": "eu-central-1", "uid": "c1"}"#;
    let cases: [Case; 3] = [
        (r#"{"region": "eu-central-1"}"#, nothing),
        (with_uid, nothing),
        (with_uid, of_others),
    ];
    for (settings, changes) in cases {
        let aws = Aws1::new();
        *aws.settings.borrow_mut() = settings.to_owned();
        let id = aws.provider_id(&aws.member(WORKERS));
        changes(&mut aws.cloud.state());
        let state = aws.call(|world| Aws::node_state(world, &id)).map(|_| ());
        let deletion = aws.call(|world| Aws::delete_node(world, &id));
        for failure in [state, deletion].map(Result::unwrap_err) {
            assert_eq!(
                failure.code,
                FailureCode::Unavailable,
                "{settings}: {}",
                failure.message
            );
            for part in ["constellation-uid", "eu-central-1", "credential aws"] {
                assert!(failure.message.contains(part), "{part}: {}", failure.message);
            }
        }
    }
}

#[test]
fn a_machine_that_is_gone_costs_one_call_more_and_one_that_is_there_none() {
    let aws = Aws1::new();
    *aws.settings.borrow_mut() = r#"{"region": "eu-central-1", "uid": "c1"}"#.to_owned();
    let id = aws.provider_id(&aws.member(WORKERS));
    let gone = "aws:///eu-central-1a/i-00000000000000bad";
    aws.call(|world| Aws::node_state(world, &id)).unwrap();
    assert_eq!(aws.sent(), 1);
    let state = aws.call(|world| Aws::node_state(world, gone)).unwrap();
    assert_eq!(state, NodeState::Terminated);
    assert_eq!(aws.sent(), 3);
    // Its deletion has asked for the groups already.
    aws.call(|world| Aws::delete_node(world, gone)).unwrap();
    assert_eq!(aws.sent(), 5);
}
