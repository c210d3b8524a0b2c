//! Why a verb failed, and the exit code of it.

use std::path::PathBuf;

/// An error of what the verb is built on.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The API server refused; in its own words.
    #[error("{doing}: {message}")]
    Refused {
        /// What was being done.
        doing: String,
        /// The API server's words.
        message: String,
    },
    /// The API server does not know the kind.
    #[error(
        "{doing}: this API server does not serve the kind; `numo doctor` says which definitions are missing"
    )]
    NotServed {
        /// What was being done.
        doing: String,
    },
    /// The API server could not be asked.
    #[error("{doing}: {source}")]
    Api {
        /// What was being done.
        doing: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// It cannot be done; the text says what to do instead.
    #[error("{0}")]
    Wrong(String),
    /// The call was wrong: a flag, or a name that nothing has. The text says what is wanted.
    #[error("{0}")]
    Usage(String),
    /// Something stands against it; the text says what.
    #[error("{0}")]
    Closed(String),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What the verb is built on failed, and says so itself.
    #[error(transparent)]
    Cause(Cause),
}

impl CliError {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Closed(_) => 3,
            _ => 1,
        }
    }
}
