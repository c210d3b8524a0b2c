//! How many tests passed: reads what test programs print. Decides nothing and starts no more than it is given.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// How many tests ended how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
    /// The names of those that failed beside others, and passed when they were run again alone. They count as passed.
    pub starved: Vec<String>,
}

/// What is said of each of [`Counts::starved`].
pub const STARVED_WORDS: &str = "failed beside others, passed alone";

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
            starved: _,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.starved.extend(other.starved);
    }

    /// Takes back the failure of each of these tests that was run again and did not fail.
    pub fn settle(&mut self, again: &[String], failed: &[String]) {
        for name in again.iter().filter(|name| !failed.contains(name)) {
            self.failed = self.failed.saturating_sub(1);
            self.passed += 1;
            self.starved.push(name.clone());
        }
    }

    /// Reads the last line of a run of this program: `8 passed, 0 failed, 1 skipped`.
    pub fn of_last_line(line: &str) -> Option<Self> {
        let mut numbers = ["passed", "failed", "skipped"].into_iter().zip(line.split(", "));
        let mut number = || {
            let (name, part) = numbers.next()?;
            part.strip_suffix(name)?.trim_end().parse().ok()
        };
        Some(Self {
            passed: number()?,
            failed: number()?,
            skipped: number()?,
            starved: Vec::new(),
        })
    }
}

/// How a program full of tests ended.
pub struct Said {
    /// Whether all passed.
    pub success: bool,
    /// The names of those that failed.
    pub failed: Vec<String>,
}

/// Runs tests, passing on what they print and counting their results.
pub fn counted(mut command: Command, counts: &mut Counts) -> Result<Said> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("run the tests")?;
    let stdout = child.stdout.take().context("the tests' output")?;
    let mut failed = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        failed.extend(failed_test(&line).map(ToOwned::to_owned));
        if let Some(result) = parse_result(&line) {
            counts.add(result);
        }
    }
    Ok(Said {
        success: child.wait()?.success(),
        failed,
    })
}

/// Reads `test plans::one_by_one ... FAILED`.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Reads `test result: ok. 8 passed; 0 failed; 1 ignored; …`.
fn parse_result(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    for part in numbers.split(';') {
        match part.trim().split_once(' ') {
            Some((number, "passed")) => counts.passed = number.parse().ok()?,
            Some((number, "failed")) => counts.failed = number.parse().ok()?,
            Some((number, "ignored")) => counts.skipped = number.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_test_binary_are_counted() {
        let line = "test result: FAILED. 7 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; finished in 41.01s";
        assert_eq!(
            parse_result(line),
            Some(Counts {
                passed: 7,
                failed: 1,
                skipped: 2,
                starved: Vec::new()
            })
        );
        assert_eq!(parse_result("test something ... ok"), None);
    }

    #[test]
    fn the_last_line_of_a_run_is_read_back() {
        let counts = Counts {
            passed: 7,
            failed: 1,
            skipped: 2,
            starved: Vec::new(),
        };
        assert_eq!(
            Counts::of_last_line("7 passed, 1 failed, 2 skipped"),
            Some(counts.clone())
        );
        for other in [
            "",
            "7 passed, 1 failed",
            "7 passed, 1 failed, x skipped",
            "passed, failed, skipped",
        ] {
            assert_eq!(Counts::of_last_line(other), None, "{other}");
        }
    }

    /// A failure is only taken back where the same test has passed since.
    #[test]
    fn a_test_that_fails_alone_too_has_failed() {
        let name = |name: &str| name.to_owned();
        let (first, second) = ("test siege::one ... FAILED", "test plans::two ... ok");
        assert_eq!(failed_test(first), Some("siege::one"));
        assert_eq!(failed_test(second), None);
        let mut counts = Counts {
            passed: 5,
            failed: 2,
            ..Counts::default()
        };
        counts.settle(&[name("siege::one"), name("plans::two")], &[name("siege::one")]);
        assert_eq!((counts.passed, counts.failed), (6, 1));
        assert_eq!(counts.starved, [name("plans::two")]);
    }
}
