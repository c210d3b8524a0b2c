//! The pull secret of a rule: `.dockerconfigjson`.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use numo_plugin::oci::{Credentials, CredentialsError, untrusted};
use serde_json::{Map, json};

use crate::Source;

pub(super) fn read(bytes: &[u8]) {
    match Credentials::parse(bytes) {
        Ok(credentials) => {
            for (registry, repository) in [
                ("registry.example.com", "team/rule"),
                ("a.registry.example.com:5000", "rule"),
                ("docker.io", "library/rule"),
                ("", ""),
            ] {
                let alone = untrusted::has_login(&credentials, registry, repository);
                let both = credentials.clone().and(Credentials::none());
                assert_eq!(untrusted::has_login(&both, registry, repository), alone);
            }
        }
        // What cannot be read is told without quoting it.
        Err(CredentialsError::Malformed(why)) => assert!(why.len() < 64, "{why}"),
        Err(CredentialsError::Entry { entry, .. }) => assert!(entry.len() <= 253 + 3, "{entry}"),
    }
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    let mut auths = Map::new();
    for _ in 0..source.below(5) {
        let host = source.one(&[
            "registry.example.com",
            "https://registry.example.com/team/",
            "*.example.com",
            "*.*.example.com:5000",
            "r*e*g*.example.com",
            "https://index.docker.io/v1/",
            "*",
        ]);
        let entry = match source.below(5) {
            0 => json!({"auth": BASE64_STANDARD.encode("user:pass:word\0")}),
            1 => json!({"auth": BASE64_STANDARD.encode(source.bytes(9))}),
            2 => json!({"username": "user", "password": "pass", "email": "a@example.com"}),
            3 => json!({"identitytoken": "token", "auth": ""}),
            _ => json!({}),
        };
        auths.insert(host.to_owned(), entry);
    }
    json!({"auths": auths, "credsStore": "desktop"})
        .to_string()
        .into_bytes()
}
