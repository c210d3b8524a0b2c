//! Credentials that a rule may have attached to its requests: Secrets of its namespace, which numo reads where it is
//! invited and the component never sees. The Secret itself names the servers that it is for: otherwise whoever writes a
//! MutexRule could have any Secret that numo may read sent anywhere. Nothing is kept: what is taken away holds from the
//! next evaluation on.

use super::state::{PATIENCE, unavailable};
use crate::{
    runners::wasm::Fault,
    shell::{item::Item, servers::Server},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::ApiResource};
use numo_api::marks;
use numo_plugin::{Grants, grants::HttpGrant, services::Credential};
use std::collections::BTreeMap;

/// What the grants name, by name.
///
/// Errors: a Secret is not there, may not be read, or holds none; the text names it.
pub(super) async fn of(
    client: &Client,
    namespace: &str,
    grants: &Grants,
) -> Result<BTreeMap<String, Credential>, Fault> {
    let mut wanted: BTreeMap<&String, Vec<&HttpGrant>> = BTreeMap::new();
    for grant in &grants.http {
        for name in &grant.credentials {
            wanted.entry(name).or_default().push(grant);
        }
    }
    let resource = ApiResource::erase::<Secret>(&());
    let mut all = BTreeMap::new();
    for (name, servers) in wanted {
        let wrong = |why: String| {
            unavailable(format!(
                "spec.wasm.grants.http.credentials: Secret {namespace}/{name}: {why}"
            ))
        };
        let secrets: Api<Item> = Api::namespaced_with(client.clone(), namespace, &resource);
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
        if let Some(grant) = servers.into_iter().find(|grant| !is_for(&secret, grant)) {
            return Err(wrong(format!(
                "its annotation {} does not name {}",
                marks::RULE_HOSTS,
                server(grant).shown()
            )));
        }
        let credential = credential(&secret).ok_or_else(|| {
            wrong("found no key token, no username and password, and no header and value".to_owned())
        })?;
        all.insert(name.clone(), credential);
    }
    Ok(all)
}

fn server(grant: &HttpGrant) -> Server<'_> {
    Server {
        scheme: grant.scheme.as_str(),
        host: &grant.host,
        port: grant.effective_port(),
    }
}

/// Whether its owner says that it is for this server.
fn is_for(secret: &Item, grant: &HttpGrant) -> bool {
    server(grant).is_named_by(secret, marks::RULE_HOSTS)
}

/// `token` is a bearer token; `username` and `password` are basic authorisation, as in type kubernetes.io/basic-auth;
/// `header` and `value` are any header. Nothing else of the Secret is read.
fn credential(secret: &Item) -> Option<Credential> {
    let text = |key: &str| {
        let bytes: ByteString = secret.at(&["data", key])?;
        let text = String::from_utf8(bytes.0).ok()?;
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

    fn secret(data: &[(&str, &str)], servers: Option<&str>) -> Item {
        let data: BTreeMap<&str, String> = data
            .iter()
            .map(|(key, value)| (*key, BASE64_STANDARD.encode(value)))
            .collect();
        let annotations: BTreeMap<&str, &str> = servers
            .map(|servers| (marks::RULE_HOSTS, servers))
            .into_iter()
            .collect();
        let secret = serde_json::json!({"metadata": {"name": "a", "annotations": annotations}, "data": data});
        serde_json::from_str(&secret.to_string()).unwrap()
    }

    #[test]
    fn a_secret_is_a_token_a_pair_or_a_header() {
        let check = |data: &[(&str, &str)], wanted: Option<(&str, &str)>| {
            let found = credential(&secret(data, None));
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
        let unnamed = secret(&[("token", "abc")], None);
        let server = |host: &str, scheme: &str, port: u16| {
            serde_json::from_value(serde_json::json!({"host": host, "scheme": scheme, "port": port})).unwrap()
        };
        assert!(!is_for(&unnamed, &server("status.example.com", "https", 443)));
        let hosts = "status.example.com, other.example.com:8443, http://plain.example.com";
        let secret = secret(&[("token", "abc")], Some(hosts));
        for (host, scheme, port, is) in [
            ("Status.Example.com", "https", 443, true),
            ("status.example.com", "http", 80, false),
            ("other.example.com", "https", 8443, true),
            ("other.example.com", "https", 443, false),
            ("plain.example.com", "http", 8080, true),
            ("plain.example.com", "https", 443, false),
            ("example.com", "https", 443, false),
        ] {
            assert_eq!(
                is_for(&secret, &server(host, scheme, port)),
                is,
                "{scheme}://{host}:{port}"
            );
        }
    }
}
