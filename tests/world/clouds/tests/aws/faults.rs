//! What AWS refuses, in the contract's words; and bad input, which is not sent.

use crate::setup::{Aws1, NEW, OLD, SETTINGS, WORKERS};
use numo_clouds::aws::Fault;
use numo_provider_sdk::{Failure, FailureCode, NodeState, Provider, fake::World};
use provider_aws::Aws;

type Ask = fn(&Aws1) -> Result<(), Failure>;

/// Every operation, and the action that it begins with.
const OPERATIONS: [(&str, &str, Ask); 8] = [
    ("create", "DescribeAutoScalingGroups", |aws| {
        aws.create(WORKERS, "numo-1a").map(|_| ())
    }),
    ("find", "DescribeInstances", |aws| {
        aws.call(|world| Aws::find_node(world, WORKERS, "numo-1a").map(|_| ()))
    }),
    ("delete", "DescribeAutoScalingGroups", |aws| {
        let id = aws.provider_id(&aws.member(WORKERS));
        aws.call(|world| Aws::delete_node(world, &id))
    }),
    ("state", "DescribeInstances", |aws| {
        let id = aws.provider_id(&aws.member(WORKERS));
        aws.call(|world| Aws::node_state(world, &id).map(|_| ()))
    }),
    ("image", "DescribeInstances", |aws| {
        let id = aws.provider_id(&aws.member(WORKERS));
        aws.call(|world| Aws::node_image(world, &id).map(|_| ()))
    }),
    ("group image", "DescribeLaunchTemplateVersions", |aws| {
        aws.call(|world| Aws::group_image(world, WORKERS).map(|_| ()))
    }),
    ("set image", "DescribeImages", |aws| {
        aws.call(|world| Aws::set_group_image(world, WORKERS, NEW, None).map(|_| ()))
    }),
    ("groups", "DescribeAutoScalingGroups", |aws| {
        aws.call(|world| Aws::groups(world, "c1").map(|_| ()))
    }),
];

fn failed(fault: &Fault) -> Vec<Failure> {
    let failures = OPERATIONS.iter().map(|(name, action, ask)| {
        let aws = Aws1::new();
        aws.cloud.state().faults.push(Fault {
            action: (*action).to_owned(),
            ..fault.clone()
        });
        let living = aws.living();
        let failure = ask(&aws).expect_err(name);
        assert_eq!(aws.living(), living, "{name}");
        assert!(failure.message.len() <= 1024, "{name}");
        assert!(failure.message.contains(action), "{name}: {}", failure.message);
        failure
    });
    failures.collect()
}

#[test]
fn codes_of_aws_are_told_by_what_numo_does_about_them() {
    for (status, code, wanted) in [
        (503, "RequestLimitExceeded", FailureCode::Throttled),
        (400, "Throttling", FailureCode::Throttled),
        (403, "UnauthorizedOperation", FailureCode::Denied),
        (401, "AuthFailure", FailureCode::Denied),
        (403, "AccessDenied", FailureCode::Denied),
        (403, "ExpiredToken", FailureCode::Denied),
        (500, "InternalError", FailureCode::Unavailable),
        (503, "Unavailable", FailureCode::Unavailable),
        (500, "ResourceContention", FailureCode::Unavailable),
        (400, "InstanceLimitExceeded", FailureCode::Exhausted),
        (400, "SomethingNobodyKnows", FailureCode::Other),
    ] {
        for failure in failed(&Fault::error("", status, code, "the cloud's own words")) {
            assert_eq!(failure.code, wanted, "{code}: {}", failure.message);
            assert!(failure.message.contains(code), "{}", failure.message);
            assert!(
                failure.message.contains("the cloud's own words"),
                "{}",
                failure.message
            );
            assert_eq!(
                failure.retry_after_seconds.is_some(),
                wanted == FailureCode::Throttled
            );
        }
    }
}

#[test]
fn the_time_of_a_throttled_answer_is_kept() {
    let mut fault = Fault::error("", 503, "RequestLimitExceeded", "Request limit exceeded.");
    fault.headers.push(("retry-after", "17".to_owned()));
    for failure in failed(&fault) {
        assert_eq!(failure.retry_after_seconds, Some(17));
    }
    let mut fault = Fault::raw("", 429, Vec::new());
    fault.headers.push(("retry-after", "9".to_owned()));
    for failure in failed(&fault) {
        assert_eq!(
            (failure.code, failure.retry_after_seconds),
            (FailureCode::Throttled, Some(9))
        );
    }
}

