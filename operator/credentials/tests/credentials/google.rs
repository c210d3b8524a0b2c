//! Keys of service accounts.

use crate::stage::{Endpoint, Stage, at, said};
use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};
use std::sync::OnceLock;

const SOURCE: &str = "googleServiceAccount: {file: FOLDER/key.json}";

pub fn pair() -> &'static KeyPair {
    static PAIR: OnceLock<KeyPair> = OnceLock::new();
    PAIR.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}

pub fn pem() -> String {
    let der: Pkcs8V1Der<'_> = pair().as_der().unwrap();
    let body = STANDARD.encode(der.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n")
}

pub fn key() -> Value {
    json!({
        "type": "service_account",
        "private_key_id": "id-1",
        "private_key": pem(),
        "client_email": "numo@project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    })
}

fn claims(assertion: &str) -> (Value, Value) {
    let parts: Vec<_> = assertion.split('.').collect();
    let [header, claims, signature] = parts[..] else {
        panic!("{assertion}")
    };
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair().public_key());
    public
        .verify(format!("{header}.{claims}").as_bytes(), &signature)
        .unwrap();
    let read = |text| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
    (read(header), read(claims))
}

#[tokio::test]
async fn an_assertion_that_the_key_signed_is_exchanged_for_a_token() {
    let stage = Stage::new(SOURCE);
    stage.write("key.json", key().to_string());
    let endpoint = Endpoint::token("ya29.token", 3599);
    assert_eq!(stage.bearer(&endpoint, 0).await.unwrap(), "Bearer ya29.token");
    assert_eq!(endpoint.last().0, "https://oauth2.googleapis.com/token");
    assert_eq!(
        endpoint.value("grant_type"),
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    let (header, claims) = claims(&endpoint.value("assertion"));
    assert_eq!(header, json!({"alg": "RS256", "typ": "JWT", "kid": "id-1"}));
    assert_eq!(
        claims,
        json!({
            "iss": "numo@project.iam.gserviceaccount.com",
            "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": "https://oauth2.googleapis.com/token",
            "iat": at(0).as_second(),
            "exp": at(3600).as_second(),
        })
    );
}

#[tokio::test]
async fn a_key_does_not_say_where_assertions_go_unless_it_is_google() {
    for bad in [
        "https://evil.example/token",
        "https://oauth2.googleapis.com.evil.example/token",
        "http://oauth2.googleapis.com/token",
        "https://oauth2.googleapis.com:8443/token",
        "https://a@oauth2.googleapis.com/token",
        "https://169.254.169.254/token",
        "token",
    ] {
        let stage = Stage::new(SOURCE);
        let mut key = key();
        key["token_uri"] = bad.into();
        stage.write("key.json", key.to_string());
        let endpoint = Endpoint::token("t", 3600);
        let text = said(
            &stage.bearer(&endpoint, 0).await.unwrap_err(),
            "CredentialMalformed",
        );
        assert!(text.contains("token_uri: found "), "{text}");
        assert_eq!(endpoint.count(), 0, "{bad}");
    }
    let stage = Stage::new(
        "googleServiceAccount: {file: FOLDER/key.json, tokenUri: 'https://sts.example:8443/token'}",
    );
    assert_eq!(stage.credentials.hosts(), [("sts.example".to_owned(), 8443)]);
    stage.write("key.json", key().to_string());
    let endpoint = Endpoint::token("t", 3600);
    stage.bearer(&endpoint, 0).await.unwrap();
    assert_eq!(endpoint.last().0, "https://sts.example:8443/token");
    assert_eq!(
        claims(&endpoint.value("assertion")).1["aud"],
        "https://sts.example:8443/token"
    );
}

#[tokio::test]
async fn each_field_that_is_wrong_is_named() {
    let with = |field: &str, value: Value| {
        let mut key = key();
        key[field] = value;
        key.to_string()
    };
    let small = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for (text, words) in [
        (
            String::new(),
            "key: found no JSON at line 1 column 0, wanted the JSON object",
        ),
        (
            "{\"private_key\": \"abc".to_owned(),
            "key: found no JSON at line 1 column",
        ),
        ("[]".to_owned(), "key: found an array"),
        ("[".repeat(60_000), "key: found no JSON at line 1 column 128"),
        (
            with("private_key", Value::Null),
            "private_key: found null, wanted an RSA key",
        ),
        (with("private_key", json!(5)), "private_key: found a number"),
        (with("private_key", json!("")), "private_key: found an empty text"),
        (
            with("private_key", json!("hush")),
            "private_key: found no such PEM",
        ),
        (
            with("private_key", json!(small)),
            "private_key: found another key",
        ),
        (with("client_email", Value::Null), "client_email: found null"),
        (with("token_uri", Value::Null), "token_uri: found null"),
    ] {
        let stage = Stage::new(SOURCE);
        stage.write("key.json", &text);
        let endpoint = Endpoint::token("t", 3600);
        let told = said(
            &stage.bearer(&endpoint, 0).await.unwrap_err(),
            "CredentialMalformed",
        );
        assert!(told.contains(words) && !told.contains("hush"), "{told}");
        assert_eq!(endpoint.count(), 0);
    }
}
