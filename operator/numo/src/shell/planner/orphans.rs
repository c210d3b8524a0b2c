//! Marks whose owner is gone: they are shown in the metrics, and each is told once, as nobody else looks after them. Nothing here takes
//! a mark off.

use super::context::Context;
use crate::shell::events::Published;
use numo_core::{
    action::{Event, EventAction},
    left::{self, Orphan},
};
use std::collections::BTreeSet;

/// The marks whose owner is gone that were told.
#[derive(Debug, Default)]
pub struct Orphans {
    /// Object, mark and owner of each.
    told: BTreeSet<(String, String, String)>,
}

impl Orphans {
    /// Shows marks whose owner is gone, and tells each once.
    pub fn tell(&mut self, context: &Context) {
        let found = left::orphans(&context.store.observed);
        context.metrics.show_left(&found);
        self.told
            .retain(|told| found.iter().any(|one| name(one) == *told));
        for one in found {
            if self.told.insert(name(&one)) {
                publish(context, one);
            }
        }
    }
}

/// What tells one mark from another.
fn name(one: &Orphan) -> (String, String, String) {
    let left = &one.left;
    (left.object.clone(), left.mark.clone(), left.owner.clone())
}

/// Publishes an event on the object that has the mark.
fn publish(context: &Context, one: Orphan) {
    let (reason, note) = one.said();
    tracing::warn!(
        object = one.left.object,
        mark = one.left.mark,
        note,
        "the owner of a mark is gone"
    );
    context.events.publish(Published {
        api_version: one.on.api_version.to_owned(),
        kind: one.on.kind,
        owner: one.on.key,
        owner_uid: one.on.uid,
        pool: None,
        node_uid: None,
        event: Event {
            node: None,
            warning: true,
            reason: reason.name(),
            action: EventAction::Hold,
            note,
        },
    });
}
