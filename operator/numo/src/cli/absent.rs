//! Verbs of the operator's program, in a program that is the command line alone: they are known, and say where they are.

use super::error::CliError;
use clap::Args;
use std::ffi::OsString;

/// Whatever is said to a verb that is not here.
#[derive(Debug, Args)]
pub struct AbsentArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// That this program lacks a verb, and which has it.
pub fn lacks(verb: &str) -> CliError {
    CliError::Wrong(format!(
        "{verb}: this program is the command line alone; the program in the operator's image has `numo {verb}`, on Linux"
    ))
}
