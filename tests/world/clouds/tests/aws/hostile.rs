//! Answers that are no answers: cut, huge, of something else. Nothing panics, nothing is made twice, nothing is deleted on their word.

use crate::setup::{Aws1, NEW, WORKERS};
use numo_clouds::aws::Fault;
use numo_provider_sdk::{FailureCode, Provider};
use provider_aws::Aws;

const ACTIONS: [&str; 9] = [
    "DescribeAutoScalingGroups",
    "DescribeSubnets",
    "DescribeInstances",
    "RunInstances",
    "AttachInstances",
    "TerminateInstanceInAutoScalingGroup",
    "DescribeLaunchTemplateVersions",
    "DescribeImages",
    "CreateLaunchTemplateVersion",
];

fn bodies(action: &str) -> Vec<Vec<u8>> {
    let root = |inner: &str| format!("<{action}Response>{inner}</{action}Response>").into_bytes();
    let deep = "<a>".repeat(100_000) + &"</a>".repeat(100_000);
    let laughs = format!(
        "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><{action}Response>&b;</{action}Response>"
    );
    vec![
        Vec::new(),
        b"<html><body>Sign in to the proxy</body></html>".to_vec(),
        b"{\"Message\": \"json\"}".to_vec(),
        vec![0xff, 0xfe, 0x00, 0x41],
        root("")[..8].to_vec(),
        root("<reservationSet><item><instancesSet><item><instanceId>i-1"),
        root("&undefined;"),
        root(&deep),
        laughs.into_bytes(),
        vec![b'<'; 1 << 20],
        vec![b' '; 9 << 20],
    ]
}

/// Asks for all operations, and asserts that nothing was harmed.
fn ask_all(aws: &Aws1) -> Vec<FailureCode> {
    let id = aws.provider_id(&aws.member(WORKERS));
    let mut failures = vec![
        aws.create(WORKERS, "numo-1a").map(|_| ()),
        aws.call(|world| Aws::set_group_image(world, WORKERS, NEW, None).map(|_| ())),
        aws.call(|world| Aws::groups(world, "c1").map(|_| ())),
        aws.call(|world| Aws::node_image(world, &id).map(|_| ())),
        aws.call(|world| Aws::node_state(world, &id).map(|_| ())),
        aws.call(|world| Aws::delete_node(world, &id)),
    ];
    let failures = failures.drain(..).filter_map(Result::err);
    failures
        .map(|failure| {
            assert!(!failure.message.is_empty() && failure.message.len() <= 1024);
            failure.code
        })
        .collect()
}

#[test]
fn an_answer_that_is_none_is_a_failure_and_the_next_try_goes_on() {
    for action in ACTIONS {
        for body in bodies(action) {
            for status in [200, 500] {
                let aws = Aws1::new();
                let times = 20;
                let fault = Fault::raw(action, status, body.clone());
                aws.cloud.state().faults.push(Fault { times, ..fault });
                let codes = ask_all(&aws);
                // These two answer nothing but that they are done, which the name of the answer says.
                let is_empty = ["AttachInstances", "TerminateInstanceInAutoScalingGroup"].contains(&action);
                let begins = &body[..body.len().min(40)];
                assert!(is_empty || !codes.is_empty(), "{action}: {begins:?}");
                assert!(
                    codes.iter().all(|code| *code == FailureCode::Unavailable),
                    "{action}, {status}: {codes:?}"
                );
                aws.cloud.state().faults.clear();
                aws.now.set(aws.now.get() + 600);
                aws.create(WORKERS, "numo-1a").unwrap();
                assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1, "{action}");
            }
        }
    }
}

