//! Links, anchors and tables of a page of Markdown.

use std::collections::{BTreeMap, BTreeSet};

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What it leads to, as it is written.
    pub target: String,
    /// Its line, from 1.
    pub line: usize,
}

/// The lines of a page outside of fences and HTML comments, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut fence, mut comment) = (Vec::new(), None, false);
    for (line, number) in text.lines().zip(1..) {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                comment |= trimmed.starts_with("<!--");
                if !comment {
                    found.push((number, line));
                }
                comment &= !line.contains("-->");
            }
        }
    }
    found
}

/// A line without what stands in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Every inline link and picture of a page, and every `href` and `src` of its HTML.
pub fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for (mark, end) in [("](", ')'), ("href=\"", '"'), ("src=\"", '"')] {
            for rest in line.split(mark).skip(1) {
                if let Some((target, _)) = rest.split_once(end)
                    && !target.is_empty()
                {
                    found.push(Link {
                        target: target.trim_matches(['<', '>']).to_owned(),
                        line: number,
                    });
                }
            }
        }
    }
    found
}

/// The id of a heading, as mdBook and GitHub make it: letters, digits, `-` and `_`, small, blanks as `-`.
fn slug(heading: &str) -> String {
    // Of a link only its text counts.
    let mut plain = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain
        .trim()
        .chars()
        .filter_map(|letter| match letter {
            letter if letter.is_whitespace() => Some('-'),
            letter if letter.is_alphanumeric() || letter == '-' || letter == '_' => Some(letter),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// What a link to this page may name behind `#`.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(text) {
        for rest in line.split("<a id=\"").skip(1) {
            found.extend(rest.split_once('"').map(|(id, _)| id.to_owned()));
        }
        let depth = line.chars().take_while(|letter| *letter == '#').count();
        if let Some(heading) = line.get(depth..).and_then(|rest| rest.strip_prefix(' '))
            && (1..=6).contains(&depth)
        {
            let id = slug(heading);
            let seen = times.entry(id.clone()).or_default();
            found.insert(if *seen == 0 { id } else { format!("{id}-{seen}") });
            *seen += 1;
        }
    }
    found
}

/// The numbers of the lines of tables that are longer than so many characters.
pub fn long_rows(text: &str, most: usize) -> Vec<usize> {
    prose(text)
        .into_iter()
        .filter(|(_, line)| line.starts_with('|') && line.chars().count() > most)
        .map(|(number, _)| number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn links_in_code_are_none() {
        let text =
            "[a](one.md) `[b](two.md)` ![c](three.svg)\n```text\n[d](four.md)\n```\n<img src=\"five.svg\">\n";
        assert_eq!(targets(text), ["one.md", "three.svg", "five.svg"]);
        assert_eq!(links(text).last().map(|link| link.line), Some(5));
    }

    #[test]
    fn headings_have_the_ids_that_are_linked_to() {
        let text = "# What olm v1 gets: `spec.x`\n## Once\n## Once\n## [Rules](rules.md) of_all\n```text\n# no heading\n```\n<a id=\"spec.x\"></a>";
        let wanted = [
            "once",
            "once-1",
            "rules-of_all",
            "spec.x",
            "what-olm-v1-gets-specx",
        ];
        assert_eq!(anchors(text), wanted.map(str::to_owned).into());
    }

    #[test]
    fn a_long_row_is_found_by_its_line() {
        let text = format!("| a |\n|---|\n| {} |\n{}\n", "x".repeat(50), "y".repeat(80));
        assert_eq!(long_rows(&text, 40), [3]);
    }
}
