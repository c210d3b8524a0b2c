//! What becomes part of a request: segments of a path, and headers. Nothing in them may lead elsewhere. It asks nobody.

use ::http::{HeaderName, HeaderValue};

use crate::{
    services::{Credential, ErrorCode, HostError},
    text::clean,
};

/// Headers that would change where a request goes, where it ends, who asks, or what is done.
pub(crate) const REFUSED: [&str; 13] = [
    "authorization",
    "cookie",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// These become parts of a request's path: nothing in them may lead elsewhere, and a subresource has no kind.
///
/// Errors: `invalid`.
pub fn check_kind(api_version: &str, kind: &str) -> Result<(), HostError> {
    let word = |text: &str, extra: &[u8]| {
        (1..=253).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || extra.contains(&byte))
            && !text.starts_with(['.', '-'])
            && !text.contains("..")
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    if word(group, b".-") && word(version, b"") && word(kind, b"") {
        return Ok(());
    }
    Err(invalid(format!(
        "{:?} {:?} is no apiVersion and kind",
        clean(api_version, 64),
        clean(kind, 64)
    )))
}

/// As the API server checks path segments; `what` is `name` or `namespace`.
///
/// Errors: `invalid`.
pub fn check_name(what: &str, name: &str) -> Result<(), HostError> {
    let bad = |character: char| matches!(character, '/' | '%' | '?' | '#' | '\\') || character.is_control();
    if name.is_empty() || name.len() > 253 || name == "." || name == ".." || name.contains(bad) {
        return Err(invalid(format!("{:?} is no {what}", clean(name, 64))));
    }
    Ok(())
}

/// The operator's own header; a malformed one is the operator's fault and must not show its value.
pub(crate) fn header_of(credential: &Credential) -> Result<(HeaderName, HeaderValue), HostError> {
    let wrong = || HostError::new(ErrorCode::Other, "the credential of the grant is no valid header");
    let name = HeaderName::from_bytes(credential.header.as_bytes()).map_err(|_| wrong())?;
    // Not what frames the request, or says to whom it is.
    let is_ours = name == http::header::AUTHORIZATION
        || name == http::header::COOKIE
        || !REFUSED.contains(&name.as_str());
    if !is_ours || name.as_str().starts_with("proxy-") {
        return Err(wrong());
    }
    let mut value = HeaderValue::from_str(&credential.value).map_err(|_| wrong())?;
    value.set_sensitive(true);
    Ok((name, value))
}

pub(crate) fn invalid(message: String) -> HostError {
    HostError::new(ErrorCode::Invalid, message)
}
