//! Token endpoints that answer what they should not.

use crate::stage::{AZURE, Endpoint, Stage, said, token_answer};
use numo_credentials::ANSWER_BYTES;

async fn told(status: u16, body: String, reason: &str) -> String {
    let stage = Stage::new(AZURE);
    stage.write("secret", "hush");
    let endpoint = Endpoint::saying([(status, body)]);
    let told = said(&stage.bearer(&endpoint, 0).await.unwrap_err(), reason);
    assert!(!told.contains("hush") && told.len() < 600, "{told}");
    assert!(
        told.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '),
        "{told}"
    );
    told
}

#[tokio::test]
async fn an_answer_without_a_token_is_malformed() {
    let with = |token: &str, expires: &str| {
        format!(r#"{{"access_token": {token}, "expires_in": {expires}, "token_type": "Bearer"}}"#)
    };
    let long = format!("\"{}\"", "t".repeat(20_000));
    for (body, words) in [
        (
            String::new(),
            "answer: found 0 bytes that are none, wanted a JSON object",
        ),
        (
            "<html>hush</html>".to_owned(),
            "answer: found 17 bytes that are none",
        ),
        ("\"hush\"".to_owned(), "answer: found 6 bytes"),
        ("[".repeat(60_000), "answer: found 60000 bytes"),
        (
            "x".repeat(ANSWER_BYTES + 1),
            "answer: found more than 65536 bytes",
        ),
        (
            "{}".to_owned(),
            "expires_in: found nothing, wanted seconds above 0",
        ),
        (with("\"t\"", "0"), "expires_in: found 0"),
        (with("\"t\"", "-5"), "expires_in: found -5"),
        (with("\"t\"", "1.5"), "expires_in: found 1.5"),
        (with("\"t\"", "1e400"), "answer: found"),
        (with("\"t\"", "\"3600\""), "expires_in: found a text"),
        (with("\"t\"", "null"), "expires_in: found null"),
        (
            with("\"hush\\nhush\"", "3600"),
            "access_token: found a blank, a line end",
        ),
        (with("\"hush hush\"", "3600"), "access_token: found a blank"),
        (with("\"hush\\u0000\"", "3600"), "access_token: found a blank"),
        (with("\"h\u{fc}\"", "3600"), "access_token: found a blank"),
        (with("\"\"", "3600"), "access_token: found nothing"),
        (with("{\"a\": \"hush\"}", "3600"), "access_token: found an object"),
        (with(&long, "3600"), "access_token: found a longer one"),
        (
            with("\"t\"", "3600").replace("Bearer", "pop"),
            "token_type: found another, wanted Bearer",
        ),
    ] {
        let told = told(200, body, "CredentialMalformed").await;
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test]
async fn a_token_counts_for_a_day_at_the_most() {
    for expires in ["31536000", "9223372036854775807", "18446744073709551615"] {
        let stage = Stage::new(AZURE);
        stage.write("secret", "hush");
        let body = format!(r#"{{"access_token": "one", "expires_in": {expires}}}"#);
        let endpoint = Endpoint::saying([(200, body), (200, token_answer("two", 3600))]);
        for (second, token) in [(0, "one"), (86_099, "one"), (86_100, "two")] {
            assert_eq!(
                stage.bearer(&endpoint, second).await.unwrap(),
                format!("Bearer {token}"),
                "{expires}"
            );
        }
    }
}

#[tokio::test]
async fn a_status_says_whether_it_is_a_refusal_or_a_failure() {
    for (status, reason) in [
        (201, "CredentialRefused"),
        (302, "CredentialRefused"),
        (400, "CredentialRefused"),
        (401, "CredentialRefused"),
        (403, "CredentialRefused"),
        (404, "CredentialRefused"),
        (408, "CredentialUnavailable"),
        (429, "CredentialUnavailable"),
        (500, "CredentialUnavailable"),
        (599, "CredentialUnavailable"),
    ] {
        let told = told(status, "hush".to_owned(), reason).await;
        assert!(told.ends_with(&format!("(status {status})")), "{told}");
    }
}

#[tokio::test]
async fn words_are_bounded_and_without_the_secret() {
    let flood = "hush ".repeat(5000);
    for error in [
        serde_json::json!({"error": flood}),
        serde_json::json!({"error": "a", "error_description": flood}),
        serde_json::json!({"error": {"message": flood}}),
        serde_json::json!({"error": ["hush"]}),
        serde_json::json!({"error": "x".repeat(5000)}),
        serde_json::json!({"error": "\u{1b}]0;hush\u{7}\u{202e}"}),
    ] {
        for (status, reason) in [(400, "CredentialRefused"), (500, "CredentialUnavailable")] {
            told(status, error.to_string(), reason).await;
        }
    }
}
