//! `numo plugin`: the rule author's toolkit is a crate of its own, and is granted here what it reads of a cluster. `run` alone asks one,
//! and changes nothing.

use super::{cluster::ClusterArgs, error::CliError};
use crate::shell::{
    client,
    eval::reader::{Access, RuleReader},
};
use async_trait::async_trait;
use jiff::Timestamp;
use numo_author::{Cluster, Connection};
use numo_plugin::services::Reader;
use std::sync::Arc;

/// Arguments of `numo plugin`.
pub type PluginArgs = numo_author::PluginArgs<ClusterArgs>;

/// A connection, and what the API server has said about kinds and rights.
struct Connected {
    connection: client::Connection,
    namespace: String,
    access: Arc<Access>,
}

#[async_trait]
impl Cluster for ClusterArgs {
    async fn connect(&self) -> Result<Box<dyn Connection>, CliError> {
        let (connection, namespace) = Self::connect(self, "plugin run").await?;
        let access = Arc::new(Access::new(connection.read.clone()));
        Ok(Box::new(Connected {
            connection,
            namespace,
            access,
        }))
    }
}

impl Connection for Connected {
    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(RuleReader::own(self.access.clone()))
    }

    fn reader_of(&self, namespace: &str, service_account: &str) -> Arc<dyn Reader> {
        Arc::new(RuleReader::new(self.access.clone(), namespace, service_account))
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn now(&self) -> Timestamp {
        self.connection.clock.now()
    }
}
