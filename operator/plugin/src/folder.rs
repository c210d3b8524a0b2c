//! A folder on disk that is private to the operator (0700, files 0600) and bounded: what was used longest ago goes
//! first. A file is written whole or not at all. It knows nothing of what the files are. Where there are no modes of files it
//! cannot be made.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

/// Name of the one file that never goes.
pub(crate) const KEPT: &str = "key";

/// A private, bounded folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    most_bytes: u64,
    serial: AtomicU64,
    /// Held while files are counted and removed.
    room: Mutex<()>,
}

/// Makes a folder that only this user may look into, or shuts one of this user's that is there.
#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let about = fs::symlink_metadata(path)?;
    if !about.is_dir() || about.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{} is no folder of this user", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if about.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Who may look into a folder is not known here: nothing is kept.
#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    let message = format!(
        "{}: numo cannot make a private folder on this system",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

/// A new file that only this user may read.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl Folder {
    /// Makes the folder if need be; its parent must exist. Fails when it belongs to someone else.
    pub(crate) fn open(path: PathBuf, most_bytes: u64) -> io::Result<Self> {
        make_private(&path)?;
        let folder = Self {
            path,
            most_bytes,
            serial: AtomicU64::new(0),
            room: Mutex::default(),
        };
        folder.make_room()?;
        Ok(folder)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file whose name begins so, if there is one.
    pub(crate) fn find(&self, prefix: &str) -> Option<PathBuf> {
        let mut entries = fs::read_dir(&self.path).ok()?.filter_map(Result::ok);
        let found = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        found.map(|entry| entry.path())
    }

    /// The whole file, if it is there and within bounds. It counts as used now.
    pub(crate) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let mut file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        if size > self.most_bytes {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        // When it was used last; on a read-only volume nobody needs to know.
        let _ = file.set_modified(SystemTime::now());
        Some(bytes)
    }

    /// Writes a file, whole or not at all.
    pub(crate) fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let beside = self.path.join(format!("new-{}-{serial}", std::process::id()));
        let written = new_file(&beside).and_then(|mut file| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_data()?;
            fs::rename(&beside, path)
        });
        if written.is_err() {
            self.discard(&beside);
        }
        written
    }

    /// Removes a file that is of no use.
    pub(crate) fn discard(&self, path: &Path) {
        debug_assert!(path.starts_with(&self.path));
        let _ = fs::remove_file(path);
    }

    /// Removes what was used longest ago, and what a crash left half written, until the rest is within bounds.
    pub(crate) fn make_room(&self) -> io::Result<()> {
        self.keep_newest("", self.most_bytes)
    }

    /// The same among the files whose names end so, until they are within their share of the bounds.
    pub(crate) fn make_room_among(&self, suffix: &str, share: u64) -> io::Result<()> {
        self.keep_newest(suffix, self.most_bytes / share)
    }

    fn keep_newest(&self, suffix: &str, most_bytes: u64) -> io::Result<()> {
        let _room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let about = match entry.metadata() {
                Ok(about) if about.is_file() && name != KEPT => about,
                _ => continue,
            };
            let age = about
                .modified()
                .ok()
                .and_then(|when| when.elapsed().ok())
                .unwrap_or_default();
            if name.to_string_lossy().starts_with("new-") {
                if age.as_secs() > 600 {
                    self.discard(&entry.path());
                }
                continue;
            }
            if name.to_string_lossy().ends_with(suffix) {
                files.push((age, about.len(), entry.path()));
            }
        }
        files.sort();
        let mut sum = 0_u64;
        for (_, size, path) in files {
            sum = sum.saturating_add(size);
            if sum > most_bytes {
                self.discard(&path);
            }
        }
        Ok(())
    }
}
