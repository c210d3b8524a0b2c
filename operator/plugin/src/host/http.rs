//! `numo:host/http`: one request to a server that a grant names. Checks URL, headers, credential and grant, and hands
//! the request to the fetcher, which checks addresses. Follows nothing.

use std::time::{Duration, Instant};

use ::http::{HeaderName, HeaderValue};
use url::Url;

use super::sandbox::{Sandbox, types};
use crate::{
    bindings::numo::host::http as wit,
    grants::{Grants, HttpGrant, Scheme},
    request::{REFUSED, header_of},
    services::{Addresses, ErrorCode, FetchRequest, HostError},
    text::clean,
};

/// Headers of one request, the component's own.
const HEADERS: usize = 32;
/// Bytes of all of them together.
const HEADER_BYTES: usize = 16 * 1024;
/// Bytes of a URL.
const URL_BYTES: usize = 8 * 1024;
impl wit::Host for Sandbox {
    async fn fetch(
        &mut self,
        request: wit::Request,
    ) -> wasmtime::Result<Result<wit::Response, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.send(request).await.map_err(Into::into))
    }
}

impl Sandbox {
    async fn send(&mut self, request: wit::Request) -> Result<wit::Response, HostError> {
        let (grants, services) = self.granted("http")?;
        let url = parse_url(&request.url)?;
        let mut headers = parse_headers(&request.headers)?;
        let grant = grant_for(&grants, &url)?;
        if let Some(name) = &request.credential {
            let granted = grant.credentials.contains(name);
            let credential = services
                .credentials
                .get(name)
                .filter(|_| granted)
                .ok_or_else(|| {
                    let message = format!(
                        "the grant for {} has no credential {:?}",
                        grant.host,
                        clean(name, 64)
                    );
                    HostError::new(ErrorCode::Denied, message)
                        .detail("grant", format!("http {} credentials", grant.host))
                })?;
            headers.push(header_of(credential)?);
        }
        let fetch = services.fetch.ok_or_else(|| {
            HostError::new(
                ErrorCode::Unsupported,
                "this installation sends no HTTP requests for rules",
            )
        })?;
        let timeout = self.timeout(request.timeout_milliseconds)?;
        let head = matches!(request.method, wit::Method::Head);
        let response = fetch
            .fetch(FetchRequest {
                head,
                url,
                headers,
                addresses: Addresses::Outside(grant.addresses.clone()),
                timeout,
                body_bytes: self.limits.http_body_bytes,
            })
            .await?;
        let size = |(name, value): &(String, String)| name.len() + value.len();
        let bytes = response.body.len() + response.headers.iter().map(size).sum::<usize>();
        self.budget.spend_bytes(bytes, &self.limits)?;
        Ok(wit::Response {
            status: response.status,
            headers: response.headers,
            body: if head { Vec::new() } else { response.body },
        })
    }

    /// What is asked, the limit, or what is left of the evaluation: the shortest.
    pub(super) fn timeout(&self, asked: Option<u32>) -> Result<Duration, HostError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(HostError::new(
                ErrorCode::Unavailable,
                "the evaluation has no time left",
            ));
        }
        let most = asked.map_or(self.limits.http_milliseconds, |asked| {
            u64::from(asked.max(1)).min(self.limits.http_milliseconds)
        });
        Ok(Duration::from_millis(most).min(left))
    }
}

pub(super) fn parse_url(text: &str) -> Result<Url, HostError> {
    let invalid = |message: &str| {
        HostError::new(
            ErrorCode::Invalid,
            format!("URL {:?}: {message}", clean(text, 256)),
        )
    };
    if text.len() > URL_BYTES {
        return Err(invalid("longer than 8 KiB"));
    }
    let mut url = Url::parse(text).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(invalid("only https and http"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("no user part; name a credential of the grant"));
    }
    url.set_fragment(None);
    Ok(url)
}

fn grant_for<'a>(grants: &'a Grants, url: &Url) -> Result<&'a HttpGrant, HostError> {
    let (scheme, host, port) = server(url);
    grants.http_for(scheme, host, port).ok_or_else(|| {
        let server = format!("{}://{host}:{port}", scheme.as_str());
        HostError::new(
            ErrorCode::Denied,
            format!("no grant covers {}", clean(&server, 512)),
        )
        .detail("grant", format!("http {host}:{port}"))
    })
}

/// Scheme, host and port of a URL, as grants have them.
pub(super) fn server(url: &Url) -> (Scheme, &str, u16) {
    let scheme = if url.scheme() == "https" {
        Scheme::Https
    } else {
        Scheme::Http
    };
    // An IPv6 address stands in brackets in a URL and without in a grant.
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    (scheme, host, url.port_or_known_default().unwrap_or_default())
}

pub(super) fn parse_headers(
    headers: &[(String, String)],
) -> Result<Vec<(HeaderName, HeaderValue)>, HostError> {
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS || bytes > HEADER_BYTES {
        let message = format!("a request has at most {HEADERS} headers of {HEADER_BYTES} bytes together");
        return Err(HostError::new(ErrorCode::Invalid, message));
    }
    let one = |(name, value): &(String, String)| {
        let invalid = || {
            HostError::new(
                ErrorCode::Invalid,
                format!("header {:?} is not allowed", clean(name, 64)),
            )
        };
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        if REFUSED.contains(&parsed.as_str()) || parsed.as_str().starts_with("proxy-") {
            return Err(invalid());
        }
        Ok((parsed, HeaderValue::from_str(value).map_err(|_| invalid())?))
    };
    headers.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(json: &serde_json::Value) -> Grants {
        serde_json::from_value(serde_json::json!({ "http": [json] })).unwrap()
    }

    #[test]
    fn host_port_and_scheme_must_be_granted() {
        let check = |grants: &Grants, url: &str, expect: bool| {
            let found = parse_url(url).and_then(|url| grant_for(grants, &url).map(drop));
            assert_eq!(found.is_ok(), expect, "{url} {found:?}");
        };
        let status = grants(&serde_json::json!({"host": "status.example.com"}));
        check(&status, "https://status.example.com/a?b=c#d", true);
        check(&status, "https://STATUS.example.com:443/", true);
        check(&status, "https://status.example.com:8443/", false);
        check(&status, "http://status.example.com/", false);
        check(&status, "https://example.com/", false);
        check(&status, "https://status.example.com.evil.org/", false);
        check(&status, "https://status.example.com@evil.org/", false);
        check(&status, "https://user@status.example.com/", false);
        check(&status, "https://evil.org\\@status.example.com/", false);
        check(&status, "file:///etc/passwd", false);
        check(
            &grants(&serde_json::json!({"host": "127.0.0.1", "port": 8080, "scheme": "http"})),
            "http://0x7f.1:8080/",
            true,
        );
        check(
            &grants(&serde_json::json!({"host": "::1"})),
            "https://[::1]/",
            true,
        );
    }

    #[test]
    fn headers_that_change_the_request_are_refused() {
        let check = |name: &str, value: &str, expect: bool| {
            assert_eq!(
                parse_headers(&[(name.into(), value.into())]).is_ok(),
                expect,
                "{name}"
            );
        };
        check("accept", "application/json", true);
        for bad in [
            "Authorization",
            "cookie",
            "HOST",
            "transfer-encoding",
            "Proxy-Authorization",
            "X-HTTP-Method-Override",
            "a b",
            "",
        ] {
            check(bad, "x", false);
        }
        check("x", "a\r\nhost: evil", false);
        assert!(parse_headers(&vec![("a".to_owned(), "b".to_owned()); 33]).is_err());
    }
}
