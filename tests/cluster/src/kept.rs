//! Clusters that outlive the process which started them, for `--keep`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

use crate::process::{Process, signal};

const PIDS: &str = "pids";

/// Writes down which processes there are, one id a line, in the order in which
/// they are to be stopped.
pub(crate) fn record(dir: &Path, processes: &[Process]) -> Result<()> {
    let ids: Vec<_> = processes
        .iter()
        .rev()
        .map(|process| process.id().to_string())
        .collect();
    fs::write(dir.join(PIDS), ids.join("\n")).context("write down the processes")
}

/// Stops what [`record`] wrote down and removes the folder.
pub(crate) async fn stop(dir: &Path) -> Result<()> {
    let ids = fs::read_to_string(dir.join(PIDS))
        .with_context(|| format!("{} holds no kept cluster", dir.display()))?;
    for id in ids.lines().filter_map(|line| line.parse().ok()) {
        end(id, dir).await;
    }
    fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))
}

async fn end(id: u32, dir: &Path) {
    let until = Instant::now() + Duration::from_secs(3);
    if is_ours(id, dir) {
        signal(id, Signal::SIGTERM);
    }
    while is_ours(id, dir) {
        if Instant::now() > until {
            signal(id, Signal::SIGKILL);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether the process still is the component we started: ids are reused after a
/// reboot, but each component of ours has this folder in its flags.
fn is_ours(id: u32, dir: &Path) -> bool {
    let arguments = fs::read(format!("/proc/{id}/cmdline")).ok().or_else(|| {
        let output = std::process::Command::new("ps")
            .args(["-o", "command=", "-p", &id.to_string()])
            .output()
            .ok()?;
        Some(output.stdout)
    });
    arguments.is_some_and(|arguments| {
        String::from_utf8_lossy(&arguments).contains(&dir.to_string_lossy().into_owned())
    })
}
