//! What a policy asks, what a signature says, and whether the one meets the other.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    oci::{digest::Digest, error::OciError},
    reason::{Reason, Refused},
};

use super::key::PublicKey;

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
    /// The repository that the signature must name, letter by letter; none: any, or none at all.
    pub repository: Option<String>,
    /// What its annotations must say besides.
    pub annotations: BTreeMap<String, String>,
    /// What follows when nobody of them has.
    pub mode: Mode,
}

/// What a signature says besides the digest. It is signed too, and it is the signer's word only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Where the signer found the image: `critical.identity.docker-reference` of the first layout, the name of the subject of a bundle.
    /// cosign's bundles name none.
    pub repository: Option<String>,
    /// `optional` of the first layout, the annotations of the subject of a bundle; those with text.
    pub annotations: BTreeMap<String, String>,
}

impl Said {
    pub(super) fn new(
        repository: Option<&serde_json::Value>,
        annotations: Option<&serde_json::Value>,
    ) -> Self {
        let text = |value: &serde_json::Value| value.as_str().map(ToOwned::to_owned);
        let annotations = annotations.and_then(serde_json::Value::as_object);
        let annotations = annotations.into_iter().flatten();
        Self {
            repository: repository.and_then(text).filter(|name| !name.is_empty()),
            annotations: annotations
                .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                .collect(),
        }
    }
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
    /// Who signed `digest` and what was said besides, if this signature shows it; else what is wrong, as the end of a sentence. What was
    /// said is what was checked, not what a second look at the text finds.
    fn vouch(&self, digest: &Digest, candidate: &Candidate) -> Result<(Signer, Said), String>;

    /// Who signed `digest`, if this signature shows it.
    fn verify(&self, digest: &Digest, candidate: &Candidate) -> Result<Signer, String> {
        self.vouch(digest, candidate).map(|(signer, _)| signer)
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
        let mut shown = keys.chain(identities).collect::<Vec<_>>().join(" or ");
        if let Some(repository) = &self.repository {
            shown = format!("{shown}, for repository {repository}");
        }
        if !self.annotations.is_empty() {
            let pairs = self
                .annotations
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let pairs = crate::text::clean(&pairs.collect::<Vec<_>>().join(", "), 256);
            shown = format!("{shown}, with {pairs}");
        }
        shown
    }

    /// Whether a signature says what it must say besides the digest; else what is wrong.
    fn is_met(&self, said: &Said) -> Result<(), String> {
        if let Some(wanted) = &self.repository
            && said.repository.as_ref() != Some(wanted)
        {
            return Err(match &said.repository {
                Some(found) => format!("it is about repository {found:?}"),
                None => "it names no repository".to_owned(),
            });
        }
        for (name, wanted) in &self.annotations {
            match said.annotations.get(name) {
                Some(found) if found == wanted => {}
                Some(found) => return Err(format!("its annotation {name:?} is {found:?}")),
                None => return Err(format!("it has no annotation {name:?}")),
            }
        }
        Ok(())
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
                match verifier.vouch(digest, candidate) {
                    Ok((signer, said)) if self.names(&signer) => match self.is_met(&said) {
                        Ok(()) if !signers.contains(&signer) => signers.push(signer),
                        Ok(()) => {}
                        Err(why) => wrong.push(why),
                    },
                    Ok((signer, _)) => wrong.push(format!("it is by {signer}")),
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
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::{
        bundle,
        key::{SigningKey, tests::both},
    };
    use ::base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::json;

    /// What was found for a digest: a document of the first layout, and a bundle, both by the same key.
    fn found(key: &SigningKey, digest: &Digest, names: bool) -> [Candidate; 2] {
        let document = json!({
            "critical": {
                "identity": {"docker-reference": "registry.example.com/team/rule"},
                "image": {"docker-manifest-digest": digest.as_str()},
                "type": "cosign container image signature",
            },
            "optional": {"stage": "released", "count": 3},
        })
        .to_string();
        let mut subject = json!({"digest": {"sha256": digest.hex()}, "annotations": {"stage": "released"}});
        if names {
            subject["name"] = json!("registry.example.com/team/rule");
        }
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "predicateType": bundle::PREDICATE, "predicate": {},
            "subject": [{"digest": {"sha256": "00"}, "annotations": {"stage": "other"}}, subject],
        });
        let bundle = bundle::envelope(key, statement.to_string().as_bytes()).unwrap();
        [
            Candidate::SimpleSigning {
                signature: STANDARD.encode(key.sign(document.as_bytes()).unwrap()),
                payload: document,
            },
            Candidate::Bundle {
                json: String::from_utf8(bundle).unwrap(),
            },
        ]
    }

    #[test]
    fn a_signature_must_say_what_the_policy_wants_besides_the_digest() {
        let digest = Digest::of(b"manifest");
        for key in both() {
            let policy = |repository: Option<&str>, annotations: &[(&str, &str)]| Policy {
                keys: vec![key.public().clone()],
                repository: repository.map(ToOwned::to_owned),
                annotations: annotations
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..Policy::default()
            };
            let here = Some("registry.example.com/team/rule");
            for candidate in found(&key, &digest, true) {
                let check = |policy: &Policy| {
                    let checked = policy.check(&digest, std::slice::from_ref(&candidate), &[]);
                    checked.err().map(|error| error.to_string()).unwrap_or_default()
                };
                for met in [
                    policy(None, &[]),
                    policy(here, &[]),
                    policy(here, &[("stage", "released")]),
                ] {
                    assert_eq!(check(&met), "");
                }
                for (unmet, why) in [
                    (
                        policy(Some("registry.example.com/team/other"), &[]),
                        "it is about repository",
                    ),
                    (
                        policy(Some("registry.example.com/team/rul"), &[]),
                        "it is about repository",
                    ),
                    (policy(here, &[("stage", "tried")]), "its annotation \"stage\" is"),
                    (
                        policy(None, &[("stage", "released"), ("by", "us")]),
                        "it has no annotation \"by\"",
                    ),
                    // Numbers are no text.
                    (policy(None, &[("count", "3")]), "it has no annotation \"count\""),
                ] {
                    let said = check(&unmet);
                    assert!(said.contains(why), "{said}, not {why}");
                }
            }
            // cosign's bundles name no repository: who asks for one is not met by them.
            let [_, unnamed] = found(&key, &digest, false);
            let error = policy(here, &[]).check(&digest, &[unnamed], &[]).unwrap_err();
            assert_eq!(error.reason(), "SignatureMismatch");
            assert!(error.to_string().contains("it names no repository"), "{error}");
        }
    }
}
