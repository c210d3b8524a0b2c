//! The steps of `cargo xtask test` that compute and wait for nothing, run by this program as a process of its own while the
//! others wait for clusters: at the lowest priority, so that no test that has a deadline is late for them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::counts::Counts;
use crate::step;

/// The heading under which they are waited for.
pub const REST: &str = "what computes: the rest of it";

/// The process, and where it writes.
pub struct Beside {
    child: Child,
    said: PathBuf,
}

/// How it ended.
pub struct Ended {
    /// Its tests and steps.
    pub counts: Counts,
    /// Whether all of them succeeded.
    pub success: bool,
}

impl Beside {
    /// Begins them, by these words of this program.
    pub fn begin(words: &[String]) -> Result<Self> {
        let folder = step::root().join("target/tmp");
        fs::create_dir_all(&folder)?;
        let said = folder.join("computing.log");
        let output = File::create(&said).with_context(|| format!("create {}", said.display()))?;
        let child = Command::new("nice")
            .args(["-n", "19"])
            .arg(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("run nice")?;
        Ok(Self { child, said })
    }

    /// Waits for them, prints all they said, and counts it. An error says that they came to no count.
    pub fn end(mut self) -> Result<Ended> {
        let success = self.child.wait()?.success();
        let said = String::from_utf8_lossy(&fs::read(&self.said)?).into_owned();
        print!("{said}");
        let counts = said.lines().last().and_then(Counts::of_last_line);
        let counts = counts.context("the steps that compute ended without a count")?;
        Ok(Ended { counts, success })
    }
}

impl Drop for Beside {
    /// Nothing goes on after the program that began it has failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
