//! The memory of numo's container: what the Deployment allows it, and a fence around a numo that is a process here.

use crate::manifests;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Folder of control groups in which a test may make one of its own: of the memory controller of version 1, or of version 2 with
/// that controller handed down. Nobody's own group is changed without being asked for it.
const GROUPS: &str = "NUMO_E2E_CGROUP";
/// How often memory is looked at: a child that compiles lives longer.
const EVERY: Duration = Duration::from_millis(50);

/// Bytes of memory that the Deployment allows numo's container, as it ships.
pub fn limit() -> Result<u64> {
    let path = manifests::root().join("deploy/kubernetes.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    // Of a long file only what is asked for is read.
    let documents = text
        .split("\n---\n")
        .filter(|one| one.contains("kind: Deployment\n"));
    let objects = documents.map(manifests::parse).collect::<Result<Vec<_>>>()?;
    limit_of(&objects.concat())
}

fn limit_of(objects: &[Value]) -> Result<u64> {
    let deployment = objects
        .iter()
        .find(|one| one["kind"] == "Deployment" && one["metadata"]["name"] == "numo")
        .context("the Deployment of numo")?;
    let memory = &deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"];
    bytes(memory.as_str().context("a limit of memory")?)
}

/// A quantity of memory as manifests write it.
pub fn bytes(quantity: &str) -> Result<u64> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let found = units
        .iter()
        .find_map(|(unit, shift)| Some((quantity.strip_suffix(unit)?, *shift)));
    let (number, shift) = found.unwrap_or((quantity, 0));
    let number: u64 = number.parse().with_context(|| format!("memory {quantity:?}"))?;
    Ok(number << shift)
}

/// Memory of a process and of all that it starts. Where the test may make control groups, the kernel ends what passes the limit; else,
/// and there too, the most that it had together is known.
#[derive(Debug)]
pub struct Fence {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    group: Option<PathBuf>,
}

impl Fence {
    /// Around a process that has only begun.
    pub fn around(pid: u32, limit: u64) -> Result<Self> {
        let group = match std::env::var_os(GROUPS) {
            None => None,
            Some(folder) => Some(group(&PathBuf::from(folder), pid, limit)?),
        };
        let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (of_thread, until) = (most.clone(), over.clone());
        let thread = std::thread::Builder::new()
            .name("memory".to_owned())
            .spawn(move || {
                while !until.load(Ordering::Acquire) {
                    of_thread.fetch_max(resident(pid), Ordering::AcqRel);
                    std::thread::sleep(EVERY);
                }
            })?;
        Ok(Self {
            most,
            over,
            thread: Some(thread),
            group,
        })
    }

    /// Bytes that the process and all that it started had resident at most, at one time. What they share counts for each.
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Acquire)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(group) = &self.group {
            // It can be taken away once everybody in it has ended.
            for _ in 0..100 {
                if std::fs::remove_dir(group).is_ok() {
                    return;
                }
                std::thread::sleep(EVERY);
            }
            tracing::warn!(group = %group.display(), "a control group is left behind");
        }
    }
}

/// A control group with this limit and this process.
fn group(folder: &std::path::Path, pid: u32, limit: u64) -> Result<PathBuf> {
    let group = folder.join(format!("numo-{pid}"));
    std::fs::create_dir(&group).with_context(|| group.display().to_string())?;
    let put_in = || {
        let files = ["memory.limit_in_bytes", "memory.max"].map(|name| group.join(name));
        let file = files.iter().find(|file| file.is_file());
        let file = file.with_context(|| format!("no memory controller in {}", group.display()))?;
        std::fs::write(file, limit.to_string())?;
        std::fs::write(group.join("cgroup.procs"), pid.to_string())?;
        anyhow::Ok(())
    };
    match put_in() {
        Ok(()) => Ok(group),
        Err(error) => {
            let _ = std::fs::remove_dir(&group);
            Err(error.context(format!("${GROUPS}")))
        }
    }
}

/// Bytes that a process and all that it started have resident.
pub fn resident(root: u32) -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // One that ended meanwhile has nothing.
        let (parent, bytes) = parsed(&std::fs::read_to_string(entry.path().join("status")).ok()?)?;
        Some((pid, (parent, bytes)))
    });
    together(root, &statuses.collect())
}

/// Parent and resident bytes, as /proc/PID/status has them; a process that ended and was not waited for has none.
pub fn parsed(status: &str) -> Option<(u32, u64)> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let parent = u32::try_from(field("PPid:")?).ok()?;
    Some((parent, field("VmRSS:").unwrap_or(0) << 10))
}

/// The sum over a process and all below it.
pub fn together(root: u32, all: &BTreeMap<u32, (u32, u64)>) -> u64 {
    let mut below = BTreeSet::from([root]);
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, (parent, _))| below.contains(parent) && !below.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        below.extend(more);
    }
    below
        .iter()
        .filter_map(|pid| all.get(pid))
        .map(|(_, bytes)| *bytes)
        .sum()
}

/// An error if more was used than is allowed.
pub fn within(fence: &Fence, limit: u64) -> Result<()> {
    let most = fence.most();
    ensure!(most > 0, "nobody looked at numo's memory");
    ensure!(
        most < limit,
        "numo and its children had {} MiB together, and their container has {} MiB",
        most >> 20,
        limit >> 20
    );
    Ok(())
}
