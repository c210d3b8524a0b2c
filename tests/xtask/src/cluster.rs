//! `cargo xtask cluster`: a control plane to try things on.

use std::process::ExitCode;

use anyhow::{Context, Result};
use numo_cluster::{Cluster, Options, User};

/// What `cargo xtask cluster` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Emulate the API of an earlier Kubernetes minor, e.g. 1.33
    #[arg(long, value_name = "MINOR")]
    emulated_version: Option<String>,
    /// Lift the limits on requests and give controllers more workers, for thousands of nodes
    #[arg(long)]
    scale: bool,
}

/// Starts a control plane, prints how to reach it, and stops it at Ctrl-C.
pub async fn run(arguments: Arguments) -> Result<ExitCode> {
    let options = Options {
        emulated_version: arguments.emulated_version,
        scale: arguments.scale,
        keep: false,
    };
    let cluster = Cluster::start(options).await?;
    println!("export KUBECONFIG={}", cluster.kubeconfig(User::Person).display());
    eprintln!(
        "logs in {}; Ctrl-C stops the cluster and removes them",
        cluster.logs().display()
    );
    tokio::signal::ctrl_c().await.context("wait for Ctrl-C")?;
    cluster.stop().await;
    Ok(ExitCode::SUCCESS)
}
