//! What mdBook has built: every link of it leads somewhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The values of an attribute in a text of HTML.
fn values<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    let quoted = html.split(attribute).skip(1);
    quoted.filter_map(|rest| Some(rest.strip_prefix('"')?.split_once('"')?.0))
}

/// Links of a built book that lead to no file, or to an id that its page does not have: a line for each.
///
/// # Errors
/// If a file of the book cannot be read.
pub fn dead_in_html(book: &Path) -> Result<Vec<String>> {
    let mut pages: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                pages.insert(path.clone(), fs::read_to_string(&path)?);
            }
        }
    }
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> = pages
        .iter()
        .map(|(path, html)| (path, values(html, " id=").collect()))
        .collect();
    let mut wrong = BTreeSet::new();
    for (path, html) in &pages {
        // The page of errors is served at any address, and its links are from the root.
        if path.ends_with("404.html") {
            continue;
        }
        let folder = path.parent().unwrap_or(book);
        for target in values(html, " href=").chain(values(html, " src=")) {
            if target.contains("://") || target.starts_with("mailto:") || target.starts_with("data:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let leads_to = if file.is_empty() {
                path.clone()
            } else {
                clean(&folder.join(file))
            };
            let is_there = leads_to.is_file() || leads_to.join("index.html").is_file();
            let has_id = anchor.is_empty() || ids.get(&leads_to).is_none_or(|ids| ids.contains(anchor));
            if !is_there || !has_id {
                let page = path.strip_prefix(book).unwrap_or(path);
                wrong.insert(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok(wrong.into_iter().collect())
}

/// A path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                found.pop();
            }
            std::path::Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}
