//! Whose signatures the operator asks for: read when it starts, and read anew when the files change. It checks no signature, and takes
//! nothing for what it cannot read: then nobody is trusted, and what must be signed does not run.

use numo_plugin::signature::{Identity, PublicKey, TrustRoot};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often the files are read.
pub const READ_AGAIN: Duration = Duration::from_secs(5);

/// Where it is written whose signatures are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignerFiles {
    /// Public keys as PEM: one of these, or of the identities, must have signed every component.
    pub keys: Option<PathBuf>,
    /// Keyless signers of whom one may have signed instead; they are arguments, and stay.
    pub identities: Vec<Identity>,
    /// Who vouches for identities; none: a policy that only an identity could meet is never met.
    pub trust_root: Option<PathBuf>,
}

/// Whose signatures are asked for.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    /// Public keys.
    pub keys: Vec<PublicKey>,
    /// Keyless signers.
    pub identities: Vec<Identity>,
    /// Who vouches for them.
    pub trust_root: Option<Arc<TrustRoot>>,
}

/// What stands in a file, or why it cannot be read; none where no file is named.
type Text = Option<Result<String, String>>;

/// The text of each file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Texts {
    keys: Text,
    trust_root: Text,
}

/// What a file means; none where no file is named.
fn meaning<T>(
    flag: &str,
    path: Option<&Path>,
    text: Option<&Result<String, String>>,
    understand: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let (Some(path), Some(text)) = (path, text) else {
        return Ok(None);
    };
    let understood = match text {
        Ok(text) => understand(text),
        Err(why) => Err(why.clone()),
    };
    understood
        .map(Some)
        .map_err(|why| format!("{flag} {}: {why}", path.display()))
}

impl SignerFiles {
    /// Whether every component must be signed.
    pub fn ask(&self) -> bool {
        self.keys.is_some() || !self.identities.is_empty()
    }

    /// Reads them once. Errors name the flag and the file.
    pub fn read(&self) -> Result<Signers, String> {
        self.understand(&self.texts())
    }

    fn texts(&self) -> Texts {
        let read = |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| error.to_string());
        Texts {
            keys: self.keys.as_ref().map(read),
            trust_root: self.trust_root.as_ref().map(read),
        }
    }

    fn understand(&self, texts: &Texts) -> Result<Signers, String> {
        let keys = meaning("--rule-keys", self.keys.as_deref(), texts.keys.as_ref(), |text| {
            PublicKey::all_from_pem(text).map_err(|error| error.to_string())
        })?;
        let trust_root = meaning(
            "--sigstore-trusted-root",
            self.trust_root.as_deref(),
            texts.trust_root.as_ref(),
            |text| TrustRoot::from_json(text).map_err(|error| error.to_string()),
        )?;
        Ok(Signers {
            keys: keys.unwrap_or_default(),
            identities: self.identities.clone(),
            trust_root: trust_root.map(Arc::new),
        })
    }
}

/// Whose signatures are asked for now, and what stood in the files when that was found out.
#[derive(Debug)]
struct Now {
    texts: Texts,
    signers: Result<Signers, String>,
}

/// Whose signatures are asked for, for as long as numo runs.
#[derive(Debug)]
pub struct KeptSigners {
    files: SignerFiles,
    now: Mutex<Now>,
}

impl KeptSigners {
    /// Reads the files. One that cannot be read is no error here: see [`Self::now`].
    pub fn new(files: SignerFiles) -> Self {
        let texts = files.texts();
        let signers = files.understand(&texts);
        Self {
            files,
            now: Mutex::new(Now { texts, signers }),
        }
    }

    /// Whether every component must be signed.
    pub fn ask(&self) -> bool {
        self.files.ask()
    }

    /// Whether there are files that could change.
    pub fn can_change(&self) -> bool {
        self.files.keys.is_some() || self.files.trust_root.is_some()
    }

    /// Whose signatures are asked for; or why nobody knows.
    pub fn now(&self) -> Result<Signers, String> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.signers.clone()
    }

    /// Reads the files anew. True if they say something else than before.
    pub fn refresh(&self) -> bool {
        let texts = self.files.texts();
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if now.texts == texts {
            return false;
        }
        let signers = self.files.understand(&texts);
        match &signers {
            Ok(signers) => {
                tracing::info!(
                    keys = signers.keys.len(),
                    "signers of components have changed: all are judged again"
                );
            }
            Err(error) => {
                tracing::error!(%error, "signers of components cannot be read: what must be signed does not run");
            }
        }
        *now = Now { texts, signers };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ed25519 key of 32 equal bytes; only its form counts here.
    fn pem(letter: &str) -> String {
        let key = format!("MCowBQYDK2VwAyEA{}=", letter.repeat(43));
        format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n")
    }

    #[test]
    fn a_file_that_changes_is_read_anew_and_one_that_breaks_trusts_nobody() {
        let folder = std::env::temp_dir().join(format!("numo-signers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("keys.pem");
        std::fs::write(&path, pem("A")).unwrap();
        let files = SignerFiles {
            keys: Some(path.clone()),
            ..SignerFiles::default()
        };
        let kept = KeptSigners::new(files);
        assert!(kept.ask() && kept.can_change());
        let first = kept.now().unwrap().keys;
        assert_eq!(first.len(), 1);
        // Written anew with the same text, as a kubelet may: nothing has changed.
        std::fs::write(&path, pem("A")).unwrap();
        assert!(!kept.refresh());

        std::fs::write(&path, pem("A") + &pem("E")).unwrap();
        assert!(kept.refresh());
        assert!(!kept.refresh());
        assert_eq!(kept.now().unwrap().keys.len(), 2);
        for broken in ["", "no key"] {
            std::fs::write(&path, broken).unwrap();
            assert!(kept.refresh());
            let why = kept.now().unwrap_err();
            assert!(
                why.starts_with("--rule-keys ") && why.contains("keys.pem"),
                "{why}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        assert!(kept.refresh());
        assert!(kept.now().is_err());
        std::fs::write(&path, pem("A")).unwrap();
        assert!(kept.refresh());
        assert_eq!(kept.now().unwrap().keys, first);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_trust_root_alone_asks_for_nothing_and_is_named_when_it_is_wrong() {
        let root = PathBuf::from("/nowhere/trusted_root.json");
        let files = SignerFiles {
            trust_root: Some(root),
            ..SignerFiles::default()
        };
        assert!(!files.ask());
        let why = files.read().unwrap_err();
        assert!(
            why.starts_with("--sigstore-trusted-root /nowhere/trusted_root.json: "),
            "{why}"
        );
        let nothing = KeptSigners::new(SignerFiles::default());
        assert!(!nothing.ask() && !nothing.can_change() && !nothing.refresh());
        assert!(nothing.now().unwrap().keys.is_empty());
    }
}
