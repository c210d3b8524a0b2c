//! Keys and roles of AWS.

use crate::stage::{Endpoint, Stage, at, get, header, parameters, said};
use numo_credentials::Refusal;

const KEYS: &str = "awsKeys: {file: FOLDER/credentials, profile: numo}";
const ROLE: &str = "awsWebIdentity: {roleArn: 'arn:aws:iam::123456789012:role/numo', tokenFile: FOLDER/token, region: eu-central-1}";

fn answer(expiration: &str) -> String {
    format!(
        r#"<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:numo:numo</SubjectFromWebIdentityToken>
    <Credentials>
      <SessionToken>session+token/1==</SessionToken>
      <SecretAccessKey>role+secret/1</SecretAccessKey>
      <Expiration>{expiration}</Expiration>
      <AccessKeyId>ASIAEXAMPLE</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"#
    )
}

#[tokio::test]
async fn keys_of_the_section_sign() {
    let stage = Stage::new(KEYS);
    stage.write(
        "credentials",
        "# shared\n[default]\naws_access_key_id = OTHER\naws_secret_access_key = other\n\n[numo]\n; ours\n\
         aws_access_key_id=AKIDEXAMPLE\r\nAWS_SECRET_ACCESS_KEY = wJalr/XUtnFEMI+EXAMPLE=\n\nregion = eu-central-1\n",
    );
    let endpoint = Endpoint::default();
    let request = stage.aws(&endpoint, 0).await.unwrap();
    let text = header(&request, "authorization").unwrap();
    assert!(
        text.starts_with(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261129/eu-central-1/autoscaling/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature="
        ),
        "{text}"
    );
    assert_eq!(header(&request, "x-amz-date").unwrap(), "20261129T120000Z");
    assert_eq!(header(&request, "x-amz-security-token"), None);
    assert_eq!(header(&request, "x-amz-content-sha256"), None);
    assert!(request.headers["authorization"].is_sensitive());
    assert_eq!(endpoint.count(), 0);
    // The file as it is at this moment.
    stage.write(
        "credentials",
        "[numo]\naws_access_key_id=NEW\naws_secret_access_key=s\naws_session_token=t\n[after]\naws_access_key_id=LATER\n",
    );
    let request = stage.aws(&endpoint, 0).await.unwrap();
    assert!(
        header(&request, "authorization")
            .unwrap()
            .contains("Credential=NEW/")
    );
    assert_eq!(header(&request, "x-amz-security-token").unwrap(), "t");
    assert!(request.headers["x-amz-security-token"].is_sensitive());
}

#[tokio::test]
async fn what_is_wrong_with_a_file_of_keys_is_named() {
    for (text, words) in [
        ("", "profile: found no such section, wanted [numo]"),
        (
            "[default]\naws_access_key_id=A\n",
            "profile: found no such section",
        ),
        (
            "hush\n",
            "line 1: found a line without =, wanted NAME = VALUE, or [SECTION]",
        ),
        ("[numo\n", "line 1: found a section without an end"),
        (
            "[numo]\naws_secret_access_key=hush\n",
            "[numo]: aws_access_key_id: found nothing",
        ),
        (
            "[numo]\naws_access_key_id=hush/1\n",
            "aws_access_key_id: found other characters, or a longer one",
        ),
        (
            "[numo]\naws_access_key_id=A\n",
            "aws_secret_access_key: found nothing",
        ),
        (
            "[numo]\naws_access_key_id=A\naws_secret_access_key=hu sh\n",
            "aws_secret_access_key: found a blank",
        ),
        (
            "[numo]\naws_access_key_id=A\naws_secret_access_key=s\naws_session_token=\n",
            "aws_session_token: found nothing",
        ),
    ] {
        let stage = Stage::new(KEYS);
        stage.write("credentials", text);
        let told = said(
            &stage.aws(&Endpoint::default(), 0).await.unwrap_err(),
            "CredentialMalformed",
        );
        assert!(told.contains(words) && !told.contains("hush"), "{told}");
    }
}

#[tokio::test]
async fn the_token_of_a_service_account_is_exchanged_for_keys_of_a_role() {
    let stage = Stage::new(ROLE);
    stage.write("token", "projected.1\n");
    assert_eq!(
        stage.credentials.hosts(),
        [("sts.eu-central-1.amazonaws.com".to_owned(), 443)]
    );
    let endpoint = Endpoint::saying([(200, answer("2026-11-29T13:00:00Z"))]);
    let request = stage.aws(&endpoint, 0).await.unwrap();
    let (url, pairs) = endpoint.last();
    assert_eq!(url, "https://sts.eu-central-1.amazonaws.com/");
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("DurationSeconds", "3600"),
            ("RoleArn", "arn:aws:iam::123456789012:role/numo"),
            ("RoleSessionName", "numo"),
            ("WebIdentityToken", "projected.1"),
        ]
    );
    assert_eq!(
        header(&request, "x-amz-security-token").unwrap(),
        "session+token/1=="
    );
    let text = header(&request, "authorization").unwrap();
    assert!(
        text.contains("Credential=ASIAEXAMPLE/") && text.contains("host;x-amz-date;x-amz-security-token")
    );
    stage.aws(&endpoint, 3200).await.unwrap();
    assert_eq!(endpoint.count(), 1);
    stage.aws(&endpoint, 3300).await.unwrap();
    assert_eq!(endpoint.count(), 2);
}

