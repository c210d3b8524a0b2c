//! The table of a tree's structure, one line a crate.

use crate::{Crate, MAX_LINES};

/// Median, ninth decile and maximum.
fn spread(mut numbers: Vec<usize>) -> String {
    numbers.sort_unstable();
    let Some(last) = numbers.len().checked_sub(1) else {
        return "-".to_owned();
    };
    let at = |tenths: usize| numbers[last * tenths / 10];
    format!("{} / {} / {}", at(5), at(9), at(10))
}

/// The header of the table.
const HEADER: [&str; 8] = [
    "crate",
    "files / lines",
    "file median / p90 / max",
    "fn median / p90 / max",
    "fns >60",
    "panics per 1,000",
    "files in cycles",
    "predicates with &mut",
];

/// The numbers of one crate.
fn row(of: &Crate) -> [String; 8] {
    let lines: usize = of.files.iter().map(|file| file.lines).sum();
    let long = of.functions.iter().filter(|function| function.lines > MAX_LINES);
    let per_mille = of.panics * 10_000 / lines.max(1);
    let cycles: Vec<String> = of.cycles().iter().map(|cycle| cycle.len().to_string()).collect();
    [
        of.name.clone(),
        format!("{} / {}.{}k", of.files.len(), lines / 1000, lines % 1000 / 100),
        spread(of.files.iter().map(|file| file.lines).collect()),
        spread(of.functions.iter().map(|function| function.lines).collect()),
        long.count().to_string(),
        format!("{}.{}", per_mille / 10, per_mille % 10),
        if cycles.is_empty() {
            "0".to_owned()
        } else {
            cycles.join(" + ")
        },
        of.writing_predicates().count().to_string(),
    ]
}

/// The table as Markdown, with columns of one width.
pub fn table(crates: &[Crate]) -> String {
    let mut rows = vec![HEADER.map(ToOwned::to_owned)];
    rows.extend(crates.iter().map(row));
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    rows.insert(1, std::array::from_fn(|column| "-".repeat(widths[column])));
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            text.extend(["| ", &format!("{cell:width$} ")]);
        }
        text.push_str("|\n");
    }
    text
}

/// Functions over [`MAX_LINES`], the longest first: one a line.
pub fn long_functions(of: &Crate) -> Vec<String> {
    let mut long: Vec<_> = of
        .functions
        .iter()
        .filter(|function| function.lines > MAX_LINES)
        .collect();
    long.sort_by_key(|function| std::cmp::Reverse(function.lines));
    long.iter()
        .map(|function| {
            let place = of.place(function.file, function.line);
            format!("{place}: {} has {} lines", function.name, function.lines)
        })
        .collect()
}

/// Functions named like questions that can write: one a line.
pub fn writing_predicates(of: &Crate) -> Vec<String> {
    of.writing_predicates()
        .map(|function| format!("{}: {}", of.place(function.file, function.line), function.name))
        .collect()
}
