//! Whether the command line alone (numo without its default features) compiles, here and for systems that this machine does not run.
//! Nothing is linked, so neither Apple's nor Microsoft's libraries are needed; the C below the crates is compiled by zig, which has the
//! headers.

use std::{path::Path, process::Command};

use anyhow::Result;
use numo_plugin_tests::programs;

use crate::{setup, step};

/// What is compiled for: Rust's name of it, and zig's.
const TARGETS: [(&str, &str); 3] = [
    ("x86_64-apple-darwin", "x86_64-macos"),
    ("aarch64-apple-darwin", "aarch64-macos"),
    ("x86_64-pc-windows-gnu", "x86_64-windows-gnu"),
];

/// Said where it is left out.
pub const NOT_ASKED_FOR: &str =
    "not run: it compiles what the command line is made of four times (minutes); --all-tools does it";

/// What came of it.
pub enum Found {
    /// It compiles, and no linter objects.
    Compiles,
    /// For this target, or here, it does not.
    Fails(&'static str),
    /// It could not be tried; why, in one line.
    Untried(String),
}

/// Checks the program for every target, one after the other.
///
/// # Errors
/// Cargo cannot be run.
pub fn check() -> Result<Found> {
    // Here it needs neither a target nor zig.
    if !step::succeeds(clippy().args(["--", "-D", "warnings"]))? {
        return Ok(Found::Fails("this machine"));
    }
    let targets = TARGETS.map(|(target, _)| target);
    if let Err(error) = setup::add(&targets) {
        return Ok(Found::Untried(format!("not run: {error:#}")));
    }
    let zig = match programs::zig() {
        Ok(zig) => zig,
        Err(error) => {
            let why = format!("not run: zig, which compiles the C, is not to be had: {error:#}");
            return Ok(Found::Untried(why.replace('\n', " ")));
        }
    };
    for (target, of_zig) in TARGETS {
        println!("{target}");
        if !step::succeeds(&mut clippy_for(target, of_zig, &zig))? {
            return Ok(Found::Fails(target));
        }
    }
    Ok(Found::Compiles)
}

/// Clippy, and with it the compiler, over the command line.
fn clippy() -> Command {
    let mut command = step::cargo();
    command.args([
        "clippy",
        "--quiet",
        "--locked",
        "--package",
        "numo",
        "--no-default-features",
        "--bin",
        "numo",
    ]);
    command
}

/// The same for a target.
fn clippy_for(target: &str, of_zig: &str, zig: &Path) -> Command {
    let here = step::root().join("tests/xtask");
    let name = target.replace('-', "_");
    let mut command = clippy();
    command
        .args(["--target", target, "--", "-D", "warnings"])
        .env(format!("CC_{name}"), here.join("zig-cc"))
        .env(format!("AR_{name}"), "ar")
        .env("ZIG", zig)
        .env("ZIG_TARGET", of_zig)
        // There is no SDK, and where this names a folder nobody asks Apple's tools for one.
        .env("SDKROOT", here);
    command
}
