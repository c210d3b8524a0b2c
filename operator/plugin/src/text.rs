//! Text from a component, made fit for logs, conditions and terminals. It neither escapes nor interprets.

/// `text` without control characters (line ends and tabs become blanks, others U+FFFD, and so do the characters that
/// turn the direction of writing), cut to at most `most` bytes at the end of a character.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        let character = match character {
            '\n' | '\r' | '\t' => ' ',
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            control if control.is_control() => '\u{fffd}',
            other => other,
        };
        if clean.len() + character.len_utf8() > most {
            break;
        }
        clean.push(character);
    }
    clean
}

/// `^[A-Z][A-Za-z0-9]{0,63}$`: fit to be a condition's reason and a metric label.
pub(crate) fn is_reason(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_the_cut_is_at_a_character() {
        assert_eq!(clean("a\nb\u{1b}[31m\u{202e}c", 100), "a b\u{fffd}[31m\u{fffd}c");
        assert_eq!(clean("äöü", 3), "ä");
        assert_eq!(clean("äöü", 4), "äö");
    }

    #[test]
    fn reasons_are_camel_case() {
        for good in ["A", "BudgetExhausted", "R2D2", &format!("A{}", "b".repeat(63))] {
            assert!(is_reason(good), "{good}");
        }
        for bad in [
            "",
            "a",
            "1A",
            "Budget exhausted",
            "Büdget",
            "A-b",
            &format!("A{}", "b".repeat(64)),
        ] {
            assert!(!is_reason(bad), "{bad}");
        }
    }
}
