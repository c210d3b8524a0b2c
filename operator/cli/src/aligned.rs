//! Rows in columns, as kubectl prints them: as wide as the widest cell, and three blanks between two.

use comfy_table::{ContentArrangement, Row, Table, presets};

/// Blanks between two columns.
const BETWEEN: u16 = 3;

/// A line for each row, however wide. The blanks at its end stay: whoever paints a cell finds it where it stands.
pub fn lines<'a, R: IntoIterator<Item = &'a str>>(rows: impl IntoIterator<Item = R>) -> Vec<String> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut number = 0;
    for row in rows {
        let mut row = Row::from(row);
        // However wide: nobody's words begin a line of their own.
        row.max_height(1);
        table.add_row(row);
        number += 1;
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, BETWEEN));
    }
    table.lines().take(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["NODE", "WHY"], ["worker-10", "x"], ["\u{65e5}\u{672c}", ""]];
        let lines = lines(rows);
        let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        assert_eq!(lines, ["NODE        WHY", "worker-10   x", "\u{65e5}\u{672c}"]);
        assert!(super::lines(Vec::<Vec<&str>>::new()).is_empty());
    }
}
