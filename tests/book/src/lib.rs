//! The docs as a book: chapters, links and anchors of its pages, and the folder that mdBook builds it from.
//!
//! The pages stay where a reader of the repository finds them; `operator/docs/SUMMARY.md` lists the chapters. Everything
//! here reads Markdown as far as the pages use it: inline links, headings, fences, `<a id>`. mdBook itself is only run by
//! `cargo xtask book`.

mod built;
mod literals;
mod markdown;
mod stage;

pub use built::dead_in_html;
pub use literals::literals;
pub use markdown::{Link, anchors, links, long_rows};
pub use stage::stage;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result};

/// Where the chapters are listed, from the root of the repository.
pub const SUMMARY: &str = "operator/docs/SUMMARY.md";

/// The configuration of mdBook, from the root of the repository.
pub const CONFIGURATION: &str = "operator/docs/book.toml";

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// A target of a link, from the root of the repository: `..` is resolved, the anchor is taken off.
///
/// None for what leads out of the repository: an address of the web, or too many `..`.
pub fn resolve(page: &str, target: &str) -> Option<(String, Option<String>)> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut found: Vec<&str> = Vec::new();
    let joined = folder.join(path);
    for part in joined.components() {
        match part {
            Component::Normal(name) => found.push(name.to_str()?),
            Component::ParentDir => {
                found.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some((found.join("/"), anchor))
}

/// The pages of the book in their order, from the root of the repository.
///
/// # Errors
/// If the summary cannot be read.
pub fn chapters(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    Ok(links(&text)
        .into_iter()
        .filter_map(|link| resolve(SUMMARY, &link.target))
        .map(|(path, _)| path)
        .collect())
}

/// Every page below a folder of the repository, from its root. Folders that begin with a dot, and what builds leave, are passed over.
///
/// # Errors
/// If a folder cannot be read.
pub fn pages(root: &Path, folder: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.') && !["target", "node_modules"].contains(&name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md")
                && let Some(path) = path.strip_prefix(root)?.to_str()
            {
                found.push(path.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What is wrong with the links of pages: a line for each, with page and line.
///
/// # Errors
/// If a page cannot be read.
pub fn dead(root: &Path, pages: &[String]) -> Result<Vec<String>> {
    let book: BTreeSet<String> = chapters(root)?.into_iter().collect();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(page)).with_context(|| page.clone())?;
        for link in links(&text) {
            let place = format!("{page}:{}: {}", link.line, link.target);
            let Some((path, anchor)) = resolve(page, &link.target) else {
                if !link.target.contains("://") {
                    wrong.push(format!("{place}: leads out of the repository"));
                }
                continue;
            };
            let target = root.join(&path);
            if !target.exists() {
                wrong.push(format!("{place}: no such file"));
                continue;
            }
            if !is_page(&path) {
                continue;
            }
            if book.contains(page) && !book.contains(&path) {
                wrong.push(format!(
                    "{place}: a page of the book leads to one that {SUMMARY} does not list"
                ));
            }
            let Some(anchor) = anchor else { continue };
            if !known.contains_key(&path) {
                known.insert(path.clone(), anchors(&std::fs::read_to_string(&target)?));
            }
            if !known.get(&path).is_some_and(|all| all.contains(&anchor)) {
                wrong.push(format!("{place}: no such heading"));
            }
        }
    }
    Ok(wrong)
}

fn is_page(path: &str) -> bool {
    Path::new(path)
        .extension()
        .is_some_and(|extension| extension == "md")
}
