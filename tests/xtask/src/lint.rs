//! `cargo xtask lint`: what can be said of the code without running it.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{deny, step};

/// What `cargo xtask lint` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Install cargo-deny if it is missing (minutes); CI=true implies it
    #[arg(long)]
    deny: bool,
}

/// Runs every linter, even after one has failed.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut failed = false;
    for mut command in [format(), clippy(), plugins(format()), plugins_clippy()] {
        failed |= !step::succeeds(&mut command)?;
    }
    match deny_step(arguments.deny)? {
        Some(is_sound) => failed |= !is_sound,
        None => eprintln!("{DENY_IS_MISSING}"),
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Said where the check of dependencies is left out.
pub const DENY_IS_MISSING: &str = "not run: cargo-deny is not installed; --deny or CI=true installs it";

/// rustfmt, without changing anything.
pub fn format() -> Command {
    let mut command = step::cargo();
    command.args(["fmt", "--all", "--check"]);
    command
}

/// Clippy over all that is compiled, tests included.
pub fn clippy() -> Command {
    linted(&["--features", step::WHOLE])
}

/// The same over the rules in `plugins`.
pub fn plugins_clippy() -> Command {
    plugins(linted(&[]))
}

fn linted(features: &[&str]) -> Command {
    let mut command = step::cargo();
    command
        .args(["clippy", "--quiet", "--workspace", "--all-targets"])
        .args(features)
        .args(["--", "-D", "warnings"]);
    command
}

/// A command for the rules in `plugins`, a workspace of its own, built beside the rest.
pub fn plugins(mut command: Command) -> Command {
    command
        .current_dir(step::root().join("plugins"))
        .env("CARGO_TARGET_DIR", step::root().join("target/plugins"));
    command
}

/// Checks the dependencies of every workspace, also after one has failed; nothing where the tool is missing and not asked for.
pub fn deny_step(wanted: bool) -> Result<Option<bool>> {
    if !deny::is_installed() {
        if !wanted && !step::is_ci() {
            return Ok(None);
        }
        deny::install()?;
    }
    let mut is_sound = true;
    for folder in deny::WORKSPACES {
        is_sound &= step::succeeds(&mut deny::check(folder))?;
    }
    Ok(Some(is_sound))
}
