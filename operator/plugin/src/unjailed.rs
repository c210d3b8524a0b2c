//! In place of `jail.rs` where the kernel is not Linux: numo knows no walls there. A child is bounded in time, memory and answer alone, and
//! the sandbox of WebAssembly is what shuts a component in. The operator runs on Linux; this is for the command line.

use std::io;

/// Shuts nothing in.
///
/// Errors: none.
#[allow(clippy::unnecessary_wraps, reason = "as jail.rs has it")]
pub(crate) fn enter() -> io::Result<()> {
    Ok(())
}

/// What is missing, in words.
pub fn missing() -> Vec<String> {
    vec![
        "Landlock".to_owned(),
        "seccomp, so that nothing is shut in".to_owned(),
    ]
}
