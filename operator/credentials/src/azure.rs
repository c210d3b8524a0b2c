//! Tokens of Microsoft Entra ID, by the grant of client credentials.

use crate::{
    file::token_in,
    oauth::token,
    proof::{Call, Obtained},
    refusal::Refusal,
    source::{AzureClientSecret, AzureWorkloadIdentity},
};
use secrecy::zeroize::Zeroizing;
use url::{Url, form_urlencoded};

/// `client_assertion_type` of a token of a ServiceAccount.
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Asks for a token with the secret of an application.
pub(crate) async fn by_secret(
    call: Call<'_>,
    source: &AzureClientSecret,
    url: &Url,
    text: &str,
) -> Result<Obtained, Refusal> {
    let secret = token_in(call.name, &source.file, text)?;
    let form = form(&source.client_id, &source.scope, &[("client_secret", secret)]);
    token(&call, url, &form, &[secret]).await
}

/// Asks for a token with the token of a ServiceAccount.
pub(crate) async fn by_identity(
    call: Call<'_>,
    source: &AzureWorkloadIdentity,
    url: &Url,
    text: &str,
) -> Result<Obtained, Refusal> {
    let assertion = token_in(call.name, &source.token_file, text)?;
    let proof = [
        ("client_assertion_type", ASSERTION),
        ("client_assertion", assertion),
    ];
    let form = form(&source.client_id, &source.scope, &proof);
    token(&call, url, &form, &[assertion]).await
}

fn form(client: &str, scope: &str, proof: &[(&str, &str)]) -> Zeroizing<String> {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("scope", scope)
        .extend_pairs(proof);
    Zeroizing::new(form.finish())
}
