//! Keyless signatures: bundles with a short-lived certificate for a person or a build, checked against a trust root that
//! is given as a file. The cryptography and the rules of Sigstore are `sigstore-verify`'s; what a signature must say to
//! count is ours. Nothing here asks a network or learns a trust root by itself.
//!
//! What the trust root names is demanded: with a certificate log in it, each certificate must show that log's promise;
//! with a transparency log, each signature its entry there. A certificate lives for minutes, so a signature counts only
//! with a time that a log or a timestamp authority of the trust root vouches for.

use std::fmt;

use sigstore_verify::{
    VerificationPolicy, Verifier as Checker,
    trust_root::TrustedRoot,
    types::{Bundle, MediaType, Sha256Hash, SignatureContent, bundle::VerificationMaterialContent},
};

use super::{
    bundle,
    policy::{Candidate, Said, Signer, Verifier},
};
use crate::oci::digest::Digest;

/// Who is trusted to vouch for identities.
pub struct TrustRoot {
    checker: Checker,
    policy: VerificationPolicy,
}

/// Why a trust root cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustRootError {
    /// It is not what Sigstore calls a trusted root.
    #[error("found no trusted root of Sigstore (trusted_root.json): {0}")]
    Malformed(String),
    /// Nobody in it issues certificates.
    #[error("it names no certificate authority (certificateAuthorities)")]
    NoAuthority,
    /// Nobody in it says when something was signed.
    #[error("it names neither a transparency log (tlogs) nor a timestamp authority (timestampAuthorities)")]
    NoTime,
}

impl TrustRoot {
    /// From the text of a `trusted_root.json`, as `cosign trusted-root create` writes it.
    pub fn from_json(json: &str) -> Result<Self, TrustRootError> {
        let malformed = |error: &dyn fmt::Display| TrustRootError::Malformed(error.to_string());
        let root = TrustedRoot::from_json(json).map_err(|error| malformed(&error))?;
        if root.certificate_authorities.is_empty() {
            return Err(TrustRootError::NoAuthority);
        }
        if root.tlogs.is_empty() && root.timestamp_authorities.is_empty() {
            return Err(TrustRootError::NoTime);
        }
        // Who it was is compared with the policies, by the one who asks.
        let mut policy = VerificationPolicy::any_identity();
        if root.ctlogs.is_empty() {
            policy = policy.skip_sct();
        }
        if root.tlogs.is_empty() {
            policy = policy.skip_tlog_unsafe();
        }
        let checker = Checker::new(&root).map_err(|error| malformed(&error))?;
        Ok(Self { checker, policy })
    }
}

impl fmt::Debug for TrustRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustRoot").finish_non_exhaustive()
    }
}

impl Verifier for TrustRoot {
    fn vouch(&self, digest: &Digest, candidate: &Candidate) -> Result<(Signer, Said), String> {
        let Candidate::Bundle { json } = candidate else {
            return Err("a .sig signature is not by an identity".to_owned());
        };
        let wrong = |error: &dyn fmt::Display| format!("a bundle is not by an identity: {error}");
        let parsed = Bundle::from_json(json).map_err(|error| wrong(&error))?;
        // Older bundles bring issuers along, which any authority below a trusted root could be, and need no proof of a log.
        if parsed.media_type() != MediaType::Bundle0_3 {
            return Err(wrong(&"found a version before 0.3"));
        }
        let VerificationMaterialContent::Certificate(_) = &parsed.verification_material.content else {
            return Err(wrong(&"found no certificate"));
        };
        // What is read is what was checked: a second look at the text could find another envelope.
        let SignatureContent::DsseEnvelope(envelope) = &parsed.content else {
            return Err(wrong(&"found no DSSE envelope"));
        };
        let hash = Sha256Hash::from_hex(digest.hex()).map_err(|error| wrong(&error))?;
        let verified = self
            .checker
            .verify(hash, &parsed, &self.policy)
            .map_err(|error| wrong(&error))?;
        bundle::is_statement(&envelope.payload_type)?;
        let said = bundle::means(envelope.payload.as_bytes(), digest)?;
        match (verified.issuer(), verified.identity()) {
            (Some(issuer), Some(subject)) if verified.certificate_verified() => {
                let signer = Signer::Identity {
                    issuer: issuer.to_owned(),
                    subject: subject.as_str().to_owned(),
                };
                Ok((signer, said))
            }
            _ => Err("a certificate names no issuer or nobody".to_owned()),
        }
    }
}
