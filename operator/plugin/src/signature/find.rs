//! Looks for signatures where cosign puts them. What a registry says is bounded and believed only about what it has: that
//! it failed to answer is never taken for "there are none".

use super::{
    bundle, legacy,
    policy::{CANDIDATE_BYTES, CANDIDATES, Candidate, SignatureError},
};
use crate::oci::{
    credentials::Credentials,
    digest::Digest,
    error::OciError,
    layout::Descriptor,
    reference::{Pinned, Version},
    registry::{Registry, Session},
};

impl Registry {
    /// The signatures of an artifact, at most [`CANDIDATES`], from the first of its places that has any. One that is too
    /// large or broken is left out.
    ///
    /// The order in which a registry lists referrers is its own: who may push there can hide a signature behind twenty
    /// others, and then the artifact is not taken as signed.
    pub async fn signatures(
        &self,
        pinned: &Pinned,
        credentials: &Credentials,
    ) -> Result<Vec<Candidate>, SignatureError> {
        let sessions = self
            .sessions(&pinned.reference(), credentials)
            .map_err(SignatureError::Registry)?;
        let mut failed = None;
        for mut session in sessions {
            match session.candidates(&pinned.digest).await {
                Ok(found) if !found.is_empty() => return Ok(found),
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(SignatureError::Registry(error)),
            None => Ok(Vec::new()),
        }
    }
}

/// The tag that stands in for the referrers API.
pub(super) fn fallback_tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

/// The tag of the first layout.
pub(super) fn signature_tag(digest: &Digest) -> String {
    format!("sha256-{}.sig", digest.hex())
}

impl Session<'_> {
    async fn candidates(&mut self, digest: &Digest) -> Result<Vec<Candidate>, OciError> {
        let mut found = self.simple_signing(digest).await?;
        let mut referrers = self
            .referrers(digest)
            .await?
            .map(|index| index.manifests)
            .unwrap_or_default();
        // A registry that learnt the API later has older referrers only at the tag.
        let tagged = self
            .index(&fallback_tag(digest))
            .await?
            .map(|index| index.manifests)
            .unwrap_or_default();
        for descriptor in tagged {
            if !referrers.iter().any(|known| known.digest == descriptor.digest) {
                referrers.push(descriptor);
            }
        }
        // Some registries say nothing useful of the type, so the others are looked at too, but last.
        let named = |one: &Descriptor| {
            one.artifact_type
                .as_deref()
                .is_some_and(|kind| kind.starts_with(bundle::MEDIA_TYPE_START))
        };
        referrers.sort_by_key(|descriptor| !named(descriptor));
        for descriptor in referrers.iter().take(CANDIDATES) {
            if found.len() >= CANDIDATES {
                break;
            }
            match self.bundle(digest, descriptor).await {
                Ok(bundle) => found.extend(bundle),
                Err(error) if is_its_own_fault(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn simple_signing(&mut self, digest: &Digest) -> Result<Vec<Candidate>, OciError> {
        let manifest = match self.manifest(&Version::Tag(signature_tag(digest))).await {
            Ok((manifest, _)) => manifest,
            Err(error) if is_its_own_fault(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for layer in manifest
            .layers
            .iter()
            .filter(|layer| layer.media_type == legacy::MEDIA_TYPE)
            .take(CANDIDATES)
        {
            let Some(signature) = layer.annotations.get(legacy::ANNOTATION) else {
                continue;
            };
            match self
                .blob(layer, "signature", CANDIDATE_BYTES)
                .await
                .map(String::from_utf8)
            {
                Ok(Ok(payload)) => found.push(Candidate::SimpleSigning {
                    payload,
                    signature: signature.clone(),
                }),
                Ok(Err(_)) => {}
                Err(error) if is_its_own_fault(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn bundle(
        &mut self,
        digest: &Digest,
        descriptor: &Descriptor,
    ) -> Result<Option<Candidate>, OciError> {
        if descriptor.size > CANDIDATE_BYTES {
            return Ok(None);
        }
        let (manifest, _) = self.manifest(&Version::Digest(descriptor.digest.clone())).await?;
        if manifest
            .subject
            .as_ref()
            .is_none_or(|subject| subject.digest != *digest)
        {
            return Ok(None);
        }
        let Some(layer) = manifest
            .layers
            .iter()
            .find(|layer| layer.media_type.starts_with(bundle::MEDIA_TYPE_START))
        else {
            return Ok(None);
        };
        let json = self.blob(layer, "bundle", CANDIDATE_BYTES).await?;
        Ok(String::from_utf8(json)
            .ok()
            .map(|json| Candidate::Bundle { json }))
    }
}

/// Whether an error is about this one document, so that others may still count; not about the registry.
fn is_its_own_fault(error: &OciError) -> bool {
    match error {
        OciError::NotFound { .. }
        | OciError::WrongMediaType { .. }
        | OciError::TooLarge { .. }
        | OciError::DigestMismatch { .. }
        | OciError::Malformed { .. } => true,
        OciError::InvalidReference { .. }
        | OciError::Unauthorised { .. }
        | OciError::RegistryUnavailable { .. }
        | OciError::NotAllowed { .. } => false,
    }
}
