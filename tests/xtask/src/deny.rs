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

/// The folders of workspaces with dependencies of their own, of which components are made: they ship as numo does.
pub const WORKSPACES: [&str; 4] = [
    ".",
    "plugins",
    "plugins/conformance",
    "plugins/conformance/provider",
];

/// The check itself, of the workspace in a folder.
pub fn check(folder: &str) -> Command {
    let mut command = step::cargo();
    command
        .current_dir(step::root().join(folder))
        .args(["deny", "--config"])
        .arg(step::root().join(".deny.toml"))
        .arg("check");
    // What the configuration says of one of them is not met in each.
    for lint in [
        "license-not-encountered",
        "unmatched-skip",
        "unnecessary-skip",
        "unused-wrapper",
    ] {
        if folder != "." {
            command.args(["--allow", lint]);
        }
    }
    command.args(["bans", "licenses", "sources"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nightly_job_runs_the_same_version() {
        let workflow = include_str!("../../../.github/workflows/advisories.yaml");
        assert!(workflow.contains(&format!("cargo-deny@{VERSION}\n")), "{VERSION}");
        assert!(workflow.contains("check advisories bans licenses sources)"));
    }

    /// A hole in a crate of a rule is one in what ships.
    #[test]
    fn every_lock_file_with_a_manifest_is_looked_at() {
        let mut git = Command::new("git");
        git.current_dir(step::root())
            .args(["ls-files", "Cargo.lock", "**/Cargo.lock"]);
        let listed = git.output().unwrap().stdout;
        let mut folders: Vec<String> = String::from_utf8(listed)
            .unwrap()
            .lines()
            .map(|path| {
                path.trim_end_matches("Cargo.lock")
                    .trim_end_matches('/')
                    .to_owned()
            })
            .filter(|folder| step::root().join(folder).join("Cargo.toml").is_file())
            .map(|folder| if folder.is_empty() { ".".to_owned() } else { folder })
            .collect();
        folders.sort();
        assert_eq!(folders, WORKSPACES);
        let workflow = include_str!("../../../.github/workflows/advisories.yaml");
        let loops = format!("for folder in {}; do", WORKSPACES.join(" "));
        assert!(workflow.contains(&loops), "{loops}");
    }

    /// A warning fails nothing, and nobody reads it.
    #[test]
    fn a_second_version_of_a_crate_fails() {
        let configuration = include_str!("../../../.deny.toml");
        assert!(configuration.contains("\nmultiple-versions = \"deny\"\n"));
    }
}
