//! How what a verb found is printed: a table for people, `json` and `yaml` for programs, `name` for kubectl. Colour is
//! for terminals only, and for those without NO_COLOR.

use super::{error::CliError, say};
use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use numo_api::{Reason, Step, conditions::Actor, text};
use serde::Serialize;
use std::fmt::Write as _;

/// Formats, as `kubectl -o` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// The table with everything.
    Wide,
    /// Names only, as kubectl takes them.
    Name,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Format of the output [default: for people]
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Without the heads of columns
    #[arg(long)]
    pub no_headers: bool,
}

impl OutputArgs {
    /// What is printed of `found`: `people` for people, and the names.
    pub fn print<T: Serialize>(
        self,
        found: &T,
        people: impl FnOnce(Self) -> String,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<(), CliError> {
        print!("{}", self.words(found, people, names)?);
        Ok(())
    }

    /// The words of [`OutputArgs::print`], with the marks of colours ([`say::printable`] makes them colours).
    pub fn words<T: Serialize>(
        self,
        found: &T,
        people: impl FnOnce(Self) -> String,
        names: impl FnOnce() -> Vec<String>,
    ) -> Result<String, CliError> {
        let unprintable =
            |error: &dyn std::fmt::Display| CliError::Wrong(format!("cannot be printed: {error}"));
        let json = || {
            let mut json = serde_json::to_string_pretty(found).map_err(|error| unprintable(&error))?;
            json.push('\n');
            Ok::<_, CliError>(say::json(&json))
        };
        Ok(match self.output {
            None | Some(Format::Wide) => people(self),
            Some(Format::Json) => json()?,
            Some(Format::Yaml) => {
                let yaml = serde_saphyr::to_string(found).map_err(|error| unprintable(&error))?;
                if text::lines(&yaml) == yaml {
                    yaml
                } else {
                    // JSON is YAML as well, and every character has an escape in it.
                    json()?
                }
            }
            Some(Format::Name) => names().iter().map(|name| text::line(name) + "\n").collect(),
        })
    }

    /// Whether everything is shown.
    pub fn is_wide(self) -> bool {
        self.output == Some(Format::Wide)
    }
}

pub use super::say::paint;

/// The colour of a reason: red where a person is needed, yellow where something else is waited for.
pub const fn of_reason(reason: Reason) -> Style {
    match reason.who() {
        Actor::Nobody => good(),
        Actor::Numo => Style::new(),
        Actor::ClusterAdmin | Actor::RuleAuthor | Actor::OtherController => bad(),
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
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table that is indented, with these heads unless they are not wanted.
    pub fn new<const N: usize>(indent: usize, heads: [&str; N], output: OutputArgs) -> Self {
        let rows = if output.no_headers {
            Vec::new()
        } else {
            vec![heads.map(Cell::from).to_vec()]
        };
        Self { indent, rows }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.0.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let last = row.iter().rposition(|cell| !cell.0.is_empty()).unwrap_or(0);
            let _ = write!(text, "{:1$}", "", self.indent);
            for (column, (Cell(words, style), width)) in row.iter().zip(&widths).enumerate().take(last + 1) {
                text.push_str(&paint(*style, words));
                if column < last {
                    let _ = write!(text, "{:1$}", "", width - words.chars().count() + 3);
                }
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room_in_a_table() {
        let mut table = Table::new(2, ["NODE", "REASON", "MESSAGE"], OutputArgs::default());
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
}
