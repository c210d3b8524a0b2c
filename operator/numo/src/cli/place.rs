//! Where the operator and its registries are: the operator's namespace as a flag. `-n` names the namespace of objects in every verb, and never the operator's.

use super::error::CliError;
use clap::Args;

/// Namespace numo runs in if nothing says otherwise: the one the replaced operator's manifests name.
pub const DEFAULT_NAMESPACE: &str = "node-upgrade-mutex-operator";

/// The variable that lets images of rules be in a registry on this machine.
pub const REGISTRIES_ON_LOOPBACK: &str = "NUMO_REGISTRIES_ON_LOOPBACK";

/// Where the operator is installed.
#[derive(Clone, Debug, Args)]
pub struct OperatorPlace {
    /// Namespace that the operator is installed in
    #[arg(long, env = "NUMO_NAMESPACE", value_name = "NS", default_value = DEFAULT_NAMESPACE)]
    operator_namespace: String,
    /// Refused: it is about objects, and this verb is about the operator
    #[arg(short, long, value_name = "NS", hide = true)]
    namespace: Option<String>,
}

impl OperatorPlace {
    /// The operator's namespace. Whoever gives `-n` is told which flag is meant.
    pub fn namespace(&self, verb: &str) -> Result<String, CliError> {
        match &self.namespace {
            None => Ok(self.operator_namespace.clone()),
            Some(given) => Err(CliError::Usage(format!(
                "-n names the namespace of objects, and `numo {verb}` looks at the operator: name its namespace with \
                 --operator-namespace {given}"
            ))),
        }
    }
}
