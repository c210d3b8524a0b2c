//! Why a verb failed, and the exit code of it.

use crate::shell::client::ConnectError;
use std::path::PathBuf;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The cluster cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
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
        source: kube::Error,
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
    /// The operator ended by itself.
    #[error(transparent)]
    Operator(#[from] crate::shell::operator::OperatorError),
}

impl CliError {
    pub(super) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let doing = doing.into();
        move |source| match source {
            kube::Error::Api(status) if status.code == 404 => {
                // Of an object that is missing it says which; of a kind it does not know.
                if status
                    .details
                    .as_ref()
                    .is_some_and(|details| !details.name.is_empty())
                {
                    Self::Usage(format!(
                        "{doing}: {}; `numo status` lists what there is",
                        status.message
                    ))
                } else {
                    Self::NotServed { doing }
                }
            }
            kube::Error::Api(status) if status.code == 403 => Self::Refused {
                message: format!(
                    "{}; a cluster administrator can lend the right (the ClusterRole numo-viewer is enough to look)",
                    status.message
                ),
                doing,
            },
            kube::Error::Api(status) if status.message.contains("failed calling webhook") => Self::Refused {
                message: format!(
                    "{}; an admission webhook has nobody behind it: `numo doctor` says whose it is and what lets objects in",
                    status.message
                ),
                doing,
            },
            kube::Error::Api(status) => Self::Refused {
                doing,
                message: status.message,
            },
            source => Self::Api { doing, source },
        }
    }

    pub(super) fn no_node(name: &str) -> Self {
        Self::Usage(format!(
            "found no node {name}; `kubectl get nodes` lists them, `numo status` those that wait"
        ))
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Closed(_) => 3,
            _ => 1,
        }
    }
}
