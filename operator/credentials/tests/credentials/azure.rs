//! Applications and identities of Entra ID.

use crate::stage::{AZURE, Endpoint, Stage, said};

#[tokio::test]
async fn the_secret_of_an_application_is_exchanged_for_a_token() {
    let stage = Stage::new(AZURE);
    stage.write("secret", "a~b.c+d\n");
    let endpoint = Endpoint::token("eyJ0", 3599);
    assert_eq!(stage.bearer(&endpoint, 0).await.unwrap(), "Bearer eyJ0");
    let (url, pairs) = endpoint.last();
    assert_eq!(
        url,
        "https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token"
    );
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("grant_type", "client_credentials"),
            ("client_id", "client-1"),
            ("scope", "https://management.azure.com/.default"),
            ("client_secret", "a~b.c+d"),
        ]
    );
}

#[tokio::test]
async fn the_token_of_a_service_account_is_exchanged_for_a_token() {
    let stage = Stage::new(
        "azureWorkloadIdentity: {tenantId: tenant-1, clientId: client-1, tokenFile: FOLDER/token, authority: https://login.example/}",
    );
    stage.write("token", "projected.1");
    let endpoint = Endpoint::token("eyJ0", 86399);
    stage.bearer(&endpoint, 0).await.unwrap();
    assert_eq!(
        endpoint.last().0,
        "https://login.example/tenant-1/oauth2/v2.0/token"
    );
    assert_eq!(endpoint.value("client_assertion"), "projected.1");
    assert_eq!(
        endpoint.value("client_assertion_type"),
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
}

#[tokio::test]
async fn what_the_endpoint_says_is_told_in_one_line_and_without_the_secret() {
    let stage = Stage::new(AZURE);
    stage.write("secret", "hush+hush");
    let body = serde_json::json!({
        "error": "invalid_client",
        "error_description": "AADSTS7000215: Invalid client secret hush+hush or hush%2Bhush.\r\nTrace ID: 1\u{1b}[2J",
        "error_codes": [7_000_215],
    });
    let endpoint = Endpoint::saying([(401, body.to_string())]);
    let text = said(
        &stage.bearer(&endpoint, 0).await.unwrap_err(),
        "CredentialRefused",
    );
    assert_eq!(
        text,
        "credential a: https://login.microsoftonline.com/tenant-1/oauth2/v2.0/token gave no token: invalid_client: AADSTS7000215: \
         Invalid client secret *** or ***. Trace ID: 1?[2J (status 401)"
    );
}
