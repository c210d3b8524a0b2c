//! The folder of one cluster, and what becomes of folders whose cluster is gone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const PREFIX: &str = "numo-cluster-";
const LOCK: &str = "lock";
/// Says that a person wants this folder: the sweep leaves it alone.
const WANTED: &str = "wanted";

/// A folder under the temporary directory. The lock in it is held by the process
/// that made it, so another one can tell a cluster in use from a killed one's rest.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Dir {
    pub(crate) fn create() -> Result<Self> {
        sweep();
        let path = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir()
            .context("create the cluster's folder")?
            .keep();
        // Locked before it has its name: a sweep never sees the lock of a live cluster free.
        let unnamed = path.join("lock.new");
        let lock = File::create(&unnamed)?;
        lock.lock().context("lock the cluster's folder")?;
        fs::rename(&unnamed, path.join(LOCK))?;
        for folder in ["logs", "data", "auth"] {
            fs::create_dir(path.join(folder))?;
        }
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// Data of the components: etcd's database, certificates.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Keys, tokens and kubeconfigs.
    pub(crate) fn auth(&self) -> PathBuf {
        self.path.join("auth")
    }

    pub(crate) fn keep(&self) {
        // Without the mark the next cluster's sweep removes the folder: a pity, not an error.
        let _ = File::create(self.path.join(WANTED));
    }

    pub(crate) fn keep_logs_only(&self) {
        self.keep();
        let _ = fs::remove_dir_all(self.data());
        let _ = fs::remove_dir_all(self.auth());
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of clusters whose process was killed: 130 MB each.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let ours = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        if ours && !path.join(WANTED).exists() && is_abandoned(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_abandoned_only_when_its_process_is_gone() {
        let dir = Dir::create().unwrap();
        let path = dir.path.clone();
        assert!(!is_abandoned(&path));
        drop(dir);
        assert!(is_abandoned(&path));
        fs::remove_dir_all(&path).unwrap();
        assert!(!is_abandoned(&path));
    }
}
