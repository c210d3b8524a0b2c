//! `cargo xtask crds`: the Rust types are the source of the CRD manifests.

use std::process::ExitCode;

use anyhow::Result;

use crate::step;

/// Writes deploy/crds anew. The files are committed so that a change of the API is
/// seen in review.
pub fn run() -> Result<ExitCode> {
    let mut command = step::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "numo",
        "--",
        "crds",
        "--output",
        "deploy/crds",
    ]);
    step::must(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
