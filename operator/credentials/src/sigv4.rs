//! Version 4 of AWS's signatures, by headers: canonical form of a request, and five HMACs of aws-lc. What is signed is what is sent: host,
//! path, query, body, and every header but those that a connection changes on its way.

use crate::{proof::Keys, refusal::Refusal, source::is_region};
use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac::{HMAC_SHA256, Key, sign as mac},
};
use http::{HeaderName, HeaderValue, header, request::Parts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString, zeroize::Zeroizing};
use std::{collections::BTreeMap, fmt::Write as _};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
pub(crate) const DATE: &str = "x-amz-date";
pub(crate) const TOKEN: &str = "x-amz-security-token";
pub(crate) const CONTENT: &str = "x-amz-content-sha256";
/// Headers that a connection or a proxy sets or changes.
const UNSIGNED: [&str; 10] = [
    "accept-encoding",
    "connection",
    "expect",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-amzn-trace-id",
];
/// What stays as it is in a query, and in a path beside its slashes.
const QUERY: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const PATH: AsciiSet = QUERY.remove(b'/');

/// For what a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope<'a> {
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
}

/// How a service wants its requests signed.
#[derive(Clone, Copy, Debug)]
struct Style {
    /// `.`, `..` and empty segments are taken out of the path.
    normalized: bool,
    /// The path is encoded once more than it is sent.
    twice: bool,
    /// The digest of the body is a header.
    content: bool,
}

impl<'a> Scope<'a> {
    /// From the parameters of the scheme.
    pub(crate) fn read(name: &str, parameters: &'a [(String, String)]) -> Result<Self, Refusal> {
        let (mut service, mut region) = (None, None);
        for (key, value) in parameters {
            let place = match key.as_str() {
                "service" => &mut service,
                "region" => &mut region,
                other => {
                    return Err(Refusal::invalid(name, "parameter", other, "service and region"));
                }
            };
            let field = format!("parameter {key}");
            if place.is_some() {
                return Err(Refusal::invalid(name, &field, "it twice", "it once"));
            }
            if value.is_empty() || value.len() > 64 || !value.bytes().all(is_region) {
                let wanted = "lower-case letters, digits and hyphens, at most 64";
                return Err(Refusal::invalid(name, &field, value, wanted));
            }
            *place = Some(value.as_str());
        }
        let missing = |field| Refusal::invalid(name, field, "nothing", "its name");
        Ok(Self {
            service: service.ok_or_else(|| missing("parameter service"))?,
            region: region.ok_or_else(|| missing("parameter region"))?,
        })
    }

    fn style(&self) -> Style {
        let is_s3 = self.service == "s3" || self.service.starts_with("s3-");
        Style {
            normalized: !is_s3,
            twice: !is_s3,
            content: is_s3,
        }
    }
}

/// The headers that sign a request to `host`.
pub(crate) fn sign(
    name: &str,
    keys: &Keys,
    scope: Scope<'_>,
    (request, host, body): (&Parts, &str, &[u8]),
    now: jiff::Timestamp,
) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    styled(name, keys, (scope, scope.style()), (request, host, body), now)
}

fn styled(
    name: &str,
    keys: &Keys,
    (scope, style): (Scope<'_>, Style),
    (request, host, body): (&Parts, &str, &[u8]),
    now: jiff::Timestamp,
) -> Result<Vec<(HeaderName, HeaderValue)>, Refusal> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let content = hex(digest(&SHA256, body).as_ref());
    let mut added = vec![(DATE, time.clone())];
    if style.content {
        added.push((CONTENT, content.clone()));
    }
    if let Some(token) = &keys.token {
        added.push((TOKEN, token.expose_secret().to_owned()));
    }
    let mut headers = signed_headers(name, request)?;
    headers.insert(header::HOST.to_string(), host.to_owned());
    headers.extend(
        added
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    let names = headers.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let canonical = canonical(request, style, &headers, (&names, &content));
    let day = time.get(..8).unwrap_or_default();
    let Scope { service, region } = scope;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let digested = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{digested}");
    let key = signing_key(&keys.secret, &[day, region, service, "aws4_request"]);
    let signature = hex(mac(&key, text.as_bytes()).as_ref());
    let id = &keys.id;
    let authorization =
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    added.push((header::AUTHORIZATION.as_str(), authorization));
    added
        .into_iter()
        .map(|(field, value)| written(name, field, &value))
        .collect()
}

fn written(name: &str, field: &'static str, value: &str) -> Result<(HeaderName, HeaderValue), Refusal> {
    // What goes into it was checked: this is for what was forgotten.
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| Refusal::invalid(name, field, "a value that is none", "one that fits into a header"))?;
    value.set_sensitive(field == TOKEN || field == header::AUTHORIZATION.as_str());
    Ok((HeaderName::from_static(field), value))
}

/// Names and values of headers of the request, as they are signed.
fn signed_headers(name: &str, request: &Parts) -> Result<BTreeMap<String, String>, Refusal> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (field, value) in &request.headers {
        if UNSIGNED.contains(&field.as_str()) {
            continue;
        }
        let text = value.to_str().map_err(|_| {
            Refusal::invalid(
                name,
                &format!("header {field}"),
                "other characters",
                "printable ASCII",
            )
        })?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        headers
            .entry(field.as_str().to_owned())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&text);
            })
            .or_insert(text);
    }
    Ok(headers)
}

fn canonical(
    request: &Parts,
    style: Style,
    headers: &BTreeMap<String, String>,
    (names, content): (&str, &str),
) -> Zeroizing<String> {
    let mut text = Zeroizing::new(format!(
        "{}\n{}\n{}\n",
        request.method,
        path(request.uri.path(), style),
        query(request.uri.query().unwrap_or_default()),
    ));
    for (name, value) in headers {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{names}\n{content}");
    text
}

fn path(path: &str, style: Style) -> String {
    let normal = if style.normalized {
        normalized(path)
    } else {
        path.to_owned()
    };
    let encoded = if style.twice {
        utf8_percent_encode(&normal, &PATH).to_string()
    } else {
        let raw: Vec<u8> = percent_decode_str(&normal).collect();
        percent_encode(&raw, &PATH).to_string()
    };
    if encoded.is_empty() {
        "/".to_owned()
    } else {
        encoded
    }
}

fn normalized(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    let end = if is_folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

fn query(query: &str) -> String {
    // A plus is a blank, as in a form; what is no UTF-8 stays as it is.
    let encode = |text: &str| {
        let raw: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
        percent_encode(&raw, &QUERY).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encode(name), encode(value)))
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// The key of a day, a region and a service.
fn signing_key(secret: &SecretString, parts: &[&str]) -> Key {
    let first = Zeroizing::new(format!("AWS4{}", secret.expose_secret()));
    parts
        .iter()
        .fold(Key::new(HMAC_SHA256, first.as_bytes()), |key, part| {
            Key::new(HMAC_SHA256, mac(&key, part.as_bytes()).as_ref())
        })
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests;
