//! `cargo xtask`: has cargo build the program that has the task, and runs it with the same words. It is compiled in a second; a program that
//! cargo made before it was told of Clippy's driver would be made once more by it, for minutes.
//!
//! It reads no more than the task's name.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = env::args_os().skip(1).collect();
    let task = words.first().map(|task| task.to_string_lossy().into_owned());
    let mut program = start::program_of(task.as_deref().unwrap_or_default());
    match program.args(&words).status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("error: run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}
