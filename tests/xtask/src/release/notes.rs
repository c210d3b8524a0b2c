//! The changelog: sections by version, entries by what they ask of a reader. Of it the notes of a release are made.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::Facts;

/// The headings of a section, in their order.
pub const HEADINGS: [&str; 4] = ["Added", "Changed", "Fixed", "Upgrade"];
/// The section of what is not released yet.
pub const UNRELEASED: &str = "Unreleased";

/// What a section says, without its heading.
///
/// # Errors
/// If there is no such section, or an entry of it stands below none of the headings; the message names file and line.
pub fn section(path: &Path, name: &str) -> Result<String> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| shown.to_string())?;
    let (mut inside, mut below, mut found) = (false, None, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(heading) = line.strip_prefix("## ") {
            let heading = heading.trim_matches(['[', ']']);
            inside = heading == name || heading.starts_with(&format!("{name} "));
            below = None;
            continue;
        }
        if !inside {
            continue;
        }
        if let Some(heading) = line.strip_prefix("### ") {
            let known = HEADINGS.iter().position(|known| *known == heading);
            let known = known.with_context(|| {
                format!(
                    "{shown}:{number}: found heading {heading}, wanted one of {}",
                    HEADINGS.join(", ")
                )
            })?;
            ensure!(
                below.is_none_or(|above| above < known),
                "{shown}:{number}: {heading} stands twice, or not in the order {}",
                HEADINGS.join(", ")
            );
            below = Some(known);
        } else if below.is_none() && !line.trim().is_empty() && line.starts_with('-') {
            bail!(
                "{shown}:{number}: an entry stands below none of {}",
                HEADINGS.join(", ")
            );
        }
        found.push(line);
    }
    ensure!(!found.is_empty(), "{shown}: there is no section {name}");
    Ok(found.join("\n").trim().to_owned())
}

/// As many lines of a section as a page of downloads has room for.
const PAGE: usize = 60;

/// The section in full; of one that is longer than a page how many entries each heading has, where they are, and all that a reader has
/// to do.
fn short(section: &str, changelog: &str) -> String {
    if section.lines().count() <= PAGE {
        return section.to_owned();
    }
    let parts = section.split("### ").skip(1);
    let (mut counted, mut upgrade) = (Vec::new(), String::new());
    for part in parts {
        let heading = part.lines().next().unwrap_or_default().trim();
        let entries = part.lines().filter(|line| line.starts_with("- ")).count();
        if HEADINGS.last() == Some(&heading) {
            upgrade = format!("\n\n### {}", part.trim());
        } else {
            counted.push(format!("{heading}: {entries}"));
        }
    }
    format!(
        "Entries in the [changelog]({changelog}): {}.{upgrade}",
        counted.join(", ")
    )
}

/// The same as Artifact Hub takes it of a chart: what each entry does, and its first sentence. Of more than a page of them how many each
/// heading has.
pub fn of_chart(section: &str) -> Vec<Value> {
    let is_long = section.lines().count() > PAGE;
    let mut all = Vec::new();
    for part in section.split("### ").skip(1) {
        let (heading, entries) = part.split_once('\n').unwrap_or((part, ""));
        let kind = match heading.trim() {
            "Added" => "added",
            "Fixed" => "fixed",
            _ => "changed",
        };
        let entries = format!("\n{entries}");
        let entries: Vec<String> = entries.split("\n- ").skip(1).map(first_sentence).collect();
        let said = match entries.len() {
            0 => Vec::new(),
            number if is_long => vec![format!(
                "{number} entries below {}, in the changelog",
                heading.trim()
            )],
            _ => entries,
        };
        all.extend(said.iter().map(|one| json!({"kind": kind, "description": one})));
    }
    all
}

/// Of an entry over several lines, without its links.
fn first_sentence(entry: &str) -> String {
    let text = entry.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = [". ", " ([", ": "].iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].trim_end_matches('.').to_owned()
}

/// The notes of a release.
pub fn notes(facts: &Facts, section: &str, images: &[(&str, String)], missing: &[String]) -> String {
    let publisher = &facts.publisher;
    // Links that lead into the repository, as the changelog has them, lead nowhere from a page of downloads.
    let tree = format!("{}/blob/v{}/", publisher.get("source"), facts.version);
    let place = format!("]({tree}");
    let section = short(section, &format!("{tree}CHANGELOG.md"));
    let section = ["operator/", "SECURITY.md", "wit/", "deploy/"]
        .iter()
        .fold(section, |text, path| {
            text.replace(&format!("]({path}"), &format!("{place}{path}"))
        });
    let named: Vec<String> = images
        .iter()
        .map(|(what, pinned)| format!("| {what} | `{pinned}` |"))
        .collect();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("\nNot in this folder: {}.\n", missing.join("; "))
    };
    format!(
        "# numo {version}\n\n{section}\n\n## Where it is\n\n| what | by its digest |\n|---|---|\n{named}\n\n\
         The signature, what it is made of and where it was built: [how to check it]({docs}/verifying.html).\n{missing}",
        version = facts.version,
        named = named.join("\n"),
        docs = publisher.get("docs"),
    )
}
