//! Where a component comes from.

use super::{
    engine::{engine, load, rule},
    registry::RegistryArgs,
};
use clap::Args;
use numo_cli::CliError;
use numo_plugin::{
    Component, Engine, Rule,
    oci::{Pinned, Reference},
};
use std::path::PathBuf;

/// A component, in a file or in a registry.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// A file, or a reference such as registry.example.com/team/rule:1.0
    #[arg(value_name = "FILE|IMAGE")]
    pub(crate) component: String,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

impl SourceArgs {
    /// The bytes, and what they are by digest if they are from a registry.
    pub(crate) async fn read(&self, engine: &Engine) -> Result<(Vec<u8>, Option<Pinned>), CliError> {
        let path = PathBuf::from(&self.component);
        if path.exists() {
            let bytes = std::fs::read(&path).map_err(|source| CliError::File { path, source })?;
            return Ok((bytes, None));
        }
        let reference: Reference = self.component.parse().map_err(|error| {
            CliError::Wrong(format!(
                "{}: neither a file nor a reference: {error}",
                self.component
            ))
        })?;
        let (client, credentials) = self.registry.client()?;
        let failed = |error: numo_plugin::oci::OciError| CliError::Wrong(error.to_string());
        let pinned = client.resolve(&reference, &credentials).await.map_err(failed)?;
        let most = engine.limits().component_bytes;
        let artifact = client.pull(&pinned, &credentials, most).await.map_err(failed)?;
        Ok((artifact.component, Some(pinned)))
    }

    /// Loads it as the operator does.
    pub(crate) async fn load(&self) -> Result<(Component, Option<Pinned>), CliError> {
        let engine = engine()?;
        let (bytes, pinned) = self.read(&engine).await?;
        let component = load(&engine, &self.component, &bytes).await?;
        Ok((component, pinned))
    }

    /// The same of a rule, for those that take nothing else.
    pub(crate) async fn load_rule(&self) -> Result<(Rule, Option<Pinned>), CliError> {
        let (component, pinned) = self.load().await?;
        Ok((rule(&self.component, component)?, pinned))
    }
}
