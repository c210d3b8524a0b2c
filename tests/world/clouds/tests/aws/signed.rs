//! With keys the local cloud takes only requests that are signed with them.

use crate::setup::Aws1;
use axum::http::HeaderMap;
use numo_clouds::aws::{Keys, sigv4};
use numo_provider_sdk::{
    FailureCode, Provider,
    host::{Method, Request},
};
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

/// Sends a signed request as it is, with another body than the signed one if told so.
fn send(aws: &Aws1, keys: &Keys, signed: &str, sent: &str) -> (u16, String) {
    let mut headers = HeaderMap::new();
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    for (name, value) in [
        ("host", "ec2.eu-central-1.amazonaws.com"),
        ("x-amz-date", "20261129T093000Z"),
        ("content-type", form),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    if let Some(session) = &keys.session {
        headers.insert("x-amz-security-token", session.parse().unwrap());
    }
    let request = sigv4::Signed {
        method: "POST",
        path: "/",
        query: "",
        headers: &headers,
        body: signed.as_bytes(),
    };
    let authorization = sigv4::sign(&request, keys, "ec2").unwrap();
    headers.insert("authorization", authorization.parse().unwrap());
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    let request = Request {
        method: Method::Post,
        url: "https://ec2.eu-central-1.amazonaws.com/".to_owned(),
        headers: headers.collect(),
        body: sent.as_bytes().to_vec(),
        authorization: None,
    };
    let response = aws.call(|world| world.cloud.as_ref().unwrap()(&request).unwrap());
    (response.status, String::from_utf8(response.body).unwrap())
}

#[test]
fn a_signed_request_is_taken_and_one_that_was_changed_or_signed_by_others_is_not() {
    let aws = Aws1::new();
    let keys = Keys {
        access: "AKIDEXAMPLE".to_owned(),
        secret: "secret".to_owned(),
        session: Some("session".to_owned()),
        region: "eu-central-1".to_owned(),
    };
    aws.cloud.state().keys = Some(keys.clone());
    let body = "Action=DescribeInstances&Version=2016-11-15";
    let (status, answer) = send(&aws, &keys, body, body);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = send(&aws, &keys, body, &body.replace("Describe", "Terminate"));
    assert_eq!(status, 403);
    assert!(answer.contains("SignatureDoesNotMatch"), "{answer}");
    let change = |change: fn(&mut Keys)| {
        let mut other = keys.clone();
        change(&mut other);
        send(&aws, &other, body, body)
    };
    for (status, answer) in [
        change(|keys| keys.secret.push('x')),
        change(|keys| keys.access.push('x')),
        change(|keys| keys.session = None),
        change(|keys| "us-east-1".clone_into(&mut keys.region)),
    ] {
        assert_eq!(status, 403, "{answer}");
    }
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
