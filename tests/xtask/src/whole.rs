//! Tasks that are not in this program: the one that has them is run with the same words, as `cargo xtask` does.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;

/// What is said to a task that is not here.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Passed {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Runs the whole program in the folder that this one was started in. Its exit code is ours.
pub fn run() -> Result<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let task = words.first().map(|task| task.to_string_lossy().into_owned());
    let status = start::program_of(task.as_deref().unwrap_or_default())
        .args(&words)
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
