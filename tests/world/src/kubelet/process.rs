//! Containers as processes of this machine: without privileges, in a process group and, where the
//! system allows it, namespaces of their own.
//!
//! May not leave a process behind: each group is killed when its [`Process`] is dropped, and all of
//! them when [`Containers`] is told to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::context::lock;

/// Who runs containers, when we are root: nobody.
const NOBODY: u32 = 65534;
/// What a container's log keeps, its newest bytes.
const LOG_BYTES: usize = 256 * 1024;
/// What a container finds its programs by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long to read on after a process has ended; a grandchild may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Dies with the thread that started it: not even a killed test run leaves processes behind.
const DIES_WITH_US: [&str; 3] = ["setpriv", "--pdeathsig=KILL", "--"];
/// Changing the user clears that wish, so it is made again, together with the change.
const AS_NOBODY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--pdeathsig=KILL",
    "--",
];

/// Ways to isolate, best first; the first that works here is taken.
const ISOLATIONS: [(&[&str], bool); 5] = [
    (
        &[
            "unshare",
            "--net",
            "--pid",
            "--mount",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "--",
        ],
        true,
    ),
    (&["unshare", "--net", "--"], true),
    (&[], true),
    (
        &[
            "unshare",
            "--user",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--",
        ],
        false,
    ),
    (&[], false),
];

/// What a container has written, its newest part.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<VecDeque<u8>>);

impl Log {
    fn append(&self, bytes: &[u8]) {
        let mut log = lock(&self.0);
        log.extend(bytes);
        let excess = log.len().saturating_sub(LOG_BYTES);
        log.drain(..excess);
    }

    pub(super) fn text(&self) -> Vec<u8> {
        lock(&self.0).iter().copied().collect()
    }
}

/// All containers of a world.
#[derive(Debug)]
pub(crate) struct Containers {
    dir: TempDir,
    /// Words before each command.
    isolation: Vec<String>,
    /// By `namespace/pod/container`.
    logs: Mutex<BTreeMap<String, Arc<Log>>>,
    groups: Mutex<BTreeSet<i32>>,
}

impl Containers {
    pub(crate) async fn new() -> Result<Arc<Self>> {
        let dir = tempfile::Builder::new()
            .prefix("numo-world-")
            .tempdir()
            .context("making a folder for containers")?;
        // Nobody must be able to enter, not to list.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711))?;
        let isolation = find_isolation().await;
        Ok(Arc::new(Self {
            dir,
            isolation,
            logs: Mutex::default(),
            groups: Mutex::default(),
        }))
    }

    /// The log of a container, a new one if there is none.
    pub(super) fn log(&self, pod: &str, container: &str) -> Arc<Log> {
        lock(&self.logs)
            .entry(format!("{pod}/{container}"))
            .or_default()
            .clone()
    }

    pub(super) fn known_log(&self, path: &str) -> Option<Arc<Log>> {
        lock(&self.logs).get(path).cloned()
    }

    pub(super) fn forget_logs(&self, pod: &str) {
        let prefix = format!("{pod}/");
        lock(&self.logs).retain(|path, _| !path.starts_with(&prefix));
    }

    /// A folder that containers may write to.
    pub(super) fn folder(&self) -> io::Result<TempDir> {
        let folder = tempfile::tempdir_in(self.dir.path())?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))?;
        Ok(folder)
    }

    /// Ends all processes now.
    pub(crate) fn kill_all(&self) {
        for group in lock(&self.groups).iter() {
            // An error says that it is gone already.
            let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
        }
    }

    /// Starts a command whose output goes to a log. One that is trusted is not kept from the network, and its user is
    /// not changed.
    pub(super) fn start(
        self: &Arc<Self>,
        argv: &[String],
        env: &[(String, String)],
        dir: &Path,
        log: &Arc<Log>,
        is_trusted: bool,
    ) -> io::Result<Process> {
        let program = find_program(argv, env)?;
        let mut words = if is_trusted {
            DIES_WITH_US.map(str::to_owned).to_vec()
        } else {
            self.isolation.clone()
        };
        words.push(program.to_string_lossy().into_owned());
        words.extend(argv.iter().skip(1).cloned());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", dir)
            .envs(env.iter().map(|(k, v)| (k, v)))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if !is_trusted && self.isolation.is_empty() && Uid::effective().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.spawn()?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .unwrap_or_default();
        lock(&self.groups).insert(group);
        let readers = vec![
            tokio::spawn(read(child.stdout.take(), log.clone())),
            tokio::spawn(read(child.stderr.take(), log.clone())),
        ];
        Ok(Process {
            child,
            group,
            readers,
            containers: self.clone(),
        })
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        self.kill_all();
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, log: Arc<Log>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = pipe.read(&mut buffer).await {
        log.append(&buffer[..n]);
    }
}

/// Looks a program up as a shell would, in the container's own PATH if it has one.
fn find_program(argv: &[String], env: &[(String, String)]) -> io::Result<PathBuf> {
    let name = argv.first().map(String::as_str).unwrap_or_default();
    let is_program = |path: &Path| {
        path.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let path = env.iter().find(|(k, _)| k == "PATH").map_or(PATH, |(_, v)| v);
    let found = if name.contains('/') {
        Some(PathBuf::from(name)).filter(|p| is_program(p))
    } else {
        path.split(':')
            .map(|dir| Path::new(dir).join(name))
            .find(|p| is_program(p))
    };
    found.ok_or_else(|| {
        let message = format!("exec: \"{name}\": executable file not found in $PATH");
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

/// The first way of isolating that lets `true` run; none: only the user is changed, if we are root.
async fn find_isolation() -> Vec<String> {
    for (unshare, as_root) in ISOLATIONS {
        let change_user: &[&str] = if as_root { &AS_NOBODY } else { &[] };
        let words: Vec<String> = DIES_WITH_US
            .iter()
            .chain(unshare)
            .chain(change_user)
            .map(ToString::to_string)
            .collect();
        // Without a change of the user, it is changed as the process starts.
        if as_root != Uid::effective().is_root() {
            continue;
        }
        let tried = Command::new(&words[0])
            .args(&words[1..])
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .await;
        if tried.is_ok_and(|status| status.success()) {
            return words;
        }
    }
    Vec::new()
}

/// A running container.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: i32,
    readers: Vec<JoinHandle<()>>,
    containers: Arc<Containers>,
}

impl Process {
    /// Its exit code, 128 and more for signals, once all it said is in its log.
    pub(super) async fn wait(mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let code = match self.child.wait().await {
            Ok(status) => status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(255),
            Err(_) => 255,
        };
        let _ = killpg(Pid::from_raw(self.group), Signal::SIGKILL);
        lock(&self.containers.groups).remove(&self.group);
        self.group = 0;
        let readers = futures::future::join_all(self.readers.iter_mut());
        let _ = tokio::time::timeout(LAST_WORDS, readers).await;
        code
    }

    pub(super) fn group(&self) -> i32 {
        self.group
    }
}

/// Asks a container to end.
pub(super) fn terminate(group: i32) {
    let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.group != 0 {
            let _ = killpg(Pid::from_raw(self.group), Signal::SIGKILL);
            lock(&self.containers.groups).remove(&self.group);
        }
        for reader in &self.readers {
            reader.abort();
        }
    }
}
