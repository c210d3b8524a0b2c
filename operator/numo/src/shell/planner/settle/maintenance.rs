//! The status of a NodeMaintenance: what it is says `frontends/node_maintenance.rs`; here it is said when it is written, and what it says
//! anew is told by events.

use super::{
    outcome::Outcome,
    transitions::{ready_of, transitions},
};
use crate::{
    frontends::{conditions, node_maintenance as frontend},
    shell::{events::Published, planner::context::Context, status},
};
use numo_api::NodeMaintenanceStatus;
use numo_core::{
    Decision, Owner,
    action::{Event, EventAction},
};
use std::collections::{BTreeMap, BTreeSet};

/// The status of each maintenance as it was sent, and as the API server keeps it.
#[derive(Debug, Default)]
pub struct Maintenances(BTreeMap<Owner, (NodeMaintenanceStatus, NodeMaintenanceStatus)>);

impl Maintenances {
    /// Forgets owners that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        self.0.retain(|owner, _| owners.contains(owner));
    }

    /// Writes the status of a maintenance if it differs.
    pub async fn write(&mut self, context: &mut Context, owner: &Owner, decision: &Decision) -> Outcome {
        let Some(view) = context.store.observed.maintenances.get(owner).cloned() else {
            return Outcome::Same;
        };
        let now = context.now();
        let before = self.before(owner, &view.status);
        let mut status = frontend::status(&view, &decision.report, now);
        context.show(owner, decision, ready_of(&status.conditions));
        status.last_update.clone_from(&before.last_update);
        if status == before {
            return Outcome::Same;
        }
        if !context.fence.holds() {
            return Outcome::Withheld;
        }
        status.last_update = Some(conditions::seconds(now));
        let due = frontend::due(&before, &status, now);
        if now < due {
            return Outcome::Later(due);
        }
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write_maintenance(connection, store, owner, &view.uid, &status);
        if let Err(error) = written.await {
            return Outcome::Failed(error);
        }
        if let Some(kept) = context.store.observed.maintenances.get(owner) {
            let kept = kept.status.clone();
            self.0.insert(owner.clone(), (status.clone(), kept));
        }
        Outcome::Written {
            events: events(context, owner, &before, &status),
            again: None,
        }
    }

    /// The status as it was sent last, if it is still as the API server kept it: a CRD of another's may not keep all of what is
    /// written, and that is no reason to write it again.
    fn before(&self, owner: &Owner, found: &NodeMaintenanceStatus) -> NodeMaintenanceStatus {
        match self.0.get(owner) {
            Some((sent, kept)) if kept == found => sent.clone(),
            _ => found.clone(),
        }
    }
}

/// What is told of a maintenance whose status is another than before.
fn events(
    context: &Context,
    owner: &Owner,
    before: &NodeMaintenanceStatus,
    status: &NodeMaintenanceStatus,
) -> Vec<Published> {
    let said = frontend::transition(before, status);
    let said = said.map(|(reason, note, warning)| Event {
        node: None,
        warning,
        reason,
        action: EventAction::Drain,
        note: note.to_owned(),
    });
    let conditions = transitions(&before.conditions, &status.conditions);
    let told = said.into_iter().chain(conditions);
    told.filter_map(|event| context.publishable(owner, event))
        .collect()
}
