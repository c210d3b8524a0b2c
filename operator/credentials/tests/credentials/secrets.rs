//! Whatever happens, no text that this crate gives away has a secret in it.

use crate::{
    google,
    stage::{AZURE, Endpoint, Stage, token_answer},
};
use numo_credentials::Refusal;
use std::fmt::Debug;

const SECRET: &str = "s3cr3t+value/1==";

/// Asserts that a text of anything has none of these.
fn hides(what: &impl Debug, secrets: &[&str]) {
    for text in [format!("{what:?}"), format!("{what:#?}")] {
        for secret in secrets {
            let encoded: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
            let escaped = secret.replace('\n', "\\n");
            assert!(
                !text.contains(secret) && !text.contains(&encoded) && !text.contains(&escaped),
                "{secret} in {text}"
            );
        }
    }
}

fn refusal_hides(refusal: &Refusal, secrets: &[&str]) {
    hides(refusal, secrets);
    hides(&refusal.to_string(), secrets);
}

/// Sources with a file each, and what else is wrong with a file that has the secret.
const SOURCES: [(&str, &str); 6] = [
    ("bearerFile: {file: FOLDER/file}", "bearer"),
    ("googleServiceAccount: {file: FOLDER/file}", "bearer"),
    (
        "azureClientSecret: {tenantId: t, clientId: c, file: FOLDER/file}",
        "bearer",
    ),
    (
        "azureWorkloadIdentity: {tenantId: t, clientId: c, tokenFile: FOLDER/file}",
        "bearer",
    ),
    ("awsKeys: {file: FOLDER/file}", "aws-sigv4"),
    (
        "awsWebIdentity: {roleArn: 'arn:aws:iam::1:role/a', tokenFile: FOLDER/file, region: r}",
        "aws-sigv4",
    ),
];

async fn sign(stage: &Stage, scheme: &str, endpoint: &Endpoint, seconds: i64) -> Result<(), Refusal> {
    if scheme == "bearer" {
        stage.bearer(endpoint, seconds).await.map(drop)
    } else {
        stage.aws(endpoint, seconds).await.map(drop)
    }
}

#[tokio::test]
async fn a_secret_is_nowhere_whatever_file_and_answer_are() {
    let files = [
        SECRET.to_owned(),
        format!("{SECRET}\n{SECRET}"),
        format!("{{\"private_key\": \"{SECRET}\"}}"),
        format!("{{\"private_key\": {SECRET}}}"),
        format!("{{\"type\": \"{SECRET}\", \"client_email\": \"a\", \"token_uri\": \"https://{SECRET}\"}}"),
        format!("[default]\naws_access_key_id={SECRET}\naws_secret_access_key={SECRET}\n"),
        format!("[default]\naws_access_key_id=A\naws_secret_access_key={SECRET} {SECRET}\n"),
        format!("[default]\naws_access_key_id=A\naws_secret_access_key={SECRET}\n"),
        format!("[{SECRET}\n"),
        SECRET.repeat(5000),
    ];
    let answers = [
        (200, token_answer(SECRET, 3600)),
        (200, token_answer(&format!("{SECRET}\n"), 3600)),
        (200, format!("{{\"access_token\": \"{SECRET}\"}}")),
        (200, SECRET.to_owned()),
        (400, SECRET.to_owned()),
        (
            400,
            format!("{{\"error\": \"{SECRET}\", \"error_description\": \"is {SECRET}.\"}}"),
        ),
        (500, format!("{{\"error\": {{\"message\": \"{SECRET}\"}}}}")),
        (
            403,
            format!("<a><Code>{SECRET}</Code><Message>of {SECRET}</Message></a>"),
        ),
    ];
    let mut refused = 0;
    for (source, scheme) in SOURCES {
        for file in &files {
            for answer in &answers {
                let stage = Stage::new(source);
                stage.write("file", file);
                let endpoint = Endpoint::saying([answer.clone()]);
                if let Err(refusal) = sign(&stage, scheme, &endpoint, 0).await {
                    refused += 1;
                    refusal_hides(&refusal, &[SECRET]);
                }
                hides(&stage.credentials, &[SECRET]);
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

#[tokio::test]
async fn an_assertion_and_its_key_are_nowhere() {
    let stage = Stage::new("googleServiceAccount: {file: FOLDER/file}");
    stage.write("file", google::key().to_string());
    let endpoint = Endpoint::saying([(200, token_answer("ya29.hush", 3600))]);
    let pem = google::pem();
    stage.bearer(&endpoint, 0).await.unwrap();
    hides(&stage.credentials, &["ya29.hush", &pem]);
    // An endpoint that repeats what it was sent, whole and in part.
    let assertion = endpoint.value("assertion");
    let (head, tail) = assertion.split_at(assertion.len() / 2);
    for text in [
        assertion.clone(),
        format!("{head} {tail}"),
        format!("'{assertion}'"),
    ] {
        let stage = Stage::new("googleServiceAccount: {file: FOLDER/file}");
        stage.write("file", google::key().to_string());
        let endpoint = Endpoint::saying([(400, serde_json::json!({"error": text}).to_string())]);
        let refusal = stage.bearer(&endpoint, 0).await.unwrap_err();
        refusal_hides(&refusal, &[&assertion, head, tail, &pem]);
    }
}

#[tokio::test]
async fn the_words_of_a_connection_are_masked_too() {
    let stage = Stage::new(AZURE);
    stage.write("secret", SECRET);
    let endpoint = Endpoint::default();
    endpoint.then(Err(format!("could not send client_secret={SECRET}\n")));
    let refusal = stage.bearer(&endpoint, 0).await.unwrap_err();
    assert_eq!(refusal.reason(), "CredentialUnavailable");
    refusal_hides(&refusal, &[SECRET]);
}
