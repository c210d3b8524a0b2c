//! The ways to install numo: made from one source, equal, and carried out on a real API server by real programs.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed step of a test is its failure"
)]

mod bounds;
mod definitions;
mod equal;
mod examples;
mod gitops;
mod helm;
mod image;
mod kustomize;
mod machines;
mod manifest;
mod monitoring;
mod olm;
mod oncall;
mod several_clusters;
mod source;
mod values;

use std::{path::PathBuf, process::Command};

use anyhow::Result;
use numo_install::root;

/// The chart.
fn chart() -> PathBuf {
    root().join("deploy/helm/numo")
}

/// Helm of a major version. The first call builds it.
fn program(major: u8) -> Result<Command> {
    let module = root().join("tests/install/helm");
    let package = format!("helm.sh/helm/v{major}/cmd/helm");
    let program = numo_plugin_tests::programs::go_program(
        &module,
        &["go.mod", "go.sum"],
        &package,
        &format!("helm{major}"),
    )?;
    let mut helm = Command::new(program);
    let home = std::env::temp_dir().join(format!("numo-helm{major}"));
    helm.env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .env_remove("KUBECONFIG");
    Ok(helm)
}

/// Both that are in use.
const HELMS: [u8; 2] = [3, 4];
