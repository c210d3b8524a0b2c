//! `cargo xtask setup`: the slow things, before one needs them.

use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::step;

/// Adds the wasm target and builds the control plane.
pub fn run() -> Result<ExitCode> {
    if let Err(error) = step::must(Command::new("rustup").args(["target", "add", "wasm32-wasip2"])) {
        // Only the sample plugins need it; a distribution's Rust has no rustup.
        eprintln!("the wasm32-wasip2 target was not added, so sample plugins cannot be built: {error:#}");
    }
    println!("control plane: {}", numo_cluster::binary()?.display());
    Ok(ExitCode::SUCCESS)
}
