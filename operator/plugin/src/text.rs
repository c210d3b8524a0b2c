//! Text from a component, made fit for logs, conditions and terminals. It neither escapes nor interprets.

/// `text` on one line and fit to be read, cut to at most `most` bytes at the end of a character.
pub(crate) fn clean(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        let character = match character {
            '\n' | '\r' | '\t' => ' ',
            unseen if is_unseen(unseen) => char::REPLACEMENT_CHARACTER,
            other => other,
        };
        if clean.len() + character.len_utf8() > most {
            break;
        }
        clean.push(character);
    }
    clean
}

/// Whether a character may not be shown as it is: it is a control character, or one that a reader does not see and that changes what a
/// reader sees. The same as numo-api's `text::is_unseen`, which this crate does not know; a test of numo compares the two.
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
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
