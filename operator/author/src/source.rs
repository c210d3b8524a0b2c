//! Where a component comes from, and how what is said of it is printed.

use super::{
    engine::{engine, load},
    registry::RegistryArgs,
};
use clap::Args;
use numo_cli::{CliError, Format};
use numo_plugin::{
    Engine, Rule,
    oci::{Pinned, Reference},
};
use std::path::PathBuf;

/// How to print.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Format of the output: json, yaml, jsonpath=…, go-template=…, custom-columns=… [default: for people]
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl OutputArgs {
    /// Whether it is printed for people, while it happens.
    pub(crate) fn is_text(&self) -> bool {
        self.output.as_ref().is_none_or(Format::is_wide)
    }

    /// Prints what came of it: the words for people, the value for programs.
    pub(crate) fn say(&self, words: &str, value: &serde_json::Value) -> Result<(), CliError> {
        if self.is_text() {
            println!("{words}");
            return Ok(());
        }
        self.print(value)
    }

    /// Prints what came of it, for programs.
    pub(crate) fn print(&self, value: &serde_json::Value) -> Result<(), CliError> {
        let format = self.output.as_ref().unwrap_or(&Format::Json);
        let Some(text) = format.document(value)? else {
            return Err(CliError::Usage(
                "-o name: a component is no object of a cluster; wanted json, yaml, jsonpath=…, go-template=… or custom-columns=…".to_owned(),
            ));
        };
        print!("{text}");
        Ok(())
    }
}

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
    pub(crate) async fn load(&self) -> Result<(Rule, Option<Pinned>), CliError> {
        let engine = engine()?;
        let (bytes, pinned) = self.read(&engine).await?;
        let rule = load(&engine, &self.component, &bytes).await?;
        Ok((rule, pinned))
    }
}
