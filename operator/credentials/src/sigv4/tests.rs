//! Against AWS's signing test suite. `tests/vectors/sigv4.json` has requests, canonical requests and authorizations of its part v4 as data
//! (aws-c-auth, `tests/aws-signing-test-suite`, Apache-2.0): service `service`, region `us-east-1`, the suite's example key.

use super::*;
use http::Request;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    name: String,
    normalize: bool,
    sign_body: bool,
    token: Option<String>,
    omit_token: bool,
    request: String,
    canonical: String,
    authorization: String,
}

/// A request as the suite writes it; none if it is one that this crate is never given: a raw blank in the path, a header on two lines.
fn request(text: &str) -> Option<(Parts, String, Vec<u8>)> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
    let mut lines = head.lines();
    let (method, rest) = lines.next()?.split_once(' ')?;
    let target = rest.strip_suffix(" HTTP/1.1")?;
    let mut host = String::new();
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        match name {
            "Host" => value.clone_into(&mut host),
            "X-Amz-Date" | "X-amz-date" => {}
            _ => headers.push((name, value.trim())),
        }
    }
    let mut built = Request::builder()
        .method(method)
        .uri(format!("https://{host}{target}"));
    for (name, value) in headers {
        built = built.header(name, value);
    }
    let (parts, ()) = built.body(()).ok()?.into_parts();
    Some((parts, host, body.as_bytes().to_vec()))
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../tests/vectors/sigv4.json")).unwrap()
}

fn headers_of(vector: &Vector) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let (parts, host, body) = request(&vector.request)?;
    let keys = Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        token: vector
            .token
            .clone()
            .filter(|_| !vector.omit_token)
            .map(Into::into),
    };
    let scope = Scope {
        service: "service",
        region: "us-east-1",
    };
    let style = Style {
        normalized: vector.normalize,
        // The suite encodes once; what is encoded twice is below.
        twice: false,
        content: vector.sign_body,
    };
    let now = "2015-08-30T12:36:00Z".parse().unwrap();
    Some(styled("aws", &keys, (scope, style), (&parts, &host, &body), now).unwrap())
}

#[test]
fn signatures_are_those_of_the_suite() {
    let mut left_out = Vec::new();
    for vector in vectors() {
        let Some(headers) = headers_of(&vector) else {
            left_out.push(vector.name);
            continue;
        };
        let (_, value) = headers.iter().find(|(name, _)| name == "authorization").unwrap();
        assert!(value.is_sensitive());
        assert_eq!(
            value.to_str().unwrap(),
            vector.authorization,
            "{}: {}",
            vector.name,
            vector.canonical
        );
    }
    assert_eq!(left_out, ["get-header-value-multiline", "get-space-unnormalized"]);
}

#[test]
fn the_token_of_a_session_is_signed_and_sent() {
    let all = vectors();
    let vector = all
        .iter()
        .find(|vector| vector.name == "post-sts-header-before")
        .unwrap();
    let headers = headers_of(vector).unwrap();
    let (_, value) = headers.iter().find(|(name, _)| name == TOKEN).unwrap();
    assert!(value.is_sensitive());
    assert_eq!(value.to_str().ok(), vector.token.as_deref());
}

#[test]
fn s3_is_signed_with_the_digest_of_its_body_and_its_path_as_it_is() {
    let of = |service| Scope { service, region: "r" }.style();
    let (s3, ec2) = (of("s3"), of("autoscaling"));
    assert!(s3.content && !s3.normalized && !s3.twice);
    assert!(!ec2.content && ec2.normalized && ec2.twice);
    assert_eq!(path("/a//b%20c/../d", s3), "/a//b%20c/../d");
    assert_eq!(path("/a//b%20c/../d/", ec2), "/a/d/");
    assert_eq!(path("/b%20c", ec2), "/b%2520c");
    // double-encode-path and double-url-encode, which the suite has without keys.
    assert_eq!(
        path("/test/@connections/JBDvjfGEIAMCERw%3D", ec2),
        "/test/%40connections/JBDvjfGEIAMCERw%253D"
    );
    assert_eq!(
        path("/functions/arn%3Aaws%3Alambda", ec2),
        "/functions/arn%253Aaws%253Alambda"
    );
    assert_eq!(path("", ec2), "/");
    assert_eq!(path("/../..", ec2), "/");
}

#[test]
fn a_query_is_sorted_and_encoded_once() {
    assert_eq!(query("b=2&a=%7e&a=+&c&&%ff=%2B"), "%FF=%2B&a=%20&a=~&b=2&c=");
}

#[test]
fn parameters_are_service_and_region_once_each() {
    let of = |all: &[(&str, &str)]| {
        let all: Vec<_> = all
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Scope::read("aws", &all).map(|scope| format!("{scope:?}"))
    };
    assert!(of(&[("region", "eu-central-1"), ("service", "ec2")]).is_ok());
    for (bad, words) in [
        (
            &[("service", "ec2")][..],
            "credential aws: parameter region: found nothing, wanted its name",
        ),
        (
            &[("service", "ec2"), ("service", "s3")],
            "credential aws: parameter service: found it twice, wanted it once",
        ),
        (
            &[("host", "a")],
            "credential aws: parameter: found host, wanted service and region",
        ),
        (
            &[("service", "ec2"), ("region", "a/b")],
            "credential aws: parameter region: found a/b, wanted lower-case letters, digits and hyphens, at most 64",
        ),
    ] {
        assert_eq!(of(bad).unwrap_err().to_string(), words);
    }
}
