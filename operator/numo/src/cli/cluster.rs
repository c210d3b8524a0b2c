//! How a verb reaches the cluster, with kubectl's own flags. Names no kind and no object.

use super::error::CliError;
use crate::shell::client::{self, ConnectError, Connection};
use clap::Args;
use kube::{Config, config::KubeConfigOptions};
use numo_core::owners::plan::duration_millis;
use std::{path::PathBuf, time::Duration};

/// Where the cluster is.
#[derive(Clone, Debug, Default, Args)]
pub struct KubeconfigArgs {
    /// Path to a kubeconfig [default: the pod's own environment, $KUBECONFIG, or ~/.kube/config]
    #[arg(long, env = "NUMO_KUBECONFIG", value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, env = "NUMO_CONTEXT", value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
}

impl KubeconfigArgs {
    /// The configuration that they name.
    pub async fn configuration(&self) -> Result<Config, ConnectError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        client::configuration(self.kubeconfig.as_deref(), &options).await
    }
}

/// How long the API server has to say which version it is, unless --request-timeout says otherwise: a verb that hangs says
/// nothing.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the client's own timeout says.
const DEADLINE: &str = "deadline has elapsed";

/// How to reach the cluster, as kubectl takes it.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub(super) kubeconfig: KubeconfigArgs,
    /// Cluster of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(super) cluster: Option<String>,
    /// User of the kubeconfig
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(super) user: Option<String>,
    /// Do it in the name of this user or ServiceAccount
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    pub(super) impersonate: Option<String>,
    /// Do it in the name of this group; may be given again
    #[arg(
        long = "as-group",
        value_name = "GROUP",
        requires = "impersonate",
        help_heading = "Cluster"
    )]
    pub(super) impersonate_groups: Vec<String>,
    /// How long one request may take: 30s, 1m; 0 is without end, but for the first, which has 15 s
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "Cluster")]
    pub(super) request_timeout: String,
}

impl ClusterArgs {
    /// Connects, and asks the API server whether it is there and knows who asks; the second part is the namespace of the
    /// kubeconfig's context.
    pub async fn connect(&self, verb: &str) -> Result<(Connection, String), CliError> {
        let timeout = timeout(&self.request_timeout).map_err(CliError::Usage)?;
        let (connection, namespace, server) = self.reach(verb, timeout).await?;
        let patience = timeout.unwrap_or(PATIENCE);
        let late = || {
            CliError::Wrong(format!(
                "the API server {server} has not answered within {} s; --request-timeout waits longer",
                patience.as_secs()
            ))
        };
        let Ok(version) = tokio::time::timeout(patience, connection.read.apiserver_version()).await else {
            return Err(late());
        };
        match version {
            Err(kube::Error::Api(status)) if status.code == 401 => Err(CliError::Wrong(format!(
                "the API server {server} does not know who asks (401 Unauthorized): the credentials of the kubeconfig are \
                 wrong or have expired; log in again, or name others with --user or --context"
            ))),
            // Who may not ask for the version may still ask for what the verb needs.
            Ok(_) | Err(kube::Error::Api(_)) => Ok((connection, namespace)),
            Err(error) if root(&error) == DEADLINE => Err(late()),
            Err(error) => Err(CliError::Wrong(format!(
                "the API server {server} is not reached: {}; its address is that of the kubeconfig (--kubeconfig, \
                 --context, --cluster)",
                root(&error)
            ))),
        }
    }

    async fn reach(
        &self,
        verb: &str,
        timeout: Option<Duration>,
    ) -> Result<(Connection, String, String), ConnectError> {
        let options = KubeConfigOptions {
            context: self.kubeconfig.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let mut config = client::configuration(self.kubeconfig.kubeconfig.as_deref(), &options).await?;
        if let Some(user) = &self.impersonate {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if timeout.is_some() {
            config.read_timeout = timeout;
            config.write_timeout = timeout;
            config.connect_timeout = timeout;
        }
        let namespace = config.default_namespace.clone();
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let agent = format!("numo/{} {verb}", env!("CARGO_PKG_VERSION"));
        Ok((client::connect(config, &agent)?, namespace, server))
    }
}

/// What an error comes from in the end.
fn root(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

/// kubectl's times: a number is seconds, 0 is none.
fn timeout(given: &str) -> Result<Option<Duration>, String> {
    let wrong = || format!("--request-timeout: found {given:?}, wanted a time such as 30s or 1m, or 0");
    let milliseconds = match given.parse::<u64>() {
        Ok(seconds) => seconds.checked_mul(1000),
        Err(_) => duration_millis(given).and_then(|found| u64::try_from(found).ok()),
    };
    match milliseconds.ok_or_else(wrong)? {
        0 => Ok(None),
        milliseconds => Ok(Some(Duration::from_millis(milliseconds))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kubectls() {
        assert_eq!(timeout("0"), Ok(None));
        assert_eq!(timeout("5"), Ok(Some(Duration::from_secs(5))));
        assert_eq!(timeout("1m30s"), Ok(Some(Duration::from_secs(90))));
        assert!(timeout("-1s").is_err());
        assert!(timeout("soon").unwrap_err().contains("--request-timeout"));
        assert!(timeout(&u64::MAX.to_string()).is_err());
    }
}
