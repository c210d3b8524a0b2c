//! Why something was not fetched or pushed. One list; it decides nothing about what follows.

use super::digest::Digest;
use crate::text::clean;

/// Why something was not fetched or pushed. The variant's name is stable ([`OciError::reason`]); the sentence names the
/// reference, what was found and what was wanted. Texts of a registry are cut to 256 bytes and cleaned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OciError {
    /// The text is no reference.
    #[error("{text:?} is no reference to an artifact: {why}")]
    InvalidReference {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// The registry says that it has none.
    #[error("{reference}: the registry has no {what}")]
    NotFound {
        /// What was asked for.
        reference: String,
        /// `manifest`, `config` or `layer`.
        what: String,
    },
    /// The credentials are missing, wrong, or not enough.
    #[error("{reference}: {registry} wants {wanted} and was given {found}: {answer}")]
    Unauthorised {
        /// What was asked for.
        reference: String,
        /// Host and port that refused.
        registry: String,
        /// What it asked for.
        wanted: String,
        /// What it was given: `no credentials` or whose they were, never a secret.
        found: String,
        /// Its own words.
        answer: String,
    },
    /// It is an artifact of another kind.
    #[error("{reference}: {what} has media type {found:?}, wanted {wanted:?}")]
    WrongMediaType {
        /// What was asked for.
        reference: String,
        /// `manifest`, `config`, `layer` or `layers`.
        what: String,
        /// As the registry has it.
        found: String,
        /// What numo takes.
        wanted: String,
    },
    /// It is larger than allowed.
    #[error("{reference}: {what} has {found}, at most {most} bytes are taken")]
    TooLarge {
        /// What was asked for.
        reference: String,
        /// `manifest`, `config`, `layer`, `bundle`…
        what: String,
        /// Bytes declared, or `more` where reading was stopped.
        found: String,
        /// Bytes.
        most: u64,
    },
    /// The content is not what its digest says.
    #[error("{reference}: {what} is {found}, wanted {wanted}")]
    DigestMismatch {
        /// What was asked for.
        reference: String,
        /// `manifest`, `config` or `layer`.
        what: String,
        /// Digest or length of what came.
        found: String,
        /// Digest or length that was asked for.
        wanted: String,
    },
    /// It cannot be read as what it claims to be.
    #[error("{reference}: {what} is malformed: {why}")]
    Malformed {
        /// What was asked for.
        reference: String,
        /// `manifest`, `config`, `index`, `upload`…
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The registry does not answer, or answers that it cannot, and goes on to do so.
    #[error("{reference}: {registry} did not answer usefully: {why}")]
    RegistryUnavailable {
        /// What was asked for.
        reference: String,
        /// Host and port.
        registry: String,
        /// What happened last, and how often it was tried.
        why: String,
    },
    /// numo will not do that: speak plain HTTP, follow a redirect to where it must not, connect to a metadata address.
    #[error("{reference}: {why}")]
    NotAllowed {
        /// What was asked for.
        reference: String,
        /// What numo will not do.
        why: String,
    },
}

impl OciError {
    /// The stable name: for conditions, events, metric labels.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidReference { .. } => "InvalidReference",
            Self::NotFound { .. } => "NotFound",
            Self::Unauthorised { .. } => "Unauthorised",
            Self::WrongMediaType { .. } => "WrongMediaType",
            Self::TooLarge { .. } => "TooLarge",
            Self::DigestMismatch { .. } => "DigestMismatch",
            Self::Malformed { .. } => "Malformed",
            Self::RegistryUnavailable { .. } => "RegistryUnavailable",
            Self::NotAllowed { .. } => "NotAllowed",
        }
    }

    /// Whether asking again later, with nothing changed here, can end otherwise.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotFound { .. }
            | Self::Unauthorised { .. }
            | Self::DigestMismatch { .. }
            | Self::RegistryUnavailable { .. } => true,
            Self::InvalidReference { .. }
            | Self::WrongMediaType { .. }
            | Self::TooLarge { .. }
            | Self::Malformed { .. }
            | Self::NotAllowed { .. } => false,
        }
    }

    pub(crate) fn invalid(text: &str, why: impl Into<String>) -> Self {
        Self::InvalidReference {
            text: clean(text, 256),
            why: why.into(),
        }
    }

    pub(crate) fn malformed(reference: &impl ToString, what: &str, why: impl AsRef<str>) -> Self {
        Self::Malformed {
            reference: reference.to_string(),
            what: what.to_owned(),
            why: clean(why.as_ref(), 256),
        }
    }

    pub(crate) fn media_type(reference: &impl ToString, what: &str, found: &str, wanted: &str) -> Self {
        Self::WrongMediaType {
            reference: reference.to_string(),
            what: what.to_owned(),
            found: clean(found, 256),
            wanted: wanted.to_owned(),
        }
    }

    pub(crate) fn too_large(reference: &impl ToString, what: &str, found: Option<u64>, most: u64) -> Self {
        let found = found.map_or("more".to_owned(), |found| format!("{found} bytes"));
        Self::TooLarge {
            reference: reference.to_string(),
            what: what.to_owned(),
            found,
            most,
        }
    }

    pub(crate) fn mismatch(reference: &impl ToString, what: &str, found: &Digest, wanted: &Digest) -> Self {
        Self::DigestMismatch {
            reference: reference.to_string(),
            what: what.to_owned(),
            found: found.to_string(),
            wanted: wanted.to_string(),
        }
    }
}
