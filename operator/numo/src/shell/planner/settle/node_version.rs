//! The status of a NodeVersion: what it is says `frontends/node_version.rs`; here it is written, and what it says anew is told by events.

use super::{
    outcome::Outcome,
    transitions::{ready_of, transitions},
};
use crate::{
    frontends::node_version as frontend,
    shell::{kind::Kind, planner::context::Context, status},
};
use numo_core::{Decision, Owner};

/// Writes the status of a NodeVersion if it differs.
pub async fn write(context: &mut Context, owner: &Owner, decision: &Decision) -> Outcome {
    let versions = &context.store.observed.fleet.versions;
    let Some(view) = versions.get(&owner.key.name).cloned() else {
        return Outcome::Same;
    };
    let status = frontend::status(&view, &decision.report, context.now());
    context.show(owner, decision, ready_of(&status.conditions));
    if status == view.status {
        return Outcome::Same;
    }
    if !context.fence.holds() {
        return Outcome::Withheld;
    }
    let (connection, store) = (&context.connection, &mut context.store);
    let written = status::write(
        connection,
        store,
        Kind::NodeVersion,
        &owner.key,
        &view.uid,
        &status,
    );
    if let Err(error) = written.await {
        return Outcome::Failed(error);
    }
    let told = transitions(&view.status.conditions, &status.conditions);
    let events = told
        .into_iter()
        .filter_map(|event| context.publishable(owner, event));
    Outcome::Written {
        events: events.collect(),
        again: None,
    }
}
