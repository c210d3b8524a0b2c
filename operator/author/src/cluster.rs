//! What the toolkit is granted of a cluster. Whoever starts it connects: no Kubernetes client is known here.

use async_trait::async_trait;
use clap::Args;
use jiff::Timestamp;
use numo_cli::CliError;
use numo_plugin::services::Reader;
use std::sync::Arc;

/// The flags that name a cluster, and the way to it.
#[async_trait]
pub trait Cluster: Args + Sync {
    /// Connects with the rights of whoever runs numo.
    async fn connect(&self) -> Result<Box<dyn Connection>, CliError>;
}

/// A cluster that objects are read from, and only read.
pub trait Connection: Send + Sync {
    /// Reads what whoever connected may read.
    fn reader(&self) -> Arc<dyn Reader>;

    /// Reads no more than this ServiceAccount may.
    fn reader_of(&self, namespace: &str, service_account: &str) -> Arc<dyn Reader>;

    /// The namespace of the kubeconfig's context.
    fn namespace(&self) -> &str;

    /// The API server's time.
    fn now(&self) -> Timestamp;
}
