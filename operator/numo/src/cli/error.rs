//! What a verb that asks a cluster makes of its refusals.

use crate::shell::{client::ConnectError, operator::OperatorError};

pub use numo_cli::CliError;

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        Self::Cause(Box::new(error))
    }
}

impl From<OperatorError> for CliError {
    fn from(error: OperatorError) -> Self {
        Self::Cause(Box::new(error))
    }
}

/// What the API server, or the way to it, said while something was done.
pub(super) fn api(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> CliError {
    let doing = doing.into();
    move |source| match source {
        kube::Error::Api(status) if status.code == 404 => {
            // Of an object that is missing it says which; of a kind it does not know.
            if status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty())
            {
                CliError::Usage(format!(
                    "{doing}: {}; `numo status -A` lists what there is",
                    status.message
                ))
            } else {
                CliError::NotServed { doing }
            }
        }
        kube::Error::Api(status) if status.code == 403 => CliError::Refused {
            message: format!(
                "{}; a cluster administrator can lend the right (the ClusterRole numo-viewer is enough to look)",
                status.message
            ),
            doing,
        },
        kube::Error::Api(status) if status.message.contains("failed calling webhook") => CliError::Refused {
            message: format!(
                "{}; an admission webhook has nobody behind it: `numo doctor` says whose it is and what lets objects in",
                status.message
            ),
            doing,
        },
        kube::Error::Api(status) => CliError::Refused {
            doing,
            message: status.message,
        },
        source => CliError::Api {
            doing,
            source: Box::new(source),
        },
    }
}

/// There is no such Node.
pub(super) fn no_node(name: &str) -> CliError {
    CliError::Usage(format!(
        "found no node {name}; `kubectl get nodes` lists them, `numo status -A` those that wait"
    ))
}
