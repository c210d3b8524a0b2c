//! `cargo xtask crds`: the Rust types are the source of the CRD manifests.

use std::process::ExitCode;

use anyhow::Result;

use crate::step;

/// Where definitions are, and what numo is asked for them.
const FOLDERS: [(&str, &[&str]); 2] = [
    ("deploy/crds", &[]),
    ("deploy/kustomize/components/node-version", &["--node-version"]),
];

/// Writes the definitions anew. The files are committed so that a change of the API is
/// seen in review.
pub fn run() -> Result<ExitCode> {
    for (folder, which) in FOLDERS {
        let mut command = step::cargo();
        command.args(["run", "--quiet", "--package", "numo", "--", "crds"]);
        command.args(which).args(["--directory", folder]);
        step::must(&mut command)?;
    }
    Ok(ExitCode::SUCCESS)
}
