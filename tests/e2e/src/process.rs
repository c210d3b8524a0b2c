//! numo as a process.

use anyhow::{Context, Result};
use std::{
    io::{PipeWriter, Write as _},
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

/// What a verb of the command line said.
#[derive(Debug)]
pub struct Said {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// The registries of tests are on this machine, where numo reaches none that it is not told of.
pub(crate) const ON_LOOPBACK: &str = "NUMO_REGISTRIES_ON_LOOPBACK";

/// Runs a verb of the command line.
pub async fn call(kubeconfig: &Path, arguments: &[&str]) -> Result<Said> {
    let mut numo = Command::new(binary()?);
    numo.args(arguments)
        .env("NUMO_KUBECONFIG", kubeconfig)
        .env(ON_LOOPBACK, "true")
        .env("USER", "tester");
    said(&mut numo).await
}

async fn said(command: &mut Command) -> Result<Said> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    Ok(Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Where crates are built that a test makes: what they depend on is built once.
pub fn crates() -> PathBuf {
    crate::manifests::root().join("target/author")
}

/// Runs a verb of the command line that needs no cluster, in a folder.
pub async fn call_in(folder: &Path, arguments: &[&str]) -> Result<Said> {
    said(&mut authors(binary()?, folder, arguments)).await
}

/// The same with programs of a toolchain before all others on the PATH.
pub async fn call_with(tools: &Path, folder: &Path, arguments: &[&str]) -> Result<Said> {
    said(with(&mut authors(binary()?, folder, arguments), tools)?).await
}

/// Runs cargo in an author's folder, with a verb that a toolchain adds.
pub async fn cargo_with(tools: &Path, folder: &Path, arguments: &[&str]) -> Result<Said> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    said(with(&mut authors(cargo.into(), folder, arguments), tools)?).await
}

fn with<'c>(command: &'c mut Command, tools: &Path) -> Result<&'c mut Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools.to_owned()).chain(std::env::split_paths(&path));
    Ok(command.env("PATH", std::env::join_paths(folders)?))
}

/// A program as the author of a rule would run it.
fn authors(program: PathBuf, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    // Flags of the host's build are not for a component, nor is its folder.
    for variable in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_BUILD_BUILD_DIR",
        "RUSTC_WRAPPER",
        "NUMO_KUBECONFIG",
        "KUBECONFIG",
    ] {
        command.env_remove(variable);
    }
    command
        .args(arguments)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", crates());
    command
}

/// Becomes numo, and leaves a watch that kills it should our end of the pipe close without a word: even
/// SIGKILL of us leaves no numo behind. The process id, the signals and the exit code are numo's own.
const WATCHED: &str =
    r#"exec 3<&0; { read -r _ <&3 || kill -KILL $$; } 2>/dev/null & exec "$0" "$@" </dev/null 3<&-"#;

/// A running numo.
#[derive(Debug)]
pub struct Numo {
    child: Child,
    watch: PipeWriter,
    log: PathBuf,
}

impl Numo {
    /// Starts it. Its log is written to a file in `logs`. It leads its own process group, so that Ctrl-C in
    /// a terminal reaches us alone and we stop the parts in order.
    pub fn start(kubeconfig: &Path, namespace: &str, logs: &Path, extra: &[&str]) -> Result<Self> {
        Self::start_in(kubeconfig, namespace, logs, extra, &[])
    }

    /// The same with variables in its environment.
    pub fn start_in(
        kubeconfig: &Path,
        namespace: &str,
        logs: &Path,
        extra: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        Self::start_by(&binary()?, kubeconfig, namespace, logs, extra, environment)
    }

    /// The same from this program.
    pub fn start_by(
        program: &Path,
        kubeconfig: &Path,
        namespace: &str,
        logs: &Path,
        extra: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = logs.join(format!("numo-{number}.log"));
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let (watched, watch) = std::io::pipe()?;
        let child = Command::new("/bin/sh")
            .args(["-c", WATCHED])
            .arg(program)
            .arg("run")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--namespace", namespace])
            .args(extra)
            .env_remove("KUBECONFIG")
            .env(ON_LOOPBACK, "true")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(watched)
            .stdout(Stdio::null())
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child, watch, log })
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it serves /healthz, /readyz and /metrics, once its log says so.
    pub fn address(&self) -> Option<String> {
        self.listeners().into_iter().next().map(|(_, address)| address)
    }

    /// What it serves, in its own words, and where, as far as its log says so: metrics, probes, the webhook.
    pub fn listeners(&self) -> Vec<(String, String)> {
        let log = self.log();
        let each = log.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let what = line["message"].as_str()?.strip_prefix("serving ")?;
            Some((what.to_owned(), line["address"].as_str()?.to_owned()))
        });
        each.collect()
    }

    /// Whether it has said that it leads.
    pub fn leads(&self) -> bool {
        self.log().lines().any(|line| {
            serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["message"] == "leading")
        })
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> Result<()> {
        let pid = self.child.id().context("numo has ended")?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(pid)?), signal)?;
        Ok(())
    }

    /// Waits until it ends by itself. Its exit code.
    pub async fn ended(&mut self, within: Duration) -> Result<Option<i32>> {
        let status = tokio::time::timeout(within, self.child.wait())
            .await
            .with_context(|| format!("numo did not end within {within:?}"))??;
        self.end_watch();
        Ok(status.code())
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it on the spot, as a node that loses power does.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        self.end_watch();
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
        self.end_watch();
        Ok(status.code())
    }

    /// numo is gone, and its process id may soon be someone else's: the watch must not kill that.
    fn end_watch(&mut self) {
        // Fails only when the watch is gone.
        let _ = self.watch.write_all(b"\n");
    }
}
