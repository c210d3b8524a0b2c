//! Who vouches for a release: one key, whose signatures numo itself, cosign and openssl can check.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use numo_plugin::signature::SigningKey;
use serde_json::{Value, json};

use super::Facts;

/// A key that signs, with the public half as PEM.
#[derive(Debug)]
pub struct Signer {
    /// The key.
    pub key: SigningKey,
    /// Of `numo.pub`.
    pub public: String,
}

impl Signer {
    /// That of a file: ECDSA P-256, unencrypted PKCS #8 PEM.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let pem = fs::read_to_string(path).with_context(|| format!("--key {shown}"))?;
        Self::of(&pem).with_context(|| format!("--key {shown}"))
    }

    /// One that nobody has afterwards, for what is only looked at.
    pub fn throw_away() -> Result<Self> {
        Self::of(&rcgen::KeyPair::generate()?.serialize_pem())
    }

    fn of(pem: &str) -> Result<Self> {
        let public = rcgen::KeyPair::from_pem(pem).context("wanted an ECDSA P-256 key as PKCS #8 PEM")?;
        Ok(Self {
            key: SigningKey::from_pem(pem)?,
            public: public.public_key_pem(),
        })
    }

    /// The signature of a file's bytes, in base64.
    pub fn sign(&self, bytes: &[u8]) -> Result<String> {
        Ok(format!("{}\n", STANDARD.encode(self.key.sign(bytes)?)))
    }
}

/// What somebody says about artifacts, as in-toto wants it: `subjects` are names with the digits of their SHA-256.
pub fn statement(kind: &str, subjects: &[(String, String)], predicate: &Value) -> Vec<u8> {
    let subjects: Vec<Value> = subjects
        .iter()
        .map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}}))
        .collect();
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": kind, "predicate": predicate,
    });
    statement.to_string().into_bytes()
}

/// Where a release was built and of what (SLSA v1).
pub fn provenance(facts: &Facts, profile: &str, platforms: &[String]) -> Value {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let source = facts.publisher.get("source");
    // A workflow of GitHub says which run of it this is.
    let run = variable("GITHUB_RUN_ID").zip(variable("GITHUB_REPOSITORY"));
    let builder = variable("GITHUB_WORKFLOW_REF").map_or_else(
        || format!("{source}/local-build"),
        |workflow| format!("https://github.com/{workflow}"),
    );
    let mut details = json!({"builder": {"id": builder}});
    if let Some((run, repository)) = run {
        let address = format!("https://github.com/{repository}/actions/runs/{run}");
        details["metadata"] = json!({"invocationId": address});
    }
    json!({
        "buildDefinition": {
            "buildType": format!("{}/releasing", facts.publisher.get("docs")),
            "externalParameters": {"version": facts.version, "profile": profile, "platforms": platforms, "dryRun": facts.dry_run},
            "internalParameters": {"workingTreeIsDirty": facts.is_dirty},
            "resolvedDependencies": [{"uri": format!("git+{source}"), "digest": {"gitCommit": facts.commit}}],
        },
        "runDetails": details,
    })
}
