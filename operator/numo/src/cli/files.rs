//! Files that flags name.

use super::error::CliError;
use numo_plugin::signature::TrustRoot;
use std::path::Path;

/// What is in a file that a flag names.
pub(super) fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| {
        let words = format!("{flag} {}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => CliError::Usage(words),
            _ => CliError::Wrong(words),
        }
    })
}

pub(super) fn read_text(flag: &str, path: &Path) -> Result<String, CliError> {
    String::from_utf8(read(flag, path)?)
        .map_err(|error| CliError::Wrong(format!("{flag} {}: {error}", path.display())))
}

/// Who vouches for keyless signers.
pub(super) fn trust_root(path: &Path) -> Result<TrustRoot, CliError> {
    TrustRoot::from_json(&read_text("--sigstore-trusted-root", path)?)
        .map_err(|error| CliError::Wrong(format!("--sigstore-trusted-root {}: {error}", path.display())))
}
