//! MutexWindows: which are open, and when each opens or closes.

use crate::cli::{
    live::Look,
    output::{self, Cell, Layout, Table},
};
use jiff::Timestamp;
use numo_core::{
    admit::{union::State, windows},
    observed::WindowView,
};
use serde::Serialize;

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WindowLine {
    name: String,
    /// Absent if the window cannot be understood: it lets nobody begin then.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    closes_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze: Option<String>,
    nodes: usize,
    /// As it was given, for people; what is wrong with it, where it cannot be understood.
    hours: String,
    /// The next time, as people at the place of the window read it.
    #[serde(skip)]
    next: String,
}

pub(super) fn windows(look: &Look) -> Vec<WindowLine> {
    let observed = &look.store.observed;
    let line = |view: &WindowView| {
        let state = windows::state(view, look.now);
        let state = state.as_ref();
        let (open, freeze) = (state.map(State::is_open), state.and_then(State::freeze));
        let (closes_at, opens_at) = (state.and_then(State::closes_at), state.and_then(State::opens_at));
        let clock = |at: Timestamp| {
            view.hours
                .as_ref()
                .map(|hours| hours.clock(at))
                .unwrap_or_default()
        };
        let next = match (open, closes_at, opens_at) {
            (_, Some(at), _) => format!("closes {}", clock(at)),
            (_, _, Some(at)) => format!("opens {}", clock(at)),
            (Some(true), ..) => "no end in sight".to_owned(),
            _ => "never opens".to_owned(),
        };
        WindowLine {
            name: view.name.clone(),
            open,
            closes_at,
            opens_at,
            freeze: freeze.map(|freeze| freeze.name.clone()),
            nodes: observed
                .nodes
                .values()
                .filter(|node| windows::covers(view, node))
                .count(),
            hours: match &view.hours {
                Ok(hours) => hours.to_string(),
                Err(problem) => format!("spec.{problem}"),
            },
            next,
        }
    };
    observed.windows.values().map(line).collect()
}

/// The table; nothing without windows.
pub(super) fn shown(lines: &[WindowLine], output: Layout) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let hours = if output.is_wide { "HOURS" } else { "" };
    let mut table = Table::new(0, ["WINDOW", "OPEN", "NEXT", "FREEZE", "NODES", hours], output);
    for line in lines {
        let open = match line.open {
            Some(true) => "true".into(),
            Some(false) => "false".into(),
            None => Cell::painted("invalid", output::bad()),
        };
        let hours = if output.is_wide { line.hours.as_str() } else { "" };
        table.row([
            line.name.as_str().into(),
            open,
            line.next.as_str().into(),
            line.freeze.as_deref().unwrap_or("-").into(),
            line.nodes.to_string().into(),
            hours.into(),
        ]);
    }
    table.text()
}
