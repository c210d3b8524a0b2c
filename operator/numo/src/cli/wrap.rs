//! Text in lines that are no longer than a page or a terminal is wide.

/// A text in lines of at most `width` columns: the first begins with one lead, the others with another. A word is never broken, and
/// neither is what stands in backticks.
pub(super) fn wrapped(text: &str, (first, rest): (&str, &str), width: usize) -> String {
    let mut page = String::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    let mut in_code = false;
    for word in text.split_whitespace() {
        let fits = is_empty || in_code || line.chars().count() + 1 + word.chars().count() <= width;
        if !fits {
            page.push_str(line.trim_end());
            page.push('\n');
            rest.clone_into(&mut line);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    page.push_str(line.trim_end());
    page.push('\n');
    page
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn a_long_text_has_short_lines() {
        let text = "word ".repeat(60);
        let page = wrapped(&text, ("- ", "  "), 120);
        assert_eq!(page.lines().count(), 3, "{page}");
        assert!(page.lines().all(|line| line.len() <= 120), "{page}");
        assert!(
            page.lines().skip(1).all(|line| line.starts_with("  word")),
            "{page}"
        );
    }

    #[test]
    fn code_is_not_broken() {
        let page = wrapped(&format!("{} `two words`", "x".repeat(115)), ("", ""), 120);
        assert!(page.contains("`two words`"), "{page}");
    }
}
