//! The steps of a run, how each ended, and what is said of all at the end.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::counts::{Counts, STARVED_WORDS};

/// How a step ended that is not a test itself.
pub enum Outcome {
    Done,
    Failed,
    Skipped,
}

impl Outcome {
    pub fn of(success: bool) -> Self {
        if success { Self::Done } else { Self::Failed }
    }
}

#[derive(Default)]
pub struct Run {
    pub counts: Counts,
    times: Vec<(String, Duration, &'static str)>,
}

impl Run {
    /// Runs one step under a heading. Says whether it succeeded.
    pub fn step(&mut self, title: &str, work: impl FnOnce(&mut Counts) -> Result<Outcome>) -> bool {
        println!("\n=== {title}");
        let began = Instant::now();
        let failed_before = self.counts.failed;
        let outcome = work(&mut self.counts).unwrap_or_else(|error| {
            println!("{error:#}");
            Outcome::Failed
        });
        let mark = match outcome {
            Outcome::Done => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        match outcome {
            // A test binary has counted its failures; what failed otherwise counts as one.
            Outcome::Failed if self.counts.failed == failed_before => self.counts.failed += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Done | Outcome::Failed => {}
        }
        let took = began.elapsed();
        println!("=== {title}: {mark} in {:.1} s", took.as_secs_f32());
        self.times.push((title.to_owned(), took, mark));
        matches!(outcome, Outcome::Done)
    }

    pub fn finish(self) -> ExitCode {
        println!();
        for (title, took, mark) in &self.times {
            println!("{:>8.1} s  {mark:<7}  {title}", took.as_secs_f32());
        }
        for name in &self.counts.starved {
            println!("{STARVED_WORDS}: {name}");
        }
        if let Some(line) = self.counts.line_before() {
            println!("{line}");
        }
        println!("{}", self.counts);
        if self.counts.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