#[test]
fn long_and_wild_words_of_the_cloud_are_cut() {
    let words = format!(
        "Encoded authorization failure message: {}\u{7}\n",
        "Zé".repeat(4000)
    );
    for failure in failed(&Fault::error(
        "",
        403,
        "UnauthorizedOperation",
        &words.replace('\u{7}', " "),
    )) {
        assert_eq!(failure.code, FailureCode::Denied);
        assert!(!failure.message.chars().any(char::is_control));
    }
}

#[test]
fn a_denied_launch_or_attachment_is_told_and_ends_by_itself() {
    for action in ["RunInstances", "AttachInstances"] {
        let aws = Aws1::new();
        let fault = Fault::error(action, 403, "UnauthorizedOperation", "You are not authorized");
        aws.cloud.state().faults.push(fault);
        let failure = aws.create(WORKERS, "numo-1a").unwrap_err();
        assert_eq!(failure.code, FailureCode::Denied);
        aws.create(WORKERS, "numo-1a").unwrap();
        assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1, "{action}");
    }
}

#[test]
fn a_request_without_authorization_is_denied_by_both_apis() {
    let aws = Aws1::new();
    aws.call(|world| {
        let inner = world.cloud.as_ref().unwrap();
        let strip = |url: &str, body: &str| {
            let request = numo_provider_sdk::host::Request {
                method: numo_provider_sdk::host::Method::Post,
                url: url.to_owned(),
                headers: Vec::new(),
                body: body.as_bytes().to_vec(),
                authorization: None,
            };
            let response = inner(&request).unwrap();
            (response.status, String::from_utf8(response.body).unwrap())
        };
        let (status, body) = strip(
            "https://ec2.eu-central-1.amazonaws.com/",
            "Action=DescribeInstances&Version=2016-11-15",
        );
        assert_eq!(status, 401);
        assert!(body.contains("AuthFailure"));
        let (status, body) = strip(
            "https://autoscaling.eu-central-1.amazonaws.com/",
            "Action=DescribeAutoScalingGroups&Version=2011-01-01",
        );
        assert_eq!(status, 403);
        assert!(body.contains("MissingAuthenticationToken"));
    });
}

#[test]
fn a_host_without_grants_is_denied() {
    let world = World {
        config_json: SETTINGS.to_owned(),
        ..World::default()
    };
    let failure = Aws::groups(&world, "c1").unwrap_err();
    assert_eq!(failure.code, FailureCode::Denied);
    assert!(
        failure.message.contains("DescribeAutoScalingGroups"),
        "{}",
        failure.message
    );
}

