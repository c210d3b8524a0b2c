//! The real way to a cloud: signs a request with a credential from a mounted file, and sends it through the one way out
//! (`net/transport.rs`). Which servers may be asked was checked before, by grants of an administrator; link-local addresses, and with them
//! the metadata services of clouds, are never reached.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{HeaderName, HeaderValue, Method, Request, header};
use numo_credentials::{ANSWER_BYTES, Credentials, Exchange, FORM, Refusal};
use url::Url;

use super::lent::{Cloud, CloudRequest};
use crate::{
    fetch::Direct,
    services::{Addresses, ErrorCode, FetchRequest, FetchResponse, HostError},
};

/// How long a token endpoint may take.
const TOKEN: Duration = Duration::from_secs(10);
/// The answer of a cloud that does not take a signature.
const UNAUTHORISED: u16 = 401;

/// Signs requests and sends them.
pub struct Signed {
    direct: Arc<Direct>,
    credentials: Arc<Credentials>,
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.credentials.names().collect();
        f.debug_struct("Signed")
            .field("credentials", &names)
            .finish_non_exhaustive()
    }
}

impl Signed {
    /// Sends through `direct`, with these credentials.
    pub fn new(direct: Arc<Direct>, credentials: Arc<Credentials>) -> Self {
        Self { direct, credentials }
    }
}

/// The headers of a request, those of its signature among them: all that goes out with it.
///
/// Errors: `denied` where the credential gives none, `invalid` for what cannot be signed, `unavailable` where nobody gives a token.
pub async fn signed_headers(
    request: &CloudRequest,
    credentials: &Credentials,
    tokens: &dyn Exchange,
) -> Result<Vec<(HeaderName, HeaderValue)>, HostError> {
    let Some(signing) = &request.signing else {
        return Ok(request.headers.clone());
    };
    let built = Request::builder()
        .method(request.method.clone())
        .uri(request.url.as_str());
    let built = built
        .body(())
        .map_err(|error| HostError::new(ErrorCode::Invalid, format!("the request: {error}")))?;
    let (mut parts, ()) = built.into_parts();
    parts.headers.extend(request.headers.iter().cloned());
    let signed = credentials.sign(
        &signing.credential,
        &signing.scheme,
        &signing.parameters,
        &mut parts,
        &request.body,
        request.now,
        tokens,
    );
    signed.await.map_err(|refusal| refused(&refusal))?;
    // Of a name that comes again, the map gives the name once: a component has each of its headers once.
    Ok(parts
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect())
}

/// A refusal in the words of the contract with components.
fn refused(refusal: &Refusal) -> HostError {
    let code = match refusal {
        Refusal::Unavailable { .. } => ErrorCode::Unavailable,
        Refusal::InvalidRequest { .. } => ErrorCode::Invalid,
        _ => ErrorCode::Denied,
    };
    HostError::new(code, refusal.to_string()).detail("reason", refusal.reason())
}

#[async_trait]
impl Cloud for Signed {
    async fn send(&self, request: CloudRequest) -> Result<FetchResponse, HostError> {
        let headers = signed_headers(&request, &self.credentials, &Tokens(&self.direct)).await?;
        let asked = FetchRequest {
            head: request.method == Method::HEAD,
            url: request.url,
            headers,
            addresses: Addresses::Anywhere,
            timeout: request.timeout,
            body_bytes: request.body_bytes,
        };
        let answer = self.direct.call(asked, (request.method, request.body)).await?;
        if let Some(signing) = request.signing.filter(|_| answer.status == UNAUTHORISED) {
            self.credentials.forget(&signing.credential);
        }
        Ok(answer)
    }
}

/// Asks token endpoints, which an administrator has named.
struct Tokens<'a>(&'a Direct);

#[async_trait]
impl Exchange for Tokens<'_> {
    async fn post(&self, url: &Url, form: &str) -> Result<numo_credentials::Answer, String> {
        let content = HeaderValue::from_static(FORM);
        let asked = FetchRequest {
            head: false,
            url: url.clone(),
            headers: vec![(header::CONTENT_TYPE, content)],
            addresses: Addresses::Anywhere,
            timeout: TOKEN,
            body_bytes: ANSWER_BYTES as u64 + 1,
        };
        let answer = self.0.call(asked, (Method::POST, form.as_bytes().to_vec())).await;
        let FetchResponse { status, body, .. } = answer.map_err(|error| error.message)?;
        Ok(numo_credentials::Answer { status, body })
    }
}
