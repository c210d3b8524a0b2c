//! One component as a child process, and how it ends.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use numo_control_plane::tail;

/// A part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
}

impl Component {
    /// In the order in which they start.
    pub(crate) const ALL: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    /// The program's name, as upstream has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

/// A running component.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) component: Component,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, its output in `<logs>/<component>.log`.
    ///
    /// Unless `outlives_us`, the child gets a pipe as standard input whose other end
    /// only we hold, and ends when that closes: even SIGKILL of a test leaves nothing
    /// behind. The child leads its own process group, so that Ctrl-C in a terminal
    /// reaches us alone and we stop the parts in order.
    pub(crate) fn spawn(
        component: Component,
        mut command: Command,
        logs: &Path,
        outlives_us: bool,
    ) -> Result<Self> {
        let log = logs.join(format!("{}.log", component.name()));
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        if outlives_us {
            command.stdin(Stdio::null());
        } else {
            command
                .stdin(Stdio::piped())
                .env("NUMO_CLUSTER_STDIN_IS_PARENT", "1");
        }
        let child = command
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", component.name()))?;
        Ok(Self {
            component,
            child,
            log,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if the process has ended.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of the log, to be shown in an error.
    pub(crate) fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Asks the process to end.
    pub(crate) fn terminate(&self) {
        signal(self.child.id(), Signal::SIGTERM);
    }

    /// Ends the process and waits until it is gone, and its ports with it.
    pub(crate) fn kill(&mut self) {
        // Both fail only when the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits up to `grace` for the process to end by itself, then ends it.
    pub(crate) async fn end(&mut self, grace: Duration) {
        let until = Instant::now() + grace;
        while self.exited().is_none() {
            if Instant::now() > until {
                return self.kill();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Sends a signal; a process that is gone already is no error.
pub(crate) fn signal(id: u32, signal: Signal) {
    if let Ok(id) = i32::try_from(id) {
        let _ = kill(Pid::from_raw(id), signal);
    }
}
