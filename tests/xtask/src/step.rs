//! Running other programs from the repository's root.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The feature with which this program has all of its tasks: what checks or tests the workspace names it, else those that are not there would
/// be left out.
pub const WHOLE: &str = "xtask/whole";

pub use start::root;

/// The cargo that runs us, in the repository's root. It compiles with rustc, also where this program was made with Clippy's driver.
pub fn cargo() -> Command {
    let mut command = start::cargo();
    command.current_dir(root());
    command
}

/// Whether a CI system runs us, by the variable that all of them set.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Runs a command; says whether it succeeded. Fails if it cannot be run at all.
pub fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command
        .status()
        .with_context(|| format!("run {}", name(command)))?
        .success())
}

/// Runs a command that has to succeed.
pub fn must(command: &mut Command) -> Result<()> {
    if !succeeds(command)? {
        bail!("{} failed", name(command));
    }
    Ok(())
}

fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
