//! `cargo xtask demo`: an upgrade of a simulated fleet to watch.

use std::process::ExitCode;

use anyhow::{Result, bail};

/// Runs the demo.
pub fn run() -> Result<ExitCode> {
    bail!("not built yet")
}
