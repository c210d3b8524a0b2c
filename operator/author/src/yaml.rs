//! Reads YAML, and says of a fault where it stands: `FILE:LINE:COLUMN`. What the values mean is not its matter.

use numo_cli::CliError;
use serde::de::DeserializeOwned;
use serde_saphyr::{Error, Location, SnippetMode, UserMessageFormatter};
use std::path::Path;

/// The one document of a file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, CliError> {
    let text = text(path)?;
    serde_saphyr::from_str(&text).map_err(|error| fault(path, &error))
}

/// All documents of a file.
pub(crate) fn read_all<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, CliError> {
    let text = text(path)?;
    serde_saphyr::from_multiple(&text).map_err(|error| fault(path, &error))
}

/// The bytes of a file as text.
pub(crate) fn text(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|source| CliError::File {
        path: path.to_owned(),
        source,
    })
}

/// A fault that the parser found.
fn fault(path: &Path, error: &Error) -> CliError {
    let words = error.render_with_options(serde_saphyr::render_options! {
        formatter: &UserMessageFormatter,
        snippets: SnippetMode::Off,
    });
    match error.location() {
        // The parser says the place at the end, which stands in front here.
        Some(location) => at(path, location, words.split(" at line ").next().unwrap_or(&words)),
        None => CliError::Wrong(format!("{}: {words}", path.display())),
    }
}

/// A fault of a value that was read.
pub(crate) fn at(path: &Path, location: Location, what: &str) -> CliError {
    CliError::Wrong(format!(
        "{}:{}:{}: {what}",
        path.display(),
        location.line(),
        location.column()
    ))
}
