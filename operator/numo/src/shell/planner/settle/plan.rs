//! The status of a Plan: what it is says `frontends/plan.rs`; here it is said when it is written, and what it says anew is told by
//! events.

use super::outcome::Outcome;
use crate::{
    frontends::plan as frontend,
    shell::{events::Published, planner::context::Context, status},
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{PlanStatus, conditions::types};
use numo_core::{
    Decision, Owner,
    action::{Event, EventAction},
    observed::{Key, PlanView},
};
use std::collections::{BTreeMap, BTreeSet};

/// How long a status that differs in words only waits after the one before it.
const WORDS: SignedDuration = SignedDuration::from_secs(5);

/// When the status of each Plan was written last.
#[derive(Debug, Default)]
pub struct Plans(BTreeMap<Key, Timestamp>);

impl Plans {
    /// Forgets Plans that are gone.
    pub fn keep_only(&mut self, owners: &BTreeSet<Owner>) {
        let is_there = |key: &Key| owners.contains(&Owner::plan(key.clone()));
        self.0.retain(|key, _| is_there(key));
    }

    /// Writes the status of a Plan if it differs.
    pub async fn write(&mut self, context: &mut Context, owner: &Owner, decision: &Decision) -> Outcome {
        let Some((view, status)) = due(context, owner, decision) else {
            return Outcome::Same;
        };
        if !context.fence.holds() {
            return Outcome::Withheld;
        }
        let now = context.now();
        // What differs in words only can wait: a drain says something new of every pod.
        let last = self.0.get(&owner.key).copied();
        let due = last.and_then(|last| last.checked_add(WORDS).ok());
        if let Some(due) = due.filter(|due| now < *due)
            && frontend::is_the_same_but_for_words(&view.status, &status)
        {
            return Outcome::Later(due);
        }
        self.0.insert(owner.key.clone(), now);
        let (connection, store) = (&context.connection, &mut context.store);
        let written = status::write_plan(connection, store, &owner.key, &view.uid, &status);
        match written.await {
            Err(error) => Outcome::Failed(error),
            Ok(()) => Outcome::Written {
                events: events(context, owner, &view, &status),
                again: None,
            },
        }
    }
}

/// The status of a Plan, if it differs from the one that is there.
pub fn due(context: &Context, owner: &Owner, decision: &Decision) -> Option<(PlanView, PlanStatus)> {
    let view = context.store.observed.plans.get(&owner.key).cloned()?;
    let status = frontend::status(&view, &decision.report, context.now());
    context.show(owner, decision, ready_of(&status));
    (status != view.status).then_some((view, status))
}

/// The reason of Ready, and whether there is a Stalled.
fn ready_of(status: &PlanStatus) -> (Option<&str>, bool) {
    let conditions = status.conditions.iter().flatten();
    let ready = conditions.clone().find(|one| one.type_ == types::READY);
    let stalled = conditions.clone().any(|one| one.type_ == types::STALLED);
    (ready.and_then(|one| one.reason.as_deref()), stalled)
}

/// What is told of a Plan whose status is another than before.
pub fn events(context: &Context, owner: &Owner, view: &PlanView, status: &PlanStatus) -> Vec<Published> {
    let transitions = frontend::transitions(view, &view.status, status);
    let events = transitions.into_iter().map(|(reason, note, warning)| Event {
        node: None,
        warning,
        reason,
        action: EventAction::Change,
        note,
    });
    events
        .filter_map(|event| context.publishable(owner, event))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_gone_is_forgotten() {
        let key = |name: &str| Key::new("system-upgrade", name);
        let mut plans = Plans([(key("gone"), Timestamp::MIN), (key("there"), Timestamp::MIN)].into());
        plans.keep_only(&[Owner::plan(key("there"))].into());
        assert_eq!(plans.0.keys().collect::<Vec<_>>(), [&key("there")]);
    }
}
