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

/// As hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
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

/// Signs a request as a client would, and answers the header `authorization`. Its headers have host and x-amz-date already.
///
/// Errors: one of these is missing.
pub fn sign(request: &Signed<'_>, keys: &Keys, service: &str) -> Result<String, Wrong> {
    let moment = request
        .headers
        .get("x-amz-date")
        .and_then(|value| value.to_str().ok());
    let moment = moment.ok_or_else(|| wrong("IncompleteSignature", "no x-amz-date"))?;
    let day = moment.get(..8).unwrap_or_default();
    let signed = ["content-type", "host", "x-amz-date", "x-amz-security-token"];
    let names: Vec<&str> = signed
        .into_iter()
        .filter(|name| request.headers.contains_key(*name))
        .collect();
    let scope = (day, keys.region.as_str(), service);
    let signature = signature(request, &names, &keys.secret, moment, scope)?;
    Ok(format!(
        "AWS4-HMAC-SHA256 Credential={}/{day}/{}/{service}/aws4_request, SignedHeaders={}, Signature={signature}",
        keys.access,
        keys.region,
        names.join(";")
    ))
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
