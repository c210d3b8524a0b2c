//! Who vouches for a component: signatures over the digest of its manifest, checked against a policy without asking
//! anybody. Looking for signatures is the only part that talks to a registry, and what was found can be kept and
//! checked again when the registry is gone.
//!
//! Both layouts of cosign are read: the `.sig` tag, and Sigstore bundles that refer to the manifest, by the referrers
//! API or by the tag that stands in for it. A transparency log is not asked and not required for keys: who holds the
//! key has signed. Identities are checked against a trust root that is given, in bundles only: keyless signatures in
//! the older layout, which cosign no longer writes by default, are not read.
//!
//! Keys are checked by code of our own over aws-lc-rs, which TLS brings along: `sigstore-verify` reads no `.sig` layout
//! and wants a trust root even for plain keys. Identities are checked by it.

mod bundle;
mod find;
mod key;
mod keyless;
mod legacy;
mod sign;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    oci::{Digest, OciError},
    reason::{Reason, Refused},
};

pub use key::{KeyError, PublicKey, SigningKey};
pub use keyless::{TrustRoot, TrustRootError};
pub use sign::{Layout, SignError, Signed};

/// Signatures that are looked at for one component.
pub const CANDIDATES: usize = 20;
/// Bytes of one signature, with what it signs.
pub const CANDIDATE_BYTES: u64 = 64 * 1024;

/// Who must have signed. One signature by one of the keys or identities is enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Public keys.
    pub keys: Vec<PublicKey>,
    /// Keyless signers.
    pub identities: Vec<Identity>,
    /// What follows when nobody of them has.
    pub mode: Mode,
}

/// What follows from a component that nobody named in the policy has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// It does not run.
    #[default]
    Enforce,
    /// It runs, and the failure is told.
    Warn,
}

/// A keyless signer: a certificate's subject, and who vouched for it. Compared exactly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// `https://token.actions.githubusercontent.com`
    pub issuer: String,
    /// A mail address or URI.
    pub subject: String,
}

impl FromStr for Identity {
    type Err = String;

    /// `https://issuer.example,https://example.com/build`: an issuer has no comma, a subject may.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once(',')
            .map(|(issuer, subject)| (issuer.trim(), subject.trim()));
        match parts {
            Some((issuer, subject)) if !issuer.is_empty() && !subject.is_empty() => Ok(Self {
                issuer: issuer.to_owned(),
                subject: subject.to_owned(),
            }),
            _ => Err(format!("found {text:?}, wanted ISSUER,SUBJECT")),
        }
    }
}

/// A signature as it was found. It is kept in the cache and proves nothing by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "layout")]
pub enum Candidate {
    /// From the `.sig` tag.
    #[serde(rename_all = "camelCase")]
    SimpleSigning {
        /// What was signed.
        payload: String,
        /// In base64.
        signature: String,
    },
    /// A Sigstore bundle, as JSON text.
    Bundle {
        /// The text.
        json: String,
    },
}

/// Who vouches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Signer {
    /// A key, by the SHA-256 of its DER form.
    Key(Digest),
    /// A keyless identity.
    Identity {
        /// Who vouched for it.
        issuer: String,
        /// Who it is.
        subject: String,
    },
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(digest) => write!(f, "key {digest}"),
            Self::Identity { issuer, subject } => write!(f, "{subject} by {issuer}"),
        }
    }
}

/// Why a component is not taken as signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature at all.
    #[error("{digest} has no signature; wanted one by {wanted}")]
    Unsigned {
        /// Of the manifest.
        digest: Digest,
        /// The policy in words.
        wanted: String,
    },
    /// There are signatures, and none counts.
    #[error("{digest} has {found} signatures, none by {wanted}: {why}")]
    SignatureMismatch {
        /// Of the manifest.
        digest: Digest,
        /// How many were looked at.
        found: usize,
        /// The policy in words.
        wanted: String,
        /// What is wrong with the first ones.
        why: String,
    },
    /// The policy names nobody, or only signers that this numo cannot check.
    #[error("the policy cannot be checked: {0}")]
    UnsupportedPolicy(String),
    /// The registry did not say whether there are signatures.
    #[error("signatures: {0}")]
    Registry(OciError),
}

