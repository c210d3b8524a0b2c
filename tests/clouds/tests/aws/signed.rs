//! With keys the local cloud takes only requests that are signed with them.

use crate::setup::Aws1;
use numo_clouds::aws::Keys;
use numo_provider_sdk::{FailureCode, Provider};
use provider_aws::Aws;

#[test]
fn a_request_that_only_says_how_it_is_signed_is_refused_once_there_are_keys() {
    let aws = Aws1::new();
    aws.cloud.state().keys = Some(Keys {
        access: "AKIDEXAMPLE".to_owned(),
        secret: "secret".to_owned(),
        session: None,
        region: "eu-central-1".to_owned(),
    });
    let failure = aws.call(|world| Aws::groups(world, "c1")).unwrap_err();
    assert_eq!(failure.code, FailureCode::Denied);
    assert!(
        failure.message.contains("MissingAuthenticationToken"),
        "{}",
        failure.message
    );
    assert_eq!(aws.cloud.state().count("DescribeAutoScalingGroups"), 1);
}

#[test]
fn every_request_names_its_service_and_region_and_carries_no_authorization_of_its_own() {
    let aws = Aws1::new();
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let noted = seen.clone();
    let world = numo_provider_sdk::fake::World {
        config_json: aws.settings.borrow().replace('}', r#", "credential": "other"}"#),
        cloud: Some(Box::new(move |request| {
            noted.borrow_mut().push(request.clone());
            Ok(numo_provider_sdk::host::Response {
                status: 503,
                headers: Vec::new(),
                body: Vec::new(),
            })
        })),
        ..numo_provider_sdk::fake::World::default()
    };
    Aws::groups(&world, "c1").unwrap_err();
    Aws::find_node(&world, "g", "numo-1a").unwrap_err();
    let services: Vec<String> = seen
        .borrow()
        .iter()
        .map(|request| {
            let signed = request.authorization.as_ref().unwrap();
            assert_eq!(
                (signed.scheme.as_str(), signed.credential.as_str()),
                ("aws-sigv4", "other")
            );
            assert!(request.headers.iter().all(|(name, _)| name == "content-type"));
            let region = ("region".to_owned(), "eu-central-1".to_owned());
            assert!(signed.parameters.contains(&region));
            let mut parameters = signed.parameters.iter();
            parameters.find(|(name, _)| name == "service").unwrap().1.clone()
        })
        .collect();
    assert_eq!(services, ["autoscaling", "ec2"]);
}
