//! Credentials that a rule may have attached to its requests: Secrets of its namespace, which numo reads where it is
//! invited and the component never sees. The Secret itself names the servers that it is for: otherwise whoever writes a
//! MutexRule could have any Secret that numo may read sent anywhere. Nothing is kept: what is taken away holds from the
//! next evaluation on.

use super::asked::{PATIENCE, unavailable};
use crate::runners::wasm::Fault;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use numo_api::marks;
use numo_plugin::{Grants, services::Credential};
use std::collections::{BTreeMap, BTreeSet};

/// What the grants name, by name.
///
/// Errors: a Secret is not there, may not be read, or holds none; the text names it.
pub(super) async fn of(
    client: &Client,
    namespace: &str,
    grants: &Grants,
) -> Result<BTreeMap<String, Credential>, Fault> {
    let mut wanted: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    for grant in &grants.http {
        for name in &grant.credentials {
            wanted.entry(name).or_default().insert(&grant.host);
        }
    }
    let mut all = BTreeMap::new();
    for (name, hosts) in wanted {
        let wrong = |why: String| {
            unavailable(format!(
                "spec.wasm.grants.http.credentials: Secret {namespace}/{name}: {why}"
            ))
        };
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = tokio::time::timeout(PATIENCE, secrets.get_opt(name)).await;
        let secret = match found {
            Err(_) => return Err(wrong("it was not read in time".to_owned())),
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => return Err(wrong("found none, wanted an existing one".to_owned())),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                let wanted = "wanted a RoleBinding to ClusterRole numo-rule-pull-secrets, or a Role with resourceNames";
                return Err(wrong(format!("numo may not read it, {wanted}")));
            }
            Ok(Err(error)) => return Err(wrong(error.to_string())),
        };
        if let Some(host) = hosts.into_iter().find(|host| !is_for(&secret, host)) {
            return Err(wrong(format!(
                "its annotation {} does not name {host}",
                marks::RULE_HOSTS
            )));
        }
        let credential = credential(&secret).ok_or_else(|| {
            wrong("found no key token, no username and password, and no header and value".to_owned())
        })?;
        all.insert(name.clone(), credential);
    }
    Ok(all)
}

/// Whether its owner says that it is for this server.
fn is_for(secret: &Secret, host: &str) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let hosts = annotations.and_then(|annotations| annotations.get(marks::RULE_HOSTS));
    hosts.is_some_and(|hosts| hosts.split(',').any(|one| one.trim().eq_ignore_ascii_case(host)))
}

/// `token` is a bearer token; `username` and `password` are basic authorisation, as in type kubernetes.io/basic-auth;
/// `header` and `value` are any header.
fn credential(secret: &Secret) -> Option<Credential> {
    let text = |key: &str| {
        let bytes = &secret.data.as_ref()?.get(key)?.0;
        let text = std::str::from_utf8(bytes).ok()?;
        Some(text.trim_end_matches(['\r', '\n']).to_owned())
    };
    let authorization = |value: String| Credential {
        header: "authorization".to_owned(),
        value,
    };
    if let Some(token) = text("token") {
        return Some(authorization(format!("Bearer {token}")));
    }
    if let (Some(user), Some(password)) = (text("username"), text("password")) {
        let pair = BASE64_STANDARD.encode(format!("{user}:{password}"));
        return Some(authorization(format!("Basic {pair}")));
    }
    let (header, value) = (text("header")?, text("value")?);
    Some(Credential { header, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_secret_is_a_token_a_pair_or_a_header() {
        let check = |data: &[(&str, &str)], wanted: Option<(&str, &str)>| {
            let found = credential(&secret(data));
            let found = found
                .as_ref()
                .map(|found| (found.header.as_str(), found.value.as_str()));
            assert_eq!(found, wanted, "{data:?}");
        };
        check(&[("token", "abc\n")], Some(("authorization", "Bearer abc")));
        check(
            &[("username", "team"), ("password", "let-me-in")],
            Some(("authorization", "Basic dGVhbTpsZXQtbWUtaW4=")),
        );
        check(&[("header", "x-key"), ("value", "1")], Some(("x-key", "1")));
        check(&[("username", "team")], None);
        check(&[], None);
    }

    #[test]
    fn a_secret_goes_only_where_its_owner_says() {
        let mut secret = secret(&[("token", "abc")]);
        assert!(!is_for(&secret, "status.example.com"));
        let hosts = "status.example.com, other.example.com".to_owned();
        secret.metadata.annotations = Some([(marks::RULE_HOSTS.to_owned(), hosts)].into());
        assert!(is_for(&secret, "other.example.com") && is_for(&secret, "Status.Example.com"));
        assert!(!is_for(&secret, "example.com"));
    }
}