#[test]
fn an_answer_without_what_was_asked_for_is_no_success() {
    for (action, inner) in [
        ("RunInstances", "<instancesSet/>"),
        (
            "RunInstances",
            "<instancesSet><item><instanceId/></item></instancesSet>",
        ),
        ("DescribeLaunchTemplateVersions", "<launchTemplateVersionSet/>"),
        (
            "DescribeLaunchTemplateVersions",
            "<launchTemplateVersionSet><item><versionNumber>-1</versionNumber></item></launchTemplateVersionSet>",
        ),
        ("DescribeImages", "<imagesSet/>"),
        (
            "DescribeImages",
            "<imagesSet><item><imageId>ami-99999999</imageId><imageState>available</imageState></item></imagesSet>",
        ),
        ("CreateLaunchTemplateVersion", "<launchTemplateVersion/>"),
        ("DescribeAutoScalingGroups", "<DescribeAutoScalingGroupsResult/>"),
        (
            "DescribeAutoScalingGroups",
            "<DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>Workers-A</AutoScalingGroupName><MinSize>99999999999999999999</MinSize></member></AutoScalingGroups></DescribeAutoScalingGroupsResult>",
        ),
    ] {
        let aws = Aws1::new();
        let body = format!("<{action}Response>{inner}</{action}Response>").into_bytes();
        let fault = Fault::raw(action, 200, body);
        aws.cloud.state().faults.push(Fault { times: 40, ..fault });
        let id = aws.provider_id(&aws.member(WORKERS));
        let made = aws.create(WORKERS, "numo-1a").is_ok();
        let set = aws
            .call(|world| Aws::set_group_image(world, WORKERS, NEW, None))
            .is_ok();
        assert!(!(made && set), "{action}: {inner}");
        assert_ne!(
            set,
            aws.cloud.state().templates["lt-workers"].default == 1,
            "{action}: {inner}"
        );
        if action.contains("Groups") {
            aws.call(|world| Aws::delete_node(world, &id)).unwrap_err();
            assert!(aws.living().iter().any(|living| id.ends_with(living)));
            aws.call(|world| Aws::groups(world, "c1")).unwrap_err();
        }
    }
}

#[test]
fn no_odd_answer_makes_a_machine_look_gone() {
    for inner in [
        "",
        "<reservationSet><item><instancesSet><item><instanceId>i-0000000000000dead</instanceId><instanceState><name>terminated</name></instanceState></item></instancesSet></item></reservationSet>",
        "<reservationSet><item><instancesSet><item><instanceState><name>running</name></instanceState></item></instancesSet></item></reservationSet>",
        "<reservationSet><item><instancesSet><item><instanceId>i-0000000000000dead</instanceId></item></instancesSet></item></reservationSet>",
    ] {
        let aws = Aws1::new();
        let body = format!("<DescribeInstancesResponse>{inner}</DescribeInstancesResponse>");
        let fault = Fault::raw("DescribeInstances", 200, body.into_bytes());
        aws.cloud.state().faults.push(fault);
        let id = aws.provider_id(&aws.member(WORKERS));
        let failure = aws.call(|world| Aws::node_state(world, &id)).unwrap_err();
        assert_eq!(failure.code, FailureCode::Unavailable, "{inner}");
    }
}

#[test]
fn a_machine_of_another_id_or_request_is_not_taken_for_the_one_that_was_asked_for() {
    let aws = Aws1::new();
    let other = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-0000000000000dead</instanceId><instanceState><name>terminated</name></instanceState></item></instancesSet></item></reservationSet></DescribeInstancesResponse>";
    let fault = Fault::raw("DescribeInstances", 200, other.as_bytes().to_vec());
    aws.cloud.state().faults.push(Fault { times: 2, ..fault });
    assert_eq!(
        aws.call(|world| Aws::find_node(world, WORKERS, "numo-1a"))
            .unwrap(),
        None
    );
    let id = aws.provider_id(&aws.member(WORKERS));
    assert!(aws.call(|world| Aws::node_image(world, &id)).is_err());
}

#[test]
fn a_filter_that_the_cloud_does_not_know_deletes_nothing_of_other_clusters() {
    // An answer with all groups of the account, whatever was asked.
    let aws = Aws1::new();
    *aws.settings.borrow_mut() = r#"{"region": "eu-central-1", "uid": "c1"}"#.to_owned();
    let id = aws.cloud.state().members("another-cluster")[0].id.clone();
    let all = format!(
        "<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member><AutoScalingGroupName>another-cluster</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>5</MaxSize><DesiredCapacity>3</DesiredCapacity><Instances><member><InstanceId>{id}</InstanceId><LifecycleState>InService</LifecycleState></member></Instances><Tags><member><Key>constellation-uid</Key><Value>c2</Value></member></Tags></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>"
    );
    let fault = Fault::raw("DescribeAutoScalingGroups", 200, all.into_bytes());
    aws.cloud.state().faults.push(fault);
    let provider_id = aws.provider_id(&id);
    aws.call(|world| Aws::delete_node(world, &provider_id))
        .unwrap_err();
    assert!(aws.cloud.state().instance(&id).unwrap().lives());
}
