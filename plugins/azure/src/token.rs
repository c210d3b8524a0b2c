//! What one call tells the next: an operation of Azure, and since when a machine is missed. Nothing in it is needed: a call without it reads
//! the same from the scale set. Whoever gives one that was not made here is not believed.

/// Longest token that is made or read.
const TOKEN_BYTES: usize = 4096;

/// What a call knows of the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Where the operation is asked after; checked when it is.
    pub operation: Option<String>,
    /// Second since which the scale set shows no machine for the request.
    pub missed_since: Option<u64>,
}

impl Token {
    /// Reads one. What nobody can read is left out.
    pub fn read(text: Option<&str>) -> Self {
        let mut token = Self::default();
        let text = text.filter(|text| text.len() <= TOKEN_BYTES).unwrap_or_default();
        for line in text.lines() {
            match line.split_once('=') {
                Some(("operation", url)) => token.operation = Some(url.to_owned()),
                Some(("missed", seconds)) => token.missed_since = seconds.parse().ok(),
                _ => {}
            }
        }
        token
    }

    /// Writes it.
    pub fn write(&self) -> String {
        let operation = self.operation.as_ref().map(|url| format!("operation={url}"));
        let missed = self.missed_since.map(|seconds| format!("missed={seconds}"));
        let lines: Vec<String> = operation.into_iter().chain(missed).collect();
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_another_is_nothing() {
        let token = Token {
            operation: Some("https://h/o?a=b&c=d".to_owned()),
            missed_since: Some(7),
        };
        assert_eq!(Token::read(Some(&token.write())), token);
        for odd in [
            None,
            Some(""),
            Some("operation"),
            Some("missed=x"),
            Some("\u{0}\n=\n=="),
        ] {
            assert_eq!(Token::read(odd), Token::default());
        }
        assert_eq!(
            Token::read(Some(&format!("operation={}", "x".repeat(5000)))),
            Token::default()
        );
    }
}
