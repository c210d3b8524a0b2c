//! `numo version`: of this binary, and of the API server where one answers.

use super::{
    cluster::ClusterArgs,
    error::{self, CliError},
    output::OutputArgs,
};
use clap::Args;
use serde::Serialize;
use std::time::Duration;

/// How long the API server may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Arguments of `numo version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Only of this binary
    #[arg(long)]
    client: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client: &'static str,
    rule_contract: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
}

/// Prints the versions. That no API server answers fails nothing.
pub async fn version(args: VersionArgs) -> Result<(), CliError> {
    let mut server = None;
    if !args.client {
        let asked = async {
            let (connection, _) = args.cluster.connect("version").await?;
            let found = connection.read.apiserver_version().await;
            found.map_err(error::api("the API server's version"))
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(found)) => server = Some(found.git_version),
            Ok(Err(error)) => eprintln!("numo: no API server answers: {error}"),
            Err(_) => eprintln!("numo: no API server answers within {} s", PATIENCE.as_secs()),
        }
    }
    let versions = Versions {
        client: env!("CARGO_PKG_VERSION"),
        rule_contract: numo_plugin::inspect::CONTRACT.to_string(),
        server,
    };
    args.output.print(
        &versions,
        |_| {
            let server = versions
                .server
                .as_ref()
                .map_or_else(String::new, |server| format!("API server     {server}\n"));
            format!(
                "numo           {}\nrule contract  {}\n{server}",
                versions.client, versions.rule_contract
            )
        },
        || vec![format!("numo/{}", versions.client)],
    )
}
