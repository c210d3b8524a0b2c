//! Components and their compiled form on disk, under the component's digest. The folder is private to the operator
//! (0700) and bounded. What is damaged is as good as absent. A compiled form is code that will run in this process: it
//! is only given when it carries a MAC made with this folder's key, over the engine that it was made by and the
//! component that it was made of. What one namespace had compiled serves all, and counts as that namespace's. Knows nothing of registries
//! and of who may use what.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::{
    digest::digest,
    folder::{Folder, KEPT, new_file},
    text::hex,
};

const COMPONENT: &str = "component";
const COMPILED: &str = "compiled";
const MAC_BYTES: usize = 32;
/// One part in so many is the most that one tenant has of the folder: the largest component and its compiled form fit.
const SHARE: u64 = 3;

/// A folder.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: Folder,
    key: [u8; 64],
    engine: [u8; 32],
}

impl Cache {
    /// Makes the folder if need be; its parent must exist. Fails when it belongs to someone else.
    pub(crate) fn open(folder: PathBuf, most_bytes: u64, engine: &[u8; 32]) -> io::Result<Self> {
        let folder = Folder::open(folder, most_bytes)?;
        let key = read_or_make_key(&folder.path(KEPT))?;
        Ok(Self {
            folder,
            key,
            engine: *engine,
        })
    }

    /// The component's bytes, if they are there and are what their digest says.
    pub(crate) fn component(&self, of: &str) -> Option<Vec<u8>> {
        let path = self.found(of, COMPONENT)?;
        let bytes = self.folder.read(&path)?;
        if digest(&bytes) == of {
            return Some(bytes);
        }
        self.folder.discard(&path);
        None
    }

    /// What was kept beside the compiled form, and the form.
    pub(crate) fn compiled(&self, of: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let path = self.found(of, COMPILED)?;
        let mut bytes = self.folder.read(&path)?;
        let about = bytes.split_at_checked(MAC_BYTES).and_then(|(mac, rest)| {
            self.mac(of, rest).verify_slice(mac).ok()?;
            let (length, rest) = rest.split_first_chunk::<8>()?;
            let (about, _) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            Some(about.to_vec())
        });
        let Some(about) = about else {
            // Damaged, or made by another engine: a later one would only find it so again.
            self.folder.discard(&path);
            return None;
        };
        // In its place: it is large, and there is no need for two.
        bytes.drain(..MAC_BYTES + 8 + about.len());
        Some((about, bytes))
    }

    /// Bytes of the compiled form and of what is kept beside it, without a look at them; none if it is not there.
    pub(crate) fn compiled_bytes(&self, of: &str) -> Option<u64> {
        let path = self.found(of, COMPILED)?;
        std::fs::metadata(path).ok().map(|found| found.len())
    }

    /// Keeps both. What was used longest ago goes when there is too much, and of what this tenant had compiled when that is more than its
    /// share: nobody pushes out what all others have. Who is alone here, and has no name, has all.
    pub(crate) fn put(
        &self,
        (tenant, of): (&str, &str),
        component: &[u8],
        about: &[u8],
        compiled: &[u8],
    ) -> io::Result<()> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "no digest");
        let suffix = suffix(tenant);
        let path = |what| {
            let name = self.name(of, what).ok_or_else(wrong)?;
            Ok::<_, io::Error>(self.folder.path(&format!("{name}{suffix}")))
        };
        let rest = [&(about.len() as u64).to_le_bytes(), about, compiled].concat();
        let mac = self.mac(of, &rest).finalize().into_bytes();
        self.folder.write(&path(COMPONENT)?, &[component])?;
        self.folder.write(&path(COMPILED)?, &[&mac, &rest])?;
        if !suffix.is_empty() {
            self.folder.make_room_among(&suffix, SHARE)?;
        }
        self.folder.make_room()
    }

    fn mac(&self, of: &str, rest: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new((&self.key).into());
        mac.update(&self.engine);
        mac.update(of.as_bytes());
        mac.update(rest);
        mac
    }

    /// The file of a component, whoever had it compiled.
    fn found(&self, of: &str, what: &str) -> Option<PathBuf> {
        self.folder.find(&self.name(of, what)?)
    }

    /// How a file's name begins. Only a digest becomes one. Compiled forms of several engines lie side by side, so that two
    /// versions of the operator on one folder do not throw out each other's.
    fn name(&self, of: &str, what: &str) -> Option<String> {
        let hexadecimal = of.strip_prefix("sha256:")?;
        let good = hexadecimal.len() == 64
            && hexadecimal
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let name = match what {
            COMPILED => format!("{hexadecimal}.{}.{what}", hex(&self.engine[..8])),
            _ => format!("{hexadecimal}.{what}"),
        };
        good.then_some(name)
    }
}

/// How the names of a tenant's files end.
fn suffix(tenant: &str) -> String {
    if tenant.is_empty() {
        return String::new();
    }
    let hash = digest(tenant.as_bytes());
    format!(".{}", &hash.trim_start_matches("sha256:")[..32])
}

