//! What was fetched once, on disk: a component with its manifest and the signatures that were found for it, so that a
//! rule starts when its registry is gone. What is read is what its digest says, or it is not there. A tenant finds only
//! what was fetched with its own credentials. It judges no signature.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    digest::Digest,
    layout::{Descriptor, Manifest},
    pull::Artifact,
};
use crate::{folder::Folder, signature::policy::Candidate};

/// One part in so many is the most that one tenant has of the folder.
const SHARE: u64 = 4;

/// A folder of artifacts.
#[derive(Debug)]
pub struct Store(Folder);

/// A component that was fetched before, and the signatures that were found then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its bytes, of the digest that the manifest names.
    pub component: Vec<u8>,
    /// They prove nothing by themselves.
    pub signatures: Vec<Candidate>,
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

/// What stands before the component in a file.
#[derive(Serialize, Deserialize)]
struct About {
    manifest: String,
    signatures: Vec<Candidate>,
}

impl Store {
    /// Makes the folder if need be; its parent must exist. Fails when it belongs to someone else.
    pub fn open(folder: PathBuf, most_bytes: u64) -> io::Result<Self> {
        Folder::open(folder, most_bytes).map(Self)
    }

    /// What this tenant fetched, if it is there and whole. What is damaged goes.
    pub fn get(&self, digest: &Digest, tenant: &str) -> Option<Stored> {
        let path = self.path(digest, tenant);
        let bytes = self.0.read(&path)?;
        let stored = parts(digest, &bytes);
        if stored.is_none() {
            self.0.discard(&path);
        }
        stored.map(|(about, component)| {
            let manifest = serde_json::from_str::<Manifest>(&about.manifest);
            Stored {
                component,
                signatures: about.signatures,
                annotations: manifest.map(|manifest| manifest.annotations).unwrap_or_default(),
            }
        })
    }

    /// Keeps what this tenant has just fetched. What was used longest ago goes when there is too much, and of what this
    /// tenant fetched when that is more than its share: nobody pushes out what all others have.
    pub fn put(&self, artifact: &Artifact, signatures: &[Candidate], tenant: &str) -> io::Result<()> {
        let about = About {
            manifest: String::from_utf8_lossy(&artifact.manifest).into_owned(),
            signatures: signatures.to_vec(),
        };
        let path = self.path(&artifact.pinned.digest, tenant);
        self.write(&path, &about, &artifact.component)?;
        self.0.make_room_among(&suffix(tenant), SHARE)?;
        self.0.make_room()
    }

    /// Replaces the signatures of what is kept.
    pub fn put_signatures(&self, digest: &Digest, tenant: &str, signatures: &[Candidate]) -> io::Result<()> {
        let path = self.path(digest, tenant);
        let known = self.0.read(&path).and_then(|bytes| parts(digest, &bytes));
        let Some((about, component)) = known else {
            return Ok(());
        };
        let signatures = signatures.to_vec();
        self.write(&path, &About { signatures, ..about }, &component)
    }

    fn write(&self, path: &Path, about: &About, component: &[u8]) -> io::Result<()> {
        let about = serde_json::to_vec(about)?;
        let length = (about.len() as u64).to_le_bytes();
        self.0.write(path, &[&length, &about, component])
    }

    fn path(&self, digest: &Digest, tenant: &str) -> PathBuf {
        self.0.path(&format!("{}{}", digest.hex(), suffix(tenant)))
    }
}

/// How the names of a tenant's files end.
fn suffix(tenant: &str) -> String {
    format!(".{}.artifact", &Digest::of(tenant.as_bytes()).hex()[..32])
}

fn parts(digest: &Digest, bytes: &[u8]) -> Option<(About, Vec<u8>)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (about, component) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let about: About = serde_json::from_slice(about).ok()?;
    if Digest::of(about.manifest.as_bytes()) != *digest {
        return None;
    }
    let manifest: Manifest = serde_json::from_str(&about.manifest).ok()?;
    let layer: &Descriptor = manifest.component(digest, u64::MAX).ok()?;
    let whole = Digest::of(component) == layer.digest;
    whole.then(|| (about, component.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::{CONFIG, LAYER, Pinned};

    fn annotations() -> BTreeMap<String, String> {
        [("org.opencontainers.image.version".to_owned(), "1.2.3".to_owned())].into()
    }

    fn artifact() -> Artifact {
        of(b"a component".to_vec())
    }

    fn of(component: Vec<u8>) -> Artifact {
        let config = Descriptor::new(CONFIG, b"{}");
        let mut manifest = Manifest::new(config, vec![Descriptor::new(LAYER, &component)]);
        manifest.annotations.clone_from(&annotations());
        let manifest = serde_json::to_vec(&manifest).unwrap();
        Artifact {
            pinned: Pinned {
                registry: "registry.example.com".to_owned(),
                repository: "team/rule".to_owned(),
                digest: Digest::of(&manifest),
            },
            manifest,
            config: serde_json::from_value(serde_json::json!({
                "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2", "layerDigests": [],
            }))
            .unwrap(),
            annotations: annotations(),
            component,
        }
    }

    #[test]
    fn a_tenant_finds_what_it_fetched_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("artifacts"), 1 << 20).unwrap();
        let artifact = artifact();
        let digest = &artifact.pinned.digest;
        assert_eq!(store.get(digest, "a"), None);
        let signatures = [Candidate::Bundle {
            json: "{}".to_owned(),
        }];
        store.put(&artifact, &signatures, "a").unwrap();
        let found = store.get(digest, "a").unwrap();
        assert_eq!(found.component, artifact.component);
        assert_eq!(found.signatures, signatures);
        assert_eq!(found.annotations, annotations());
        assert_eq!(store.get(digest, "b"), None);
    }

    #[test]
    fn nobody_pushes_out_what_others_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("artifacts"), 100_000).unwrap();
        let quiet = artifact();
        store.put(&quiet, &[], "quiet").unwrap();
        let many: Vec<_> = (0..20_u8).map(|byte| of(vec![byte; 10_000])).collect();
        for artifact in &many {
            store.put(artifact, &[], "loud").unwrap();
        }
        assert!(store.get(&quiet.pinned.digest, "quiet").is_some());
        let kept = many
            .iter()
            .filter(|one| store.get(&one.pinned.digest, "loud").is_some());
        assert_eq!(kept.count(), 2, "a quarter of what there is");
        assert!(store.get(&many[19].pinned.digest, "loud").is_some(), "the newest");
    }

    #[test]
    fn what_is_damaged_is_not_found_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("artifacts"), 1 << 20).unwrap();
        let artifact = artifact();
        let digest = &artifact.pinned.digest;
        let path = store.path(digest, "a");
        let whole = {
            store.put(&artifact, &[], "a").unwrap();
            std::fs::read(&path).unwrap()
        };
        for at in [0, 7, 8, 40, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(store.get(digest, "a"), None, "byte {at}");
            assert!(!path.exists(), "byte {at}");
        }
        for length in [0, 4, 8, 60, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(store.get(digest, "a"), None, "{length} bytes");
        }
    }
}
