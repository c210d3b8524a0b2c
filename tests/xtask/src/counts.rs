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
    /// How many of those that passed did so in an earlier run, and were left out in this one.
    pub before: u32,
    /// The names of those that failed beside others, and passed when they were run again alone. They count as passed.
    pub starved: Vec<String>,
}

/// What is said of each of [`Counts::starved`].
pub const STARVED_WORDS: &str = "failed beside others, passed alone";

/// What is said of the number of tests that were left out.
const BEFORE_WORDS: &str =
    " of them passed before, with the same programs and files: left out (cargo xtask test --again runs them)";

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
            before: _,
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
        self.before += other.before;
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
            before: 0,
            starved: Vec::new(),
        })
    }

    /// Counts what passed in an earlier run.
    pub const fn add_before(&mut self, number: u32) {
        self.passed += number;
        self.before += number;
    }

    /// The line before the last one, where tests were left out: `2,410 of them passed before, …`.
    pub fn line_before(&self) -> Option<String> {
        (self.before > 0).then(|| format!("{}{BEFORE_WORDS}", with_commas(self.before)))
    }

    /// Reads the end of what a run of this program said: the last line, and the one before it.
    pub fn of_end(said: &str) -> Option<Self> {
        let mut lines = said.lines().rev();
        let mut counts = Self::of_last_line(lines.next()?)?;
        let number = lines.next().and_then(|line| line.strip_suffix(BEFORE_WORDS));
        let number = number.and_then(|number| number.replace(',', "").parse().ok());
        counts.before = number.unwrap_or_default();
        Some(counts)
    }
}

/// `2410` as `2,410`.
fn with_commas(number: u32) -> String {
    let digits = number.to_string();
    let mut written = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// How a program full of tests ended.
pub struct Said {
    /// Whether all passed.
    pub success: bool,
    /// The names of those that failed.
    pub failed: Vec<String>,
    /// Whether it ended as a program with tests does, and named each that failed. Else what it said of the others is worth nothing.
    pub ended: bool,
}

/// Runs tests, passing on what they print and counting their results.
pub fn counted(command: Command, counts: &mut Counts) -> Result<Said> {
    counted_each(command, counts, &mut |_| {})
}

/// The same, telling the name of each that passes as soon as it has.
pub fn counted_each(mut command: Command, counts: &mut Counts, passes: &mut dyn FnMut(&str)) -> Result<Said> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("run the tests")?;
    let stdout = child.stdout.take().context("the tests' output")?;
    let (mut failed, mut ended) = (Vec::new(), false);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        failed.extend(failed_test(&line).map(ToOwned::to_owned));
        if let Some(name) = passed_test(&line) {
            passes(name);
        }
        if let Some(result) = parse_result(&line) {
            ended = result.failed as usize == failed.len();
            counts.add(result);
        }
    }
    let code = child.wait()?.code();
    Ok(Said {
        success: code == Some(0),
        ended: ended && (code == Some(0) || code == Some(FAILED) && !failed.is_empty()),
        failed,
    })
}

/// The code with which a program ends of whose tests one has failed.
const FAILED: i32 = 101;

/// Reads `test plans::one_by_one ... ok`.
fn passed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... ok")
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
                ..Counts::default()
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
            ..Counts::default()
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

    #[test]
    fn how_many_passed_before_is_said_before_the_last_line_and_read_back() {
        let mut counts = Counts {
            passed: 55,
            ..Counts::default()
        };
        assert_eq!(counts.line_before(), None);
        counts.add_before(2410);
        assert_eq!(counts.to_string(), "2465 passed, 0 failed, 0 skipped");
        let line = counts.line_before().unwrap();
        assert_eq!(
            line,
            "2,410 of them passed before, with the same programs and files: left out (cargo xtask test --again runs them)"
        );
        assert_eq!(
            Counts::of_end(&format!("x\n{line}\n{counts}\n")),
            Some(counts.clone())
        );
        counts.before = 0;
        assert_eq!(
            Counts::of_end(&format!("x\nanother line\n{counts}\n")),
            Some(counts)
        );
        assert_eq!(Counts::of_end(&line), None);
        for (number, written) in [(7, "7"), (123, "123"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(with_commas(number), written);
        }
    }

    /// What a program says before it crashes is no result: not even of those that passed.
    #[test]
    fn only_a_program_that_ends_as_tests_do_has_results() {
        let run = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            let mut passed = Vec::new();
            let said = counted_each(shell, &mut Counts::default(), &mut |name| {
                passed.push(name.to_owned());
            });
            (said.unwrap().ended, passed.join(" "))
        };
        let passes = "echo 'test plans::one ... ok'";
        let fails = "echo 'test plans::two ... FAILED'";
        let result = |failed: u8| format!("echo 'test result: x. 1 passed; {failed} failed; 0 ignored'");
        let one = "plans::one".to_owned();
        for (script, ended) in [
            (format!("{passes}; {}", result(0)), true),
            (format!("{passes}; {fails}; {}; exit 101", result(1)), true),
            (format!("{passes}; {}; exit 101", result(1)), false),
            (format!("{passes}; {}; exit 1", result(0)), false),
            (format!("{passes}; exit 0"), false),
            (format!("{passes}; kill -9 $$"), false),
        ] {
            assert_eq!(run(&script), (ended, one.clone()), "{script}");
        }
        assert_eq!(passed_test("test plans::two ... FAILED"), None);
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
