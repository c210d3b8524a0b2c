//! Tasks that are not in this program: cargo builds the one that has them, and it is run with the same words.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

use crate::{compiled, step};

/// What is said to a task that is not here.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Passed {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the whole program in the folder that this one was started in. Its exit code is ours.
pub fn run() -> Result<ExitCode> {
    // The tests are compiled so, too: what both need is compiled once.
    let mut command = compiled::by_clippy(step::cargo());
    command
        .current_dir(std::env::current_dir()?)
        .args([
            "run",
            "--package",
            "xtask",
            "--features",
            "whole",
            "--manifest-path",
        ])
        .arg(step::root().join("Cargo.toml"))
        .arg("--")
        .args(std::env::args_os().skip(1));
    let status = command.status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
