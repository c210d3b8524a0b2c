//! An OCI layout: a folder of blobs by their digests, and an index that names what is pushed, by its whole reference. It knows
//! nothing of numo.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use numo_plugin::oci::Digest;
use serde_json::{Value, json};

/// Media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of a gzipped layer.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Media type of an image's configuration.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Media type of the configuration that is none.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The annotation by which the index names a reference.
pub const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// A layout that is written. What it returns are descriptors.
#[derive(Debug)]
pub struct Layout {
    folder: PathBuf,
    named: Vec<Value>,
    /// What refers to an artifact, by the artifact's repository and digest.
    referrers: BTreeMap<(String, String), Vec<Value>>,
}

impl Layout {
    /// An empty one in a folder that is made.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder.join("blobs/sha256")).context("make the OCI layout")?;
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        Ok(Self {
            folder: folder.to_owned(),
            named: Vec::new(),
            referrers: BTreeMap::new(),
        })
    }

    /// Puts a blob; equal bytes are kept once.
    pub fn blob(&self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let digest = Digest::of(bytes);
        fs::write(self.folder.join("blobs/sha256").join(digest.hex()), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": digest, "size": bytes.len()}))
    }

    /// Puts a manifest or an index.
    pub fn document(&self, document: &Value) -> Result<Value> {
        let media_type = document["mediaType"]
            .as_str()
            .context("a document without mediaType")?;
        self.blob(media_type, &serde_json::to_vec(document)?)
    }

    /// Puts the manifest of an artifact: one configuration, and layers.
    pub fn manifest(&self, config: &Value, layers: &[Value], annotations: &Value) -> Result<Value> {
        self.document(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers, "annotations": annotations,
        }))
    }

    /// Names what is to be pushed: `REPOSITORY:TAG`.
    pub fn name(&mut self, descriptor: &Value, reference: &str) {
        let mut named = descriptor.clone();
        named["annotations"][REFERENCE] = json!(reference);
        self.named.push(named);
    }

    /// Puts a document beside an artifact of a repository, as cosign does: a manifest that refers to it.
    pub fn refer(
        &mut self,
        repository: &str,
        subject: &Value,
        (media_type, annotations): (&str, &Value),
        document: &[u8],
    ) -> Result<()> {
        let config = self.blob(EMPTY, b"{}")?;
        let layer = self.blob(media_type, document)?;
        let subject = json!({
            "mediaType": subject["mediaType"], "digest": subject["digest"], "size": subject["size"],
        });
        let mut descriptor = self.document(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": media_type, "config": config,
            "layers": [layer], "subject": subject, "annotations": annotations,
        }))?;
        descriptor["artifactType"] = json!(media_type);
        descriptor["annotations"] = annotations.clone();
        let digest = subject["digest"].as_str().unwrap_or_default().to_owned();
        self.referrers
            .entry((repository.to_owned(), digest))
            .or_default()
            .push(descriptor);
        Ok(())
    }

    /// Writes the index. What refers to an artifact is named by the tag that stands in for the referrers API.
    pub fn finish(mut self) -> Result<()> {
        for ((repository, digest), manifests) in std::mem::take(&mut self.referrers) {
            let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
            let list = self.document(&list)?;
            self.name(&list, &format!("{repository}:{}", digest.replace(':', "-")));
        }
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.named});
        fs::write(self.folder.join("index.json"), serde_json::to_vec_pretty(&index)?)?;
        Ok(())
    }
}

/// A layout that is read.
#[derive(Debug)]
pub struct Read {
    folder: PathBuf,
}

impl Read {
    /// That of a folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// What the index names, in its order.
    pub fn named(&self) -> Result<Vec<Value>> {
        let path = self.folder.join("index.json");
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let index: Value = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        Ok(index["manifests"].as_array().cloned().unwrap_or_default())
    }

    /// The bytes of a descriptor.
    ///
    /// # Errors
    /// If they are not there, or are not those of the digest.
    pub fn blob(&self, descriptor: &Value) -> Result<Vec<u8>> {
        let digest: Digest = serde_json::from_value(descriptor["digest"].clone()).context("a digest")?;
        let path = self.folder.join("blobs/sha256").join(digest.hex());
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        anyhow::ensure!(
            Digest::of(&bytes) == digest,
            "{}: its bytes have another digest",
            path.display()
        );
        Ok(bytes)
    }

    /// A document of a descriptor.
    pub fn document(&self, descriptor: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(&self.blob(descriptor)?)?)
    }
}
