//! NodeMaintenances.

use super::{
    message::{SHOWN, shortened},
    order::{self, ApprovalLine, HoursLine, WaveLine, ready_since},
};
use crate::cli::{
    live::{Look, ago, maintenance_words},
    maintained,
    output::{self, Cell, Layout, Table},
};
use numo_api::{Reason, Step};
use numo_core::{observed::MaintenanceView, report::Report};
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MaintenanceLine {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) node: String,
    pub(super) phase: Option<String>,
    pub(super) drained_percent: i64,
    /// None before the drain has begun.
    pub(super) pods_left: Option<usize>,
    pub(super) created: String,
    /// When the status of its condition Ready last changed: since when it is done, or is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    pub(super) reason: Option<Reason>,
    pub(super) message: String,
    /// How the hours stand that its MutexBindings give it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hours: Vec<HoursLine>,
    /// The wave under way, of those that its MutexBindings give it.
    #[serde(skip_serializing_if = "Option::is_none")]
    wave: Option<WaveLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<ApprovalLine>,
}

impl MaintenanceLine {
    pub(super) fn of(look: &Look, view: &MaintenanceView) -> Self {
        let (reason, message) = maintenance_words(look, view);
        let group = view.owner.kind.api_version();
        // One that is over waits for nothing of this, and need not be decided.
        let is_over = view.deleting || view.status.phase.as_deref() == Some("Succeeded");
        let report = (!is_over).then(|| maintained::decision(look, &view.owner).report);
        let report = report.as_ref();
        let is_waiting = |report: &Report| report.nodes.values().any(|node| node.step == Step::Selected);
        Self {
            name: view.owner.key.name.clone(),
            group: group.split('/').next().unwrap_or_default().to_owned(),
            node: view.spec.node_name.clone(),
            phase: view.status.phase.clone(),
            drained_percent: view.status.drain_progress.unwrap_or(0),
            pods_left: view
                .status
                .phase
                .as_ref()
                .map(|_| view.status.pending_pods.as_ref().map_or(0, Vec::len)),
            created: view.created.to_string(),
            since: ready_since(&view.status.conditions),
            reason,
            message,
            hours: report
                .filter(|report| is_waiting(report))
                .map_or_else(Vec::new, |_| HoursLine::of(look, &view.owner)),
            wave: report.and_then(|report| report.wave.as_ref()).map(WaveLine::of),
            approval: report
                .and_then(|report| report.approval.as_ref())
                .map(ApprovalLine::of),
        }
    }

    /// When, in what order and with whose word it begins, a line each.
    fn order(&self) -> Vec<String> {
        order::lines(&self.hours, self.wave.as_ref(), self.approval.as_ref())
    }
}

/// When, in what order and with whose word those begin that wait, as many as are shown.
fn orders(lines: &[MaintenanceLine]) -> String {
    let mut text = String::new();
    let each = lines.iter().map(|line| (&line.name, line.order()));
    let waiting: Vec<_> = each.filter(|(_, order)| !order.is_empty()).collect();
    for (name, order) in waiting.iter().take(SHOWN) {
        let _ = writeln!(text, "  {name}");
        for words in order {
            let _ = writeln!(text, "    {words}");
        }
    }
    if waiting.len() > SHOWN {
        let more = waiting.len() - SHOWN;
        let _ = writeln!(text, "  and {more} more wait (-o json)");
    }
    text
}

pub(super) fn maintained(lines: &[MaintenanceLine], look: &Look, output: Layout) -> String {
    let heads = [
        "MAINTENANCE",
        "NODE",
        "PHASE",
        "DRAINED",
        "PODS-LEFT",
        "SINCE",
        "REASON",
        "MESSAGE",
    ];
    let mut table = Table::new(0, heads, output);
    for line in lines {
        let reason = line.reason.map_or_else(
            || "-".into(),
            |reason| Cell::painted(reason.name(), output::of_reason(reason)),
        );
        table.row([
            line.name.as_str().into(),
            line.node.as_str().into(),
            line.phase.as_deref().unwrap_or("-").into(),
            format!("{}%", line.drained_percent).into(),
            line.pods_left
                .map_or_else(|| "-".to_owned(), |left| left.to_string())
                .into(),
            ago(line.since.as_deref().or(Some(&line.created)), look.now).into(),
            reason,
            shortened(&line.message, output).into(),
        ]);
    }
    table.text() + &orders(lines)
}
