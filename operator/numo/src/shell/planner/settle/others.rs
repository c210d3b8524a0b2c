//! The statuses of what is no owner: rules and targets, budgets, windows, bindings. What each says comes from its frontend; here it is
//! written if it differs. There are few budgets, windows and bindings, and all of theirs are written at once.

use super::{
    announce::{Changed, Refused},
    line::Line,
};
use crate::{
    frontends,
    shell::{kind::Kind, planner::context::Context, status},
};
use jiff::Timestamp;
use numo_core::{admit::windows, ledger::Ledger, observed::Key};
use std::time::Duration;

/// The statuses that are still to be written, and those that were refused.
#[derive(Debug, Default)]
pub struct Others {
    line: Line,
    refused: Refused,
    /// When a window opens or closes next.
    turns_at: Option<Timestamp>,
}

impl Others {
    /// Whether no rule or target waits for its status.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// When something is to be written next, if nothing changes.
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        if !self.is_empty() {
            return Some(Duration::ZERO);
        }
        let left = self.turns_at?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or_default())
    }

    /// Notes the rules and targets whose status differs, and writes what may be written in one pass.
    pub async fn settle(&mut self, context: &mut Context) {
        self.line.line_up(context);
        self.write(context).await;
    }

    /// Writes the status of every budget, window and binding that differs, and of the first few rules and targets that wait.
    pub async fn write(&mut self, context: &mut Context) {
        self.line.write(context, &mut self.refused).await;
        write_budgets(context, &mut self.refused).await;
        self.turns_at = windows::changes_after(&context.store.observed, context.now());
        write_windows(context, &mut self.refused).await;
        write_bindings(context, &mut self.refused).await;
    }
}

/// Writes the status of every budget that differs.
async fn write_budgets(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    if observed.budgets.is_empty() {
        return;
    }
    let uses = Ledger::of(observed, now).uses();
    let budgets = observed.budgets.values();
    let due: Vec<_> = budgets
        .map(|budget| (budget, frontends::mutex_budget::status(budget, &uses, now)))
        .filter(|(budget, status)| budget.status != *status)
        .map(|(budget, status)| (Key::new("", &budget.name), budget.uid.clone(), status))
        .collect();
    for (key, uid, status) in due {
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write(connection, store, Kind::MutexBudget, &key, &uid, &status).await;
        let changed = Changed {
            kind: Kind::MutexBudget,
            key: &key,
            uid: &uid,
            // No event tells of a budget's conditions.
            before: &[],
            after: &[],
        };
        refused.tell(&context.events, &changed, written);
    }
}

/// Writes the status of every window that differs.
async fn write_windows(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    let due: Vec<_> = observed
        .windows
        .values()
        .map(|view| {
            let status = frontends::mutex_window::status(view, observed.nodes.values(), now);
            (view, status)
        })
        .filter(|(view, status)| view.status != *status)
        .map(|(view, status)| (Key::new("", &view.name), view.clone(), status))
        .collect();
    for (key, view, status) in due {
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write(connection, store, Kind::MutexWindow, &key, &view.uid, &status).await;
        let changed = Changed {
            kind: Kind::MutexWindow,
            key: &key,
            uid: &view.uid,
            before: &view.status.conditions,
            after: &status.conditions,
        };
        refused.tell(&context.events, &changed, written);
    }
}

/// Writes the status of every binding that differs, and tells loudly which ones gate nothing.
async fn write_bindings(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    let due: Vec<_> = observed
        .bindings
        .iter()
        .map(|(name, view)| (name, view, frontends::mutex_binding::status(view, observed, now)))
        .filter(|(_, view, status)| view.status != *status)
        .map(|(name, view, status)| (Key::new("", name), view.clone(), status))
        .collect();
    for (key, view, status) in due {
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write(connection, store, Kind::MutexBinding, &key, &view.uid, &status).await;
        let changed = Changed {
            kind: Kind::MutexBinding,
            key: &key,
            uid: &view.uid,
            before: &view.status.conditions,
            after: &status.conditions,
        };
        refused.tell(&context.events, &changed, written);
    }
}
