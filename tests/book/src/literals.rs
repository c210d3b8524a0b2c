//! The texts in Rust code, as a person may see them: the string literals of what ships, without comments and the tests beside the code.

/// Texts with one line for each literal; a line that the code continues by a backslash is one line.
pub fn literals(code: &str) -> String {
    let code = code
        .split_once("#[cfg(test)]\nmod tests {")
        .map_or(code, |(ships, _)| ships);
    let mut texts = String::new();
    let mut rest = code;
    while let Some(next) = rest.find(['"', '/', '\'']) {
        let before = &rest[..next];
        rest = &rest[next..];
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(after) = rest.strip_prefix("'\"'").or_else(|| rest.strip_prefix("'\\\"'")) {
            rest = after;
        } else if let Some(text) = rest.strip_prefix('"') {
            let raw = before.trim_end_matches('#');
            let end = format!("\"{}", "#".repeat(before.len() - raw.len()));
            let length = if raw.ends_with('r') {
                text.find(&end)
            } else {
                ends_at(text)
            };
            let length = length.unwrap_or(text.len());
            let literal = text[..length].split("\\\n").map(str::trim_start);
            texts.extend(literal);
            texts.push('\n');
            rest = text.get(length + 1..).unwrap_or_default();
        } else {
            rest = &rest[1..];
        }
    }
    texts
}

/// Where the literal ends: at the first quote that no backslash stands before.
fn ends_at(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, next)| {
        let ends = next == '"' && !is_escaped;
        is_escaped = next == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::literals;

    #[test]
    fn only_what_a_person_may_see_is_read() {
        let code = "// \"a comment\"\nlet a = '\"'; let b = \"one \\\n    \\\"two\\\"\"; // \"no\"\nlet c = r#\"a \"raw\" one\"#; \
                    let d = 'x'; let e: &'static str = \"last\";\n#[cfg(test)]\nmod tests {\n    \"not this\"\n}\n";
        assert_eq!(literals(code), "one \\\"two\\\"\na \"raw\" one\nlast\n");
    }
}
