//! The published examples of AWS signatures, version 4, against what the local cloud verifies with.

use axum::http::HeaderMap;
use numo_clouds::aws::{
    Keys,
    sigv4::{Signed, hex, signing_key, verify},
};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn keys() -> Keys {
    Keys {
        access: "AKIDEXAMPLE".to_owned(),
        secret: SECRET.to_owned(),
        session: None,
        region: "us-east-1".to_owned(),
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect()
}

/// The example of the documentation: `ListUsers` of IAM.
fn example() -> HeaderMap {
    headers(&[
        ("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
        ("host", "iam.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
        ),
    ])
}

fn request<'a>(headers: &'a HeaderMap, query: &'a str) -> Signed<'a> {
    Signed {
        method: "GET",
        path: "/",
        query,
        headers,
        body: b"",
    }
}

#[test]
fn the_published_key_comes_out() {
    let key = signing_key(SECRET, "20150830", "us-east-1", "iam");
    assert_eq!(
        hex(&key),
        "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    );
}

#[test]
fn the_published_request_is_taken_and_a_changed_one_is_not() {
    let headers = example();
    verify(
        &request(&headers, "Action=ListUsers&Version=2010-05-08"),
        &keys(),
        "iam",
    )
    .unwrap();
    verify(
        &request(&headers, "Version=2010-05-08&Action=ListUsers"),
        &keys(),
        "iam",
    )
    .unwrap();
    let changed = verify(
        &request(&headers, "Action=DeleteUser&Version=2010-05-08"),
        &keys(),
        "iam",
    );
    assert_eq!(changed.unwrap_err().0, "SignatureDoesNotMatch");
    let mut other = request(&headers, "Action=ListUsers&Version=2010-05-08");
    other.body = b"x";
    assert!(verify(&other, &keys(), "iam").is_err(), "another body");
    assert!(
        verify(&request(&headers, ""), &keys(), "ec2").is_err(),
        "another service"
    );
}

#[test]
fn the_first_request_of_the_published_suite_is_taken() {
    let headers = headers(&[
        ("host", "example.amazonaws.com"),
        ("x-amz-date", "20150830T123600Z"),
        (
            "authorization",
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
    ]);
    verify(&request(&headers, ""), &keys(), "service").unwrap();
}

#[test]
fn what_is_missing_or_unsigned_is_refused() {
    let query = "Action=ListUsers&Version=2010-05-08";
    let mut headers = example();
    headers.insert("x-amz-security-token", "t".parse().unwrap());
    assert!(
        verify(&request(&headers, query), &keys(), "iam").is_err(),
        "a token nobody knows"
    );
    let with_session = Keys {
        session: Some("t".to_owned()),
        ..keys()
    };
    let refused = verify(&request(&headers, query), &with_session, "iam").unwrap_err();
    assert!(refused.1.contains("not signed"), "{refused:?}");
    let mut headers = example();
    headers.remove("authorization");
    let refused = verify(&request(&headers, query), &keys(), "iam").unwrap_err();
    assert_eq!(refused.0, "MissingAuthenticationToken");
}
