//! The table of values in the chart's page, made from `values.yaml`: a comment above a key is its row.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::fmt::Write as _;

use crate::read;

/// The page of the chart, of which the table is made.
pub(super) const PAGE: &str = "deploy/helm/numo/README.md";
const VALUES: &str = "deploy/helm/numo/values.yaml";
const BEGIN: &str = "<!-- Made from values.yaml by `cargo xtask manifests`; do not edit. -->\n";
const END: &str = "<!-- The end of what is made. -->\n";
/// Longer defaults are told in `values.yaml` alone.
const LONGEST: usize = 120;

/// The page with the table of now.
pub(super) fn page() -> Result<String> {
    let text = read(PAGE)?;
    let (before, rest) = text
        .split_once(BEGIN)
        .context("the page has no begin of the table")?;
    let (_, after) = rest.split_once(END).context("the page has no end of the table")?;
    let mut table = "| value | default | what it is |\n|---|---|---|\n".to_owned();
    let values = read(VALUES)?;
    let parsed = crate::objects(&values)?.into_iter().next().unwrap_or_default();
    for (path, default, comment) in rows(&values) {
        let default = match default.as_str() {
            "" => block(&parsed, &path),
            default => default.to_owned(),
        };
        let default = if default.len() > LONGEST {
            "see `values.yaml`".to_owned()
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

/// A default over several lines, in one.
fn block(values: &Value, path: &str) -> String {
    let found = values.pointer(&format!("/{}", path.replace('.', "/")));
    found.map(inline).unwrap_or_default()
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, one)| format!("{name}: {}", inline(one)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
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
                rows.push((path.join("."), default.trim().to_owned(), comment.join(" ")));
            }
        }
        comment.clear();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{block, rows};
    use serde_json::json;

    #[test]
    fn a_comment_is_the_row_of_the_key_below_it() {
        let found =
            rows("# Of nothing.\n\na:\n  # One,\n  # two.\n  b: 3\n  c: 4\n# A list.\nd:\n  - e: 5\n");
        let row = |path: &str, default: &str, comment: &str| {
            (path.to_owned(), default.to_owned(), comment.to_owned())
        };
        assert_eq!(found, [row("a.b", "3", "One, two."), row("d", "", "A list.")]);
    }

    #[test]
    fn a_default_over_several_lines_is_told_in_one() {
        let values = json!({"a": {"b": {"c": {"d": true, "e": ["x", 1]}}}});
        assert_eq!(block(&values, "a.b"), "{c: {d: true, e: [x, 1]}}");
    }
}
