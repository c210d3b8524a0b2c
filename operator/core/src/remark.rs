//! What a person said about an object: who, when and why, as the command line keeps it in an annotation
//! ([`marks::SAID`]). Here it is only read, for sentences; it decides nothing.

use crate::{key::Map, text::clip};
use numo_api::marks;
use serde_json::Value;

/// Longest part of a person's words that a sentence takes (characters): as long as the command line lets a reason be.
const WORDS_MAX: usize = 512;

/// ` by ada: friday evening`: who said it last and why, if the last word kept on the object is this verb; else nothing.
pub(crate) fn by(annotations: &Map, verb: &str) -> String {
    let all = annotations
        .get(marks::SAID)
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let last = all.as_ref().and_then(Value::as_array).and_then(|all| all.last());
    let text = |field: &str| last.and_then(|word| word[field].as_str()).unwrap_or_default();
    if text("verb") != verb || text("by").is_empty() {
        return String::new();
    }
    let why = match text("reason") {
        "" => String::new(),
        reason => format!(": {}", clip(reason, WORDS_MAX)),
    };
    format!(" by {}{why}", clip(text("by"), WORDS_MAX))
}

/// `is paused by ada: friday evening`: what the suspend annotation of an owner says. Whoever writes it by hand may write
/// anything.
pub(crate) fn paused(value: &str) -> String {
    match value.strip_prefix("pause by ") {
        Some(words) => format!("is paused by {}", clip(words, WORDS_MAX)),
        None => format!(
            "is paused: annotation {} is {}",
            marks::SUSPEND,
            clip(value, WORDS_MAX)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> Map {
        Map::from([(marks::SAID.to_owned(), text.to_owned())])
    }

    #[test]
    fn who_and_why_come_from_the_last_word_alone() {
        let stop = r#"{"at":"2026-01-01T00:00:00Z","verb":"stop","by":"ada","reason":"INC-42"}"#;
        let start = r#"{"at":"2026-01-01T00:00:00Z","verb":"start","by":"ada"}"#;
        assert_eq!(by(&kept(&format!("[{start},{stop}]")), "stop"), " by ada: INC-42");
        assert_eq!(by(&kept(&format!("[{stop},{start}]")), "start"), " by ada");
        // Somebody stopped it by hand since: nobody else's word is its reason.
        assert_eq!(by(&kept(&format!("[{stop},{start}]")), "stop"), "");
        for nonsense in ["", "{", "[]", "[1]", r#"[{"verb":"stop"}]"#, r#"{"verb":"stop"}"#] {
            assert_eq!(by(&kept(nonsense), "stop"), "", "{nonsense}");
        }
        assert_eq!(by(&Map::new(), "stop"), "");
        let two_lines = r#"[{"verb":"stop","by":"ada","reason":"a\n  do      rm -rf /"}]"#;
        assert!(!by(&kept(two_lines), "stop").contains('\n'));
    }

    #[test]
    fn the_reason_of_a_pause_is_not_behind_the_name_of_an_annotation() {
        assert_eq!(paused("pause by ada: friday"), "is paused by ada: friday");
        let by_hand = paused("yes");
        assert!(
            by_hand.contains(marks::SUSPEND) && by_hand.ends_with("is yes"),
            "{by_hand}"
        );
    }
}
