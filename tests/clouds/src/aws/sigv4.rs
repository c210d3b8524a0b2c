//! Verifies signatures of AWS (version 4), written from the published description and checked with its published examples. It shares nothing
//! with what numo signs with.

use crate::aws::state::Keys;
use axum::http::HeaderMap;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// A request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// `POST`.
    pub method: &'a str,
    /// `/`.
    pub path: &'a str,
    /// What follows the question mark.
    pub query: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The body.
    pub body: &'a [u8],
}

/// What is wrong: a code of AWS, and words.
pub type Wrong = (String, String);

fn wrong(code: &str, words: impl Into<String>) -> Wrong {
    (code.to_owned(), words.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _: std::fmt::Result = write!(text, "{byte:02x}");
        text
    })
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The key of a day, region and service.
pub fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> Vec<u8> {
    let key = hmac(format!("AWS4{secret}").as_bytes(), day);
    let key = hmac(&key, region);
    let key = hmac(&key, service);
    hmac(&key, "aws4_request")
}

/// The request in its canonical form.
fn canonical(request: &Signed<'_>, names: &[&str]) -> Result<String, Wrong> {
    let mut query: Vec<&str> = request.query.split('&').filter(|pair| !pair.is_empty()).collect();
    query.sort_unstable();
    let mut headers = String::new();
    for name in names {
        let values = request.headers.get_all(*name).iter();
        let values: Vec<String> = values
            .filter_map(|value| value.to_str().ok())
            .map(|value| value.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        if values.is_empty() {
            let words = format!("'{name}' is a signed header and is not in the request");
            return Err(wrong("SignatureDoesNotMatch", words));
        }
        headers += &[*name, ":", &values.join(","), "\n"].concat();
    }
    Ok(format!(
        "{}\n{}\n{}\n{headers}\n{}\n{}",
        request.method,
        request.path,
        query.join("&"),
        names.join(";"),
        hex(&Sha256::digest(request.body))
    ))
}

/// The signature that a request should have.
fn signature(
    request: &Signed<'_>,
    names: &[&str],
    secret: &str,
    moment: &str,
    scope: (&str, &str, &str),
) -> Result<String, Wrong> {
    let (day, region, service) = scope;
    let canonical = canonical(request, names)?;
    let text = format!(
        "AWS4-HMAC-SHA256\n{moment}\n{day}/{region}/{service}/aws4_request\n{}",
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    Ok(hex(&hmac(&signing_key(secret, day, region, service), &text)))
}

/// Verifies the signature of a request for a service.
///
/// Errors: a code of AWS, and what is wrong.
pub fn verify(request: &Signed<'_>, keys: &Keys, service: &str) -> Result<(), Wrong> {
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").ok_or_else(|| {
        wrong(
            "MissingAuthenticationToken",
            "Request is missing Authentication Token",
        )
    })?;
    let incomplete = |what: &str| wrong("IncompleteSignature", format!("Authorization header: {what}"));
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 ");
    let rest = rest.ok_or_else(|| incomplete("wanted AWS4-HMAC-SHA256"))?;
    let part = |name: &str| {
        let mut parts = rest.split(',').map(str::trim);
        parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    };
    let credential = part("Credential").ok_or_else(|| incomplete("wanted Credential"))?;
    let names = part("SignedHeaders").ok_or_else(|| incomplete("wanted SignedHeaders"))?;
    let given = part("Signature").ok_or_else(|| incomplete("wanted Signature"))?;
    let scope: Vec<&str> = credential.split('/').collect();
    let [access, day, region, named, "aws4_request"] = scope.as_slice() else {
        return Err(incomplete("wanted KEY/DAY/REGION/SERVICE/aws4_request"));
    };
    if *access != keys.access {
        return Err(wrong(
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
        ));
    }
    if header("x-amz-security-token") != keys.session.as_deref() {
        return Err(wrong(
            "InvalidClientTokenId",
            "The security token included in the request is invalid.",
        ));
    }
    if *named != service || *region != keys.region {
        let words = format!("Credential should be scoped to {}/{service}", keys.region);
        return Err(wrong("SignatureDoesNotMatch", words));
    }
    let moment = header("x-amz-date").ok_or_else(|| incomplete("wanted X-Amz-Date"))?;
    if !moment.starts_with(day) {
        return Err(wrong(
            "SignatureDoesNotMatch",
            "Date in Credential scope does not match X-Amz-Date",
        ));
    }
    let names: Vec<&str> = names.split(';').collect();
    if !names.is_sorted() || !names.contains(&"host") {
        return Err(incomplete("wanted sorted SignedHeaders with host"));
    }
    // AWS refuses a request with an x-amz- header that is not signed.
    let unsigned = |name: &str| name.starts_with("x-amz-") && !names.contains(&name);
    if let Some(name) = request.headers.keys().find(|name| unsigned(name.as_str())) {
        return Err(wrong(
            "SignatureDoesNotMatch",
            format!("There were headers present in the request which were not signed: {name}"),
        ));
    }
    let wanted = signature(request, &names, &keys.secret, moment, (day, region, named))?;
    if wanted != given {
        let words = "The request signature we calculated does not match the signature you provided.";
        return Err(wrong("SignatureDoesNotMatch", words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
