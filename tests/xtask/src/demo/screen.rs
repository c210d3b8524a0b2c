//! The one screen: drawn in place on a terminal, line by line where there is none.

use std::io::Write as _;
use std::time::Duration;

use console::{Style, Term, measure_text_width, style, truncate_str};
use numo_api::Step;

use super::course::{Course, Line};
use super::look::{Look, Row};

/// Lines of what happened last, under the table.
const TAIL: usize = 5;
/// Width of a text that is wider than any terminal should be read at.
const WIDEST: usize = 140;
/// Lines around the table and the tail.
const AROUND: usize = 9;

/// What the head of the screen says.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// What is shown, for example `6 workers   4.20.4 → 4.21.0`.
    pub title: String,
    /// Time since the beginning.
    pub elapsed: Duration,
}

/// Where it is shown.
pub struct Screen {
    term: Term,
    last: Vec<String>,
    told: usize,
}

impl Screen {
    /// Standard output, whatever it is.
    pub fn new() -> Self {
        let term = Term::buffered_stdout();
        if term.is_term() {
            let _ = term.hide_cursor();
            let _ = term.flush();
        }
        Self {
            term,
            last: Vec::new(),
            told: 0,
        }
    }

    /// Shows how things stand. Nothing is written while nothing changes.
    pub fn draw(&mut self, head: &Head, look: &Look, course: &Course) {
        // A terminal that is gone is no reason to stop: Ctrl-C will come from it, or has.
        let _ = if self.term.is_term() {
            let (height, width) = self.term.size();
            let lines = frame(head, look, course, usize::from(width), usize::from(height));
            self.redraw(lines)
        } else {
            self.tell(course)
        };
    }

    fn redraw(&mut self, lines: Vec<String>) -> std::io::Result<()> {
        if lines == self.last {
            return Ok(());
        }
        // Terminals that know it show the whole frame at once; others ignore it.
        write!(self.term, "\x1b[?2026h")?;
        if !self.last.is_empty() {
            write!(self.term, "\x1b[{}A\r", self.last.len())?;
        }
        for line in &lines {
            writeln!(self.term, "\x1b[2K{line}")?;
        }
        write!(self.term, "\x1b[J\x1b[?2026l")?;
        self.last = lines;
        self.term.flush()
    }

    fn tell(&mut self, course: &Course) -> std::io::Result<()> {
        for line in &course.lines[self.told..] {
            writeln!(self.term, "{}", told(line))?;
        }
        self.told = course.lines.len();
        self.term.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.term.is_term() {
            let _ = self.term.show_cursor();
            let _ = self.term.flush();
        }
    }
}

/// A line about something that happened.
fn told(line: &Line) -> String {
    let text = format!(
        "{:>5}  {:<10} {:<10}  {}",
        clock(line.at),
        line.subject,
        line.step,
        line.text
    );
    text.trim_end().to_owned()
}

/// Minutes and seconds.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// The words of a text in lines of at most this width; a longer word has a line of its own.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + 1 + measure_text_width(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The whole screen. No line is wider than the terminal.
fn frame(head: &Head, look: &Look, course: &Course, width: usize, height: usize) -> Vec<String> {
    // A full last column makes some terminals wrap.
    let width = width.saturating_sub(1).clamp(20, WIDEST);
    let bold = Style::new().bold();
    let dim = Style::new().dim();
    let mut lines = vec![spread(
        &bold.apply_to(format!("numo demo   {}", head.title)).to_string(),
        &bold.apply_to(clock(head.elapsed)).to_string(),
        width,
    )];
    let done = look.rows.iter().filter(|row| row.step == Step::Done).count();
    let pools: Vec<String> = look
        .pools
        .iter()
        .map(|pool| format!("pool {} is {}", pool.name, pool.paused))
        .collect();
    let left = format!(
        "{}   {done} of {} nodes are done   ",
        pools.join(", "),
        look.rows.len()
    );
    let room = width.saturating_sub(measure_text_width(&left));
    lines.push(format!("{left}{}", bar(done, look.rows.len(), room)));
    lines.push(String::new());
    lines.extend(table(look, course, width, height.saturating_sub(AROUND + TAIL)));
    lines.push(String::new());
    let reason = look.reason.map_or("", |reason| reason.name());
    let reason_style = if look.stalled {
        Style::new().red().bold()
    } else {
        bold
    };
    lines.push(format!("{}  {}", reason_style.apply_to(reason), look.message));
    lines.push(String::new());
    let tail = &course.lines[course.lines.len().saturating_sub(TAIL)..];
    for index in 0..TAIL {
        let text = tail.get(index).map(told).unwrap_or_default();
        lines.push(
            dim.apply_to(truncate_str(&text, width, "…").into_owned())
                .to_string(),
        );
    }
    lines
        .into_iter()
        .map(|line| truncate_str(&line, width, "…").into_owned())
        .collect()
}

