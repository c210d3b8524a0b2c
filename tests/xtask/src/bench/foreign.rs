//! The rules of other languages' templates, built by their own toolchains: what their components cost is printed beside
//! the numbers of a Rust rule. It measures nothing.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use numo_e2e::{call_in, call_with};
use numo_plugin_tests::programs;

/// What makes a program, installing it where it is missing.
type Install = fn() -> Result<PathBuf>;

/// Languages of `numo plugin new`, and what makes their components.
const LANGUAGES: [(&str, Install); 2] = [
    ("python", programs::componentize_py),
    ("javascript", programs::componentize_qjs),
];

/// One component of each language, below `folder`. Takes minutes the first time.
pub async fn components(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for (language, install) in LANGUAGES {
        eprintln!("building a rule in {language}");
        let tools = programs::folder_of(&tokio::task::spawn_blocking(install).await??)?;
        let begun = call_in(folder, &["plugin", "new", language, "--language", language]).await?;
        ensure!(begun.code == Some(0), "{begun:?}");
        let rule = folder.join(language);
        let built = call_with(&tools, &rule, &["plugin", "build"]).await?;
        ensure!(built.code == Some(0), "{built:?}");
        all.push(rule.join(format!("{language}.wasm")));
    }
    Ok(all)
}