#[tokio::test]
async fn answers_of_sts_that_are_none_are_refused() {
    let deep = "<a>".repeat(20_000);
    let bomb = "<!DOCTYPE a [<!ENTITY b \"hush\">]><a>&b;</a>";
    for (body, words) in [
        ("{}".to_owned(), "answer: found 2 bytes that are none, wanted XML"),
        (deep, "answer: found 60000 bytes that are none"),
        (bomb.to_owned(), "that are none, wanted XML"),
        ("<a/>".to_owned(), "Credentials: found nothing"),
        (answer("soon"), "Expiration: found no time"),
        (
            answer("2026-11-29T12:00:00Z"),
            "Expiration: found 2026-11-29T12:00:00Z, wanted a time to come",
        ),
        (answer("-009999-01-01T00:00:00Z"), "Expiration: found"),
        (
            answer("2026-11-29T13:00:00Z").replace("ASIAEXAMPLE", "A, B"),
            "AccessKeyId: found other characters",
        ),
        (
            answer("2026-11-29T13:00:00Z").replace("role+secret/1", "hush\nhush"),
            "SecretAccessKey: found a blank",
        ),
        (
            answer("2026-11-29T13:00:00Z").replace("SessionToken", "Other"),
            "SessionToken: found nothing",
        ),
    ] {
        let stage = Stage::new(ROLE);
        stage.write("token", "projected.1");
        let endpoint = Endpoint::saying([(200, body)]);
        let told = said(&stage.aws(&endpoint, 0).await.unwrap_err(), "CredentialMalformed");
        assert!(told.contains(words) && !told.contains("hush"), "{told}");
    }
}

#[tokio::test]
async fn the_words_of_sts_are_told() {
    let stage = Stage::new(ROLE);
    stage.write("token", "projected.1");
    let body = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not authorized &amp; projected.1</Message></Error></ErrorResponse>";
    let endpoint = Endpoint::saying([(403, body.to_owned())]);
    let told = said(&stage.aws(&endpoint, 0).await.unwrap_err(), "CredentialRefused");
    assert!(
        told.ends_with("gave no token: AccessDenied: Not authorized & *** (status 403)"),
        "{told}"
    );
}

#[tokio::test]
async fn what_a_connection_changes_is_not_signed_and_the_host_is_as_it_is_sent() {
    let stage = Stage::new(KEYS);
    stage.write(
        "credentials",
        "[numo]\naws_access_key_id=A\naws_secret_access_key=s\n",
    );
    let good = parameters(&[("service", "ec2"), ("region", "eu-central-1")]);
    let sign = async |url: &str, headers: &[(&'static str, &str)]| {
        let mut request = get(url);
        for (name, value) in headers {
            request.headers.append(*name, value.parse().unwrap());
        }
        let endpoint = Endpoint::default();
        let signed = stage
            .credentials
            .sign("a", "aws-sigv4", &good, &mut request, b"", at(0), &endpoint);
        signed.await.unwrap();
        header(&request, "authorization").unwrap()
    };
    let plain = sign("https://ec2.example/", &[]).await;
    for url in [
        "https://ec2.example:443/",
        "https://EC2.example/",
        "https://ec2.example",
    ] {
        assert_eq!(sign(url, &[]).await, plain, "{url}");
    }
    assert_eq!(
        sign("https://ec2.example/", &[("host", "ec2.example")]).await,
        plain
    );
    for name in [
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
    ] {
        assert_eq!(
            sign("https://ec2.example/", &[(name, "a")]).await,
            plain,
            "{name}"
        );
    }
    let other = sign(
        "https://ec2.example:8443/",
        &[("accept", "b"), ("accept", "a"), ("x-amz-target", "T")],
    )
    .await;
    assert!(
        other.contains("SignedHeaders=accept;host;x-amz-date;x-amz-target,"),
        "{other}"
    );
    let port = sign("https://ec2.example:8443/", &[]).await;
    assert_ne!(port, plain);
}

#[tokio::test]
async fn a_request_that_cannot_be_signed_stays_as_it_was() {
    let stage = Stage::new(KEYS);
    stage.write(
        "credentials",
        "[numo]\naws_access_key_id=A\naws_secret_access_key=s\n",
    );
    let endpoint = Endpoint::default();
    let good = parameters(&[("service", "ec2"), ("region", "eu-central-1")]);
    let url = "https://ec2.eu-central-1.amazonaws.com/";
    let with = |name: &'static str, value: &'static str| {
        let mut request = get(url);
        request
            .headers
            .insert(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        request
    };
    for (mut request, words) in [
        (
            get("http://ec2.amazonaws.com/"),
            "url: found http, wanted an absolute https URL",
        ),
        (get("/a"), "url: found no scheme"),
        (get("https://a:b@ec2.amazonaws.com/"), "url: found a user"),
        (
            with("authorization", "mine"),
            "headers: found authorization, wanted none of that name",
        ),
        (
            with("x-amz-date", "20261129T120000Z"),
            "headers: found x-amz-date",
        ),
        (
            with("x-amz-security-token", "mine"),
            "headers: found x-amz-security-token",
        ),
        (
            with("host", "other.example"),
            "header host: found another, wanted that of the URL",
        ),
        (with("x-mine", "\u{fc}"), "header x-mine: found other characters"),
    ] {
        let before = request.headers.clone();
        let signed = stage
            .credentials
            .sign("a", "aws-sigv4", &good, &mut request, b"", at(0), &endpoint);
        let refusal: Refusal = signed.await.unwrap_err();
        let told = said(&refusal, "CredentialRequestInvalid");
        assert!(told.contains(words), "{told}");
        assert_eq!(request.headers, before);
    }
    let mut request = with("host", "ec2.eu-central-1.amazonaws.com");
    let signed = stage
        .credentials
        .sign("a", "aws-sigv4", &good, &mut request, b"", at(0), &endpoint);
    signed.await.unwrap();
}