/// The key is made once and never leaves the folder. One of the wrong size is made anew: then nothing is found.
fn read_or_make_key(path: &Path) -> io::Result<[u8; 64]> {
    if let Ok(bytes) = fs::read(path)
        && let Ok(key) = bytes.try_into()
    {
        return Ok(key);
    }
    let mut key = [0; 64];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    let _ = fs::remove_file(path);
    new_file(path)?.write_all(&key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::MetadataExt as _, time::SystemTime};

    const ENGINE: [u8; 32] = [7; 32];

    fn open(folder: &Path, most: u64) -> Cache {
        Cache::open(folder.join("cache"), most, &ENGINE).unwrap()
    }

    fn file(cache: &Cache, what: &str) -> PathBuf {
        let ends = |path: &PathBuf| path.extension().is_some_and(|extension| extension == what);
        fs::read_dir(cache.folder.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(ends)
            .unwrap()
    }

    #[test]
    fn what_was_put_is_found_after_a_restart_and_only_by_the_same_engine() {
        let folder = tempfile::tempdir().unwrap();
        let of = digest(b"component");
        let cache = open(folder.path(), 1 << 20);
        cache.put(("", &of), b"component", b"about", b"compiled").unwrap();
        let again = open(folder.path(), 1 << 20);
        assert_eq!(
            again.compiled(&of),
            Some((b"about".to_vec(), b"compiled".to_vec()))
        );
        assert_eq!(again.component(&of).as_deref(), Some(b"component".as_slice()));
        let other = Cache::open(folder.path().join("cache"), 1 << 20, &[8; 32]).unwrap();
        assert_eq!(other.compiled(&of), None);
        assert_eq!(other.component(&of).as_deref(), Some(b"component".as_slice()));
        assert!(again.compiled(&of).is_some());
        assert_eq!(fs::metadata(cache.folder.path("")).unwrap().mode() & 0o777, 0o700);
        assert_eq!(
            fs::metadata(file(&cache, COMPILED)).unwrap().mode() & 0o777,
            0o600
        );
    }

    type Damage = fn(&mut Vec<u8>);

    #[test]
    fn what_is_damaged_is_as_good_as_absent_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let of = digest(b"component");
        let cache = open(folder.path(), 1 << 20);
        let damages: [Damage; 5] = [
            |bytes| *bytes.last_mut().unwrap() ^= 1,
            |bytes| bytes[0] ^= 1,
            |bytes| bytes.truncate(40),
            |bytes| bytes.clear(),
            // A length that leads beyond the end.
            |bytes| bytes[MAC_BYTES..MAC_BYTES + 8].fill(0xff),
        ];
        for damage in damages {
            cache.put(("", &of), b"component", b"about", b"compiled").unwrap();
            let path = file(&cache, COMPILED);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, bytes).unwrap();
            assert_eq!(cache.compiled(&of), None);
            assert!(!path.exists());
        }
        cache.put(("", &of), b"component", b"", b"compiled").unwrap();
        fs::write(file(&cache, COMPONENT), b"another").unwrap();
        assert_eq!(cache.component(&of), None);
        // A form under another component's digest is not that component's.
        let other = digest(b"other");
        let name = cache.name(&other, COMPILED).unwrap();
        fs::copy(file(&cache, COMPILED), cache.folder.path(&name)).unwrap();
        assert_eq!(cache.compiled(&other), None);
    }

    #[test]
    fn a_lost_key_only_costs_the_compiled_forms() {
        let folder = tempfile::tempdir().unwrap();
        let of = digest(b"component");
        open(folder.path(), 1 << 20)
            .put(("", &of), b"component", b"", b"compiled")
            .unwrap();
        fs::write(folder.path().join("cache").join(KEPT), b"short").unwrap();
        let cache = open(folder.path(), 1 << 20);
        assert_eq!(cache.compiled(&of), None);
        assert!(cache.component(&of).is_some());
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 4096);
        let age = |of: &str, seconds: u64| {
            for what in [COMPONENT, COMPILED] {
                let file = File::options()
                    .write(true)
                    .open(cache.folder.path(&cache.name(of, what).unwrap()))
                    .unwrap();
                file.set_modified(SystemTime::now() - std::time::Duration::from_secs(seconds))
                    .unwrap();
            }
        };
        let (old, new) = (digest(b"old"), digest(b"new"));
        cache.put(("", &old), b"old", b"", &[0; 1500]).unwrap();
        age(&old, 10);
        cache.put(("", &new), b"new", b"", &[0; 1500]).unwrap();
        age(&new, 20);
        assert!(cache.compiled(&old).is_some() && cache.compiled(&new).is_some());
        age(&new, 20);
        let newest = digest(b"newest");
        cache.put(("", &newest), b"newest", b"", &[0; 1500]).unwrap();
        assert!(cache.compiled(&newest).is_some() && cache.compiled(&old).is_some());
        assert_eq!(cache.compiled(&new), None);
    }

    #[test]
    fn nobody_pushes_out_what_others_had_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 30_000);
        let quiet = digest(b"quiet");
        cache.put(("quiet", &quiet), b"quiet", b"", &[0; 1000]).unwrap();
        let many: Vec<String> = (0..40_u8).map(|byte| digest(&[byte])).collect();
        for of in &many {
            cache.put(("loud", of), b"loud", b"", &[0; 1000]).unwrap();
        }
        // Found by its digest alone.
        assert!(cache.compiled(&quiet).is_some());
        assert_eq!(cache.component(&quiet).as_deref(), Some(b"quiet".as_slice()));
        let kept = many.iter().filter(|of| cache.compiled(of).is_some()).count();
        assert!((1..10).contains(&kept), "{kept}, wanted a third of what there is");
        // A namespace's share is not that of who has no name.
        cache.put(("", &many[0]), b"mine", b"", &[0; 15_000]).unwrap();
        assert!(cache.compiled(&many[0]).is_some());
    }

    #[test]
    fn only_a_digest_becomes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 4096);
        for bad in [
            "",
            "sha256:",
            "sha256:../../etc/passwd",
            "md5:00",
            &format!("sha256:{}", "A".repeat(64)),
        ] {
            assert_eq!(cache.name(bad, COMPONENT), None, "{bad}");
        }
    }
}
