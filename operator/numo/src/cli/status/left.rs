//! Marks whose owner is gone.

use super::message::SHOWN;
use crate::cli::{
    live::{self, Look},
    output::{self, Cell, Layout, Table},
};
use numo_api::Reason;
use numo_core::left;
use serde::Serialize;
use std::fmt::Write as _;

/// A mark whose owner is gone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeftLine {
    pub(super) object: String,
    pub(super) mark: String,
    pub(super) owner: Option<String>,
    pub(super) reason: Reason,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_nodes: Option<usize>,
    pub(super) commands: Vec<String>,
}

/// What was left behind by owners that are gone. Who cannot see all owners cannot tell who is gone.
pub(super) fn left_behind(look: &Look) -> Vec<LeftLine> {
    if !live::sees_all_owners(&look.unseen) {
        return Vec::new();
    }
    let found = left::orphans(&look.store.observed).into_iter();
    found
        .map(|one| {
            let (reason, message) = one.said();
            LeftLine {
                object: one.left.object,
                mark: one.left.mark,
                owner: one.owner.map(|key| key.to_string()),
                reason,
                message,
                held_nodes: one.held_nodes,
                commands: one.commands,
            }
        })
        .collect()
}

pub(super) fn shown_left(lines: &[LeftLine], output: Layout) -> String {
    let shown = if output.is_wide { usize::MAX } else { SHOWN };
    let mut table = Table::new(
        0,
        ["LEFT BEHIND", "MARK", "REASON", "OWNER", "WOULD-ROLL"],
        output,
    );
    for line in lines.iter().take(shown) {
        let mark = line.mark.rsplit('/').next().unwrap_or(&line.mark);
        let held = line
            .held_nodes
            .map_or_else(|| "-".to_owned(), |held| held.to_string());
        table.row([
            line.object.as_str().into(),
            mark.into(),
            Cell::painted(line.reason.name(), output::of_reason(line.reason)),
            match &line.owner {
                Some(owner) => format!("{owner} (gone)"),
                // Whose it is cannot be read.
                None if line.reason == Reason::MarkUnreadable => "-".to_owned(),
                None => "gone".to_owned(),
            }
            .into(),
            held.into(),
        ]);
    }
    let mut text = table.text();
    for command in lines.iter().take(shown).flat_map(|line| &line.commands) {
        let _ = writeln!(text, "  do      {command}");
    }
    if lines.iter().any(|line| line.reason == Reason::PoolHeld) {
        let _ = writeln!(
            text,
            "  or      apply a MutexRunConfig with that pool among its targets: it takes the pool over"
        );
    }
    if lines.len() > shown {
        let _ = writeln!(text, "  and {} more (-o wide)", lines.len() - shown);
    }
    text
}
