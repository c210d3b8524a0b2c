//! Fetches: a tag becomes a digest once, and what has that digest is read. It trusts no length and no media type that
//! only a header says.

use bytes::Bytes;
use http::{HeaderValue, Method, header};

use super::{
    credentials::Credentials,
    digest::Digest,
    error::OciError,
    layout::{CONFIG_BYTES, Descriptor, INDEX, Index, MANIFEST, MANIFEST_BYTES, Manifest, WasmConfig},
    reference::{Pinned, Reference, Version},
    registry::{Call, Expect, Failed, Registry, Session},
};

/// A component, fetched and of the digest that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// What it is.
    pub pinned: Pinned,
    /// The manifest as it is hashed.
    pub manifest: Vec<u8>,
    /// What its author says of it.
    pub config: WasmConfig,
    /// Annotations of the manifest, at most [`MANIFEST_BYTES`].
    pub annotations: std::collections::BTreeMap<String, String>,
    /// The bytes of the component.
    pub component: Vec<u8>,
}

impl Registry {
    /// What digest `reference` has now. Asks the registry once; a reference by digest is looked for too, so that a
    /// missing one is found here. Fails for indexes and other artifacts than components.
    pub async fn resolve(
        &self,
        reference: &Reference,
        credentials: &Credentials,
    ) -> Result<Pinned, OciError> {
        let mut failed = Failed::default();
        for mut session in self.sessions(reference, credentials)? {
            match session.manifest(&reference.version).await {
                Ok((manifest, bytes)) => {
                    manifest.component(session.shown(), u64::MAX)?;
                    return Ok(reference.pinned(Digest::of(&bytes)));
                }
                Err(error) => failed.add(error),
            }
        }
        Err(failed.told(reference))
    }

    /// The component with this digest, if it has at most `most` bytes.
    pub async fn pull(
        &self,
        pinned: &Pinned,
        credentials: &Credentials,
        most: u64,
    ) -> Result<Artifact, OciError> {
        let mut failed = Failed::default();
        for mut session in self.sessions(&pinned.reference(), credentials)? {
            match session.artifact(pinned, most).await {
                Ok(artifact) => return Ok(artifact),
                Err(error) => failed.add(error),
            }
        }
        Err(failed.told(pinned))
    }
}

impl Session<'_> {
    async fn artifact(&mut self, pinned: &Pinned, most: u64) -> Result<Artifact, OciError> {
        let (manifest, bytes) = self.manifest(&Version::Digest(pinned.digest.clone())).await?;
        let layer = manifest.component(self.shown(), most)?;
        let config = self.blob(&manifest.config, "config", CONFIG_BYTES).await?;
        let config = serde_json::from_slice(&config)
            .map_err(|error| OciError::malformed(self.shown(), "config", error.to_string()))?;
        let component = self.blob(layer, "layer", most).await?;
        Ok(Artifact {
            pinned: pinned.clone(),
            manifest: bytes,
            config,
            annotations: manifest.annotations,
            component,
        })
    }

    /// An image manifest and its bytes.
    pub(crate) async fn manifest(&mut self, version: &Version) -> Result<(Manifest, Vec<u8>), OciError> {
        let (media_type, bytes) = self.document(version).await?;
        if media_type != MANIFEST {
            return Err(OciError::media_type(
                self.shown(),
                "manifest",
                &media_type,
                MANIFEST,
            ));
        }
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|error| OciError::malformed(self.shown(), "manifest", error.to_string()))?;
        Ok((manifest, bytes))
    }

    /// The index at a tag, or nothing if there is none or it is no index.
    pub(crate) async fn index(&mut self, tag: &str) -> Result<Option<Index>, OciError> {
        let (media_type, bytes) = match self.document(&Version::Tag(tag.to_owned())).await {
            Err(OciError::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        if media_type != INDEX {
            return Ok(None);
        }
        let read = serde_json::from_slice(&bytes);
        read.map(Some)
            .map_err(|error| OciError::malformed(self.shown(), "index", error.to_string()))
    }

    /// What refers to `subject`, from the referrers API; nothing where the registry has none.
    pub(crate) async fn referrers(&mut self, subject: &Digest) -> Result<Option<Index>, OciError> {
        let at = format!("referrers/{subject}");
        let answer = self
            .get(&at, "referrers", INDEX, Expect::AtMost(MANIFEST_BYTES))
            .await;
        let fetched = match answer {
            // Registries without it answer 404, or 400 for a path that they do not know.
            Err(OciError::NotFound { .. } | OciError::Malformed { .. }) => return Ok(None),
            answer => answer?,
        };
        // Some answer everything they do not know with a page of their own.
        if fetched.media_type() != INDEX {
            return Ok(None);
        }
        let read = serde_json::from_slice(&fetched.bytes);
        read.map(Some)
            .map_err(|error| OciError::malformed(self.shown(), "referrers", error.to_string()))
    }

    /// A manifest of any kind: what it says it is, and its bytes, whose digest was checked if it was asked for by one.
    async fn document(&mut self, version: &Version) -> Result<(String, Vec<u8>), OciError> {
        let at = format!("manifests/{version}");
        let accept = format!("{MANIFEST}, {INDEX}");
        let fetched = self
            .get(&at, "manifest", &accept, Expect::AtMost(MANIFEST_BYTES))
            .await?;
        if let Version::Digest(wanted) = version
            && fetched.digest != *wanted
        {
            return Err(OciError::mismatch(
                self.shown(),
                "manifest",
                &fetched.digest,
                wanted,
            ));
        }
        if let Some(told) = fetched
            .text("docker-content-digest")
            .and_then(|text| text.parse::<Digest>().ok())
            && told != fetched.digest
        {
            return Err(OciError::mismatch(
                self.shown(),
                "manifest",
                &fetched.digest,
                &told,
            ));
        }
        // The header and the document itself must agree (CVE-2021-41190).
        let inside = serde_json::from_slice::<Kind>(&fetched.bytes)
            .ok()
            .and_then(|kind| kind.media_type);
        let header = fetched.media_type().to_owned();
        match inside {
            Some(inside) if inside != header => {
                Err(OciError::media_type(self.shown(), "manifest", &inside, &header))
            }
            _ => Ok((header, fetched.bytes)),
        }
    }

    /// A blob of at most `most` bytes.
    pub(crate) async fn blob(
        &mut self,
        blob: &Descriptor,
        what: &str,
        most: u64,
    ) -> Result<Vec<u8>, OciError> {
        if blob.size > most {
            return Err(OciError::too_large(self.shown(), what, Some(blob.size), most));
        }
        let at = format!("blobs/{}", blob.digest);
        let expect = Expect::Exactly(&blob.digest, blob.size);
        Ok(self.get(&at, what, "*/*", expect).await?.bytes)
    }

    async fn get(
        &mut self,
        at: &str,
        what: &str,
        accept: &str,
        expect: Expect<'_>,
    ) -> Result<super::registry::Fetched, OciError> {
        let accept = HeaderValue::from_str(accept).unwrap_or(HeaderValue::from_static("*/*"));
        let headers = vec![(header::ACCEPT, accept)];
        self.call(Call {
            method: Method::GET,
            at,
            what,
            headers,
            body: Bytes::new(),
            expect,
        })
        .await
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    media_type: Option<String>,
}
