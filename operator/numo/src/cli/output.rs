//! How what a verb found is printed: a table for people, the formats of [`Format`] for programs. Colour is for terminals only, and for
//! those without NO_COLOR.

use super::error::CliError;
use anstyle::{AnsiColor, Style};
use clap::Args;
use numo_api::{Reason, Step, conditions::Actor, text};
use numo_cli::{Format, aligned};
use serde::Serialize;
use std::{borrow::Cow, fmt::Write as _};

/// How it is printed.
#[derive(Clone, Debug, Default, Args)]
pub struct OutputArgs {
    /// Format of the output: json, yaml, wide, name, jsonpath=…, go-template=…, custom-columns=…; the last three also with -file
    /// [default: human-readable]
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Print no column headers
    #[arg(long)]
    pub no_headers: bool,
}

/// What tables for people are like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Everything is shown, however wide.
    pub is_wide: bool,
    /// Columns have no heads.
    pub no_headers: bool,
    /// Columns of the terminal, where tables go to one: what is too long ends with `…` there.
    pub width: Option<usize>,
}

/// Columns of the terminal that standard output is; none where it is something else.
fn columns() -> Option<usize> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let (columns, _) = is_terminal.then(crossterm::terminal::size)?.ok()?;
    (columns > 0).then_some(usize::from(columns))
}

/// The line, cut to so many letters: what is cut off is not taken for the end.
pub fn cut(line: &str, width: Option<usize>) -> Cow<'_, str> {
    match width {
        Some(width) if line.chars().count() > width => {
            let kept = line.chars().take(width.saturating_sub(1));
            Cow::Owned(kept.chain(['…']).collect())
        }
        _ => Cow::Borrowed(line),
    }
}

impl OutputArgs {
    /// What is printed of `found`: `people` for people, and the names.
    pub fn print<T: Serialize + ?Sized>(
        &self,
        found: &T,
        people: impl FnOnce(Layout) -> String,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), CliError> {
        let words = match &self.output {
            None | Some(Format::Wide) => people(self.layout()),
            Some(Format::Name) => names().iter().map(|name| text::line(name) + "\n").collect(),
            Some(format) => format.document(found)?.unwrap_or_default(),
        };
        print!("{words}");
        Ok(())
    }

    /// What tables for people are like.
    pub fn layout(&self) -> Layout {
        let is_wide = self.output.as_ref().is_some_and(Format::is_wide);
        Layout {
            is_wide,
            no_headers: self.no_headers,
            width: columns().filter(|_| !is_wide),
        }
    }

    /// Whether it is printed for people.
    pub fn is_text(&self) -> bool {
        self.output.as_ref().is_none_or(Format::is_wide)
    }
}

pub use super::say::paint;

/// The colour of a reason: red where a person is needed, yellow where something else is waited for.
pub const fn of_reason(reason: Reason) -> Style {
    match reason.who() {
        Actor::Nobody => good(),
        Actor::Numo => Style::new(),
        Actor::ClusterAdmin | Actor::Approver | Actor::RuleAuthor | Actor::OtherController => bad(),
        _ => Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow))),
    }
}

/// The colour of a step.
pub const fn of_step(step: Step) -> Style {
    match step {
        Step::Done => good(),
        Step::Held | Step::Failed => bad(),
        _ => Style::new(),
    }
}

/// The colour of what is well.
pub const fn good() -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Green)))
}

/// The colour of what is wrong.
pub const fn bad() -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)))
}

/// The style of heads.
pub const fn head() -> Style {
    Style::new().bold()
}

/// A cell: what stands in it, and its colour.
#[derive(Clone, Debug)]
pub struct Cell(String, Style);

