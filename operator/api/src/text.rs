//! Text that somebody else wrote (an annotation, a message, a label, a log), made fit to be read: on a terminal, in a condition, an event
//! or a log nothing of it moves the cursor, hides, or turns the direction of writing. Nothing here escapes for HTML or JSON.

use std::borrow::Cow;
use std::fmt::Display;

/// Stands in for a character that may not be shown.
pub const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Whether a character may not be shown as it is: control characters, and those that a reader does not see but that change what a reader
/// sees, or carry what nobody reads: direction of writing, zero width, fillers, variation selectors, line and paragraph separators, tags.
/// By Unicode 17: the categories Cc, Cf, Zl and Zp, and what has the property Default_Ignorable_Code_Point. An emoji loses what joins it
/// and what chooses its colour.
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

/// The text on one line: line ends and tabs become blanks, what may not be shown becomes U+FFFD.
pub fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |character| match character {
        '\n' | '\r' | '\t' => ' ',
        _ => REPLACEMENT,
    })
}

/// The text with its line ends and tabs; what else may not be shown becomes U+FFFD.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |character| match character {
        '\n' | '\t' => character,
        _ => REPLACEMENT,
    })
}

fn replaced(text: &str, by: impl Fn(char) -> char) -> Cow<'_, str> {
    if text.chars().all(|character| !is_unseen(character)) {
        return Cow::Borrowed(text);
    }
    let each = |character| {
        if is_unseen(character) {
            by(character)
        } else {
            character
        }
    };
    text.chars().map(each).collect()
}

/// The first `max` characters, on one line and fit to be read.
pub fn clip(text: &str, max: usize) -> String {
    line(text).chars().take(max).collect()
}

/// A number of things: `1 node`, `2 nodes`, `2 batches`.
pub fn counted(number: usize, thing: &str) -> String {
    let s = match thing {
        _ if number == 1 => "",
        thing if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {thing}{s}")
}

/// The first `most` of a list in a sentence, and how many more there are: `a, b and 3 more`. Empty for an empty list.
pub fn first_of<T: Display>(all: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut all = all.into_iter();
    let named: Vec<String> = all.by_ref().take(most).map(|one| one.to_string()).collect();
    match (named.join(", "), all.count()) {
        (named, 0) => named,
        (named, more) => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_a_reader_is_replaced() {
        let hostile =
            "a\u{1b}[8mb\u{9b}2Jc\u{202e}d\u{200b}e\u{2066}f\u{e0041}g\u{feff}h\u{2028}i\u{ad}j\u{7f}\r";
        let clean = line(hostile);
        assert!(!clean.chars().any(is_unseen), "{clean:?}");
        assert_eq!(clean.chars().filter(|one| *one == REPLACEMENT).count(), 10);
        assert_eq!(line("a\nb\tc"), "a b c");
        assert_eq!(lines("a\nb\tc\u{1b}"), "a\nb\tc\u{fffd}");
    }

    /// First and last of each range, and what is in it.
    const RANGES: [(char, char, &str); 30] = [
        ('\0', '\u{1f}', "C0: escape, bell, line ends"),
        (
            '\u{7f}',
            '\u{9f}',
            "delete and C1: an escape sequence in one character",
        ),
        ('\u{ad}', '\u{ad}', "soft hyphen"),
        ('\u{34f}', '\u{34f}', "combining grapheme joiner"),
        ('\u{600}', '\u{605}', "Arabic number signs"),
        ('\u{61c}', '\u{61c}', "Arabic letter mark"),
        ('\u{6dd}', '\u{6dd}', "Arabic end of ayah"),
        ('\u{70f}', '\u{70f}', "Syriac abbreviation mark"),
        ('\u{890}', '\u{891}', "Arabic pound and piastre marks"),
        ('\u{8e2}', '\u{8e2}', "Arabic disputed end of ayah"),
        ('\u{115f}', '\u{1160}', "Hangul fillers"),
        ('\u{17b4}', '\u{17b5}', "Khmer inherent vowels"),
        ('\u{180b}', '\u{180f}', "Mongolian selectors and vowel separator"),
        ('\u{200b}', '\u{200f}', "zero width, and marks of direction"),
        ('\u{2028}', '\u{202e}', "separators, and embeddings of direction"),
        (
            '\u{2060}',
            '\u{206f}',
            "word joiner, invisible operators, isolates",
        ),
        ('\u{3164}', '\u{3164}', "Hangul filler"),
        ('\u{fe00}', '\u{fe0f}', "variation selectors"),
        ('\u{feff}', '\u{feff}', "byte order mark"),
        ('\u{ffa0}', '\u{ffa0}', "half width Hangul filler"),
        ('\u{fff0}', '\u{fff8}', "not assigned, to be ignored"),
        ('\u{fff9}', '\u{fffb}', "interlinear annotations"),
        ('\u{110bd}', '\u{110bd}', "Kaithi number sign"),
        ('\u{110cd}', '\u{110cd}', "Kaithi number sign above"),
        ('\u{13430}', '\u{1343f}', "Egyptian format controls"),
        ('\u{1bca0}', '\u{1bca3}', "shorthand format controls"),
        ('\u{1d173}', '\u{1d17a}', "musical format controls"),
        ('\u{e0000}', '\u{e007f}', "tags"),
        ('\u{e0080}', '\u{e00ff}', "not assigned, to be ignored"),
        (
            '\u{e0100}',
            '\u{e0fff}',
            "variation selectors, and what is not assigned",
        ),
    ];

    #[test]
    fn every_character_of_the_table_is_replaced_and_no_other() {
        let named = |character: char| {
            let range = RANGES
                .iter()
                .find(|(first, last, _)| (*first..=*last).contains(&character));
            range.map(|(.., name)| *name)
        };
        for character in '\0'..=char::MAX {
            let name = named(character);
            let code = u32::from(character);
            assert_eq!(is_unseen(character), name.is_some(), "U+{code:04X} {name:?}");
            let text = format!("a{character}b");
            let shown = line(&text);
            let stays = shown.chars().nth(1) == Some(character);
            assert_eq!(stays, name.is_none(), "U+{code:04X} {name:?}: {shown:?}");
        }
    }

    #[test]
    fn of_a_long_list_the_first_are_named_and_the_others_counted() {
        let of = |count: usize| first_of((0..count).map(|one| format!("node-{one}")), 2);
        assert_eq!(of(0), "");
        assert_eq!(of(2), "node-0, node-1");
        assert_eq!(of(5), "node-0, node-1 and 3 more");
    }

    #[test]
    fn what_people_write_stays() {
        for text in [
            "worker-1",
            "Größe 100 %",
            "日本語",
            "한국어",
            "שלום",
            "مرحبا",
            "e\u{301}",
            "👍",
        ] {
            assert_eq!(line(text), text);
        }
    }
}
