//! The statuses of what is no owner: rules and targets, budgets, windows, bindings, approvals. What each says comes from its frontend;
//! here it is written if it differs. There are few budgets, windows and bindings, and all of theirs are written at once.

use super::{
    announce::{Changed, Refused},
    line::{Line, Sent},
};
use crate::{
    frontends,
    shell::{kind::Kind, planner::context::Context, status},
};
use jiff::Timestamp;
use numo_api::Condition;
use numo_core::{admit::windows, ledger::Ledger, observed::Key, unheard::Standing};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, time::Duration};

/// Statuses of approvals that are written at once: nobody takes away those of runs that are over.
const APPROVALS: usize = 50;

/// The statuses that are still to be written, and those that were refused.
#[derive(Debug, Default)]
pub struct Others {
    line: Line,
    refused: Refused,
    /// When a window opens or closes next.
    turns_at: Option<Timestamp>,
    /// Whether nothing could be written when it was to be: the leader lease was not sure.
    withheld: bool,
    /// Whether statuses of approvals are still to be written.
    more: bool,
}

impl Others {
    /// When something is to be written next, if nothing changes.
    pub fn next(&self, now: Timestamp) -> Option<Duration> {
        if self.withheld || self.more || self.line.can_send() {
            return Some(Duration::ZERO);
        }
        let left = self.turns_at?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or_default())
    }

    /// Notes the rules and targets whose status differs, and writes what may be written in one pass. `standings`: how approvals
    /// stand, by uid.
    pub async fn settle(&mut self, context: &mut Context, standings: &BTreeMap<String, Standing>) {
        self.line.line_up(context);
        self.write(context, standings).await;
    }

    /// The next status of a rule or target that the API server has answered; never, while none is under way. Nothing is lost if it is
    /// not waited for to the end.
    pub async fn answered(&mut self) -> Sent {
        self.line.answered().await
    }

    /// Takes in what the API server answered.
    pub fn take_in(&mut self, context: &mut Context, sent: Sent) {
        self.line.take_in(context, &mut self.refused, sent);
    }

    /// Writes the status of every budget, window and binding that differs, and of the first few approvals that wait; sends those of
    /// the first few rules and targets. While nothing may be written, all of them wait.
    pub async fn write(&mut self, context: &mut Context, standings: &BTreeMap<String, Standing>) {
        self.withheld = !context.fence.holds();
        if self.withheld {
            return;
        }
        self.line.send(context);
        write_budgets(context, &mut self.refused).await;
        self.turns_at = windows::changes_after(&context.store.observed, context.now());
        write_windows(context, &mut self.refused).await;
        write_bindings(context, &mut self.refused).await;
        self.more = write_approvals(context, &mut self.refused, standings).await;
    }
}

/// A status that is to be written.
struct Due<S> {
    key: Key,
    uid: String,
    /// The conditions as they were, and as they will be: an event tells of what turned wrong.
    conditions: (Vec<Condition>, Vec<Condition>),
    status: S,
}

/// Writes what is due, and tells what came of it; true if all was written.
async fn write_each<S: Serialize + DeserializeOwned>(
    context: &mut Context,
    refused: &mut Refused,
    kind: Kind,
    due: Vec<Due<S>>,
) -> bool {
    let mut is_all = true;
    for one in due {
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write(connection, store, kind, &one.key, &one.uid, &one.status).await;
        let changed = Changed {
            kind,
            key: &one.key,
            uid: &one.uid,
            before: &one.conditions.0,
            after: &one.conditions.1,
        };
        is_all &= written.is_ok();
        refused.tell(&context.events, &changed, written);
    }
    is_all
}

/// Writes the status of every budget that differs.
async fn write_budgets(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    if observed.budgets.is_empty() {
        return;
    }
    let uses = Ledger::of(observed, now).uses();
    let due = observed.budgets.values().filter_map(|view| {
        let status = frontends::mutex_budget::status(view, &uses, now);
        (view.status != status).then(|| Due {
            key: Key::new("", &view.name),
            uid: view.uid.clone(),
            // No event tells of a budget's conditions.
            conditions: (Vec::new(), Vec::new()),
            status,
        })
    });
    let due = due.collect();
    write_each(context, refused, Kind::MutexBudget, due).await;
}

/// Writes the status of every window that differs.
async fn write_windows(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    let due = observed.windows.values().filter_map(|view| {
        let status = frontends::mutex_window::status(view, observed.nodes.values(), now);
        (view.status != status).then(|| Due {
            key: Key::new("", &view.name),
            uid: view.uid.clone(),
            conditions: (view.status.conditions.clone(), status.conditions.clone()),
            status,
        })
    });
    let due = due.collect();
    write_each(context, refused, Kind::MutexWindow, due).await;
}

/// Writes the status of every binding that differs, and tells loudly which ones gate nothing.
async fn write_bindings(context: &mut Context, refused: &mut Refused) {
    let now = context.now();
    let observed = &context.store.observed;
    let due = observed.bindings.iter().filter_map(|(name, view)| {
        let status = frontends::mutex_binding::status(view, observed, now);
        (view.status != status).then(|| Due {
            key: Key::new("", name),
            uid: view.uid.clone(),
            conditions: (view.status.conditions.clone(), status.conditions.clone()),
            status,
        })
    });
    let due = due.collect();
    write_each(context, refused, Kind::MutexBinding, due).await;
}

/// Writes the status of the first few approvals that differ; true if there are more. After a refusal they wait for the next pass.
async fn write_approvals(
    context: &mut Context,
    refused: &mut Refused,
    standings: &BTreeMap<String, Standing>,
) -> bool {
    let now = context.now();
    let approvals = context.store.observed.approvals.values();
    let mut due = approvals.filter(|view| !view.deleting).filter_map(|view| {
        let status = frontends::mutex_approval::status(view, standings.get(&view.uid)?, now);
        (view.status != status).then(|| Due {
            key: Key::new("", &view.name),
            uid: view.uid.clone(),
            // An event of its own tells of one that approves nothing.
            conditions: (Vec::new(), Vec::new()),
            status,
        })
    });
    let first = due.by_ref().take(APPROVALS).collect();
    let are_more = due.next().is_some();
    write_each(context, refused, Kind::MutexApproval, first).await && are_more
}
