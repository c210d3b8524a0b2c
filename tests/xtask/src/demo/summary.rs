//! What is said at the end: where the time went, what was waited for, and which versions run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use console::measure_text_width;
use jiff::Timestamp;
use numo_api::Reason;

use crate::timeline::{Part, Span, idle};

/// The times of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// The node.
    pub node: String,
    /// Until its turn began.
    pub waited: Duration,
    /// In each part, in seconds.
    pub parts: BTreeMap<Part, f64>,
    /// Of its turn, in none of the parts: numo's own.
    pub own: f64,
    /// Its turn.
    pub total: f64,
}

/// The times of every node that had its turn, in the order of turns. What still goes on ends at `now`.
pub fn times(
    spans: &[Span],
    waits: &BTreeMap<(String, Reason), Duration>,
    nodes: &[String],
    now: Timestamp,
) -> Vec<Times> {
    let mut all: Vec<(Timestamp, Times)> = Vec::new();
    for node in nodes {
        let own: Vec<&Span> = spans.iter().filter(|span| span.node == *node).collect();
        let Some(first) = own.iter().map(|span| span.from).min() else {
            continue;
        };
        let end = |span: &Span| span.to.unwrap_or(now);
        let last = own.iter().map(|span| end(span)).max().unwrap_or(first);
        let mut parts: BTreeMap<Part, f64> = BTreeMap::new();
        for span in &own {
            let time = end(span).duration_since(span.from);
            *parts.entry(span.part.clone()).or_default() += time.as_secs_f64();
        }
        let busy = own.iter().map(|span| (span.from, end(span)));
        let waited = waits
            .iter()
            .filter(|((of, _), _)| of == node)
            .map(|(_, time)| *time);
        all.push((
            first,
            Times {
                node: node.clone(),
                waited: waited.sum(),
                parts,
                own: idle(first, last, busy).as_secs_f64(),
                total: last.duration_since(first).as_secs_f64(),
            },
        ));
    }
    all.sort_by_key(|(first, _)| *first);
    all.into_iter().map(|(_, times)| times).collect()
}

/// The times as a table: numbers to the right.
pub fn time_table(times: &[Times]) -> Vec<String> {
    let parts: BTreeSet<&Part> = times.iter().flat_map(|times| times.parts.keys()).collect();
    let mut parts: Vec<&Part> = parts.into_iter().collect();
    parts.sort_by_key(|part| match part {
        Part::Rule { phase, .. } => i32::from(phase == "Post") * 2,
        Part::Change => 1,
        Part::Home => 3,
    });
    let mut head = vec!["NODE".to_owned(), "WAITED".to_owned()];
    let rules: BTreeSet<&str> = parts.iter().filter_map(|part| rule_name(part)).collect();
    head.extend(parts.iter().map(|part| heading(part, rules.len() > 1)));
    head.extend(["NUMO".to_owned(), "TURN".to_owned()]);
    let mut rows = vec![head];
    for node in times {
        let mut row = vec![node.node.clone(), seconds(node.waited.as_secs_f64())];
        row.extend(parts.iter().map(|part| {
            let time = node.parts.get(*part);
            time.map_or_else(|| "-".to_owned(), |time| seconds(*time))
        }));
        row.extend([seconds(node.own), seconds(node.total)]);
        rows.push(row);
    }
    align(&rows, 1)
}

fn rule_name(part: &Part) -> Option<&str> {
    match part {
        Part::Rule { rule, .. } => rule.rsplit('/').next(),
        Part::Change | Part::Home => None,
    }
}

/// Of a single rule the phase says enough.
fn heading(part: &Part, several: bool) -> String {
    let name = match part {
        Part::Change => "CHANGE",
        Part::Home => "HOME",
        Part::Rule { phase, .. } if phase == "Pre" => "BEFORE",
        Part::Rule { phase, .. } if phase == "Post" => "AFTER",
        Part::Rule { phase, .. } => phase,
    };
    match rule_name(part).filter(|_| several) {
        Some(rule) => format!("{name} {rule}"),
        None => name.to_owned(),
    }
}

