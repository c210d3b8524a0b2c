//! What a token endpoint, a proxy or a component says, made fit to be told: on one line, without a secret, not longer than [`WORDS`].

use secrecy::zeroize::Zeroizing;
use url::form_urlencoded;

/// How much is told (bytes).
const WORDS: usize = 300;
/// A word without a blank that is longer may be a part of a token, and is not told.
const LONGEST_WORD: usize = 64;
/// A word that has so many characters of a secret in their order is not told (bytes).
const SHARED: usize = 8;
/// Stands where something is not told.
const MASK: &str = "***";

/// The text without these secrets, as they are and as a form has them, in printable ASCII: the words of OAuth are that (RFC 6749 §5.2).
///
/// A word that has a part of a secret is not told either, nor one that is so long that it may be a part of anything.
pub(crate) fn words(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets
        .iter()
        .map(|secret| secret.trim())
        .filter(|secret| !secret.is_empty());
    let mut hidden: Vec<Zeroizing<String>> = Vec::new();
    for secret in secrets {
        hidden.push(Zeroizing::new(secret.to_owned()));
        hidden.push(Zeroizing::new(
            form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
        ));
    }
    let mut masked = text.to_owned();
    for secret in &hidden {
        masked = masked.replace(secret.as_str(), MASK);
    }
    let mut told = String::new();
    for word in masked.split_whitespace() {
        let is_told = word.len() <= LONGEST_WORD && !hidden.iter().any(|secret| shares(word, secret));
        let word = if is_told { word } else { MASK };
        let blank = usize::from(!told.is_empty());
        if told.len() + blank + word.len() > WORDS {
            told.push_str("...");
            break;
        }
        if blank == 1 {
            told.push(' ');
        }
        told.extend(word.chars().map(shown));
    }
    if told.is_empty() {
        "no words".to_owned()
    } else {
        told
    }
}

/// Whether a word has a part of a secret.
fn shares(word: &str, secret: &str) -> bool {
    let (word, secret) = (word.as_bytes(), secret.as_bytes());
    word.windows(SHARED)
        .any(|part| secret.windows(SHARED).any(|other| other == part))
}

fn shown(character: char) -> char {
    if character.is_ascii_graphic() {
        character
    } else {
        '?'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_as_they_are_and_as_a_form_has_them() {
        let told = words("no a+b/c= and a%2Bb%2Fc%3D", &["a+b/c=\n"]);
        assert_eq!(told, "no *** and ***");
        assert_eq!(words("all", &["", " "]), "all");
    }

    #[test]
    fn words_are_one_line_of_printable_ascii_and_bounded() {
        assert_eq!(words("a\r\nb\t\u{1b}[31m\u{202e}c", &[]), "a b ?[31m?c");
        assert_eq!(words(" \n", &[]), "no words");
        let long = words(&"word ".repeat(1000), &[]);
        assert!(long.len() <= WORDS + 3 && long.ends_with("word..."), "{long}");
    }

    #[test]
    fn a_part_of_a_secret_is_masked() {
        assert_eq!(
            words("no 'abcdefgh' but abcdefg", &["0abcdefgh/1"]),
            "no *** but abcdefg"
        );
        assert_eq!(words("h%2F123456", &["0abcdefgh/123456"]), "***");
    }

    #[test]
    fn what_may_be_a_part_of_a_token_is_not_told() {
        let part = "x".repeat(65);
        assert_eq!(words(&format!("at {part} here"), &[]), "at *** here");
        let full = "secret".repeat(20);
        assert_eq!(words(&full, &[&full]), "***");
    }
}