#[test]
fn settings_that_are_missing_or_wrong_are_named() {
    for (settings, part) in [
        ("{}", "region"),
        (r#"{"region": ""}"#, "region"),
        (r#"{"region": 3}"#, "region"),
        (r#"{"region": "eu central"}"#, "region"),
        (r#"{"region": "evil.example/x-1"}"#, "region"),
        (
            r#"{"region": "eu-central-1", "nodeName": "hostname"}"#,
            "nodeName",
        ),
        (r#"{"region": "eu-central-1", "ec2Host": "https://x"}"#, "ec2Host"),
        (
            r#"{"region": "eu-central-1", "autoscalingHost": "u@x"}"#,
            "autoscalingHost",
        ),
        (r#"{"region": "eu-central-1", "uidTag": "a*"}"#, "uidTag"),
        (r#"{"region": "eu-central-1", "credential": []}"#, "credential"),
        ("nonsense", "JSON"),
    ] {
        let aws = Aws1::new();
        *aws.settings.borrow_mut() = settings.to_owned();
        for (name, _, ask) in OPERATIONS {
            let failure = ask(&aws).expect_err(name);
            assert_eq!(failure.code, FailureCode::Invalid, "{settings}");
            assert!(failure.message.contains(part), "{settings}: {}", failure.message);
        }
        assert_eq!(aws.sent(), 0, "{settings}");
    }
}

#[test]
fn wrong_ids_are_refused_before_anything_is_sent() {
    let aws = Aws1::new();
    for id in [
        "",
        "i-00000000000000001",
        "aws://eu-central-1a/i-00000000000000001",
        "aws:///eu-central-1a/i-00000000000000001/more",
        "aws:///eu-central-1a/i-xyz",
        "aws:///eu-central-1a/",
        "aws:////i-00000000000000001",
        "gce:///eu-central-1a/i-00000000000000001",
        "aws:///us-east-1a/i-00000000000000001",
        "aws:///eu-central-1a/i-0000000&Action=x",
    ] {
        let failures = [
            aws.call(|world| Aws::node_image(world, id).map(|_| ())),
            aws.call(|world| Aws::scaling_group_id(world, id).map(|_| ())),
            aws.call(|world| Aws::delete_node(world, id)),
            aws.call(|world| Aws::node_state(world, id).map(|_| ())),
        ];
        for failure in failures.map(Result::unwrap_err) {
            assert_eq!(failure.code, FailureCode::Invalid, "{id}");
            assert!(failure.message.contains("providerID"), "{}", failure.message);
        }
    }
    for group in ["", "a:b", "a\nb", &"x".repeat(256)] {
        let failure = aws.ask(group, "numo-1a", None).unwrap_err();
        assert_eq!(failure.code, FailureCode::Invalid);
        assert!(Aws::group_name(group).is_err() && Aws::autoscaling_group_name(group).is_err());
    }
    for request in ["", "Numo", "a b", &"a".repeat(33)] {
        assert_eq!(
            aws.ask(WORKERS, request, None).unwrap_err().code,
            FailureCode::Invalid
        );
        let found = aws.call(|world| Aws::find_node(world, WORKERS, request));
        assert_eq!(found.unwrap_err().code, FailureCode::Invalid);
    }
    assert_eq!(
        aws.call(|world| Aws::groups(world, "")).unwrap_err().code,
        FailureCode::Invalid
    );
    assert_eq!(aws.sent(), 0);
}

#[test]
fn a_token_that_is_not_ours_is_no_token() {
    for token in [
        "",
        "x",
        r#"{"at":1}"#,
        r#"{"at":1800000000,"from":0,"subnets":["subnet-b"]}"#,
    ] {
        let aws = Aws1::new();
        aws.create_from(WORKERS, "numo-1a", Some(token.to_owned()))
            .unwrap();
        assert_eq!(aws.cloud.state().made_for("numo-1a").len(), 1, "{token}");
    }
}

#[test]
fn what_does_not_exist_is_not_found_and_a_machine_is_terminated() {
    let aws = Aws1::new();
    let gone = "aws:///eu-central-1a/i-00000000000000bad";
    assert_eq!(
        aws.call(|world| Aws::node_state(world, gone)).unwrap(),
        NodeState::Terminated
    );
    let failure = aws.call(|world| Aws::node_image(world, gone)).unwrap_err();
    assert_eq!(failure.code, FailureCode::NotFound);
    let failure = aws.call(|world| Aws::scaling_group_id(world, gone)).unwrap_err();
    assert_eq!(failure.code, FailureCode::NotFound);
    for ask in [
        aws.ask("nobody", "numo-1a", None).map(|_| ()),
        aws.call(|world| Aws::group_image(world, "nobody").map(|_| ())),
        aws.call(|world| Aws::set_group_image(world, "nobody", OLD, None).map(|_| ())),
    ] {
        let failure = ask.unwrap_err();
        assert_eq!(failure.code, FailureCode::NotFound);
        assert!(failure.message.contains("nobody"), "{}", failure.message);
    }
}

#[test]
fn a_machine_of_no_group_has_none() {
    let aws = Aws1::new();
    let id = aws.member(WORKERS);
    aws.cloud.state().instance_mut(&id).unwrap().group = None;
    let provider_id = aws.provider_id(&id);
    let failure = aws
        .call(|world| Aws::scaling_group_id(world, &provider_id))
        .unwrap_err();
    assert_eq!(failure.code, FailureCode::NotFound);
    assert!(
        failure.message.contains("aws:autoscaling:groupName"),
        "{}",
        failure.message
    );
}
