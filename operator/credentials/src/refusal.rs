//! Why a request was not signed.

use crate::words::words;
use std::path::{Path, PathBuf};

/// Why a request was not signed. Neither its text nor its `Debug` has a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The operator has no credential of that name.
    #[error("credential {name}: found none of that name in the operator's configuration")]
    NotFound {
        /// The credential, as it was asked for.
        name: String,
    },
    /// A file cannot be read.
    #[error("credential {name}: {}: {problem}", file.display())]
    Unreadable {
        /// The credential.
        name: String,
        /// The file.
        file: PathBuf,
        /// The words of the system, or that the file is too long.
        problem: String,
    },
    /// A file, or the answer of a token endpoint, is not as it should be.
    #[error("credential {name}: {place}: {field}: found {found}, wanted {wanted}")]
    Malformed {
        /// The credential.
        name: String,
        /// The file, or the URL of the token endpoint.
        place: String,
        /// What of it: `private_key`, `aws_secret_access_key`.
        field: String,
        /// What it is instead; never its value where that may be a secret.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The credential does not sign by this scheme.
    #[error("credential {name}: scheme: found {found}, wanted {wanted} for {source_kind}")]
    SchemeMismatch {
        /// The credential.
        name: String,
        /// The kind of its source: `awsKeys`.
        source_kind: &'static str,
        /// The scheme that was asked for.
        found: String,
        /// The scheme of this source.
        wanted: &'static str,
    },
    /// What the component asked for cannot be signed, whatever the credential.
    #[error("credential {name}: {field}: found {found}, wanted {wanted}")]
    InvalidRequest {
        /// The credential.
        name: String,
        /// `parameter region`, `header authorization`, `url`.
        field: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The token endpoint answered, and gave no token.
    #[error("credential {name}: {endpoint} gave no token: {words} (status {status})")]
    Refused {
        /// The credential.
        name: String,
        /// URL of the token endpoint.
        endpoint: String,
        /// Status of its answer.
        status: u16,
        /// Its words, bounded and without a secret.
        words: String,
    },
    /// The token endpoint was not reached, is overloaded, or failed.
    #[error("credential {name}: {endpoint} is not available: {words}")]
    Unavailable {
        /// The credential.
        name: String,
        /// URL of the token endpoint.
        endpoint: String,
        /// Its words or those of the connection, bounded and without a secret.
        words: String,
    },
}

impl Refusal {
    /// The refusal as one word that stays the same from version to version: for conditions, metrics and details of an error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "CredentialNotFound",
            Self::Unreadable { .. } => "CredentialUnreadable",
            Self::Malformed { .. } => "CredentialMalformed",
            Self::SchemeMismatch { .. } => "CredentialSchemeMismatch",
            Self::InvalidRequest { .. } => "CredentialRequestInvalid",
            Self::Refused { .. } => "CredentialRefused",
            Self::Unavailable { .. } => "CredentialUnavailable",
        }
    }

    pub(crate) fn not_found(name: &str) -> Self {
        Self::NotFound {
            name: words(name, &[]),
        }
    }

    pub(crate) fn unreadable(name: &str, file: &Path, problem: impl Into<String>) -> Self {
        Self::Unreadable {
            name: name.to_owned(),
            file: file.to_owned(),
            problem: problem.into(),
        }
    }

    /// `found` is the caller's word and no part of a secret.
    pub(crate) fn malformed(
        name: &str,
        place: &(impl ToString + ?Sized),
        field: &str,
        found: impl Into<String>,
        wanted: impl Into<String>,
    ) -> Self {
        Self::Malformed {
            name: name.to_owned(),
            place: place.to_string(),
            field: field.to_owned(),
            found: found.into(),
            wanted: wanted.into(),
        }
    }

    pub(crate) fn invalid(name: &str, field: &str, found: &str, wanted: &str) -> Self {
        Self::InvalidRequest {
            name: name.to_owned(),
            field: words(field, &[]),
            found: words(found, &[]),
            wanted: wanted.to_owned(),
        }
    }
}
