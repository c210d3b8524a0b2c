//! `cargo xtask bench`: the numbers the design promises, measured.

use std::process::ExitCode;

use anyhow::{Result, bail};

/// Runs the benchmarks.
pub fn run() -> Result<ExitCode> {
    bail!("not built yet")
}
