//! A calm full screen: what is shown is drawn over what was shown, so that nothing flickers, and the terminal is given
//! back as it was.

use super::error::CliError;
use crossterm::{
    cursor,
    event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
    execute, queue,
    style::Print,
    terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen},
};
use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

/// How often the screen is drawn anew even if nothing changes: times go on.
pub const TICK: Duration = Duration::from_secs(1);

/// Whether standard output is a terminal that can be drawn on.
pub fn is_there() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The screen; the terminal is given back when it is dropped.
#[derive(Debug)]
pub struct Screen {
    is_raw: bool,
}

impl Screen {
    /// Takes the screen.
    pub fn open() -> Result<Self, CliError> {
        let failed = |error: io::Error| CliError::Wrong(format!("the terminal cannot be drawn on: {error}"));
        // Keys are read only where they come from a terminal.
        let is_raw = io::stdin().is_terminal() && terminal::enable_raw_mode().is_ok();
        let screen = Self { is_raw };
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).map_err(failed)?;
        Ok(screen)
    }

    /// Draws the text, cut to the screen. False once a key has ended it.
    pub fn show(&mut self, text: &str) -> Result<bool, CliError> {
        self.draw(text)
            .map_err(|error| CliError::Wrong(format!("the terminal cannot be drawn on: {error}")))?;
        Ok(!(self.is_raw && ends()))
    }

    fn draw(&self, text: &str) -> io::Result<()> {
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        let mut out = io::stdout().lock();
        let plain = anstream::AutoStream::choice(&out) == anstream::ColorChoice::Never;
        let rows = usize::from(rows.max(2));
        let lines: Vec<&str> = text.lines().collect();
        queue!(out, cursor::MoveTo(0, 0))?;
        for line in lines.iter().take(rows - 1) {
            let line = fit(line, usize::from(columns), plain);
            queue!(
                out,
                Print(line),
                Clear(ClearType::UntilNewLine),
                cursor::MoveToNextLine(1)
            )?;
        }
        queue!(
            out,
            Clear(ClearType::FromCursorDown),
            cursor::MoveTo(0, u16::try_from(rows - 1).unwrap_or(u16::MAX))
        )?;
        let hidden = lines.len().saturating_sub(rows - 1);
        let more = if hidden > 0 {
            format!("{hidden} lines more; ")
        } else {
            String::new()
        };
        let key = if self.is_raw { "q" } else { "Ctrl-C" };
        queue!(
            out,
            Print(fit(&format!("{more}{key} ends it"), usize::from(columns), plain))
        )?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        if self.is_raw {
            let _ = terminal::disable_raw_mode();
        }
    }
}

/// Whether a key was pressed that ends it.
fn ends() -> bool {
    while event::poll(Duration::ZERO).unwrap_or(false) {
        if let Ok(Event::Key(key)) = event::read()
            && key.kind == KeyEventKind::Press
        {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return true,
                KeyCode::Char('c') if control => return true,
                _ => {}
            }
        }
    }
    false
}

/// The line, cut to the width; escape codes take no room, and colours end with the line.
fn fit(line: &str, width: usize, plain: bool) -> String {
    let (mut out, mut used, mut escape) = (String::new(), 0, false);
    let seen = anstream::adapter::strip_str(line).to_string().chars().count();
    for letter in line.chars() {
        if letter == '\u{1b}' {
            escape = true;
        }
        if escape {
            if !plain {
                out.push(letter);
            }
            escape = !letter.is_ascii_alphabetic();
            continue;
        }
        if used < width {
            // What is cut off is not taken for the end.
            let is_cut = used + 1 == width && seen > width;
            out.push(if is_cut { '…' } else { letter });
            used += 1;
        }
    }
    if !plain {
        out.push_str("\u{1b}[0m");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_where_the_screen_ends_and_colours_take_no_room() {
        assert_eq!(fit("\u{1b}[31mabc\u{1b}[0mdef", 4, true), "abc…");
        assert_eq!(fit("abcd", 4, true), "abcd");
        assert_eq!(
            fit("\u{1b}[31mabc\u{1b}[0mdef", 4, false),
            "\u{1b}[31mabc\u{1b}[0m…\u{1b}[0m"
        );
        assert_eq!(fit("", 4, true), "");
    }
}
