//! numo as a process.

use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::process::{Child, Command};

/// The numo binary: `$NUMO_BIN`, or what cargo built beside this test.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("NUMO_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    own.ancestors()
        .map(|folder| folder.join("numo"))
        .find(|path| path.is_file())
        .context("found no numo binary: run `cargo build -p numo`, or set NUMO_BIN")
}

/// A running numo.
#[derive(Debug)]
pub struct Numo {
    child: Child,
    log: PathBuf,
}

impl Numo {
    /// Starts it. Its log is appended to a file in `logs`.
    pub fn start(kubeconfig: &Path, namespace: &str, logs: &Path, extra: &[&str]) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = logs.join(format!("numo-{number}.log"));
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let child = Command::new(binary()?)
            .arg("run")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--namespace", namespace])
            .args(extra)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it on the spot, as a node that loses power does.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    /// Asks it to stop, and waits until it has. Its exit code.
    pub async fn stop(mut self) -> Result<Option<i32>> {
        if let Some(pid) = self.child.id() {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(pid)?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        }
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait())
            .await
            .context("numo did not stop within 30 s of SIGTERM")??;
        Ok(status.code())
    }
}