/// What was waited for: one line per reason, the longest first.
pub fn wait_lines(waits: &BTreeMap<(String, Reason), Duration>) -> Vec<String> {
    let mut by_reason: BTreeMap<Reason, Vec<(&str, Duration)>> = BTreeMap::new();
    let long_enough = waits.iter().filter(|(_, time)| **time >= Duration::from_secs(1));
    for ((node, reason), time) in long_enough {
        by_reason.entry(*reason).or_default().push((node, *time));
    }
    let mut all: Vec<(Duration, Vec<String>)> = by_reason
        .into_iter()
        .map(|(reason, nodes)| {
            let longest = nodes.iter().map(|(_, time)| *time).max().unwrap_or_default();
            let who = match nodes.as_slice() {
                [(one, _)] => (*one).to_owned(),
                more => more.len().to_string(),
            };
            let row = vec![
                reason.name().to_owned(),
                who,
                seconds(longest.as_secs_f64()),
                // What follows the comma says when.
                reason
                    .who()
                    .phrase()
                    .split(',')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            ];
            (longest, row)
        })
        .collect();
    all.sort_by_key(|(longest, _)| std::cmp::Reverse(*longest));
    if all.is_empty() {
        return Vec::new();
    }
    let head = ["REASON", "NODES", "LONGEST", "WHO ENDS IT"].map(ToOwned::to_owned);
    let rows = std::iter::once(head.to_vec()).chain(all.into_iter().map(|(_, row)| row));
    align(&rows.collect::<Vec<_>>(), usize::MAX)
}

/// Versions with how many nodes run them, the newest last.
pub fn version_lines(versions: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_version: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, version) in versions {
        by_version.entry(version).or_default().push(node);
    }
    let rows: Vec<Vec<String>> = by_version
        .iter()
        .map(|(version, nodes)| {
            let names = match nodes.as_slice() {
                all if all.len() == versions.len() => String::new(),
                [first, second, third, _, _, ..] => format!("{first}, {second}, {third}, …"),
                few => few.join(", "),
            };
            vec![
                (*version).to_owned(),
                format!("{} of {} nodes", nodes.len(), versions.len()),
                names,
            ]
        })
        .collect();
    align(&rows, usize::MAX)
}

/// Seconds with one digit after the point.
pub fn seconds(time: f64) -> String {
    format!("{time:.1} s")
}

/// Columns three spaces apart; those from `numbers` on are aligned to the right.
fn align(rows: &[Vec<String>], numbers: usize) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths[column];
            if column >= numbers {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        let cells: Vec<String> = cells.collect();
        cells.join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn rule(phase: &str) -> Part {
        Part::Rule {
            rule: "ns/check".into(),
            phase: phase.into(),
        }
    }

    fn span(node: &str, part: Part, from: i64, to: Option<i64>) -> Span {
        Span {
            node: node.into(),
            part,
            from: at(from),
            to: to.map(at),
        }
    }

    #[test]
    fn time_of_a_turn_is_parted_without_rest() {
        let spans = [
            span("b", rule("Pre"), 30, None),
            span("a", rule("Pre"), 10, Some(12)),
            span("a", Part::Change, 13, Some(20)),
            span("a", rule("Post"), 21, Some(23)),
        ];
        let waits = BTreeMap::from([
            (("b".to_owned(), Reason::WaitingForTurn), Duration::from_secs(20)),
            (("b".to_owned(), Reason::CordonedByOther), Duration::from_secs(5)),
        ]);
        let nodes = ["b".to_owned(), "a".to_owned(), "c".to_owned()];
        let times = times(&spans, &waits, &nodes, at(34));
        assert_eq!(times.len(), 2);
        let (a, b) = (&times[0], &times[1]);
        assert_eq!((a.node.as_str(), a.total, a.own), ("a", 13.0, 2.0));
        let parts: f64 = a.parts.values().sum();
        assert!((parts + a.own - a.total).abs() < 1e-9);
        assert_eq!((b.total, b.waited), (4.0, Duration::from_secs(25)));
    }

    #[test]
    fn table_has_a_column_for_each_part_in_the_order_of_the_steps() {
        let spans = [
            span("a", rule("Post"), 21, Some(23)),
            span("a", Part::Change, 13, Some(20)),
            span("a", rule("Pre"), 10, Some(12)),
        ];
        let times = times(&spans, &BTreeMap::new(), &["a".to_owned()], at(34));
        let table = time_table(&times);
        assert_eq!(
            table,
            [
                "NODE   WAITED   BEFORE   CHANGE   AFTER    NUMO     TURN",
                "a       0.0 s    2.0 s    7.0 s   2.0 s   2.0 s   13.0 s",
            ]
        );
    }

    #[test]
    fn waits_name_who_can_end_them() {
        let waits = BTreeMap::from([
            (("a".to_owned(), Reason::WaitingForTurn), Duration::from_secs(3)),
            (("b".to_owned(), Reason::WaitingForTurn), Duration::from_secs(9)),
            (("b".to_owned(), Reason::CordonedByOther), Duration::from_secs(20)),
            (("c".to_owned(), Reason::Admitting), Duration::from_millis(300)),
        ]);
        assert_eq!(
            wait_lines(&waits),
            [
                "REASON            NODES   LONGEST   WHO ENDS IT",
                "CordonedByOther   b       20.0 s    a cluster administrator",
                "WaitingForTurn    2       9.0 s     the nodes in flight",
            ]
        );
    }
}