fn spread(left: &str, right: &str, width: usize) -> String {
    let used = measure_text_width(left) + measure_text_width(right);
    format!("{left}{}{right}", " ".repeat(width.saturating_sub(used).max(1)))
}

fn bar(done: usize, all: usize, width: usize) -> String {
    let full = (done * width).checked_div(all).unwrap_or(0);
    format!(
        "{}{}",
        style("━".repeat(full)).green(),
        style("─".repeat(width - full)).dim()
    )
}

fn table(look: &Look, course: &Course, width: usize, height: usize) -> Vec<String> {
    let widest = |text: fn(&Row) -> &str, least: usize| {
        let widths = look.rows.iter().map(|row| measure_text_width(text(row)));
        widths.max().unwrap_or(0).max(least)
    };
    let node_width = widest(|row| &row.node, 4).min(30);
    let version_width = widest(|row| &row.version, 7).min(20);
    let head = format!(
        "  {:<node_width$}   {:<version_width$}   {:<10}   {:>6}   WHAT",
        "NODE", "VERSION", "STEP", "FOR"
    );
    let mut lines = vec![style(head).dim().to_string()];
    let shown = choose(&look.rows, height.max(4));
    for row in &shown {
        let since = if row.in_flight() {
            format!("{} s", course.in_step(&row.node).as_secs())
        } else {
            String::new()
        };
        let text = format!(
            "{:<node_width$}   {:<version_width$}   {:<10}   {since:>6}   {}",
            truncate_str(&row.node, node_width, "…"),
            truncate_str(&row.version, version_width, "…"),
            row.step.name(),
            row.doing
        );
        let text = truncate_str(&text, width.saturating_sub(2), "…").into_owned();
        let (mark, look) = if row.step == Step::Done {
            ("✓", Style::new().green())
        } else if row.is_wrong() {
            ("!", Style::new().red())
        } else if row.in_flight() {
            ("●", Style::new().cyan())
        } else {
            ("·", Style::new().dim())
        };
        lines.push(format!(
            "{} {}",
            look.apply_to(mark),
            look.apply_to(text.trim_end())
        ));
    }
    let hidden = look.rows.len() - shown.len();
    if hidden > 0 {
        lines.push(style(format!("  … and {hidden} more")).dim().to_string());
    }
    lines
}

/// The rows to show where not all have room: what goes on first, then what waits, then what is done.
fn choose(rows: &[Row], room: usize) -> Vec<&Row> {
    if rows.len() <= room {
        return rows.iter().collect();
    }
    let mut ranked: Vec<(usize, &Row)> = rows.iter().enumerate().collect();
    ranked.sort_by_key(|(_, row)| match row.step {
        _ if row.is_wrong() => 0,
        Step::Done => 3,
        Step::Selected => 2,
        _ => 1,
    });
    ranked.truncate(room.saturating_sub(1));
    ranked.sort_by_key(|(index, _)| *index);
    ranked.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_api::Reason;

    fn row(index: usize, step: Step) -> Row {
        Row {
            node: format!("worker-{index}"),
            version: "4.20.4".into(),
            step,
            reason: Reason::WaitingForTurn,
            doing: "waits for a node with a name that is far too long for any screen that there is, and more"
                .into(),
            says: None,
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let look = Look {
            message: "m".repeat(300),
            rows: (0..30).map(|index| row(index, Step::Selected)).collect(),
            ..Look::default()
        };
        for width in [40, 80, 120, 300] {
            let lines = frame(&Head::default(), &look, &Course::default(), width, 24);
            let widest = lines.iter().map(|line| measure_text_width(line)).max();
            assert!(widest < Some(width), "{widest:?} at {width}");
            assert!(lines.len() < 24, "{} lines", lines.len());
        }
    }

    #[test]
    fn what_goes_on_is_shown_where_not_all_has_room() {
        let mut rows: Vec<Row> = (0..20).map(|index| row(index, Step::Done)).collect();
        rows.push(row(20, Step::Held));
        rows.push(row(21, Step::PreRules));
        rows.push(row(22, Step::Selected));
        let shown: Vec<&str> = choose(&rows, 4).iter().map(|row| row.node.as_str()).collect();
        assert_eq!(shown, ["worker-20", "worker-21", "worker-22"]);
        assert_eq!(choose(&rows, 23).len(), 23);
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("incomprehensibilities so", 7),
            ["incomprehensibilities", "so"]
        );
        assert!(wrap(" ", 7).is_empty());
    }

    #[test]
    fn clock_has_two_digits_for_seconds() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
    }
}
