//! Signs an artifact with a key and puts the signature where cosign and [`super::find`] look for it. It signs digests
//! only, and tells nobody else: no transparency log.

use super::{
    bundle, find,
    key::{KeyError, SigningKey},
    legacy,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::oci::{
    credentials::Credentials,
    digest::Digest,
    error::OciError,
    layout::{Descriptor, EMPTY, EMPTY_BYTES, Index, MANIFEST, Manifest},
    push::json,
    reference::{Pinned, Reference, Version},
    registry::{Registry, Session},
};

/// Where a signature is put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// A Sigstore bundle that refers to the artifact, cosign 3's default.
    #[default]
    Bundle,
    /// The `.sig` tag, for what only reads that.
    SimpleSigning,
}

/// Why nothing was signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The registry.
    #[error(transparent)]
    Registry(#[from] OciError),
}

/// Where the signature went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signature's own manifest.
    pub at: Reference,
}

impl SigningKey {
    /// A Sigstore bundle by this key that what has `digest` is meant, with the repository it is for: what [`Registry::sign`] puts beside
    /// an artifact.
    pub fn vouch_for(&self, repository: &str, digest: &Digest) -> Result<Vec<u8>, KeyError> {
        bundle::sign(self, repository, digest)
    }

    /// A Sigstore bundle by this key of an in-toto statement, as JSON: where an artifact comes from, or what it is made of. It is no
    /// signature: a [`super::Policy`] does not take it for one.
    pub fn attest(&self, statement: &[u8]) -> Result<Vec<u8>, KeyError> {
        bundle::envelope(self, statement)
    }
}

impl Registry {
    /// Signs what `pinned` names, which must be in the registry.
    pub async fn sign(
        &self,
        pinned: &Pinned,
        credentials: &Credentials,
        key: &SigningKey,
        layout: Layout,
    ) -> Result<Signed, SignError> {
        let mut session = self.pusher(
            pinned.to_string(),
            (&pinned.registry, &pinned.repository),
            credentials,
        );
        let (_, subject) = session.manifest(&Version::Digest(pinned.digest.clone())).await?;
        let version = match layout {
            Layout::Bundle => session.put_bundle(pinned, &subject, key).await?,
            Layout::SimpleSigning => session.put_simple_signing(pinned, key).await?,
        };
        let at = Reference {
            registry: pinned.registry.clone(),
            repository: pinned.repository.clone(),
            version,
        };
        Ok(Signed { at })
    }
}

impl Session<'_> {
    async fn put_bundle(
        &mut self,
        pinned: &Pinned,
        subject: &[u8],
        key: &SigningKey,
    ) -> Result<Version, SignError> {
        let repository = format!("{}/{}", pinned.registry, pinned.repository);
        let bundle = bundle::sign(key, &repository, &pinned.digest)?;
        let mut manifest = Manifest::new(
            Descriptor::new(EMPTY, EMPTY_BYTES),
            vec![Descriptor::new(bundle::MEDIA_TYPE, &bundle)],
        );
        manifest.artifact_type = Some(bundle::MEDIA_TYPE.to_owned());
        manifest.subject = Some(Descriptor::new(MANIFEST, subject));
        manifest.annotations.insert(
            "dev.sigstore.bundle.content".to_owned(),
            "dsse-envelope".to_owned(),
        );
        manifest.annotations.insert(
            "dev.sigstore.bundle.predicateType".to_owned(),
            bundle::PREDICATE.to_owned(),
        );
        let bytes = json(pinned, "manifest", &manifest)?;
        let mut descriptor = Descriptor::new(MANIFEST, &bytes);
        descriptor.artifact_type.clone_from(&manifest.artifact_type);
        descriptor.annotations = manifest.annotations;
        let version = Version::Digest(descriptor.digest.clone());
        self.put_blob(EMPTY_BYTES.into(), "config").await?;
        self.put_blob(bundle.into(), "bundle").await?;
        if !self.put_manifest(&version, MANIFEST, bytes).await? {
            // Without the referrers API the client keeps the list; two clients at once may lose one entry of it.
            let tag = find::fallback_tag(&pinned.digest);
            let mut known = self
                .index(&tag)
                .await?
                .map(|index| index.manifests)
                .unwrap_or_default();
            known.push(descriptor);
            self.put_index(&tag, &Index::new(known)).await?;
        }
        Ok(version)
    }

    async fn put_simple_signing(&mut self, pinned: &Pinned, key: &SigningKey) -> Result<Version, SignError> {
        let repository = format!("{}/{}", pinned.registry, pinned.repository);
        let document = legacy::document(&repository, &pinned.digest)
            .map_err(|error| OciError::malformed(pinned, "signature", error.to_string()))?;
        let mut layer = Descriptor::new(legacy::MEDIA_TYPE, &document);
        layer.annotations.insert(
            legacy::ANNOTATION.to_owned(),
            STANDARD.encode(key.sign(&document)?),
        );
        let version = Version::Tag(find::signature_tag(&pinned.digest));
        let mut layers = match self.manifest(&version).await {
            Ok((manifest, _)) => manifest.layers,
            Err(OciError::NotFound { .. }) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        layers.push(layer);
        let config = br#"{"architecture":"","os":"","rootfs":{"type":"layers","diff_ids":[]}}"#;
        let manifest = Manifest::new(
            Descriptor::new("application/vnd.oci.image.config.v1+json", config),
            layers,
        );
        self.put_blob(document.into(), "signature").await?;
        self.put_blob(config.as_slice().into(), "config").await?;
        self.put_manifest(&version, MANIFEST, json(pinned, "manifest", &manifest)?)
            .await?;
        Ok(version)
    }
}
