//! `cargo xtask setup`: the slow things, before one needs them.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::step;

/// What rules are built for: with WASI, and without.
const WASM_TARGETS: [&str; 2] = ["wasm32-wasip2", "wasm32-unknown-unknown"];

/// Adds the wasm targets and builds the control plane.
pub fn run() -> Result<ExitCode> {
    wasm_targets()?;
    println!("control plane: {}", numo_cluster::binary()?.display());
    Ok(ExitCode::SUCCESS)
}

/// Adds the targets that rules are built for, where they are missing.
///
/// A Rust without rustup (a distribution's) must have them by itself.
pub fn wasm_targets() -> Result<()> {
    add(&WASM_TARGETS).context("rules are built for them")
}

/// Adds targets, where they are missing.
///
/// # Errors
/// One of them is not to be had.
pub fn add(targets: &[&str]) -> Result<()> {
    let missing: Vec<&str> = targets
        .iter()
        .copied()
        .filter(|target| !is_installed(target))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add"]).args(&missing);
    step::must(&mut rustup).with_context(|| {
        format!(
            "this Rust does not have {}, and rustup could not add them",
            missing.join(", ")
        )
    })?;
    for target in missing {
        ensure!(
            is_installed(target),
            "rustup added {target}, and the Rust in use does not have it"
        );
    }
    Ok(())
}

/// Whether the Rust in use has the target's standard library.
fn is_installed(target: &str) -> bool {
    let folder = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output();
    folder.is_ok_and(|output| {
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && std::path::Path::new(&path).is_dir()
    })
}
