//! Clients. The only folder that names `kube::Client` is this one.
//!
//! Writes go through a client that never retries by itself: a retried POST or a refused eviction that is
//! repeated for minutes is a decision nobody made.

use super::clock::ServerClock;
use kube::{Client, Config, client::ClientBuilder, config::KubeConfigOptions};
use std::path::Path;

/// Where the cluster is.
#[derive(Clone)]
pub struct Connection {
    /// Client for reads and watches; it retries what is safe to retry.
    pub read: Client,
    /// Client for writes; it never retries.
    pub write: Client,
    /// The API server's time, learnt from both.
    pub clock: ServerClock,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// Why no connection could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be read or used.
    #[error("kubeconfig {path}: {source}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor an in-cluster environment was found.
    #[error("found neither a kubeconfig nor the environment of a pod: {0}")]
    Infer(#[source] kube::config::InferConfigError),
    /// The configuration was found and cannot be used.
    #[error("cannot make a client: {0}")]
    Client(#[source] kube::Error),
}

/// Reads the kubeconfig, or the pod's environment, or `$KUBECONFIG` and `~/.kube/config`.
pub async fn configuration(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions {
        context: context.map(ToOwned::to_owned),
        ..KubeConfigOptions::default()
    };
    match kubeconfig {
        Some(path) => {
            let wrong = |source| ConnectError::Kubeconfig {
                path: path.display().to_string(),
                source,
            };
            let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(wrong)?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(wrong)
        }
        None if context.is_some() => {
            Config::from_kubeconfig(&options)
                .await
                .map_err(|source| ConnectError::Kubeconfig {
                    path: "of the environment".to_owned(),
                    source,
                })
        }
        None => Config::infer().await.map_err(ConnectError::Infer),
    }
}

/// Connects. `agent` names us in audit logs.
pub fn connect(mut config: Config, agent: &str) -> Result<Connection, ConnectError> {
    // A second call finds the provider installed: that is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if let Ok(agent) = http::HeaderValue::from_str(agent) {
        config.headers.push((http::header::USER_AGENT, agent));
    }
    let clock = ServerClock::default();
    let build = |config: Config| {
        let clock = clock.clone();
        let learn = tower::util::MapResponseLayer::new(move |response: http::Response<_>| {
            if let Some(date) = response
                .headers()
                .get(http::header::DATE)
                .and_then(|date| date.to_str().ok())
            {
                clock.learn(date);
            }
            response
        });
        Ok(ClientBuilder::try_from(config)
            .map_err(ConnectError::Client)?
            .with_layer(&learn)
            .build())
    };
    let read = build(config.clone())?;
    config.default_retry = false;
    let write = build(config)?;
    Ok(Connection { read, write, clock })
}
