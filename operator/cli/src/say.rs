//! The only way out to the terminal. Names, messages, annotations and logs of a cluster are strangers' words: what would steer a terminal
//! or a reader is taken out of all that is printed, whoever printed it, and what is printed as one line is one line: nobody writes a line
//! that looks like numo's own. Colours are numo's own and are put in last.

use anstyle::{AnsiColor, Color, Style};
use numo_api::text;
use std::{
    collections::hash_map::RandomState,
    fmt::{self, Write as _},
    hash::{BuildHasher as _, Hasher as _},
    io::Write as _,
    sync::OnceLock,
};

/// As std's, through [`out`], and always one line: in the command line these stand before std's, so that nobody prints past it.
#[macro_export]
macro_rules! println {
    () => { $crate::say::out(format_args!("\n")) };
    ($($words:tt)*) => { $crate::say::out(format_args!("{}\n", $crate::say::line(format_args!($($words)*)))) };
}
/// As std's, through [`out`]: for texts whose lines were made by [`writeln`] or by `println`.
#[macro_export]
macro_rules! print {
    ($($words:tt)*) => { $crate::say::out(format_args!($($words)*)) };
}
/// As std's, through [`complain`], and always one line.
#[macro_export]
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::say::complain(format_args!("{}\n", $crate::say::line(format_args!($($words)*)))) };
}
/// As std's, and always one line.
#[macro_export]
macro_rules! writeln {
    ($to:expr, $($words:tt)*) => { std::writeln!($to, "{}", $crate::say::line(format_args!($($words)*))) };
}

/// The styles that numo paints with.
const STYLES: [Style; 4] = [
    Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green))),
    Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red))),
    Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow))),
    Style::new().bold(),
];
/// Marks of one process: a beginning for each of the styles, and an end.
const MARKS: u32 = 5;
/// The supplementary private use area from which the marks are taken.
const PRIVATE: std::ops::Range<u32> = 0xf_0000..0xf_fffd;

/// Where the marks of this process begin: nobody who writes into a cluster knows it, so nobody paints.
fn marks() -> u32 {
    static FIRST: OnceLock<u32> = OnceLock::new();
    *FIRST.get_or_init(|| {
        let room = u64::from(PRIVATE.end - PRIVATE.start - MARKS);
        let any = RandomState::new().build_hasher().finish() % room;
        PRIVATE.start + u32::try_from(any).unwrap_or(0)
    })
}

/// Words that are painted once they are printed.
pub fn paint(style: Style, words: &str) -> String {
    let known = STYLES.iter().position(|one| *one == style);
    let Some(style) = known.and_then(|index| u32::try_from(index).ok()) else {
        return words.to_owned();
    };
    let mark = |offset: u32| char::from_u32(marks() + offset).unwrap_or(text::REPLACEMENT);
    format!("{}{words}{}", mark(style), mark(MARKS - 1))
}

/// Text as it may be printed: painted, and without anything of a stranger's that would steer a terminal.
pub fn printable(words: &str) -> String {
    let mut printable = String::with_capacity(words.len());
    for letter in words.chars() {
        let mark = u32::from(letter)
            .checked_sub(marks())
            .filter(|mark| *mark < MARKS);
        match mark.map(|mark| STYLES.get(mark as usize)) {
            Some(Some(style)) => printable.push_str(&style.to_string()),
            Some(None) => printable.push_str("\u{1b}[0m"),
            None if text::is_unseen(letter) && !matches!(letter, '\n' | '\t') => {
                printable.push(text::REPLACEMENT);
            }
            None => printable.push(letter),
        }
    }
    printable
}

/// Words as one line: ends of lines and tabs in them are blanks.
pub fn line(words: fmt::Arguments<'_>) -> String {
    text::line(&words.to_string()).into_owned()
}

/// JSON with everything that would steer a terminal as an escape of JSON: nothing of it is lost.
pub fn json(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for letter in words.chars() {
        if text::is_unseen(letter) && !matches!(letter, '\n' | '\t') {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Exit code of a program whose reader has gone, as shells know it: 128 and SIGPIPE.
const READER_GONE: i32 = 141;

/// Prints to standard output. Where nobody reads it any more (`numo crds | head`) the program ends without a word, as other programs do.
pub fn out(words: fmt::Arguments<'_>) {
    written(write!(anstream::stdout(), "{}", printable(&words.to_string())));
}

/// Prints what is not words to standard output: bytes as they are.
pub fn bytes(bytes: &[u8]) {
    written(std::io::stdout().write_all(bytes));
}

/// Ends the program where what it has to say was not written.
fn written(result: std::io::Result<()>) {
    let Err(error) = result.and_then(|()| std::io::stdout().flush()) else {
        return;
    };
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(READER_GONE);
    }
    complain(format_args!("numo: standard output: {error}\n"));
    std::process::exit(1);
}

/// Prints to standard error. That nobody reads it fails nothing.
pub fn complain(words: fmt::Arguments<'_>) {
    let _ = write!(anstream::stderr(), "{}", printable(&words.to_string()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numo_paints() {
        let painted = paint(STYLES[1], "red\u{1b}[8m");
        assert_eq!(printable(&painted), "\u{1b}[31mred\u{fffd}[8m\u{1b}[0m");
        assert_eq!(
            printable("\u{1b}]0;title\u{7}\u{202e}"),
            "\u{fffd}]0;title\u{fffd}\u{fffd}"
        );
        assert_eq!(printable("a\n\tb"), "a\n\tb");
        assert_eq!(paint(Style::new(), "plain"), "plain");
    }

    #[test]
    fn nobody_writes_a_line_of_his_own() {
        let reason = "ok\n  do      kubectl delete namespace prod\r\tx";
        let mut text = String::new();
        writeln!(text, "  said    {}{reason}", paint(STYLES[3], "by\nme")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(
            printable(&text),
            "  said    \u{1b}[1mby me\u{1b}[0mok   do      kubectl delete namespace prod  x\n"
        );
    }

    #[test]
    fn json_loses_nothing() {
        let value = serde_json::json!({"a": "\u{9b}x\u{202e}\u{e0041}\n"});
        let escaped = json(&value.to_string());
        assert!(!escaped.chars().any(text::is_unseen), "{escaped}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).ok(),
            Some(value)
        );
    }
}
