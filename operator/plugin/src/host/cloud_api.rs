//! `numo:provider/cloud-api`: one request to a server of the cloud. Checks URL, headers, grant, method and credential, and hands the
//! request on to be signed. Follows nothing, and repeats nothing.

use super::{
    http::{parse_headers, parse_url, server},
    sandbox::{Sandbox, types},
};
use crate::{
    grants::Scheme,
    provider::{
        bindings::numo::provider::cloud_api as wit,
        grants::{CloudGrant, ProviderGrants},
        lent::{CloudRequest, Lent, Signing},
    },
    services::{ErrorCode, HostError},
    text::clean,
};
use http::Method;
use url::Url;

/// Parameters of a signature.
const PARAMETERS: usize = 8;

impl wit::Host for Sandbox {
    async fn send(&mut self, request: wit::Request) -> wasmtime::Result<Result<wit::Response, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.send_to_cloud(request).await.map_err(Into::into))
    }
}

impl Sandbox {
    async fn send_to_cloud(&mut self, request: wit::Request) -> Result<wit::Response, HostError> {
        let (_, services) = self.granted("cloud-api")?;
        let lent = self.lent("cloud-api")?;
        let url = parse_url(&request.url)?;
        let headers = parse_headers(&request.headers)?;
        let method = method(request.method);
        let grant = grant_for(&lent.grants, &url, &method)?;
        let signing = request.authorization.map(|asked| signing(asked, grant));
        let signing = signing.transpose()?;
        let Lent { cloud, .. } = &lent;
        let cloud = cloud.clone().ok_or_else(|| {
            HostError::new(
                ErrorCode::Unsupported,
                "this installation sends no requests for providers",
            )
        })?;
        let is_head = method == Method::HEAD;
        let response = cloud
            .send(CloudRequest {
                method,
                url,
                headers,
                body: request.body,
                signing,
                now: services.now,
                timeout: self.timeout(None)?,
                body_bytes: self.limits.http_body_bytes,
            })
            .await?;
        let size = |(name, value): &(String, String)| name.len() + value.len();
        let bytes = response.body.len() + response.headers.iter().map(size).sum::<usize>();
        self.budget.spend_bytes(bytes, &self.limits)?;
        Ok(wit::Response {
            status: response.status,
            headers: response.headers,
            body: if is_head { Vec::new() } else { response.body },
        })
    }
}

fn method(method: wit::Method) -> Method {
    match method {
        wit::Method::Get => Method::GET,
        wit::Method::Head => Method::HEAD,
        wit::Method::Post => Method::POST,
        wit::Method::Put => Method::PUT,
        wit::Method::Patch => Method::PATCH,
        wit::Method::Delete => Method::DELETE,
    }
}

fn denied(message: String, grant: String) -> HostError {
    HostError::new(ErrorCode::Denied, message).detail("grant", grant)
}

fn grant_for<'a>(
    grants: &'a ProviderGrants,
    url: &Url,
    method: &Method,
) -> Result<&'a CloudGrant, HostError> {
    let (scheme, host, port) = server(url);
    if scheme == Scheme::Http {
        return Err(HostError::new(
            ErrorCode::Invalid,
            "clouds are asked with https only",
        ));
    }
    let about = clean(&format!("{host}:{port}"), 512);
    let grant = grants.cloud_for(host, port);
    let grant = grant.ok_or_else(|| {
        denied(
            format!("no grant of the provider covers {about}"),
            format!("cloud {host}:{port}"),
        )
    })?;
    if !grant.has_method(method.as_str()) {
        return Err(denied(
            format!("the provider's grant for {about} does not have the method {method}"),
            format!("cloud {host}:{port} methods"),
        ));
    }
    Ok(grant)
}

fn signing(asked: wit::Authorization, grant: &CloudGrant) -> Result<Signing, HostError> {
    let name = clean(&asked.credential, 64);
    if !grant.credentials.contains(&asked.credential) {
        return Err(denied(
            format!(
                "the provider's grant for {} has no credential {name:?}",
                grant.host
            ),
            format!("cloud {} credentials", grant.host),
        ));
    }
    if asked.parameters.len() > PARAMETERS {
        let message = format!("a signature has at most {PARAMETERS} parameters");
        return Err(HostError::new(ErrorCode::Invalid, message));
    }
    Ok(Signing {
        credential: asked.credential,
        scheme: asked.scheme,
        parameters: asked.parameters,
    })
}
