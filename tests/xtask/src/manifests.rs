//! `cargo xtask manifests`: deploy/kustomize and deploy/crds are the source of every other way to install numo.

use std::process::ExitCode;

use anyhow::Result;

/// Writes the rendered manifests and the chart's templates anew. They are committed, so that a change is seen in review.
pub fn run() -> Result<ExitCode> {
    numo_install::write()?;
    Ok(ExitCode::SUCCESS)
}
