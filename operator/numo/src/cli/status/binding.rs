//! MutexBindings: how many owners each gates, and whether it gates at all.

use crate::cli::{
    live::Look,
    output::{self, Cell, Layout, Table},
};
use numo_api::Reason;
use numo_core::{binding, observed::BindingView};
use serde::Serialize;

/// One binding.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BindingLine {
    name: String,
    /// Kind of the owners, as given.
    kind: String,
    rules: Vec<String>,
    /// How many owners it selects.
    matched: usize,
    /// Whether it gates those.
    ready: bool,
    reason: Reason,
    message: String,
}

pub(super) fn bindings(look: &Look) -> Vec<BindingLine> {
    let observed = &look.store.observed;
    let line = |(name, view): (&String, &BindingView)| {
        let (ready, why, owners) = binding::state(view, observed);
        let rules = view.spec.settings.rules.iter().flatten();
        BindingLine {
            name: name.clone(),
            kind: view.spec.owner_selector.kind.clone(),
            rules: rules.filter_map(|rule| rule.name.clone()).collect(),
            matched: owners.len(),
            ready,
            reason: why.reason,
            message: why.message.to_string(),
        }
    };
    observed.bindings.iter().map(line).collect()
}

/// The table; nothing without bindings.
pub(super) fn shown(lines: &[BindingLine], output: Layout) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let message = if output.is_wide { "MESSAGE" } else { "" };
    let mut table = Table::new(
        0,
        ["BINDING", "KIND", "RULES", "MATCHED", "READY", "REASON", message],
        output,
    );
    for line in lines {
        let gates = line.ready && line.matched > 0;
        let painted = |text: String| {
            if gates {
                text.into()
            } else {
                Cell::painted(text, output::bad())
            }
        };
        table.row([
            line.name.as_str().into(),
            line.kind.as_str().into(),
            if line.rules.is_empty() {
                "-".into()
            } else {
                line.rules.join(",").into()
            },
            painted(line.matched.to_string()),
            line.ready.to_string().into(),
            painted(line.reason.name().to_owned()),
            if output.is_wide {
                line.message.as_str().into()
            } else {
                "".into()
            },
        ]);
    }
    table.text()
}
