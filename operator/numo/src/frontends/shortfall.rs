//! What a person should know of nodes that did not come to the version as their owner asks. Pure.

use numo_api::{Reason, Step};
use numo_core::{report::Report, text::counted};

/// `1 node was`, `2 nodes were`.
fn verbed(count: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        counted(count, "node"),
        if count == 1 { one } else { many }
    )
}

/// What keeps an owner's run from being a success: nodes that were left out and why, and nodes that changed without their rules.
pub fn shortfall(report: &Report) -> Option<(Reason, String)> {
    const NAMED: usize = 5;
    let left_out = report
        .nodes
        .iter()
        .filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed));
    let left_out: Vec<String> = left_out
        .map(|(name, node)| format!("{name} ({}: {})", node.why.reason, node.why.message))
        .collect();
    let of = |names: &[String]| {
        let more = if names.len() > NAMED { " and others" } else { "" };
        format!(
            "{}{more}",
            names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ")
        )
    };
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
        let named = report.ungated.iter().map(|(name, why)| format!("{name} ({why})"));
        let named: Vec<String> = named.collect();
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
