//! Files that flags name.

use crate::error::CliError;
use std::path::Path;

/// What is in a file that a flag names.
pub fn read(flag: &str, path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| {
        let words = format!("{flag} {}: {error}", path.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => CliError::Usage(words),
            _ => CliError::Wrong(words),
        }
    })
}

/// The same as text.
pub fn read_text(flag: &str, path: &Path) -> Result<String, CliError> {
    String::from_utf8(read(flag, path)?)
        .map_err(|error| CliError::Wrong(format!("{flag} {}: {error}", path.display())))
}
