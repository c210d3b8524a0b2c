//! cargo-deny: licenses, bans and sources of dependencies. Advisories need their
//! database from the network and are left to .github/workflows/advisories.yaml.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::step;

const VERSION: &str = "0.20.2";

/// Whether `cargo deny` can be run.
pub fn is_installed() -> bool {
    let mut command = step::cargo();
    command
        .args(["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs the version that the configuration is written for; takes minutes.
pub fn install() -> Result<()> {
    let mut command = step::cargo();
    // Built for speed it would take three times as long as it then runs in all.
    command.args([
        "install",
        "--locked",
        "--quiet",
        "--debug",
        &format!("cargo-deny@{VERSION}"),
    ]);
    step::must(&mut command)
}

/// The check itself.
pub fn check() -> Command {
    let mut command = step::cargo();
    command.args([
        "deny",
        "--config",
        ".deny.toml",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_job_runs_the_same_version() {
        let workflow = include_str!("../../../.github/workflows/advisories.yaml");
        assert!(workflow.contains(&format!("cargo-deny@{VERSION}\n")), "{VERSION}");
        assert!(workflow.contains("check advisories bans licenses sources\n"));
    }

    /// A warning fails nothing, and nobody reads it.
    #[test]
    fn a_second_version_of_a_crate_fails() {
        let configuration = include_str!("../../../.deny.toml");
        assert!(configuration.contains("\nmultiple-versions = \"deny\"\n"));
    }
}