impl Cell {
    /// A cell with a colour.
    pub fn painted(words: impl Into<String>, style: Style) -> Self {
        Self(text::line(&words.into()).into_owned(), style)
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(words: T) -> Self {
        Self(text::line(&words.into()).into_owned(), Style::new())
    }
}

/// Rows in columns, as kubectl prints them: three spaces between, nothing at the end of a line. The first row is the
/// heads.
#[derive(Clone, Debug, Default)]
pub struct Table {
    indent: usize,
    width: Option<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table that is indented, with these heads unless they are not wanted.
    pub fn new<const N: usize>(indent: usize, heads: [&str; N], output: Layout) -> Self {
        let rows = if output.no_headers {
            Vec::new()
        } else {
            vec![heads.map(Cell::from).to_vec()]
        };
        Self {
            indent,
            width: output.width,
            rows,
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let cells = self.rows.iter().map(|row| row.iter().map(|cell| cell.0.as_str()));
        let lines = aligned::lines(cells);
        let mut text = String::new();
        for (line, row) in lines.iter().zip(&self.rows) {
            let _ = write!(text, "{:1$}", "", self.indent);
            let width = self.width.map(|width| width.saturating_sub(self.indent));
            text.push_str(&painted(&cut(line.trim_end(), width), row));
            text.push('\n');
        }
        text
    }
}

/// A line of a table with the colours of its cells. They come after the layout, as the marks of colours would take room in it.
fn painted(line: &str, row: &[Cell]) -> String {
    let mut text = String::new();
    let mut rest = line;
    for Cell(words, style) in row {
        // What is cut off at the end is not there.
        if let Some((before, after)) = rest.split_once(words.as_str()) {
            text.push_str(before);
            text.push_str(&paint(*style, words));
            rest = after;
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::say;

    #[test]
    fn colours_take_no_room_in_a_table() {
        let mut table = Table::new(2, ["NODE", "REASON", "MESSAGE"], Layout::default());
        table.row([
            "a".into(),
            Cell::painted("Done", of_reason(Reason::Done)),
            "".into(),
        ]);
        table.row(["worker-10".into(), "X".into(), "why".into()]);
        let plain = anstream::adapter::strip_str(&say::printable(&table.text())).to_string();
        assert_eq!(
            plain,
            "  NODE        REASON   MESSAGE\n  a           Done\n  worker-10   X        why\n"
        );
    }

    #[test]
    fn a_row_ends_where_the_terminal_does() {
        let layout = Layout {
            width: Some(16),
            ..Layout::default()
        };
        let mut table = Table::new(2, ["NODE", "MESSAGE"], layout);
        table.row(["a".into(), "short".into()]);
        table.row(["b".into(), "longer than that".into()]);
        assert_eq!(
            table.text(),
            "  NODE   MESSAGE\n  a      short\n  b      longer…\n"
        );
    }

    #[test]
    fn wide_letters_take_their_room() {
        let mut table = Table::new(0, ["NODE", "MESSAGE"], Layout::default());
        table.row(["a".into(), "\u{65e5}\u{672c}".into()]);
        table.row(["\u{65e5}\u{672c}\u{8a9e}".into(), "x".into()]);
        assert_eq!(
            table.text(),
            "NODE     MESSAGE\na        \u{65e5}\u{672c}\n\u{65e5}\u{672c}\u{8a9e}   x\n"
        );
    }

    #[test]
    fn a_cell_is_painted_where_it_stands() {
        let mut table = Table::new(0, ["MESSAGE", "STEP"], Layout::default());
        table.row([" Done, says a rule ".into(), Cell::painted("Done", good())]);
        let printed = say::printable(&table.text());
        assert!(
            printed.ends_with("\n Done, says a rule    \u{1b}[32mDone\u{1b}[0m\n"),
            "{printed:?}"
        );
    }

    #[test]
    fn words_of_any_width_stay_on_their_line() {
        let long = "word ".repeat(40_000);
        let mut table = Table::new(0, ["MESSAGE", "NODE"], Layout::default());
        table.row([long.as_str().into(), "a".into()]);
        assert_eq!(table.text().lines().count(), 2);
    }
}
