//! The log: lines on standard error, in which a stranger's words steer no terminal.

use super::say;
use std::io;

/// Standard error, with what a stranger may have written made harmless: whoever reads a log reads it on a terminal.
#[derive(Debug)]
pub struct Log;

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let words = String::from_utf8_lossy(bytes);
        io::stderr().write_all(logged(&words).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// What is written at once is one line: a line end within it is a stranger's, who would write lines of numo's own.
fn logged(words: &str) -> String {
    let (line, end) = match words.strip_suffix('\n') {
        Some(line) => (line, "\n"),
        None => (words, ""),
    };
    format!("{}{end}", say::json(line).replace('\n', "\\n"))
}

/// From this level of `-v` on each request is logged.
const REQUESTS: u8 = 6;

/// Logs what a verb of a person does, as `-v` asks for it. Never more of a request than what it asks for and what came of it: bodies and
/// headers have credentials in them.
pub fn start_verbose(level: u8) {
    let filter = match level {
        0 => return,
        1..REQUESTS => "warn,numo=info",
        _ => "warn,numo=debug,kube_client=debug",
    };
    let filter = tracing_subscriber::EnvFilter::new(filter);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    // Somebody who logs already is as good.
    let _ = builder.with_writer(|| Log).try_init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_neither_steers_a_log_nor_writes_a_line_of_it() {
        let line = "INFO numo: a rule says\nERROR numo: \u{1b}[2Jforged\u{9b}\u{202e}\u{fe0f}\n";
        let logged = logged(line);
        assert_eq!(
            logged,
            "INFO numo: a rule says\\nERROR numo: \\u001b[2Jforged\\u009b\\u202e\\ufe0f\n"
        );
        assert_eq!(logged.lines().count(), 1);
    }
}
