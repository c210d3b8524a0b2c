//! What etcd holds, read and written past the API server: only to bring a control plane back to
//! what it was, never to make an object.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::Deserialize;
use serde_json::{Value, json};

/// Below it lies every object of Kubernetes.
const OBJECTS: &str = "/registry/";
/// etcd takes 128 operations in a transaction.
const OPERATIONS: usize = 128;

/// The key of every object, and what is stored there, in base64.
pub(crate) type Keys = BTreeMap<String, String>;

/// One change to etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Delete { key: String },
    Put { key: String, value: String },
}

/// A client of etcd's JSON gateway.
pub(crate) struct Etcd(Client);

impl Etcd {
    /// A client of the etcd at this URL.
    pub(crate) fn new(url: &str) -> Result<Self> {
        let mut config = Config::new(url.parse().context("etcd's URL")?);
        config.proxy_url = None;
        Ok(Self(Client::try_from(config)?))
    }

    /// The same, where etcd asks for a certificate: that of a folder with `ca.crt`, `tls.crt` and `tls.key`.
    pub(crate) fn with_certificate(url: &str, folder: &Path) -> Result<Self> {
        let path = |name: &str| Some(folder.join(name).display().to_string());
        let mut config = Config::new(url.parse().context("etcd's URL")?);
        config.proxy_url = None;
        let authority = CertificateDer::from_pem_file(folder.join("ca.crt"));
        let authority = authority.context("the authority of etcd")?;
        config.root_cert = Some(vec![authority.to_vec()]);
        config.auth_info.client_certificate = path("tls.crt");
        config.auth_info.client_key = path("tls.key");
        Ok(Self(Client::try_from(config)?))
    }

    /// The names of its members, as a majority of them has it.
    pub(crate) async fn members(&self) -> Result<BTreeSet<String>> {
        let listed: Members = self
            .ask("/v3/cluster/member/list", &json!({"linearizable": true}))
            .await?;
        Ok(listed.members.into_iter().map(|member| member.name).collect())
    }

    /// Adds a member, which starts later.
    pub(crate) async fn add_member(&self, peer_url: &str) -> Result<()> {
        let request = json!({"peerURLs": [peer_url]});
        let _: Value = self.ask("/v3/cluster/member/add", &request).await?;
        Ok(())
    }

    /// All there is, at one revision.
    pub(crate) async fn keys(&self) -> Result<Keys> {
        let request = json!({
            "key": BASE64_STANDARD.encode(OBJECTS),
            // The first key behind all of them: `0` follows `/`.
            "range_end": BASE64_STANDARD.encode("/registry0"),
        });
        let range: Range = self.ask("/v3/kv/range", &request).await?;
        let pair = |kv: KeyValue| Ok((String::from_utf8(BASE64_STANDARD.decode(kv.key)?)?, kv.value));
        range.kvs.into_iter().map(pair).collect()
    }

    /// Carries out operations, some at a time.
    pub(crate) async fn change(&self, operations: &[Operation]) -> Result<()> {
        for some in operations.chunks(OPERATIONS) {
            let success: Vec<Value> = some.iter().map(Operation::request).collect();
            let _: Value = self.ask("/v3/kv/txn", &json!({ "success": success })).await?;
        }
        Ok(())
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        let request = http::Request::post(path).body(serde_json::to_vec(body)?)?;
        self.0
            .request(request)
            .await
            .with_context(|| format!("etcd {path}"))
    }
}

impl Operation {
    /// Puts this value at this key.
    pub(crate) fn put((key, value): (&String, &String)) -> Self {
        Self::Put {
            key: key.clone(),
            value: value.clone(),
        }
    }

    /// The key it is about.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Delete { key } | Self::Put { key, .. } => key,
        }
    }

    /// Whether its key begins with one of these.
    pub(crate) fn is_below(&self, prefixes: &[&str]) -> bool {
        prefixes.iter().any(|prefix| self.key().starts_with(prefix))
    }

    fn request(&self) -> Value {
        match self {
            Self::Delete { key } => json!({ "request_delete_range": { "key": BASE64_STANDARD.encode(key) } }),
            Self::Put { key, value } => {
                json!({ "request_put": { "key": BASE64_STANDARD.encode(key), "value": value } })
            }
        }
    }
}

#[derive(Deserialize)]
struct Members {
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
}