impl SignatureError {
    /// The stable name: for conditions, events, metric labels.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unsigned { .. } => "Unsigned",
            Self::SignatureMismatch { .. } => "SignatureMismatch",
            Self::UnsupportedPolicy(_) => "UnsupportedPolicy",
            Self::Registry(error) => error.reason(),
        }
    }

    /// As the host's refusal. What is wrong with the policy is a mismatch: nothing can meet it.
    pub fn refused(&self) -> Refused {
        let reason = match self {
            Self::Unsigned { .. } => Reason::Unsigned,
            Self::SignatureMismatch { .. } | Self::UnsupportedPolicy(_) => Reason::SignatureMismatch,
            Self::Registry(_) => Reason::RegistryUnavailable,
        };
        Refused::new(reason, self.to_string())
    }
}

impl Candidate {
    /// Where it was found, in words.
    pub const fn layout(&self) -> &'static str {
        match self {
            Self::SimpleSigning { .. } => ".sig tag",
            Self::Bundle { .. } => "bundle",
        }
    }
}

/// Checks one signature. Offline: an implementation asks nobody and reads no clock of the network.
pub trait Verifier: Send + Sync {
    /// Who signed `digest`, if this signature shows it; else what is wrong, as the end of a sentence.
    fn verify(&self, digest: &Digest, candidate: &Candidate) -> Result<Signer, String>;
}

/// Accepts signatures by one key, in both layouts.
impl Verifier for PublicKey {
    fn verify(&self, digest: &Digest, candidate: &Candidate) -> Result<Signer, String> {
        match candidate {
            Candidate::SimpleSigning { payload, signature } => {
                legacy::verify(self, digest, payload, signature)?;
            }
            Candidate::Bundle { json } => bundle::verify(self, digest, json.as_bytes())?,
        }
        Ok(Signer::Key(self.id()))
    }
}

impl Policy {
    /// In words, for errors.
    fn shown(&self) -> String {
        let keys = self.keys.iter().map(|key| format!("key {}", key.id()));
        let identities = self
            .identities
            .iter()
            .map(|one| format!("{} by {}", one.subject, one.issuer));
        keys.chain(identities).collect::<Vec<_>>().join(" or ")
    }

    /// Who of the policy signed `digest`, of what was found for it. Beyond [`CANDIDATES`] nothing is looked at.
    ///
    /// `others` check what keys cannot: keyless signatures against given trust roots. With none given, identities are
    /// never met, and a policy of identities alone is refused as such.
    pub fn check(
        &self,
        digest: &Digest,
        candidates: &[Candidate],
        others: &[&dyn Verifier],
    ) -> Result<Vec<Signer>, SignatureError> {
        if self.keys.is_empty() && self.identities.is_empty() {
            return Err(SignatureError::UnsupportedPolicy(
                "it names neither keys nor identities".to_owned(),
            ));
        }
        if self.keys.is_empty() && others.is_empty() {
            let why =
                "it names only identities, and no Sigstore trust root is given to check them".to_owned();
            return Err(SignatureError::UnsupportedPolicy(why));
        }
        if candidates.is_empty() {
            return Err(SignatureError::Unsigned {
                digest: digest.clone(),
                wanted: self.shown(),
            });
        }
        let mut signers = Vec::new();
        let mut wrong = Vec::new();
        for candidate in candidates.iter().take(CANDIDATES) {
            let keys = self.keys.iter().map(|key| key as &dyn Verifier);
            for verifier in keys.chain(others.iter().copied()) {
                match verifier.verify(digest, candidate) {
                    Ok(signer) if self.names(&signer) && !signers.contains(&signer) => signers.push(signer),
                    Ok(signer) if self.names(&signer) => {}
                    Ok(signer) => wrong.push(format!("it is by {signer}")),
                    Err(why) => wrong.push(why),
                }
            }
        }
        if !signers.is_empty() {
            return Ok(signers);
        }
        wrong.dedup();
        wrong.truncate(3);
        Err(SignatureError::SignatureMismatch {
            digest: digest.clone(),
            found: candidates.len(),
            wanted: self.shown(),
            why: crate::text::clean(&wrong.join("; "), 512),
        })
    }

    fn names(&self, signer: &Signer) -> bool {
        match signer {
            Signer::Key(id) => self.keys.iter().any(|key| key.id() == *id),
            Signer::Identity { issuer, subject } => self
                .identities
                .iter()
                .any(|one| one.issuer == *issuer && one.subject == *subject),
        }
    }
}

/// Decodes what signatures are written in: base64, standard or for URLs, padded or not.
fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::{
        Engine as _, alphabet,
        engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    };
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text = text.trim();
    let standard = GeneralPurpose::new(&alphabet::STANDARD, config).decode(text);
    standard
        .or_else(|_| GeneralPurpose::new(&alphabet::URL_SAFE, config).decode(text))
        .ok()
}
