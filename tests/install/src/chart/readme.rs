//! The table of values in the chart's page, made from `values.yaml`: a comment above a key is its row.

use anyhow::{Context as _, Result};
use std::fmt::Write as _;

use crate::read;

/// The page of the chart, of which the table is made.
pub(super) const PAGE: &str = "deploy/helm/numo/README.md";
const VALUES: &str = "deploy/helm/numo/values.yaml";
const BEGIN: &str = "<!-- Made from values.yaml by `cargo xtask manifests`; do not edit. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";
/// Longer defaults are told in `values.yaml` alone.
const LONGEST: usize = 60;

/// The page with the table of now.
pub(super) fn page() -> Result<String> {
    let text = read(PAGE)?;
    let (before, rest) = text
        .split_once(BEGIN)
        .context("the page has no begin of the table")?;
    let (_, after) = rest.split_once(END).context("the page has no end of the table")?;
    let mut table = "| value | default | what it is |\n|---|---|---|\n".to_owned();
    for (path, default, comment) in rows(&read(VALUES)?) {
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        let _ = writeln!(
            table,
            "| `{path}` | {default} | {} |",
            comment.replace('|', "\\|")
        );
    }
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// Path, default and comment of each key that has a comment.
fn rows(values: &str) -> Vec<(String, String, String)> {
    let mut rows: Vec<(String, String, String)> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in values.lines() {
        let bare = line.trim_start();
        if let Some(said) = bare.strip_prefix("# ") {
            comment.push(said);
            continue;
        }
        let key = bare
            .split_once(':')
            .filter(|(key, _)| !key.is_empty() && key.bytes().all(|letter| letter.is_ascii_alphanumeric()));
        if let Some((key, default)) = key {
            path.truncate((line.len() - bare.len()) / 2);
            path.push(key);
            if !comment.is_empty() {
                let default = default.trim();
                let default = if default.len() > LONGEST { "" } else { default };
                rows.push((path.join("."), default.to_owned(), comment.join(" ")));
            }
        }
        comment.clear();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn a_comment_is_the_row_of_the_key_below_it() {
        let found =
            rows("# Of nothing.\n\na:\n  # One,\n  # two.\n  b: 3\n  c: 4\n# A list.\nd:\n  - e: 5\n");
        let row = |path: &str, default: &str, comment: &str| {
            (path.to_owned(), default.to_owned(), comment.to_owned())
        };
        assert_eq!(found, [row("a.b", "3", "One, two."), row("d", "", "A list.")]);
    }
}
