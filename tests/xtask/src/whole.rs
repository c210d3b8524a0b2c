//! Tasks that are not in this program: the one that has them is run with the same words, as `cargo xtask` does.

use std::ffi::OsString;

/// What is said to a task that is not here.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Passed {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}
