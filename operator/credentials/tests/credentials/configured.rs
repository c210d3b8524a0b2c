//! What an operator writes.

use crate::stage::{AZURE, Endpoint, Stage, at, get, header, parameters, said};
use numo_credentials::{Credentials, NamedSource, Source};

fn read(text: &str) -> Result<Credentials, String> {
    let sources: Vec<NamedSource> = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Credentials::new(sources)
}

#[test]
fn every_source_is_read() {
    let text = "
- name: token
  bearerFile: {file: /a}
- name: gcp
  googleServiceAccount: {file: /a, scopes: [https://www.googleapis.com/auth/compute]}
- name: azure
  azureClientSecret: {tenantId: t, clientId: c, file: /a, authority: login.microsoftonline.us, scope: https://management.usgovcloudapi.net/.default}
- name: azure-identity
  azureWorkloadIdentity: {tenantId: t, clientId: c, tokenFile: /a, authority: 'https://login.example:8443/'}
- name: aws
  awsKeys: {file: /a}
- name: aws-role
  awsWebIdentity: {roleArn: 'arn:aws-cn:iam::1:role/a', tokenFile: /a, region: cn-north-1, sessionName: numo-1}
- name: aws-private
  awsWebIdentity: {roleArn: 'arn:aws:iam::1:role/a', tokenFile: /a, region: eu-west-1, endpoint: https://vpce-1.sts.eu-west-1.vpce.amazonaws.com}
";
    let credentials = read(text).unwrap();
    let names: Vec<_> = credentials.names().collect();
    assert_eq!(
        names,
        [
            "aws",
            "aws-private",
            "aws-role",
            "azure",
            "azure-identity",
            "gcp",
            "token"
        ]
    );
    let hosts = credentials.hosts();
    let hosts: Vec<_> = hosts.iter().map(|(host, port)| (host.as_str(), *port)).collect();
    assert_eq!(
        hosts,
        [
            ("login.example", 8443),
            ("login.microsoftonline.us", 443),
            ("oauth2.googleapis.com", 443),
            ("sts.cn-north-1.amazonaws.com.cn", 443),
            ("vpce-1.sts.eu-west-1.vpce.amazonaws.com", 443),
            ("www.googleapis.com", 443),
        ]
    );
    assert_eq!(Credentials::default().hosts(), []);
}

#[test]
fn what_cannot_be_right_is_named() {
    let long = "a".repeat(64);
    let azure = |rest: &str| format!("- name: a\n  azureClientSecret: {{file: /a, {rest}}}\n");
    let role = |rest: &str| format!("- name: a\n  awsWebIdentity: {{tokenFile: /a, {rest}}}\n");
    for (text, words) in [
        (
            "- name: a\n".to_owned(),
            "found no source, wanted one of bearerFile, ",
        ),
        (
            "- name: a\n  bearerFile: {file: /a}\n  awsKeys: {file: /a}\n".to_owned(),
            "found bearerFile and awsKeys, wanted one source",
        ),
        (
            "- name: a\n  bearerFile: {file: /a, token: b}\n".to_owned(),
            "token",
        ),
        ("- name: a\n  metadata: {}\n".to_owned(), "metadata"),
        ("- bearerFile: {file: /a}\n".to_owned(), "name"),
        (
            "- name: a\n  bearerFile: {file: ''}\n".to_owned(),
            "bearerFile: file: found nothing",
        ),
        (
            "- name: 'a b'\n  bearerFile: {file: /a}\n".to_owned(),
            "name: wanted 1 to 63 letters",
        ),
        (
            format!("- name: {long}\n  bearerFile: {{file: /a}}\n"),
            "name: wanted 1 to 63",
        ),
        (
            "- name: a\n  bearerFile: {file: /a}\n- name: a\n  bearerFile: {file: /b}\n".to_owned(),
            "credential a: found the name twice, wanted it once",
        ),
        (
            "- name: a\n  googleServiceAccount: {file: /a, scopes: []}\n".to_owned(),
            "scopes: found none",
        ),
        (
            "- name: a\n  googleServiceAccount: {file: /a, tokenUri: http://a/}\n".to_owned(),
            "tokenUri: found another scheme, wanted an https URL",
        ),
        (
            azure("tenantId: t/../x, clientId: c"),
            "tenantId: found \"t/../x\", wanted a GUID or a domain",
        ),
        (
            azure("tenantId: t, clientId: ''"),
            "clientId: found \"\", wanted a GUID",
        ),
        (
            azure("tenantId: t, clientId: c, scope: a b"),
            "scope: found \"a b\"",
        ),
        (
            azure("tenantId: t, clientId: c, authority: 'https://a:hush@b'"),
            "authority: found one with a user",
        ),
        (
            azure("tenantId: t, clientId: c, authority: 'https://b?c'"),
            "authority: found one with a query",
        ),
        (
            azure("tenantId: t, clientId: c, authority: 'a b'"),
            "authority: found no URL",
        ),
        (
            role("roleArn: numo, region: eu-west-1"),
            "roleArn: found \"numo\", wanted arn:aws:iam::",
        ),
        (
            role("roleArn: 'arn:a', region: 'evil.example/'"),
            "region: found \"evil.example/\"",
        ),
        (
            role("roleArn: 'arn:a', region: r, sessionName: a"),
            "sessionName: found \"a\", wanted 2 to 64",
        ),
        (
            role("roleArn: 'arn:a', region: r, endpoint: 'http://a'"),
            "endpoint: found another scheme",
        ),
    ] {
        let told = read(&text).unwrap_err();
        assert!(told.contains(words) && !told.contains("hush"), "{text}: {told}");
    }
}

#[test]
fn a_source_is_written_as_it_is_read() {
    let text = r#"{"awsKeys": {"file": "/a", "profile": "default"}}"#;
    let source: Source = serde_json::from_str(text).unwrap();
    assert_eq!((source.kind(), source.scheme()), ("awsKeys", "aws-sigv4"));
    assert_eq!(
        serde_json::to_value(&source).unwrap(),
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
}

#[tokio::test]
async fn a_token_of_a_file_is_read_each_time() {
    let stage = Stage::new("bearerFile: {file: FOLDER/token}");
    let endpoint = Endpoint::default();
    for token in ["one", "two"] {
        stage.write("token", format!("{token}\n"));
        assert_eq!(
            stage.bearer(&endpoint, 0).await.unwrap(),
            format!("Bearer {token}")
        );
    }
    assert_eq!((endpoint.count(), stage.credentials.hosts().len()), (0, 0));
}

#[tokio::test]
async fn a_name_that_is_none_and_a_scheme_that_is_another_are_said() {
    let stage = Stage::new(AZURE);
    stage.write("secret", "hush");
    let endpoint = Endpoint::token("one", 3600);
    let aws = parameters(&[("service", "ec2"), ("region", "r")]);
    for (name, scheme, parameters, reason, words) in [
        (
            "b\n\u{1b}",
            "bearer",
            &[][..],
            "CredentialNotFound",
            "credential b ?: found none of that name",
        ),
        (
            "a",
            "aws-sigv4",
            &aws,
            "CredentialSchemeMismatch",
            "credential a: scheme: found aws-sigv4, wanted bearer for azureClientSecret",
        ),
        (
            "a",
            "Basic\u{7}",
            &[],
            "CredentialSchemeMismatch",
            "found Basic?, wanted bearer",
        ),
        (
            "a",
            "bearer",
            &aws,
            "CredentialRequestInvalid",
            "parameter: found service, wanted none for bearer",
        ),
    ] {
        let mut request = get("https://a.example/");
        let signed = stage
            .credentials
            .sign(name, scheme, parameters, &mut request, b"", at(0), &endpoint);
        let told = said(&signed.await.unwrap_err(), reason);
        assert!(told.contains(words), "{told}");
        assert_eq!(header(&request, "authorization"), None);
    }
    assert_eq!(endpoint.count(), 0);
    let keys = Stage::new("awsKeys: {file: FOLDER/file}");
    keys.write(
        "file",
        "[default]\naws_access_key_id=A\naws_secret_access_key=s\n",
    );
    let told = said(
        &keys.bearer(&endpoint, 0).await.unwrap_err(),
        "CredentialSchemeMismatch",
    );
    assert!(
        told.ends_with("found bearer, wanted aws-sigv4 for awsKeys"),
        "{told}"
    );
}
