//! What a person should know of nodes that did not come to the version as their owner asks. Pure.

use numo_api::{Reason, Step};
use numo_core::{
    report::{NodeReport, Report},
    text::counted,
};

/// `1 node was`, `2 nodes were`.
fn verbed(count: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        counted(count, "node"),
        if count == 1 { one } else { many }
    )
}

/// Reasons of an owner that is over and short of nodes, until a person acknowledges that.
pub const SHORT: [Reason; 2] = [Reason::NodesLeftOut, Reason::NodesUngated];
/// Nodes that are named with what is to be said of each.
const TOLD: usize = 5;
/// Nodes beyond those that are named.
const NAMED: usize = 50;

/// Nodes by name: the first few with what is to be said of each, and where to read that of the others.
fn of(nodes: &[(&str, String)]) -> String {
    let (told, others) = nodes.split_at(nodes.len().min(TOLD));
    let told: Vec<String> = told
        .iter()
        .map(|(name, words)| format!("{name} ({words})"))
        .collect();
    let told = told.join(", ");
    if others.is_empty() {
        return told;
    }
    let named: Vec<&str> = others.iter().take(NAMED).map(|(name, _)| *name).collect();
    let rest = match others.len() - named.len() {
        0 => String::new(),
        rest => format!(", and {rest} more"),
    };
    let (count, named) = (others.len(), named.join(", "));
    format!("{told}, and {count} more, of which `numo explain` of the owner says why: {named}{rest}")
}

/// How an owner stands none of whose nodes is left to change. Nobody is to read success where nodes were left out, or changed without
/// their rules, unless a person has acknowledged that.
pub fn ended(report: &Report) -> (Reason, String) {
    match shortfall(report) {
        Some((_, words)) if report.acknowledged => (Reason::Succeeded, format!("acknowledged: {words}")),
        Some(said) => said,
        None => (Reason::UpToDate, Reason::UpToDate.meaning().to_owned()),
    }
}

/// The nodes that were left out.
pub fn left_out(report: &Report) -> impl Iterator<Item = (&str, &NodeReport)> {
    let nodes = report.nodes.iter();
    let left_out = nodes.filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed));
    left_out.map(|(name, node)| (name.as_str(), node))
}

/// What keeps an owner's run from being a success: nodes that were left out and why, and nodes that changed without their rules.
pub fn shortfall(report: &Report) -> Option<(Reason, String)> {
    let left_out =
        left_out(report).map(|(name, node)| (name, format!("{}: {}", node.why.reason, node.why.message)));
    let left_out: Vec<(&str, String)> = left_out.collect();
    let mut words = Vec::new();
    if !left_out.is_empty() {
        words.push(format!(
            "{} left out: {}",
            verbed(left_out.len(), "was", "were"),
            of(&left_out)
        ));
    }
    if !report.ungated.is_empty() {
        let count = report.ungated.len();
        let named = report
            .ungated
            .iter()
            .map(|(name, why)| (name.as_str(), why.clone()));
        let named: Vec<(&str, String)> = named.collect();
        words.push(format!(
            "{} changed without {} rules: {}",
            counted(count, "node"),
            if count == 1 { "its" } else { "their" },
            of(&named)
        ));
    }
    let reason = if report.ungated.is_empty() {
        Reason::NodesLeftOut
    } else {
        Reason::NodesUngated
    };
    (!words.is_empty()).then(|| (reason, words.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::why::Why;

    fn left(count: usize) -> Report {
        let node = NodeReport {
            pool: "worker".into(),
            step: Step::Skipped,
            why: Why::new(Reason::LeftOutNotReady, "it is dark"),
            since: None,
            change: None,
        };
        let nodes = (1..=count).map(|number| (format!("n{number:03}"), node.clone()));
        Report {
            nodes: nodes.collect(),
            ..Report::default()
        }
    }

    #[test]
    fn every_node_that_was_left_out_is_counted_and_named_up_to_a_bound() {
        let said = |count: usize| shortfall(&left(count)).unwrap().1;
        assert_eq!(shortfall(&left(0)), None);
        assert_eq!(
            said(2),
            "2 nodes were left out: n001 (LeftOutNotReady: it is dark), n002 (LeftOutNotReady: it is dark)"
        );
        let seven = said(7);
        assert!(seven.starts_with("7 nodes were left out: n001 ("), "{seven}");
        let end = "n005 (LeftOutNotReady: it is dark), and 2 more, of which `numo explain` of the owner says why: n006, n007";
        assert!(seven.ends_with(end), "{seven}");
        let many = said(400);
        assert!(many.starts_with("400 nodes were left out: "), "{many}");
        assert!(many.ends_with("n055, and 345 more"), "{many}");
        assert!(many.len() < 1000, "{many}");
    }

    #[test]
    fn an_owner_that_is_over_is_short_of_nodes_until_that_is_acknowledged() {
        assert_eq!(ended(&left(0)).0, Reason::UpToDate);
        let mut report = left(1);
        assert_eq!(ended(&report).0, Reason::NodesLeftOut);
        report.acknowledged = true;
        let (reason, words) = ended(&report);
        assert_eq!(reason, Reason::Succeeded);
        assert!(
            words.starts_with("acknowledged: 1 node was left out: n001 ("),
            "{words}"
        );
    }
}
