//! `cargo xtask`: has cargo build the program that has the task, and runs it with the same words. It is compiled in a second; a program that
//! cargo made before it was told of Clippy's driver would be made once more by it, for minutes.
//!
//! It reads no more than the task's name.

use std::process::ExitCode;

fn main() -> ExitCode {
    start::run().unwrap_or_else(|error| {
        eprintln!("error: run cargo: {error}");
        ExitCode::FAILURE
    })
}
