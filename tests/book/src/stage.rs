//! The folder that mdBook builds the book from: the chapters and the files that they lead to, in the folders of the repository.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::{CONFIGURATION, SUMMARY, chapters, is_page, links, resolve};

/// Puts the book together below this folder, which is made anew. Returns how many chapters it has.
///
/// A link to a folder of the repository becomes its text: a book has no page for it.
///
/// # Errors
/// If a chapter or a file that one leads to cannot be read, or the folder cannot be written.
pub fn stage(root: &Path, into: &Path) -> Result<usize> {
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    let source = into.join("src");
    fs::create_dir_all(&source)?;
    fs::copy(root.join(CONFIGURATION), into.join("book.toml")).context(CONFIGURATION)?;
    let summary = fs::read_to_string(root.join(SUMMARY))?;
    fs::write(source.join("SUMMARY.md"), from_the_root(&summary))?;
    let chapters = chapters(root)?;
    let mut files: BTreeSet<String> = BTreeSet::new();
    for page in &chapters {
        let mut text = fs::read_to_string(root.join(page)).with_context(|| page.clone())?;
        for link in links(&text) {
            let Some((path, _)) = resolve(page, &link.target) else {
                continue;
            };
            if root.join(&path).is_dir() {
                text = without_link(&text, &link.target);
            } else if named(&path) != path {
                text = text.replace(
                    &format!("]({})", link.target),
                    &format!("]({})", named(&link.target)),
                );
            } else if !is_page(&path) {
                files.insert(path);
            }
        }
        fs::write(made(&source, &named(page))?, text)?;
    }
    for file in files {
        fs::copy(root.join(&file), made(&source, &file)?).with_context(|| file.clone())?;
    }
    Ok(chapters.len())
}

/// A page or a link as it is named in the book: mdBook makes `index.html` of a README, and leaves links to it alone.
fn named(path: &str) -> String {
    let is_whole = |before: &str| before.is_empty() || before.ends_with('/');
    match path.split_once("README.md") {
        Some((before, after)) if is_whole(before) => format!("{before}index.md{after}"),
        _ => path.to_owned(),
    }
}

/// The place of a file, whose folder is there then.
fn made(source: &Path, file: &str) -> Result<PathBuf> {
    let place = source.join(file);
    fs::create_dir_all(place.parent().context("a folder")?)?;
    Ok(place)
}

/// The summary with its targets as they are from the root of the repository.
fn from_the_root(summary: &str) -> String {
    let mut text = summary.to_owned();
    for link in links(summary) {
        if let Some((path, _)) = resolve(SUMMARY, &link.target) {
            text = text.replacen(
                &format!("]({})", link.target),
                &format!("](<<{}>>)", named(&path)),
                1,
            );
        }
    }
    text.replace("](<<", "](").replace(">>)", ")")
}

/// Every link to this target as its text.
fn without_link(text: &str, target: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    let end = format!("]({target})");
    while let Some((before, after)) = rest.split_once(&end) {
        if let Some((lead, label)) = before.rsplit_once('[') {
            found.push_str(lead);
            found.push_str(label);
        } else {
            found.push_str(before);
        }
        rest = after;
    }
    found + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_folder_becomes_its_text() {
        let text = "See [`examples/`](../../examples) and [one](../../examples/one.yaml).";
        let wanted = "See `examples/` and [one](../../examples/one.yaml).";
        assert_eq!(without_link(text, "../../examples"), wanted);
    }

    #[test]
    fn a_readme_is_the_page_of_its_folder() {
        let names = [
            ("README.md#install", "index.md#install"),
            ("../plugins/README.md", "../plugins/index.md"),
            ("NOT_README.md", "NOT_README.md"),
        ];
        for (path, wanted) in names {
            assert_eq!(named(path), wanted);
        }
    }

    #[test]
    fn chapters_are_named_from_the_root() {
        let text = "- [a](concepts.md)\n- [b](../ARCHITECTURE.md)\n- [c](../../README.md)\n";
        let wanted = "- [a](operator/docs/concepts.md)\n- [b](operator/ARCHITECTURE.md)\n- [c](index.md)\n";
        assert_eq!(from_the_root(text), wanted);
    }
}
