//! Why a write did not happen, told from the answer of the API server. It sends nothing.

/// Why a write did not happen, by what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// What was read is no longer so; the next pass sees it as it is.
    #[error("{about}: what was read has changed ({message})")]
    Stale {
        /// The object.
        about: String,
        /// The API server's words.
        message: String,
    },
    /// The object is gone.
    #[error("{about} is gone")]
    Gone {
        /// The object.
        about: String,
    },
    /// The API server refuses the content or the right to write it; a user must hear of it.
    #[error("{about}: refused ({code}): {message}")]
    Refused {
        /// The object.
        about: String,
        /// HTTP status code.
        code: u16,
        /// The API server's words.
        message: String,
    },
    /// The API server could not be reached, or failed; to be tried again.
    #[error("{about}: {source}")]
    Unreachable {
        /// The object.
        about: String,
        /// What happened.
        #[source]
        source: kube::Error,
    },
}

/// Whether the API server says that the object of this name is not there, and not that its kind is not served.
pub(super) fn is_not_found(error: &kube::Error, name: &str) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let named = status.details.as_ref().map(|details| details.name.as_str());
    status.code == 404 && named == Some(name)
}

impl ApplyError {
    pub(super) fn of(error: kube::Error, about: &str) -> Self {
        let about = about.to_owned();
        match error {
            kube::Error::Api(status) => match status.code {
                // A failed `test` of a JSON Patch is 422 without a cause; what is invalid names its fields.
                409 => Self::Stale {
                    about,
                    message: status.message,
                },
                422 if status
                    .details
                    .as_ref()
                    .is_none_or(|details| details.causes.is_empty()) =>
                {
                    Self::Stale {
                        about,
                        message: status.message,
                    }
                }
                404 => Self::Gone { about },
                // A webhook that must answer and does not is as good as one that refuses, and a person's to mend.
                500 if status.message.contains("failed calling webhook") => Self::Refused {
                    about,
                    code: 500,
                    message: status.message,
                },
                429 | 500..=599 => Self::Unreachable {
                    about,
                    source: kube::Error::Api(status),
                },
                code => Self::Refused {
                    about,
                    code,
                    message: status.message,
                },
            },
            source => Self::Unreachable { about, source },
        }
    }
}
