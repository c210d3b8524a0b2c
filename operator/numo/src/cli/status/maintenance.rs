//! NodeMaintenances.

use super::message::shortened;
use crate::cli::{
    live::{Look, ago, maintenance_words},
    output::{self, Cell, Layout, Table},
};
use numo_api::Reason;
use numo_core::observed::MaintenanceView;
use serde::Serialize;

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
    pub(super) reason: Option<Reason>,
    pub(super) message: String,
}

impl MaintenanceLine {
    pub(super) fn of(look: &Look, view: &MaintenanceView) -> Self {
        let (reason, message) = maintenance_words(look, view);
        let group = view.owner.kind.api_version();
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
            reason,
            message,
        }
    }
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
            ago(Some(&line.created), look.now).into(),
            reason,
            shortened(&line.message, output).into(),
        ]);
    }
    table.text()
}
