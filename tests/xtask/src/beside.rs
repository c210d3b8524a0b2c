//! Parts of `cargo xtask test` that are run by this program as processes of their own while the others wait for clusters: what computes at
//! the lowest priority, so that no test that has a deadline is late for it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use crate::counts::Counts;
use crate::step;

/// The process, and where it writes.
pub struct Beside {
    part: &'static str,
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
    /// Begins a part, by these words of this program. It stands back so far (`nice`, up to 19).
    pub fn begin(part: &'static str, niceness: u8, words: &[String]) -> Result<Self> {
        let folder = step::root().join("target/tmp");
        fs::create_dir_all(&folder)?;
        let said = folder.join(format!("{part}.log"));
        let output = File::create(&said).with_context(|| format!("create {}", said.display()))?;
        let child = Command::new("nice")
            .args(["-n", &niceness.to_string()])
            .arg(std::env::current_exe()?)
            .args(words)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("run nice")?;
        Ok(Self { part, child, said })
    }

    /// The heading under which the part is waited for.
    pub fn rest(&self) -> String {
        format!("{}: the rest of it", self.part)
    }

    /// Waits for them, prints all they said, and counts it. An error says that they came to no count.
    pub fn end(mut self) -> Result<Ended> {
        let success = self.child.wait()?.success();
        let said = String::from_utf8_lossy(&fs::read(&self.said)?).into_owned();
        print!("{said}");
        let counts = Counts::of_end(&said);
        let counts = counts.with_context(|| format!("{} ended without a count", self.part))?;
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
